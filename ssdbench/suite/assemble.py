"""Make the stages of a run, in order, from its profile and target."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssdbench.engine.estimates import likely, rate_hint
from ssdbench.engine.hostsettings import planned_host
from ssdbench.engine.stage import AnyStage
from ssdbench.errors import Misplaced, UsageError
from ssdbench.generator.fio.dryruns import POLICY
from ssdbench.model.fitting import loads
from ssdbench.model.profile import Applies, Detect, Fill, Host, Profile, Purge, Switch, spec
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import Workload
from ssdbench.stages.blocksize import BlockSize
from ssdbench.stages.points import PointStage
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.probe import PROBES
from ssdbench.stages.probe.bench import ProbeStage
from ssdbench.stages.probe.buffers import SlcCache
from ssdbench.stages.probe.reads import RESTS_S, Wake
from ssdbench.stages.pts import tests as pts
from ssdbench.stages.pts.stage import wanted_cache
from ssdbench.stages.purge import Purge as PurgeStage
from ssdbench.stages.replay import Replay
from ssdbench.stages.steady import Steady
from ssdbench.stats.inside.writecache import cache_enabled
from ssdbench.suite.jobfiles import phases
from ssdbench.suite.points import (
    counted_unit,
    fio_jobs,
    hottest,
    interference,
    load,
    names_warm_up,
    phase_groups,
    processes,
    rate,
    span,
    steady_workload,
    sweep,
)
from ssdbench.suite.request import Planning
from ssdbench.suite.trials import application_trials, file_system_trials, file_trials, host_trial

READ_BACK_SHARE = 0.05  # of the run's time: a fill is read back as a whole below it


def replay(name: str, wanted: spec.Replay, planning: Planning) -> Replay:
    """Make the stage that replays a trace.

    Raises UsageError for a target on which no trace can be replayed, or a trace that fio cannot
    send.
    """
    if planning.target.kind is TargetKind.FILE:
        raise UsageError(
            "a trace cannot be replayed on a regular file: the kernel does not count its requests",
            hint="Use a drive, a simulated drive, or a loop device.",
        )
    if planning.profile.generator is not Applies.FIO:
        raise UsageError("only fio replays traces", hint="Set `generator: fio`.")
    stage = Replay(
        name=name,
        wanted=wanted,
        range_bytes=planning.level_bytes,
        block_bytes=planning.target.logical_block_bytes,
        content=planning.profile.content,
    )
    stage.looked()
    return stage


def stages(profile: Profile, target: TargetInfo) -> tuple[AnyStage, ...]:
    """Return a run's stages, in order. Raises UsageError if a stage does not fit the target."""
    _require_supported(profile)
    if profile.purge is not Purge.NONE and target.kind is TargetKind.FILE:
        why = f"{target.name} cannot be purged ({profile.purge}): it is not a block device"
        none = "Set `purge: none` for this target."
        raise Misplaced(("purge",), UsageError(why, hint=none))
    planned: list[AnyStage] = []
    for of_level in profile.at_each_level():
        planning = Planning.of(of_level, target)
        level = of_level.fill_level_percent if len(profile.fill_levels_percent) > 1 else None
        planned += _prepared(planning, len(planned), level)
        for index, measure in enumerate(profile.measure):
            planned += _refilled(planned, len(planned), planning)
            try:
                made = _measuring(len(planned), measure.stage, planning)
            except UsageError as error:
                raise Misplaced(("measure", index, measure.key), error) from error
            planned += [_filled_to(level, stage) for stage in made]
        for wanted in loads(profile):
            planned += _refilled(planned, len(planned), planning)
            try:
                planned += _measuring(len(planned), wanted, planning)
            except UsageError as error:
                raise Misplaced(("accept",), error) from error
    return tuple(_with_proof(planned, profile, target))


def _filled_to(level: float | None, stage: AnyStage) -> AnyStage:
    """Return a stage whose points name the filled percent of the drive, if this is not None."""
    if level is None or not isinstance(stage, PointStage):
        return stage
    update = {"fill_percent": level}
    groups = tuple(tuple(p.model_copy(update=update) for p in group) for group in stage.groups)
    return replace(stage, groups=groups)


