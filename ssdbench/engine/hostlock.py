"""Keep other processes from inspecting the host during a measurement window.

Two files in the run directory, called gate and room, are locked with flock(2). An inspector takes a
shared lock on the gate, then on the room, and releases the gate. A run takes an exclusive lock on
the gate, so that no new inspector starts. Then the run waits a short time for an exclusive lock on
the room, which it gets after the last inspector has finished. The kernel releases the locks of a
run that dies. The inspector is `ssdbench.fleet.hostscripts.look`.
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

MOST_WAIT_S = 6.0  # wait for inspectors; after this the window begins anyway
AGAIN_S = 0.05  # pause between two attempts to lock
LET_IN_S = 0.02  # time for the waiting inspectors to wake up


class HostLock:
    """Keep other processes from inspecting the host from `take` to `release`.

    If `directory` is None, nothing is locked.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}  # file descriptors
        self._held: set[str] = set()

    def take(self, wait_s: float = MOST_WAIT_S) -> bool:
        """Let no new inspector start; return False if one still runs after `wait_s` seconds.

        If a lock file cannot be made, the call continues as if it were locked.
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
                os.close(self._locks.pop(name))  # a process may do many runs
        if self._held:
            self._held.clear()
            time.sleep(LET_IN_S)

    @contextmanager
    def held_while(self, counts: bool) -> Iterator[None]:
        """Hold the lock during a `with` block if the block is part of a measurement (`counts`)."""
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
