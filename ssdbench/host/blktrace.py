"""Run blktrace and btt at the same time as our own tracepoints, as an independent check.

blktrace reads debugfs. A locked-down kernel refuses debugfs even to root (since Linux 5.4,
`LOCKDOWN_DEBUGFS`), but allows tracefs.
"""

import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

from ssdbench.errors import CommandFailed
from ssdbench.host import command
from ssdbench.host.sysfs import Sysfs

PROGRAMS = ("blktrace", "blkparse", "btt")
DEBUGFS = "/sys/kernel/debug"
FILE_SYSTEM = "debugfs none"
_BEGINS_S = 10.0
_ENDS_S = 30.0
_PARSED_S = 300.0
_PARTS = ("Q2G", "G2I", "I2D", "D2C", "Q2C")
_ROW = re.compile(r"^(\w2\w)\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s+\d+\s*$", re.M)


def missing() -> str:
    """Return a sentence that names a missing program; empty if all are installed."""
    for program in PROGRAMS:
        if command.which(program) is None:
            return f"{program} is not installed (package blktrace)"
    return ""


def mounted(sysfs: Sysfs) -> bool:
    """Return whether debugfs is mounted where blktrace looks for it."""
    return sysfs.exists(f"{DEBUGFS}/block")


def closed(kernel_name: str, sysfs: Sysfs) -> str:
    """Return why the mounted debugfs cannot be opened; an empty text if it can be opened."""
    try:
        sysfs.known(f"{DEBUGFS}/block/{kernel_name}/state")
    except PermissionError:
        return "kernel lockdown keeps debugfs closed, so blktrace cannot be used"
    except OSError as error:
        return f"debugfs cannot be read: {error.strerror}"
    return ""


def means_ns(said: str) -> dict[str, float]:
    """Parse btt's output; return the mean time of each part of a request in ns, by btt's names."""
    by_step: dict[str, float] = {}
    for name, mean_s in _ROW.findall(said.partition("All Devices")[2]):
        if name in _PARTS:
            by_step.setdefault(f"btt_{name.lower()}_mean_ns", float(mean_s) * 1e9)
    return by_step


class BlkTrace:
    """Trace a device's node from when this object is created until `means` is called."""

    def __init__(self, node: str) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="ssdbench-blktrace-"))
        self._process = command.spawn(
            ["blktrace", "-d", node, "-o", "trace"],
            stdout=self._place / "stdout",
            stderr=self._place / "stderr",
            cwd=self._place,
        )
        # If blktrace ends before it has created its files, it has traced nothing.
        deadline = time.monotonic() + _BEGINS_S
        while not any(self._place.glob("trace.blktrace.*")) and time.monotonic() < deadline:
            if self._process.wait(0.02) is not None:
                break

    def means(self) -> dict[str, float]:
        """Stop the trace and return the means. Raises CommandFailed if no request was traced."""
        try:
            self._process.send(signal.SIGINT)
            status = self._process.wait(_ENDS_S)
            if status is None:
                status = self._process.kill()
            merged = str(self._place / "merged")
            trace = ["-i", "trace", "-D", str(self._place)]
            command.run(["blkparse", "-q", *trace, "-O", "-d", merged], timeout_s=_PARSED_S)
            found = means_ns(command.run(["btt", "-i", merged], timeout_s=_PARSED_S).stdout)
            if not found:
                said = (self._place / "stderr").read_text(errors="replace")
                raise CommandFailed(self._process.argv, status, said or "it traced no request")
            return found
        finally:
            if self._process.poll() is None:
                self._process.kill()
            shutil.rmtree(self._place, ignore_errors=True)
