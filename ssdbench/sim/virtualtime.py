"""Control the clock of a fio process on a simulated drive, and read the drive's I/O of each second.

A library that is preloaded into an unmodified fio shares a memory page with this process
(`native/vt_page.h`). In virtual time, fio stops at the end of each allowed second, so that the
caller can check every second and end the jobs exactly there. With the real clock, fio runs without
these stops.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
from collections.abc import Callable
from ctypes import c_char, c_int, c_long, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Self

from ssdbench.errors import HostLacks
from ssdbench.foreign import open_own
from ssdbench.host.files import reserve
from ssdbench.sim.drive import saved_path
from ssdbench.sim.library import preloadable
from ssdbench.units import NS_PER_S

_WAIT, _WAKE = 0, 1
_SYSCALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", c_long), ("nanoseconds", c_long))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = c_long


def _number() -> c_long:
    machine = platform.machine()
    if machine not in _SYSCALL:
        raise HostLacks(f"the simulated drive's clock is not ported to {machine}")
    return c_long(_SYSCALL[machine])


def _futex(word: c_uint32, operation: int, value: int, timeout: object) -> int:
    wanted = ctypes.byref(word), c_int(operation), c_uint32(value), timeout
    return int(_libc.syscall(_number(), *wanted, c_void_p(), c_int(0)))


def futex_wait(word: c_uint32, seen: int, *, timeout_s: float) -> bool:
    """Wait in the kernel while the memory word equals `seen`; return False at the timeout.

    The function may also return earlier than that, so callers must check the word again.
    """
    whole = int(timeout_s)
    limit = _Timespec(whole, int((timeout_s - whole) * 1e9))
    status = _futex(word, _WAIT, seen, ctypes.byref(limit))
    return not (status and ctypes.get_errno() == errno.ETIMEDOUT)


def futex_wake(word: c_uint32) -> None:
    """Wake all threads and processes that wait for `word`."""
    _futex(word, _WAKE, 2**31 - 1, c_void_p())


_MAGIC = 0x5654534244425353
_VERSION = 1
_SAMPLES = 4096
_NEVER = 2**64 - 1
_MONOTONIC_START_S = 1000  # MONOTONIC_START_NS of native/vt_time.c
_LOOK_S = 0.1  # how often to check whether a fio that does not answer is alive

_NEW, _RUNNING, _HELD, _ENDED, _FAILED = range(5)


class VtSample(ctypes.Structure):
    """The I/O of a drive in one second of its clock, counted like in the kernel's block layer.

    Arrays have the values of reads, writes and TRIMs. Latency is from submission to completion, and
    belongs to the second of the completion.
    """

    _fields_ = (
        ("end_ns", c_uint64),  # since fio's first I/O
        ("duration_ns", c_uint64),
        ("ios", c_uint64 * 3),
        ("bytes", c_uint64 * 3),
        ("latency_sum_ns", c_uint64 * 3),
        ("latency_max_ns", c_uint64 * 3),
        ("busy_ns", c_uint64),  # time with at least one I/O in flight
        ("inflight_ns", c_uint64),  # sum of the I/Os' times in flight
    )


class _Page(ctypes.Structure):
    _fields_ = (
        ("magic", c_uint64),
        ("version", c_uint32),
        ("state", c_uint32),
        ("go", c_uint32),
        ("event", c_uint32),
        ("hold_at_s", c_uint64),
        ("stop_at_s", c_uint64),
        ("seconds", c_uint64),
        ("samples", c_uint64),
        ("now_ns", c_uint64),
        ("first_io_ns", c_uint64),
        ("fio_pid", c_uint32),
        ("inflight", c_uint32),
        ("busy_since_ns", c_uint64),
        ("counted_to_ns", c_uint64),
        ("last_completion_ns", c_uint64),
        ("ios_total", c_uint64),
        ("message", c_char * 512),
        ("open", VtSample),
        ("ring", VtSample * _SAMPLES),
    )


class VirtualClock:
    """The clock of one fio process; another process needs a new VirtualClock."""

    def __init__(
        self, page: Path, descriptor: int, environment: dict[str, str], *, realtime: bool
    ) -> None:
        self.path = page
        self.realtime = realtime
        self._descriptor = descriptor
        self._environment = environment
        # The mapping is never closed, only released, because a traceback may still refer to it. It
        # has its own open file, because a mapping keeps the lock of its file.
        with os.fdopen(open_own(page, os.O_RDWR), "r+b") as file:
            memory = mmap.mmap(file.fileno(), ctypes.sizeof(_Page))
        self._page = _Page.from_buffer(memory)
        self._go = c_uint32.from_buffer(memory, _Page.go.offset)
        self._event = c_uint32.from_buffer(memory, _Page.event.offset)
        self._allowed_s = 0
        self._read = 0
        self._stopped = False

    @classmethod
    def create(
        cls,
        page: Path,
        *,
        state: Path,
        realtime: bool = False,
        state_fd: int | None = None,
    ) -> Self:
        """Make the control page for one fio on the drive in `state`.

        fio locks the state file. A caller that already holds the lock of the state file passes its
        descriptor as `state_fd`, and lets fio inherit the descriptor.
        """
        environment = {
            "LD_PRELOAD": preloadable("libssdb_virtualtime.so"),
            "SSDB_VT_STATE": str(state),
            "SSDB_VT_PAGE": str(page),
            "SSDB_VT_CLOCK": "real" if realtime else "virtual",
        }
        if state_fd is None:
            saved_path(state).unlink(missing_ok=True)  # fio will change the state
        else:
            environment["SSDB_VT_STATE_FD"] = str(state_fd)
        try:
            descriptor = open_own(page, os.O_RDWR, 0o600)
            # fio ends by itself when this lock is released.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            reserve(descriptor, page, ctypes.sizeof(_Page))
        except OSError as error:
            raise HostLacks(
                f"cannot make {page}, the clock file of the simulated drive: {error.strerror}"
            ) from error
        clock = cls(page, descriptor, environment, realtime=realtime)
        clock._page.version = _VERSION
        clock._page.stop_at_s = _NEVER
        clock._page.magic = _MAGIC
        return clock

    def environment(self) -> dict[str, str]:
        """Return the environment variables that control fio; other programs ignore them."""
        return dict(self._environment)

    @property
    def message(self) -> str:
        """Say in a sentence why the library ended fio; empty if it did not end fio."""
        return bytes(self._page.message).split(b"\0", 1)[0].decode(errors="replace")

    @property
    def first_io_s(self) -> float:
        """Return when fio's first I/O was, in seconds on the clock of fio's logs."""
        return _MONOTONIC_START_S + int(self._page.first_io_ns) / NS_PER_S

    def advance(self, seconds: int, *, alive: Callable[[], bool]) -> list[VtSample]:
        """Let fio run for `seconds` seconds; return one sample per second, or fewer if fio ended.

        The last sample before fio ends may cover less than a second. `alive` is called when fio has
        not answered for a while, to check whether the process still runs.
        """
        samples: list[VtSample] = []
        end_s = self._allowed_s + seconds
        while self._allowed_s < end_s:
            self._allowed_s = min(end_s, self._allowed_s + _SAMPLES // 2)
            ended = self._run_to(self._allowed_s, alive)
            samples += self._collect()
            if ended:
                break
        return samples

    def stop(self) -> None:
        """End the jobs at the current second; the next `advance` returns the last samples.

        fio completes the I/O in flight, and then reports its results as at the end of its runtime.
        """
        self._stopped = True
        self._page.stop_at_s = 0
        self._bump()

    def close(self) -> None:
        """Release the memory page; a fio that still runs then ends with an error."""
        if self._descriptor < 0:
            return
        del self._page, self._go, self._event
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _bump(self) -> None:
        self._go.value = (self._go.value + 1) & 0xFFFFFFFF
        futex_wake(self._go)

    def _run_to(self, second: int, alive: Callable[[], bool]) -> bool:
        """Let fio run until the end of a second; return True if fio ended earlier."""
        page = self._page
        if not self._stopped:
            page.hold_at_s = second
            self._bump()
        while True:
            seen = self._event.value
            if page.state >= _ENDED:
                return True
            if page.seconds >= second and (self.realtime or page.state == _HELD):
                return False
            if not futex_wait(self._event, seen, timeout_s=_LOOK_S) and not alive():
                return True

    def _collect(self) -> list[VtSample]:
        last = self._page.samples
        first = max(self._read, last - _SAMPLES)
        self._read = last
        ring = self._page.ring
        return [VtSample.from_buffer_copy(ring[i % _SAMPLES]) for i in range(first, last)]
