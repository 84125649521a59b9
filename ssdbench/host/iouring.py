"""Find out whether this host allows io_uring, and how many requests a process made with it."""

import ctypes
import errno
import os
import re
import struct
import time
from pathlib import Path

ROOT = Path("/")
DISABLED = "proc/sys/kernel/io_uring_disabled"
# From <linux/io_uring.h>; the numbers are the same on every architecture.
_SETUP, _REGISTER = 425, 427
_REGISTER_PROBE = 8
_URING_CMD = 46  # IORING_OP_URING_CMD, since Linux 5.19
_PARAMETERS_BYTES = 120  # struct io_uring_params
_OPERATIONS = 256
_SUPPORTED = 1  # IO_URING_OP_SUPPORTED
_libc = ctypes.CDLL(None, use_errno=True)

_ENDED = re.compile(r"^CqTail:\s*(\d+)$", re.MULTILINE)
_TRIES = 100  # tries: while the process submits requests, the kernel shows no counter
_TRY_AGAIN_S = 100e-6
_COUNTS_TO = 1 << 32


def unusable() -> str:
    """Return why this process cannot use io_uring, in the kernel's words; empty if it can."""
    ring = _libc.syscall(_SETUP, 1, ctypes.create_string_buffer(_PARAMETERS_BYTES))
    if ring >= 0:
        os.close(ring)
        return ""
    number = ctypes.get_errno()
    if number == errno.ENOSYS:
        return "this kernel has no io_uring"
    try:
        level = (ROOT / DISABLED).read_text().strip()
    except OSError:
        level = ""
    if level in ("1", "2"):
        return f"io_uring is disabled here (sysctl kernel.io_uring_disabled={level})"
    return f"the kernel refuses io_uring here: {os.strerror(number)}"


def takes_commands() -> bool:
    """Return whether io_uring can send a driver's own commands (IORING_OP_URING_CMD)."""
    ring = _libc.syscall(_SETUP, 1, ctypes.create_string_buffer(_PARAMETERS_BYTES))
    if ring < 0:
        return False
    try:
        probe = ctypes.create_string_buffer(16 + 8 * _OPERATIONS)
        if _libc.syscall(_REGISTER, ring, _REGISTER_PROBE, probe, _OPERATIONS) < 0:
            return False
    finally:
        os.close(ring)
    # struct io_uring_probe: the last operation, then 8 bytes per operation, with flags at offset 2.
    last = probe.raw[0]
    flags = struct.unpack_from("=H", probe.raw, 16 + 8 * _URING_CMD + 2)[0]
    return last >= _URING_CMD and bool(flags & _SUPPORTED)


class Rings:
    """Count the requests that have ended in all rings of a process, from the kernel's counters.

    The kernel shows the tail of each completion queue in /proc/PID/fdinfo (since Linux 5.16), but
    not while the process submits requests, because the process then holds the ring's lock. In this
    case the file is read again. The last count of a ring that was closed stays part of the sum.
    """

    def __init__(self, pid: int, root: Path = ROOT) -> None:
        self._files = root / f"proc/{pid}/fd"
        self._told = root / f"proc/{pid}/fdinfo"
        self._last: dict[str, int] = {}
        self._ended = 0

    def ended(self) -> int:
        """Return how many requests have ended so far; after the process ended, the last number."""
        for name in self._names():
            now = self._tail(name)
            if now is None:
                continue
            before = self._last.get(name, 0)
            if now < before and before - now < _COUNTS_TO // 2:
                before = 0  # count from 0: a new ring has the number of an old one
            self._ended += (now - before) % _COUNTS_TO
            self._last[name] = now
        return self._ended

    def _names(self) -> list[str]:
        try:
            files = list(self._files.iterdir())
        except OSError:
            return []
        return [file.name for file in files if _is_ring(file)]

    def _tail(self, name: str) -> int | None:
        for _ in range(_TRIES):
            try:
                found = _ENDED.search((self._told / name).read_text())
            except OSError:
                return None
            if found:
                return int(found[1])
            time.sleep(_TRY_AGAIN_S)
        return None


def _is_ring(file: Path) -> bool:
    try:
        return str(file.readlink()).startswith("anon_inode:[io_uring]")
    except OSError:
        return False
