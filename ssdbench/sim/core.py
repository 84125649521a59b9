"""Run a simulated drive in memory: single requests, or a whole stream of requests in C.

The loop over the requests of a job is in C (`ssdb_run`). If Python called the core for each
request, the calls would take ten times as long as the simulation.
"""

import ctypes
import mmap
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

from ssdbench.errors import DeviceError, UsageError
from ssdbench.sim.library import CoreError, Params, counter_names, library, params_at
from ssdbench.stats.histogram import BINS, Histogram
from ssdbench.units import NS_PER_S

MAX_IODEPTH = 1024  # SSDB_RUN_QD_MAX

SECOND = np.dtype([("ios", "<u8", 2), ("bytes", "<u8", 2)])
IO = np.dtype(
    [
        ("submit_ns", "<u8"),
        ("latency_ns", "<u8"),
        ("offset", "<u8"),
        ("op", "<u4"),
        ("why", "<u4"),
    ]
)


class Order(IntEnum):
    """The order of the offsets of a job's requests; the same as enum ssdb_pattern in C."""

    RANDOM = 0
    SEQUENTIAL = 1
    STRIDED = 2
    LISTED = 3


@dataclass(frozen=True, slots=True)
class Job:
    """A stream of requests to a drive; at least one of the `stop_…` fields must be set."""

    order: Order = Order.RANDOM
    read_percent: float = 0.0
    iodepth: int = 32
    block_bytes: int = 4096
    offset_bytes: int = 0
    span_bytes: int = 0  # 0 means up to the end of the drive
    stride_bytes: int = 0
    position: int = 0  # position to continue a sequential stream: RunResult.position
    blocks: npt.NDArray[np.uint32] | None = None  # for LISTED: block numbers, repeated
    fua: bool = False
    rate_iops: int = 0  # 0 means as fast as possible
    idle_s: float = 0.0  # idle time before the first request
    seed: int = 1
    stop_ios: int = 0
    stop_bytes: int = 0
    stop_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """The measurements of a job; a pair is the value of reads and the value of writes."""

    ios: tuple[int, int]
    bytes: tuple[int, int]
    duration_s: float
    mean_ns: tuple[float, float]
    max_ns: tuple[int, int]
    histograms: tuple[Histogram, Histogram]
    seconds: npt.NDArray[np.void]  # type SECOND: the requests completed in each second
    per_io: npt.NDArray[np.void]  # type IO: the first requests, in order of submission
    errors: int
    position: int

    @property
    def iops(self) -> float:
        """Return the number of I/Os per second, the sum of reads and writes."""
        return sum(self.ios) / self.duration_s if self.duration_s else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Return the bytes per second, the sum of reads and writes."""
        return sum(self.bytes) / self.duration_s if self.duration_s else 0.0


class _Job(ctypes.Structure):
    _fields_ = (
        ("pattern", ctypes.c_uint32),
        ("read_ppm", ctypes.c_uint32),
        ("iodepth", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("block_bytes", ctypes.c_uint64),
        ("offset_bytes", ctypes.c_uint64),
        ("span_bytes", ctypes.c_uint64),
        ("stride_bytes", ctypes.c_uint64),
        ("position", ctypes.c_uint64),
        ("list", ctypes.c_void_p),
        ("list_count", ctypes.c_uint64),
        ("rate_ios", ctypes.c_uint64),
        ("idle_ns", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("stop_ios", ctypes.c_uint64),
        ("stop_bytes", ctypes.c_uint64),
        ("stop_ns", ctypes.c_uint64),
    )


_Pair = ctypes.c_uint64 * 2


class _Result(ctypes.Structure):
    _fields_ = (
        ("bins", ctypes.c_void_p * 2),
        ("seconds", ctypes.c_void_p),
        ("seconds_count", ctypes.c_uint64),
        ("ios", ctypes.c_void_p),
        ("ios_count", ctypes.c_uint64),
        ("done_ios", _Pair),
        ("done_bytes", _Pair),
        ("latency_sum_ns", _Pair),
        ("latency_max_ns", _Pair),
        ("latency_min_ns", _Pair),
        ("begin_ns", ctypes.c_uint64),
        ("submitted_ns", ctypes.c_uint64),
        ("duration_ns", ctypes.c_uint64),
        ("errors", ctypes.c_uint64),
        ("first_error_offset", ctypes.c_uint64),
        ("first_error", ctypes.c_uint32),
        ("why", ctypes.c_uint32),
        ("position", ctypes.c_uint64),
        ("heap", ctypes.c_uint64 * (MAX_IODEPTH + 1)),
    )


def run(address: int, job: Job, *, seconds: int = 0, per_io: int = 0) -> RunResult:
    """Run a job on the drive at `address`; record `seconds` seconds and `per_io` requests.

    Raises UsageError when the job does not fit the drive. Media errors are counted in the result;
    any other error of the drive raises DeviceError.
    """
    core = library()
    request, result = _request(job), _Result()
    if (core.ssdb_job_bytes(), core.ssdb_result_bytes()) != (
        ctypes.sizeof(request),
        ctypes.sizeof(result),
    ):
        raise DeviceError("the simulated drive's library has another version; build it again")
    bins = np.zeros((2, BINS), dtype=np.uint64)
    series = np.zeros(seconds, dtype=SECOND)
    single = np.zeros(per_io, dtype=IO)
    result.bins[0], result.bins[1] = bins[0].ctypes.data, bins[1].ctypes.data
    result.seconds, result.seconds_count = series.ctypes.data, seconds
    result.ios, result.ios_count = single.ctypes.data, per_io
    if core.ssdb_run(address, ctypes.byref(request), ctypes.byref(result)):
        raise UsageError(f"this job does not fit the simulated drive: {job}")
    if result.errors and result.first_error != CoreError.MEDIUM:
        raise DeviceError(
            f"the simulated drive failed at offset {result.first_error_offset}: "
            f"{CoreError(result.first_error).sentence()}"
        )
    return _outcome(result, bins, series, single)


def _request(job: Job) -> _Job:
    return _Job(
        pattern=job.order,
        read_ppm=round(job.read_percent * 10_000),
        iodepth=job.iodepth,
        flags=int(job.fua),
        block_bytes=job.block_bytes,
        offset_bytes=job.offset_bytes,
        span_bytes=job.span_bytes,
        stride_bytes=job.stride_bytes,
        position=job.position,
        list=None if job.blocks is None else job.blocks.ctypes.data,
        list_count=0 if job.blocks is None else len(job.blocks),
        rate_ios=job.rate_iops,
        idle_ns=round(job.idle_s * NS_PER_S),
        seed=job.seed,
        stop_ios=job.stop_ios,
        stop_bytes=job.stop_bytes,
        stop_ns=round(job.stop_s * NS_PER_S),
    )


def _outcome(
    result: _Result,
    bins: npt.NDArray[np.uint64],
    series: npt.NDArray[np.void],
    single: npt.NDArray[np.void],
) -> RunResult:
    ios = (int(result.done_ios[0]), int(result.done_ios[1]))
    sums = result.latency_sum_ns
    duration_s = result.duration_ns / NS_PER_S
    return RunResult(
        ios=ios,
        bytes=(int(result.done_bytes[0]), int(result.done_bytes[1])),
        duration_s=duration_s,
        mean_ns=(sums[0] / max(ios[0], 1), sums[1] / max(ios[1], 1)),
        max_ns=(int(result.latency_max_ns[0]), int(result.latency_max_ns[1])),
        histograms=(_latencies(result, bins, 0), _latencies(result, bins, 1)),
        seconds=series[: int(duration_s) + 1],
        per_io=single[: sum(ios)],
        errors=int(result.errors),
        position=int(result.position),
    )


def _latencies(result: _Result, bins: npt.NDArray[np.uint64], side: int) -> Histogram:
    return Histogram(bins[side].astype(np.int64)).ended(float(result.latency_max_ns[side]))


class Op(IntEnum):
    """The operation of a request; the same as enum ssdb_op in C."""

    READ = 0
    WRITE = 1
    TRIM = 2
    FLUSH = 3
    ZEROES = 4


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
    """The drive's answer to one request: its status and its completion time."""

    done_ns: int  # on the device's clock
    why: int  # bits of enum ssdb_why: the reasons for its duration
    error: CoreError


