"""The points of sweeps and span sweeps, and what cannot be measured on a target.

The points of several writers at once, with and without pauses.

The points of the user's own fio job files, and of mixes, which are job files in other words.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeVar

from ssdbench.errors import UsageError
from ssdbench.generator.fio.userworkloads import MeasuredJobs
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import NotApplicable
from ssdbench.model.fitting import obstacle
from ssdbench.model.kind import StageKind
from ssdbench.model.profile import Profile, SteadyWorkload, spec
from ssdbench.model.profile.sweeps import ALL_READS
from ssdbench.model.quantity import WHOLE
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, IoEngine, Point, Workload
from ssdbench.stages.extra import Extra
from ssdbench.stages.load import Load
from ssdbench.stages.measuring import Measuring
from ssdbench.stages.points import Judging, PointStage, ascending, by_layout
from ssdbench.stages.rate import Rate
from ssdbench.stages.ratesearch import FIRST_CLIENTS
from ssdbench.stats.steady.settle import UNBROKEN_S
from ssdbench.suite import jobfiles
from ssdbench.units import KIB, format_size

T = TypeVar("T")

UNSETTLED = 3  # extra repeats of a point of which some had not settled
USUAL = 4 * KIB  # bytes of a block, to which other sizes are compared


def sweep(
    name: str, wanted: spec.Sweep, profile: Profile, target: TargetInfo, level_bytes: int
) -> PointStage:
    points, skipped = [], []
    length = min(
        wanted.span.bytes_of(target.size_bytes, align_bytes=target.logical_block_bytes),
        level_bytes,
    )
    # What is measured on a part of the drive is no rate of the whole, which a plan stands on.
    share = None if wanted.span == WHOLE else round(100 * length / target.size_bytes, 2)
    for pattern, block, read, iodepth, numjobs, engine in product(
        wanted.pattern,
        wanted.block_bytes,
        wanted.read_percent,
        wanted.iodepth,
        wanted.numjobs,
        wanted.engine,
    ):
        point_id = f"{pattern}-{short(block)}-r{read}-qd{iodepth}x{numjobs}"
        if engine is not IoEngine.LIBAIO:
            point_id += f"-{engine}"
        hindrance = obstacle(block, length, target)
        if hindrance:
            skipped.append(not_applicable(f"{name}-{point_id}", hindrance, name))
            continue
        workload = Workload(
            pattern=pattern.pattern,
            block_bytes=block,
            read_percent=read,
            iodepth=iodepth,
            numjobs=numjobs,
            range=point_range(length, block),
            content=profile.content,
            engine=engine,
        )
        points.append(
            Point(id=f"{name}-{point_id}", sweep=name, workload=workload, span_percent=share)
        )
    back = returns_to(profile, target, level_bytes, points)
    return PointStage(
        name=name,
        groups=by_layout(points, back),
        repeats=wanted.repeats or profile.repeats,
        how=how(profile, wanted),
        judging=judging(profile, wanted.repeats or profile.repeats, wanted.extra),
        skipped=tuple(skipped),
        extra=extra(wanted.extra),
        returns_to=back,
    )


def returns_to(
    profile: Profile, target: TargetInfo, level_bytes: int, points: Sequence[Point]
) -> Workload | None:
    """The warm-up's workload, where there is a warm-up and some point may change the drive."""
    if not profile.needs_warm_up or not any(point.workload.writes for point in points):
        return None
    return steady_workload(profile, target, level_bytes)


def steady_workload(profile: Profile, target: TargetInfo, level_bytes: int) -> Workload:
    """What is written until the drive is steady: as the profile names it, else as its plan asks.

    A plan whose only writers are the user's jobs is warmed up under the first of those.
    """
    if not names_warm_up(profile) and _heaviest(profile, level_bytes) is None:
        job = jobfiles.warm_up(profile, target, level_bytes)
        if job is not None:
            return job
    return _plain_warm_up(profile, level_bytes)


