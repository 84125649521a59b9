"""Keep other processes from inspecting the host while a measurement window counts.

Two files in the run directory are locked (flock(2)). An inspector takes a shared lock on the gate,
then on the room, and releases the gate. A run locks the gate exclusively, so that no inspector can
enter, and then the room after the last inspector has left; it waits only a short time for this. The
kernel releases the locks of a run that dies. The inspector is `ssdbench.fleet.hostscripts.look`.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ssdbench.errors import HostLacks
from ssdbench.foreign import open_own
from ssdbench.model.rundirectory import GATE, ROOM

MOST_WAIT_S = 6.0  # for inspectors to leave; then the window begins anyway
AGAIN_S = 0.05  # between two attempts to lock
LET_IN_S = 0.02  # time for the waiting inspectors to wake up


class HostLock:
    """Lock out inspectors of one run from `take` to `release`.

    Without a directory nothing is locked.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}  # descriptors
        self._held: set[str] = set()

    def take(self, wait_s: float = MOST_WAIT_S) -> bool:
        """Lock out new inspectors; return False if one is still inside after `wait_s`.

        Lock files that cannot be made count as locked.
        """
        if self._directory is None:
            return True
        until_s = time.monotonic() + wait_s
        while not (self._took(GATE) and self._took(ROOM)):
            if time.monotonic() >= until_s:
                return False
            time.sleep(AGAIN_S)
        return True

    def release(self) -> None:
        """Release the locks, so that waiting inspectors can start."""
        for name in (ROOM, GATE):
            if name in self._held:
                fcntl.flock(self._locks[name], fcntl.LOCK_UN)
                os.close(self._locks.pop(name))  # else a process with many runs keeps them open
        if self._held:
            self._held.clear()
            time.sleep(LET_IN_S)

    @contextmanager
    def held_while(self, counts: bool) -> Iterator[None]:
        """Hold the lock during a `with` block if `counts`: the block is part of a measurement."""
        if not counts:
            yield
            return
        self.take()
        try:
            yield
        finally:
            self.release()

    def _took(self, name: str) -> bool:
        if name in self._held or self._directory is None:
            return True
        try:
            if name not in self._locks:
                self._locks[name] = open_own(self._directory / name, os.O_RDWR, 0o600)
            fcntl.flock(self._locks[name], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (OSError, HostLacks):
            return True
        self._held.add(name)
        return True
