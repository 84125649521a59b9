"""Record the drive's power while a unit is measured, from a power meter or from the drive itself.

The power meter belongs to the user: a program of the user appends each reading to a CSV file, as a
line with the time and the watts. Without a meter, ssdbench reads the health log of the drive every
10 s; drives with NVMe 2.3 may report there the mean power of the last second. For other drives the
report has no power.
"""

import math
import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import numpy as np

from ssdbench.engine.hostactivity import EVERY_S, MEASURED
from ssdbench.errors import UsageError
from ssdbench.host import regular
from ssdbench.host.files import write_atomic
from ssdbench.model.finding import Finding
from ssdbench.model.findings.drive import PowerGap
from ssdbench.model.point import Estimate, PowerDuring
from ssdbench.stats.estimate import cost_of_repeats
from ssdbench.units import format_duration

HEADER = "time_s,watts,source\n"
LATE_S = 60.0  # if the newest reading is older, the meter is stopped or its clock is wrong
LONGEST_GAP = 0.1  # allowed gap / window; at least LEAST_GAP_S is allowed
LEAST_GAP_S = 5.0
MOST_WATTS = 10_000.0
LONGEST_LINE = 4096
LAST_BYTES = 1 << 24  # read from the file's end at first: days of readings

Reading = tuple[float, float]  # seconds since 1970, watts


def reading_of(line: str) -> Reading | None:
    """Parse a line like `1764288000.5,8.25` or `2026-11-28T00:00:00+00:00;8.25`, or return None.

    A line with a third field is not a reading, because its watts may have a decimal comma.
    """
    try:
        at, told = line.split(next((mark for mark in ";\t" if mark in line), ","))
        at_s, watts = _seconds(at.strip()), float(told)
    except (ValueError, OverflowError):
        return None
    return (at_s, watts) if math.isfinite(at_s) and 0 <= watts <= MOST_WATTS else None


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()


class Meter:
    """Read new lines of a running power meter's CSV file; wait for incomplete lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0  # bytes read so far
        self._readings: list[Reading] = []
        self._unread = ""  # the first line, after the heading, that is not a reading

    def require_running(self, now_s: float) -> None:
        """Raise UsageError unless the meter's file has readings and the newest is recent."""
        try:
            self._follow()
        except OSError as error:
            raise UsageError(
                f"the file of the power meter, {self._path}, cannot be read: {error.strerror}",
                hint=_FORM,
            ) from error
        if not self._readings:
            said = f"; line {self._unread!r} is not a reading" if self._unread else ""
            raise UsageError(f"{self._path} has no reading of power{said}", hint=_FORM)
        age_s = now_s - self._readings[-1][0]
        if not -LEAST_GAP_S <= age_s <= LATE_S:
            raise UsageError(
                f"the newest reading in {self._path} is from {age_s:,.0f} s ago by this clock",
                hint=f"Start the meter before the run, and set its clock. {_FORM}",
            )

    def between(self, from_s: float, to_s: float) -> list[Reading]:
        """Return the readings from `from_s` to `to_s`, and one on each side; forget older ones."""
        with suppress(OSError):  # a file that is missing for a moment must not end a run of days
            self._follow()
        times = [at_s for at_s, _ in self._readings]
        first = max(0, bisect_left(times, from_s) - 1)
        found = self._readings[first : bisect_right(times, to_s) + 1]
        del self._readings[:first]
        return found

    def _follow(self) -> None:
        """Read the new lines of the file; for a new or shortened file, only the last LAST_BYTES."""
        path = Path(os.path.realpath(self._path))  # a link may point to a new file each day
        with regular.opened(path) as descriptor, open(descriptor, "rb", closefd=False) as f:
            size = f.seek(0, os.SEEK_END)
            if not 0 < self._at <= size:
                self._at = max(0, size - LAST_BYTES)
            f.seek(self._at)
            while (line := f.readline(LONGEST_LINE)).endswith(b"\n"):
                self._at += len(line)
                text = line.decode(errors="replace").strip()
                if (reading := reading_of(text)) is not None:
                    self._readings.append(reading)
                elif self._readings or self._at > len(line):
                    self._unread = self._unread or text
        self._readings.sort()


_FORM = (
    "Each line is a time and the watts, and nothing else: `seconds since 1970,watts` or "
    "`ISO 8601 time,watts`. Decimals follow a point."
)


def mean_watts(readings: Sequence[Reading], from_s: float, to_s: float) -> float:
    """Return the mean power in W from `from_s` to `to_s`, with straight lines between readings."""
    times, watts = (np.array(values, dtype=np.float64) for values in zip(*readings, strict=True))
    inside = (times > from_s) & (times < to_s)
    at_s = np.concatenate(([from_s], times[inside], [to_s]))
    return float(np.trapezoid(np.interp(at_s, times, watts), at_s) / (to_s - from_s))


