"""Define `mix` and `fio`: several streams at the same time, and job files of the user."""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from ssdbench.foreign import plain
from ssdbench.model.base import Mistake, ProfileModel, refuse
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.profile.sweeps import Extendable
from ssdbench.model.quantity import (
    WHOLE,
    Jobs,
    Positive,
    QueueDepth,
    ReadPercent,
    Seconds,
    Share,
    SizeBytes,
    Span,
)
from ssdbench.units import KIB, parse_size

MOST_STREAMS = 32
WHOLE_PERCENT = 100


class Locality(StrEnum):
    """Which blocks a stream accesses."""

    RANDOM = "random"  # all blocks equally often
    SEQUENTIAL = "sequential"
    ZIPF = "zipf"  # the n-th most popular block 1/n^theta times as often as the first
    HOT = "hot"  # most requests go to a small part


class Priority(StrEnum):
    """The class of I/O priority, by the names of ioprio_set(2)."""

    REALTIME = "realtime"
    BEST_EFFORT = "best_effort"
    IDLE = "idle"


class MixStream(ProfileModel):
    """One stream: which blocks it accesses, how many requests at once, and how often."""

    name: str = Field(min_length=1, max_length=40)
    """Name of the stream: letters, digits, . _ and -."""
    read_percent: ReadPercent = Field(default=0, alias="read")
    """Share of reads, in percent."""
    trim_percent: ReadPercent = Field(default=0, alias="trim")
    """Share of trims in all requests, in percent. 100: the stream only trims. Less needs a rate, of
    which the trims get their share."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one request."""
    blocks: dict[str, Annotated[int, Field(strict=True, ge=1, le=100)]] = Field(
        default={}, examples=[{"4KiB": 60, "64KiB": 40}]
    )
    """Several sizes with their shares in percent, such as {4KiB: 60, 64KiB: 40}, instead of
    `block`."""
    pattern: Locality = Locality.RANDOM
    """Which blocks the stream accesses."""
    theta: Annotated[float, Field(gt=0, le=10)] = 1.2
    """With `pattern: zipf`: how unequally blocks are accessed; not 1."""
    hot_percent: Share = Field(default=20.0, alias="hot")
    """With `pattern: hot`: share of the range that is hot."""
    hits_percent: Share = Field(default=80.0, alias="hits")
    """With `pattern: hot`: share of the requests that go to the hot part."""
    iodepth: QueueDepth | None = Field(default=None, examples=[16])
    """Requests in flight per job. A stream with a rate has up to 32 by default, but only one while
    it keeps the rate."""
    numjobs: Jobs = 1
    """Jobs that share the rate."""
    rate_iops: Positive | None = Field(default=None, examples=[500])
    """Offered rate, in IOPS."""
    rate_mb_per_s: Positive | None = Field(default=None, examples=[20])
    """Offered rate, in MB/s (10^6 bytes), reads and writes together."""
    drive_writes_per_day: Positive | None = Field(default=None, examples=[1])
    """Offered rate of writes, in capacities of the drive per day; reads come in addition, as
    `read` says."""
    think_s: Seconds | None = Field(default=None, examples=["1ms"], alias="think")
    """Pause of each job after a request."""
    flush_every: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        default=None, examples=[1]
    )
    """Number of writes after which the cache of the drive is flushed."""
    priority: Priority | None = Field(default=None, examples=["realtime"])
    """Class of I/O priority; simulated drives have none."""
    offset: Span | None = Field(default=None, examples=["25%"])
    """Start of the range that the stream uses, as a share or a size; by default 0."""
    span: Span = WHOLE
    """Largest length of this range, as a share or a size."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse(list(self._mistakes()))
        return self

    @property
    def sizes(self) -> dict[int, int]:
        """Return each block size in bytes, with its share in percent."""
        return {parse_size(size): share for size, share in self.blocks.items()} or {
            self.block_bytes: WHOLE_PERCENT
        }

    @property
    def rated(self) -> bool:
        """Tell whether the stream has an offered rate."""
        return any((self.rate_iops, self.rate_mb_per_s, self.drive_writes_per_day))

    def _mistakes(self) -> Iterator[Mistake]:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            yield ("name",), f"{self.name!r} has characters other than letters, digits, . _ and -"
        elif self.name == "global":
            yield ("name",), "'global' has a special meaning in fio; choose another name"
        rates = ("rate_iops", "rate_mb_per_s", "drive_writes_per_day")
        given = [name for name in rates if getattr(self, name) is not None]
        if not given and self.iodepth is None:
            yield (), f"stream '{self.name}' needs `iodepth`, or a rate: {', '.join(rates)}"
        if len(given) > 1:
            yield (given[1],), f"this is a second rate besides {given[0]}; give only one"
        for key in ("drive_writes_per_day", "flush_every"):
            if getattr(self, key) and self.read_percent == WHOLE_PERCENT:
                yield (key,), "a stream that only reads writes nothing"
        yield from self._misplaced_pattern()
        yield from self._misplaced_trims()
        yield from self._misspelt_sizes()

    def _misplaced_pattern(self) -> Iterator[Mistake]:
        if self.theta == 1:
            yield ("theta",), "fio does not support a theta of exactly 1; use 0.99 or 1.01"
        if self.pattern is Locality.HOT:
            for key, share in (("hot", self.hot_percent), ("hits", self.hits_percent)):
                if share not in range(1, WHOLE_PERCENT):
                    yield (key,), "must be a whole percentage from 1 to 99, as fio requires"
        for key, pattern in (("theta", Locality.ZIPF), ("hot_percent", Locality.HOT),
                             ("hits_percent", Locality.HOT)):  # fmt: skip
            if key in self.model_fields_set and self.pattern is not pattern:
                yield (key.removesuffix("_percent"),), f"only with `pattern: {pattern}`"

    def _misplaced_trims(self) -> Iterator[Mistake]:
        if 0 < self.trim_percent < WHOLE_PERCENT and not self.rated:
            yield (
                ("trim",),
                "a share of trims needs a rate, because fio cannot mix trims into other requests; "
                "or use a separate stream with `trim: 100`",
            )
        if self.trim_percent == WHOLE_PERCENT:
            for key in ("read_percent", "drive_writes_per_day", "flush_every"):
                if getattr(self, key):
                    yield (key.removesuffix("_percent"),), "a stream that only trims has no data"

    def _misspelt_sizes(self) -> Iterator[Mistake]:
        sizes: set[int] = set()
        for size in self.blocks:
            try:
                known = parse_size(size) > 0
            except ValueError:
                known = False
            if not known:
                yield ("blocks", size), f"'{size}' is not a size"
            elif parse_size(size) in sizes:
                yield ("blocks", size), f"'{size}' is given twice; add its shares"
            else:
                sizes.add(parse_size(size))
        if self.blocks and sum(self.blocks.values()) != WHOLE_PERCENT:
            yield ("blocks",), f"the shares add up to {sum(self.blocks.values())} %, not 100 %"
        if self.blocks and "block_bytes" in self.model_fields_set:
            yield ("block",), "give either `block` or `blocks`"


class Mix(Extendable):
    """Run streams at the same time; they are judged together as one point, and separately."""

    kind: ClassVar[PointsKind] = StageKind.MIX

    name: str = Field(default="mix", min_length=1, max_length=40)
    """Name in the report."""
    streams: tuple[MixStream, ...] = Field(min_length=1, max_length=MOST_STREAMS)
    """What runs at the same time."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if "/" in self.name or not self.name.isprintable():
            refuse([(("name",), f"{self.name!r} has a / or a character that cannot be printed")])
        names = [stream.name for stream in self.streams]
        refuse(
            [
                (("streams", index, "name"), f"another stream has the name '{name}', too")
                for index, name in enumerate(names)
                if name in names[:index]
            ]
        )
        return self

    @property
    def called(self) -> str:
        """Return the name of this mix in reports."""
        return self.name

    @property
    def paced(self) -> bool:
        """Tell whether reads or writes have a rate or pauses; such a mix has no bound for plans."""
        moving = (stream for stream in self.streams if stream.trim_percent < WHOLE_PERCENT)
        return any(stream.rated or stream.think_s for stream in moving)

    @property
    def reads(self) -> bool:
        """Tell whether any stream of the mix reads."""
        return any(stream.read_percent for stream in self.streams)


