"""What replays of a trace measured, as it is stored."""

from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.estimate import Estimate
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Verdict
from ssdbench.model.trace import TraceSummary
from ssdbench.model.unitrecord import UnitRecord


class ReplayRun(UnitRecord):
    """One replay from the first request to the last."""

    replay: int  # from 1; 0 and below were before the first that counts
    took_s: float  # until the last request ended
    asked_s: float  # until it was due
    ended: bool  # False: it was stopped, as the drive fell too far behind
    iops: float
    bw_bytes_per_s: float
    longest_ns: int  # that a request waited
    logged: int = 0  # requests whose latencies are known, of clients in turn; 0 in older results
    delivered_percent: float  # of the requests, done by when the last was due, and a second
    arrivals_off_percent: float | None = None  # of the trace's length; None in a closed loop
    held_up_percent: float = 0.0  # of the requests, sent late because every client in turn waited
    artifacts: str = ""  # directory below the run directory


class ReplayFound(Model):
    """Latencies of a trace over all replays that count."""

    kind: Literal[StageKind.REPLAY] = StageKind.REPLAY
    name: str = ""
    loop: Literal["open", "closed"] = "open"  # closed: the trace tells no arrivals
    trace: TraceSummary | None = None
    sent: str = ""  # what of it was sent, how fast and where to, in words
    speed: float = 1.0
    clients: int = 0
    dropped: dict[str, int] = {}  # requests of the trace that were not sent, by why
    rounded: int = 0  # requests that were made whole blocks of the drive
    replays: tuple[ReplayRun, ...] = ()
    estimates: tuple[Estimate, ...] = ()  # latencies from when due; of a closed loop, when sent
    verdict: Verdict = "NOT VALIDATED"
