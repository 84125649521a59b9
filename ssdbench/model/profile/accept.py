"""Defines what a drive must hold to be accepted (`accept:`), and what a run found of that."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ssdbench.model.base import Mistake, Model, ProfileModel, refuse
from ssdbench.model.profile.rates import OfferedLoad
from ssdbench.model.profile.standard import PtsTest
from ssdbench.model.profile.sweeps import AccessOrder
from ssdbench.model.quantity import (
    Jobs,
    Positive,
    QueueDepth,
    ReadPercent,
    Seconds,
    Share,
    SizeBytes,
)
from ssdbench.units import format_size

PercentileName = Literal[
    "p50", "p90", "p99", "p99.9", "p99.99", "p99.999",
    "read p50", "read p90", "read p99", "read p99.9", "read p99.99", "read p99.999",
    "write p50", "write p90", "write p99", "write p99.9", "write p99.99", "write p99.999",
]  # fmt: skip
Latency = dict[PercentileName, Seconds]
Text = Annotated[str, Field(max_length=500)]
Outcome = Literal["pass", "fail", "cannot tell"]
WHOLE_PERCENT = 100


def direction_of(name: str) -> tuple[str, str]:
    """Split a limit's name into direction and percentile: ("read", "p99") of `read p99`."""
    direction, _, percentile = name.rpartition(" ")
    return direction, percentile


class Which(ProfileModel):
    """The measured workloads that a target is about: all that have what is named."""

    block_bytes: SizeBytes | None = Field(default=None, alias="block")
    """Size of one request."""
    read_percent: ReadPercent | None = Field(default=None, alias="read")
    """Share of reads, in percent."""
    pattern: AccessOrder | None = None
    """Order of offsets."""
    iodepth: QueueDepth | None = None
    """Requests in flight per job."""
    numjobs: Jobs | None = None
    """Jobs at the same time."""
    span_percent: Share | None = Field(default=None, alias="span")
    """Share of the drive, for points of a span; without it the whole drive."""
    test: PtsTest | None = None
    """A standard test; its numbers can fail a target and never pass."""
    cell: Text | None = None
    """With `test`: the cell as the report names it: 0/100 4 KiB."""

    job: Text | None = None
    """A job file or a mix, by the name that the report gives it."""
    stream: Text | None = None
    """With `job`: one of its streams or groups; for `latency` alone."""
    direction: Literal["read", "write", "flush", "trim"] | None = None
    """With `job` or `replay`: reads, writes, flushes or trims alone, for `latency`. Without it the
    slowest of reads, writes and flushes; trims are no part of it. A replay has those of reads and
    writes."""
    replay: Text | None = None
    """A replayed trace, by its name; for `latency` alone."""

    def names(self, title: str) -> bool:
        """Tell whether `job` is this job file or mix, or one whose phase this is (`db.fio 2`)."""
        name, _, phase = title.rpartition(" ")
        return title == self.job or (name == self.job and phase.isdigit())

    def label(self) -> str:
        """Say what was asked for, as the profile says it."""
        size = None if self.block_bytes is None else format_size(self.block_bytes)
        named = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        parts = {**named, **({"block": size} if size else {})}
        return ", ".join(f"{key} {value}" for key, value in parts.items()) or "every point"


class Datasheet(ProfileModel):
    """What the maker says of the same workload, and under which conditions."""

    iops: Positive | None = None
    """Rate, in IOPS."""
    throughput_bytes_per_s: SizeBytes | None = Field(default=None, alias="throughput")
    """Bytes a second, such as 500MB."""
    latency: Latency = {}
    """Percentiles, such as {p99: 200us}."""
    write_amplification: Positive | None = None
    """Of the drive."""
    share_percent: Share = Field(default=100.0, alias="share")
    """Share of its rates that must be reached where you name no rate of your own."""
    iodepth: QueueDepth | None = None
    """Its requests in flight per job."""
    numjobs: Jobs | None = None
    """Its jobs."""
    state: Literal["fresh", "steady"] | None = None
    """The state of its drive, where it says so."""
    span: Text = ""
    """Which part of the drive, in its own words."""
    conditions: Text = ""
    """Further conditions, in its own words."""
    source: Text = ""
    """Where it stands: document, page, year."""

    def told(self) -> str:
        """Return its conditions in one line."""
        queue = "" if self.iodepth is None else f"QD {self.iodepth}"
        queue += "" if self.numjobs is None else f" x {self.numjobs}"
        state = f"{self.state} drive" if self.state else ""
        parts = (queue.strip(), state, self.span, self.conditions)
        return ", ".join(part for part in parts if part)


