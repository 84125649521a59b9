"""A drive in memory: the core's state, its requests and its own closed loop.

The loop stays in C (`ssdb_run`), because a call per request from here would be ten times slower
than the drive itself.
"""

import ctypes
import mmap
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Self

from ssdbench.errors import DeviceError
from ssdbench.sim import loop
from ssdbench.sim.coreerror import CoreError
from ssdbench.sim.library import Params, counter_names, library, params_at


class Op(IntEnum):
    """enum ssdb_op."""

    READ = 0
    WRITE = 1
    TRIM = 2
    FLUSH = 3
    ZEROES = 4


class Why(IntFlag):
    """enum ssdb_why: ground truth for tests, never for a rule or a detector."""

    BUFFER_HIT = 1 << 0
    UNMAPPED = 1 << 1
    RMW = 1 << 2
    BUFFER_FULL = 1 << 3
    GC = 1 << 4
    MERGE = 1 << 5
    SLC_FOLD = 1 << 6
    THROTTLED = 1 << 7
    STALL = 1 << 8
    QUEUE_FULL = 1 << 9
    SUSPEND = 1 << 10
    FLUSH = 1 << 11


class _Cmd(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
    )


class _Done(ctypes.Structure):
    _fields_ = (
        ("done_ns", ctypes.c_uint64),
        ("why", ctypes.c_uint32),
        ("error", ctypes.c_uint32),
    )


@dataclass(frozen=True, slots=True)
class Done:
    """The answer to one request."""

    done_ns: int  # on the device's clock
    why: Why
    error: CoreError


class Drive:
    """The core over a piece of memory, which is the drive's whole state."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._core = library()
        self._bytes = len(memory)
        self._held = (ctypes.c_char * self._bytes).from_buffer(memory)
        self.address = ctypes.addressof(self._held)

    @classmethod
    def in_memory(cls, params: Params) -> Self:
        """A fresh drive that ends with the process. Raises UsageError for impossible ones."""
        params.check()
        drive = cls(mmap.mmap(-1, params.state_bytes()))
        drive.initialise(params)
        return drive

    def copied(self) -> Self:
        """The same drive once more, in memory: what one does the other does not see."""
        copy = type(self)(mmap.mmap(-1, self._bytes))
        ctypes.memmove(copy.address, self.address, self._bytes)
        return copy

    def initialise(self, params: Params) -> None:
        """Make the memory a fresh drive."""
        error = CoreError(self._core.ssdb_init(self.address, self._bytes, params.address))
        if error:
            raise DeviceError(f"the simulated drive cannot be made: {error.sentence()}")

    def attach(self) -> CoreError:
        """Whether the memory holds a drive that can be used."""
        return CoreError(self._core.ssdb_attach(self.address, self._bytes))

    def repair(self) -> CoreError:
        """Mend a state whose user died inside a request; TORN when it was damaged otherwise."""
        return CoreError(self._core.ssdb_repair(self.address, self._bytes))

    def broken_invariant(self) -> int:
        """0 when all maps and counts agree, else the number of the first that does not."""
        return int(self._core.ssdb_check(self.address))

    def release(self) -> None:
        """Let go of the memory, so that it can be closed; the drive cannot be used after it."""
        self.address = 0
        del self._held

    @property
    def capacity_bytes(self) -> int:
        """The size that the host sees."""
        return int(self._core.ssdb_capacity_bytes(self.address))

    @property
    def lba_bytes(self) -> int:
        """The logical block."""
        return int(self._core.ssdb_lba_bytes(self.address))

    @property
    def now_ns(self) -> int:
        """The device's clock at the last request."""
        return int(self._core.ssdb_now_ns(self.address))

    def params(self) -> dict[str, int]:
        """The parameters in the state."""
        return params_at(self._core.ssdb_state_params(self.address))

    def counters(self) -> dict[str, int]:
        """All counters, by name."""
        core = self._core
        return {
            name: int(core.ssdb_counter(self.address, index))
            for index, name in enumerate(counter_names())
        }

    def submit(
        self, op: Op, offset: int, size_bytes: int, *, now_ns: int | None = None, fua: bool = False
    ) -> Done:
        """One request, by default at the device's present time."""
        command = _Cmd(op, int(fua), offset, size_bytes)
        done = _Done()
        at_ns = self.now_ns if now_ns is None else now_ns
        self._core.ssdb_submit(self.address, at_ns, ctypes.byref(command), ctypes.byref(done))
        return Done(done.done_ns, Why(done.why), CoreError(done.error))

    def idle(self, now_ns: int) -> None:
        """Let background work happen until `now_ns`."""
        self._core.ssdb_idle(self.address, now_ns)

    def run(self, job: loop.Job, *, seconds: int = 0, per_io: int = 0) -> loop.RunResult:
        """Run the core's own loop; see `ssdbench.sim.loop.run`."""
        return loop.run(self.address, job, seconds=seconds, per_io=per_io)
