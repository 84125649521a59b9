"""Processes that keep a file open."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssdbench.host.command import Process, spawn


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Callable[[Path], int]]:
    """Starts a `sleep` that keeps a file open, and returns its process id."""
    started: list[Process] = []

    def start(path: Path) -> int:
        with path.open("rb") as held:
            process = spawn(
                ["sleep", "60"],
                stdout=tmp_path / "sleep.out",
                stderr=tmp_path / "sleep.err",
                pass_fds=(held.fileno(),),
            )
        started.append(process)
        command = Path(f"/proc/{process.pid}/comm")
        while command.read_text() != "sleep\n":
            pass
        return process.pid

    yield start
    for process in started:
        process.send(signal.SIGKILL)
        process.wait()
