"""Separate slow requests of the drive from slow requests of the host, by two counts of one run.

fio counts each request on the host's side; the drive's latency monitor counts each command inside
the drive, in buckets that begin at four thresholds. A request that was slow in the drive is slow in
both counts, and is a little slower in fio's count. A request that was slow only in the host is
missing in the drive's count.
"""

from collections.abc import Sequence

import numpy as np

from ssdbench.model.point import SlowDuring
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram

STALL = 4.0  # times the median: below it a request is usual, not slow
BORDER = 0.05  # of a threshold: the host counts a command of the drive at most this much later
NS_PER_MS = 1_000_000
_MIDDLES_NS = (LOWER_EDGES_NS[:-1] + LOWER_EDGES_NS[1:]) / 2


def slow_requests(
    host: Histogram, drive: Sequence[int], begins_ms: Sequence[int]
) -> SlowDuring | None:
    """Assign the slow requests in each bucket to drive or host; None without slow requests.

    `host` holds all latencies of one run of fio, `drive` the drive's counts for the same time. In
    each bucket, as many requests are assigned to the drive as the drive counted. The drive may have
    counted a request just below a threshold that the host counted just above it; at the lowest
    threshold this cannot be known, so such requests are left out. Buckets that begin below four
    times the median latency are left out, because their requests are usual.
    """
    if not host.n:
        return None
    usual_ns = STALL * host.percentile_ns(0.5)
    ends_ms = [*begins_ms[1:], np.inf]
    of_drive, of_host = [0] * len(begins_ms), [0] * len(begins_ms)
    spare = 0  # commands that the drive counted in the bucket below, and the host did not
    for n, (begin_ms, end_ms) in enumerate(zip(begins_ms, ends_ms, strict=True)):
        seen = _between(host, begin_ms, end_ms)
        same = min(seen, drive[n])
        near = min(seen - same, _between(host, begin_ms, begin_ms * (1 + BORDER)))
        below = near if n == 0 else min(near, spare)
        spare = drive[n] - same
        if begin_ms * NS_PER_MS >= usual_ns:
            of_drive[n] = same + (0 if n == 0 else below)
            of_host[n] = seen - same - below
    if not sum(of_drive) + sum(of_host):
        return None
    return SlowDuring(begins_ms=tuple(begins_ms), of_drive=tuple(of_drive), of_host=tuple(of_host))


def _between(host: Histogram, from_ms: float, to_ms: float) -> int:
    """Return how many requests are in bins whose middle lies between these latencies."""
    first, end = np.searchsorted(_MIDDLES_NS, np.array([from_ms, to_ms]) * NS_PER_MS)
    return int(host.counts[first:end].sum())
