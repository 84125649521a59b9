"""Define `sweep`, `span` and `processes`, and the settings that all stages with repeats share.

The writers that pause repeat the experiments of Dunn 2009, figures 11 to 13.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from ssdbench.model.base import Mistake, ProfileModel
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.quantity import (
    WHOLE,
    Extent,
    Jobs,
    Many,
    Percent,
    Positive,
    QueueDepth,
    ReadPercent,
    Repeats,
    Seconds,
    Share,
    SizeBytes,
    Span,
)
from ssdbench.model.workload import IoEngine, Pattern
from ssdbench.units import KIB, format_size


class Settle(ProfileModel):
    """The part of each repeat before its window.

    The steady seconds of this phase are also evidence.
    """

    window_s: Seconds = Field(default=600.0, alias="window")
    """Points that write: settle for at least this long, and until the rate neither rises nor
    falls."""
    spare_percent: Percent | None = Field(default=None, alias="spare")
    """Points that write: this share of the drive is written first. Default: the share of the
    drive's spare area if it is known (simulated drives); otherwise 28%, the share of a large spare
    area."""
    flat_s: Seconds = Field(default=60.0, alias="flat")
    """Points that only read: settle for at least this long."""
    unbroken_s: Seconds = Field(default=1800.0, alias="unbroken")
    """The first repeat of each point: its load runs without a break for at least this long, and
    until the rate is flat over the last two thirds of that time. With less than 30m the points are
    not VALIDATED. A run that writes lasts at least seven times as long as this: the workload of the
    warm-up is measured again at the end, until that time is over."""
    max_fills: Positive = 2.0
    """Count the repeat as not steady after this many drive fills."""
    max_time_s: Seconds | None = Field(default=None, examples=["30m"], alias="max_time")
    """Count the repeat as not steady after this time. Without this key there is no limit, except
    for points that only read, whose limit is 30 times `flat`."""


class ExtraRepeats(ProfileModel):
    """Repeats beyond the planned ones.

    Extra repeats are declared before the start, and reports show all of them.
    """

    most: Repeats = 30
    """Largest number of repeats per point, including the planned ones."""
    width_percent: Percent | None = Field(default=2.0, alias="width")
    """Points get more repeats if the 95 % interval of their mean is wider than plus or minus this
    share of the mean. With null, a wide interval causes no more repeats."""
    disturbed: bool = True
    """true: points get more repeats, until as many as planned were not disturbed."""


class Repeated(ProfileModel):
    """Points in repeats. Each repeat settles first; then its window is measured."""

    repeats: Repeats | None = Field(default=None, examples=[10])
    """Repeats per point. Default: the profile's `repeats`."""
    window_s: Seconds | None = Field(default=None, examples=["5m"], alias="window")
    """How long each repeat is measured. Default: the profile's `window`."""
    settle: Settle | None = None
    """How repeats of this stage settle. Default: the profile's `settle`. Workloads with a rate or
    pauses settle for a time, not for an amount of bytes."""


class Extendable(Repeated):
    """Points that may get more repeats than planned."""

    extra: ExtraRepeats | None = None
    """More repeats if intervals are wide or repeats were disturbed."""


ALL_READS = 100  # percent


class AccessOrder(StrEnum):
    """The order of offsets that a profile may ask for."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"

    @property
    def pattern(self) -> Pattern:
        """Return the workload pattern with this order of offsets."""
        return Pattern(self.value)


class Rest(StrEnum):
    """Data on the drive outside a span while the span is measured."""

    STATIC = "static"  # data of earlier stages
    ORDERED = "ordered"  # the same data, written again in order before the spans
    EMPTY = "empty"


def _too_large(block_bytes: int, span: Extent) -> str:
    if span.size_bytes is None or block_bytes <= span.size_bytes:
        return ""
    block, room = format_size(block_bytes), format_size(span.size_bytes)
    return f"a block of {block} does not fit into a span of {room}"


class Requests(ProfileModel):
    """The order, size and kind of the requests of one workload."""

    pattern: AccessOrder = AccessOrder.RANDOM
    """Order of offsets."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one request."""
    read_percent: ReadPercent = Field(default=0, alias="read")
    """Share of reads, in percent."""

    @property
    def reads(self) -> bool:
        """Tell whether the workload has reads."""
        return self.read_percent > 0


