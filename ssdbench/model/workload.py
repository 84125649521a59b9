"""Define workloads: patterns, active ranges, streams and points."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from ssdbench.model.base import Model
from ssdbench.units import format_ns, format_size

WHOLE_PERCENT = 100


Direction = Literal["read", "write"]


class Pattern(StrEnum):
    """Name the order of offsets. STRIDED writes one block, then skips to the next stride."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"
    STRIDED = "strided"


class Content(StrEnum):
    """Name the kind of written data: incompressible random data, or zeros."""

    RANDOM = "random"
    ZEROS = "zeros"


class Arrivals(StrEnum):
    """Name the times at which requests of an offered rate are due."""

    EVEN = "even"  # one after each interval
    POISSON = "poisson"  # at random, as from many independent clients


class IoEngine(StrEnum):
    """Name how fio sends requests to the drive, with fio's names."""

    LIBAIO = "libaio"
    IO_URING = "io_uring"
    IO_URING_FIXED = "io_uring_fixed"  # fixed buffers, registered files
    IO_URING_POLLED = "io_uring_polled"  # the same with polled completions
    IO_URING_CMD = "io_uring_cmd"  # like IO_URING, but NVMe commands past the block layer


class ActiveRange(Model):
    """Hold the range of LBAs that a workload may access."""

    offset_bytes: int = Field(ge=0)
    length_bytes: int = Field(gt=0)


class Stream(Model):
    """Hold one of several streams of requests that run together: a section of a fio job file.

    `options` are the fio options of the stream, with sizes in bytes and the place on the drive.
    """

    name: str
    options: tuple[tuple[str, str], ...]
    group: int = Field(default=0, ge=0)  # streams of one group are reported together
    random: bool
    block_sizes: tuple[int, ...] = Field(min_length=1)  # bytes: all, or the least and the most
    mean_bytes: float = Field(gt=0)  # of a request, reads and writes together
    write_bytes: float | None = None  # mean size of a write, if it differs
    read_percent: int = Field(ge=0, le=100)  # share of reads among reads and writes
    trim_percent: int = Field(default=0, ge=0, le=100)  # share of trims among all requests
    iodepth: int = Field(default=1, ge=1)
    numjobs: int = Field(default=1, ge=1)
    range: ActiveRange  # of all its jobs together
    flushes: bool = False
    paced: bool = False  # whether it has a rate or pauses
    offered_iops: float | None = None  # over all its jobs; None without an offered rate

    @property
    def in_flight(self) -> int:
        """Return how many requests the stream keeps in flight at most."""
        return self.iodepth * self.numjobs

    @property
    def only_trims(self) -> bool:
        """Tell whether the stream neither reads nor writes."""
        return self.trim_percent == WHOLE_PERCENT

    @property
    def writes(self) -> bool:
        """Tell whether the stream writes."""
        return self.read_percent < WHOLE_PERCENT and not self.only_trims

    @property
    def moved_bytes_per_s(self) -> float:
        """Return the read and written bytes per second of an offered rate."""
        moving_iops = (self.offered_iops or 0.0) * (100 - self.trim_percent) / 100
        return moving_iops * self.mean_bytes

    @property
    def written_bytes_per_s(self) -> float:
        """Return the written bytes per second of an offered rate."""
        written = self.moved_bytes_per_s * (100 - self.read_percent) / 100
        return written * (self.write_bytes or self.mean_bytes) / self.mean_bytes

    @property
    def poisson(self) -> bool:
        """Tell whether requests arrive at random times; fio then controls requests, not bytes."""
        return ("rate_process", str(Arrivals.POISSON)) in self.options

    def label(self) -> str:
        """Return a short text such as `data: 8 KiB random, 70 % read, 16 in flight`."""
        sizes = [format_size(size) for size in sorted({*self.block_sizes})]
        size = sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        order = "random" if self.random else "sequential"
        rate = "" if self.offered_iops is None else f", {self.offered_iops:,.6g} IOPS offered"
        does = "trims" if self.only_trims else f"{self.read_percent} % read"
        if 0 < self.trim_percent < WHOLE_PERCENT:
            does += ", a trim before each write"
        return f"{self.name}: {size} {order}, {does}, {self.in_flight} in flight{rate}"


