"""What is done to a drive: patterns, active ranges, workloads and points."""

from enum import StrEnum

from pydantic import Field, model_validator

from ssdbench.model.base import Model
from ssdbench.units import format_ns, format_size


class Pattern(StrEnum):
    """The order of offsets. STRIDED writes one block, then skips to the next stride."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"
    STRIDED = "strided"


class Content(StrEnum):
    """What the written data look like to a compressing drive."""

    RANDOM = "random"
    ZEROS = "zeros"


class Arrivals(StrEnum):
    """When requests of an offered rate are due."""

    EVEN = "even"  # one after each interval
    POISSON = "poisson"  # at random, as from many independent clients


class ActiveRange(Model):
    """The LBAs that a workload may touch."""

    offset_bytes: int = Field(ge=0)
    length_bytes: int = Field(gt=0)


class Workload(Model):
    """One steady stream of requests, as SNIA PTS and fio both describe it."""

    pattern: Pattern
    block_bytes: int = Field(gt=0)
    read_percent: int = Field(ge=0, le=100)
    iodepth: int = Field(default=1, ge=1)
    numjobs: int = Field(default=1, ge=1)
    range: ActiveRange
    stride_bytes: int | None = None  # STRIDED only: distance between the starts of two blocks
    content: Content = Content.RANDOM
    rate_iops: float | None = None  # offered rate over all jobs; None = as fast as it goes
    arrivals: Arrivals = Arrivals.EVEN  # of an offered rate
    thinktime_us: int = 0
    thinktime_blocks: int = Field(default=1, ge=1)  # requests between two pauses
    burst_us: int = 0  # how long requests flow between two thinktimes; 0 = one request
    block_split: tuple[
        tuple[int, int], ...
    ] = ()  # ((block bytes, percent), …) replaces block_bytes
    zones: tuple[tuple[float, float], ...] = ()  # ((percent of I/O, percent of range), …)

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
        """Whether the workload writes at all."""
        return self.read_percent < 100

    def label(self) -> str:
        """Short text for people: `4 KiB random write, QD 32 x 4`."""
        mix = {0: "write", 100: "read"}.get(self.read_percent)
        mix = mix or f"{self.read_percent}/{100 - self.read_percent} read/write"
        return (
            f"{format_size(self.block_bytes)} {self.pattern} {mix}, "
            f"QD {self.iodepth} x {self.numjobs}{self._pauses()}"
        )

    def _pauses(self) -> str:
        if not self.thinktime_us:
            return ""
        every = "" if self.thinktime_blocks == 1 else f" after every {self.thinktime_blocks}"
        return f", pauses of {format_ns(self.thinktime_us * 1000)}{every}"


class Point(Model):
    """One cell of a sweep: a workload with a name that is stable across runs of a plan."""

    id: str
    sweep: str  # which stage of the profile it belongs to, such as "01-sweep"
    workload: Workload
    span_percent: float | None = None  # LBA-span sweeps: share of the drive that is touched

    def label(self) -> str:
        """What it does, for people, and in which share of the drive where that was asked for."""
        share = "" if self.span_percent is None else f", {self.span_percent:g} % of the drive"
        return self.workload.label() + share
