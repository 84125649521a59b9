"""The points of the user's own fio job files, and of mixes, which are job files in other words."""

from collections.abc import Iterator, Sequence

from ssdbench.generator.fio.userworkloads import MeasuredJobs
from ssdbench.model.profile import Profile, spec
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Point, Workload
from ssdbench.stages.points import PointStage
from ssdbench.suite.points import extra, how, judging, returns_to


def together(found: MeasuredJobs) -> tuple[tuple[int, ...], ...]:
    """The numbers of the phases that one stage may measure in passes, which mix their order.

    One that trims leaves a drive with holes: it comes after the others, and alone.
    """
    numbered = list(enumerate((phase.workload for phase in found.phases), 1))
    full = tuple(number for number, workload in numbered if not workload.trims)
    holes = [(number,) for number, workload in numbered if workload.trims]
    return tuple(filter(None, (full, *holes)))


def fio_jobs(
    name: str,
    wanted: spec.FioJobs | spec.Mix,
    found: MeasuredJobs,
    numbers: Sequence[int],
    profile: Profile,
    target: TargetInfo,
    level_bytes: int,
) -> PointStage:
    """Some phases of a job file, or a mix, each as a point."""
    points = [
        Point(
            id=f"{name}-phase-{number}",
            sweep=name,
            workload=phase.workload,
            span_percent=_share(phase.workload, target, level_bytes),
        )
        for number, phase in enumerate(found.phases, 1)
        if number in numbers
    ]
    full = not any(point.workload.trims for point in points)
    repeats = wanted.repeats or profile.repeats
    return PointStage(
        name=name,
        kind=wanted.kind,
        groups=(tuple(points),),
        repeats=repeats,
        how=how(profile, wanted),
        judging=judging(profile, repeats, wanted.extra),
        extra=extra(wanted.extra),
        returns_to=returns_to(profile, target, level_bytes, points) if full else None,
        told=(*_told(points), *found.changes),
    )


def _share(workload: Workload, target: TargetInfo, level_bytes: int) -> float | None:
    """Of the drive, where the jobs do not use all that is filled but for an odd end."""
    unused = level_bytes - workload.range.length_bytes
    if unused < max(workload.block_sizes):
        return None
    return round(100 * workload.range.length_bytes / target.size_bytes, 2)


def _told(points: list[Point]) -> Iterator[str]:
    """What each stream of each point does, in fio's words."""
    for point in points:
        for stream in point.workload.streams:
            options = " ".join(f"{name}={value}" for name, value in stream.options)
            yield f"{point.workload.title} [{stream.name}]: {options}"
        if point.workload.trims:
            yield (
                f"{point.workload.title}: trims are a direction of their own, with rates and "
                "latencies apart, and no I/O to plan on; the drive does not stay full under them"
            )
        if point.workload.paced:
            yield (
                f"{point.workload.title}: the job sets the pace, so it is judged on latency and on "
                "the share of its rate that it gets, and gives no bound to plan on"
            )