def longest_gap_s(readings: Sequence[Reading], from_s: float, to_s: float) -> float:
    """Return the longest time without a reading, in s; the whole time if the clock ran back."""
    inside = [at_s for at_s, _ in readings if from_s < at_s < to_s]
    return float(np.abs(np.diff([from_s, *inside, to_s])).max())


IDLE_READINGS = 5


def idle_watts(
    read: Callable[[], float | None],
    meter: Meter | None,
    *,
    sleep: Callable[[float], None],
    clock: Callable[[], float] = time.time,
    hurried: Callable[[], bool] = lambda: False,
) -> Estimate | None:
    """Measure a drive's idle power for 50 s; None if nothing measures it, or if `hurried`.

    Before each of the five readings the drive gets no command for 10 s, so it may enter a sleep
    state.
    """
    if meter is None and read() is None:
        return None
    told: list[float] = []
    began_s = clock()
    for _ in range(IDLE_READINGS):
        from_s = clock()
        sleep(EVERY_S)
        if hurried():
            return None
        if meter is None:
            watts = read()
        else:
            to_s = clock()
            found = meter.between(from_s, to_s)
            silent = from_s >= to_s or longest_gap_s(found, from_s, to_s) > LEAST_GAP_S
            watts = None if silent or not found else mean_watts(found, from_s, to_s)
        told += [] if watts is None else [watts]
    if len(told) < IDLE_READINGS or not min(told):
        return None
    estimate = cost_of_repeats(told, "idle_watts", "W")
    length = format_duration((clock() - began_s) / IDLE_READINGS)
    how = f"{estimate.method} of {length}, power by the {'drive' if meter is None else 'meter'}"
    return estimate.model_copy(update={"method": how})


class PowerWatch:
    """Measure the power in the measured phase of one unit."""

    def __init__(
        self,
        read: Callable[[], float | None],
        meter: Meter | None,
        *,
        wall: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._read, self._meter, self._wall, self._clock = read, meter, wall, clock
        # Ask the drive now, before the load: while it is measured, a drive that does not report
        # power must not get such commands.
        self._tells = meter is None and read() is not None
        self._from_s: float | None = None
        self._to_s = self._last_s = clock()
        self._next_s = 0.0
        self._told: list[Reading] = []  # readings of the drive
        self._metered: list[Reading] = []

    def look(self, phase: str) -> None:
        """Handle one second of a phase: in the measured phase, ask the drive every 10 s."""
        before_s, self._last_s = self._last_s, self._clock()
        if phase != MEASURED:
            return
        if self._from_s is None:
            self._from_s = before_s
        self._to_s = self._last_s
        if self._tells and self._wall() >= self._next_s:
            self._next_s = self._wall() + EVERY_S
            if (watts := self._read()) is not None:
                self._told.append((self._to_s, watts))

    def end(self) -> None:
        """Read the meter's file after the last request."""
        if self._meter is not None and self._from_s is not None:
            self._metered = self._meter.between(self._from_s, self._to_s)

    def write(self, path: Path) -> None:
        """Store all power readings as CSV; without readings no file is made."""
        rows = [(*one, "meter") for one in self._metered] + [(*one, "drive") for one in self._told]
        if rows:
            lines = [f"{at_s:.3f},{watts:g},{source}\n" for at_s, watts, source in rows]
            write_atomic(path, HEADER + "".join(lines))

    def findings(self) -> list[Finding]:
        """Return a finding if the meter gave no reading for too long for a reliable mean."""
        gap_s, most_s = self._gap()
        return [PowerGap(gap_s, most_s).finding()] if gap_s > most_s else []

    def during(self) -> PowerDuring | None:
        """Return the mean power in the measured phase, from the meter or the drive, or None."""
        gap_s, most_s = self._gap()
        if self._told:
            watts = float(np.mean([watts for _, watts in self._told]))
            return PowerDuring(source="drive", watts=watts, readings=len(self._told))
        if self._from_s is None or not self._metered or gap_s > most_s:
            return None
        if self._to_s <= self._from_s:  # the clock was set back
            return None
        watts = mean_watts(self._metered, self._from_s, self._to_s)
        if not watts:
            return None
        return PowerDuring(source="meter", watts=watts, readings=len(self._metered))

    def _gap(self) -> tuple[float, float]:
        """Return the meter's longest time without a reading, and the longest allowed time, in s."""
        if self._meter is None or self._from_s is None:
            return 0.0, 0.0
        most_s = max(LEAST_GAP_S, LONGEST_GAP * (self._to_s - self._from_s))
        return longest_gap_s(self._metered, self._from_s, self._to_s), most_s
