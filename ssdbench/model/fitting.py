"""List requests that a profile's drive cannot fulfil, and `accept` targets that no stage measures.

A profile is read before its target is known. So the mistakes in this module are found after the
profile was read, but are still reported at their place in the profile. Standard tests choose their
own block sizes: a size that a drive does not support is "not applicable" in such a test, as in a
sweep with `where_possible`.

A target of `accept:` that no stage measures is reported as a mistake before the run. Without a
stage for a target, a run would take hours, and its outcome would be "cannot tell". An `accept`
target for a job file, a mix or several writers is not a mistake if some stage may measure it.

A zoned drive accepts sequential writes only. fio follows its zones (zonemode=zbd) and resets each
zone before it writes the zone again, so sequential writes and all reads can be measured.
"""

import re
from collections.abc import Iterator

from ssdbench.model.base import Mistake
from ssdbench.model.kind import KINDS, About, StageKind
from ssdbench.model.profile import KEEP, Applies, Profile, Purge, SteadyWorkload, spec
from ssdbench.model.profile.accept import WHOLE_PERCENT, Target, Which, direction_of
from ssdbench.model.profile.sweeps import ALL_READS, AccessOrder, SpanSweep, Sweep
from ssdbench.model.quantity import WHOLE, Extent
from ssdbench.model.target import ZONES, LbaFormat, TargetInfo, TargetKind
from ssdbench.model.workload import IoEngine
from ssdbench.units import format_capacity, format_size

_ZONED = "the drive is zoned"
WHOLE_FILLS = 2  # fills after which no old data is left
_IN_ORDER = f"{_ZONED}, so it takes writes in order only"


