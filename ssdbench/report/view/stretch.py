"""The seconds of a stage as a figure: where they lie, which unit fits, which axis is readable."""

from dataclasses import dataclass

import numpy as np

from ssdbench.report.figures import Floats
from ssdbench.report.read import Seconds

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Clock:
    """A unit for a time axis."""

    seconds: float
    name: str


def clock(length_s: float) -> Clock:
    """The unit in which a length of time has a readable number of ticks."""
    if length_s > 3 * 3600:
        return Clock(3600.0, "hours")
    if length_s > 300:
        return Clock(60.0, "minutes")
    return Clock(1.0, "seconds")


def scaled(unit: str) -> tuple[float, str]:
    """The divisor and the axis label of a rate."""
    return (1e6, "MB/s") if unit == "B/s" else (1.0, "IOPS")


def worst_minute(
    seconds: Seconds, unit: str, *, start_s: float, end_s: float
) -> tuple[float, float, float] | None:
    """From, to and rate of the slowest 60 s between two times, or None when they are shorter."""
    inside = (seconds.t_s > start_s) & (seconds.t_s <= end_s)
    t, dt = seconds.t_s[inside], seconds.duration_s[inside]
    if not len(t) or t[-1] - (t[0] - dt[0]) < MINUTE_S:
        return None
    amount = seconds.ios[inside] if unit == "1/s" else seconds.bytes[inside]
    ends = np.concatenate(([t[0] - dt[0]], t))
    total: Floats = np.concatenate(([0.0], np.cumsum(amount)))
    to = ends[ends >= ends[0] + MINUTE_S]
    done = np.interp(to, ends, total) - np.interp(to - MINUTE_S, ends, total)
    slowest = int(np.argmin(done))
    return float(to[slowest] - MINUTE_S), float(to[slowest]), float(done[slowest] / MINUTE_S)
