"""Delay host inspection by others while a measurement window counts.

Two files in the run directory are kernel locks. An inspector takes the gate (shared), then the room
(shared), and releases the gate. A run takes the gate exclusively, so that nobody else enters, and
then the room when those inside have left, but never waits long. Nobody polls, and a run that dies
releases its locks. Source: flock(2). `ssdbench.fleet.hostscripts.look` is the other side.
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

MOST_WAIT_S = 6.0  # for inspectors inside; then the window begins anyway
AGAIN_S = 0.05
LET_IN_S = 0.02  # time for the waiting inspectors to wake up


class HostLock:
    """Hold the lock of one run; free at first. Without a directory it locks nothing."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}  # descriptors
        self._held: set[str] = set()

    def take(self, wait_s: float = MOST_WAIT_S) -> bool:
        """Keep new inspectors out; returns whether none is left after at most `wait_s`.

        Lock files that cannot be made keep nobody out.
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
        """Let waiting inspectors in."""
        for name in (ROOM, GATE):
            if name in self._held:
                fcntl.flock(self._locks[name], fcntl.LOCK_UN)
                os.close(self._locks.pop(name))  # one process may do many runs
        if self._held:
            self._held.clear()
            time.sleep(LET_IN_S)

    @contextmanager
    def held_while(self, counts: bool) -> Iterator[None]:
        """Hold the lock for a block if what it does counts."""
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
