"""Define what stages with repeats share: number of repeats, length of windows, settling."""

from pydantic import Field

from ssdbench.model.base import ProfileModel
from ssdbench.model.quantity import Percent, Positive, Repeats, Seconds


class Settle(ProfileModel):
    """The part of each repeat before its window. Its steady seconds count as evidence, too."""

    window_s: Seconds = Field(default=600.0, alias="window")
    """Points that write: settle for at least this long, and until the rate neither rises nor
    falls."""
    spare_percent: Percent | None = Field(default=None, alias="spare")
    """Points that write: this share of the drive is written first. Without it, the drive's spare
    area if it is known (simulated drives), else 28%, which is a large one."""
    flat_s: Seconds = Field(default=60.0, alias="flat")
    """Points that only read: settle for at least this long."""
    unbroken_s: Seconds = Field(default=1800.0, alias="unbroken")
    """The first repeat of each point: its load runs without a break for at least this long, and
    until the rate is flat over the last two thirds of that time. With less than 30m the points are
    not VALIDATED."""
    max_fills: Positive = 2.0
    """Count the repeat as not steady after this many drive fills."""
    max_time_s: Seconds | None = Field(default=None, examples=["30m"], alias="max_time")
    """Count the repeat as not steady after this time. Without it there is no limit, except for
    points that only read: 30 times `flat`."""


class ExtraRepeats(ProfileModel):
    """Repeats beyond the planned ones. They are declared before the start; all are shown."""

    most: Repeats = 30
    """Largest number of repeats per point, including the planned ones."""
    width_percent: Percent | None = Field(default=2.0, alias="width")
    """Points get more repeats if the 95 % interval of their mean is wider than plus or minus this;
    null for none."""
    disturbed: bool = True
    """Points with disturbed repeats get more, until as many as planned were not disturbed."""


class Repeated(ProfileModel):
    """Points in repeats. Each repeat settles first; then its window is measured."""

    repeats: Repeats | None = Field(default=None, examples=[10])
    """Repeats per point; without it, those of the profile."""
    window_s: Seconds | None = Field(default=None, examples=["5m"], alias="window")
    """Time measured per repeat; without it, that of the profile."""
    settle: Settle | None = None
    """How repeats of this stage settle; without it, as the profile says. Workloads with a rate or
    pauses settle for a time, not for an amount of bytes."""


class Extendable(Repeated):
    """Points that may get more repeats than planned."""

    extra: ExtraRepeats | None = None
    """More repeats if intervals are wide or repeats were disturbed."""
