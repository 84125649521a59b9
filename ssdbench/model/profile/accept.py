"""Define the limits that a drive must keep to be accepted (`accept:`), and their outcome."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from ssdbench.model.base import Mistake, Model, ProfileModel
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
    """Split the name of a limit, such as `read p99`, into its direction and percentile."""
    direction, _, percentile = name.rpartition(" ")
    return direction, percentile


class Which(ProfileModel):
    """The measured workloads to which a target applies: all that agree with every given key."""

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
    """Used share of the drive, for points of `span`. Default: the whole drive."""
    test: PtsTest | None = None
    """A standard test. Its numbers can fail a target, but never pass one."""
    cell: Text | None = None
    """With `test`: the name of the cell in the report, such as 0/100 4 KiB."""

    job: Text | None = None
    """Name of a job file or a mix in the report."""
    stream: Text | None = None
    """With `job`: one of its streams or groups; only for `latency`."""
    direction: Literal["read", "write", "flush", "trim"] | None = None
    """With `job` or `replay`, and only for `latency`: the direction that is limited. Without it,
    the limit is for the slowest of reads, writes and flushes, not for trims. A replay has only
    reads and writes."""
    replay: Text | None = None
    """Name of a replayed trace; only for `latency`."""

    def names(self, title: str) -> bool:
        """Tell whether `job` names this job file or mix, or the file of this phase (`db.fio 2`)."""
        name, _, phase = title.rpartition(" ")
        return title == self.job or (name == self.job and phase.isdigit())

    def label(self) -> str:
        """Return the given keys in words, such as `block 4 KiB, read 0`."""
        size = None if self.block_bytes is None else format_size(self.block_bytes)
        named = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        parts = {**named, **({"block": size} if size else {})}
        return ", ".join(f"{key} {value}" for key, value in parts.items()) or "every point"


class Datasheet(ProfileModel):
    """The maker's figures for the same workload, and their conditions."""

    iops: Positive | None = None
    """Rate, in IOPS."""
    throughput_bytes_per_s: SizeBytes | None = Field(default=None, alias="throughput")
    """Bytes per second, such as 500MB."""
    latency: Latency = {}
    """Percentiles, such as {p99: 200us}."""
    write_amplification: Positive | None = None
    """Write amplification of the drive."""
    watts: Positive | None = None
    """Mean power of the drive, in W."""
    share_percent: Share = Field(default=100.0, alias="share")
    """Share of the datasheet's rates that the drive must reach if you give no rate of your own."""
    iodepth: QueueDepth | None = None
    """The datasheet's requests in flight per job."""
    numjobs: Jobs | None = None
    """The datasheet's number of jobs."""
    state: Literal["fresh", "steady"] | None = None
    """State of the drive to which the figures of the datasheet apply, if the datasheet says it."""
    span: Text = ""
    """The part of the drive that was used, in the words of the datasheet."""
    conditions: Text = ""
    """Further conditions, in the words of the datasheet."""
    source: Text = ""
    """Source of the figures: document, page, year."""

    @property
    def figures(self) -> tuple[object, ...]:
        """Return the figures about a workload; those that are not given are None or empty."""
        return self.iops, self.throughput_bytes_per_s, self.latency, self.watts

    def told(self) -> str:
        """Return the conditions of the data sheet's figures in one line."""
        queue = "" if self.iodepth is None else f"QD {self.iodepth}"
        queue += "" if self.numjobs is None else f" x {self.numjobs}"
        state = f"{self.state} drive" if self.state else ""
        parts = (queue.strip(), state, self.span, self.conditions)
        return ", ".join(part for part in parts if part)