def _plain_warm_up(profile: Profile, level_bytes: int) -> Workload:
    """Without the user's jobs.

    Without a name it is the heaviest writer of the plan: random writes without reads, of the block
    of the writing points that is nearest to 4 KiB, at their deepest queue, but at least at the
    default depth: nothing ages a drive faster, and no warm-up takes longer for being shallow.
    """
    wanted = profile.steady.workload
    if not names_warm_up(profile):
        wanted = _heaviest(profile, level_bytes) or wanted
    return Workload(
        pattern=wanted.pattern.pattern,
        block_bytes=wanted.block_bytes,
        read_percent=wanted.read_percent,
        iodepth=wanted.iodepth,
        numjobs=wanted.numjobs,
        range=point_range(level_bytes, wanted.block_bytes),
        content=profile.content,
    )


def names_warm_up(profile: Profile) -> bool:
    """Whether the profile says what the warm-up writes."""
    return "workload" in profile.steady.model_fields_set


def _heaviest(profile: Profile, level_bytes: int) -> SteadyWorkload | None:
    """None without a random writer."""
    writers = [
        (block, stage)
        for stage in (measure.stage for measure in profile.measure)
        if isinstance(stage, spec.Sweep | spec.SpanSweep) and _writes_at_random(stage)
        for block in _each(stage.block_bytes)
        if block <= level_bytes
    ]
    if not writers:
        return None
    nearest = min((block for block, _ in writers), key=lambda block: abs(math.log2(block / USUAL)))
    depths = [
        (depth * jobs, depth, jobs)
        for block, stage in writers
        if block == nearest
        for depth, jobs in product(_each(stage.iodepth), _each(stage.numjobs))
    ]
    usual = SteadyWorkload()
    least = usual.iodepth * usual.numjobs, usual.iodepth, usual.numjobs
    _, iodepth, numjobs = max([*depths, least], key=lambda found: found[0])
    return SteadyWorkload(block=nearest, iodepth=iodepth, numjobs=numjobs)


def _writes_at_random(stage: spec.Sweep | spec.SpanSweep) -> bool:
    random = spec.AccessOrder.RANDOM in _each(stage.pattern)
    return random and min(_each(stage.read_percent)) < ALL_READS


def _each(value: T | tuple[T, ...]) -> tuple[T, ...]:
    return value if isinstance(value, tuple) else (value,)


def hottest(profile: Profile, level_bytes: int) -> Workload | None:
    """The writing point of the sweeps that moves most bytes; None if none moves more than the
    warm-up.

    The largest block; of equal ones, the largest share of reads beside its writes.
    """
    warm = _plain_warm_up(profile, level_bytes)
    writers = [
        (block, read, stage)
        for stage in (measure.stage for measure in profile.measure)
        if isinstance(stage, spec.Sweep)
        for block, read in product(stage.block_bytes, stage.read_percent)
        if read < ALL_READS and block <= level_bytes
    ]
    if not writers:
        return None
    block, read, stage = max(writers, key=lambda writer: writer[:2])
    if (block, read) <= (warm.block_bytes, warm.read_percent):
        return None
    return Workload(
        pattern=stage.pattern[0].pattern,
        block_bytes=block,
        read_percent=read,
        iodepth=max(stage.iodepth),
        numjobs=max(stage.numjobs),
        range=point_range(level_bytes, block),
        content=profile.content,
    )


def judging(profile: Profile, repeats: int, extra: spec.ExtraRepeats | None) -> Judging:
    return Judging(
        rule=profile.steady.rule.value,
        planned_repeats=repeats,
        declared_extra=extra is not None and extra.disturbed,
        unbroken_s=UNBROKEN_S,
    )


def extra(wanted: spec.ExtraRepeats | None) -> Extra:
    if wanted is None:
        return Extra(unsettled=UNSETTLED)
    width = wanted.width_percent
    return Extra(wanted.most, None if width is None else width / 100, wanted.disturbed, UNSETTLED)


def span(
    name: str, wanted: spec.SpanSweep, profile: Profile, target: TargetInfo, level_bytes: int
) -> PointStage:
    points, skipped = [], []
    block = wanted.block_bytes
    for extent in wanted.spans:
        length = min(
            extent.bytes_of(target.size_bytes, align_bytes=target.logical_block_bytes), level_bytes
        )
        point_id = f"{name}-{str(extent).replace('%', 'pct')}"
        hindrance = obstacle(block, length, target)
        if hindrance:
            skipped.append(not_applicable(point_id, hindrance, name))
            continue
        workload = Workload(
            pattern=wanted.pattern.pattern,
            block_bytes=block,
            read_percent=wanted.read_percent,
            iodepth=wanted.iodepth,
            numjobs=wanted.numjobs,
            range=point_range(length, block),
            content=profile.content,
        )
        share = 100 * length / target.size_bytes  # not the range, which is rounded to blocks
        points.append(
            Point(id=point_id, sweep=name, workload=workload, span_percent=round(share, 2))
        )
    return PointStage(
        name=name,
        kind=StageKind.SPAN,
        groups=ascending(points),
        repeats=wanted.repeats or profile.repeats,
        how=how(profile, wanted),
        judging=judging(profile, wanted.repeats or profile.repeats, wanted.extra),
        skipped=tuple(skipped),
        extra=extra(wanted.extra),
        returns_to=returns_to(profile, target, level_bytes, points),
    )


