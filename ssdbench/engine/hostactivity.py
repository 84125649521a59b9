"""Record the host's other work during a unit of a stage, and judge whether it disturbed the unit.

A disturbed repeat is kept and marked, and its point is not validated. One reading takes about 5 ms
of CPU time, less than 0.1 % of one CPU. The clock of a simulated drive stops while the host is
busy, so for such a drive the host is not read.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from ssdbench.host.activity import Activity, activity, package_watts
from ssdbench.host.files import write_atomic
from ssdbench.model.finding import Finding
from ssdbench.model.findings.host import HostDisturbed
from ssdbench.model.point import HostDuring

# A repeat counts as disturbed if the host's other work exceeds one of these limits. The services of
# an idle server stay below them. 1 % of stolen time changes a rate by about 1 %. A quarter of one
# CPU changes it by less than 4 %, the difference that repeats may have.
STOLEN_SHARE = 0.01  # CPU time taken by the hypervisor / time of all CPUs
OTHER_CPUS = 0.25  # CPUs that other programs keep busy, on average
FREQUENCY_DROP = 0.05  # share of the CPU clock lost from start to end
TEMPERATURE_RISE_C = 15.0
STOPPED_S = 3.0  # longest pause between two seconds of a measurement


@dataclass(frozen=True, slots=True)
class ActivityBetween:
    """Hold the host's other work, apart from the measurement, between two readings of the host."""

    seconds: float
    stolen_share: float
    other_cpus: float
    busiest: str  # name of the other program that used most CPU time
    frequency_drop: float | None
    temperature_rise_c: float | None
    throttle_events: int | None
    switches_per_s: float
    stopped_s: float = 0.0


def activity_between(before: Activity, after: Activity) -> ActivityBetween:
    """Compute the host's other work between two readings."""
    seconds = max(after.at_s - before.at_s, 1e-9)
    capacity_s = seconds * max(after.cpus, 1)
    others_s = sum(after.others_s.values()) - sum(before.others_s.values())
    grown = {n: s - before.others_s.get(n, 0.0) for n, s in after.others_s.items()}
    return ActivityBetween(
        seconds=seconds,
        stolen_share=max(0.0, after.stolen_s - before.stolen_s) / capacity_s,
        other_cpus=max(0.0, others_s) / seconds,
        busiest=max(grown, key=lambda name: grown[name], default=""),
        frequency_drop=None
        if not before.frequency_khz or after.frequency_khz is None
        else 1 - after.frequency_khz / before.frequency_khz,
        temperature_rise_c=None
        if before.temperature_c is None or after.temperature_c is None
        else after.temperature_c - before.temperature_c,
        throttle_events=None
        if before.throttle_events is None or after.throttle_events is None
        else after.throttle_events - before.throttle_events,
        switches_per_s=(after.context_switches - before.context_switches) / seconds,
    )


def disturbed(seen: ActivityBetween) -> list[Finding]:
    """Return one finding that lists each value above its limit; empty if all are below."""
    drop = seen.frequency_drop
    case = HostDisturbed(
        stolen_percent=100 * seen.stolen_share,
        other_cpus=seen.other_cpus,
        busiest=seen.busiest,
        frequency_drop_percent=None if drop is None else 100 * drop,
        temperature_rise_c=seen.temperature_rise_c,
        throttle_events=seen.throttle_events,
        stolen_limit_percent=100 * STOLEN_SHARE,
        other_cpus_limit=OTHER_CPUS,
        frequency_drop_limit_percent=100 * FREQUENCY_DROP,
        temperature_rise_limit_c=TEMPERATURE_RISE_C,
        stopped_s=seen.stopped_s,
        stopped_limit_s=STOPPED_S,
    )
    return [case.finding()] if case.reasons() else []


class HostWatch:
    """Compare readings of the host from before and after a short measurement on a real drive."""

    def __init__(self, read: Callable[[], Activity] = activity) -> None:
        self._read = read
        self._before = read()

    def findings(self) -> list[Finding]:
        """Read the host again; return a finding if other work disturbed the measurement."""
        return disturbed(activity_between(self._before, self._read()))


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
    """Hold one reading of the host; the interval from the reading before it lies in one phase."""

    t_s: float  # on the target's clock
    host: Activity
    phase: str  # phase of the interval that this reading ends
    foreign_ios: int = 0  # I/Os sent to the drive by other programs