class Target(ProfileModel):
    """One workload and what the drive must hold under it; every number is judged by its worst."""

    name: Text = ""
    """What the report calls it."""
    of: Which = Which()
    """The workloads that it is about."""
    at: OfferedLoad | None = None
    """The load at which `latency` is limited: it is measured at exactly this load. Without it the
    latency is that of the points, which are closed loops."""
    iops: Positive | None = None
    """Lowest rate, held by the bound."""
    throughput_bytes_per_s: SizeBytes | None = Field(default=None, alias="throughput")
    """Lowest bytes a second, held by the bound."""
    worst_minute_iops: Positive | None = Field(default=None, alias="worst_minute")
    """Lowest rate of any minute."""
    worst_second_iops: Positive | None = Field(default=None, alias="worst_second")
    """Lowest rate of any second."""
    latency: Latency = {}
    """Highest percentiles, such as {p99: 2ms, read p99.9: 5ms}: of reads or writes alone where that
    is said, else of the slowest direction."""
    write_amplification: Positive | None = None
    """Largest over the whole run, by the drive's own logs."""
    datasheet: Datasheet | None = None
    """The maker's figures: shown beside yours, and targets where you name none."""

    @model_validator(mode="after")
    def _judgeable(self) -> Self:
        refuse(list(self._mistakes()))
        return self

    def _mistakes(self) -> Iterator[Mistake]:
        rates = {
            "iops": self.iops,
            "throughput": self.throughput_bytes_per_s,
            "worst_minute": self.worst_minute_iops,
            "worst_second": self.worst_second_iops,
        }
        sheet = self.datasheet
        figures = sheet is not None and any(
            (sheet.iops, sheet.throughput_bytes_per_s, sheet.latency, sheet.write_amplification)
        )
        if not (any(rates.values()) or self.latency or self.write_amplification or figures):
            yield (), "a target needs a limit: iops, throughput, latency, worst_second …"
        if self.at is not None:
            if not self.latency:
                yield ("at",), "a load needs the `latency` that it limits"
            for key in (key for key, value in rates.items() if value):
                yield (key,), "with `at` the load is given; limit its latency only"
            if self.of.test is not None:
                yield ("of", "test"), "a standard test sets its own load: leave out `at`"
            if self.of.job is not None:
                yield ("of", "job"), "a job or a mix sets its own load: leave out `at`"
            if self.at.drive_writes_per_day and self.of.read_percent == WHOLE_PERCENT:
                yield ("at", "drive_writes_per_day"), "a workload of reads alone writes nothing"
        yield from self._misnamed(limits_rates=any(rates.values()))

    def _misnamed(self, *, limits_rates: bool) -> Iterator[Mistake]:
        of = self.of
        for name in self.latency:
            side, _ = direction_of(name)
            if side and of.direction not in (None, side):
                yield ("latency", name), f"`of` names another direction, {of.direction}"
            if side and of.read_percent == (WHOLE_PERCENT if side == "write" else 0):
                yield ("latency", name), f"such a workload has no {side}s"
        if of.replay is not None and (limits_rates or self.at is not None):
            yield ("of", "replay"), "a trace sets its own load: limit its `latency` alone"
        if of.stream is not None and (of.job is None or limits_rates):
            yield ("of", "stream"), "a stream is one of a `job`; limit its `latency` alone"
        if of.direction is not None and limits_rates:
            yield ("of", "direction"), "a rate is that of all its I/O: limit its `latency` alone"
        if of.direction is not None and of.job is None and of.replay is None:
            yield ("of", "direction"), "a direction is one of a `job` or a `replay`"
        if of.replay is not None and of.direction in ("flush", "trim"):
            yield ("of", "direction"), f"a replay has no latency of a {of.direction}"
        if of.cell is not None and of.test is None:
            yield ("of", "cell"), "a cell belongs to a standard test; name it with `test`"


class Accepted(Model):
    """What became of one number of one target."""

    target: str  # its name, else its workload
    metric: str  # iops | throughput_bytes_per_s | worst_second_iops | lat_p99.9_ns | …
    unit: str  # 1/s | B/s | ns | 1
    direction: Literal["at least", "at most"]
    wanted: float
    load: str = ""  # under which it was wanted: "2 drive writes per day, 1,234 IOPS"
    stage: str = ""
    workload: str = ""  # that decided it: the worst of those that were asked for
    seen: float | None = None  # ours, on the pessimistic side; None where there is none
    middle: float | None = None  # the same without the pessimism: a mean, a percentile
    outcome: Outcome
    why: str  # one sentence
    datasheet: float | None = None
    datasheet_conditions: str = ""
    datasheet_source: str = ""
    worse_because: tuple[str, ...] = ()  # why ours is worse than the datasheet's, as far as known
