"""Defines what stages with repeats share: how often, how long, and what comes before."""

from pydantic import Field

from ssdbench.model.base import ProfileModel
from ssdbench.model.quantity import Percent, Positive, Repeats, Seconds


class Settle(ProfileModel):
    """The part of each repeat before its window; past the spare area it is evidence too."""

    window_s: Seconds = Field(default=600.0, alias="window")
    """Points that write: settle for at least this long, and until nothing rises or falls."""
    spare_percent: Percent | None = Field(default=None, alias="spare")
    """Points that write: this share of the drive is written first. Without it, the drive's spare
    area where it is known (a simulated drive), else 28%, a large one."""
    flat_s: Seconds = Field(default=60.0, alias="flat")
    """Points that only read: settle for at least this long."""
    unbroken_s: Seconds = Field(default=1800.0, alias="unbroken")
    """The first repeat of each point: its load runs for at least this long without a break, and
    until the last two thirds of that time are flat. Less than 30m shows too little: the points are
    then not VALIDATED."""
    max_fills: Positive = 2.0
    """Count the repeat as not steady after this many drive fills."""
    max_time_s: Seconds | None = Field(default=None, examples=["30m"], alias="max_time")
    """Count the repeat as not steady after this time; no limit unless it is set, but points that
    only read never settle longer than 30 times `flat`."""


class ExtraRepeats(ProfileModel):
    """Repeats beyond the planned ones; declared before the start, all kept and shown."""

    most: Repeats = 30
    """Repeats per point altogether, at most."""
    width_percent: Percent | None = Field(default=2.0, alias="width")
    """Points whose 95 % interval of the mean is wider than plus or minus this get more repeats;
    null for none."""
    disturbed: bool = True
    """Points with disturbed repeats get more, until as many as planned were quiet."""


class Repeated(ProfileModel):
    """Points in repeats, each with a window after it has settled."""

    repeats: Repeats | None = Field(default=None, examples=[10])
    """Repeats per point; without it, those of the profile."""
    window_s: Seconds | None = Field(default=None, examples=["5m"], alias="window")
    """Time measured per repeat; without it, that of the profile."""
    settle: Settle | None = None
    """How repeats of this stage settle; without it, as the profile says. What has a rate or pauses
    settles in time, not in bytes."""


class Extendable(Repeated):
    """Points that may get more repeats than planned."""

    extra: ExtraRepeats | None = None
    """More repeats where intervals are wide or repeats disturbed."""
