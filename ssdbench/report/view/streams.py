"""What each stream of a job file or a mix got, beside the point that they make together."""

from collections.abc import Iterator, Sequence

from ssdbench.model.point import Estimate, StreamResult
from ssdbench.model.result import PointResult
from ssdbench.report.metrics import DIRECTIONS, percentile_name, percentiles_of
from ssdbench.report.view import words
from ssdbench.report.view.page import Cell, Column, Prose, Table
from ssdbench.stats.bounds.streams import DELIVERED

SHARES = (99.9, 99.0, 50.0)
PACED = (
    "A job with a rate or pauses sets its own pace: it has latencies and the share of its rate "
    "that it got, and no bound to plan on."
)


def tables(points: Sequence[PointResult]) -> Iterator[Prose | Table]:
    """A table for each point of several streams, or with a rate."""
    if any(point.point.workload.paced for point in points):
        yield Prose(PACED)
    for point in points:
        if point.streams:
            yield Table(
                f"By job: {words.workload_label(point.point.workload)}",
                [
                    Column("Job or group"),
                    Column("I/Os"),
                    Column("Mean [IOPS]", number=True),
                    *(Column(percentile_name(share), number=True) for share in SHARES),
                    Column("Of its rate, at least", number=True),
                ],
                [row for stream in point.streams for row in _rows(stream)],
            )


def _rows(stream: StreamResult) -> Iterator[list[Cell]]:
    share = next((e for e in stream.estimates if e.metric == DELIVERED), None)
    for direction in ("read", "write", "flush", "trim"):
        here = [e for e in stream.estimates if e.direction == direction and e.metric != DELIVERED]
        rate = next((e for e in here if e.metric == "iops"), None)
        slow = percentiles_of(here)
        if not slow:
            continue
        yield [
            Cell(stream.name, hint=stream.label),
            Cell(DIRECTIONS[direction]),
            Cell(words.NONE if rate is None else words.count(rate.value)),
            *(words.latency_cell(slow.get(percent)) for percent in SHARES),
            Cell(_percent(share)),
        ]


def _percent(share: Estimate | None) -> str:
    return words.NONE if share is None or share.bound is None else f"{share.bound:.4g} %"
