"""Measure reads beside growing write loads; find the largest load at which reads keep a limit.

Each pair of loads is a point: a mix of readers and of writers at a rate. A write load may be a
share of the bytes per second of the warm-up; it becomes a rate when the warm-up has ended.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from ssdbench.engine.stage import Concluded, Context, Ended, Lasting, RateHint, StagePlan
from ssdbench.errors import UsageError
from ssdbench.model.found import Points
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.point import Repeat
from ssdbench.model.profile.streams import WRITERS
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Point, Stream
from ssdbench.stages.points import PointStage
from ssdbench.stats.bounds.interference import curves
from ssdbench.units import KIB, format_count, listed

USUAL_BYTES = 4 * KIB  # of a write of the warm-up, for the plan


@dataclass(frozen=True)
class Interference(PointStage):
    """Measure pairs of a read load and a write load; with `shares`, rates are still percentages."""

    percentile: str = "p99.9"
    limit_ns: float = inf
    shares: bool = False
    # A resumed run warms up again, and shares of another rate are other loads.
    units_last: Lasting = Lasting.RESULTS
    kind: PointsKind = StageKind.INTERFERENCE

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan all repeats, with shares of the slowest and fastest rate that is likely."""
        slow, fast = (
            super(Interference, self.at(iops * USUAL_BYTES)).plan(target, hint)
            for iops in hint.random_write_iops
        )
        return replace(
            fast,
            bytes_written=(slow.bytes_written[0], fast.bytes_written[1]),
            fills=(slow.fills[0], fast.fills[1]),
            notes=(*fast.notes, *self._beyond(hint)),
        )

    def _beyond(self, hint: RateHint) -> Iterator[str]:
        """Yield a note for write loads in IOPS above the fastest rate that the drive may have."""
        if self.shares:
            return
        writers = [s for one in self.points for s in one.workload.streams if s.name == WRITERS]
        fast_iops, in_order = hint.random_write_iops[1], hint.sequential_bytes_per_s[1]
        over = {
            offered: reached
            for stream in writers
            if (offered := stream.offered_iops or 0.0)
            > (reached := min(fast_iops, in_order / stream.mean_bytes))
        }
        if over:
            loads = listed([format_count(one) for one in sorted(over)])
            yield (
                f"writes of {loads} IOPS cannot be reached: by rates {hint.source} the drive "
                f"writes at most {format_count(max(over.values()))} IOPS"
            )

    def known(self, context: Context) -> PointStage:
        """Return the stage for the drive's mapping unit and for the rate of the warm-up."""
        found = super().known(context)
        warm = [r.verdict.mean for r in context.results if r.verdict and r.verdict.mean > 0]
        if not self.shares or not isinstance(found, Interference):
            return found
        if not warm:
            raise UsageError(
                f"{self.name} asks for shares of the warm-up's rate, and the warm-up has none",
                hint="Set `writers: {rate_iops: [50, 100, 200]}`.",
            )
        return found.at(warm[-1])

    def at(self, bytes_per_s: float) -> "Interference":
        """Return the stage with rates in place of shares; `bytes_per_s` is the warm-up's rate."""
        if not self.shares:
            return self
        points = tuple(tuple(_at(one, bytes_per_s) for one in group) for group in self.groups)
        return replace(self, groups=points, shares=False)

    def conclude(
        self, context: Context, done: Sequence[Repeat], ended: Ended[Repeat]
    ) -> Concluded[Points]:
        """Return the results of every pair, and the largest write load for each read load."""
        concluded = super().conclude(context, done, ended)
        found = concluded.found
        found = found.model_copy(
            update={"interference": curves(found.points, self.percentile, self.limit_ns)}
        )
        return replace(concluded, found=found)


def _at(point: Point, bytes_per_s: float) -> Point:
    """Return a point in which the writers' share, stored as a rate in percent, becomes a rate."""
    streams = tuple(
        _scaled(one, bytes_per_s / one.mean_bytes / 100) if one.name == WRITERS else one
        for one in point.workload.streams
    )
    workload = point.workload.model_copy(update={"streams": streams})
    return point.model_copy(update={"workload": workload})


def _scaled(stream: Stream, factor: float) -> Stream:
    """Return a stream with `factor` times its rate (fio's rates are in bytes per direction)."""
    options = tuple(
        (name, ",".join(str(max(1, round(int(one) * factor))) for one in value.split(",")))
        if name == "rate"
        else (name, value)
        for name, value in stream.options
    )
    offered = (stream.offered_iops or 0.0) * factor
    return stream.model_copy(update={"options": options, "offered_iops": offered})