class Sweep(Extendable):
    """Measure a point for every combination of order, block size, read share, depth and jobs."""

    kind: ClassVar[PointsKind] = StageKind.SWEEP

    pattern: Many[AccessOrder] = Field(default=(AccessOrder.RANDOM,), min_length=1)
    """Order of offsets."""
    block_bytes: Many[SizeBytes] = Field(default=(4 * KIB,), alias="block", min_length=1)
    """Sizes of one request."""
    read_percent: Many[ReadPercent] = Field(default=(0,), alias="read", min_length=1)
    """Shares of reads, in percent."""
    iodepth: Many[QueueDepth] = Field(default=(32,), min_length=1)
    """Requests in flight per job."""
    numjobs: Many[Jobs] = Field(default=(1,), min_length=1)
    """Jobs at the same time."""
    engine: Many[IoEngine] = Field(default=(IoEngine.LIBAIO,), min_length=1)
    """How requests reach the drive: by libaio or io_uring, by io_uring with fixed buffers
    (io_uring_fixed) or with fixed buffers and polling (io_uring_polled), or as NVMe commands past
    the block layer (io_uring_cmd)."""
    span: Span = WHOLE
    """Part of the drive that is used, from its start."""
    where_possible: bool = False
    """Leave out and report points that the drive cannot do, such as blocks below its logical block;
    without this key they are an error."""

    def mistakes(self) -> Iterator[Mistake]:
        if IoEngine.IO_URING_CMD in self.engine:
            for index, share in enumerate(self.read_percent):
                if share not in (0, ALL_READS):
                    yield (
                        ("read", index),
                        f"io_uring_cmd with {share}% reads cannot be counted: the kernel counts "
                        "commands, but not reads and writes separately; set 0 or 100, or another "
                        "`engine`",
                    )
        for index, block in enumerate(self.block_bytes):
            if why := _too_large(block, self.span):
                yield ("block", index), why

    @property
    def reads(self) -> bool:
        """Tell whether any point of the sweep has reads."""
        return any(self.read_percent)


class SpanSweep(Requests, Extendable):
    """Measure one workload over growing parts of the drive, the whole drive last."""

    kind: ClassVar[PointsKind] = StageKind.SPAN

    iodepth: QueueDepth = 32
    """Requests in flight per job."""
    numjobs: Jobs = 1
    """Jobs at the same time."""
    spans: Many[Span] = Field(
        default=tuple(Extent(percent=share) for share in (5.0, 25.0, 50.0, 100.0)), min_length=1
    )
    """Parts of the drive that are measured, as shares or sizes. Each part begins at the start of
    the drive."""
    rest: Rest = Rest.STATIC
    """The data outside the span. static: data of earlier stages, which after random writes occupy
    much of the spare area. ordered: the same data, written again in order before the spans. empty:
    no data, which makes the result too good."""
    extra: ExtraRepeats | None = None
    """More repeats of a span whose interval is wide or whose repeats were disturbed, before the
    next span begins."""

    def mistakes(self) -> Iterator[Mistake]:
        for index, span in enumerate(self.spans):
            if why := _too_large(self.block_bytes, span):
                yield ("spans", index), why


class Processes(Repeated):
    """Measure sequential writers, each in its own part of the drive; some pause regularly."""

    kind: ClassVar[PointsKind] = StageKind.PROCESSES
    reads: ClassVar[bool] = False

    pattern: AccessOrder = AccessOrder.SEQUENTIAL
    """Order of offsets."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one write."""
    processes: Many[Jobs] = Field(default=(1, 2, 4, 8), min_length=1)
    """Writers at the same time."""
    delays_s: Many[Seconds] = Field(default=(0.001, 0.01, 0.1), alias="delays")
    """Lengths of a pause."""
    delayed_percent: Many[Share] = Field(default=(10.0, 50.0), alias="delayed")
    """Share of writes that are followed by a pause. With 10%, a writer pauses after every tenth
    write, not at random."""
    delayed_processes: Many[Jobs] = (1, 8)
    """Numbers of writers that are also measured with pauses."""
    settle: Settle = Settle.model_validate({"window": "60s", "spare": "0%", "max_time": "5m"})
    """How points settle: for a time, because a writer that pauses may take days to write the spare
    area once."""
