"""From a profile and a target to the stages of a run: the one module that knows all stages."""

from itertools import product

from ssdbench.engine.stage import Stage
from ssdbench.errors import UsageError
from ssdbench.model import measure as asked
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.profile import Fill as AskedFill
from ssdbench.model.profile import Profile, Purge
from ssdbench.model.quantity import Extent
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import ActiveRange, Point, Workload
from ssdbench.stages.measuring import Measuring
from ssdbench.stages.points import Judging
from ssdbench.stages.precondition import Fill, Precondition
from ssdbench.stages.span import Span
from ssdbench.stages.steady import Steady
from ssdbench.stages.sweep import Sweep
from ssdbench.units import format_size


def stages(profile: Profile, target: TargetInfo) -> tuple[Stage, ...]:
    """All stages of a run, in order. Raises UsageError for what this target cannot do."""
    _require_supported(profile)
    level_bytes = Extent(percent=profile.fill_level_percent).bytes_of(
        target.size_bytes, align_bytes=target.logical_block_bytes
    )
    found: list[Stage] = []
    if profile.precondition:
        fills = tuple(_fill(step, profile) for step in profile.precondition)
        found.append(Precondition(_name(found, "precondition"), fills, profile.fill_level_percent))
    found.append(_steady(_name(found, "steady"), profile, target, level_bytes))
    for measure in profile.measure:
        name = _name(found, measure.kind)
        match measure.stage:
            case asked.Sweep() as wanted:
                found.append(_sweep(name, wanted, profile, target, level_bytes))
            case asked.SpanSweep() as wanted:
                found.append(_span(name, wanted, profile, target, level_bytes))
            case asked.BlockSize():
                raise UsageError(
                    "a block size is found by its own command, not in a run",
                    hint="Run `ssdbench detect-blocksize TARGET`.",
                )
    return tuple(found)


def _require_supported(profile: Profile) -> None:
    if profile.purge is not Purge.NONE:
        raise UsageError(
            f"this version cannot purge a drive ({profile.purge})",
            hint="Purge it with nvme-cli or hdparm before, and set `purge: none`.",
        )
    for measure in profile.measure:
        wanted = measure.stage
        if isinstance(wanted, asked.SpanSweep) and wanted.rest is asked.Rest.EMPTY:
            raise UsageError(
                "a span sweep with an empty rest needs a purge between spans, which this version "
                "cannot do",
                hint="Set `rest: static`, as in a drive in use.",
            )


def _name(found: list[Stage], kind: str) -> str:
    return f"{len(found) + 1:02d}-{kind}"


def _fill(step: AskedFill, profile: Profile) -> Fill:
    return Fill(
        pattern=step.pattern.pattern,
        block_bytes=step.block_bytes,
        passes=step.fill,
        content=step.content or profile.content,
        iodepth=step.iodepth,
    )


def _steady(name: str, profile: Profile, target: TargetInfo, level_bytes: int) -> Steady:
    wanted = profile.steady.workload
    if wanted.block_bytes % target.logical_block_bytes:
        raise UsageError(
            f"the warm-up writes {format_size(wanted.block_bytes)}, which is no multiple of the "
            f"logical block of {format_size(target.logical_block_bytes)} of {target.name}",
            hint="Set `steady: {workload: {block: …}}` to a multiple.",
        )
    return Steady(
        name=name,
        workload=Workload(
            pattern=wanted.pattern.pattern,
            block_bytes=wanted.block_bytes,
            read_percent=wanted.read_percent,
            iodepth=wanted.iodepth,
            numjobs=wanted.numjobs,
            range=_range(level_bytes, wanted.block_bytes),
            content=profile.content,
        ),
        rule=profile.steady.rule.value,
        max_fills=profile.steady.max_fills,
        max_time_s=profile.steady.max_time_s,
    )


