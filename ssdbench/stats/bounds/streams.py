"""Estimate rates and latencies of each stream of a point, and of each group of streams.

The drive's counters do not separate streams, so requests are counted in the generator's histograms.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ssdbench.model.point import Estimate, StreamResult
from ssdbench.model.workload import Stream, Workload
from ssdbench.stats.bounds.measured import Measured, StreamSeen
from ssdbench.stats.checks import held_back, slowest_of
from ssdbench.stats.estimate import mean_of_repeats, upper_tolerance
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.percentiles import RAREST_WITH_WRITES, latency_estimates

DIRECTIONS = ("read", "write", "trim")
DELIVERED = "delivered_percent"
DELIVERED_SHARE = 0.99  # of an offered rate; what fio's own pacing misses is far less
SIGMAS = 4


def stream_results(workload: Workload, measured: Sequence[Measured]) -> tuple[StreamResult, ...]:
    """Return the results of each stream, then of each group that has several streams."""
    streams = workload.streams
    if not streams or any(len(m.streams) != len(streams) for m in measured):
        return ()
    measured = [
        replace(
            m,
            streams=tuple(map(with_waits, streams, m.streams)),
            streams_whole=tuple(map(with_waits, streams, m.streams_whole or m.streams)),
        )
        for m in measured
    ]
    found = [
        StreamResult(
            name=stream.name,
            label=stream.label(),
            estimates=(
                *_estimates([number], measured),
                *_flushes(stream, number, measured),
                *_delivered(stream, [m.streams[number] for m in measured]),
            ),
        )
        for number, stream in enumerate(streams)
    ]
    groups: dict[int, list[int]] = {}
    for number, stream in enumerate(streams):
        groups.setdefault(stream.group, []).append(number)
    if len(groups) > 1:
        found += [
            StreamResult(
                name=f"group {place}",
                label=" + ".join(streams[number].name for number in numbers),
                estimates=tuple(_estimates(numbers, measured)),
            )
            for place, numbers in enumerate(groups.values(), 1)
            if len(numbers) > 1
        ]
    return tuple(found)


def with_held_back(workload: Workload, measured: Measured) -> Measured:
    """Add to the point's latencies the waits before requests were sent, if a stream has a rate."""
    if not any(stream.offered_iops for stream in workload.streams):
        return measured
    streams = list(map(with_waits, workload.streams, measured.streams))
    whole = list(map(with_waits, workload.streams, measured.streams_whole))
    return replace(
        measured,
        read=Histogram.merged(one.read for one in streams),
        write=Histogram.merged(one.write for one in streams),
        read_parts=(Histogram.merged(one.read for one in whole),) if whole else (),
        write_parts=(Histogram.merged(one.write for one in whole),) if whole else (),
    )


def with_waits(stream: Stream, seen: StreamSeen) -> StreamSeen:
    """Add to the latencies of a stream with a rate the waits of requests before they were sent.

    If a fio thread is on time, it waits for all its requests in flight before it waits for the time
    of the next request, at any queue depth (`rate_ddir` in its io_u.c). So a slow request or flush
    delays all requests that become due while it is in flight.
    """
    if not stream.offered_iops or not seen.requests:
        return seen
    sent = Histogram.merged([seen.read, seen.write, seen.trim])
    slow = Histogram.merged([sent, _in_window(stream, seen)])
    rate_iops = stream.offered_iops / stream.numjobs
    waited = held_back(slow, rate_iops, own_ns=sent.mean_ns())

    def side(histogram: Histogram) -> Histogram:
        return slowest_of(histogram, waited.scaled(histogram.n / sent.n))

    return replace(seen, read=side(seen.read), write=side(seen.write), trim=side(seen.trim))


def _in_window(stream: Stream, seen: StreamSeen) -> Histogram:
    """Return the flushes in the window, estimated from the number of writes in the window."""
    every = sum(int(value) for name, value in stream.options if name in ("fsync", "fdatasync"))
    if not every or not seen.flush.n:
        return Histogram.empty()
    return seen.flush.scaled(min(1.0, seen.write.n / every / seen.flush.n))


def delivered(stream: Stream, seen: Sequence[StreamSeen]) -> list[float]:
    """Return the share of its offered rate that a stream got in each repeat; empty without a rate.

    fio controls bytes per second, so with several sizes the number of requests varies by chance,
    and bytes are compared. With Poisson arrivals fio controls requests per second, so requests are
    compared.
    """
    if not stream.offered_iops:
        return []
    if _by_bytes(stream, seen):
        return [one.moved_bytes_per_s / stream.moved_bytes_per_s for one in seen]
    return [sum(map(one.iops, DIRECTIONS)) / stream.offered_iops for one in seen]


