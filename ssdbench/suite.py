"""From a profile and a target to a run: the one module that knows all stages.

`plan` and `stages` touch nothing; `run` and `resume` claim the target and fill a run directory.
Rendering a report is the caller's, so that a mistake in a page never costs a night of wear.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from ssdbench.engine.applied import applied, restore
from ssdbench.engine.hints import rate_hint
from ssdbench.engine.hosting import planned_host
from ssdbench.engine.journal import NAME as JOURNAL
from ssdbench.engine.journal import stored_records
from ssdbench.engine.manifest import Manifest, manifest
from ssdbench.engine.runner import Order, Runner, World, check_limits
from ssdbench.engine.session import TargetSession
from ssdbench.engine.stage import Limits, RateHint, Stage, StagePlan
from ssdbench.engine.store import MANIFEST, RunStore, load
from ssdbench.engine.targets import claimed, signatures_are_ours
from ssdbench.errors import UsageError
from ssdbench.host.files import make_directory
from ssdbench.model import measure as asked
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import Fill as AskedFill
from ssdbench.model.profile import Profile, Purge
from ssdbench.model.quantity import Extent
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import ActiveRange, Pattern, Point, Workload
from ssdbench.stages.blocksize import BlockSize
from ssdbench.stages.hosttrials import host_trial
from ssdbench.stages.measuring import Measuring
from ssdbench.stages.points import Judging
from ssdbench.stages.precondition import Fill, Precondition
from ssdbench.stages.pts import tests as pts
from ssdbench.stages.purge import Purge as PurgeStage
from ssdbench.stages.span import Span
from ssdbench.stages.steady import Steady
from ssdbench.stages.sweep import Sweep
from ssdbench.target import leave
from ssdbench.target.inspect import inspect
from ssdbench.target.leave import Leave
from ssdbench.target.planned import Planned
from ssdbench.target.wear import Wear
from ssdbench.tuning.plan import HostPlan
from ssdbench.units import KIB, format_size

NO_PURGE = (TargetKind.SIMULATED, TargetKind.FILE)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks for, besides the profile."""

    profile: Profile
    profile_name: str  # for messages, such as profiles/demo.yaml
    profile_text: str
    target: str = ""  # goes before the profile's
    seed: int | None = None  # likewise
    limits: Limits = Limits()  # likewise, each on its own
    destroy_id: str | None = None
    overwrite_signatures: bool = False
    accept_shared: bool = False
    accept_wear: bool = False
    endurance_tb: float | None = None  # goes before the profile's
    planned: Planned | None = None  # what `plan` saw, where the user brings it
    argv: tuple[str, ...] = ()

    @property
    def leave(self) -> Leave:
        """What the user agreed to."""
        return Leave(
            self.destroy_id, self.overwrite_signatures, self.accept_shared, self.accept_wear
        )

    @property
    def target_name(self) -> str:
        """The target, from the command line or the profile. Raises UsageError without one."""
        name = self.target or self.profile.target
        if not name:
            raise UsageError(
                f"{self.profile_name} names no target",
                hint="Add --target, such as --target sim:x25m-g2-160; see `ssdbench drives`.",
            )
        return name

    @property
    def all_limits(self) -> Limits:
        """The command line's limits, and the profile's where it sets none."""
        kept = self.profile.limits
        return self.limits.over(Limits(kept.max_time_s, kept.max_writes_bytes))


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What `run` would do, and from the least to the most that it would take."""

    target: TargetInfo
    stages: tuple[StagePlan, ...]
    limits: Limits
    hint: RateHint
    seconds: tuple[float, float]  # on the target's clock
    bytes_written: tuple[int, int]
    fills: tuple[float, float]
    host: HostPlan = HostPlan()
    wear: Wear = Wear(0)

    @property
    def destroys(self) -> bool:
        """Whether any stage writes."""
        return destroys(self.stages)


def plan(asked_for: Asked) -> RunPlan:
    """Look at the target and say what `run` would do. Raises UsageError, TargetRefused."""
    info = inspect(asked_for.target_name)
    hint = rate_hint(info)
    plans = tuple(stage.plan(info, hint) for stage in stages(asked_for.profile, info))
    limits = asked_for.all_limits
    check_limits(plans, limits)
    return RunPlan(
        target=info,
        stages=plans,
        limits=limits,
        hint=hint,
        seconds=(sum(p.seconds[0] for p in plans), sum(p.seconds[1] for p in plans)),
        bytes_written=(
            sum(p.bytes_written[0] for p in plans),
            sum(p.bytes_written[1] for p in plans),
        ),
        fills=(sum(p.fills[0] for p in plans), sum(p.fills[1] for p in plans)),
        host=planned_host(asked_for.profile.host, info),
        wear=wear_of(asked_for, plans),
    )


def wear_of(asked_for: Asked, plans: Sequence[StagePlan]) -> Wear:
    """The most that a run may write to its target, within its limits."""
    most = sum(plan.bytes_written[1] for plan in plans)
    limit = asked_for.all_limits.max_writes_bytes
    endurance_tb = asked_for.endurance_tb or asked_for.profile.plan.endurance_tb
    return Wear(most if limit is None else min(most, limit), endurance_tb)


def destroys(plans: Sequence[StagePlan]) -> bool:
    """Whether a run of these stages overwrites anything."""
    return any(plan.destructive for plan in plans)


def run(asked_for: Asked, output: Path, world: World) -> RunResult:
    """The main job, into a new run directory; result.json and all bulk files are there after it.

    Nothing is created or changed when the target is refused. Raises SsdbenchError; what was
    measured until then is stored.
    """
    info = inspect(asked_for.target_name)
    _require_settable(asked_for.profile)
    wishes = planned_host(asked_for.profile.host, info)
    chosen = stages(asked_for.profile, info)
    plans = [stage.plan(info, rate_hint(info)) for stage in chosen]
    check_limits(plans, asked_for.all_limits)
    leave.require(info, asked_for.leave, wear=wear_of(asked_for, plans), destroys=destroys(plans))
    if asked_for.planned is not None:
        asked_for.planned.require_unchanged(info, asked_for.profile_text)
    RunStore.require_new(output)
    seed = asked_for.profile.seed if asked_for.seed is None else asked_for.seed
    kept = manifest(
        run_id=output.resolve().name,
        title=asked_for.profile.title or f"{info.model or info.name}",
        argv=asked_for.argv,
        profile_name=asked_for.profile_name,
        profile_text=asked_for.profile_text,
        target=info,
        seed=seed,
        limits=asked_for.all_limits,
        destroy_id=asked_for.destroy_id,
        overwrite_signatures=asked_for.overwrite_signatures,
        accept_shared=asked_for.accept_shared,
    )
    store = RunStore(output)
    # Nothing is made before the locks are ours, so that a refused run leaves nothing behind.
    claim = _claimed(kept, info, store, wishes, destroys=destroys(plans))
    with claim as session, applied(wishes, kept.run_id) as settings:
        make_directory(output)
        store.write_json(MANIFEST, kept.model_dump(mode="json"))
        order = replace(_order(kept), settings=settings)
        return Runner(order, chosen, session, store, world).run()


def resume(run_path: Path, world: World, *, limits: Limits | None = None) -> RunResult:
    """Go on with a run after a crash, a signal or a limit. Raises SsdbenchError."""
    store = RunStore.open(run_path)
    kept = load(run_path / MANIFEST, Manifest)
    profile = load_profile(kept.profile_text, kept.profile_name)
    if not kept.target.simulated:
        restore()  # what the dead run mounted or changed would be a reason to refuse the target
    if signatures_are_ours(stored_records(run_path / JOURNAL)):
        kept = kept.model_copy(update={"overwrite_signatures": True})
    info = inspect(kept.target.name)
    order = _order(kept)
    if limits is not None:
        order = replace(order, limits=limits.over(order.limits))
    wishes = planned_host(profile.host, info)
    chosen = stages(profile, info)
    plans = [stage.plan(info, order.hint) for stage in chosen]
    claim = _claimed(kept, info, store, wishes, destroys=destroys(plans))
    with claim as session, applied(wishes, kept.run_id) as settings:
        order = replace(order, settings=settings)
        return Runner(order, chosen, session, store, world).resume()


def _claimed(
    kept: Manifest, info: TargetInfo, store: RunStore, wishes: HostPlan, *, destroys: bool
) -> AbstractContextManager[TargetSession]:
    return claimed(
        info,
        store.path,
        destroy_id=kept.destroy_id,
        overwrite_signatures=kept.overwrite_signatures,
        accept_shared=kept.accept_shared,
        destroys=destroys,
        fio_cpus=wishes.fio_cpus,
    )


def _order(kept: Manifest) -> Order:
    return Order(
        run_id=kept.run_id,
        title=kept.title,
        profile_text=kept.profile_text,
        seed=kept.seed,
        limits=kept.limits,
        hint=rate_hint(kept.target),
        host={**kept.host, **{f"{name} version": v for name, v in kept.versions.items()}},
    )


def stages(profile: Profile, target: TargetInfo) -> tuple[Stage, ...]:
    """All stages of a run, in order. Raises UsageError for what this target cannot do."""
    _require_supported(profile)
    if profile.purge is not Purge.NONE and target.kind in NO_PURGE:
        raise UsageError(
            f"{target.name} cannot be purged ({profile.purge}): it is no block device",
            hint="Set `purge: none` for this target.",
        )
    level_bytes = Extent(percent=profile.fill_level_percent).bytes_of(
        target.size_bytes, align_bytes=target.logical_block_bytes
    )
    found = _prepared(profile, target, level_bytes)
    for measure in profile.measure:
        name = _name(found, measure.kind)
        match measure.stage:
            case asked.Sweep() as wanted:
                found.append(_sweep(name, wanted, profile, target, level_bytes))
            case asked.SpanSweep() as wanted:
                if wanted.rest is asked.Rest.ORDERED:
                    found.append(_put_in_order(_name(found, "precondition"), profile))
                    name = _name(found, measure.kind)
                found.append(_span(name, wanted, profile, target, level_bytes))
            case asked.HostTrial() as wanted:
                cpus = planned_host(profile.host, target).fio_cpus
                found.append(host_trial(name, wanted, target, level_bytes, cpus=cpus))
            case asked.Pts() as wanted:
                found += _pts(len(found), wanted, target)
            case asked.BlockSize() as wanted:
                found.append(_blocksize(name, wanted))
    return tuple(found)


def _prepared(profile: Profile, target: TargetInfo, level_bytes: int) -> list[Stage]:
    """What comes before the first measurement."""
    found: list[Stage] = []
    if profile.purge is not Purge.NONE:
        found.append(PurgeStage(_name(found, "purge"), profile.purge))
    if profile.precondition:
        fills = tuple(_fill(step, profile) for step in profile.precondition)
        found.append(Precondition(_name(found, "precondition"), fills, profile.fill_level_percent))
    # Standard tests bring a warm-up and a rule of their own; a block size needs none.
    own_way = (asked.BlockSize, asked.Pts)
    if any(not isinstance(measure.stage, own_way) for measure in profile.measure):
        found.append(_steady(_name(found, "steady"), profile, target, level_bytes))
    return found


def _require_settable(profile: Profile) -> None:
    if profile.host.kernel_modules:
        raise UsageError(
            "a run loads no kernel modules",
            hint="Load them before with `ssdbench kmod load`, and leave out `kernel_modules`.",
        )


def _require_supported(profile: Profile) -> None:
    for measure in profile.measure:
        stage = measure.stage
        if isinstance(stage, asked.SpanSweep) and stage.rest is asked.Rest.EMPTY:
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


def _put_in_order(name: str, profile: Profile) -> Precondition:
    """One sequential fill before growing spans.

    Random writes leave garbage scattered over all blocks. Where they go on in one span alone,
    garbage in blocks that are not written any more is out of greedy collection's reach, and so is
    the spare area that it takes.
    """
    return Precondition(
        name,
        (Fill(pattern=Pattern.SEQUENTIAL, block_bytes=128 * KIB, content=profile.content),),
        profile.fill_level_percent,
        title="Write the whole drive once more, in order",
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
        how=_how(profile, wanted),
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
        share = 100 * length / target.size_bytes  # not the range, which is rounded to blocks
        points.append(
            Point(id=point_id, sweep=name, workload=workload, span_percent=round(share, 2))
        )
    return Span(
        name=name,
        points=tuple(points),
        repeats=wanted.repeats or profile.repeats,
        how=_how(profile, wanted),
        judging=Judging(rule=profile.steady.rule.value),
        skipped=tuple(skipped),
    )


def _blocksize(name: str, wanted: asked.BlockSize) -> BlockSize:
    return BlockSize(
        name=name,
        block_bytes=wanted.block_bytes,
        strides=() if wanted.strides == "auto" else wanted.strides,
        read_only=wanted.read_only,
    )


def _pts(before: int, wanted: asked.Pts, target: TargetInfo) -> list[Stage]:
    setting = pts.Setting(target, pts.FORMS[wanted.form], wanted.max_rounds, wanted.scale)
    found: list[Stage] = []
    for test in wanted.tests:
        found += pts.TESTS[test](f"{before + len(found) + 1:02d}-pts-{test}", setting)
    return found


def _how(profile: Profile, wanted: asked.Sweep | asked.SpanSweep) -> Measuring:
    settle = wanted.settle or profile.settle
    spare = settle.spare_percent
    return Measuring(
        measure_s=wanted.window_s or profile.window_s,
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
