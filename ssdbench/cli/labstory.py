"""What `lab run` tells while it works: each step, that it goes on, the command's own words.

`kmod build` tells its steps so, too.
"""

import logging
import os
import sys
import time
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from ssdbench.cli.output import tell
from ssdbench.foreign import MOST_BYTES, open_regular

if TYPE_CHECKING:
    from ssdbench.lab.kept import KeptRun

LINE_EVERY_S = 2.0
PIECE_BYTES = 1 << 20
_LAB = "ssdbench.lab"
_BUILD = "ssdbench.host.kmod"


class Steps(logging.Handler):
    """Tells each step on stderr, behind a word, and every two seconds that it goes on.

    The first is told at once: on a busy host, seconds pass until what does the work is imported.
    Quiet from the moment at which the command in the guest says its first words.
    """

    def __init__(self, word: str) -> None:
        super().__init__(logging.INFO)
        self._word = word
        self._over = Event()
        self._ticker = Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        for name in (_LAB, _BUILD):
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
        self._begin("getting ready")
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.quiet()
        for name in (_LAB, _BUILD):
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """A step began."""
        if record.levelno >= logging.INFO and not self._over.is_set():
            self._begin(record.getMessage())

    def _begin(self, step: str) -> None:
        self._step = step
        self._since = self._told = time.monotonic()
        tell(f"{self._word}: {step}")

    def quiet(self) -> None:
        """Say no more."""
        self._over.set()

    def _tick(self) -> None:
        while not self._over.wait(LINE_EVERY_S / 4):
            now = time.monotonic()
            if now - self._told > LINE_EVERY_S * 0.7 and not self._over.is_set():
                self._told = now
                tell(f"{self._word}: {self._step} … {now - self._since:.0f} s")


class Words:
    """Hands on what the command in the guest says, as it says it, and keeps it with the console."""

    def __init__(
        self, steps: Steps, kept: "KeptRun", console: BinaryIO | None, *, shown: bool = True
    ) -> None:
        self._steps = steps
        self._kept = kept
        streams = {"stdout": sys.stdout, "stderr": sys.stderr} if shown else {}
        # One that is closed is None.
        self._to = {name: stream.buffer for name, stream in streams.items() if stream}
        self._console = console
        self._shown: dict[Path, int] = {}
        self._told: set[str] = set()

    def look(self, shared: Path) -> None:
        """Hand on what has come since the last look below the directory that the guest shares."""
        for name in ("stdout", "stderr"):
            to = self._to.get(name)
            if self._hand_on(shared / "1" / name, to, shared.parent) and to:
                self._steps.quiet()
        self._hand_on(shared / "1" / "dmesg", None, shared.parent)
        self._hand_on(shared.parents[1] / "console", self._console)

    def _hand_on(self, path: Path, to: BinaryIO | None, below: Path | None = None) -> bool:
        """Hand on what is new in a file; the guest may have put anything in its place."""
        begun = shown = self._shown.get(path, 0)
        try:
            descriptor = open_regular(path, below=below)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._tell_once(
                f"lab: the command's {path.name} is not read any more: {error.strerror}"
            )
            return False
        with os.fdopen(descriptor, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < shown:
                shown = 0  # a guest that was booted again writes its console anew
            file.seek(shown)
            # What comes meanwhile is for the next look: a guest may write without end.
            while shown < min(size, MOST_BYTES) and (new := file.read(PIECE_BYTES)):
                shown += len(new)
                self._kept.add(path.name, new)
                if to is not None:
                    to.write(new)
                    to.flush()
        if shown >= MOST_BYTES:
            self._tell_once(f"lab: the command's {path.name} is cut after {MOST_BYTES:,} bytes")
        self._shown[path] = shown
        return shown != begun

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            tell(line)
