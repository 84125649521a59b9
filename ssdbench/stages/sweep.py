"""A sweep: every point is measured in several passes, each in an order of its own.

Chance decides the order of each pass (the seed and the order are stored), so that a drive that
warms up, wears or recovers over the hours spreads that over all points instead of drawing a
trend into one axis of the figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.model.finding import Finding
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Point
from ssdbench.stages.extra import Extra
from ssdbench.stages.measuring import Measuring, Unit
from ssdbench.stages.points import Judging, measure_all, planned


@dataclass(frozen=True, slots=True)
class Sweep:
    """Points over block size, read share, queue depth, jobs and pattern."""

    name: str
    points: tuple[Point, ...]
    repeats: int = 10
    how: Measuring = Measuring()
    judging: Judging = Judging()
    skipped: tuple[Finding, ...] = ()  # points that this target cannot do
    extra: Extra = Extra()
    kind: str = "sweep"
    title: str = "Measure the points"
    lasting: Lasting = Lasting.RESULTS
    destructive: bool = field(init=False)

    def __post_init__(self) -> None:
        writes = any(point.workload.writes for point in self.points)
        object.__setattr__(self, "destructive", writes)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Every repeat of every point, with the least and the most that settling may take."""
        return planned(self, self.points, self.repeats, self.how, target, hint, self.extra)

    def run(self, context: Context) -> StageResult:
        """Measure what is not measured yet, then judge every point over all its repeats."""
        return measure_all(
            context,
            self,
            [units(self.name, self.points, self.repeats, seed=context.seed)],
            self.how,
            self.judging,
            self.skipped,
            self.extra,
            self.points,
        )


def passes(
    name: str, points: Sequence[Point], repeats: int, *, seed: int
) -> list[tuple[Point, ...]]:
    """The order of each pass over all points."""
    orders = []
    for number in range(1, repeats + 1):
        order = list(points)
        Random(derived(seed, name, "order", number)).shuffle(order)
        orders.append(tuple(order))
    return orders


def units(name: str, points: Sequence[Point], repeats: int, *, seed: int) -> list[Unit]:
    """All repeats in the order in which they are measured."""
    return [
        Unit(
            point=point,
            repeat=repeat,
            pass_order=position,
            sequence=(repeat - 1) * len(points) + position,
            seed=derived(seed, name, point.id, repeat),
        )
        for repeat, order in enumerate(passes(name, points, repeats, seed=seed), start=1)
        for position, point in enumerate(order)
    ]
