"""What a profile may measure: sweeps, span sweeps, the search for the block size.

A new kind of stage is a model and one field of `Measure`; the loader, the JSON Schema and the
editor's completion follow.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from ssdbench.model.base import Model
from ssdbench.model.quantity import (
    WHOLE,
    Count,
    Extent,
    OneOrMany,
    Percent,
    Positive,
    ReadPercent,
    Seconds,
    SizeBytes,
    Span,
)
from ssdbench.model.workload import Pattern
from ssdbench.units import KIB, format_size

Mistake = tuple[tuple[str | int, ...], str]  # path below the model, and what is wrong there


def refuse(mistakes: Sequence[Mistake]) -> None:
    """Raise what the loader turns into one diagnostic per mistake, each where it belongs."""
    if mistakes:
        context: dict[str, Any] = {"mistakes": list(mistakes)}
        raise PydanticCustomError("mistakes", "{mistakes}", context)


class AccessOrder(StrEnum):
    """The order of offsets that a profile may ask for."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"

    @property
    def pattern(self) -> Pattern:
        """The same, as a workload names it."""
        return Pattern(self.value)


class Rest(StrEnum):
    """What lies on the drive outside a span while the span is measured."""

    STATIC = "static"  # what the stages before left there
    ORDERED = "ordered"  # the same data, written once more in order before the spans
    EMPTY = "empty"


def _repeated(name: str, values: Sequence[object]) -> Iterator[Mistake]:
    for index, value in enumerate(values):
        if value in values[:index]:
            text = format_size(value) if name in ("block", "strides") else value  # type: ignore[arg-type]
            yield (name, index), f"{text} is given twice"


def _too_large(block_bytes: int, span: Extent) -> Iterator[str]:
    if span.size_bytes is not None and block_bytes > span.size_bytes:
        block, room = format_size(block_bytes), format_size(span.size_bytes)
        yield f"a block of {block} does not fit into a span of {room}"


class Settle(Model):
    """The part of each repeat that is stored but not counted."""

    window_s: Seconds = Field(
        default=600.0,
        alias="window",
        description="Points that write: the rule must hold again over at least this long.",
    )
    spare_percent: Percent | None = Field(
        default=None,
        alias="spare",
        description="Points that write: this share of the drive is written first. Without it, "
        "the drive's spare area where it is known (a simulated drive), else 28%, a large one.",
    )
    flat_s: Seconds = Field(
        default=60.0,
        alias="flat",
        description="Points that only read: the rate must be flat for this long.",
    )
    max_fills: Positive = Field(
        default=2.0, description="Count the repeat as not steady after this many drive fills."
    )
    max_time_s: Seconds | None = Field(
        default=None,
        alias="max_time",
        description="Count the repeat as not steady after this time; no limit unless it is "
        "set, but points that only read never settle longer than 30 times `flat`.",
    )


class Sweep(Model):
    """Every combination of the lists below is one point."""

    pattern: Annotated[tuple[AccessOrder, ...], OneOrMany()] = Field(
        default=(AccessOrder.RANDOM,), min_length=1, description="Order of offsets."
    )
    block_bytes: Annotated[tuple[SizeBytes, ...], OneOrMany()] = Field(
        default=(4 * KIB,), alias="block", min_length=1, description="Sizes of one request."
    )
    read_percent: Annotated[tuple[ReadPercent, ...], OneOrMany()] = Field(
        default=(0,), alias="read", min_length=1, description="Shares of reads, in percent."
    )
    iodepth: Annotated[tuple[Count, ...], OneOrMany()] = Field(
        default=(32,), min_length=1, description="Requests in flight per job."
    )
    numjobs: Annotated[tuple[Count, ...], OneOrMany()] = Field(
        default=(1,), min_length=1, description="Jobs at the same time."
    )
    span: Span = Field(default=WHOLE, description="Part of the drive that is used, from its start.")
    repeats: Count | None = Field(
        default=None, description="Repeats per point; without it, those of the profile."
    )
    window_s: Seconds | None = Field(
        default=None,
        alias="window",
        description="Time measured per repeat; without it, that of the profile.",
    )
    settle: Settle | None = Field(
        default=None,
        description="How repeats of this stage settle; without it, as the profile says.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            [
                *_repeated("pattern", self.pattern),
                *_repeated("block", self.block_bytes),
                *_repeated("read", self.read_percent),
                *_repeated("iodepth", self.iodepth),
                *_repeated("numjobs", self.numjobs),
                *(
                    (("block", index), message)
                    for index, block in enumerate(self.block_bytes)
                    for message in _too_large(block, self.span)
                ),
            ]
        )
        return self

    @property
    def reads(self) -> bool:
        """Whether some point reads."""
        return any(self.read_percent)


