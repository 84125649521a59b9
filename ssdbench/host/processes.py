"""Which process is which: a process id alone is reused, with its start time it is not."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_START_FIELD = 22  # starttime of proc(5), in ticks since boot


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, for all time: its number, when it started, and in which boot."""

    pid: int
    started_ticks: int
    boot_id: str

    def alive(self, *, root: Path = Path("/")) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return self == find(self.pid, root=root)

    def send(self, signal_number: signal.Signals) -> bool:
        """Signal the process; False when it is not there any more. Raises PermissionError."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return False
        return True


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