def _with_proof(
    planned: Sequence[AnyStage], profile: Profile, target: TargetInfo
) -> Iterator[AnyStage]:
    """Yield the stages; one fill reads its data back: all data if this takes little time.

    This is the first fill of the highest fill level.
    """
    proven, most = False, profile.fill_level_percent
    for stage in planned:
        if proven or not isinstance(stage, Precondition) or stage.level_percent < most:
            yield stage
            continue
        proven = True
        if target.simulated:
            yield replace(stage, read_back="whole")  # which costs nothing: its capacity is known
            continue
        hint = rate_hint(target, profile.rated)
        whole = replace(stage, read_back="whole")
        rest = [likely(one, target, hint).seconds for one in planned]
        extra_s = (likely(whole, target, hint).seconds, likely(stage, target, hint).seconds)
        little = all(
            with_s - without_s < READ_BACK_SHARE * sum(ends)
            for with_s, without_s, ends in zip(*extra_s, zip(*rest, strict=True), strict=True)
        )
        yield whole if little else replace(stage, read_back="sampled")


def _measuring(before: int, wanted: spec.MeasuredStage, planning: Planning) -> list[AnyStage]:
    """Make the stages of one item of `measure`; `before` is the number of stages before them."""
    name = f"{before + 1:02d}-{wanted.kind}"
    if one := STAGES.get(type(wanted)):
        return [one(name, wanted, planning)]
    return SEVERAL_STAGES[type(wanted)](before, wanted, planning)


def _jobs(before: int, wanted: spec.FioJobs | spec.Mix, planning: Planning) -> list[AnyStage]:
    """Make the stages of a job file or mix; phases that trim come last, on a refilled drive."""
    found = phases(wanted, planning)
    planned: list[AnyStage] = []
    for numbers in phase_groups(found):
        planned += _refilled(planned, before + len(planned), planning)
        name = f"{before + len(planned) + 1:02d}-{wanted.kind}"
        planned.append(fio_jobs(name, wanted, found, numbers, planning))
    return planned


def _refilled(planned: Sequence[AnyStage], before: int, planning: Planning) -> list[AnyStage]:
    """Return a new fill and warm-up if the last stage trimmed the drive; else an empty list."""
    last = planned[-1] if planned else None
    if not (isinstance(last, PointStage) and last.leaves_holes and planning.profile.precondition):
        return []
    again: list[AnyStage] = [
        Precondition(
            f"{before + 1:02d}-precondition",
            planning.profile.precondition,
            planning.profile.fill_level_percent,
            planning.profile.content,
            title="Fill the drive again, as it was trimmed",
            again=True,
        )
    ]
    if planning.profile.needs_warm_up:
        again.append(_steady(f"{before + 2:02d}-steady", planning))
    return again


def _over_spans(before: int, wanted: spec.SpanSweep, planning: Planning) -> list[AnyStage]:
    """Make the stage of growing spans, after a sequential fill if the profile asks for a fill.

    Random writes leave garbage in all flash blocks. If later writes go to one span only, greedy
    garbage collection never frees the garbage in other flash blocks, so the drive has less spare
    area.
    """
    planned: list[AnyStage] = []
    if wanted.rest is spec.Rest.ORDERED:
        in_order = Precondition(
            f"{before + 1:02d}-precondition",
            (Fill(fill=1),),
            planning.profile.fill_level_percent,
            planning.profile.content,
            title="Write the whole drive once more, in order",
            again=True,
        )
        planned.append(in_order)
    name = f"{before + len(planned) + 1:02d}-{wanted.kind}"
    return [*planned, span(name, wanted, planning)]


def _applications(before: int, wanted: spec.Applications, planning: Planning) -> list[AnyStage]:
    host = planned_host(host_wishes(planning.profile, planning.target), planning.target)
    memory = host.fio_options.get(POLICY, "")
    return application_trials(before, wanted, planning, host.fio_cpus, memory)


def _surface(before: int, wanted: spec.Surface, planning: Planning) -> list[AnyStage]:
    if wanted.type is not None:
        return file_trials(before, wanted, planning)
    return [host_trial(f"{before + 1:02d}-{wanted.kind}", wanted, planning)]


def _prepared(planning: Planning, before: int, level: float | None) -> list[AnyStage]:
    """Make the stages before a first measurement: block size, purge, fills and warm-up.

    `before` is the number of stages in front of the stages that this function makes, and `level`
    the percent of the drive that the fill writes; `level` is None if the run has only one level.
    """
    profile = planning.profile
    planned: list[AnyStage] = []

    def name(kind: str) -> str:
        return f"{before + len(planned) + 1:02d}-{kind}"

    if profile.host.block is Detect.DETECT and not before:
        planned.append(_blocksize(name("blocksize"), spec.BlockSize(), planning))
    if not profile.needs_fill:
        return planned
    if profile.purge is not Purge.NONE:
        planned.append(PurgeStage(name("purge"), profile.purge))
    if profile.precondition:
        fill = Precondition(
            name("precondition"),
            profile.precondition,
            profile.fill_level_percent,
            profile.content,
        )
        titled = replace(fill, title=f"Fill {level:g} % of the drive") if level else fill
        planned.append(titled)
    if profile.needs_warm_up:
        planned.append(_steady(name("steady"), planning))
    return planned