def out_of_order(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    """List the requests of a profile that a zoned drive cannot fulfil, with their paths."""
    if not target.zone_bytes:
        return
    yield from _settings(profile)
    # fio continues a partly written zone at its write pointer, so one fill leaves old data.
    if 0 < sum(fill.fill for fill in profile.precondition) < WHOLE_FILLS:
        yield (
            ("precondition", 0, "fill"),
            f"{_ZONED}, and the first fill only completes partly written zones; set `fill: 2`",
        )
    for index, fill in enumerate(profile.precondition):
        if fill.pattern is AccessOrder.RANDOM:
            yield ("precondition", index), f"{_IN_ORDER}; set `pattern: sequential`"
    if profile.needs_warm_up:
        yield from _zoned_warm_up(profile.steady.workload)
    for index, measure in enumerate(profile.measure):
        if not isinstance(measure.stage, Sweep):
            yield ("measure", index, measure.key), f"{_ZONED}; only sweeps can measure it"
            continue
        for path, why in _zoned_sweep(measure.stage):
            yield ("measure", index, measure.key, *path), why


def _settings(profile: Profile) -> Iterator[Mistake]:
    if profile.purge is not Purge.NONE:
        yield ("purge",), f"{_ZONED}, and ssdbench cannot purge such drives; leave it out"
    if profile.generator is not Applies.FIO:
        yield ("generator",), f"{_ZONED}, and only fio supports zones; leave it out"
    if profile.host.scheduler != KEEP:
        yield ("host", "scheduler"), f"{_ZONED}, and some schedulers change the order of writes"
    if profile.fill_level_percent < 100:
        yield ("fill_level",), f"{_ZONED}, and can only be filled as a whole; leave it out"


def _zoned_warm_up(writes: SteadyWorkload) -> Iterator[Mistake]:
    if writes.pattern is AccessOrder.RANDOM or writes.read_percent or writes.numjobs > 1:
        yield (
            ("steady", "workload"),
            f"{_IN_ORDER}, in the warm-up too; set `pattern: sequential`, without reads and with "
            "one job",
        )


def _zoned_sweep(sweep: Sweep) -> Iterator[Mistake]:
    writes = min(sweep.read_percent) < ALL_READS
    if writes and AccessOrder.RANDOM in sweep.pattern:
        yield ("pattern",), f"{_IN_ORDER}; set `pattern: sequential`, or `read: 100`"
    if any(0 < percent < ALL_READS for percent in sweep.read_percent):
        yield ("read",), f"{_ZONED}, and ssdbench cannot mix reads and writes on it; set 0 or 100"
    if max(sweep.numjobs) > 1:
        yield ("numjobs",), f"{_ZONED}, and jobs of fio would wait for each other's zones; set 1"
    if sweep.span != WHOLE:
        yield ("span",), f"{_ZONED}, and can only be measured as a whole; leave it out"


_TOLD_APART = (
    StageKind.RATE,
    StageKind.LOAD,
    StageKind.REPLAY,
    StageKind.PTS,
    StageKind.INTERFERENCE,
)


def unmeasured(profile: Profile) -> Iterator[Mistake]:
    """List the `accept` targets that no stage measures, with their paths in the profile."""
    stages = [measure.stage for measure in profile.measure]
    for index, target in enumerate(profile.accept):
        for why in _missing(target, stages):
            yield ("accept", index), why
        yield from _without_bound(target, index, stages)


def _without_bound(
    target: Target, index: int, stages: list[spec.MeasuredStage]
) -> Iterator[Mistake]:
    """Refuse an `accept` target for the rate of a mix that has fixed rates or pauses."""
    if target.of.job is None or not (target.iops or target.throughput_bytes_per_s):
        return
    meant = [stage for stage in stages if _measures_target(stage, target.of)]
    if meant and all(isinstance(stage, spec.Mix) and stage.paced for stage in meant):
        yield (
            ("accept", index, "iops" if target.iops else "throughput"),
            "a mix with a rate or a pause has no bound: limit its `latency`",
        )


def _missing(target: Target, stages: list[spec.MeasuredStage]) -> Iterator[str]:
    if target.at is not None:
        if not (_offered(target, stages) or _named(target.of)):
            yield (
                "a load needs a workload: name `block` and `read` under `of`, or measure it with "
                "`- rate:` or `- load:`"
            )
    elif _about_a_workload(target) and not any(
        _measures_target(stage, target.of) for stage in stages
    ):
        jobs = [stage.called for stage in stages if isinstance(stage, spec.FioJobs | spec.Mix)]
        meant = jobs and target.of.job is not None
        named = f"; the jobs here are {', '.join(jobs)}" if meant else ""
        yield f"nothing under `measure` measures this ({target.of.label()}){named}"


def _about_a_workload(target: Target) -> bool:
    """Tell whether a target limits something other than the write amplification of the run."""
    figures = () if target.datasheet is None else target.datasheet.figures
    return any((*target.rates.values(), target.latency, *figures))


def loads(profile: Profile) -> list[spec.Load]:
    """Return the loads that `accept` targets name and no `load` stage measures, each load once.

    If a `rate` stage has the same workload, the load takes the arrivals, clients and times of that
    stage. If one load has several limits, the rarest percentile is used, because it decides the
    length of the windows.
    """
    stages = [measure.stage for measure in profile.measure]
    found: dict[str, spec.Load] = {}
    for target in profile.accept:
        if target.at is None or not target.latency:
            continue
        offered = _offered(target, stages)
        if any(isinstance(one, spec.Load) for one in offered):
            continue
        at = {name: getattr(target.at, name) for name in spec.OfferedLoad.model_fields}
        for base in offered or [_of(target.of)] * _named(target.of):
            workload = {
                name: getattr(base, name)
                for name in spec.Offered.model_fields
                if name != "direction"
            }
            for name, limit_s in target.latency.items():
                direction, percentile = direction_of(name)
                wanted = spec.Load.model_construct(
                    None, **workload, **at,
                    percentile=percentile, limit_s=limit_s, direction=direction or None,
                )  # fmt: skip
                key = repr((workload, at))
                kept = min(before := found.get(key, wanted), wanted, key=_rarest_first)
                both = before.direction != wanted.direction
                found[key] = kept.model_copy(update={"direction": None}) if both else kept
    return list(found.values())


def _of(which: Which) -> spec.Offered:
    """Return the workload that a target names, with default arrivals, clients and times."""
    named = ("block_bytes", "read_percent", "pattern")
    known = {name: value for name in named if (value := getattr(which, name)) is not None}
    return spec.Offered().model_copy(update=known)


def _rarest_first(load: spec.Load) -> tuple[float, float]:
    return -float(load.percentile[1:]), load.limit_s or 0.0


def _offered(target: Target, stages: list[spec.MeasuredStage]) -> list[spec.Offered]:
    """List the stages that measure a target's workload: `load` stages, or else `rate` stages."""
    of = target.of
    found = [
        stage
        for stage in stages
        if isinstance(stage, spec.Offered)
        and of.block_bytes in (None, stage.block_bytes)
        and of.read_percent in (None, stage.read_percent)
        and of.pattern in (None, stage.pattern)
    ]
    own = [one for one in found if isinstance(one, spec.Load) and one.same_load(target.at)]
    rates = [one for one in found if isinstance(one, spec.RateSweep)]
    return list({(s.block_bytes, s.read_percent, s.pattern): s for s in own or rates}.values())


def _named(of: Which) -> bool:
    """Tell whether a target names the block size and read share of its workload."""
    return of.block_bytes is not None and of.read_percent is not None


def _measures_target(stage: spec.MeasuredStage, of: Which) -> bool:
    if of.test is not None:
        return isinstance(stage, spec.Pts) and of.test in stage.tests
    if of.job is not None:
        return isinstance(stage, spec.FioJobs | spec.Mix) and _is_job(stage, of)
    if of.replay is not None:
        return isinstance(stage, spec.Replay) and stage.called == of.replay
    match stage:
        case spec.Sweep() | spec.SpanSweep():
            spans = stage.spans if isinstance(stage, spec.SpanSweep) else (stage.span,)
            return _spans_of(spans, of) and all(
                wanted is None
                or (wanted in measured if isinstance(measured, tuple) else wanted == measured)
                for wanted, measured in (
                    (of.block_bytes, stage.block_bytes),
                    (of.read_percent, stage.read_percent),
                    (of.pattern, stage.pattern),
                    (of.iodepth, stage.iodepth),
                    (of.numjobs, stage.numjobs),
                )
            )
        case spec.Mix():
            moving = [stream for stream in stage.streams if stream.trim_percent < WHOLE_PERCENT]
            return all(
                (of.block_bytes is None or {*stream.sizes} == {of.block_bytes})
                and of.read_percent in (None, stream.read_percent)
                for stream in moving
            )
        case _:
            rates = KINDS[stage.kind].about is About.RATES
            return rates and stage.kind not in _TOLD_APART


def _is_job(stage: spec.FioJobs | spec.Mix, of: Which) -> bool:
    """Tell whether the target names this job file, one of its phases, or this mix."""
    if not (of.names(stage.called) or (of.job or "").startswith(f"{stage.called} ")):
        return False
    if not isinstance(stage, spec.Mix):
        return True
    streams = {stream.name: bool(stream.trim_percent) for stream in stage.streams}
    streams |= {f"{name} trims": True for name, trims in streams.items() if trims}
    if of.stream is not None and of.stream not in streams:
        return False
    return of.direction != "trim" or any(streams.values())


def _spans_of(spans: tuple[Extent, ...], of: Which) -> bool:
    """Tell whether a target may apply to one of these spans; each span in bytes is possible."""
    wanted = WHOLE_PERCENT if of.span_percent is None else of.span_percent
    return any(span.percent in (None, wanted) for span in spans)


_NAMESPACE = re.compile(r"/nvme\d+n\d+$")


def obstacle(block_bytes: int, length_bytes: int, target: TargetInfo) -> str:
    """Return why requests of this size are impossible in a range of a target; "" if possible."""
    logical = target.logical_block_bytes
    if block_bytes % logical:
        return (
            f"requests of {format_size(block_bytes)} are not a multiple of the drive's logical "
            f"block of {format_size(logical)}"
        )
    if target.zone_bytes % block_bytes:
        return (
            f"requests of {format_size(block_bytes)} do not fill a zone, which holds "
            f"{format_size(target.zone_bytes)}"
        )
    if block_bytes > length_bytes:
        return f"a block of {format_size(block_bytes)} does not fit into the span"
    return ""


def engine_obstacle(engine: IoEngine, target: TargetInfo) -> str:
    """Return why an engine cannot send requests to this target on any host; "" if it can."""
    if engine is IoEngine.LIBAIO:
        return ""
    if ZONES in target.facts and not target.zone_bytes:
        return f"ssdbench cannot measure {target.name} with any engine, because of its zones"
    if target.zone_bytes:
        return f"{target.name} is zoned, and ssdbench supports only libaio on such drives"
    if target.simulated:
        return f"{target.name} is simulated and needs no engine: leave `engine` out"
    if target.kind is TargetKind.FILE and engine is IoEngine.IO_URING_POLLED:
        return f"{target.name} is a file: only block devices with poll queues can be polled"
    if engine is not IoEngine.IO_URING_CMD:
        return ""
    if not _NAMESPACE.search(target.node):
        return f"{target.name} is not an NVMe namespace, and io_uring_cmd sends NVMe commands"
    if target.lba_format is not None and target.lba_format.metadata_bytes:
        return f"{target.name} has metadata with each block, which io_uring_cmd does not send"
    return ""


def misfits(profile: Profile, target: TargetInfo) -> list[Mistake]:
    """List the requests of a profile that this target cannot fulfil, with their paths."""
    wanted = profile.lba_format
    why = "" if wanted is None else unoffered(wanted, target)
    there = target if why else target.formatted(wanted)
    return [
        *([(("lba_format",), why)] if why else []),
        *_writes_before(profile, there),
        *_measures(profile, there),
        *out_of_order(profile, there),
        *unmeasured(profile),
    ]


def unoffered(wanted: LbaFormat, target: TargetInfo) -> str:
    """Return why a drive cannot get this LBA format; "" if the drive offers the format."""
    if not target.lba_formats:
        return f"{target.name} offers no choice of LBA formats: only NVMe drives do"
    if wanted.sizes not in target.lba_formats:
        return f"{target.name} has no LBA format {wanted.sizes}; it offers " + ", ".join(
            target.lba_formats
        )
    return ""


def _writes_before(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    block = profile.steady.workload.block_bytes
    if profile.needs_warm_up and (why := obstacle(block, target.size_bytes, target)):
        yield ("steady", "workload", "block"), why
    for index, step in enumerate(profile.precondition):
        if why := obstacle(step.block_bytes, target.size_bytes, target):
            yield ("precondition", index, "block"), why


def _measures(profile: Profile, target: TargetInfo) -> Iterator[Mistake]:
    for index, measure in enumerate(profile.measure):
        match measure.stage:
            case Sweep() as sweep:
                mistakes = _sweep(sweep, target)
            case SpanSweep() as spans:
                mistakes = _spans(spans, target)
            case _:
                continue
        for path, message in mistakes:
            yield ("measure", index, measure.key, *path), message


def _sweep(sweep: Sweep, target: TargetInfo) -> Iterator[Mistake]:
    if message := _beyond(sweep.span, target):
        yield ("span",), message
        return
    for index, engine in enumerate(sweep.engine):
        if why := engine_obstacle(engine, target):
            yield ("engine", index), why
    if sweep.where_possible:
        return
    length = _length(sweep.span, target)
    for index, block in enumerate(sweep.block_bytes):
        if why := obstacle(block, length, target):
            advice = "; leave it out, or add `where_possible: true`"
            yield ("block", index), why + advice


def _spans(spans: SpanSweep, target: TargetInfo) -> Iterator[Mistake]:
    if why := obstacle(spans.block_bytes, target.size_bytes, target):
        yield ("block",), why
        return
    for index, span in enumerate(spans.spans):
        why = _beyond(span, target) or obstacle(spans.block_bytes, _length(span, target), target)
        if why:
            yield ("spans", index), why


def _beyond(span: Extent, target: TargetInfo) -> str:
    if span.size_bytes is None or span.size_bytes <= target.size_bytes:
        return ""
    return f"a span of {span} is larger than {target.name}, {format_capacity(target.size_bytes)}"


def _length(span: Extent, target: TargetInfo) -> int:
    return span.bytes_of(target.size_bytes, align_bytes=target.logical_block_bytes)
