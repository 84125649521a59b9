"""What keeps the latencies of a replay from being those of the trace."""

from dataclasses import dataclass

from ssdbench.model.finding import Code, Severity
from ssdbench.model.findings.kind import FindingKind
from ssdbench.units import counted, format_ns


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class ReplayFellBehind(FindingKind):
    """The drive did not keep up with the trace."""

    code = Code.UNDELIVERED
    severities = (Severity.INVALIDATES,)
    remedy = "Lower `speed`: what waits behind a backlog depends on how long the trace is."

    replay: int
    delivered_percent: float

    def message(self) -> str:
        return (
            f"in replay {self.replay} only {self.delivered_percent:.1f} % of the requests were "
            "done by the end of the trace: the drive does not keep up with it"
        )


@dataclass(frozen=True)
class ArrivalsOff(FindingKind):
    """Requests were not sent at the times of the trace, though somebody was free to send them."""

    code = Code.HOST_BOUND
    severities = (Severity.INVALIDATES,)
    remedy = "Use a quieter host, or a longer trace: fio waits in whole milliseconds."

    off_ns: float
    off_percent: float
    most_percent: float

    def message(self) -> str:
        return (
            f"requests were sent up to {format_ns(self.off_ns)} beside their time in the trace, "
            f"{self.off_percent:.2g} % of its length; at most {self.most_percent:g} % is allowed"
        )


@dataclass(frozen=True)
class TooFewReplays(FindingKind):
    """Fewer replays than a verdict needs."""

    code = Code.TOO_FEW_REPEATS
    severities = (Severity.INVALIDATES,)
    remedy = "Ask for at least five `repeats`."

    replays: int
    least: int

    def message(self) -> str:
        return f"only {counted(self.replays, 'replay')} counted; at least {self.least} are needed"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class TrimsNotSent(FindingKind):
    """Trims of the trace were left out."""

    code = Code.NOT_APPLICABLE
    severities = (Severity.NOTES,)
    remedy = "The drive is measured full; with trims it would be faster."

    trims: int

    def message(self) -> str:
        return f"{self.trims:,} trims of the trace were not sent: the drive stays full"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
