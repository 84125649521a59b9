"""How the rate of one workload depends on the share of the drive that it touches.

The spans ascend and the whole drive comes last (Heger 2011): a smaller span that is measured
after a larger one would find the drive's spare area in the larger one's disorder. The rest of
the drive stays full of static data, so a small span has no more spare area than a large one but
for what its own overwrites set free. Each span settles by itself.
"""

from dataclasses import dataclass, field

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
class Span:
    """One workload on growing parts of the drive."""

    name: str
    points: tuple[Point, ...]  # one per span
    repeats: int = 10
    how: Measuring = Measuring()
    judging: Judging = Judging()
    skipped: tuple[Finding, ...] = ()
    extra: Extra = Extra()
    kind: str = "span"
    title: str = "Measure growing spans of the drive"
    lasting: Lasting = Lasting.RESULTS
    destructive: bool = field(init=False)

    def __post_init__(self) -> None:
        writes = any(point.workload.writes for point in self.points)
        object.__setattr__(self, "destructive", writes)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Every repeat of every span."""
        return planned(
            self, ascending(self.points), self.repeats, self.how, target, hint, self.extra
        )

    def run(self, context: Context) -> StageResult:
        """All repeats of the smallest span, then of the next larger one.

        Extra repeats of a span come before the next one: after it they would find another drive.
        """
        groups = [
            [
                Unit(
                    point=point,
                    repeat=repeat,
                    pass_order=position,
                    sequence=position * self.repeats + repeat - 1,
                    seed=derived(context.seed, self.name, point.id, repeat),
                )
                for repeat in range(1, self.repeats + 1)
            ]
            for position, point in enumerate(ascending(self.points))
        ]
        return measure_all(context, self, groups, self.how, self.judging, self.skipped, self.extra)


def ascending(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """The spans from the smallest to the largest."""
    return tuple(sorted(points, key=lambda point: point.workload.range.length_bytes))
