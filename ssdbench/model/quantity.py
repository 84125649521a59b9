"""Read quantities in profiles: sizes, durations, shares, and lists, or one value as a list.

Each quantity has the same pattern in the JSON Schema, so editors and the loader agree.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from ssdbench.model.base import Mistake, refuse
from ssdbench.units import (
    NS_PER_S,
    format_size,
    parse_duration_ns,
    parse_figure,
    parse_percent,
    parse_size,
)

_SIZE_SCHEMA: JsonSchemaValue = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([bB]|[kKmMgGtTpP]([iI][bB])?)?$"},
    ],
    "examples": ["4KiB", "64GiB", 512],
}
DURATION_SCHEMA: JsonSchemaValue = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]+)? ?(ns|us|ms|s|m|min|h|d)$",
    "examples": ["10ms", "90s", "2h"],
}
_PERCENT_SCHEMA: JsonSchemaValue = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]+)? ?%$",
    "examples": ["25%"],
}
_EXTENT_SCHEMA: JsonSchemaValue = {"anyOf": [_PERCENT_SCHEMA, *_SIZE_SCHEMA["anyOf"]]}


@dataclass(frozen=True, slots=True)
class Extent:
    """Hold a part of the drive, counted from the drive's start: as a share or as a size."""

    percent: float | None = None
    size_bytes: int | None = None

    def bytes_of(self, whole_bytes: int, *, align_bytes: int) -> int:
        """Return the length on a drive of `whole_bytes`, as a multiple of `align_bytes`."""
        if self.size_bytes is not None:
            wanted = min(self.size_bytes, whole_bytes)
        else:
            wanted = round(whole_bytes * (self.percent or 0.0) / 100)
        return wanted // align_bytes * align_bytes

    def __str__(self) -> str:
        if self.size_bytes is not None:
            return format_size(self.size_bytes).replace(" ", "")
        return f"{self.percent:g}%"


WHOLE = Extent(percent=100.0)


def _positive_size(value: object) -> int:
    size = parse_size(value)
    if size == 0:
        raise ValueError("a size must be larger than 0 bytes")
    return size


def parse_seconds(value: object) -> float:
    """Return a duration such as `10ms` in seconds. Raises ValueError for other text or 0."""
    duration_ns = parse_duration_ns(value)
    if duration_ns == 0:
        raise ValueError("a duration must be longer than 0 s")
    return duration_ns / NS_PER_S


def _share(value: object) -> float:
    percent = parse_percent(value)
    if not 0 < percent <= 100:
        raise ValueError(f"a share is above 0% and at most 100%, got {value!r}")
    return percent


def _extent(value: object) -> Extent:
    if isinstance(value, Extent):
        return value
    if isinstance(value, str) and value.strip().endswith("%"):
        return Extent(percent=_share(value))
    try:
        return Extent(size_bytes=_positive_size(value))
    except ValueError as error:
        if isinstance(value, str) and re.match(r"\s*[0-9]", value):
            raise
        message = f"a span is a share such as 25% or a size such as 64GiB, got {value!r}"
        raise ValueError(message) from error


def repeated(values: Sequence[object], words: Callable[[Any], str] = str) -> Iterator[Mistake]:
    """List the values that occur more than once, with their index; `words` formats a value."""
    for index, value in enumerate(values):
        if value in values[:index]:
            yield (index,), f"{words(value)} is given twice"


class OneOrMany:
    """Read a list whose values all differ. One value without brackets is also read as a list."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        words = format_size if get_args(source)[0] == SizeBytes else str

        def different(values: tuple[object, ...]) -> tuple[object, ...]:
            refuse([*repeated(values, words)])
            return values

        several = core_schema.no_info_after_validator_function(different, handler(source))
        return core_schema.no_info_before_validator_function(_listed, several)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        many = handler(schema)
        return {"anyOf": [many["items"], many]}


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


@dataclass(frozen=True, slots=True)
class Figure:
    """Read a figure of a data sheet: a number with its unit, within limits for all drives."""

    unit: str
    example: str
    least: float
    most: float

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(
            f"{{:.0f}}{self.unit}".format,
            return_schema=core_schema.str_schema(),
            when_used="json",
        )
        return core_schema.no_info_plain_validator_function(self.read, serialization=written)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        pattern = rf"^[0-9]+(\.[0-9]+)? ?[kKMGTP]?{self.unit}$"
        text = {"type": "string", "pattern": pattern, "examples": [self.example]}
        if self.unit:
            return text
        number = {"type": "number", "minimum": self.least, "maximum": self.most}
        return {"anyOf": [number, text], "examples": [self.example]}

    def read(self, value: object) -> float:
        """Return the number in its unit. Raises ValueError for other text or beyond the limits."""
        figure = parse_figure(value, self.unit)
        if not self.least <= figure <= self.most:
            least, most = (f"{end:,.0f} {self.unit}".strip() for end in (self.least, self.most))
            raise ValueError(f"no drive has {value!r}: the figure is from {least} to {most}")
        return figure


T = TypeVar("T")


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


NumberAsText = BeforeValidator(_number_as_text)  # because YAML reads numbers as numbers
Many = Annotated[tuple[T, ...], OneOrMany()]
SizeBytes = Annotated[int, BeforeValidator(_positive_size), WithJsonSchema(_SIZE_SCHEMA)]
# Not "{:g}s".format: pydantic wants one parameter, and Python 3.13.5 reports the parameters of
# str.format.
_AS_DURATION = PlainSerializer(lambda value: f"{value:g}s", return_type=str, when_used="json")
_AS_PERCENT = PlainSerializer(lambda value: f"{value:g}%", return_type=str, when_used="json")
_AS_TEXT = PlainSerializer(str, when_used="json")
_DURATION, _PERCENT = WithJsonSchema(DURATION_SCHEMA), WithJsonSchema(_PERCENT_SCHEMA)
Seconds = Annotated[float, BeforeValidator(parse_seconds), _AS_DURATION, _DURATION]
Percent = Annotated[float, BeforeValidator(parse_percent), _AS_PERCENT, _PERCENT]
Share = Annotated[float, BeforeValidator(_share), _AS_PERCENT, _PERCENT]
Span = Annotated[Extent, PlainValidator(_extent), _AS_TEXT, WithJsonSchema(_EXTENT_SCHEMA)]
# Figures of data sheets. The oldest SSDs do 10 random writes a second; the newest move 30 GB/s.
Iops = Annotated[float, Figure("", "200k", 1, 1e8)]
BytesPerS = Annotated[float, Figure("B/s", "3.5GB/s", 1e5, 1e12)]
Endurance = Annotated[float, Figure("B", "7008TB", 1e11, 1e18)]
# These limits are far beyond any drive and any time; a larger value is a typing error.
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
Repeats = Annotated[int, Field(strict=True, ge=1, le=10_000)]
RequestCount = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
QueueDepth = Annotated[int, Field(strict=True, ge=1, le=32_768)]  # limit of io_uring's queue
Jobs = Annotated[int, Field(strict=True, ge=1, le=4_000)]  # fio 3.33 accepts 4,094
CpuNumber = Annotated[int, Field(strict=True, ge=0, le=8_191)]  # Linux supports 8,192 CPUs
ReadPercent = Annotated[int, Field(strict=True, ge=0, le=100)]
Positive = Annotated[float, Field(strict=True, gt=0, le=1e12, allow_inf_nan=False)]
