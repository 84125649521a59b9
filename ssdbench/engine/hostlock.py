"""The door of a run: who wants to look at its host waits outside while a window may count.

Two files in the run directory are locks of the kernel's. Whoever looks takes the gate (shared),
then the room (shared), and lets go of the gate. A run that shuts its door takes the gate alone, so
that nobody else comes in, and then the room, as soon as those inside have left; it never waits for
them for long. Whoever looks waits without polling, and a run that dies opens its door.

Source: flock(2). `ssdbench.fleet.contract.look` is the other side.
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

MOST_WAIT_S = 6.0  # for those inside, before a window begins all the same
AGAIN_S = 0.05
LET_IN_S = 0.02  # the kernel wakes who waits, who must get to run


class HostLock:
    """Open at first. Without a directory it is none, as for a drive that has its own clock."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._locks: dict[str, int] = {}  # descriptors
        self._held: set[str] = set()

    def shut(self, wait_s: float = MOST_WAIT_S) -> bool:
        """Let nobody in from now on; whether nobody is inside, after at most `wait_s`.

        Files that cannot be made keep nobody out.
        """
        if self._directory is None:
            return True
        until_s = time.monotonic() + wait_s
        while not (self._taken(GATE) and self._taken(ROOM)):
            if time.monotonic() >= until_s:
                return False
            time.sleep(AGAIN_S)
        return True

    def open(self) -> None:
        """Let in who waits."""
        for name in (ROOM, GATE):
            if name in self._held:
                fcntl.flock(self._locks[name], fcntl.LOCK_UN)
        if self._held:
            self._held.clear()
            time.sleep(LET_IN_S)

    @contextmanager
    def shut_while(self, counts: bool) -> Iterator[None]:
        """Shut for a block of code in which something counts; left as it is otherwise."""
        if not counts:
            yield
            return
        self.shut()
        try:
            yield
        finally:
            self.open()

    def _taken(self, name: str) -> bool:
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
