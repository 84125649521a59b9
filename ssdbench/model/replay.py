"""Defines what replays of a trace measured, and what the trace is like in numbers."""

from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Estimate, UnitRecord, Verdict


class TraceSummary(Model):
    """A trace before anything is done with it; shares are of 1."""

    form: str  # iolog v3, blktrace …
    timed: bool  # False: it tells no arrivals, only an order
    requests: int
    reads: int
    writes: int
    trims: int
    flushes: int
    read_bytes: int
    write_bytes: int
    trim_bytes: int
    left_out: dict[str, int] = {}  # what is in the file and is no request, by its kind
    lost: int = 0  # events that were traced and are not in the file, as far as it tells
    lost_share: float = 0.0  # of all events
    only_cpu: int | None = None  # the one that sent all requests, where the file tells CPUs
    seconds: float  # from the first arrival to the last
    mean_iops: float | None = None  # None for a trace that tells no arrivals
    busiest_second_iops: float | None = None
    idle_seconds_share: float | None = None  # of the seconds, those without a request
    dispersion_1s: float | None = None  # variance over mean of requests per second; Poisson: 1
    gap_variation: float | None = None  # coefficient of variation of the gaps; Poisson: 1
    sizes: dict[int, int] = {}  # requests by bytes, the commonest; 0: all others
    ends_at_bytes: int  # where the last byte that is touched ends
    unaligned_share: float  # of reads and writes, begin or end within 4 KiB
    sequential_share: float  # of reads and writes, begin where one of the 16 before ended
    touched_bytes: int  # distinct blocks of 4 KiB, estimated
    written_bytes_distinct: int  # the same of writes
    reused_share: float  # of accesses to blocks, to one that was accessed before
    hottest_share: dict[int, float] = {}  # of accesses, to the hottest N % of the blocks touched
    median_reuse_s: float | None = None  # between two accesses to the same block
    by_process: dict[str, int] = {}  # requests by process, where that was asked for


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
