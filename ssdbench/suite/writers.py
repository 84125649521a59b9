"""The points of several writers at once, with and without pauses."""

from itertools import product

from ssdbench.model.finding import Finding
from ssdbench.model.fitting import obstacle
from ssdbench.model.kind import StageKind
from ssdbench.model.profile import Profile, spec
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Point, Workload
from ssdbench.stages.points import Judging, PointStage
from ssdbench.stats.steady.settle import UNBROKEN_S
from ssdbench.suite.points import how, not_applicable, point_range, returns_to, short

US_PER_S = 1_000_000


def processes(
    name: str, wanted: spec.Processes, profile: Profile, target: TargetInfo, level_bytes: int
) -> PointStage:
    """Every number of writers without pauses, some of them with every kind of pause."""
    points: list[Point] = []
    skipped: list[Finding] = []
    block = wanted.block_bytes
    free = [(writers, 0.0, 100.0) for writers in wanted.processes]
    paused = list(product(wanted.delayed_processes, wanted.delays_s, wanted.delayed_percent))
    for writers, delay_s, percent in [*free, *paused]:
        every = max(1, round(100 / percent))
        pause = f"-{delay_s * 1000:g}ms-every-{every}" if delay_s else ""
        point_id = f"{name}-{wanted.pattern}-{short(block)}-x{writers}{pause}"
        if hindrance := obstacle(block, level_bytes // writers, target):
            skipped.append(not_applicable(point_id, hindrance, name))
            continue
        workload = Workload(
            pattern=wanted.pattern.pattern,
            block_bytes=block,
            read_percent=0,
            iodepth=1,
            numjobs=writers,
            range=point_range(level_bytes, block),
            content=profile.content,
            thinktime_us=round(delay_s * US_PER_S),
            thinktime_blocks=every if delay_s else 1,
        )
        points.append(Point(id=point_id, sweep=name, workload=workload))
    return PointStage(
        name=name,
        kind=StageKind.PROCESSES,
        groups=(tuple(points),),
        repeats=wanted.repeats or profile.repeats,
        how=how(profile, wanted),
        judging=Judging(rule=profile.steady.rule.value, unbroken_s=UNBROKEN_S),
        skipped=tuple(skipped),
        returns_to=returns_to(profile, target, level_bytes, points),
    )
