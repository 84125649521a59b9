"""Compute the rate that fio really offers, and when each request is due; no I/O.

fio accepts a rate only as a whole number for each thread and direction. So if the rate is not a
multiple of the number of threads, some threads get one request per second more than others. Poisson
gaps are random whole microseconds around a mean of whole microseconds (`backend.c`: usec_for_io).
So a thread sends faster than its set rate: by 0.3 % at 5,000 requests per second, by 8 % at 60,000.

fio decides in advance when each request of a thread is due. fio sends the request at this time or,
if the thread still waits for the answer of another request, right after the answer. fio's logs do
not have the times when requests were due. fio computes these times with a random number generator
(`lib/rand.c`: L'Ecuyer's taus88; `init.c`: the seeds), which is the same from fio 3.33 to 3.41. So
this module makes the same random numbers as fio, and computes from them when each request was due.
"""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ssdbench.model.workload import Arrivals, Workload

US_PER_S = 1_000_000
WHOLE_PERCENT = 100
POISSON_SEEDS = (15, 17)  # FIO_RAND_POISSON_OFF, FIO_RAND_POISSON2_OFF: reads, writes
_SPREAD = 0x9E370001
_WORD, _LONG = 2**32, 2**64

Whole = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint32]


class Pace(NamedTuple):
    """Hold one thread's whole numbers of requests per second; 0 for an unused direction."""

    reads: int
    writes: int


def most_threads(rate_iops: float, read_percent: int) -> int:
    """Return how many threads can share a rate if each needs at least one request per second."""
    return max(1, min(n for n in _totals(rate_iops, read_percent) if n))


def shares(workload: Workload, scale: float = 1.0) -> list[tuple[int, Pace]]:
    """Split a workload's rate over its threads. Raises ValueError for a workload without a rate."""
    if workload.rate_iops is None:
        raise ValueError("the workload has no rate")
    threads = workload.numjobs
    reads, writes = _totals(workload.rate_iops * scale, workload.read_percent)
    paces = Counter(
        Pace(
            _share(reads, threads, number),
            # Assigned from the last thread on, so that no thread gets the larger number of both
            # directions.
            _share(writes, threads, threads - 1 - number),
        )
        for number in range(threads)
    )
    return [(count, pace) for pace, count in paces.items()]


def _totals(rate_iops: float, read_percent: int) -> tuple[int, int]:
    whole = max(1, round(rate_iops))
    reads = min(max(round(whole * read_percent / 100), read_percent > 0), whole)
    return reads, max(whole - reads, read_percent < WHOLE_PERCENT)


def _share(total: int, threads: int, number: int) -> int:
    return max(1, total // threads + (number < total % threads)) if total else 0


def offered_iops(workload: Workload) -> float:
    """Return the IOPS that all threads together really offer.

    Raises ValueError if the workload has no rate.
    """
    return sum(
        threads * arriving_iops(rate, workload.arrivals)
        for threads, pace in shares(workload)
        for rate in pace
        if rate
    )


def arriving_iops(asked: int, arrivals: Arrivals) -> float:
    """Return how many requests per second one thread really sends at a set whole rate."""
    if arrivals is Arrivals.EVEN:
        return float(asked)
    # The mean of floor(c X), X exponential with mean 1, is 1 / (exp(1 / c) - 1).
    gap_us = max(US_PER_S // asked, 1)
    return US_PER_S * math.expm1(1 / gap_us)


def due_us(asked: Whole, arrivals: Arrivals, seeds: "list[int]", until_us: float) -> list[Whole]:
    """Return when each stream's requests are due, in us, until a little beyond a given time.

    `asked` has the whole rate of each stream, `seeds` the seed of each stream (`poisson_seed`).
    """
    if arrivals is Arrivals.EVEN:
        counts = [math.ceil(until_us * rate / US_PER_S) + 1 for rate in asked.tolist()]
        return [
            np.arange(count, dtype=np.int64) * US_PER_S // rate
            for rate, count in zip(asked.tolist(), counts, strict=True)
        ]
    gaps_us = np.float32(US_PER_S // asked)
    state = _Taus88(seeds)
    due = np.zeros(len(asked), dtype=np.int64)
    rows = [due]
    while len(asked) and due.min() <= until_us:
        unit = (state.next().astype(np.float64) + 1.0) / _WORD
        due = due + (gaps_us * -np.log(unit.astype(np.float32))).astype(np.int64)
        rows.append(due)
    return list(np.array(rows).T)


def poisson_seed(randseed: int, thread: int, direction: int) -> int:
    """Return the seed of a thread's gaps; threads are numbered from 1, direction 0 is reads."""
    place = POISSON_SEEDS[direction]
    spread = randseed % _LONG * pow(_SPREAD, 4 + place, _LONG)
    return (spread * thread + place) % _WORD


class _Taus88:
    """Make fio's 32-bit random numbers, for many streams at once."""

    def __init__(self, seeds: "list[int]") -> None:
        seed = np.array(seeds, dtype=np.uint64)
        # fio's C source says 2^31, where ^ is an exclusive or.
        word, least = np.full(len(seeds), 53, dtype=np.uint64), (1, 7, 15)
        self._states: list[_Words] = []
        for smallest in least:
            word = (word * np.uint64(69069)) % np.uint64(_WORD) ^ seed
            word = np.where(word < smallest, word + np.uint64(smallest), word)
            self._states.append(word.astype(np.uint32))
        for _ in range(6):
            self.next()

    def next(self) -> _Words:
        """Return the next random number for each stream."""
        one, two, three = self._states
        self._states = [
            _turned(one, 13, 19, 4294967294, 12),
            _turned(two, 2, 25, 4294967288, 4),
            _turned(three, 3, 11, 4294967280, 17),
        ]
        return self._states[0] ^ self._states[1] ^ self._states[2]


def _turned(s: _Words, a: int, b: int, c: int, d: int) -> _Words:
    shifted = ((s << np.uint32(a)) ^ s) >> np.uint32(b)
    return ((s & np.uint32(c)) << np.uint32(d)) ^ shifted
