"""The CPUs that this process may use."""

import os
from collections.abc import Collection
from typing import Self

from ssdbench.errors import HostLacks


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
