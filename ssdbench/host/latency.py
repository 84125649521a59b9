"""Keeps the CPUs out of deep idle states for as long as a file is open.

The kernel forgets the wish when the file is closed, so not even a kill leaves it behind
(Documentation/power/pm_qos_interface.rst).
"""

import os
import struct
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks

NODE = Path("/dev/cpu_dma_latency")


class LatencyHold:
    """Idle states that need longer than `us` to leave are not entered, from `with` to its end.

    Raises HostLacks where the kernel does not offer it or we are not root.
    """

    def __init__(self, us: int = 0, *, node: Path = NODE) -> None:
        self._us = us
        self._node = node
        self._descriptor = -1

    def __enter__(self) -> Self:
        try:
            self._descriptor = os.open(self._node, os.O_RDWR | os.O_CLOEXEC)
            os.write(self._descriptor, struct.pack("=i", self._us))
        except OSError as error:
            self._close()
            raise HostLacks(
                f"idle states cannot be limited: {self._node}: {error.strerror}",
                hint="Run as root, or set `idle: keep`.",
            ) from error
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
