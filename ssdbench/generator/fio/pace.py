"""What fio makes of an offered rate; pure arithmetic on what its source does.

fio takes whole numbers per thread and direction. Poisson gaps are whole microseconds, drawn
around a whole number of them (`backend.c`: usec_for_io), so a thread runs ahead of the rate that
was asked for: by 0.3 % at 5,000 a second, by 8 % at 60,000. What is really offered is told here.
"""

import math

from ssdbench.model.workload import Arrivals, Workload

US_PER_S = 1_000_000


def whole_rates(thread_iops: float, read_percent: int) -> tuple[int, int]:
    """Reads and writes per second of one thread, at least one of each."""
    reads = round(thread_iops * read_percent / 100)
    return max(reads, 1), max(round(thread_iops) - reads, 1)


def offered_iops(workload: Workload) -> float:
    """The rate that all threads together really offer. Raises ValueError without a rate."""
    if workload.rate_iops is None:
        raise ValueError("a workload without a rate offers none")
    reads, writes = whole_rates(workload.rate_iops / workload.numjobs, workload.read_percent)
    used = [reads] * (workload.read_percent > 0) + [writes] * workload.writes
    return workload.numjobs * sum(_thread_iops(rate, workload.arrivals) for rate in used)


def _thread_iops(asked: int, arrivals: Arrivals) -> float:
    if arrivals is Arrivals.EVEN:
        return float(asked)
    # The mean of floor(c X), X exponential with mean 1, is 1 / (exp(1 / c) - 1).
    gap_us = max(US_PER_S // asked, 1)
    return US_PER_S * math.expm1(1 / gap_us)
