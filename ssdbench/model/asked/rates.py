"""The highest offered rate that keeps a limit of latency."""

from typing import ClassVar, Literal

from pydantic import Field

from ssdbench.model.asked.sweeps import AccessOrder
from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind
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
from ssdbench.units import KIB


class RateSweep(Model):
    """Requests come at an offered rate, whether the drive keeps up or not."""

    kind: ClassVar[StageKind] = StageKind.RATE

    pattern: AccessOrder = Field(default=AccessOrder.RANDOM, description="Order of offsets.")
    block_bytes: SizeBytes = Field(
        default=4 * KIB, alias="block", description="Size of one request."
    )
    read_percent: ReadPercent = Field(
        default=0, alias="read", description="Share of reads, in percent."
    )
    percentile: Literal["p90", "p99", "p99.9", "p99.99"] = Field(
        default="p99", description="Which percentile of latency is limited."
    )
    limit_s: Seconds | None = Field(
        default=None,
        alias="limit",
        description="Its limit, such as 10ms; without it, `p99` of the profile's plan.",
    )
    arrivals: Arrivals = Field(
        default=Arrivals.POISSON,
        description="poisson: at random, as from many clients; even: one after each interval.",
    )
    clients: Jobs | None = Field(
        default=None,
        examples=[256],
        description="Threads that send, each with one request in flight; without it 16, and more, "
        "up to 1,024, until waiting for one no longer matters.",
    )
    start_iops: Positive | None = Field(
        default=None,
        alias="start",
        description="First rate; without it, half of what the stages before reached.",
    )
    resolution_percent: Share = Field(
        default=2.5, alias="resolution", description="The search ends within this share."
    )
    repeats: Repeats = Field(
        default=5, description="Searches; the lowest result counts. Fewer than 5 do not validate."
    )
    window_s: Seconds | None = Field(
        default=None,
        alias="window",
        description="Time measured per rate; without it, that of the profile.",
    )
    settle_s: Seconds = Field(
        default=30.0, alias="settle", description="Time at each rate that is not counted."
    )

    @property
    def reads(self) -> bool:
        """Whether it reads."""
        return self.read_percent > 0