class HostSeries:
    """Read the host every 10 s and when a phase begins; do nothing for a simulated drive."""

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
        self._looked_s: float | None = None
        self._stopped_s = 0.0  # longest pause between two measured seconds
        self._readings: list[_Reading] = []
        if not simulated:
            self._add(0.0)

    def look(self, t_s: float, phase: str, foreign_ios: int = 0) -> None:
        """Handle one second of a phase: read the host when a phase begins and then every 10 s."""
        if not self._readings:
            return
        self._foreign_ios += foreign_ios
        now_s = self._wall()
        if self._looked_s is not None and phase == MEASURED:
            self._stopped_s = max(self._stopped_s, now_s - self._looked_s)
        self._looked_s = now_s
        changed = self._phase not in ("", phase)
        if changed or now_s >= self._next_s:
            self._phase = self._phase or phase
            self._add(t_s)
        self._phase = phase

    def end(self, t_s: float) -> None:
        """Read the host once more, after the last request of the unit."""
        if self._readings:
            self._add(t_s)

    def mark(self, t_s: float, phase: str) -> None:
        """Read the host now; the interval since the last reading belongs to `phase`."""
        if self._readings:
            self._phase = phase
            self._add(t_s)

    def findings(self) -> list[Finding]:
        """Return one finding with each value that exceeded its limit during the measured phase."""
        counted = self._counted()
        if len(counted) < 2:
            return []
        first = counted[0].host
        seen = activity_between(first, counted[-1].host)
        all_seen = [activity_between(first, later.host) for later in counted[1:]]
        worst = replace(
            seen,
            frequency_drop=_most(one.frequency_drop for one in all_seen),
            temperature_rise_c=_most(one.temperature_rise_c for one in all_seen),
            stopped_s=self._stopped_s,
        )
        return disturbed(worst)

    def during(self) -> HostDuring | None:
        """Summarize the host in the measured phase; None if nothing was read."""
        counted = self._counted()
        if len(counted) < 2:
            return None
        parts = [activity_between(a.host, b.host) for a, b in pairwise(counted)]
        whole = activity_between(counted[0].host, counted[-1].host)
        clocks = [r.host.frequency_khz / 1000 for r in counted if r.host.frequency_khz is not None]
        return HostDuring(
            frequency_mhz_least=min(clocks, default=None),
            frequency_mhz_most=max(clocks, default=None),
            temperature_c_most=_most(r.host.temperature_c for r in counted),
            stolen_percent_most=100 * max(part.stolen_share for part in parts),
            other_cpus_most=max(part.other_cpus for part in parts),
            switches_per_s=whole.switches_per_s,
            interrupts_per_s=_per_cpu(counted[0].host, counted[-1].host, whole.seconds),
            watts=package_watts([reading.host for reading in counted]),
            foreign_ios=sum(reading.foreign_ios for reading in counted[1:]),
        )

    def write(self, path: Path) -> None:
        """Store one CSV line per interval between readings; no file for a simulated drive."""
        if len(self._readings) < 2:
            return
        cpus = len(self._readings[0].host.interrupts_per_cpu)
        header = (*_COLUMNS, *(f"interrupts_per_s_cpu{n}" for n in range(cpus)))
        rows = (
            _csv_line(before, after, counts_foreign=self._counts_foreign)
            for before, after in pairwise(self._readings)
        )
        lines = [",".join(header), *rows]
        write_atomic(path, "\n".join(lines) + "\n")

    def _counted(self) -> Sequence[_Reading]:
        """Return the reading at the start of the measured phase, and all readings of this phase."""
        inside = [n for n, reading in enumerate(self._readings) if reading.phase == MEASURED]
        return self._readings[inside[0] - 1 :] if inside else ()

    def _add(self, t_s: float) -> None:
        self._next_s = self._wall() + EVERY_S
        self._readings.append(_Reading(t_s, self._read(), self._phase, self._foreign_ios))
        self._foreign_ios = 0


def _csv_line(before: _Reading, after: _Reading, *, counts_foreign: bool) -> str:
    seen: ActivityBetween = activity_between(before.host, after.host)
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
    """Return the interrupts per second of each CPU; empty if the number of CPUs changed."""
    if len(before.interrupts_per_cpu) != len(after.interrupts_per_cpu):
        return ()
    both = zip(before.interrupts_per_cpu, after.interrupts_per_cpu, strict=True)
    return tuple((last - first) / seconds for first, last in both)


def _most(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


BETWEEN = "between"
_SHORT_S = 1.0  # shorter pauses between two programs are not recorded


class TrialHost:
    """Record the host while the programs of a trial run; all programs of a stage share one series.

    A thread reads the host every 10 s, because the stage itself only waits for the program to end.
    I/O of other programs on the drive is not counted.
    """

    def __init__(self, path: Path, read: Callable[[], Activity]) -> None:
        self._path = path
        self._began = time.monotonic()
        self._last_s = 0.0
        self._series = HostSeries(simulated=False, read=read, counts_foreign=False)

    @contextmanager
    def start(self) -> Iterator[None]:
        """Record the host while one program runs in a `with` block; then store the series."""
        if time.monotonic() - self._began - self._last_s > _SHORT_S:
            self._mark(BETWEEN)
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        self._mark(MEASURED)
        self._series.write(self._path)

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(EVERY_S):
            self._mark(MEASURED)

    def _mark(self, phase: str) -> None:
        self._last_s = time.monotonic() - self._began
        self._series.mark(self._last_s, phase)
