"""Define the stored results of offered rates: the search for the highest rate, and one load."""

from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Estimate, UnitRecord, Verdict
from ssdbench.model.workload import Direction
from ssdbench.units import format_count, format_ns


class OfferedRate(Model):
    """Store one offered rate and its judgement. Latencies begin when a request was due."""

    offered_iops: float
    achieved_iops: float
    seen_ns: float = 0.0  # the percentile, counted from when requests were sent
    value_ns: float = 0.0  # the percentile, counted from when they were due
    upper_ns: float | None = None  # its upper 95 % limit; None with too few requests
    p50_ns: float = 0.0
    mean_ns: float = 0.0
    backlog_grows: bool = False
    kept: bool = False  # whether the rate kept the limit
    reason: str  # why it did not; empty if it did
    clients: int = 0  # that shared the rate
    busy_share: float = 0.0  # share of the requests that were due while every client was busy
    window_s: float = 0.0  # length of the judged window
    beyond: float = 0.0  # requests beyond the percentile, in the direction that had fewer
    stalls: int = 0  # how often waits rose above the limit
    due_iops: float = 0.0  # of requests that were due: random arrivals can be more or fewer
    block_means_ns: tuple[float, ...] = ()  # mean wait in each part of the window, in order


class _Step(UnitRecord):
    search: int  # from 1; 0 for the first look, which the answer does not use
    step: int
    asked_iops: float = 0.0


class RateStep(OfferedRate, _Step):
    """Store one offered rate that one search tried."""

    artifacts: str = ""  # directory below the run directory


class RateFound(Model):
    """Store the answer of a search for the highest rate within a limit, with every step."""

    kind: Literal[StageKind.RATE] = StageKind.RATE
    workload: str = ""  # for people
    pattern: str = "random"
    block_bytes: int = 4096
    read_percent: int = 0
    arrivals: str = "poisson"
    percentile: str = "p99"
    direction: Direction | None = None  # that is limited; None: the slower one
    limit_ns: float = 0.0
    rate_iops: float | None = None  # None if no offered rate kept the limit in every search
    clients: int = 0  # most clients that shared a rate; 0 in older results
    searches: int = 0  # finished searches
    confidence: float = 0.0  # that the lowest result is below the median of all
    highest_iops: float | None = None  # of all searches
    knee_iops: float | None = None
    steps: tuple[RateStep, ...] = ()
    lasted: tuple[RateStep, ...] = ()  # the answer, offered again for half an hour at the end
    csv: str = ""
    verdict: Verdict | None = None  # None in older results: see the findings

    @property
    def limited(self) -> str:
        """Return the limited quantity in words, such as `p99` or `p99 of reads`."""
        return f"{self.percentile} of {self.direction}s" if self.direction else self.percentile

    @property
    def limit(self) -> str:
        """Return the latency limit in words."""
        return f"{self.limited} of at most {format_ns(self.limit_ns)}, from when due"


class PlannedRound(Model):
    """Store one round of measuring at the load of one drive of the plan."""

    drives: int  # of the plan, with its reserve
    load_iops: float  # the whole demand, divided by the drives without the reserve
    kept: bool | None  # whether the limits of p99 were kept; None if that is not known
    missed: str = ""  # why the drive did not keep up; empty if it did
    p99: tuple[Estimate, ...] = ()  # of reads and writes


class LoadFound(Model):
    """Store latencies at one load over all trials; a latency begins when its request was due."""

    kind: Literal[StageKind.LOAD] = StageKind.LOAD
    workload: str = ""  # for people
    pattern: str = "random"
    block_bytes: int = 4096
    read_percent: int = 0
    load: str = ""  # as the profile has it: "2 drive writes per day"
    percentile: str = "p99"  # the rarest requested percentile, which the steps are about
    asked_iops: float = 0.0  # reads and writes together
    offered_iops: float = 0.0
    clients: int = 0  # that shared the load
    settled_s: float = 0.0  # time at this load before the trials
    measured_s: float = 0.0  # over all trials
    trials: int = 0
    missed: str = ""  # why the drive did not keep up; empty if it did
    planned: tuple[PlannedRound, ...] = ()  # rounds at the planned load; estimates: of the last
    estimates: tuple[Estimate, ...] = ()
    steps: tuple[RateStep, ...] = ()
    csv: str = ""
    verdict: Verdict = "NOT VALIDATED"

    @property
    def label(self) -> str:
        """Return the load in words, such as `904.2 IOPS, 2 drive writes per day`."""
        rate = f"{format_count(self.asked_iops)} IOPS"
        return f"{rate}, {self.load}" if self.load else rate
