"""What each stream of a point did: rates and latencies by stream and by group of streams.

The drive's own counters do not tell streams apart, so requests are counted by the generator's
histograms, over the same window.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ssdbench.model.estimate import Estimate
from ssdbench.model.point import StreamResult
from ssdbench.model.workload import Stream, Workload
from ssdbench.stats.estimate import mean_of_repeats, upper_tolerance
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.measured import Measured
from ssdbench.stats.percentiles import latency_estimates

DIRECTIONS = ("read", "write")
DELIVERED = "delivered_percent"


def stream_results(workload: Workload, measured: Sequence[Measured]) -> tuple[StreamResult, ...]:
    """Each stream of the workload, then each group of several, where there is more than one."""
    streams = workload.streams
    if not streams or any(len(m.streams) != len(streams) for m in measured):
        return ()
    found = [
        StreamResult(
            name=stream.name,
            label=stream.label(),
            estimates=(*_estimates([number], measured), *_delivered(stream, number, measured)),
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


def delivered(stream: Stream, number: int, measured: Sequence[Measured]) -> list[float]:
    """The share of its offered rate that a stream got in each repeat; empty without a rate."""
    if not stream.offered_iops:
        return []
    return [_rate([number], m, DIRECTIONS) / stream.offered_iops for m in measured]


def latencies(histograms: Sequence[Histogram], direction: str) -> list[Estimate]:
    """Mean and percentiles of one direction over all repeats; none where it did no I/O."""
    histograms = [histogram for histogram in histograms if histogram.n]
    if not histograms:
        return []
    means = [histogram.mean_ns() for histogram in histograms]
    upper = upper_tolerance(means)
    worst = float(np.max(means))
    mean = mean_of_repeats(means, "lat_mean_ns", "ns").model_copy(
        update={
            "bound": worst if upper is None else max(upper, worst),
            "direction": direction,
        }
    )
    return [mean, *latency_estimates(histograms, direction)]


def _delivered(stream: Stream, number: int, measured: Sequence[Measured]) -> Iterator[Estimate]:
    if shares := delivered(stream, number, measured):
        percent = [100 * share for share in shares]
        yield mean_of_repeats(percent, DELIVERED, "%").model_copy(update={"bound": min(percent)})


def _estimates(numbers: Sequence[int], measured: Sequence[Measured]) -> Iterator[Estimate]:
    """Rates of each direction that did I/O, then its latencies."""
    for direction in DIRECTIONS:
        side = DIRECTIONS.index(direction)
        merged = [Histogram.merged([m.streams[n][side] for n in numbers]) for m in measured]
        if any(histogram.n for histogram in merged):
            rates = [_rate(numbers, m, (direction,)) for m in measured]
            rate = mean_of_repeats(rates, "iops", "1/s")
            # The bound is the point's: it alone is judged over the horizon.
            yield rate.model_copy(update={"direction": direction, "bound": None})
            yield from latencies(merged, direction)


def _rate(numbers: Sequence[int], measured: Measured, directions: Sequence[str]) -> float:
    ios = sum(measured.streams[n][DIRECTIONS.index(d)].n for n in numbers for d in directions)
    return float(ios / measured.duration_s.sum())
