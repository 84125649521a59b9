"""Make the stages that measure points: sweeps, spans, rates, writers, and users' fio jobs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import product
from typing import TypeVar

from ssdbench.engine.stage import Lasting
from ssdbench.errors import UsageError
from ssdbench.generator.fio.userworkloads import MeasuredJobs
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import NotApplicable
from ssdbench.model.fitting import obstacle
from ssdbench.model.found import DeclaredExtra
from ssdbench.model.kind import StageKind
from ssdbench.model.profile import Profile, SteadyWorkload, spec
from ssdbench.model.profile.plan import search_limits
from ssdbench.model.profile.sweeps import ALL_READS
from ssdbench.model.quantity import WHOLE
from ssdbench.model.workload import IoEngine, Point, Workload
from ssdbench.stages.interference import Interference
from ssdbench.stages.layouts import ascending, by_layout
from ssdbench.stages.load import Load
from ssdbench.stages.measuring import Measuring
from ssdbench.stages.plannedload import PlannedLoad
from ssdbench.stages.points import PointStage
from ssdbench.stages.rate import Rate
from ssdbench.stages.ratesearch import FIRST_CLIENTS
from ssdbench.stats.bounds.measured import Context as Judged
from ssdbench.stats.steady.settle import UNBROKEN_S
from ssdbench.suite import jobfiles
from ssdbench.suite.request import Planning
from ssdbench.units import KIB, NS_PER_S, format_ns, format_size

T = TypeVar("T")

UNSETTLED = 3  # extra repeats of a point if some of its repeats had not settled
USUAL = 4 * KIB  # bytes of a block, to which other sizes are compared
US_PER_S = 1_000_000
LOAD = {"read_percent", "iodepth", "numjobs"}  # fields that profile and workload share


def sweep(name: str, wanted: spec.Sweep, planning: Planning) -> PointStage:
    """Plan a point for each combination of a sweep's lists, and a finding if one is impossible."""
    points, skipped = [], []
    length = planning.length_of(wanted.span)
    # The rate of a part of the drive is not the rate of the whole drive, which a plan needs.
    share = None if wanted.span == WHOLE else _percent(length, planning)
    for pattern, block, read, iodepth, numjobs, engine in product(
        wanted.pattern,
        wanted.block_bytes,
        wanted.read_percent,
        wanted.iodepth,
        wanted.numjobs,
        wanted.engine,
    ):
        point_id = f"{name}-{pattern}-{_short(block)}-r{read}-qd{iodepth}x{numjobs}"
        if engine is not IoEngine.LIBAIO:
            point_id += f"-{engine}"
        if hindrance := obstacle(block, length, planning.target):
            skipped.append(_not_applicable(point_id, hindrance, name))
            continue
        load = {"read_percent": read, "iodepth": iodepth, "numjobs": numjobs, "engine": engine}
        workload = planning.workload(pattern, block, length, **load)
        points.append(Point(id=point_id, sweep=name, workload=workload, span_percent=share))
    back = _returns_to(planning, points)
    groups = by_layout(points, back, counted_unit(planning))
    return _point_stage(name, wanted, planning, groups, back, skipped)


def span(name: str, wanted: spec.SpanSweep, planning: Planning) -> PointStage:
    """Plan one workload on several parts of the drive, from the smallest part to the largest."""
    points, skipped = [], []
    block = wanted.block_bytes
    for extent in wanted.spans:
        length = planning.length_of(extent)
        point_id = f"{name}-{str(extent).replace('%', 'pct')}"
        if hindrance := obstacle(block, length, planning.target):
            skipped.append(_not_applicable(point_id, hindrance, name))
            continue
        workload = planning.workload(
            wanted.pattern, block, length, **wanted.model_dump(include=LOAD)
        )
        share = _percent(length, planning)  # not of the range, which is rounded to blocks
        points.append(Point(id=point_id, sweep=name, workload=workload, span_percent=share))
    back = _returns_to(planning, points)
    return _point_stage(name, wanted, planning, ascending(points), back, skipped)