MOST_NAME = 40  # characters of a job's name


def title(path: str) -> str:
    """Return the name of a job file as reports and `accept` use it."""
    return plain(path.rsplit("/", 1)[-1], MOST_NAME)


class JobFile(ProfileModel):
    """The name and the text of a job file."""

    name: str = Field(min_length=1, max_length=4096)
    """Name of the file, for messages."""
    text: str = Field(min_length=1)
    """Text of the file."""


def job_text(body: object) -> object:
    """Read `- fio: jobs/db.fio` as the key `file`, and several lines below `fio` as `job`."""
    if body is None:
        return {}
    if isinstance(body, dict) and body.keys() == {"name", "text"}:  # as a stored profile has it
        return {"file": body}
    if not isinstance(body, str):
        return body
    return {"job": body} if "\n" in body else {"file": body}


class FioJobs(Extendable):
    """Run a fio job file. The jobs between two stonewalls are one point."""

    kind: ClassVar[PointsKind] = StageKind.FIO
    reads: ClassVar[bool] = True

    file: Annotated[str, Field(min_length=1, max_length=4096)] | JobFile | None = Field(
        default=None, examples=["jobs/mysql.fio"]
    )
    """The job file, in the directory of the profile or below it. A stored profile has the name and
    the text of the file here."""
    job: Annotated[str, Field(min_length=1)] | None = None
    """The text of a job file, instead of `file`."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.job is None):
            refuse([((), "give either `file`, the name of a job file, or `job`, its text")])
        return self

    @property
    def called(self) -> str:
        """Return the name of this job file in reports."""
        return title(self.file if isinstance(self.file, str) else self.source.name)

    @property
    def source(self) -> JobFile:
        """Return name and text of the job file. Raises ValueError if the file was not read yet."""
        if isinstance(self.file, JobFile):
            return self.file
        if self.job is None:
            raise ValueError(f"{self.file} was not read")
        return JobFile(name="job", text=self.job)


JobBody = BeforeValidator(job_text)
