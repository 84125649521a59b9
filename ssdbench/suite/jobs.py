"""The points of the user's own fio job files, and of mixes, which are job files in other words."""

from collections.abc import Iterator

from ssdbench.model import asked
from ssdbench.model.profile import Profile
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Point, Workload
from ssdbench.stages.points import PointStage
from ssdbench.suite.jobphases import phases
from ssdbench.suite.points import extra, how, judging, returns_to


def fio_jobs(
    name: str,
    wanted: asked.FioJobs | asked.Mix,
    profile: Profile,
    target: TargetInfo,
    level_bytes: int,
) -> PointStage:
    """Each phase of a job file, or a mix, as a point.

    Raises UsageError for what is refused, with its line.
    """
    found = phases(wanted, profile, target, level_bytes)
    points = [
        Point(
            id=f"{name}-phase-{number}",
            sweep=name,
            workload=phase.workload,
            span_percent=_share(phase.workload, target, level_bytes),
        )
        for number, phase in enumerate(found.phases, 1)
    ]
    repeats = wanted.repeats or profile.repeats
    return PointStage(
        name=name,
        kind=wanted.kind,
        groups=(tuple(points),),
        repeats=repeats,
        how=how(profile, wanted),
        judging=judging(profile, repeats, wanted.extra),
        extra=extra(wanted.extra),
        returns_to=returns_to(profile, target, level_bytes, points),
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
        if point.workload.paced:
            yield (
                f"{point.workload.title}: the job sets the pace, so it is judged on latency and on "
                "the share of its rate that it gets, and gives no bound to plan on"
            )
