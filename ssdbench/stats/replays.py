"""What the requests of a replay waited: a client's log against when its requests were due.

fio's waits and logs are whole milliseconds, its latencies nanoseconds. A client sends when its
request is due or when the answer before it came: done = max(due, done before) + latency (Lindley
1952). A request that the log shows more than `LATE_NS` later than that was sent late, and counts
from when it was due all the same; less than that is the resolution of the clock.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ssdbench.stats.histogram import Histogram

LATE_NS = 2_000_000
BLOCKS = 10  # of a replay, by when requests are due, for the design effect
FIRST_CLIENTS = 8  # whose logs place the start
NS_PER_MS = 1_000_000
SLACK_NS = 1_000_000_000  # after the last was due: what is done by then was done in time

Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One client: what it was to send, and what its log says, both in its order."""

    due_ns: Whole
    writes: Flags
    done_ms: Whole  # of what it sent; may be fewer
    latency_ns: Whole
    logged_writes: Flags

    @property
    def sound(self) -> bool:
        """Whether the log is one of these requests."""
        sent = len(self.done_ms)
        return sent <= len(self.due_ns) and bool(np.all(self.writes[:sent] == self.logged_writes))

    def start_ns(self) -> int:
        """At most a millisecond before the replay began: nothing is sent before it is due."""
        due_ns = self.due_ns[: len(self.done_ms)] // NS_PER_MS * NS_PER_MS
        return int((self.done_ms * NS_PER_MS - due_ns - self.latency_ns).min())


@dataclass(slots=True)
class Waits:
    """All clients of one replay, added up; memory does not grow with the requests."""

    start_ns: int  # on the clock of the logs
    last_due_ns: int
    end_ns: int  # of the replay, counted from its start
    timed: bool = True
    sent: int = 0
    asked: int = 0
    in_time: int = 0  # done by when the last was due, and a second
    held_up: int = 0  # due while their client still waited
    longest_ns: int = 0
    reads: list[Histogram] = field(default_factory=list)
    writes: list[Histogram] = field(default_factory=list)
    _off: Whole = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        self.reads = [Histogram.empty() for _ in range(BLOCKS)]
        self.writes = [Histogram.empty() for _ in range(BLOCKS)]
        self._off = np.zeros(1 << 16, dtype=np.int64)  # by 0.1 ms that a request was sent beside

    def add(self, client: Client) -> None:
        """The requests of one client."""
        sent = len(client.done_ms)
        due = client.due_ns[:sent]
        latency = client.latency_ns
        logged = client.done_ms * NS_PER_MS - self.start_ns
        none = np.zeros(sent, dtype=np.bool_)
        done, held_up = _done(due, latency, logged) if self.timed else (logged, none)
        waited = done - due if self.timed else latency
        never = np.maximum(self.end_ns - client.due_ns[sent:], 0)
        self.asked += len(client.due_ns)
        self.sent += sent
        self.in_time += int((logged <= self.last_due_ns + SLACK_NS).sum())
        self.held_up += int(held_up.sum())
        every = np.concatenate([waited, never]).astype(np.int64)
        self.longest_ns = max(self.longest_ns, int(every.max(initial=0)))
        block = np.minimum(client.due_ns * BLOCKS // max(1, self.last_due_ns + 1), BLOCKS - 1)
        for number in range(BLOCKS):
            for parts, mine in ((self.reads, ~client.writes), (self.writes, client.writes)):
                chosen = every[mine & (block == number)]
                if len(chosen):
                    parts[number] = Histogram.merged([parts[number], Histogram.of(chosen)])
        if self.timed:
            free = np.abs(logged - latency - due)[~held_up]
            self._off += np.bincount(np.minimum(free // 100_000, len(self._off) - 1),
                                     minlength=len(self._off))  # fmt: skip

    def arrivals_off_ns(self) -> float:
        """How far beside its time a request was sent whose client was free: 99 % were nearer."""
        total = int(self._off.sum())
        if not total:
            return 0.0
        return float(np.searchsorted(np.cumsum(self._off), 0.99 * total) + 1) * 100_000


def _done(due: Whole, latency: Whole, logged: Whole) -> tuple[Whole, Flags]:
    """When each was done, and whether its client still waited when it came due."""
    late = logged - latency - due > LATE_NS
    total = np.cumsum(latency)
    least = np.maximum(due + latency, np.where(late, logged, 0))
    done = total + np.maximum.accumulate(least - total) if len(total) else total
    before = np.concatenate([np.zeros(min(1, len(done)), dtype=np.int64), done[:-1]])
    return done, before > due
