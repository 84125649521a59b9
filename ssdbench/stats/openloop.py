"""Judge offered rates and replays by latencies counted from the time when a request was due.

A request that was never sent has waited until the end of the window. In a replay, a client sends a
request when it is due and the client's previous request is done, so done = max(due, done before) +
latency (Lindley 1952). fio logs whole milliseconds. If a request is done more than `LATE_NS` later
than this formula says, the request was sent late, and its latency still begins at the time when it
was due.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt

from ssdbench.model.rates import OfferedRate
from ssdbench.model.workload import Direction
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.percentiles import Percentile, percentile
from ssdbench.stats.series import trend
from ssdbench.units import NS_PER_S

GROWTH = 2.0  # factor from one offered rate to the next, until one fails
NEARBY = 1.1  # the same factor, once an earlier search has found about where
MOST_STEPS = 40
NEVER_NS = 2**62  # stands for the time of something that never happened

Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """Hold all requests of one run of fio, on one clock, in the order in which they were due."""

    due_ns: Whole
    sent_ns: Whole  # NEVER_NS for a request that was never sent
    done_ns: Whole
    is_write: Flags

    @classmethod
    def of(cls, due_ns: Whole, sent_ns: Whole, done_ns: Whole, is_write: Flags) -> Self:
        """Sort requests by the times when they were due."""
        order = np.argsort(due_ns, kind="stable")
        return cls(due_ns[order], sent_ns[order], done_ns[order], is_write[order])

    @classmethod
    def merged(cls, parts: Sequence["Requests"]) -> Self:
        """Return the requests of all clients as one list."""
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return cls(none, none, none, none.astype(np.bool_))
        return cls.of(
            np.concatenate([part.due_ns for part in parts]),
            np.concatenate([part.sent_ns for part in parts]),
            np.concatenate([part.done_ns for part in parts]),
            np.concatenate([part.is_write for part in parts]),
        )

    def of_direction(self, *, writes: bool) -> "Requests":
        """Return only the writes if `writes` is true, else only the reads."""
        return self._chosen(self.is_write if writes else ~self.is_write)

    def due_between(self, from_ns: float, to_ns: float) -> "Requests":
        """Return the requests that were due at or after `from_ns` and before `to_ns`."""
        first, last = np.searchsorted(self.due_ns, (from_ns, to_ns))
        return self._chosen(slice(first, last))

    def _chosen(self, mine: Flags | slice) -> "Requests":
        return Requests(
            self.due_ns[mine], self.sent_ns[mine], self.done_ns[mine], self.is_write[mine]
        )

    def waited_ns(self, end_ns: float) -> Whole:
        """Return the time from due to done of each request; unfinished ones wait until `end_ns`."""
        ended = np.where(self.done_ns == NEVER_NS, round(end_ns), self.done_ns)
        return np.asarray(ended - self.due_ns, dtype=np.int64)

    def seen_ns(self) -> Whole:
        """Return the time from sent to done of each sent request, as the load generator sees it."""
        sent = self.sent_ns < NEVER_NS
        return np.asarray(self.done_ns[sent] - self.sent_ns[sent], dtype=np.int64)


def found_all_busy(requests: Requests, clients: int, from_ns: float, to_ns: float) -> float:
    """Return the share of requests that became due while all clients waited for an answer."""
    due = requests.due_between(from_ns, to_ns).due_ns
    if not len(due):
        return 0.0
    # A stable sort is fast here, because the times are nearly in order.
    sent, done = (np.sort(at, kind="stable") for at in (requests.sent_ns, requests.done_ns))
    if not np.any(sent[clients - 1 :] < done[: max(len(done) - clients + 1, 0)]):
        return 0.0  # there were never as many in flight
    on_their_way = np.searchsorted(sent, due, "left") - np.searchsorted(done, due, "right")
    return float(np.mean(on_their_way >= clients))


def stalls(due_ns: Whole, waited_ns: Whole, limit_ns: float) -> int:
    """Count how often waits rose above the limit; each stall ends when the drive has caught up.

    The drive has caught up if a request waited no longer than the median, and no wait above the
    limit occurred for a time as long as the limit.
    """
    above = np.flatnonzero(waited_ns > limit_ns)
    if not len(above):
        return 0
    quick = np.flatnonzero(waited_ns <= np.median(waited_ns))
    caught_up = np.searchsorted(quick, above[:-1]) < np.searchsorted(quick, above[1:])
    apart = np.diff(due_ns[above]) > limit_ns
    return 1 + int(np.sum(caught_up & apart))


@dataclass(slots=True)
class Search:
    """Find the highest rate that keeps the limit: double or halve the rate, then bisect.

    The caller measures the rate from `next_iops` and gives the result to `saw`, until the rate is
    None. A rate above a failed rate is not tried again, and is not the result even if it kept the
    limit by chance before.
    """

    start_iops: float
    least_iops: float  # at lower rates there are too few requests to judge
    resolution: float = 0.05  # the search ends within this share of the rate
    growth: float = GROWTH
    held_iops: float | None = None
    failed_iops: float | None = None
    steps: int = 0

    def next_iops(self) -> float | None:
        """Return the rate to try next; None when the search has ended."""
        if self.steps >= MOST_STEPS:
            return None
        held, failed = self.held_iops, self.failed_iops
        if held is None and failed is None:
            return max(self.start_iops, self.least_iops)
        if failed is None:
            return (held or 0.0) * self.growth
        if held is None:
            return None if failed <= self.least_iops else max(failed / self.growth, self.least_iops)
        return None if failed <= held * (1 + self.resolution) else math.sqrt(held * failed)

    def saw(self, iops: float, *, held: bool) -> None:
        """Record whether a tried rate kept the limit."""
        self.steps += 1
        if held:
            self.held_iops = max(iops, self.held_iops or 0.0)
        else:
            self.failed_iops = min(iops, self.failed_iops or math.inf)
            if self.held_iops is not None and self.held_iops >= self.failed_iops:
                self.held_iops = None


def highest_kept(steps: Sequence[OfferedRate], most_iops: float = math.inf) -> float:
    """Return the highest offered rate of a search that kept the limit; 0 if no rate kept it.

    Rates above a failed rate do not count. A rate above `most_iops` counts as failed: the drive
    does not complete more than `most_iops` even when requests always wait for it.
    """
    kept = 0.0
    for step in sorted(steps, key=lambda step: step.offered_iops):
        if not step.kept or step.offered_iops > most_iops:
            break
        kept = step.offered_iops
    return kept


def confidence_of_lowest(repeats: int) -> float:
    """Return the confidence that the lowest of some results is below the median: 0.97 for five."""
    return 1 - 0.5**repeats


LATE_NS = 2_000_000
BLOCKS = 10  # parts of a replay, by due time, for the design effect
FIRST_CLIENTS = 8  # clients whose logs show when the replay started
NS_PER_MS = 1_000_000
SLACK_NS = 1_000_000_000  # requests done this long after the last was due were done in time


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """Hold the requests of one client and its log entries, both in the order of sending."""

    due_ns: Whole
    writes: Flags
    done_ms: Whole  # of the sent requests only
    latency_ns: Whole
    logged_writes: Flags

    @property
    def sound(self) -> bool:
        """Tell whether the log entries fit the requests of this client."""
        sent = len(self.done_ms)
        return sent <= len(self.due_ns) and bool(np.all(self.writes[:sent] == self.logged_writes))

    def start_ns(self) -> int:
        """Return when the replay began, or up to 1 ms earlier: no request is sent too early."""
        due_ns = self.due_ns[: len(self.done_ms)] // NS_PER_MS * NS_PER_MS
        return int((self.done_ms * NS_PER_MS - due_ns - self.latency_ns).min())


@dataclass(slots=True)
class Waits:
    """Add up the waits of all clients of one replay, in constant memory."""

    start_ns: int  # on the clock of the logs
    last_due_ns: int
    end_ns: int  # of the replay, counted from its start
    timed: bool = True
    sent: int = 0
    asked: int = 0
    in_time: int = 0  # done within a second after the last request was due
    held_up: int = 0  # due while their client was busy
    longest_ns: int = 0
    reads: list[Histogram] = field(default_factory=lambda: [Histogram.empty()] * BLOCKS)
    writes: list[Histogram] = field(default_factory=lambda: [Histogram.empty()] * BLOCKS)
    # Requests by how far off, in 0.1 ms.
    _off: Whole = field(default_factory=lambda: np.zeros(1 << 16, dtype=np.int64))

    def add(self, client: Client) -> None:
        """Add the requests of one client to the sums."""
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
        """Return the 99th percentile of the errors in sending times, for clients that were free."""
        total = int(self._off.sum())
        if not total:
            return 0.0
        return float(np.searchsorted(np.cumsum(self._off), 0.99 * total) + 1) * 100_000


def _done(due: Whole, latency: Whole, logged: Whole) -> tuple[Whole, Flags]:
    """Return when each request was done, and whether its client was busy when it became due."""
    late = logged - latency - due > LATE_NS
    total = np.cumsum(latency)
    least = np.maximum(due + latency, np.where(late, logged, 0))
    done = total + np.maximum.accumulate(least - total) if len(total) else total
    before = np.concatenate([np.zeros(min(1, len(done)), dtype=np.int64), done[:-1]])
    return done, before > due


WINDOW_BLOCKS = 20  # parts of a window, for the design effect and the trend
GREW = "the backlog grew over the window"
ONLY_UPPER = "the upper limit of the percentile is above the limit"
TREND_P = 0.01
TREND_CHANGE = 0.2  # rise of the mean latency over a window that shows a growing queue


@dataclass(frozen=True, slots=True)
class OfferedWindow:
    """Hold the offered rate, the window whose requests are judged, and the limit of latency."""

    offered_iops: float
    clients: int
    from_s: float
    to_s: float
    quantile: float
    limit_ns: float
    direction: Direction | None = None  # read or write, if only its latency is limited

    @property
    def seconds(self) -> float:
        """Return the length of the window in seconds."""
        return self.to_s - self.from_s


def judged(requests: Requests, offer: OfferedWindow) -> OfferedRate:
    """Judge the requests that were due in a window.

    If one direction is limited, only this direction must keep the limit. If no direction is
    limited, reads and writes must both keep the limit, and the slower direction is reported. A
    request that was not done at the end of the window has waited until the end.
    """
    begins, ends = offer.from_s * NS_PER_S, offer.to_s * NS_PER_S
    window = requests.due_between(begins, ends)
    completed = np.sum((requests.done_ns >= begins) & (requests.done_ns < ends))
    limited = window
    if offer.direction is not None:
        limited = window.of_direction(writes=offer.direction == "write")
    achieved = float(completed) / offer.seconds
    directions = [
        part
        for writes in (False, True)
        if len((part := limited.of_direction(writes=writes)).due_ns)
    ]
    waits = [part.waited_ns(ends) for part in directions]
    blocks = [blocked(part, wait, offer) for part, wait in zip(directions, waits, strict=True)]
    known = [found for parts in blocks if (found := percentile(parts, offer.quantile)) is not None]
    if not known or not completed:
        return OfferedRate(
            offered_iops=offer.offered_iops,
            achieved_iops=achieved,
            reason="no request ended",
            clients=offer.clients,
            window_s=offer.seconds,
        )
    worst = max(range(len(known)), key=lambda place: known[place].upper_ns or math.inf)
    merged = Histogram.merged(blocks[worst])
    due_iops = len(window.due_ns) / offer.seconds
    grows = any(_grows(parts) for parts in blocks)
    reason = _behind(offer.offered_iops, due_iops, achieved, offer.limit_ns, offer.seconds)
    reason = reason or _late(known[worst], offer.limit_ns, grows=grows)
    seen = directions[worst].seen_ns()
    return OfferedRate(
        offered_iops=offer.offered_iops,
        achieved_iops=achieved,
        seen_ns=Histogram.of(seen).percentile_ns(offer.quantile) if len(seen) else 0.0,
        value_ns=known[worst].value_ns,
        upper_ns=known[worst].upper_ns,
        p50_ns=merged.percentile_ns(0.5),
        mean_ns=merged.mean_ns(),
        backlog_grows=grows,
        kept=not reason,
        reason=reason,
        clients=offer.clients,
        busy_share=found_all_busy(requests, offer.clients, begins, ends),
        window_s=offer.seconds,
        beyond=min(map(len, waits)) * (1 - offer.quantile),
        stalls=stalls(limited.due_ns, limited.waited_ns(ends), offer.limit_ns),
        due_iops=due_iops,
        block_means_ns=tuple(
            part.mean_ns() for part in map(Histogram.merged, zip(*blocks, strict=True)) if part.n
        ),
    )


def blocked(requests: Requests, waited_ns: Whole, offer: OfferedWindow) -> list[Histogram]:
    """Return the waits of a window as one histogram for each part of its time, by due time."""
    edges = np.linspace(offer.from_s, offer.to_s, WINDOW_BLOCKS + 1)[1:-1] * NS_PER_S
    parts = np.split(waited_ns, np.searchsorted(requests.due_ns, edges))
    return [Histogram.of(part) for part in parts]


def _grows(parts: list[Histogram]) -> bool:
    """Tell whether latencies rise over the window, as they do when a queue grows."""
    drift = trend([part.mean_ns() for part in parts if part.n])
    return drift.p <= TREND_P and drift.change > TREND_CHANGE


def undelivered(step: OfferedRate, limit_ns: float) -> str:
    """Return why a drive did not keep up with an offered rate; "" if it kept up."""
    due_iops = step.due_iops or step.offered_iops
    behind = _behind(step.offered_iops, due_iops, step.achieved_iops, limit_ns, step.window_s)
    return behind or (GREW if step.backlog_grows else "")


def _behind(
    offered_iops: float, due_iops: float, achieved_iops: float, limit_ns: float, seconds: float
) -> str:
    """Say that less than 99 % of the due requests were done; "" if they were, or may have been.

    Requests may be in flight at the end of the window without being above the limit.
    """
    within_s = limit_ns / NS_PER_S if math.isfinite(limit_ns) else 1.0
    if achieved_iops + offered_iops * within_s / seconds >= 0.99 * due_iops:
        return ""
    return f"only {100 * achieved_iops / due_iops:.1f} % of the requests that were due were done"


def _late(found: Percentile, limit_ns: float, *, grows: bool) -> str:
    """Say why latencies do not keep the limit; "" if they do. `grows` is of the backlog."""
    upper_ns = math.inf if found.upper_ns is None else found.upper_ns
    if upper_ns <= limit_ns and not grows:
        return ""
    if math.isinf(upper_ns):
        return "too few independent requests for an upper limit"
    if grows:
        return GREW
    return "the percentile is above the limit" if found.value_ns > limit_ns else ONLY_UPPER
