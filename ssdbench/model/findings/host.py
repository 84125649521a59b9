"""What the host did meanwhile: other work, its own limits, changes of itself."""

from dataclasses import dataclass

from ssdbench.model.finding import Code, Severity
from ssdbench.model.findings.kind import FindingKind
from ssdbench.units import counted


@dataclass(frozen=True)
class HostDisturbed(FindingKind):
    """Other work on the host during a measurement, as measured around it, with its limits.

    What the host does not tell is None.
    """

    code = Code.DISTURBED
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = "End other work on this host, or measure on one that does nothing else."

    stolen_percent: float  # of the CPUs' time
    other_cpus: float  # kept busy by other programs, on average
    busiest: str  # of them
    frequency_drop_percent: float | None
    temperature_rise_c: float | None
    throttle_events: int | None
    stolen_limit_percent: float
    other_cpus_limit: float
    frequency_drop_limit_percent: float
    temperature_rise_limit_c: float

    def reasons(self) -> list[str]:
        """What is above its limit, as clauses with both numbers; empty when nothing is."""
        found = []
        if self.stolen_percent > self.stolen_limit_percent:
            found.append(
                f"the hypervisor took {self.stolen_percent:.1f} % of the CPU time "
                f"(limit {self.stolen_limit_percent:g} %)"
            )
        if self.other_cpus > self.other_cpus_limit:
            found.append(
                f"other programs (mostly {self.busiest}) kept {self.other_cpus:.2f} CPUs busy "
                f"(limit {self.other_cpus_limit:g})"
            )
        drop, rise = self.frequency_drop_percent, self.temperature_rise_c
        if drop is not None and drop > self.frequency_drop_limit_percent:
            found.append(
                f"the CPU frequency fell by {drop:.0f} % "
                f"(limit {self.frequency_drop_limit_percent:g} %)"
            )
        if rise is not None and rise > self.temperature_rise_limit_c:
            found.append(
                f"the host became {rise:.0f} °C hotter (limit {self.temperature_rise_limit_c:g} °C)"
            )
        if self.throttle_events:
            found.append(
                f"the CPUs were throttled {counted(self.throttle_events, 'time')} (limit 0)"
            )
        return found

    def message(self) -> str:
        return "; ".join(self.reasons())


@dataclass(frozen=True)
class ForeignRequests(FindingKind):
    """Somebody else used the drive while it was measured."""

    code = Code.DISTURBED
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = "Find out what else uses the drive (`ssdbench check`), and measure again."

    foreign_ios: int
    own_ios: int

    def message(self) -> str:
        return (
            f"{counted(self.foreign_ios, 'request')} on the drive did not come from this run, "
            f"which sent {self.own_ios:,}"
        )


@dataclass(frozen=True)
class StartsDisturbed(FindingKind):
    """Some of the measurements of an experiment over the host were disturbed."""

    code = Code.DISTURBED
    severities = (Severity.WARNS,)
    remedy = "The medians may still be comparable; end other work to be sure."

    disturbed: int
    starts: int
    example: str  # what disturbed the first of them

    def message(self) -> str:
        were = "was" if self.disturbed == 1 else "were"
        return (
            f"{self.disturbed} of {counted(self.starts, 'start')} {were} disturbed, for example: "
            f"{self.example}"
        )


@dataclass(frozen=True)
class HostBoundByCpu(FindingKind):
    """The program that makes the load had no CPU time left."""

    code = Code.HOST_BOUND
    severities = (Severity.INVALIDATES,)
    remedy = "Use more jobs, faster cores or a lower queue depth per job."

    cpu_percent: float  # of one core, by the busiest generator thread

    def message(self) -> str:
        return (
            "the host, not the drive, seems to be the limit: a generator thread used "
            f"{self.cpu_percent:.0f} % of a core"
        )


@dataclass(frozen=True)
class HostBoundByCeiling(FindingKind):
    """The rate is near what this host reaches with no drive behind it."""

    code = Code.HOST_BOUND
    severities = (Severity.INVALIDATES,)
    remedy = "Use more jobs, faster cores or a lower queue depth per job."

    iops: float
    ceiling_iops: float  # on a null target, with the same depth and jobs

    def message(self) -> str:
        share = 100 * self.iops / self.ceiling_iops
        return (
            f"the host, not the drive, seems to be the limit: {self.iops:.0f} IOPS is "
            f"{share:.0f} % of what this host reaches without a drive"
        )


@dataclass(frozen=True)
class HostChanged(FindingKind):
    """Facts of the host that are not what they were when the run began."""

    code = Code.HOST_CHANGED
    severities = (Severity.INVALIDATES,)
    remedy = (
        "Find out who changes it (a power daemon, an update, an administrator), and start a new "
        "run: points before and after the change were measured on two different hosts."
    )

    changes: tuple[str, ...]  # "governor: performance, now powersave"

    def message(self) -> str:
        return f"the host is not as it was when the run began: {'; '.join(self.changes)}"


@dataclass(frozen=True)
class SettingsLeft(FindingKind):
    """Host settings of the profile mean nothing to a drive that has no queue in the kernel."""

    code = Code.NOT_APPLICABLE
    severities = (Severity.NOTES,)
    remedy = "Nothing is wrong; they are set when the target is a drive."

    settings: tuple[str, ...]  # "scheduler none"

    def message(self) -> str:
        left = ", ".join(self.settings)
        return f"a simulated drive keeps its own time; the host stays as it is, without {left}"
