"""Define findings about offered rates and replays: hidden waits, and limits that no rate kept."""

from ssdbench.model.finding import Code, FindingKind, NoteKind, Severity, WarningKind
from ssdbench.units import counted, format_count, format_duration, format_figure, format_ns, listed


class WaitedUnseen(WarningKind):
    """Requests at a fixed rate were sent late; their wait was added to fio's latencies."""

    code = Code.COORDINATED_OMISSION
    remedy = (
        "The percentiles include that wait; the plots over time do not. To find a rate that "
        "keeps a limit of latency, use `- rate:`: it counts each request from when it was due."
    )

    stream: str
    requests: int
    rate_iops: float
    p99_ns: float
    p99_corrected_ns: float

    def message(self) -> str:
        return (
            f"about {self.requests:,} requests of {self.stream} that were due at "
            f"{self.rate_iops:g} IOPS were sent late, and fio does not count this wait: "
            f"p99 is {format_ns(self.p99_ns)} from sending to completion, and "
            f"{format_ns(self.p99_corrected_ns)} from the due time to completion"
        )


class LoweredRate(NoteKind):
    """The rate that the searches found did not last, but a lower rate lasted."""

    code = Code.NOT_SUSTAINED
    remedy = "Plan with the lower rate: it kept the limit without a break."

    found_iops: float
    lasted_iops: float

    def message(self) -> str:
        return (
            f"the searches found {format_count(self.found_iops)} IOPS, but this rate did not last; "
            f"{format_count(self.lasted_iops)} IOPS is the highest of the lower rates that did"
        )


class SentLate(NoteKind):
    """Latency from the due times of requests is much longer than from the times of sending."""

    code = Code.COORDINATED_OMISSION
    remedy = (
        "The second number is compared with the limit: a user waits from when a request is due."
    )

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
    """The drive delivered less than the rate of a stream, so the stream's latencies are too low."""

    code = Code.UNDELIVERED
    remedy = "Set a lower rate, keep more requests in flight, or use another drive."

    stream: str
    offered_iops: float
    lowest_share: float  # of the repeats

    def message(self) -> str:
        return (
            f"{self.stream} asks for {format_count(self.offered_iops)} IOPS; in the worst repeat "
            f"the drive delivered only {100 * self.lowest_share:.3g} % of that rate"
        )


class NoPlannedLoad(FindingKind):
    """The load of one drive of the plan is not known, so no latency was measured at this load."""

    code = Code.PLAN
    remedy = "See the findings of the points and searches that the plan uses."

    why: str

    def message(self) -> str:
        return (
            "the plan gives no load for one drive, so no latency is measured at that load: "
            f"{self.why}"
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
    """Requests were due while no client was free, so they were sent to the drive late."""

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
            f" ({self.asked_clients} were asked for)" if self.clients < self.asked_clients else ""
        )
        return (
            f"at {format_count(self.offered_iops)} IOPS, {self.busy_percent:.2g} % of the "
            f"requests came due while all {self.clients} clients{fewer} were busy, so these "
            f"requests waited outside of the drive; at most {self.most_percent:.2g} % is allowed, "
            f"a tenth of the requests that may lie above {self.percentile}"
        )


class OwnClientBusy(FindingKind):
    """A rate failed only because requests waited for their own client; other clients were free."""

    code = Code.COORDINATED_OMISSION
    remedy = "Offer the rate from more clients (`clients`)."

    failed_iops: float
    clients: int
    percentile: str  # p99

    def message(self) -> str:
        return (
            f"{format_count(self.failed_iops)} IOPS failed only because requests waited for their "
            f"own client, which was busy, while others of the {self.clients} clients were free; "
            f"the drive itself kept {self.percentile} within the limit, so it may sustain a higher "
            "rate"
        )


class WaitsRise(FindingKind):
    """Waits at an offered load were still getting longer at the end of the last trial."""

    code = Code.TREND
    remedy = "Set a longer `settle` for the load, or more `repeats`; the drive may heat or fill up."

    offered_iops: float
    hours: float

    def message(self) -> str:
        return (
            f"at {format_count(self.offered_iops)} IOPS, waits were still getting longer after "
            f"{format_figure(self.hours, 2)} h"
        )


class ChangedElsewhere(FindingKind):
    """The drive changed its rate in other stages, which a short measurement may not show."""

    code = Code.CHANGED
    remedy = (
        "Find out what changed the rate of the drive. Then measure this load for at least as long "
        "as such a change takes."
    )

    stages: tuple[str, ...]
    codes: tuple[str, ...]

    def message(self) -> str:
        return (
            f"the drive changed or worked at several rates in {listed(self.stages)} "
            f"({', '.join(self.codes)}); half an hour at one load may be too short to show that"
        )


