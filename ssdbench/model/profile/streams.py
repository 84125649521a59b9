"""Define `mix`, `interference` and `fio`: several streams at once, and job files of the user."""

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import product
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ssdbench.foreign import plain
from ssdbench.model.base import Mistake, ProfileModel
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.profile.sweeps import Extendable, Settle
from ssdbench.model.quantity import (
    WHOLE,
    Jobs,
    Many,
    Positive,
    QueueDepth,
    ReadPercent,
    RequestCount,
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
    """Share of trims in all requests, in percent. 100: the stream only trims. With less than 100,
    the stream needs a rate; the trims get this share of it."""
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
    """With `pattern: zipf`: how unequally blocks are accessed (theta). A value of 1 is not
    possible."""
    hot_percent: Share = Field(default=20.0, alias="hot")
    """With `pattern: hot`: share of the range that is hot."""
    hits_percent: Share = Field(default=80.0, alias="hits")
    """With `pattern: hot`: share of the requests that go to the hot part."""
    iodepth: QueueDepth | None = Field(default=None, examples=[16])
    """Requests in flight per job. Default for a stream with a rate: up to 32; while it keeps the
    rate, it has only one."""
    numjobs: Jobs = 1
    """Jobs of this stream; they share its rate."""
    rate_iops: Positive | None = Field(default=None, examples=[500])
    """Offered rate, in IOPS."""
    rate_mb_per_s: Positive | None = Field(default=None, examples=[20])
    """Offered rate, in MB/s (10^6 bytes), reads and writes together."""
    drive_writes_per_day: Positive | None = Field(default=None, examples=[1])
    """Offered rate of writes, in capacities of the drive per day; reads come in addition, in the
    share that `read` gives."""
    think_s: Seconds | None = Field(default=None, examples=["1ms"], alias="think")
    """Pause of each job after a request."""
    flush_every: RequestCount | None = Field(default=None, examples=[1])
    """Number of writes after which the cache of the drive is flushed."""
    priority: Priority | None = Field(default=None, examples=["realtime"])
    """Class of I/O priority; simulated drives have none."""
    offset: Span | None = Field(default=None, examples=["25%"])
    """Start of the range that the stream uses, as a share or a size. Default: 0."""
    span: Span = WHOLE
    """Length of this range, as a share or a size. The range never goes beyond the part of the drive
    that the run fills."""

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

    def mistakes(self) -> Iterator[Mistake]:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            yield ("name",), f"{self.name!r} has characters other than letters, digits, . _ and -"
        elif self.name == "global":
            yield ("name",), "'global' has a special meaning in fio; choose another name"
        rates = ("rate_iops", "rate_mb_per_s", "drive_writes_per_day")
        given = [name for name in rates if getattr(self, name) is not None]
        if not given and self.iodepth is None:
            yield (), f"stream '{self.name}' needs `iodepth`, or a rate: {', '.join(rates)}"
        if len(given) > 1:
            yield (given[1],), f"{given[0]} already gives a rate; give only one of them"
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
    """The streams that run at the same time."""

    def mistakes(self) -> Iterator[Mistake]:
        if "/" in self.name or not self.name.isprintable():
            yield ("name",), f"{self.name!r} has a / or a character that cannot be printed"
            return
        names = [stream.name for stream in self.streams]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("streams", index, "name"), f"another stream also has the name '{name}'"

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


MOST_MIXES = 12  # of one `interference`: each takes half an hour or more


class Readers(ProfileModel):
    """Reads at random over the whole drive: one load for each depth, or for each rate."""

    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one read."""
    iodepth: Many[QueueDepth] = Field(default=(4,), min_length=1)
    """Reads in flight; each answer is followed by the next read."""
    rate_iops: Many[Positive] = Field(default=(), examples=[[500, 2000]])
    """Offered rates in IOPS, instead of `iodepth`; the latency then includes the time that a read
    waits for slow reads before it."""


class Writers(ProfileModel):
    """Random writes over the whole drive; each write rate of the list is measured in turn."""

    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one write."""
    share_percent: Many[Share] = Field(
        default=(10.0, 25.0, 40.0, 55.0, 70.0, 85.0), alias="share", min_length=1
    )
    """Write loads, as shares of the bytes per second that the warm-up wrote when it was steady."""
    rate_iops: Many[Positive] = Field(default=(), examples=[[50, 100, 200]])
    """Write loads in IOPS, instead of `share`."""
    flush_every: RequestCount | None = Field(default=None, examples=[1])
    """Number of writes after which the cache of the drive is flushed (fsync). Flushes wait for one
    another, so these writes come from 16 jobs that share the rate."""


class Interference(Extendable):
    """Measure reads beside growing write loads: the largest write load at which reads keep a limit.

    Each load of the readers is measured beside each load of the writers; each pair is a point.
    """

    kind: ClassVar[PointsKind] = StageKind.INTERFERENCE
    reads: ClassVar[bool] = True

    readers: Readers = Readers()
    """The reads whose latency has the limit."""
    writers: Writers = Writers()
    """The writes beside these reads."""
    percentile: Literal["p99", "p99.9"] = "p99.9"
    """Percentile of the read latency that is limited."""
    limit_s: Seconds = Field(alias="limit", examples=["10ms"])
    """Largest latency of this percentile."""
    settle: Settle = Settle.model_validate({"window": "2m", "max_time": "1h"})
    """How points settle: for a time, because a low rate may take days to write the spare area."""

    def mistakes(self) -> Iterator[Mistake]:
        for key, side, other in (
            ("readers", self.readers, "iodepth"),
            ("writers", self.writers, "share_percent"),
        ):
            if side.rate_iops and other in side.model_fields_set:
                name = other.removesuffix("_percent")
                yield (key, "rate_iops"), f"give either `{name}` or `rate_iops`"
        reads, writes = len(self.read_loads), len(self.write_loads)
        if reads * writes > MOST_MIXES:
            why = f"{reads} read loads beside {writes} write loads are {reads * writes} points"
            yield ("writers",), f"{why}; at most {MOST_MIXES} are measured"

    @property
    def read_loads(self) -> tuple[float, ...]:
        """Return the loads of the readers, lowest first: their rates, or else their depths."""
        return tuple(sorted(self.readers.rate_iops or self.readers.iodepth))

    @property
    def write_loads(self) -> tuple[float, ...]:
        """Return the loads of the writers, lowest first: their rates, or else their shares."""
        return tuple(sorted(self.writers.rate_iops or self.writers.share_percent))

    @property
    def mixes(self) -> tuple[Mix, ...]:
        """Return each pair of loads as a mix. A share of 25 % stands there as a rate of 25 IOPS."""
        pairs = product(self.read_loads, self.write_loads)
        return tuple(self._mix(read, write) for read, write in pairs)

    def _mix(self, read: float, write: float) -> Mix:
        readers, writers = self.readers, self.writers
        way = "rate_iops" if readers.rate_iops else "iodepth"
        reads: dict[str, object] = {"name": READERS, "read": WHOLE_PERCENT, way: read}
        writes: dict[str, object] = {"name": WRITERS, "rate_iops": write}
        if writers.flush_every is not None:
            writes |= {"flush_every": writers.flush_every, "numjobs": FLUSHERS}
        streams = [reads | {"block": readers.block_bytes}, writes | {"block": writers.block_bytes}]
        name = f"reads {self._words(readers, read)}, writes {self._words(writers, write)}"
        return Mix.model_validate({"name": name, "streams": streams})

    @staticmethod
    def _words(side: Readers | Writers, load: float) -> str:
        if side.rate_iops:
            return f"{load:g} IOPS"
        return f"QD {load:g}" if isinstance(side, Readers) else f"{load:g} %"


READERS, WRITERS = "readers", "writers"  # names of the streams of `interference`
FLUSHERS = 16  # jobs of writers that flush: each waits for its own flush
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

    def mistakes(self) -> Iterator[Mistake]:
        if (self.file is None) == (self.job is None):
            yield (), "give either `file`, the name of a job file, or `job`, its text"

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
