"""Watch host and drive during one unit: other work of the host, temperature, throttling, power."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Self

from ssdbench.engine.hostactivity import HostSeries
from ssdbench.engine.power import PowerWatch
from ssdbench.engine.stage import Context
from ssdbench.generator.base import Second
from ssdbench.host.files import write_atomic
from ssdbench.host.sensors import Heat
from ssdbench.model.finding import Finding
from ssdbench.model.findings.drive import ErrorsCounted, ThrottlingCounted, TooHot
from ssdbench.model.findings.host import AnsweredLate
from ssdbench.model.point import SlowDuring
from ssdbench.model.rundirectory import HOST_SERIES, POWER, TEMPERATURE
from ssdbench.sim.ublk import Lateness, at_most_ns, lateness_of
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.tail import slow_requests

EVERY_S = 10.0  # of wall time
LATE_SHARE = 0.05  # of a simulated drive's own latency, by which it may be answered late
OCP = "OCP "  # start of the names of error counters
HEADER = "t_s,temperature_c,warning_c,phase\n"


class HeatWatch:
    """Read the drive's temperature every 10 s; do nothing for a drive without a sensor.

    If reading a sensor delays I/O, it is read only before and after the measurement.
    """

    def __init__(
        self, read: Callable[[], Heat | None], *, wall: Callable[[], float] = time.monotonic
    ) -> None:
        self._read, self._wall = read, wall
        self._rows: list[tuple[float, Heat, str]] = []
        self._next_s = 0.0
        self._ask(0.0, "before")

    def look(self, t_s: float, phase: str) -> None:
        """Read the temperature, at most every 10 s; `t_s` is the time on the target's clock."""
        if self._rows and self._rows[-1][1].gentle and self._wall() >= self._next_s:
            self._ask(t_s, phase)

    def end(self, t_s: float) -> None:
        """Read the temperature once more, after the last request of the unit."""
        if self._rows:
            self._ask(t_s, "measure")

    def write(self, path: Path) -> None:
        """Store all temperatures as CSV; for a drive without a sensor no file is made."""
        if not self._rows:
            return
        lines = [
            f"{t_s:.0f},{heat.temperature_c:g},"
            f"{'' if heat.warning_c is None else f'{heat.warning_c:g}'},{phase}\n"
            for t_s, heat, phase in self._rows
        ]
        write_atomic(path, HEADER + "".join(lines))

    def findings(self) -> list[Finding]:
        """Return a finding if the drive reached its warning temperature during the measurement."""
        counted = [heat for _, heat, phase in self._rows if phase == "measure"]
        hot = [h for h in counted if h.alarm or (h.warning_c and h.temperature_c >= h.warning_c)]
        if not hot:
            return []
        worst = max(hot, key=lambda heat: heat.temperature_c)
        return [TooHot(len(hot), len(counted), worst.temperature_c, worst.warning_c).finding()]

    def _ask(self, t_s: float, phase: str) -> None:
        self._next_s = self._wall() + EVERY_S
        if (heat := self._read()) is not None:
            self._rows.append((t_s, heat, phase))


class ThrottleWatch:
    """Compare the drive's counters of throttling and errors before and after a repeat."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read
        self._before = read()

    def findings(self) -> list[Finding]:
        """Read the counters again after the last request; return a finding if they increased.

        All throttling counters share one finding, and all error counters share another one.
        """
        after = self._read() if self._before else {}
        more = {
            name: after[name] - count
            for name, count in self._before.items()
            if after.get(name, 0) > count
        }
        errors = {name: count for name, count in more.items() if name.startswith(OCP)}
        hot = {name: count for name, count in more.items() if name not in errors}
        found = [ThrottlingCounted(tuple(hot.values()), tuple(hot)).finding()] if hot else []
        if errors:
            found.append(ErrorsCounted(tuple(errors.values()), tuple(errors)).finding())
        return found


class LateWatch:
    """Compare how late the server of a ublk device answered with the latencies of its drive."""

    def __init__(self, read: Callable[[], Lateness | None]) -> None:
        self._read = read
        self._before = read()

    @classmethod
    def of(cls, node: str) -> Self:
        """Watch a block device by its node; one that `sim attach` did not make has no findings."""
        return cls(partial(lateness_of, node))

    def findings(self, *, of_peaks: bool = False) -> list[Finding]:
        """Return a finding if lateness is more than LATE_SHARE of the drive's own latency.

        Both the medians and the 99th percentiles of the unit's requests are compared; with
        `of_peaks`, only the percentiles, for a search for slow requests among usual ones.
        """
        before = self._before
        after = None if before is None else self._read()
        if before is None or after is None or after.answered <= before.answered:
            return []
        more = after.since(before)
        late, own = (
            [at_most_ns(counts, share) for share in (0.5, 0.99)]
            for counts in (more.late, more.latencies)
        )
        compared = slice(1 if of_peaks else 0, None)
        pairs = zip(late[compared], own[compared], strict=True)
        if all(by <= LATE_SHARE * of for by, of in pairs):
            return []
        return [AnsweredLate(more.answered, late[0], late[1], own[0], own[1]).finding()]


class UnitWatch:
    """Watch host and drive during one unit; only its measured phase is checked for disturbances."""

    def __init__(self, context: Context) -> None:
        self._directory = context.directory()
        self.host = HostSeries(
            simulated=context.target.simulated, read=context.activity, wall=context.wall
        )
        self._heat = HeatWatch(partial(context.heat, context.target), wall=context.wall)
        self._throttled = ThrottleWatch(context.session.throttle_counters)
        self._late = LateWatch.of(context.target.node)
        self._monitor = context.session.latency_monitor
        self._slow_before = self._monitor()
        self.power = PowerWatch(context.session.drive_watts, context.power, wall=context.wall)

    def look(self, second: Second, phase: str) -> None:
        """Handle one second of the unit: read the sensors and the host every 10 s."""
        self._heat.look(second.t_s, phase)
        self.host.look(second.t_s, phase, second.foreign_ios)
        self.power.look(phase)

    def end(self, t_s: float) -> None:
        """Read host, temperature and power meter after the unit's last request."""
        self.host.end(t_s)
        self._heat.end(t_s)
        self.power.end()

    def write(self) -> None:
        """Store the series of host, temperature and power in the directory of the unit."""
        self._heat.write(self._directory / TEMPERATURE)
        self.host.write(self._directory / HOST_SERIES)
        self.power.write(self._directory / POWER)

    def findings(self) -> list[Finding]:
        """Return findings about a disturbed host, a hot drive, throttling and errors.

        A power meter that gave no readings for too long, and a simulated drive that answered late,
        also get a finding.
        """
        watches = (self.host, self._heat, self._throttled, self._late, self.power)
        return [finding for watch in watches for finding in watch.findings()]

    def slow_during(self, host: Histogram) -> SlowDuring | None:
        """Count slow requests by the drive's latency monitor; None without a usable monitor.

        `host` has the latencies that the host measured for all requests since this watch began.
        """
        before = self._slow_before
        after = None if before is None else self._monitor()
        if before is None or after is None or (more := after.since(before)) is None:
            return None
        return slow_requests(host, more, after.thresholds_ms)
