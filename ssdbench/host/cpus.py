"""Choose the CPUs of this process, and keep all CPUs out of deep idle states.

The kernel forgets the latency limit when its file is closed, so not even a kill leaves it behind
(Documentation/power/pm_qos_interface.rst).
"""

import os
import struct
from collections.abc import Collection
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


class Pinned:
    """This process on some CPUs, from `with` to its end; programs started meanwhile inherit them.

    An empty collection changes nothing. Raises HostLacks for CPUs that we may not use.
    """

    def __init__(self, cpus: Collection[int]) -> None:
        self._cpus = frozenset(cpus)
        self._was: set[int] = set()

    def __enter__(self) -> Self:
        self._was = os.sched_getaffinity(0)
        if self._cpus:
            try:
                os.sched_setaffinity(0, self._cpus)
            except OSError as error:
                wanted = ", ".join(str(cpu) for cpu in sorted(self._cpus))
                raise HostLacks(
                    f"ssdbench cannot use CPU {wanted}: {error.strerror}",
                    hint="Choose from the CPUs that `taskset -p $$` shows.",
                ) from error
        return self

    def __exit__(self, *exc: object) -> None:
        if self._cpus:
            os.sched_setaffinity(0, self._was)