class Drive:
    """A simulated drive whose whole state is in one block of memory."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._core = library()
        self._bytes = len(memory)
        self._held = (ctypes.c_char * self._bytes).from_buffer(memory)
        self.address = ctypes.addressof(self._held)

    @classmethod
    def in_memory(cls, params: Params) -> Self:
        """Make a new drive that ends with this process. Raises UsageError for bad parameters."""
        params.check()
        drive = cls(mmap.mmap(-1, params.state_bytes()))
        drive.initialise(params)
        return drive

    def copied(self) -> Self:
        """Return an independent copy of this drive, with its state in new memory."""
        copy = type(self)(mmap.mmap(-1, self._bytes))
        ctypes.memmove(copy.address, self.address, self._bytes)
        return copy

    def initialise(self, params: Params) -> None:
        """Write the state of a new drive with these parameters into the memory of this object."""
        error = CoreError(self._core.ssdb_init(self.address, self._bytes, params.address))
        if error:
            raise DeviceError(f"the simulated drive cannot be created: {error.sentence()}")

    def attach(self) -> CoreError:
        """Check the state in the memory and begin to use it; return OK, or why it is unusable."""
        return CoreError(self._core.ssdb_attach(self.address, self._bytes))

    def repair(self) -> CoreError:
        """Repair a state whose program died inside a request; return TORN for other damage."""
        return CoreError(self._core.ssdb_repair(self.address, self._bytes))

    def broken_invariant(self) -> int:
        """Check all maps and counts of the drive; return 0, or the number of the first failure."""
        return int(self._core.ssdb_check(self.address))

    def release(self) -> None:
        """Detach the drive from its memory, which can then be closed; do not use it afterwards."""
        self.address = 0
        del self._held

    @property
    def capacity_bytes(self) -> int:
        """Return the size of the drive in bytes, as the host sees it."""
        return int(self._core.ssdb_capacity_bytes(self.address))

    @property
    def lba_bytes(self) -> int:
        """Return the size of a logical block."""
        return int(self._core.ssdb_lba_bytes(self.address))

    @property
    def now_ns(self) -> int:
        """Return the time that the drive's clock had at the last request."""
        return int(self._core.ssdb_now_ns(self.address))

    def params(self) -> dict[str, int]:
        """Return the parameters of the drive, by name."""
        return params_at(self._core.ssdb_state_params(self.address))

    def counters(self) -> dict[str, int]:
        """Return all counters of the drive, by name."""
        core = self._core
        return {
            name: int(core.ssdb_counter(self.address, index))
            for index, name in enumerate(counter_names())
        }

    def submit(
        self, op: Op, offset: int, size_bytes: int, *, now_ns: int | None = None, fua: bool = False
    ) -> Done:
        """Submit one request to the drive, by default at the current time of the drive's clock."""
        command = _Cmd(op, int(fua), offset, size_bytes)
        done = _Done()
        at_ns = self.now_ns if now_ns is None else now_ns
        self._core.ssdb_submit(self.address, at_ns, ctypes.byref(command), ctypes.byref(done))
        return Done(done.done_ns, done.why, CoreError(done.error))

    def idle(self, now_ns: int) -> None:
        """Let the drive be idle, and do background work, until `now_ns` on its clock."""
        self._core.ssdb_idle(self.address, now_ns)

    def run(self, job: Job, *, seconds: int = 0, per_io: int = 0) -> RunResult:
        """Run a job on this drive; see `run`."""
        return run(self.address, job, seconds=seconds, per_io=per_io)
