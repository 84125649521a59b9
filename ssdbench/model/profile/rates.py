"""Defines `rate`, the highest offered rate within a limit of latency, and `load`, one rate."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ssdbench.model.base import ProfileModel, refuse
from ssdbench.model.kind import StageKind
from ssdbench.model.profile.sweeps import ALL_READS, AccessOrder
from ssdbench.model.quantity import (
    Jobs,
    Positive,
    ReadPercent,
    Repeats,
    Seconds,
    Share,
    SizeBytes,
)
from ssdbench.model.workload import Arrivals
from ssdbench.units import KIB, format_count

DAY_S = 86_400


class OfferedLoad(ProfileModel):
    """A load that is offered whether the drive keeps up or not."""

    iops: Positive | None = Field(default=None, examples=[3_000])
    """Offered requests a second."""
    drive_writes_per_day: Positive | None = Field(default=None, examples=[2])
    """Writes a day in capacities of the drive; reads come on top."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.iops is None) == (self.drive_writes_per_day is None):
            refuse([((), "give one of iops and drive_writes_per_day")])
        return self

    def of_requests_iops(self, block_bytes: int, read_percent: int, size_bytes: int) -> float:
        """Return all requests a second, reads included; 0 for drive writes of reads alone."""
        if self.drive_writes_per_day is None:
            return self.iops or 0.0
        written = block_bytes * (100 - read_percent) / 100
        return self.drive_writes_per_day * size_bytes / DAY_S / written if written else 0.0

    def same_load(self, other: "OfferedLoad | None") -> bool:
        """Tell whether another one asks for as much."""
        return other is not None and (self.iops, self.drive_writes_per_day) == (
            other.iops,
            other.drive_writes_per_day,
        )

    def label(self) -> str:
        """Return it in words: `3,000 IOPS`, `2 drive writes per day`."""
        if self.drive_writes_per_day is None:
            return f"{format_count(self.iops or 0.0)} IOPS"
        return f"{self.drive_writes_per_day:g} drive writes per day"


class Offered(ProfileModel):
    """A workload whose requests come at an offered rate, whether the drive keeps up or not."""

    pattern: AccessOrder = AccessOrder.RANDOM
    """Order of offsets."""
    block_bytes: SizeBytes = Field(default=4 * KIB, alias="block")
    """Size of one request."""
    read_percent: ReadPercent = Field(default=0, alias="read")
    """Share of reads, in percent."""
    arrivals: Arrivals = Arrivals.POISSON
    """poisson: at random, as from many clients; even: one after each interval."""
    clients: Jobs | None = Field(default=None, examples=[256])
    """Threads that send, each with one request in flight; without it 16, and more, up to 1,024,
    until waiting for one no longer matters."""
    window_s: Seconds | None = Field(default=None, alias="window")
    """Time measured per rate; without it, that of the profile."""
    settle_s: Seconds = Field(default=30.0, alias="settle")
    """Time at each rate that is not counted."""

    @property
    def reads(self) -> bool:
        """Tell whether it reads."""
        return self.read_percent > 0


class Load(Offered, OfferedLoad):
    """Latencies at one offered load."""

    kind: ClassVar[StageKind] = StageKind.LOAD

    percentile: Literal["p50", "p90", "p99", "p99.9", "p99.99", "p99.999"] = "p99"
    """The rarest percentile that is asked for; windows fit it."""
    limit_s: Seconds | None = Field(default=None, alias="limit")
    """Its limit, if there is one: stalls are counted where waits are longer."""
    repeats: Repeats = 5
    """Trials, one after another. Fewer than 5 do not validate."""

    @model_validator(mode="after")
    def _written(self) -> Self:
        if self.drive_writes_per_day and self.read_percent == ALL_READS:
            refuse([(("drive_writes_per_day",), "a workload of reads alone writes nothing")])
        return self


class RateSweep(Offered):
    """The search for the highest such rate that keeps a limit of latency."""

    kind: ClassVar[StageKind] = StageKind.RATE

    percentile: Literal["p90", "p99", "p99.9", "p99.99"] = "p99"
    """Which percentile of latency is limited."""
    limit_s: Seconds | None = Field(default=None, alias="limit")
    """Its limit, such as 10ms; without it, `p99` of the profile's plan."""
    start_iops: Positive | None = Field(default=None, alias="start")
    """First rate; without it, half of what the stages before reached."""
    resolution_percent: Share = Field(default=2.5, alias="resolution")
    """The search ends within this share."""
    repeats: Repeats = 5
    """Searches; the lowest result counts. Fewer than 5 do not validate."""
