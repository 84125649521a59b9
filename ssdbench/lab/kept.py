"""What runs in the lab leave for later: a directory each, of which the newest stay."""

import fcntl
import os
import shutil
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Self

KEPT_RUNS = 20


class KeptRun:
    """The directory of a run from `with` to its end, made when there is something to keep.

    What cannot be kept is no reason to end a run, and told in the end.
    """

    def __init__(self, cache: Path, name: str = "") -> None:
        now = datetime.now().astimezone()
        self.path = cache / "runs" / (name or f"{now:%Y-%m-%dT%H-%M-%S}-{os.getpid()}")
        self._opened = ExitStack()
        self._files: dict[str, BinaryIO] = {}
        self._trouble = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def add(self, name: str, data: bytes) -> None:
        """Write on in one of its files."""
        try:
            file = self._files.get(name) or self._open(name)
            file.write(data)
        except OSError as error:
            self._trouble = self._trouble or error.strerror or str(error)

    def where(self) -> str:
        """A sentence that says where it is; empty if nothing came."""
        if self._trouble:
            return f"not all of the run could be kept in {self.path}: {self._trouble}"
        what = "the guest's console and the command's output are kept in"
        return f"{what} {self.path}" if self._files else ""

    def _open(self, name: str) -> BinaryIO:
        if not self._files:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)  # a command may say secrets
            held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._opened.callback(os.close, held)
            fcntl.flock(held, fcntl.LOCK_SH)
            _remove_old(self.path.parent)
        file = (self.path / name).open("wb", buffering=0)
        self._files[name] = self._opened.enter_context(file)
        return file


def _remove_old(runs: Path) -> None:
    """Remove all but the newest, and those that are at work and hold a lock."""
    for path in sorted(runs.iterdir())[:-KEPT_RUNS]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
