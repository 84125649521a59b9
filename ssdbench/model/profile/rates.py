"""Define `rate`, the search for the highest rate within a limit, and `load`, one fixed rate."""

from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ssdbench.model.base import Mistake, ProfileModel, refuse
from ssdbench.model.kind import StageKind
from ssdbench.model.profile.sweeps import ALL_READS, Requests
from ssdbench.model.quantity import Jobs, Positive, Repeats, Seconds, Share
from ssdbench.model.workload import Arrivals, Direction
from ssdbench.units import format_count

DAY_S = 86_400
PLANNED_LOAD = "the planned load of one drive"


class OfferedLoad(ProfileModel):
    """A load that is offered whether the drive keeps up or not."""

    iops: Positive | None = Field(default=None, examples=[3_000])
    """Offered requests per second."""
    drive_writes_per_day: Positive | None = Field(default=None, examples=[2])
    """Bytes written per day, in capacities of the drive; reads come in addition."""
    planned: bool = False
    """The load of one drive in the answer to `plan`: the demand with bursts and growth, divided by
    the drives without the reserve. It is computed from earlier measurements of the run."""

    def mistakes(self) -> Iterator[Mistake]:
        if sum((self.iops is not None, self.drive_writes_per_day is not None, self.planned)) != 1:
            yield (), "give one of iops, drive_writes_per_day and planned"

    def of_requests_iops(self, block_bytes: int, read_percent: int, size_bytes: int) -> float:
        """Return all requests per second, including reads; 0 if this cannot be known.

        The result is 0 if the load is drive writes but only reads are sent, or if the load is
        `planned`, as only a run knows such a load.
        """
        if self.drive_writes_per_day is None:
            return self.iops or 0.0
        written = block_bytes * (100 - read_percent) / 100
        return self.drive_writes_per_day * size_bytes / DAY_S / written if written else 0.0

    def same_load(self, other: "OfferedLoad | None") -> bool:
        """Tell whether this load and the load `other` are equal."""
        return other is not None and all(
            getattr(self, name) == getattr(other, name) for name in OfferedLoad.model_fields
        )

    def label(self) -> str:
        """Return the load in words, such as `3,000 IOPS` or `2 drive writes per day`."""
        if self.planned:
            return PLANNED_LOAD
        if self.drive_writes_per_day is None:
            return f"{format_count(self.iops or 0.0)} IOPS"
        return f"{self.drive_writes_per_day:g} drive writes per day"


class Offered(Requests):
    """A workload whose requests arrive at an offered rate, whether the drive keeps up or not."""

    arrivals: Arrivals = Arrivals.POISSON
    """poisson: at random, as from many clients; even: at equal intervals."""
    clients: Jobs | None = Field(default=None, examples=[256])
    """Threads that send requests, each with one in flight. Default: 16, and up to 1,024 if requests
    wait for a free thread."""
    window_s: Seconds | None = Field(default=None, alias="window")
    """Time measured per rate; the default is the profile's `window`."""
    settle_s: Seconds = Field(default=30.0, alias="settle")
    """Time at each rate before the window; its requests are not counted."""
    direction: Direction | None = None
    """The direction whose latency is limited. Default: the slower of reads and writes."""


class Load(Offered, OfferedLoad):
    """Measure latencies at one offered load."""

    kind: ClassVar[StageKind] = StageKind.LOAD

    percentile: Literal["p50", "p90", "p99", "p99.9", "p99.99", "p99.999"] = "p99"
    """The highest percentile that you need. Windows are made long enough to measure it."""
    limit_s: Seconds | None = Field(default=None, alias="limit")
    """Limit of this percentile, if you have one. Requests that take longer count as stalls."""
    repeats: Repeats = 5
    """Number of trials, one after another. With fewer than 5 the result is not VALIDATED."""

    @model_validator(mode="after")
    def _written(self) -> Self:
        if self.drive_writes_per_day and self.read_percent == ALL_READS:
            refuse([(("drive_writes_per_day",), "a workload that only reads writes nothing")])
        return self


class RateSweep(Offered):
    """Find the highest offered rate that keeps a limit of latency."""

    kind: ClassVar[StageKind] = StageKind.RATE

    percentile: Literal["p90", "p99", "p99.9", "p99.99"] = "p99"
    """The percentile of latency that is limited."""
    limit_s: Seconds | None = Field(default=None, alias="limit")
    """The limit of this percentile, such as 10ms. Default: `p99` of the profile's plan."""
    start_iops: Positive | None = Field(default=None, alias="start")
    """First rate to try. Default: half of the rate that earlier stages reached."""
    resolution_percent: Share = Field(default=2.5, alias="resolution")
    """The search ends when the rate is known to within this share of itself, such as 2.5 %."""
    repeats: Repeats = 5
    """Number of searches; the answer is the lowest result. With fewer than 5 it is not
    VALIDATED."""