def _require_supported(profile: Profile) -> None:
    for index, measure in enumerate(profile.measure):
        stage = measure.stage
        if isinstance(stage, spec.SpanSweep) and stage.rest is spec.Rest.EMPTY:
            why = (
                "a span sweep with an empty rest needs a purge between two spans, which this "
                "version cannot do"
            )
            static = UsageError(why, hint="Set `rest: static`, as in a drive in use.")
            raise Misplaced(("measure", index, measure.key, "rest"), static)


def _steady(name: str, planning: Planning) -> Steady:
    workload = steady_workload(planning)
    return Steady(
        name=name,
        workload=workload,
        chosen=_chosen(planning.profile, workload),
        rule=planning.profile.steady.rule.value,
        max_fills=planning.profile.steady.max_fills,
        max_time_s=planning.profile.steady.max_time_s,
        heats_with=None if planning.target.simulated else hottest(planning),
        unit_bytes=counted_unit(planning),
        unit_source=planning.unit[1],
    )


def _chosen(profile: Profile, workload: Workload) -> str:
    if names_warm_up(profile):
        return ""
    if workload.streams:
        return "the first writing job of the plan, without rates and pauses"
    return "the heaviest writer of the plan"


def _blocksize(name: str, wanted: spec.BlockSize, planning: Planning) -> BlockSize:
    return BlockSize(
        name=name,
        block_bytes=wanted.block_bytes,
        strides=() if wanted.strides == "auto" else wanted.strides,
        read_only=wanted.read_only,
        writes=wanted.writes,
    )


def _probes(before: int, wanted: spec.Probes, planning: Planning) -> list[AnyStage]:
    rests_s = tuple(sorted(wanted.rests_s))
    resting = (SlcCache(rests_s), Wake(rests_s or RESTS_S))
    probes = PROBES | {probe.name: probe for probe in resting}
    return [
        ProbeStage(f"{before + number:02d}-probe-{name}", probes[name])
        for number, name in enumerate(wanted.of, start=1)
    ]


def host_wishes(profile: Profile, target: TargetInfo) -> Host:
    """Return the host settings of the profile, and add the write cache setting of a PTS-style test.

    The setting is added only if all stages are PTS-style tests of one form, the profile does not
    set the write cache, and the drive's cache is in the other state.
    """
    wished = profile.host
    forms = {m.stage.form for m in profile.measure if isinstance(m.stage, spec.Pts)}
    alone = all(isinstance(m.stage, spec.Pts) for m in profile.measure)
    if wished.write_cache is not Switch.KEEP or not alone or len(forms) != 1:
        return wished
    present, enabled = cache_enabled(target)
    wanted = wanted_cache(forms.pop())
    if target.simulated or not present or enabled is None or enabled == wanted:
        return wished
    return wished.model_copy(update={"write_cache": Switch.ON if wanted else Switch.OFF})


def _pts(before: int, wanted: spec.Pts, planning: Planning) -> list[AnyStage]:
    setting = pts.Setting(
        planning.target,
        wanted.form,
        wanted.max_rounds,
        wanted.scale,
        planning.profile.purge,
        wanted.saturation,
    )
    named = (stage for test in wanted.tests for stage in pts.TESTS[test](f"pts-{test}", setting))
    return [
        replace(stage, name=f"{number:02d}-{stage.name}")
        for number, stage in enumerate(named, start=before + 1)
    ]


# Each kind of stage under `measure` has one row: the function that makes its stage or stages. A
# test checks that no kind of `MeasuredStage` is missing.
STAGES: Mapping[type, Callable[[str, Any, Planning], AnyStage]] = {
    spec.Sweep: sweep,
    spec.Processes: processes,
    spec.Interference: interference,
    spec.RateSweep: rate,
    spec.Load: load,
    spec.Replay: replay,
    spec.BlockSize: _blocksize,
    spec.Schedulers: host_trial,
    spec.QueueSettings: host_trial,
    spec.Depth: host_trial,
    spec.Interrupts: host_trial,
    spec.Engines: host_trial,
    spec.LatencyPath: host_trial,
    spec.CpuCost: host_trial,
}
SEVERAL_STAGES: Mapping[type, Callable[[int, Any, Planning], list[AnyStage]]] = {
    spec.SpanSweep: _over_spans,
    spec.FioJobs: _jobs,
    spec.Mix: _jobs,
    spec.Pts: _pts,
    spec.Probes: _probes,
    spec.Surface: _surface,
    spec.FileSystems: file_system_trials,
    spec.FileWriters: file_trials,
    spec.FileMix: file_trials,
    spec.Applications: _applications,
}
