"""Identify processes: a process id alone is reused, with its start time it is not.

Also for our own processes: what signals may not interrupt, how much memory they may take, and which
one leads when several drives are measured side by side. The leader holds the host's lock for all
of them and is named in their environment; the name counts only for its own children, which die
with it.
"""

import os
import resource
import signal
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_START_FIELD = 22  # starttime of proc(5), in ticks since boot
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, for all time: its number, when it started, and in which boot."""

    pid: int
    started_ticks: int
    boot_id: str

    def alive(self, *, root: Path = Path("/")) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return self == find(self.pid, root=root)

    def works_on(self, directory: Path, *, root: Path = Path("/")) -> bool:
        """Whether it is a command of ssdbench that has files of a directory open.

        Who may write a run directory may name any process in it. Raises PermissionError when it
        is another user's.
        """
        own = root / "proc" / str(self.pid)
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
        """Signal the process; False when it is not there any more. Raises PermissionError."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True


def _file(descriptor: Path) -> tuple[int, int] | None:
    """What a descriptor leads to; None when it was closed since it was listed."""
    try:
        found = descriptor.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def find(pid: int, *, root: Path = Path("/")) -> ProcessId | None:
    """The process of that number as it is now, or None when there is none."""
    try:
        stat = (root / "proc" / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        boot_id = (root / BOOT_ID.lstrip("/")).read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The name stands in brackets and may hold anything, brackets and blanks included.
    fields = stat.rpartition(")")[2].split()
    if len(fields) < _START_FIELD - 2 or fields[0] in ("Z", "X"):
        return None
    return ProcessId(pid, int(fields[_START_FIELD - 3]), boot_id)


def ours() -> ProcessId:
    """This process. Raises OSError where /proc is not mounted."""
    process = find(os.getpid())
    if process is None:
        raise FileNotFoundError("/proc does not show this process")
    return process


@contextmanager
def shielded() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP wait for the end of a block; then they are as if sent there.

    For what must not be left half done, such as putting settings back. Python runs handlers in the
    main thread only, so that no other thread needs it.
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
    """Private memory that this process can write, as RLIMIT_DATA counts it (proc(5), VmData)."""
    for line in (
        Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    ):
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def memory_at_most(most_bytes: int) -> Iterator[None]:
    """Let whoever asks for more memory in a block get none, C libraries too: Python's MemoryError.

    What is counted is private memory that can be written, of the whole process and as it was asked
    for (setrlimit(2): RLIMIT_DATA); the pages of programs and libraries come on top of it. A
    process that holds about as much already gets `LEAST_ROOM_BYTES` more: without any, not even a
    thread begins.
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


def side_by_side_leader(environment: Mapping[str, str] = os.environ) -> int | None:
    """The process that measures drives side by side, where this one does one of them for it."""
    parent = os.getppid()
    return parent if environment.get(LEADER_VARIABLE) == str(parent) else None


def child_env() -> dict[str, str]:
    """What a child needs to know that we lead it."""
    return {LEADER_VARIABLE: str(os.getpid())}
