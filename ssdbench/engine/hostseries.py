"""The host while a repeat is measured: read every 10 s, stored, judged and summed up.

One reading costs some 5 ms of CPU time, which is less than 0.1 % of one CPU. A simulated drive in
virtual time waits for us, so nothing is read for it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from ssdbench.engine.noise import Noise, disturbed, noise
from ssdbench.host.activity import Activity
from ssdbench.host.files import write_atomic
from ssdbench.model.finding import Finding
from ssdbench.model.point import HostDuring

EVERY_S = 10.0  # of wall time
MEASURED = "measure"
_COLUMNS = (
    "t_s",
    "phase",
    "frequency_mhz",
    "temperature_c",
    "stolen_percent",
    "other_cpus",
    "switches_per_s",
    "foreign_ios",
)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The host at the end of an interval of one phase."""

    t_s: float  # on the target's clock
    host: Activity
    phase: str  # of the interval that ends here
    foreign_ios: int = 0  # on the drive, in that interval


class HostSeries:
    """Reads the host now and then, and whenever a phase begins; `simulated` looks at nothing."""

    def __init__(
        self,
        *,
        simulated: bool,
        counts_foreign: bool = True,
        read: Callable[[], Activity],
        wall: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._wall = read, wall
        self._counts_foreign = counts_foreign
        self._phase = ""
        self._foreign_ios = 0
        self._next_s = 0.0
        self._readings: list[_Reading] = []
        if not simulated:
            self._add(0.0)

    def look(self, t_s: float, phase: str, foreign_ios: int = 0) -> None:
        """One second on; `phase` begins now when it is another than before."""
        if not self._readings:
            return
        self._foreign_ios += foreign_ios
        changed = self._phase not in ("", phase)
        if changed or self._wall() >= self._next_s:
            self._phase = self._phase or phase
            self._add(t_s)
        self._phase = phase

    def end(self, t_s: float) -> None:
        """Read once more, after the last request."""
        if self._readings:
            self._add(t_s)

    def mark(self, t_s: float, phase: str) -> None:
        """Read now; all since the reading before was `phase`."""
        if self._readings:
            self._phase = phase
            self._add(t_s)

    def findings(self) -> list[Finding]:
        """At most one, with every reason in it; a dip that had passed by the end counts too."""
        counted = self._counted()
        if len(counted) < 2:
            return []
        first = counted[0].host
        seen = noise(first, counted[-1].host)
        all_seen = [noise(first, later.host) for later in counted[1:]]
        worst = replace(
            seen,
            frequency_drop=_most(one.frequency_drop for one in all_seen),
            temperature_rise_c=_most(one.temperature_rise_c for one in all_seen),
        )
        return disturbed(worst)

    def during(self) -> HostDuring | None:
        """The measured window summed up; None where nothing was read."""
        counted = self._counted()
        if len(counted) < 2:
            return None
        seconds = max(counted[-1].host.at_s - counted[0].host.at_s, 1e-9)
        parts = [noise(a.host, b.host) for a, b in pairwise(counted)]
        whole = noise(counted[0].host, counted[-1].host)
        clocks = [r.host.frequency_khz / 1000 for r in counted if r.host.frequency_khz is not None]
        return HostDuring(
            frequency_mhz_least=min(clocks, default=None),
            frequency_mhz_most=max(clocks, default=None),
            temperature_c_most=_most(r.host.temperature_c for r in counted),
            stolen_percent_most=100 * max(part.stolen_share for part in parts),
            other_cpus_most=max(part.other_cpus for part in parts),
            switches_per_s=whole.switches_per_s,
            interrupts_per_s=_per_cpu(counted[0].host, counted[-1].host, seconds),
            foreign_ios=sum(reading.foreign_ios for reading in counted[1:]),
        )

    def write(self, path: Path) -> None:
        """Store the series, one line for each interval; nothing for a simulated drive."""
        if len(self._readings) < 2:
            return
        cpus = len(self._readings[0].host.interrupts_per_cpu)
        header = (*_COLUMNS, *(f"interrupts_per_s_cpu{n}" for n in range(cpus)))
        rows = (
            _line(before, after, counts_foreign=self._counts_foreign)
            for before, after in pairwise(self._readings)
        )
        lines = [",".join(header), *rows]
        write_atomic(path, "\n".join(lines) + "\n")

    def _counted(self) -> Sequence[_Reading]:
        """The readings of the measured window, from the one at its beginning on."""
        inside = [n for n, reading in enumerate(self._readings) if reading.phase == MEASURED]
        return self._readings[inside[0] - 1 :] if inside else ()

    def _add(self, t_s: float) -> None:
        self._next_s = self._wall() + EVERY_S
        self._readings.append(_Reading(t_s, self._read(), self._phase, self._foreign_ios))
        self._foreign_ios = 0


def _line(before: _Reading, after: _Reading, *, counts_foreign: bool) -> str:
    seen: Noise = noise(before.host, after.host)
    host = after.host
    fields = (
        f"{after.t_s:.1f}".removesuffix(".0"),
        after.phase,
        "" if host.frequency_khz is None else f"{host.frequency_khz / 1000:.0f}",
        "" if host.temperature_c is None else f"{host.temperature_c:g}",
        f"{100 * seen.stolen_share:.2f}",
        f"{seen.other_cpus:.3f}",
        f"{seen.switches_per_s:.0f}",
        f"{after.foreign_ios}" if counts_foreign else "",
        *(f"{rate:.0f}" for rate in _per_cpu(before.host, host, seen.seconds)),
    )
    return ",".join(fields)


def _per_cpu(before: Activity, after: Activity, seconds: float) -> tuple[float, ...]:
    """Interrupts per second of each CPU; none when a CPU came or went meanwhile."""
    if len(before.interrupts_per_cpu) != len(after.interrupts_per_cpu):
        return ()
    both = zip(before.interrupts_per_cpu, after.interrupts_per_cpu, strict=True)
    return tuple((last - first) / seconds for first, last in both)


def _most(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
