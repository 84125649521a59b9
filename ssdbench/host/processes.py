"""Identify processes by id and start time, because an id alone is reused.

This module also has blocks that signals must not interrupt, a memory limit, and the leader process.
When several drives are measured at the same time, the leader holds the host's lock for its child
processes. It states its process id in the environment of its children. A process accepts this id
only if it belongs to its parent.
"""

import os
import resource
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_START_FIELD = 22  # starttime of proc(5), in ticks since boot
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """The values that identify one process forever: process id, start time and boot id."""

    pid: int
    started_ticks: int
    boot_id: str

    def alive(self) -> bool:
        """Return whether this same process still runs; a zombie does not count as running."""
        return self == find(self.pid)

    def works_on(self, directory: Path) -> bool:
        """Return whether the process is an ssdbench command with open files of a run directory.

        A user who can write to a run directory can store the id of any process in it, so the stored
        id is not enough. Raises PermissionError for another user's process.
        """
        own = Path("/proc") / str(self.pid)
        try:
            words = (own / "cmdline").read_bytes().split(b"\0")
            held = {_file(link) for link in (own / "fd").iterdir()}
            here = [path.lstat() for path in directory.iterdir()]
        except FileNotFoundError:
            return False
        files = {(s.st_dev, s.st_ino) for s in here if stat.S_ISREG(s.st_mode)}
        ours = any(Path(os.fsdecode(word)).name == "ssdbench" for word in words[:6])
        return ours and bool(files & held)

    def send(self, signal_number: signal.Signals) -> bool:
        """Send a signal to the process; return False if it is gone. Raises PermissionError."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True


def _file(descriptor: Path) -> tuple[int, int] | None:
    """Return the path of the file that a descriptor has open; None if the descriptor is closed."""
    try:
        found = descriptor.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def find(pid: int, *, root: Path = Path("/")) -> ProcessId | None:
    """Return the process that has this process id now, or None."""
    try:
        stat = (root / "proc" / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        boot_id = (root / BOOT_ID.lstrip("/")).read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The name is in parentheses and may contain anything, also parentheses and spaces.
    fields = stat.rpartition(")")[2].split()
    if len(fields) < _START_FIELD - 2 or fields[0] in ("Z", "X"):
        return None
    return ProcessId(pid, int(fields[_START_FIELD - 3]), boot_id)


def ours() -> ProcessId:
    """Return the identity of this process. Raises OSError if /proc is not mounted."""
    process = find(os.getpid())
    if process is None:
        raise FileNotFoundError("/proc does not show this process")
    return process


@contextmanager
def shielded() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP until the end of a block that must not be interrupted.

    Python runs signal handlers only in the main thread, so this does nothing in other threads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        waiting.append(number)

    before = {
        number: handler
        for number in _ENDING
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    try:
        for number in before:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for seen in dict.fromkeys(waiting):
            signal.raise_signal(seen)


LEAST_ROOM_BYTES = 1 << 28


def _data_bytes() -> int:
    """Return our private writable memory in bytes, as RLIMIT_DATA counts it (proc(5), VmData)."""
    for line in (
        Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    ):
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def memory_at_most(most_bytes: int) -> Iterator[None]:
    """Limit the memory of this process in a block; requests above the limit fail (MemoryError).

    The limit counts private writable memory of the whole process (setrlimit(2), RLIMIT_DATA),
    without the pages of programs and libraries, and also applies to C libraries. A process close to
    the limit still gets `LEAST_ROOM_BYTES`, because otherwise not even a thread could start.
    """
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most_bytes = max(most_bytes, _data_bytes() + LEAST_ROOM_BYTES)
    allowed = min([most_bytes, *(one for one in before if one != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


LEADER_VARIABLE = "SSDBENCH_BESIDE"


def side_by_side_leader() -> int | None:
    """Return the parent process if it measures several drives and leads us, else None."""
    parent = os.getppid()
    return parent if os.environ.get(LEADER_VARIABLE) == str(parent) else None


def child_env() -> dict[str, str]:
    """Return the environment variables that make a child process accept us as its leader."""
    return {LEADER_VARIABLE: str(os.getpid())}
