"""Latency at an offered rate: what waited unseen, and limits that no rate kept."""

from dataclasses import dataclass

from ssdbench.model.finding import Code, Severity
from ssdbench.model.findings.kind import FindingKind
from ssdbench.units import format_count, format_duration, format_figure, format_ns, listed


@dataclass(frozen=True)
class WaitedUnseen(FindingKind):
    """Requests of a fixed rate that were sent late, whose wait was added to what fio measured."""

    code = Code.COORDINATED_OMISSION
    severities = (Severity.WARNS,)
    remedy = (
        "The percentiles hold that wait; figures over the seconds of a repeat do not. For a limit "
        "of latency, `- rate:` counts each request from when it was due."
    )

    stream: str
    requests: int
    rate_iops: float
    p99_ns: float
    p99_corrected_ns: float

    def message(self) -> str:
        return (
            f"about {self.requests:,} requests of {self.stream} that were due at "
            f"{self.rate_iops:g} IOPS were sent late, which fio does not measure: p99 is "
            f"{format_ns(self.p99_ns)} from when they were sent, "
            f"{format_ns(self.p99_corrected_ns)} from when they were due"
        )


@dataclass(frozen=True)
class SentLate(FindingKind):
    """A latency that is much longer counted from when requests were due than from when sent."""

    code = Code.COORDINATED_OMISSION
    severities = (Severity.NOTES,)
    remedy = "The limit is compared with the second, which is what a user waits."

    offered_iops: float
    percentile: str  # p99
    from_sent_ns: float
    from_due_ns: float

    def message(self) -> str:
        return (
            f"at {format_count(self.offered_iops)} IOPS {self.percentile} is "
            f"{format_ns(self.from_sent_ns)} counted from when requests were sent, "
            f"{format_ns(self.from_due_ns)} from when they were due"
        )


@dataclass(frozen=True)
class Undelivered(FindingKind):
    """A stream with a rate that the drive did not deliver, so that its latencies are too good."""

    code = Code.UNDELIVERED
    severities = (Severity.INVALIDATES,)
    remedy = "A lower rate, more requests in flight, or another drive."

    stream: str
    offered_iops: float
    lowest_share: float  # of the repeats

    def message(self) -> str:
        return (
            f"{self.stream} asks for {format_count(self.offered_iops)} IOPS and got only "
            f"{100 * self.lowest_share:.3g} % of them in its worst repeat"
        )


@dataclass(frozen=True)
class NoRateHeld(FindingKind):
    """No offered rate kept the limit of latency in every search."""

    code = Code.SLO_MISSED
    severities = (Severity.INVALIDATES,)
    remedy = "Allow a longer latency, or use another drive."

    percentile: str  # p99
    limit_ns: float

    def message(self) -> str:
        return (
            f"no offered rate kept {self.percentile} within {format_ns(self.limit_ns)} in every "
            "search"
        )


@dataclass(frozen=True)
class EveryClientBusy(FindingKind):
    """Requests that came due while no client was free: the drive never saw so many at once."""

    code = Code.COORDINATED_OMISSION
    severities = (Severity.INVALIDATES,)
    remedy = "Offer the rate from more clients (`clients`), or set a shorter limit of latency."

    offered_iops: float
    clients: int
    asked_clients: int
    busy_percent: float
    most_percent: float
    percentile: str  # p99

    def message(self) -> str:
        fewer = (
            f" of the {self.asked_clients} asked for" if self.clients < self.asked_clients else ""
        )
        return (
            f"at {format_count(self.offered_iops)} IOPS {self.busy_percent:.2g} % of the "
            f"requests found all {self.clients} clients{fewer} busy, so that they waited outside "
            f"of the drive; {self.most_percent:.2g} %, a tenth of what {self.percentile} leaves "
            "out, is the limit"
        )


@dataclass(frozen=True)
class OwnClientBusy(FindingKind):
    """A rate that failed only because requests waited for their client while others were free."""

    code = Code.COORDINATED_OMISSION
    severities = (Severity.INVALIDATES,)
    remedy = "Offer the rate from more clients (`clients`)."

    failed_iops: float
    clients: int
    percentile: str  # p99

    def message(self) -> str:
        return (
            f"{format_count(self.failed_iops)} IOPS failed only because requests waited for a busy "
            f"one of the {self.clients} clients while others were free; the drive itself kept "
            f"{self.percentile} within the limit, so it may carry more"
        )


@dataclass(frozen=True)
class WaitsRise(FindingKind):
    """Waits at an offered load that still got longer when its last trial ended."""

    code = Code.TREND
    severities = (Severity.INVALIDATES,)
    remedy = "A longer `settle` of the load, or more `repeats`; the drive may get hot or fill up."

    offered_iops: float
    hours: float

    def message(self) -> str:
        return (
            f"at {format_count(self.offered_iops)} IOPS waits still got longer after "
            f"{format_figure(self.hours, 2)} h"
        )


@dataclass(frozen=True)
class ChangedElsewhere(FindingKind):
    """A drive that worked at several rates elsewhere in the run, which a load need not show."""

    code = Code.CHANGED
    severities = (Severity.INVALIDATES,)
    remedy = "Find out what changes the drive; then measure the load for as long as that takes."

    stages: tuple[str, ...]
    codes: tuple[str, ...]

    def message(self) -> str:
        return (
            f"the drive changed or worked at several rates in {listed(self.stages)} "
            f"({', '.join(self.codes)}), and half an hour at one load need not show that"
        )


@dataclass(frozen=True)
class WindowTooShort(FindingKind):
    """A window of a rate that holds too few requests beyond the percentile."""

    code = Code.FEW_SAMPLES
    severities = (Severity.INVALIDATES,)
    remedy = "A longer `window`."

    offered_iops: float
    percentile: str  # p99
    beyond: float
    least: int
    needed_h: float

    def message(self) -> str:
        return (
            f"a window at {format_count(self.offered_iops)} IOPS holds {self.beyond:.0f} requests "
            f"beyond {self.percentile}; {self.least} need {format_figure(self.needed_h, 2)} h"
        )


@dataclass(frozen=True)
class StallsTooFew(FindingKind):
    """A window of a rate that holds too few of the stalls that decide about it."""

    code = Code.FEW_SAMPLES
    severities = (Severity.INVALIDATES,)
    remedy = "A longer `window`."

    offered_iops: float
    window_s: float
    cycle_s: float
    least: int
    needed_h: float

    def message(self) -> str:
        return (
            f"at about {format_count(self.offered_iops)} IOPS waits above the limit come every "
            f"{format_duration(self.cycle_s)}, and a window has {format_duration(self.window_s)}; "
            f"{self.least} of them need {format_figure(self.needed_h, 2)} h"
        )


@dataclass(frozen=True)
class AboveCompletions(FindingKind):
    """Rates that seemed to hold although the drive completed less when it was always busy."""

    code = Code.COORDINATED_OMISSION
    severities = (Severity.WARNS,)
    remedy = "Such rates count as failed."

    offered_iops: float
    completed_iops: float

    def message(self) -> str:
        return (
            f"{format_count(self.offered_iops)} IOPS seemed to hold, but behind a backlog "
            f"the drive completed {format_count(self.completed_iops)} IOPS"
        )
