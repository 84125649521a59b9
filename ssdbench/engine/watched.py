"""Host and drive beside one start of the generator: other work, heat, the drive's own counts."""

from functools import partial

from ssdbench.engine.heat import HeatWatch, ThrottleWatch
from ssdbench.engine.hostseries import HostSeries
from ssdbench.engine.stage import Context
from ssdbench.generator.base import Second
from ssdbench.model.finding import Finding
from ssdbench.model.point import HostDuring
from ssdbench.model.rundirectory import HOST_SERIES, TEMPERATURE


class Watched:
    """Looks at both while a unit is measured; only the phase that counts can disturb it."""

    def __init__(self, context: Context) -> None:
        self._directory = context.directory()
        self._host = HostSeries(
            simulated=context.target.simulated, read=context.activity, wall=context.wall
        )
        self._heat = HeatWatch(partial(context.heat, context.target), wall=context.wall)
        self._throttled = ThrottleWatch(context.session.throttle_counters)

    def look(self, second: Second, phase: str) -> None:
        """One second on."""
        self._heat.look(second.t_s, phase)
        self._host.look(second.t_s, phase, second.foreign_ios)

    def end(self, t_s: float) -> None:
        """Once more, after the last request."""
        self._host.end(t_s)
        self._heat.end(t_s)

    def write(self) -> None:
        """Store both series beside the seconds."""
        self._heat.write(self._directory / TEMPERATURE)
        self._host.write(self._directory / HOST_SERIES)

    def findings(self) -> list[Finding]:
        """What disturbed the unit, and whether the drive was too hot."""
        return [*self._host.findings(), *self._heat.findings(), *self._throttled.findings()]

    def host_during(self) -> HostDuring | None:
        """The host in the phase that counts; None for a simulated drive."""
        return self._host.during()
