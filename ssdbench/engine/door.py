"""The door of a run: who wants to look at its host waits outside while a window may count.

It is a file in the run directory, under a lock of the kernel's: exclusive while the door is shut,
shared by everybody inside. Whoever looks waits without polling, and a run that dies opens it. Those
inside have a moment to finish; a run never waits for them for long.

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

MOST_WAIT_S = 6.0  # for those inside, before a window begins all the same
AGAIN_S = 0.05
LET_IN_S = 0.02  # the kernel wakes who waits, who must get to run


class Door:
    """Open at first. Without a path it is none, as for a drive that has a clock of its own."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._shut = False

    def shut(self) -> None:
        """Nobody comes in from now on. A file that cannot be made keeps nobody out."""
        if self._path is None or self._shut:
            return
        try:
            if self._descriptor is None:
                self._descriptor = open_own(self._path, os.O_RDWR, 0o600)
        except (OSError, HostLacks):
            return
        until_s = time.monotonic() + MOST_WAIT_S
        while not self._shut and time.monotonic() < until_s:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._shut = True
            except OSError:
                time.sleep(AGAIN_S)

    def open(self) -> None:
        """Let in who waits."""
        if self._descriptor is not None and self._shut:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._shut = False
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
