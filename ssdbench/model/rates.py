"""Defines what offered rates leave, as it is stored: a search for the highest, and one load."""

from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Estimate, UnitRecord, Verdict
from ssdbench.units import format_count, format_ns


class RateStep(UnitRecord):
    """One offered rate of one search; latencies count from the moment when a request was due."""

    search: int  # from 1; 0 is the first look, which counts for no answer
    step: int
    asked_iops: float = 0.0
    offered_iops: float
    achieved_iops: float
    seen_ns: float  # the percentile from when the generator sent
    value_ns: float
    upper_ns: float | None  # its upper 95 % limit; None with too few requests
    p50_ns: float
    mean_ns: float
    backlog_grows: bool
    kept: bool
    reason: str  # why not
    clients: int = 0  # that shared the rate
    busy_share: float = 0.0  # of the requests came due while every client waited
    window_s: float = 0.0  # that counted
    beyond: float = 0.0  # requests beyond the percentile, in the direction that had fewer
    stalls: int = 0  # how often waits above the limit came
    due_iops: float = 0.0  # that really came due: arrivals at random are more or fewer
    block_means_ns: tuple[float, ...] = ()  # mean wait in each part of the window, in order
    artifacts: str = ""  # directory below the run directory


class RateFound(Model):
    """The lowest rate over all searches that kept the limit, with every step behind it."""

    kind: Literal[StageKind.RATE] = StageKind.RATE
    workload: str = ""  # for people
    pattern: str = "random"
    block_bytes: int = 4096
    read_percent: int = 0
    arrivals: str = "poisson"
    percentile: str = "p99"
    limit_ns: float = 0.0
    rate_iops: float | None = None  # None where no offered rate kept the limit in every search
    clients: int = 0  # that shared it, at most; 0 in older results
    searches: int = 0  # that ended
    confidence: float = 0.0  # that the lowest of them lies below their median
    highest_iops: float | None = None  # of all searches
    knee_iops: float | None = None
    steps: tuple[RateStep, ...] = ()
    lasted: tuple[RateStep, ...] = ()  # the answer, offered for half an hour at the end
    csv: str = ""
    verdict: Verdict | None = None  # None in older results, where the findings say it

    @property
    def limit(self) -> str:
        """Return the limit for people."""
        return f"{self.percentile} of at most {format_ns(self.limit_ns)}, from when due"


class LoadFound(Model):
    """Latencies at one offered load over all trials, from when requests were due."""

    kind: Literal[StageKind.LOAD] = StageKind.LOAD
    workload: str = ""  # for people
    pattern: str = "random"
    block_bytes: int = 4096
    read_percent: int = 0
    load: str = ""  # as it was asked for: "2 drive writes per day"
    percentile: str = "p99"  # the rarest that was asked for, which the steps are of
    asked_iops: float = 0.0  # all requests of it a second
    offered_iops: float = 0.0
    clients: int = 0  # that shared it
    settled_s: float = 0.0  # at this load before the trials
    measured_s: float = 0.0  # over all trials
    trials: int = 0
    missed: str = ""  # why the drive did not keep up; empty where it did
    estimates: tuple[Estimate, ...] = ()
    steps: tuple[RateStep, ...] = ()
    csv: str = ""
    verdict: Verdict = "NOT VALIDATED"

    @property
    def label(self) -> str:
        """Return the load for people: `904.2 IOPS, 2 drive writes per day`."""
        rate = f"{format_count(self.asked_iops)} IOPS"
        return f"{rate}, {self.load}" if self.load else rate