def rate(
    name: str, wanted: spec.RateSweep, profile: Profile, target: TargetInfo, level_bytes: int
) -> Rate:
    """The search for a rate. Raises UsageError without a limit, or for what cannot be measured."""
    limit_s = wanted.limit_s
    if limit_s is None and wanted.percentile == "p99":
        limit_s = profile.plan.p99_s
    if limit_s is None:
        raise UsageError(
            f"{name} has no limit of latency to search for",
            hint="Set `rate: {limit: 10ms}`, or `plan: {p99: 10ms}` for all.",
        )
    if hindrance := obstacle(wanted.block_bytes, level_bytes, target):
        raise UsageError(f"{name} cannot be measured: {hindrance}", hint="Set another `block`.")
    return Rate(
        lasts_s=UNBROKEN_S,
        name=name,
        workload=_offered(wanted, profile, level_bytes),
        clients_grow=wanted.clients is None,
        limit_ns=limit_s * 1e9,
        percentile=wanted.percentile,
        start_iops=wanted.start_iops,
        resolution=wanted.resolution_percent / 100,
        repeats=wanted.repeats,
        window_s=wanted.window_s or profile.window_s,
        settle_s=wanted.settle_s,
    )


def load(
    name: str, wanted: spec.Load, profile: Profile, target: TargetInfo, level_bytes: int
) -> Load:
    """The latencies at one load. Raises UsageError for what cannot be measured."""
    if hindrance := obstacle(wanted.block_bytes, level_bytes, target):
        raise UsageError(f"{name} cannot be measured: {hindrance}", hint="Set another `block`.")
    iops = wanted.of_requests_iops(wanted.block_bytes, wanted.read_percent, target.size_bytes)
    return Load(
        name=name,
        workload=_offered(wanted, profile, level_bytes),
        clients_grow=wanted.clients is None,
        limit_ns=math.inf if wanted.limit_s is None else wanted.limit_s * 1e9,
        percentile=wanted.percentile,
        repeats=wanted.repeats,
        window_s=wanted.window_s or profile.window_s,
        settle_s=wanted.settle_s,
        load_iops=iops,
        asked_as=wanted.label() if wanted.drive_writes_per_day else "",
    )


def _offered(wanted: spec.Offered, profile: Profile, level_bytes: int) -> Workload:
    return Workload(
        pattern=wanted.pattern.pattern,
        block_bytes=wanted.block_bytes,
        read_percent=wanted.read_percent,
        iodepth=1,
        numjobs=wanted.clients or FIRST_CLIENTS,
        range=point_range(level_bytes, wanted.block_bytes),
        content=profile.content,
        arrivals=wanted.arrivals,
    )


def how(profile: Profile, wanted: spec.Repeated) -> Measuring:
    settle = wanted.settle or profile.settle
    spare = settle.spare_percent
    return Measuring(
        measure_s=wanted.window_s or profile.window_s,
        write_window_s=settle.window_s,
        flat_s=settle.flat_s,
        spare_share=None if spare is None else spare / 100,
        settle_fills=settle.max_fills,
        settle_s=settle.max_time_s,
        unbroken_s=settle.unbroken_s,
    )


def point_range(length_bytes: int, block_bytes: int) -> ActiveRange:
    """From the start of the drive, in whole blocks."""
    return ActiveRange(offset_bytes=0, length_bytes=length_bytes // block_bytes * block_bytes)


def not_applicable(point: str, why: str, stage: str) -> Finding:
    return NotApplicable(point, why).finding(point=point, stage=stage)


def short(size_bytes: int) -> str:
    return format_size(size_bytes).replace(" ", "")


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
