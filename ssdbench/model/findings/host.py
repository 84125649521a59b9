"""Define findings about the host: other work, limits, changes, and the cost of the block layer."""

from ssdbench.model.finding import Code, FindingKind, NoteKind, Severity, WarningKind
from ssdbench.units import counted, format_count, format_ns, format_size


class HostDisturbed(FindingKind):
    """Other work disturbed the host during a measurement. A field is None if not known."""

    code = Code.DISTURBED
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = "End other work on this host, or measure on a host that does nothing else."

    stolen_percent: float  # of the CPUs' time
    other_cpus: float  # CPUs that other programs kept busy, on average
    busiest: str  # the program that used most CPU time
    frequency_drop_percent: float | None
    temperature_rise_c: float | None
    throttle_events: int | None
    stolen_limit_percent: float
    other_cpus_limit: float
    frequency_drop_limit_percent: float
    temperature_rise_limit_c: float
    stopped_s: float = 0.0  # time for which ssdbench itself was stopped or got no CPU
    stopped_limit_s: float = 0.0

    def reasons(self) -> list[str]:
        """Return a clause for each value above its limit, with both numbers."""
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
        if self.stopped_s > self.stopped_limit_s:
            found.append(
                f"ssdbench was stopped or got no CPU for {self.stopped_s:.0f} s "
                f"(limit {self.stopped_limit_s:g} s)"
            )
        return found

    def message(self) -> str:
        return "; ".join(self.reasons())


class ForeignRequests(FindingKind):
    """Another program used the drive while it was measured."""

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


class StartsDisturbed(WarningKind):
    """Some measurements of an experiment about the host were disturbed."""

    code = Code.DISTURBED
    remedy = "The medians may still be comparable; to be sure, end other work and measure again."

    disturbed: int
    starts: int
    example: str  # what disturbed the first of them

    def message(self) -> str:
        were = "was" if self.disturbed == 1 else "were"
        return (
            f"{self.disturbed} of {counted(self.starts, 'measurement')} {were} disturbed, for "
            f"example: {self.example}"
        )


class HostBoundByCpu(FindingKind):
    """The load generator had no CPU time left."""

    code = Code.HOST_BOUND
    remedy = "Use more jobs, faster cores or a lower queue depth per job."

    cpu_percent: float  # of one core, by the busiest generator thread

    def message(self) -> str:
        return (
            "the host, not the drive, seems to be the limit: a generator thread used "
            f"{self.cpu_percent:.0f} % of a core"
        )


class HostBoundByCeiling(FindingKind):
    """The rate is close to the highest rate of this host without a drive."""

    code = Code.HOST_BOUND
    remedy = "Use more jobs, faster cores or a lower queue depth per job."

    iops: float
    ceiling_iops: float  # on a null target, with the same depth and jobs

    def message(self) -> str:
        share = 100 * self.iops / self.ceiling_iops
        return (
            f"the host, not the drive, seems to be the limit: {self.iops:.0f} IOPS is "
            f"{share:.0f} % of the rate of this host without a drive"
        )


class AnsweredLate(FindingKind):
    """The program behind a simulated drive's ublk device answered later than the drive would."""

    code = Code.HOST_BOUND
    remedy = (
        "Leave a CPU to the program `ssdb-ublk`, choose a slower model or fewer requests in "
        "flight, or measure `--target sim:MODEL`, whose time is virtual, so that nothing is late."
    )

    requests: int
    late_median_ns: int  # at most, as all four
    late_p99_ns: int
    drive_median_ns: int
    drive_p99_ns: int

    def message(self) -> str:
        return (
            f"{counted(self.requests, 'request')} were answered later than the simulated drive "
            f"says, by {format_ns(self.late_median_ns)} (median) and {format_ns(self.late_p99_ns)} "
            f"(p99); the drive itself takes {format_ns(self.drive_median_ns)} and "
            f"{format_ns(self.drive_p99_ns)}"
        )


class HostChanged(FindingKind):
    """Facts of the host changed since the run began."""

    code = Code.HOST_CHANGED
    remedy = (
        "Find out what changes it (a power daemon, an update, an administrator), and start a new "
        "run: points before and after the change were measured on two different hosts."
    )

    changes: tuple[str, ...]  # "governor: performance, now powersave"

    def message(self) -> str:
        return f"the host is not as it was when the run began: {'; '.join(self.changes)}"


class SettingsLeft(NoteKind):
    """Host settings of the profile have no effect on a simulated drive."""

    code = Code.NOT_APPLICABLE
    remedy = "Nothing is wrong; ssdbench makes these settings when the target is a real drive."

    settings: tuple[str, ...]  # "scheduler none"

    def message(self) -> str:
        left = ", ".join(self.settings)
        return (
            "these host settings were not made, because they do not matter to a simulated drive, "
            f"which has its own clock: {left}"
        )


class BlockNotSet(NoteKind):
    """The block size was not set in the scheduler, because the found block size is not certain."""

    code = Code.NOT_APPLICABLE
    remedy = (
        "Nothing is wrong; this run was measured like a run without `block: detect`. "
        "`ssdbench compare` of the two runs shows it."
    )

    scheduler: str
    answer: str  # of the search for the block

    def message(self) -> str:
        return (
            f"the scheduler {self.scheduler} was not set, and no setting was changed for it: the "
            f"search for a block says {self.answer!r}"
        )


class BlockLayerCost(NoteKind):
    """A point was measured with and without the block layer, which shows the layer's cost."""

    code = Code.BLOCK_LAYER
    remedy = (
        "Plan on the points whose requests reach the drive in the same way as your application's: "
        "through the block layer, for most applications."
    )

    workload: str
    through: str  # the engine
    through_iops: float  # mean
    past_iops: float
    cost_ns: float  # per request: median of all differences (Hodges-Lehmann)
    cost_low_ns: float | None  # 95 % interval; None with too few repeats
    cost_high_ns: float | None
    p: float
    shown: bool  # p is at most 0.05

    def message(self) -> str:
        rates = (
            f"{self.workload}: {format_count(self.through_iops)} IOPS through the block layer "
            f"({self.through}) and {format_count(self.past_iops)} past it (io_uring_cmd)"
        )
        if not self.shown:
            return (
                f"{rates}; the difference may be chance (p = {self.p:.2g}), so {self._over()} do "
                "not show what the block layer costs"
            )
        longer = "longer" if self.cost_ns >= 0 else "shorter"
        return (
            f"{rates}; the layer makes each request {format_ns(abs(self.cost_ns))} {longer}"
            f"{self._interval()}"
        )

    def _over(self) -> str:
        return "so few repeats" if self.cost_low_ns is None else "these repeats"

    def _interval(self) -> str:
        if self.cost_low_ns is None or self.cost_high_ns is None:
            return ""
        ends = sorted((abs(self.cost_low_ns), abs(self.cost_high_ns)))
        return f" (95 %: {format_ns(ends[0])} to {format_ns(ends[1])})"


class LogDisagrees(WarningKind):
    """The drive's health log and fio disagree about the bytes written past the block layer."""

    code = Code.BLOCK_LAYER
    remedy = (
        "Some drives update the log late. If yours does not, another program writes to the drive, "
        "or writes did not reach it: look at its other namespaces and at the kernel log."
    )

    fio_bytes: int
    log_bytes: int

    def message(self) -> str:
        return (
            f"fio wrote {format_size(self.fio_bytes)} past the block layer, where the kernel "
            f"does not count, but the drive's health log counts {format_size(self.log_bytes)}"
        )
