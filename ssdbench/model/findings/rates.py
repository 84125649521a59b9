"""Defines findings on offered rates and replays: hidden waits, limits that no rate kept."""

from ssdbench.model.finding import Code, FindingKind, Severity
from ssdbench.units import counted, format_count, format_duration, format_figure, format_ns, listed


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


class Undelivered(FindingKind):
    """A stream with a rate that the drive did not deliver, so that its latencies are too good."""

    code = Code.UNDELIVERED
    remedy = "A lower rate, more requests in flight, or another drive."

    stream: str
    offered_iops: float
    lowest_share: float  # of the repeats

    def message(self) -> str:
        return (
            f"{self.stream} asks for {format_count(self.offered_iops)} IOPS and got only "
            f"{100 * self.lowest_share:.3g} % of them in its worst repeat"
        )


class NoRateHeld(FindingKind):
    """No offered rate kept the limit of latency in every search."""

    code = Code.SLO_MISSED
    remedy = "Allow a longer latency, or use another drive."

    percentile: str  # p99
    limit_ns: float

    def message(self) -> str:
        return (
            f"no offered rate kept {self.percentile} within {format_ns(self.limit_ns)} in every "
            "search"
        )


class EveryClientBusy(FindingKind):
    """Requests that came due while no client was free: the drive never saw so many at once."""

    code = Code.COORDINATED_OMISSION
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


class OwnClientBusy(FindingKind):
    """A rate that failed only because requests waited for their client while others were free."""

    code = Code.COORDINATED_OMISSION
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


class WaitsRise(FindingKind):
    """Waits at an offered load that still got longer when its last trial ended."""

    code = Code.TREND
    remedy = "A longer `settle` of the load, or more `repeats`; the drive may get hot or fill up."

    offered_iops: float
    hours: float

    def message(self) -> str:
        return (
            f"at {format_count(self.offered_iops)} IOPS waits still got longer after "
            f"{format_figure(self.hours, 2)} h"
        )


class ChangedElsewhere(FindingKind):
    """A drive that worked at several rates elsewhere in the run, which a load need not show."""

    code = Code.CHANGED
    remedy = "Find out what changes the drive; then measure the load for as long as that takes."

    stages: tuple[str, ...]
    codes: tuple[str, ...]

    def message(self) -> str:
        return (
            f"the drive changed or worked at several rates in {listed(self.stages)} "
            f"({', '.join(self.codes)}), and half an hour at one load need not show that"
        )


class WindowTooShort(FindingKind):
    """A window of a rate that holds too few requests beyond the percentile."""

    code = Code.FEW_SAMPLES
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


class StallsTooFew(FindingKind):
    """A window of a rate that holds too few of the stalls that decide about it."""

    code = Code.FEW_SAMPLES
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


class TraceClosedLoop(FindingKind):
    """A trace that tells no arrivals."""

    code = Code.COORDINATED_OMISSION
    severities = (Severity.WARNS,)
    remedy = "Trace arrivals (iolog version 3, blktrace) for latencies at the trace's own load."

    clients: int

    def message(self) -> str:
        return (
            f"the trace tells no arrivals: it was sent as a closed loop by {self.clients} in turn, "
            "and its latencies hold no wait for a drive that is late"
        )


class ReplayFellBehind(FindingKind):
    """The drive did not keep up with the trace."""

    code = Code.UNDELIVERED
    remedy = "Lower `speed`: what waits behind a backlog depends on how long the trace is."

    replay: int
    delivered_percent: float

    def message(self) -> str:
        return (
            f"in replay {self.replay} only {self.delivered_percent:.1f} % of the requests were "
            "done by the end of the trace: the drive does not keep up with it"
        )


class ArrivalsOff(FindingKind):
    """Requests were not sent at the times of the trace, though somebody was free to send them."""

    code = Code.HOST_BOUND
    remedy = "Use a quieter host, or a longer trace: fio waits in whole milliseconds."

    off_ns: float
    off_percent: float
    most_percent: float

    def message(self) -> str:
        return (
            f"requests were sent up to {format_ns(self.off_ns)} beside their time in the trace, "
            f"{self.off_percent:.2g} % of its length; at most {self.most_percent:g} % is allowed"
        )


class TooFewReplays(FindingKind):
    """Fewer replays than a verdict needs."""

    code = Code.TOO_FEW_REPEATS
    remedy = "Ask for at least five `repeats`."

    replays: int
    least: int

    def message(self) -> str:
        return f"only {counted(self.replays, 'replay')} counted; at least {self.least} are needed"


class ClientsHeldUp(FindingKind):
    """Many requests had to wait for the one before them of their own client."""

    code = Code.COORDINATED_OMISSION
    severities = (Severity.NOTES,)
    remedy = "More `clients` keep more in flight; these waits are in the latencies all the same."

    clients: int
    held_up_percent: float

    def message(self) -> str:
        return (
            f"{self.held_up_percent:.2g} % of the requests came due while their client, one of "
            f"{self.clients}, still waited for an answer"
        )


class TrimsNotSent(FindingKind):
    """Trims of the trace were left out."""

    code = Code.NOT_APPLICABLE
    severities = (Severity.NOTES,)
    remedy = "The drive is measured full; with trims it would be faster."

    trims: int

    def message(self) -> str:
        return f"{self.trims:,} trims of the trace were not sent: the drive stays full"


class TraceLacksEvents(FindingKind):
    """The trace itself says that events are missing."""

    code = Code.UNDELIVERED
    severities = (Severity.INVALIDATES, Severity.WARNS)
    remedy = "Trace again with larger buffers (`blktrace -b 4096 -n 16`)."

    lost: int
    lost_percent: float

    def severity(self) -> Severity:
        return Severity.INVALIDATES if self.lost_percent >= 1 else Severity.WARNS

    def message(self) -> str:
        return (
            f"{self.lost:,} events of the trace are missing ({self.lost_percent:.2g} % of all that "
            "was traced): what was sent is less than the load"
        )


class TraceOfOneCpu(FindingKind):
    """All requests of the trace came from one CPU."""

    code = Code.UNDELIVERED
    severities = (Severity.WARNS,)
    remedy = (
        "If others sent requests too, merge the files of all CPUs (`blkparse -i NAME -d FILE`)."
    )

    cpu: int

    def message(self) -> str:
        return (
            f"all requests of the trace came from CPU {self.cpu}: where it is the file of one CPU "
            "of several, it is a part of the load"
        )
