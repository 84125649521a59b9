"""What each request of an offered rate waited from when it was due: fio's schedule and its log.

A thread with one request in flight sends each when it is due, or when the answer before it came:
so done = max(due, done before) + latency (Lindley 1952), with fio's latencies, which are in
nanoseconds. The log's times are whole milliseconds; they place the thread on the clock of the run,
and a request that completed later than this says was sent late: that wait counts too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ssdbench.errors import HostLacks
from ssdbench.generator.base import Job
from ssdbench.generator.fio.layout import Section
from ssdbench.generator.fio.pace import Whole, due_us, poisson_seed
from ssdbench.stats.openloop import NEVER_NS, Requests

NS_PER_US, NS_PER_MS = 1000, 1_000_000
SLACK_NS = 100 * NS_PER_US  # how much earlier than drawn: rounding of each gap adds up
LATE_SHARE = 0.2  # of the time a client that waits for nothing is late: another schedule


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """What one thread (from 1) did, in its order."""

    thread: int
    t_ms: Whole  # of completion
    latency_ns: Whole
    direction: Whole  # 0 reads, 1 writes


def streams(parts: Sequence[Section]) -> list[tuple[int, int, int]]:
    """Thread (from 1), direction and whole rate of each stream of requests."""
    threads = [part.pace for part in parts for _ in range(part.numjobs) if part.pace]
    return [
        (number, direction, rate)
        for number, pace in enumerate(threads, 1)
        for direction, rate in enumerate(pace.both)
        if rate
    ]


def requests(job: Job, parts: Sequence[Section], logs: Iterable[Logged], origin_ms: float,
             end_s: float) -> Requests:  # fmt: skip
    """All requests of a job that were due until `end_s`, on the clock that begins at `origin_ms`.

    Raises HostLacks if fio sent them at times of another schedule.
    """
    known = streams(parts)
    seeds = [poisson_seed(job.seed + 1, thread, way) for thread, way, _ in known]
    rates = np.array([rate for _, _, rate in known], dtype=np.int64)
    # Threads start after the origin: what is due later than the end on their own clock is too.
    schedule = due_us(rates, job.workload.arrivals, seeds, end_s * 1e6)
    due = {one[:2]: at * NS_PER_US for one, at in zip(known, schedule, strict=True)}
    found = [
        _thread(log, {way: at for (_, way), at in ways}, origin_ms, end_s)
        for log, ways in _together(logs, due)
    ]
    late_ns = sum(int(late.sum()) for _, late in found)
    if late_ns > LATE_SHARE * end_s * 1e9 * len(found):
        raise HostLacks(
            "fio sent requests at other times than those at which they were due",
            hint="this fio draws its arrivals in another way, or the host is far too busy; "
            "use fio 3.33 to 3.41 on an idle host",
        )
    return Requests.merged([one for one, _ in found])


def _together(
    logs: Iterable[Logged], due: dict[tuple[int, int], Whole]
) -> Iterable[tuple[Logged, list[tuple[tuple[int, int], Whole]]]]:
    by_thread = {log.thread: log for log in logs}
    none = np.zeros(0, dtype=np.int64)
    for thread, ways in groupby(sorted(due), key=lambda one: one[0]):
        log = by_thread.get(thread, Logged(thread, none, none, none))
        yield log, [(way, due[way]) for way in ways]


def _thread(
    log: Logged, due: dict[int, Whole], origin_ms: float, end_s: float
) -> tuple[Requests, Whole]:
    """The requests of one thread, and by how much each was sent late without a reason."""
    was_due = np.zeros(len(log.t_ms), dtype=np.int64)
    rest = []
    for way, at in due.items():
        mine = np.flatnonzero(log.direction == way)[: len(at)]
        was_due[mine] = at[: len(mine)]
        rest.append((at[len(mine) :], way))
    start_ms = _start_ms(log, was_due, origin_ms)
    # Max-plus: done is the latest of all (due or seen, + latency), plus the latencies since then.
    total = np.cumsum(log.latency_ns)
    seen = (log.t_ms - start_ms) * NS_PER_MS
    done = total + np.maximum.accumulate(
        np.maximum(was_due + log.latency_ns, seen) - total
    ) if len(total) else total  # fmt: skip
    sent = np.maximum(done - log.latency_ns, was_due)
    before = np.concatenate([np.zeros(min(1, len(done)), dtype=np.int64), done[:-1]])
    late = sent - np.maximum(was_due, before)
    shift = round((start_ms - origin_ms) * NS_PER_MS)
    end_ns = round(end_s * 1e9)
    never = [at[at + shift <= end_ns] + shift for at, _ in rest]
    unsent = sum(map(len, never))
    return Requests.of(
        due_ns=np.concatenate([was_due + shift, *never]),
        sent_ns=np.concatenate([sent + shift, np.full(unsent, NEVER_NS)]),
        done_ns=np.concatenate([done + shift, np.full(unsent, NEVER_NS)]),
        is_write=np.concatenate(
            [log.direction == 1, *(np.full(len(n), way == 1) for n, (_, way) in zip(
                never, rest, strict=True))]
        ),
    ), late  # fmt: skip


def _start_ms(log: Logged, was_due: Whole, origin_ms: float) -> float:
    """When the thread began, in whole milliseconds of the log: no request was sent before due."""
    if not len(log.t_ms):
        return origin_ms
    return int((log.t_ms - (was_due + log.latency_ns - SLACK_NS) // NS_PER_MS).min())
