"""Defines `sweep`, `span` and `processes`: points, parts of the drive, and several writers.

Writers that pause follow Dunn 2009, figures 11 to 13.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from ssdbench.model.base import Mistake, refuse, repeated
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.profile.repeated import Extendable, ExtraRepeats, Repeated, Settle
from ssdbench.model.quantity import (
    WHOLE,
    Extent,
    Jobs,
    OneOrMany,
    QueueDepth,
    ReadPercent,
    Seconds,
    Share,
    SizeBytes,
    Span,
)
from ssdbench.model.workload import IoEngine, Pattern
from ssdbench.units import KIB, format_size

ALL_READS = 100  # percent


class AccessOrder(StrEnum):
    """The order of offsets that a profile may ask for."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"

    @property
    def pattern(self) -> Pattern:
        """Return the same, as a workload names it."""
        return Pattern(self.value)


class Rest(StrEnum):
    """What lies on the drive outside a span while the span is measured."""

    STATIC = "static"  # what the stages before left there
    ORDERED = "ordered"  # the same data, written once more in order before the spans
    EMPTY = "empty"


def _too_large(block_bytes: int, span: Extent) -> Iterator[str]:
    if span.size_bytes is not None and block_bytes > span.size_bytes:
        block, room = format_size(block_bytes), format_size(span.size_bytes)
        yield f"a block of {block} does not fit into a span of {room}"


class Sweep(Extendable):
    """Every combination of the lists below is one point."""

    kind: ClassVar[PointsKind] = StageKind.SWEEP

    pattern: Annotated[tuple[AccessOrder, ...], OneOrMany()] = Field(
        default=(AccessOrder.RANDOM,), min_length=1
    )
    """Order of offsets."""
    block_bytes: Annotated[tuple[SizeBytes, ...], OneOrMany()] = Field(
        default=(4 * KIB,), alias="block", min_length=1
    )
    """Sizes of one request."""
    read_percent: Annotated[tuple[ReadPercent, ...], OneOrMany()] = Field(
        default=(0,), alias="read", min_length=1
    )
    """Shares of reads, in percent."""
    iodepth: Annotated[tuple[QueueDepth, ...], OneOrMany()] = Field(default=(32,), min_length=1)
    """Requests in flight per job."""
    numjobs: Annotated[tuple[Jobs, ...], OneOrMany()] = Field(default=(1,), min_length=1)
    """Jobs at the same time."""
    engine: Annotated[tuple[IoEngine, ...], OneOrMany()] = Field(
        default=(IoEngine.LIBAIO,), min_length=1
    )
    """How requests reach the drive: by libaio or io_uring, by io_uring with fixed buffers
    (io_uring_fixed), polled as well (io_uring_polled), or as NVMe commands past the block layer
    (io_uring_cmd)."""
    span: Span = WHOLE
    """Part of the drive that is used, from its start."""
    where_possible: bool = False
    """Leave out, and name, what the drive cannot serve, such as blocks below its logical block;
    without it they are an error."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            [
                *repeated("pattern", self.pattern),
                *repeated("block", self.block_bytes),
                *repeated("read", self.read_percent),
                *repeated("iodepth", self.iodepth),
                *repeated("numjobs", self.numjobs),
                *repeated("engine", self.engine),
                *self._mixed_past_the_kernel(),
                *(
                    (("block", index), message)
                    for index, block in enumerate(self.block_bytes)
                    for message in _too_large(block, self.span)
                ),
            ]
        )
        return self

    def _mixed_past_the_kernel(self) -> Iterator[Mistake]:
        if IoEngine.IO_URING_CMD in self.engine:
            for index, share in enumerate(self.read_percent):
                if share not in (0, ALL_READS):
                    yield (
                        ("read", index),
                        f"io_uring_cmd with {share}% reads cannot be counted: the kernel tells how "
                        "many commands end, not which; set 0 or 100, or another `engine`",
                    )

    @property
    def reads(self) -> bool:
        """Tell whether some point reads."""
        return any(self.read_percent)


class SpanSweep(Extendable):
    """One workload over growing parts of the drive, smallest first, the whole drive last."""

    kind: ClassVar[PointsKind] = StageKind.SPAN

    pattern: AccessOrder = AccessOrder.RANDOM
    """Order of offsets."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one request."""
    read_percent: ReadPercent = Field(default=0, alias="read")
    """Share of reads, in percent."""
    iodepth: QueueDepth = 32
    """Requests in flight per job."""
    numjobs: Jobs = 1
    """Jobs at the same time."""
    spans: Annotated[tuple[Span, ...], OneOrMany()] = Field(
        default=tuple(Extent(percent=share) for share in (5.0, 25.0, 50.0, 100.0)), min_length=1
    )
    """Parts of the drive, as shares or sizes, from its start."""
    rest: Rest = Rest.STATIC
    """What fills the drive outside the span: static data as the stages before left them, which
    after random writes hold on to much of the spare area; static data that are written in order
    once more before the spans; or nothing, which flatters the drive."""
    extra: ExtraRepeats | None = None
    """More repeats of a span whose interval is wide or whose repeats were disturbed, before the
    next span is begun."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            [
                *repeated("spans", self.spans),
                *(
                    (("spans", index), message)
                    for index, span in enumerate(self.spans)
                    for message in _too_large(self.block_bytes, span)
                ),
            ]
        )
        return self

    @property
    def reads(self) -> bool:
        """Tell whether it reads."""
        return self.read_percent > 0


class Processes(Repeated):
    """Sequential writers, each in a part of its own; some of them pause now and then."""

    kind: ClassVar[PointsKind] = StageKind.PROCESSES

    pattern: AccessOrder = AccessOrder.SEQUENTIAL
    """Order of offsets."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one write."""
    processes: Annotated[tuple[Jobs, ...], OneOrMany()] = Field(default=(1, 2, 4, 8), min_length=1)
    """Writers at the same time."""
    delays_s: Annotated[tuple[Seconds, ...], OneOrMany()] = Field(
        default=(0.001, 0.01, 0.1), alias="delays"
    )
    """Lengths of a pause."""
    delayed_percent: Annotated[tuple[Share, ...], OneOrMany()] = Field(
        default=(10.0, 50.0), alias="delayed"
    )
    """Share of writes after which a writer pauses; every n-th, not at random."""
    delayed_processes: Annotated[tuple[Jobs, ...], OneOrMany()] = (1, 8)
    """Numbers of writers that are also measured with pauses."""
    settle: Settle = Settle.model_validate({"window": "60s", "spare": "0%", "max_time": "5m"})
    """A writer that pauses may take days to write the spare area once, so points settle in time and
    not in bytes."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            [
                *repeated("processes", self.processes),
                *repeated("delays", self.delays_s),
                *repeated("delayed", self.delayed_percent),
                *repeated("delayed_processes", self.delayed_processes),
            ]
        )
        return self

    @property
    def reads(self) -> bool:
        """Tell whether it reads."""
        return False