class Target(ProfileModel):
    """A workload and its limits; each measured number is judged by its worst value."""

    name: Text = ""
    """Name of the target in the report."""
    of: Which = Which()
    """The workloads to which the target applies."""
    at: OfferedLoad | None = None
    """The load at which `latency` is measured and compared with its limit. Without this key the
    latencies of the points are compared, which are measured as fast as the drive answers."""
    iops: Positive | None = None
    """Lowest allowed rate; the bound must reach it."""
    throughput_bytes_per_s: SizeBytes | None = Field(default=None, alias="throughput")
    """Lowest allowed bytes per second; the bound must reach it."""
    worst_minute_iops: Positive | None = Field(default=None, alias="worst_minute")
    """Lowest allowed rate of any minute."""
    worst_second_iops: Positive | None = Field(default=None, alias="worst_second")
    """Lowest allowed rate of any second."""
    latency: Latency = {}
    """Highest allowed percentiles, such as {p99: 2ms, read p99.9: 5ms}. Without read or write, the
    limit is for the slowest direction."""
    write_amplification: Positive | None = None
    """Highest allowed value over the whole run, by the drive's own logs."""
    watts: Positive | None = None
    """Highest allowed mean power of the drive, in W, as a meter or the drive reports it; the upper
    limit of the measured power must not exceed it."""
    iops_per_watt: Positive | None = None
    """Lowest allowed rate per watt of the drive; the bound must reach it."""
    datasheet: Datasheet | None = None
    """The maker's figures. They are shown beside the results, and replace limits that you do not
    give."""

    @property
    def rates(self) -> dict[str, float | None]:
        """Return the limits of rates and of power, by their keys."""
        return {
            "iops": self.iops,
            "throughput": self.throughput_bytes_per_s,
            "worst_minute": self.worst_minute_iops,
            "worst_second": self.worst_second_iops,
            "watts": self.watts,
            "iops_per_watt": self.iops_per_watt,
        }

    def mistakes(self) -> Iterator[Mistake]:
        rates, sheet = self.rates, self.datasheet
        figures = sheet is not None and any((*sheet.figures, sheet.write_amplification))
        if not (any(rates.values()) or self.latency or self.write_amplification or figures):
            yield (), "a target needs a limit, such as iops, throughput or latency"
        if self.at is not None:
            if not self.latency:
                yield ("at",), "with `at`, give the `latency` to limit at this load"
            for key in (key for key, value in rates.items() if value):
                yield (key,), "with `at` the rate is given; limit only its latency"
            if self.of.test is not None:
                yield ("of", "test"), "a standard test sets its own load: leave out `at`"
            if self.of.job is not None:
                yield ("of", "job"), "a job or a mix sets its own load: leave out `at`"
            if self.at.drive_writes_per_day and self.of.read_percent == WHOLE_PERCENT:
                yield ("at", "drive_writes_per_day"), "a workload that only reads writes nothing"
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
            yield ("of", "replay"), "a trace sets its own load: limit only its `latency`"
        if of.stream is not None and (of.job is None or limits_rates):
            yield ("of", "stream"), "a stream belongs to a `job`; limit only its `latency`"
        if of.direction is not None and limits_rates:
            yield ("of", "direction"), "a rate includes all directions: limit only `latency`"
        if of.direction is not None and of.job is None and of.replay is None:
            yield ("of", "direction"), "a direction belongs to a `job` or a `replay`: add one"
        if of.replay is not None and of.direction in ("flush", "trim"):
            yield ("of", "direction"), f"a replay has no latency of a {of.direction}"
        if of.cell is not None and of.test is None:
            yield ("of", "cell"), "a cell belongs to a standard test: add `test`"


class Accepted(Model):
    """Store the outcome of one number of one `accept` target."""

    target: str  # name of the target, else its workload
    metric: str  # iops | throughput_bytes_per_s | worst_second_iops | lat_p99.9_ns | …
    unit: str  # 1/s | B/s | ns | 1
    direction: Literal["at least", "at most"]
    wanted: float
    load: str = ""  # the offered load: "2 drive writes per day, 1,234 IOPS"
    stage: str = ""
    workload: str = ""  # the workload with the worst result
    seen: float | None = None  # the pessimistic measured value; None if unknown
    middle: float | None = None  # the value without pessimism: a mean, a percentile
    outcome: Outcome
    why: str  # one sentence
    datasheet: float | None = None
    datasheet_conditions: str = ""
    datasheet_source: str = ""
    worse_because: tuple[str, ...] = ()  # known reasons why it is worse than the datasheet's