def processes(name: str, wanted: spec.Processes, planning: Planning) -> PointStage:
    """Plan points with each number of writers, and points whose writers pause between writes."""
    points: list[Point] = []
    skipped: list[Finding] = []
    block = wanted.block_bytes
    free = [(writers, 0.0, 100.0) for writers in wanted.processes]
    paused = list(product(wanted.delayed_processes, wanted.delays_s, wanted.delayed_percent))
    for writers, delay_s, percent in [*free, *paused]:
        every = max(1, round(100 / percent))
        pause = f"-{delay_s * 1000:g}ms-every-{every}" if delay_s else ""
        point_id = f"{name}-{wanted.pattern}-{_short(block)}-x{writers}{pause}"
        if hindrance := obstacle(block, planning.level_bytes // writers, planning.target):
            skipped.append(_not_applicable(point_id, hindrance, name))
            continue
        workload = planning.workload(
            wanted.pattern,
            block,
            read_percent=0,
            iodepth=1,
            numjobs=writers,
            thinktime_us=round(delay_s * US_PER_S),
            thinktime_blocks=every if delay_s else 1,
        )
        points.append(Point(id=point_id, sweep=name, workload=workload))
    back = _returns_to(planning, points)
    return PointStage(
        name=name,
        kind=StageKind.PROCESSES,
        groups=(tuple(points),),
        repeats=wanted.repeats or planning.profile.repeats,
        how=_measuring(planning.profile, wanted),
        judging=Judged(rule=planning.profile.steady.rule.value, unbroken_s=UNBROKEN_S),
        skipped=tuple(skipped),
        returns_to=back,
    )


def phase_groups(found: MeasuredJobs) -> tuple[tuple[int, ...], ...]:
    """Group the numbers of those phases that one stage may measure in shuffled passes.

    A phase that trims leaves a drive with holes, so such a phase comes last, in its own group.
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
    planning: Planning,
) -> PointStage:
    """Plan the phases of a job file or of a mix, each phase as one point."""
    points = [
        Point(
            id=f"{name}-phase-{number}",
            sweep=name,
            workload=phase.workload,
            span_percent=_used_percent(phase.workload, planning),
        )
        for number, phase in enumerate(found.phases, 1)
        if number in numbers
    ]
    full = not any(point.workload.trims for point in points)
    back = _returns_to(planning, points) if full else None
    told = (*_described(points), *found.changes)
    return _point_stage(name, wanted, planning, (tuple(points),), back, told=told)


def interference(name: str, wanted: spec.Interference, planning: Planning) -> Interference:
    """Plan each read load beside each write load, each pair as a mix.

    Raises UsageError for a block that does not fit.
    """
    points = []
    for number, mix in enumerate(wanted.mixes, 1):
        # All pairs have the same options of fio, so fio checks one of them.
        (phase,) = jobfiles.phases(mix, planning, ask_fio=number == 1).phases
        points.append(Point(id=f"{name}-{number}", sweep=name, workload=phase.workload))
    limit = f"{wanted.percentile} of reads within {format_ns(wanted.limit_s * NS_PER_S)}"
    shares = not wanted.writers.rate_iops
    of = " of the bytes per second of the warm-up" if shares else ""
    told = f"the largest write load{of} that keeps {limit} is estimated between these points"
    plain = _point_stage(
        name, wanted, planning, (tuple(points),), _returns_to(planning, points), told=(told,)
    )
    own = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return Interference(
        **own,
        percentile=wanted.percentile,
        limit_ns=wanted.limit_s * NS_PER_S,
        shares=shares,
        units_last=Lasting.CONTENT if shares else Lasting.RESULTS,
    )


def _point_stage(
    name: str,
    wanted: spec.Sweep | spec.SpanSweep | spec.FioJobs | spec.Mix | spec.Interference,
    planning: Planning,
    groups: Iterable[tuple[Point, ...]],
    returns_to: Workload | None,
    skipped: Sequence[Finding] = (),
    told: tuple[str, ...] = (),
) -> PointStage:
    repeats = wanted.repeats or planning.profile.repeats
    extra = wanted.extra
    return PointStage(
        name=name,
        kind=wanted.kind,
        groups=tuple(groups),
        repeats=repeats,
        how=_measuring(planning.profile, wanted),
        judging=Judged(
            rule=planning.profile.steady.rule.value,
            planned_repeats=repeats,
            declared_extra=extra is not None and extra.disturbed,
            unbroken_s=UNBROKEN_S,
        ),
        skipped=tuple(skipped),
        extra=_extra(extra),
        returns_to=returns_to,
        plan_notes=told,
        unit_bytes=counted_unit(planning),
    )


def _extra(wanted: spec.ExtraRepeats | None) -> DeclaredExtra:
    if wanted is None:
        return DeclaredExtra(most_repeats=0, unsettled_repeats=UNSETTLED)
    return DeclaredExtra(
        most_repeats=wanted.most,
        unsettled_repeats=UNSETTLED,
        widest_interval_percent=wanted.width_percent,
        against_disturbance=wanted.disturbed,
    )


def _measuring(profile: Profile, wanted: spec.Repeated) -> Measuring:
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


def _percent(length_bytes: int, planning: Planning) -> float:
    return round(100 * length_bytes / planning.target.size_bytes, 2)


def _not_applicable(point: str, why: str, stage: str) -> Finding:
    return NotApplicable(point, why).finding(point=point, stage=stage)


def _short(size_bytes: int) -> str:
    return format_size(size_bytes).replace(" ", "")


def _used_percent(workload: Workload, planning: Planning) -> float | None:
    """Return the percentage of the drive that the jobs use; None if it is the whole filled part.

    An incomplete last block of the drive is not counted as unused.
    """
    unused = planning.level_bytes - workload.range.length_bytes
    if unused < max(workload.block_sizes):
        return None
    return _percent(workload.range.length_bytes, planning)


def _described(points: list[Point]) -> Iterator[str]:
    """Yield sentences about the points, such as the fio options of each stream of a point."""
    for point in points:
        for stream in point.workload.streams:
            options = " ".join(f"{name}={value}" for name, value in stream.options)
            yield f"{point.workload.title} [{stream.name}]: {options}"
        if point.workload.trims:
            yield (
                f"{point.workload.title}: trims have rates and latencies of their own, and do not "
                "count in the rate to plan on; the drive does not stay full while they run"
            )
        if point.workload.paced:
            yield (
                f"{point.workload.title}: the job sets the pace. It is judged by its latency and "
                "by the share of its rate that it reaches, and gives no bound to plan on"
            )


def rate(name: str, wanted: spec.RateSweep, planning: Planning) -> Rate:
    """Plan the search for the highest rate whose latency stays within a limit.

    Raises UsageError if no limit is given, or for a workload that cannot be measured.
    """
    limit_s, direction = wanted.limit_s, wanted.direction
    if limit_s is None and wanted.percentile == "p99":
        of_plan = search_limits(planning.profile.plan)
        if len(of_plan) > 1 and direction is None:
            raise UsageError(
                f"{name} has two limits of latency in `plan`, one of reads and one of writes",
                hint="Set `rate: {direction: read}`, and another `rate` for writes.",
            )
        for way, of_way_s in of_plan.items():
            if way is None or direction in (None, way):
                limit_s, direction = of_way_s, direction or way
    if limit_s is None:
        raise UsageError(
            f"{name} has no limit of latency to search for",
            hint="Set `rate: {limit: 10ms}`, or `plan: {p99: 10ms}` for all.",
        )
    return Rate(
        lasts_s=UNBROKEN_S,
        name=name,
        workload=_offered(name, wanted, planning),
        clients_grow=wanted.clients is None,
        limit_ns=limit_s * NS_PER_S,
        percentile=wanted.percentile,
        direction=direction,
        start_iops=wanted.start_iops,
        resolution=wanted.resolution_percent / 100,
        repeats=wanted.repeats,
        window_s=wanted.window_s or planning.profile.window_s,
        settle_s=wanted.settle_s,
    )


def load(name: str, wanted: spec.Load, planning: Planning) -> Load:
    """Plan a measurement of latencies at one load. Raises UsageError for an impossible load."""
    size, plan = planning.target.size_bytes, planning.profile.plan
    if wanted.planned and plan.demand_iops is None:
        raise UsageError(
            f"{name} has no demand from which the planned load follows",
            hint="Set `plan: {vms: 3000, iops_each: 40}`, or `plan: {demand_iops: 120000}`.",
        )
    kind = partial(PlannedLoad, wanted=plan) if wanted.planned else Load
    return kind(
        name=name,
        workload=_offered(name, wanted, planning),
        clients_grow=wanted.clients is None,
        limit_ns=math.inf if wanted.limit_s is None else wanted.limit_s * NS_PER_S,
        percentile=wanted.percentile,
        direction=wanted.direction,
        repeats=wanted.repeats,
        window_s=wanted.window_s or planning.profile.window_s,
        settle_s=wanted.settle_s,
        load_iops=wanted.of_requests_iops(wanted.block_bytes, wanted.read_percent, size),
        asked_as=wanted.label() if wanted.drive_writes_per_day else "",
    )


def _offered(name: str, wanted: spec.Offered, planning: Planning) -> Workload:
    if hindrance := obstacle(wanted.block_bytes, planning.level_bytes, planning.target):
        raise UsageError(f"{name} cannot be measured: {hindrance}", hint="Set another `block`.")
    return planning.workload(
        wanted.pattern,
        wanted.block_bytes,
        read_percent=wanted.read_percent,
        iodepth=1,
        numjobs=wanted.clients or FIRST_CLIENTS,
        arrivals=wanted.arrivals,
    )


def _returns_to(planning: Planning, points: Sequence[Point]) -> Workload | None:
    """Return the warm-up's workload if it is measured again after the points, else None."""
    if not planning.profile.needs_warm_up or not any(point.workload.writes for point in points):
        return None
    return steady_workload(planning)


def counted_unit(planning: Planning) -> int:
    """Return the mapping unit, in bytes, whose overwrites are counted as drive fills.

    The result is 0 if the unit is not known, or if the warm-up cannot prove the unit because the
    warm-up never writes a part of a unit.
    """
    unit_bytes, _ = planning.unit
    if not unit_bytes or not planning.profile.needs_warm_up:
        return 0
    return unit_bytes if steady_workload(planning).overwrites(unit_bytes) > 1 else 0


def steady_workload(planning: Planning) -> Workload:
    """Return the workload of the warm-up, which the profile may name.

    If the profile names no warm-up and only the user's jobs write, the first writing job is used.
    """
    if not names_warm_up(planning.profile) and _heaviest(planning) is None:
        job = jobfiles.warm_up(planning)
        if job is not None:
            return job
    return _plain_warm_up(planning)


def _plain_warm_up(planning: Planning) -> Workload:
    """Return the warm-up workload, but never one of the user's jobs.

    This is the workload that the profile names, or else random writes without reads: the block size
    of the writing points that is nearest to 4 KiB, and their deepest queue, but at least the
    default depth. Such random writes age a drive fastest, and a smaller depth would not shorten the
    warm-up.
    """
    wanted = planning.profile.steady.workload
    if not names_warm_up(planning.profile):
        wanted = _heaviest(planning) or wanted
    return planning.workload(wanted.pattern, wanted.block_bytes, **wanted.model_dump(include=LOAD))


def names_warm_up(profile: Profile) -> bool:
    """Tell whether the profile defines the writes of the warm-up."""
    return "workload" in profile.steady.model_fields_set


def _heaviest(planning: Planning) -> SteadyWorkload | None:
    """Return the random writes of the profile that serve as warm-up; None without random writes.

    The chosen writes have the block size nearest to `USUAL`, and the most requests in flight.
    """
    writers = [
        (block, stage)
        for stage in (measure.stage for measure in planning.profile.measure)
        if isinstance(stage, spec.Sweep | spec.SpanSweep) and _writes_at_random(stage)
        for block in _each(stage.block_bytes)
        if block <= planning.level_bytes
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


def hottest(planning: Planning) -> Workload | None:
    """Return the writing point that moves most bytes; None if the warm-up moves as many.

    The point that moves most bytes has the largest block and, of equal blocks, the largest share of
    reads beside its writes.
    """
    warm = _plain_warm_up(planning)
    writers = [
        (block, read, stage)
        for stage in (measure.stage for measure in planning.profile.measure)
        if isinstance(stage, spec.Sweep)
        for block, read in product(stage.block_bytes, stage.read_percent)
        if read < ALL_READS and block <= planning.level_bytes
    ]
    if not writers:
        return None
    block, read, stage = max(writers, key=lambda writer: writer[:2])
    if (block, read) <= (warm.block_bytes, warm.read_percent):
        return None
    deepest = {"iodepth": max(stage.iodepth), "numjobs": max(stage.numjobs)}
    return planning.workload(stage.pattern[0], block, read_percent=read, **deepest)
