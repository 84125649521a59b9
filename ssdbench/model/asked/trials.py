"""Experiments over the host."""

from typing import Annotated

from pydantic import Field

from ssdbench.model.base import Model
from ssdbench.model.quantity import (
    Count,
    OneOrMany,
    Seconds,
)


class HostTrial(Model):
    """The same short workloads under one host setting after another; medians are compared."""

    repeats: Count = Field(default=3, description="Passes over all variants and workloads.")
    window_s: Seconds = Field(
        default=5.0, alias="window", description="Time of each start, in whole seconds."
    )

    @property
    def reads(self) -> bool:
        """Whether it reads."""
        return True


class Schedulers(HostTrial):
    """The drive's I/O schedulers over sequential, random, mixed and prioritised work."""

    schedulers: Annotated[tuple[str, ...], OneOrMany()] = Field(
        default=(), description="Schedulers to compare; all that the drive offers unless set."
    )


class QueueSettings(HostTrial):
    """nr_requests, merges, completion affinity and entropy, one after another."""


class Engines(HostTrial):
    """Ways to submit I/O, and direct I/O against the page cache."""


class LatencyPath(HostTrial):
    """Where the time of a request goes, from the kernel's block tracepoints."""

    repeats: Count = Field(default=1, description="Passes over all schedulers and workloads.")
    schedulers: Annotated[tuple[str, ...], OneOrMany()] = Field(
        default=(), description="Schedulers to look into; the one in force unless set."
    )


class CpuCost(HostTrial):
    """CPU time per I/O, IOPS per core and per watt, at several CPU frequencies."""
