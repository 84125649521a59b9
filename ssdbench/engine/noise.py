"""Whether other work on the host disturbed a repeat: measured around it, judged by stated limits.

A disturbed repeat is kept and marked, and keeps its point from being validated. A simulated drive
in virtual time waits for us, so nothing on the host disturbs it and nothing is looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ssdbench.host.activity import Activity, activity
from ssdbench.model.finding import Finding
from ssdbench.model.findings.host import HostDisturbed


@dataclass(frozen=True, slots=True)
class Limits:
    """What a repeat may suffer before it counts as disturbed.

    Chosen so that housekeeping of an idle server passes: 1 % of stolen time moves a rate by about
    as much, a quarter of one CPU for others by less than the 4 % that repeats may differ.
    """

    stolen_share: float = 0.01  # of the CPUs' time
    other_cpus: float = 0.25  # CPUs kept busy by others, on average
    frequency_drop: float = 0.05  # between the start and the end
    temperature_rise_c: float = 15.0


@dataclass(frozen=True, slots=True)
class Noise:
    """What happened on the host between two readings."""

    seconds: float
    stolen_share: float
    other_cpus: float
    busiest: str  # of the others
    frequency_drop: float | None
    temperature_rise_c: float | None
    throttle_events: int | None
    switches_per_s: float
    interrupts_per_s: float


def noise(before: Activity, after: Activity) -> Noise:
    """The difference of two readings."""
    seconds = max(after.at_s - before.at_s, 1e-9)
    capacity_s = seconds * max(after.cpus, 1)
    others_s = sum(after.others_s.values()) - sum(before.others_s.values())
    grown = {n: s - before.others_s.get(n, 0.0) for n, s in after.others_s.items()}
    return Noise(
        seconds=seconds,
        stolen_share=max(0.0, after.stolen_s - before.stolen_s) / capacity_s,
        other_cpus=max(0.0, others_s) / seconds,
        busiest=max(grown, key=lambda name: grown[name], default=""),
        frequency_drop=_drop(before.frequency_khz, after.frequency_khz),
        temperature_rise_c=None
        if before.temperature_c is None or after.temperature_c is None
        else after.temperature_c - before.temperature_c,
        throttle_events=None
        if before.throttle_events is None or after.throttle_events is None
        else after.throttle_events - before.throttle_events,
        switches_per_s=(after.context_switches - before.context_switches) / seconds,
        interrupts_per_s=(after.interrupts - before.interrupts) / seconds,
    )


def disturbed(seen: Noise, limits: Limits = Limits()) -> list[Finding]:
    """At most one finding, with everything that was above its limit in it."""
    drop = seen.frequency_drop
    case = HostDisturbed(
        stolen_percent=100 * seen.stolen_share,
        other_cpus=seen.other_cpus,
        busiest=seen.busiest,
        frequency_drop_percent=None if drop is None else 100 * drop,
        temperature_rise_c=seen.temperature_rise_c,
        throttle_events=seen.throttle_events,
        stolen_limit_percent=100 * limits.stolen_share,
        other_cpus_limit=limits.other_cpus,
        frequency_drop_limit_percent=100 * limits.frequency_drop,
        temperature_rise_limit_c=limits.temperature_rise_c,
    )
    return [case.finding()] if case.reasons() else []


class HostWatch:
    """Reads the host before and after something; `simulated` looks at nothing."""

    def __init__(
        self,
        *,
        simulated: bool,
        limits: Limits = Limits(),
        read: Callable[[], Activity] = activity,
    ) -> None:
        self._limits = limits
        self._read = read
        self._before = None if simulated else read()

    def findings(self) -> list[Finding]:
        """At most one finding, with everything that was above its limit in it."""
        if self._before is None:
            return []
        return disturbed(noise(self._before, self._read()), self._limits)


def _drop(before: int | None, after: int | None) -> float | None:
    return None if not before or after is None else 1 - after / before
