"""The seconds of a stage as a figure: where they lie, which unit fits, which axis is readable."""

from dataclasses import dataclass

import numpy as np

from ssdbench.model.result import StageResult
from ssdbench.report.figures import Floats
from ssdbench.report.read import Seconds, StoredRun

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


def stage_seconds(run: StoredRun, stage: StageResult) -> Seconds | None:
    """The series of a stage: the one it names, else `seconds.csv` in its directory."""
    named = [
        f["csv"] for f in stage.figures if f.get("kind") in ("series", "steady") and "csv" in f
    ]
    return run.seconds(named[0] if named else f"stages/{stage.name}/seconds.csv")


def rate_unit(stage: StageResult, rate: float, seconds: Seconds | None) -> str:
    """ "B/s" or "1/s": what the stage says, else the one whose series lies nearer to `rate`."""
    for told in (stage.data.get("unit"), stage.summary.get("unit")):
        if told in ("B/s", "1/s"):
            return str(told)
    if seconds is None or rate <= 0:
        return "B/s"
    distance = {
        unit: abs(np.log(max(float(np.median(seconds.rate(unit))), 1e-9) / rate))
        for unit in ("1/s", "B/s")
    }
    return min(distance, key=lambda unit: distance[unit])


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