class SpanSweep(Model):
    """One workload over growing parts of the drive, smallest first, the whole drive last."""

    pattern: AccessOrder = Field(default=AccessOrder.RANDOM, description="Order of offsets.")
    block_bytes: SizeBytes = Field(
        default=4 * KIB, alias="block", description="Size of one request."
    )
    read_percent: ReadPercent = Field(
        default=0, alias="read", description="Share of reads, in percent."
    )
    iodepth: Count = Field(default=32, description="Requests in flight per job.")
    numjobs: Count = Field(default=1, description="Jobs at the same time.")
    spans: Annotated[tuple[Span, ...], OneOrMany()] = Field(
        default=tuple(Extent(percent=share) for share in (5.0, 25.0, 50.0, 100.0)),
        min_length=1,
        description="Parts of the drive, as shares or sizes, from its start.",
    )
    rest: Rest = Field(
        default=Rest.STATIC,
        description="What fills the drive outside the span: static data as the stages before left "
        "them, which after random writes hold on to much of the spare area; static data that are "
        "written in order once more before the spans; or nothing, which flatters the drive.",
    )
    repeats: Count | None = Field(
        default=None, description="Repeats per span; without it, those of the profile."
    )
    window_s: Seconds | None = Field(
        default=None,
        alias="window",
        description="Time measured per repeat; without it, that of the profile.",
    )
    settle: Settle | None = Field(
        default=None,
        description="How repeats of this stage settle; without it, as the profile says.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(
            [
                *_repeated("spans", self.spans),
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
        """Whether it reads."""
        return self.read_percent > 0


class BlockSize(Model):
    """Find the drive's block size and internal buffer by strided writes."""

    strides: Literal["auto"] | tuple[SizeBytes, ...] = Field(
        default="auto", description="Distances between writes, or auto to choose them."
    )
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block", description="Size of one write.")
    read_only: bool = Field(
        default=False,
        description="Read instead of write, for drives that hold data; far weaker evidence.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        strides = () if self.strides == "auto" else self.strides
        refuse(
            [
                *_repeated("strides", strides),
                *(
                    (
                        ("strides", index),
                        f"a stride of {format_size(stride)} must be larger than "
                        f"the block of {format_size(self.block_bytes)}",
                    )
                    for index, stride in enumerate(strides)
                    if stride <= self.block_bytes
                ),
            ]
        )
        return self

    @property
    def reads(self) -> bool:
        """Whether it reads."""
        return False


class HostTrial(Model):
    """The same short workloads under one host setting after another; medians are compared."""

    repeats: Count = Field(default=3, description="Passes over all variants and workloads.")
    window_s: Seconds = Field(
        default=5.0, alias="window", description="Time of each start, in whole seconds."
    )

    @property
    def reads(self) -> bool:
        """Whether it reads."""
        return True


class Schedulers(HostTrial):
    """The drive's I/O schedulers over sequential, random, mixed and prioritised work."""

    schedulers: Annotated[tuple[str, ...], OneOrMany()] = Field(
        default=(), description="Schedulers to compare; all that the drive offers unless set."
    )


class QueueSettings(HostTrial):
    """nr_requests, merges, completion affinity and entropy, one after another."""


class Engines(HostTrial):
    """Ways to submit I/O, and direct I/O against the page cache."""


class PtsTest(StrEnum):
    """Tests in the style of SNIA's Performance Test Specification that run in rounds."""

    IOPS = "iops"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    COMPOSITE = "composite"
    DEMAND = "demand"


class PtsForm(StrEnum):
    """Which form of the specification: they differ in active range, queue and threads."""

    ENTERPRISE = "enterprise"
    CLIENT = "client"


class Pts(Model):
    """Standard tests in the style of SNIA's PTS, each in rounds until five are alike."""

    tests: Annotated[tuple[PtsTest, ...], OneOrMany()] = Field(
        default=(PtsTest.IOPS,), min_length=1, description="Which tests, in order."
    )
    form: PtsForm = Field(default=PtsForm.ENTERPRISE, description="Enterprise or client form.")
    max_rounds: Count = Field(
        default=25, description="Give up, and say so, after this many rounds."
    )
    scale: Positive = Field(
        default=1.0, description="Scales all durations; anything but 1 is for demonstrations only."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse([*_repeated("tests", self.tests)])
        return self

    @property
    def reads(self) -> bool:
        """Whether some cell reads."""
        return True


MeasuredStage = Sweep | SpanSweep | BlockSize | Schedulers | QueueSettings | Engines | Pts


def _empty(body: object) -> object:
    """`- sweep:` with nothing below it asks for the defaults."""
    return {} if body is None else body


_Body = BeforeValidator(_empty)


class Measure(Model):
    """One stage of measuring: exactly one of the keys below."""

    model_config = {"json_schema_extra": {"minProperties": 1, "maxProperties": 1}}

    sweep: Annotated[Sweep | None, _Body] = Field(
        default=None, description="Points over block size, read share, depth and jobs."
    )
    span: Annotated[SpanSweep | None, _Body] = Field(
        default=None, description="One workload over growing parts of the drive."
    )
    blocksize: Annotated[BlockSize | None, _Body] = Field(
        default=None, description="Block size and internal buffer from strided writes."
    )
    pts: Annotated[Pts | None, _Body] = Field(
        default=None, description="Standard tests in the style of SNIA's PTS."
    )

    schedulers: Annotated[Schedulers | None, _Body] = Field(
        default=None, description="I/O schedulers compared over several workloads."
    )
    queue: Annotated[QueueSettings | None, _Body] = Field(
        default=None, description="Settings of the drive's queue compared."
    )
    engines: Annotated[Engines | None, _Body] = Field(
        default=None, description="I/O engines and the page cache compared."
    )

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        kinds = [name for name in type(self).model_fields if name in self.model_fields_set]
        if not kinds:
            known = ", ".join(type(self).model_fields)
            refuse([((), f"a stage needs one of the keys {known}")])
        refuse(
            [
                ((extra,), f"'{extra}' is a second stage; start a new list item with a dash")
                for extra in kinds[1:]
            ]
        )
        return self

    @property
    def kind(self) -> str:
        """The key: sweep, span, blocksize."""
        return next(name for name in type(self).model_fields if name in self.model_fields_set)

    @property
    def stage(self) -> MeasuredStage:
        """The stage under the key."""
        found: MeasuredStage = getattr(self, self.kind)
        return found