LEAST_MAP_UNIT_BYTES = 4096  # smallest mapping unit of drives
LARGEST_MAP_UNIT_BYTES = 65536


def is_map_unit(size_bytes: int) -> bool:
    """Tell whether a drive may map its flash in units of this size: a power of two, 4 to 64 KiB."""
    power = size_bytes > 0 and not size_bytes & (size_bytes - 1)
    return power and LEAST_MAP_UNIT_BYTES <= size_bytes <= LARGEST_MAP_UNIT_BYTES


def queue_words(iodepth: int, numjobs: int) -> str:
    """Return the text `QD 32`, or `QD 32 x 4` for four jobs with 32 requests in flight each."""
    return f"QD {iodepth}" + (f" x {numjobs}" if numjobs > 1 else "")


class Workload(Model):
    """Hold one constant stream of requests, as SNIA PTS and fio both describe it.

    With `streams`, the workload is several streams that run at the same time. The other fields then
    summarise the streams: the smallest block, the share of reads, all requests in flight, and the
    range that covers all streams.
    """

    pattern: Pattern
    block_bytes: int = Field(gt=0)
    read_percent: int = Field(ge=0, le=100)
    iodepth: int = Field(default=1, ge=1)
    numjobs: int = Field(default=1, ge=1)
    range: ActiveRange
    stride_bytes: int | None = None  # STRIDED only: distance between the starts of two blocks
    content: Content = Content.RANDOM
    rate_iops: float | None = None  # offered rate over all jobs; None: as fast as possible
    arrivals: Arrivals = Arrivals.EVEN  # of an offered rate
    thinktime_us: int = 0
    thinktime_blocks: int = Field(default=1, ge=1)  # requests between two pauses
    burst_us: int = 0  # how long requests flow between two thinktimes; 0 = one request
    block_split: tuple[tuple[int, int], ...] = ()  # ((bytes, percent), …) replaces block_bytes
    zones: tuple[tuple[float, float], ...] = ()  # ((percent of I/O, percent of range), …)
    streams: tuple[Stream, ...] = ()
    title: str = ""  # of the streams, such as the name of their job file
    engine: IoEngine = IoEngine.LIBAIO  # of fio; simulated drives do not use it

    @model_validator(mode="after")
    def _consistent(self) -> "Workload":
        if self.block_bytes > self.range.length_bytes:
            raise ValueError(
                f"a block of {format_size(self.block_bytes)} does not fit into a range of "
                f"{format_size(self.range.length_bytes)}"
            )
        if (self.pattern is Pattern.STRIDED) != (self.stride_bytes is not None):
            raise ValueError("a strided pattern, and only that, needs a stride")
        return self

    @property
    def writes(self) -> bool:
        """Tell whether the workload writes."""
        return self.read_percent < 100

    def layout_on(self, unit_bytes: int = 0) -> tuple[object, ...]:
        """Return a key for the arrangement of data that the writes leave: order, block size, place.

        Two workloads have equal keys if they differ only in reads, depth and, for random writes,
        jobs. Blocks below 4 KiB, the smallest unit that drives map, count as 4 KiB. Blocks that are
        a part of the drive's mapping unit count as the unit. `unit_bytes` is the mapping unit; 0 if
        the unit is not known. A workload with streams, zones or pauses has its own layout.
        """
        if self.streams or self.zones or self.block_split or self.thinktime_us:
            return (self,)
        least = max(LEAST_MAP_UNIT_BYTES, unit_bytes)
        place = (self.range.offset_bytes, self.range.length_bytes // least)
        match self.pattern:
            case Pattern.RANDOM:
                replaced = max(LEAST_MAP_UNIT_BYTES, self.replaced_bytes(unit_bytes))
                return (self.pattern, replaced, *place)
            case Pattern.SEQUENTIAL:
                return (self.pattern, self.numjobs, *place)
            case Pattern.STRIDED:
                return (self,)

    def replaced_bytes(self, unit_bytes: int) -> int:
        """Return how many bytes of flash one write replaces.

        A random write to a part of a mapping unit makes the drive write the whole unit again. All
        other writes replace as many bytes as they write. `unit_bytes` is the drive's mapping unit
        in bytes, or 0 if it is not known.
        """
        alone = self.pattern is Pattern.RANDOM and not (self.streams or self.block_split)
        within = 0 < self.block_bytes < unit_bytes and not unit_bytes % self.block_bytes
        return unit_bytes if alone and within else self.block_bytes

    def overwrites(self, unit_bytes: int) -> float:
        """Return how many bytes of flash one written byte replaces: 4 for 4 KiB in 16 KiB units."""
        return self.replaced_bytes(unit_bytes) / self.block_bytes

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Return all request sizes of the workload, in bytes."""
        if self.streams:
            return tuple(size for stream in self.moving for size in stream.block_sizes)
        return tuple(size for size, _ in self.block_split) or (self.block_bytes,)

    @property
    def moving(self) -> tuple[Stream, ...]:
        """Return the streams that read or write."""
        return tuple(stream for stream in self.streams if not stream.only_trims)

    @property
    def trims(self) -> bool:
        """Tell whether the workload sends trims, so that the drive does not stay full."""
        return any(stream.trim_percent for stream in self.streams)

    @property
    def paced(self) -> bool:
        """Tell whether rates or pauses, not the drive, limit the speed of reads or writes."""
        return any(stream.paced for stream in self.moving)

    @property
    def rated(self) -> bool:
        """Tell whether all streams that read or write have an offered rate."""
        return bool(self.moving) and all(stream.offered_iops for stream in self.moving)

    @property
    def keeps_queue_full(self) -> bool:
        """Tell whether fio sends the next request at once after each completed request."""
        waits = self.rate_iops is not None or self.thinktime_us
        return not waits and not any(s.paced or s.flushes or s.trim_percent for s in self.streams)

    @property
    def order(self) -> str:
        """Return the order of offsets, and the engine if not libaio, as in `random, io_uring`."""
        usual = self.engine is IoEngine.LIBAIO
        return str(self.pattern) if usual else f"{self.pattern}, {self.engine}"

    def label(self) -> str:
        """Return a short text, such as `4 KiB random write, QD 32 x 4`."""
        if self.streams:
            names = " + ".join(stream.name for stream in self.streams)
            return f"{self.title}: {names}, {self.iodepth} in flight"
        mix = {0: "write", 100: "read"}.get(self.read_percent)
        mix = mix or f"{self.read_percent}/{100 - self.read_percent} read/write"
        engine = "" if self.engine is IoEngine.LIBAIO else f"{self.engine}, "
        return (
            f"{format_size(self.block_bytes)} {self.pattern} {mix}, {engine}"
            f"{queue_words(self.iodepth, self.numjobs)}{self._pauses()}"
        )

    def _pauses(self) -> str:
        if not self.thinktime_us:
            return ""
        every = "" if self.thinktime_blocks == 1 else f" after every {self.thinktime_blocks}"
        return f", pauses of {format_ns(self.thinktime_us * 1000)}{every}"


class Point(Model):
    """Hold one cell of a sweep: a workload with a name that is equal in all runs of a profile."""

    id: str
    sweep: str  # which stage of the profile it belongs to, such as "01-sweep"
    workload: Workload
    span_percent: float | None = None  # touched share of the drive, for a sweep over spans
    fill_percent: float | None = None  # filled share of the drive; None: as the fill says

    def label(self) -> str:
        """Return a short text with the workload, and its share of the drive or how full this is."""
        share = "" if self.span_percent is None else f", {self.span_percent:g} % of the drive"
        full = "" if self.fill_percent is None else f", drive {self.fill_percent:g} % full"
        return self.workload.label() + share + full
