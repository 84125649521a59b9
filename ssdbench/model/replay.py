"""Define the stored results of replays, and the numbers that describe a trace."""

from datetime import datetime
from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Estimate, UnitRecord, Verdict

UnitSource = Literal["", "given", "published", "date", "assumed"]  # of the unit of a trace's times


class TraceSummary(Model):
    """Store the numbers that describe a trace. A share here is a fraction of 1."""

    form: str  # iolog v3, blktrace …
    timed: bool  # False if the trace has only an order, no arrival times
    requests: int
    reads: int
    writes: int
    trims: int
    flushes: int
    read_bytes: int
    write_bytes: int
    trim_bytes: int
    left_out: dict[str, int] = {}  # lines of the file that are no requests, by kind
    lost: int = 0  # traced events that are missing, as the file reports
    lost_share: float = 0.0  # of all events
    only_cpu: int | None = None  # the CPU that sent all requests, if the file has CPUs
    seconds: float  # from the first arrival to the last
    mean_iops: float | None = None  # None for a trace without arrival times
    busiest_second_iops: float | None = None
    idle_seconds_share: float | None = None  # share of the seconds without a request
    dispersion_1s: float | None = None  # variance over mean of requests per second; Poisson: 1
    gap_variation: float | None = None  # coefficient of variation of the gaps; Poisson: 1
    sizes: dict[int, int] = {}  # requests by size in bytes, the most frequent; 0: all others
    ends_at_bytes: int  # where the last byte that is touched ends
    unaligned_share: float  # of reads and writes, begin or end within 4 KiB
    sequential_share: float  # of reads and writes, begin where one of the 16 before ended
    touched_bytes: int  # distinct blocks of 4 KiB, estimated
    written_bytes_distinct: int  # the same of writes
    reused_share: float  # of accesses to blocks, to one that was accessed before
    hottest_share: dict[int, float] = {}  # of accesses, to the hottest N % of the blocks touched
    median_reuse_s: float | None = None  # between two accesses to the same block
    by_process: dict[str, int] = {}  # requests by process, where that was asked for
    device: str = ""  # whose requests count, in a trace of columns that names devices
    devices: dict[str, int] = {}  # requests by device in such a trace, the most frequent
    time_unit: str = ""  # of the file, in a trace of columns
    time_unit_from: UnitSource = ""
    began: datetime | None = None  # the first request, where the times are dates
    time_unit_doubt: str = ""  # why the unit may be wrong
    time_step_s: float | None = None  # set if most requests have the same time as another

    def about_unit(self) -> list[str]:
        """Return a text on the time unit of a trace in columns, and how this unit was found."""
        if not self.time_unit:
            return []
        sources = {
            "given": "as given",
            "published": "as published",
            "date": "guessed: in this unit the first time is a date",
            "assumed": "assumed: the file does not tell",
        }
        began = (
            f"; the first request is from {self.began:%Y-%m-%d %H:%M:%S} UTC" if self.began else ""
        )
        return [f"in {self.time_unit}, {sources[self.time_unit_from]}{began}"]

    def time_doubts(self) -> list[str]:
        """Return the reasons why a replay may send the requests of this trace at wrong times."""
        doubts = []
        if self.time_unit_doubt:
            doubts.append(f"may have another unit: {self.time_unit_doubt}")
        if self.time_step_s is not None:
            doubts.append(
                f"are whole steps of {self.time_step_s:g} s: a replay sends all requests of a step "
                "at once"
            )
        return doubts


class ReplayRun(UnitRecord):
    """Store one replay of the trace, from the first request to the last."""

    replay: int  # from 1; replays that are not part of the result have 0 or less
    took_s: float  # until the last request ended
    asked_s: float  # until the last request was due
    ended: bool  # False if it was stopped because the drive fell too far behind
    iops: float
    bw_bytes_per_s: float
    longest_ns: int  # longest wait of a request
    logged: int = 0  # requests with a known latency; 0 in older results
    delivered_percent: float  # share of the requests done within 1 s after the last was due
    arrivals_off_percent: float | None = None  # of the trace's length; None in a closed loop
    held_up_percent: float = 0.0  # share of the requests sent late because their client was busy
    artifacts: str = ""  # directory below the run directory


class ReplayFound(Model):
    """Store the latencies of a trace over all replays except the first `passes`."""

    kind: Literal[StageKind.REPLAY] = StageKind.REPLAY
    name: str = ""
    loop: Literal["open", "closed"] = "open"  # closed if the trace has no arrival times
    trace: TraceSummary | None = None
    sent: str = ""  # which requests were sent, how fast and where, in words
    speed: float = 1.0
    clients: int = 0
    dropped: dict[str, int] = {}  # requests of the trace that were not sent, by reason
    rounded: int = 0  # requests that were rounded to whole blocks of the drive
    replays: tuple[ReplayRun, ...] = ()
    estimates: tuple[Estimate, ...] = ()  # latencies from the due time; closed loop: from sending
    verdict: Verdict = "NOT VALIDATED"
