"""Processes that hold what a test wants held, and the host for a test alone."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.host.command import Process, spawn
from ssdbench.host.lock import host_lock

PATIENCE_S = 300


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> None:
    """Waits for a run that somebody else has on this host: ours would be refused meanwhile."""
    if request.node.get_closest_marker("beside"):
        return  # in virtual time nobody is in the way
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with host_lock():
                return
        except HostLacks:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Starts a process that keeps a device or file open, and returns its process id."""
    started: list[Process] = []

    def start(path: Path, mode: str = "rb") -> int:
        with path.open(mode) as held:
            process = spawn(
                ["sleep", "600"],
                stdout=tmp_path / "holder.out",
                stderr=tmp_path / "holder.err",
                pass_fds=(held.fileno(),),
            )
        started.append(process)
        name = Path(f"/proc/{process.pid}/comm")
        while name.read_text() != "sleep\n":  # until then it is what starts programs for us
            time.sleep(0.01)
        return process.pid

    yield start
    for process in started:
        process.send(signal.SIGKILL)
        process.wait()