class WindowTooShort(FindingKind):
    """A window at a rate holds too few requests beyond the percentile."""

    code = Code.FEW_SAMPLES
    remedy = "Set a longer `window`."

    offered_iops: float
    percentile: str  # p99
    beyond: float
    least: int
    needed_h: float

    def message(self) -> str:
        return (
            f"a window at {format_count(self.offered_iops)} IOPS holds {self.beyond:.0f} requests "
            f"above {self.percentile}; {self.least} are needed, so a window must last "
            f"{format_figure(self.needed_h, 2)} h"
        )


class StallsTooFew(FindingKind):
    """A window at a rate holds too few stalls to judge the rate."""

    code = Code.FEW_SAMPLES
    remedy = "Set a longer `window`."

    offered_iops: float
    window_s: float
    cycle_s: float
    least: int
    needed_h: float

    def message(self) -> str:
        return (
            f"at about {format_count(self.offered_iops)} IOPS, waits above the limit occur once in "
            f"{format_duration(self.cycle_s)}, and windows last {format_duration(self.window_s)}; "
            f"for {self.least} such waits, a window must last {format_figure(self.needed_h, 2)} h"
        )


class AboveCompletions(WarningKind):
    """A rate seemed to keep the limit, but the drive cannot complete so many IOPS."""

    code = Code.COORDINATED_OMISSION
    remedy = "A rate that the drive does not complete counts as failed."

    offered_iops: float
    completed_iops: float

    def message(self) -> str:
        return (
            f"{format_count(self.offered_iops)} IOPS seemed to be sustained, but while requests "
            f"were always waiting, the drive completed only {format_count(self.completed_iops)} "
            "IOPS"
        )


class TraceClosedLoop(WarningKind):
    """The trace has no arrival times."""

    code = Code.COORDINATED_OMISSION
    remedy = (
        "For latencies at the trace's own load, make a trace that has the time at which each "
        "request arrived (iolog version 3, blktrace)."
    )

    clients: int

    def message(self) -> str:
        return (
            "the trace does not say when requests arrived: "
            f"{counted(self.clients, 'client')} sent them as a closed loop, in which a request is "
            "sent only after an answer, so latencies do not include waits for a slow drive"
        )


class ReplayFellBehind(FindingKind):
    """The drive did not keep up with the trace."""

    code = Code.UNDELIVERED
    remedy = (
        "Set a lower `speed`. When requests pile up, latencies depend mostly on how long the trace "
        "is."
    )

    replay: int
    delivered_percent: float

    def message(self) -> str:
        return (
            f"in replay {self.replay} only {self.delivered_percent:.1f} % of the requests were "
            "done by the end of the trace: the drive did not keep up with the trace"
        )


class ArrivalsOff(FindingKind):
    """Requests were not sent at the times of the trace, although a client was free."""

    code = Code.HOST_BOUND
    remedy = "Use a quieter host, or a longer trace: fio waits in whole milliseconds."

    off_ns: float
    off_percent: float
    most_percent: float

    def message(self) -> str:
        return (
            f"requests were sent up to {format_ns(self.off_ns)} too early or too late, which is "
            f"{self.off_percent:.2g} % of the length of the trace; at most {self.most_percent:g} % "
            "is allowed"
        )


class TooFewReplays(FindingKind):
    """The run has fewer replays than a verdict needs."""

    code = Code.TOO_FEW_REPEATS
    remedy = "Ask for at least five `repeats`."

    replays: int
    least: int

    def message(self) -> str:
        return f"only {counted(self.replays, 'replay')} counted; at least {self.least} are needed"


class ClientsHeldUp(NoteKind):
    """Many requests waited until the previous request of their client was done."""

    code = Code.COORDINATED_OMISSION
    remedy = "With more `clients`, more requests are in flight. The latencies include these waits."

    clients: int
    held_up_percent: float

    def message(self) -> str:
        return (
            f"{self.held_up_percent:.2g} % of the requests came due while their client (one of "
            f"{self.clients}) still waited for the answer to its previous request"
        )


class TrimsNotSent(NoteKind):
    """The trims of the trace were not sent."""

    code = Code.NOT_APPLICABLE
    remedy = "The drive is measured full; with trims it would be faster."

    trims: int

    def message(self) -> str:
        return f"{self.trims:,} trims of the trace were not sent: the drive stays full"


class TraceLacksEvents(FindingKind):
    """The trace reports that some of its events are missing."""

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
            "was traced): the replay sent less than the real load"
        )


class TraceTimesDoubtful(WarningKind):
    """The times in the trace may differ from the times of the traced requests."""

    code = Code.UNDELIVERED
    remedy = "Check the form of the trace and the unit of its times (`ssdbench trace FILE`)."

    doubt: str

    def message(self) -> str:
        return f"the times of the trace {self.doubt}"


class TraceOfOneCpu(WarningKind):
    """All requests of the trace came from one CPU."""

    code = Code.UNDELIVERED
    remedy = (
        "If other CPUs sent requests too, merge the files of all CPUs (`blkparse -i NAME -d FILE`)."
    )

    cpu: int

    def message(self) -> str:
        return (
            f"all requests of the trace came from CPU {self.cpu}: if other CPUs sent requests too, "
            "the trace holds only a part of the load"
        )