def _by_bytes(stream: Stream, seen: Sequence[StreamSeen]) -> bool:
    several = len({*stream.block_sizes}) > 1 and not stream.poisson
    return several and all(one.moved_bytes_per_s for one in seen)


def lacking(stream: Stream, seen: Sequence[StreamSeen]) -> bool:
    """Tell whether a repeat got less of its offered rate than chance can explain.

    Chance allows one or two requests less at the end; for Poisson arrivals, a multiple of the
    square root of the number of requests; for several sizes, the variation of randomly chosen
    sizes, whose variance is at most (most - mean)(mean - least) by Bhatia and Davis (2000).
    """
    least, mean, most = min(stream.block_sizes), stream.mean_bytes, max(stream.block_sizes)
    drawn = math.sqrt(max(0.0, (most - mean) * (mean - least))) / mean
    spread = 1.0 if stream.poisson else 0.0 if _by_bytes(stream, seen) else drawn
    last = 2.0 if stream.poisson else 2 * most / mean
    shares = delivered(stream, seen)
    counts = [max(1, one.requests) for one in seen]

    def missing(share: float, n: int, repeats: int = 1) -> bool:
        chance = (repeats * last + SIGMAS * spread * math.sqrt(n)) / n
        return share < DELIVERED_SHARE - chance

    if shares and missing(sum(shares) / len(shares), sum(counts), len(counts)):
        return True
    return any(map(missing, shares, counts))


def latencies(
    histograms: Sequence[Histogram],
    direction: str,
    parts: Sequence[Histogram] = (),
    *,
    writes: bool = False,
) -> list[Estimate]:
    """Estimate mean and percentiles of the latency of one direction; empty if it had no I/O.

    The mean latency is taken over the windows of all repeats. Percentiles are taken from `parts`,
    which holds all evidence, if `parts` is given. With `writes`, the rarest percentiles are
    suppressed.
    """
    histograms = [histogram for histogram in histograms if histogram.n]
    if not histograms:
        return []
    parts = [part for part in parts if part.n] or histograms
    means = [histogram.mean_ns() for histogram in histograms]
    upper = upper_tolerance(means)
    worst = float(np.max(means))
    mean = mean_of_repeats(means, "lat_mean_ns", "ns").model_copy(
        update={
            "bound": worst if upper is None else max(upper, worst),
            "direction": direction,
        }
    )
    rarest = RAREST_WITH_WRITES if writes else 1.0
    return [mean, *latency_estimates(parts, direction, lasting=True, rarest=rarest)]


def flush_latencies(flushes: Sequence[Histogram]) -> list[Estimate]:
    """Estimate the latencies of flushes.

    fio logs no time for a flush, so flushes of the settle phase are included.
    """
    return [
        estimate.model_copy(update={"method": f"{estimate.method}; settling included"})
        for estimate in latencies(flushes, "flush")
    ]


def _flushes(stream: Stream, number: int, measured: Sequence[Measured]) -> list[Estimate]:
    """Return the flush latencies of a stream; for older results, of all streams together."""
    if not stream.flushes:
        return []
    own = [m.streams[number].flush for m in measured]
    return flush_latencies(own if any(h.n for h in own) else [m.flush for m in measured])


def _delivered(stream: Stream, seen: Sequence[StreamSeen]) -> Iterator[Estimate]:
    if shares := delivered(stream, seen):
        percent = [100 * share for share in shares]
        yield mean_of_repeats(percent, DELIVERED, "%").model_copy(update={"bound": min(percent)})


def _estimates(numbers: Sequence[int], measured: Sequence[Measured]) -> Iterator[Estimate]:
    """Yield the rate of each direction that had requests, followed by its latencies."""
    for direction in DIRECTIONS:
        merged = [
            Histogram.merged([m.streams[n].histogram(direction) for n in numbers]) for m in measured
        ]
        whole = [
            Histogram.merged([m.streams_whole[n].histogram(direction) for n in numbers])
            for m in measured
        ]
        if any(histogram.n for histogram in merged):
            rates = [sum(m.streams[n].iops(direction) for n in numbers) for m in measured]
            rate = mean_of_repeats(rates, "iops", "1/s")
            # Only the whole point has a bound, because only its rate is judged over the horizon.
            yield rate.model_copy(update={"direction": direction, "bound": None})
            yield from latencies(merged, direction, whole)