def _sweep(
    name: str, wanted: asked.Sweep, profile: Profile, target: TargetInfo, level_bytes: int
) -> Sweep:
    points, skipped = [], []
    length = min(
        wanted.span.bytes_of(target.size_bytes, align_bytes=target.logical_block_bytes),
        level_bytes,
    )
    for pattern, block, read, iodepth, numjobs in product(
        wanted.pattern, wanted.block_bytes, wanted.read_percent, wanted.iodepth, wanted.numjobs
    ):
        point_id = f"{pattern}-{_short(block)}-r{read}-qd{iodepth}x{numjobs}"
        obstacle = _obstacle(block, length, target)
        if obstacle:
            skipped.append(_not_applicable(f"{name}-{point_id}", obstacle, name))
            continue
        workload = Workload(
            pattern=pattern.pattern,
            block_bytes=block,
            read_percent=read,
            iodepth=iodepth,
            numjobs=numjobs,
            range=_range(length, block),
            content=profile.content,
        )
        points.append(Point(id=f"{name}-{point_id}", sweep=name, workload=workload))
    return Sweep(
        name=name,
        points=tuple(points),
        repeats=wanted.repeats or profile.repeats,
        how=_how(profile, wanted.window_s),
        judging=Judging(rule=profile.steady.rule.value),
        skipped=tuple(skipped),
    )


def _span(
    name: str, wanted: asked.SpanSweep, profile: Profile, target: TargetInfo, level_bytes: int
) -> Span:
    points, skipped = [], []
    block = wanted.block_bytes
    for extent in wanted.spans:
        length = min(
            extent.bytes_of(target.size_bytes, align_bytes=target.logical_block_bytes), level_bytes
        )
        point_id = f"{name}-{str(extent).replace('%', 'pct')}"
        obstacle = _obstacle(block, length, target)
        if obstacle:
            skipped.append(_not_applicable(point_id, obstacle, name))
            continue
        workload = Workload(
            pattern=wanted.pattern.pattern,
            block_bytes=block,
            read_percent=wanted.read_percent,
            iodepth=wanted.iodepth,
            numjobs=wanted.numjobs,
            range=_range(length, block),
            content=profile.content,
        )
        share = 100 * workload.range.length_bytes / target.size_bytes
        points.append(
            Point(id=point_id, sweep=name, workload=workload, span_percent=round(share, 4))
        )
    return Span(
        name=name,
        points=tuple(points),
        repeats=wanted.repeats or profile.repeats,
        how=_how(profile, wanted.window_s),
        judging=Judging(rule=profile.steady.rule.value),
        skipped=tuple(skipped),
    )


def _how(profile: Profile, window_s: float | None) -> Measuring:
    settle = profile.settle
    spare = settle.spare_percent
    return Measuring(
        measure_s=window_s or profile.window_s,
        write_window_s=settle.window_s,
        flat_s=settle.flat_s,
        spare_share=None if spare is None else spare / 100,
        settle_fills=settle.max_fills,
        settle_s=settle.max_time_s,
    )


def _range(length_bytes: int, block_bytes: int) -> ActiveRange:
    """From the start of the drive, in whole blocks."""
    return ActiveRange(offset_bytes=0, length_bytes=length_bytes // block_bytes * block_bytes)


def _obstacle(block_bytes: int, length_bytes: int, target: TargetInfo) -> str:
    """Why a point cannot be measured on this target, if it cannot."""
    logical = target.logical_block_bytes
    if block_bytes % logical:
        return (
            f"requests of {format_size(block_bytes)} are no multiple of the drive's logical block "
            f"of {format_size(logical)}"
        )
    if block_bytes > length_bytes:
        return f"a block of {format_size(block_bytes)} does not fit into the span"
    return ""


def _not_applicable(point: str, why: str, stage: str) -> Finding:
    return Finding(
        code=Code.NOT_APPLICABLE,
        severity=Severity.NOTES,
        message=f"{point} is not applicable: {why}",
        advice="Nothing is wrong with the drive; leave the point out to hide this.",
        point=point,
        stage=stage,
    )


def _short(size_bytes: int) -> str:
    return format_size(size_bytes).replace(" ", "")
