"""A host of its own for each worker, and processes that hold what a test wants held."""

import ctypes
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ssdbench.host.command import Process, run, spawn
from ssdbench.host.lock import lock_directory, until_free
from ssdbench.units import MIB
from tests.conftest import host_lacks

CLONE_NEWNS = 0x20000  # unshare(2); os.unshare is there from Python 3.12 on


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory in memory: what is said of a drive in it does not depend on this host's disk.

    On the disk all the same where there is little: containers have 64 MiB by default.
    """
    roomy = shutil.disk_usage("/dev/shm").free >= 256 * MIB
    with TemporaryDirectory(dir="/dev/shm" if roomy else None) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def shared_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the locks of this host are; our runs have locks, mounts and records of their own.

    So those of two workers neither refuse each other, nor put back what the other one changed.
    """
    directory = lock_directory()
    seen = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "a mount namespace cannot be made")
    run(["mount", "--make-rprivate", "/"])
    run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(directory)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSDBENCH_SETTINGS", str(tmp_path_factory.mktemp("settings")))
        yield Path(f"/proc/self/fd/{seen}")
    run(["umount", "--lazy", str(directory)])  # what a cut test left at work may still be in it
    os.close(seen)


@pytest.fixture(autouse=True)
def _no_strangers(request: pytest.FixtureRequest) -> None:
    """Waits for a run that somebody else has on this host: we would disturb each other."""
    if not host_lacks():
        locks: Path = request.getfixturevalue("shared_locks")
        until_free(locks / "host.lock")


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
