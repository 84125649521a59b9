"""What the targets of a profile need to be told: loads that are measured for them; pure.

A target that nothing measures could only ever be "cannot tell", after hours. Jobs of fio, mixes and
several writers are given the benefit of the doubt: what they measure is theirs to say.
"""

from collections.abc import Iterator

from ssdbench.model import asked
from ssdbench.model.accept import WHOLE_PERCENT, Target, Which, direction_of
from ssdbench.model.asked.mistakes import Mistake
from ssdbench.model.kind import KINDS, About, StageKind
from ssdbench.model.profile import Profile
from ssdbench.model.quantity import Extent

_TOLD_APART = (StageKind.RATE, StageKind.LOAD, StageKind.REPLAY, StageKind.PTS)


def unmeasured(profile: Profile) -> Iterator[Mistake]:
    """Each target that no stage of the profile can tell, with the path where it stands."""
    stages = [measure.stage for measure in profile.measure]
    for index, target in enumerate(profile.accept):
        for why in _missing(target, stages):
            yield ("accept", index), why
        yield from _without_bound(target, index, stages)


def _without_bound(
    target: Target, index: int, stages: list[asked.MeasuredStage]
) -> Iterator[Mistake]:
    """A rate of what only mixes with rates measure could never be told."""
    if target.of.job is None or not (target.iops or target.throughput_bytes_per_s):
        return
    meant = [stage for stage in stages if _measures(stage, target.of)]
    if meant and all(isinstance(stage, asked.Mix) and stage.paced for stage in meant):
        yield (
            ("accept", index, "iops" if target.iops else "throughput"),
            "a mix with a rate or a pause has no bound: limit its `latency`",
        )


def _missing(target: Target, stages: list[asked.MeasuredStage]) -> Iterator[str]:
    if target.at is not None:
        if not (_offered(target, stages) or _named(target.of)):
            yield (
                "a load needs its workload: name `block` and `read` under `of`, or measure it "
                "with `- rate:` or `- load:`"
            )
    elif _about_a_workload(target) and not any(_measures(stage, target.of) for stage in stages):
        jobs = _jobs(stages) if target.of.job is not None else []
        named = f"; the jobs here are {', '.join(jobs)}" if jobs else ""
        yield f"nothing under `measure` measures this ({target.of.label()}){named}"


def _jobs(stages: list[asked.MeasuredStage]) -> list[str]:
    """The names of job files and mixes, as reports have them."""
    return [stage.called for stage in stages if isinstance(stage, asked.FioJobs | asked.Mix)]


def _about_a_workload(target: Target) -> bool:
    """Whether it limits more than the write amplification of the whole run."""
    sheet = target.datasheet
    return bool(
        target.iops or target.throughput_bytes_per_s or target.latency
        or target.worst_minute_iops or target.worst_second_iops
        or (sheet and (sheet.iops or sheet.throughput_bytes_per_s or sheet.latency))
    )  # fmt: skip


def loads(profile: Profile) -> list[asked.Load]:
    """The loads that targets name and that no `load` of the profile measures, each once.

    Arrivals, clients and times are those of a `rate` stage of the same workload, where there is
    one. Of several limits at one load the rarest percentile sizes the windows.
    """
    stages = [measure.stage for measure in profile.measure]
    found: dict[str, asked.Load] = {}
    for target in profile.accept:
        if target.at is None or not target.latency:
            continue
        offered = _offered(target, stages)
        if any(isinstance(one, asked.Load) for one in offered):
            continue
        at = {name: getattr(target.at, name) for name in asked.OfferedLoad.model_fields}
        for base in offered or [_of(target.of)] * _named(target.of):
            workload = {name: getattr(base, name) for name in asked.Offered.model_fields}
            for name, limit_s in target.latency.items():
                limit = {"percentile": direction_of(name)[1], "limit_s": limit_s}
                wanted = asked.Load.model_construct(None, **workload, **at, **limit)
                key = repr((workload, at))
                found[key] = min(found.get(key, wanted), wanted, key=_rarest_first)
    return list(found.values())


def _of(which: Which) -> asked.Offered:
    """The workload that a target names, with the usual arrivals, clients and times."""
    named = ("block_bytes", "read_percent", "pattern")
    known = {name: value for name in named if (value := getattr(which, name)) is not None}
    return asked.Offered().model_copy(update=known)


def _rarest_first(load: asked.Load) -> tuple[float, float]:
    return -float(load.percentile[1:]), load.limit_s or 0.0


def _offered(target: Target, stages: list[asked.MeasuredStage]) -> list[asked.Offered]:
    """The stages that offer the workload of a target, one of each workload; a `load` before all."""
    of = target.of
    found = [
        stage
        for stage in stages
        if isinstance(stage, asked.Offered)
        and of.block_bytes in (None, stage.block_bytes)
        and of.read_percent in (None, stage.read_percent)
        and of.pattern in (None, stage.pattern)
    ]
    own = [one for one in found if isinstance(one, asked.Load) and one.same_load(target.at)]
    rates = [one for one in found if isinstance(one, asked.RateSweep)]
    return list({(s.block_bytes, s.read_percent, s.pattern): s for s in own or rates}.values())


def _named(of: Which) -> bool:
    """Whether a workload is named well enough to be offered."""
    return of.block_bytes is not None and of.read_percent is not None


def _measures(stage: asked.MeasuredStage, of: Which) -> bool:
    if of.test is not None:
        return isinstance(stage, asked.Pts) and of.test in stage.tests
    if of.job is not None:
        return isinstance(stage, asked.FioJobs | asked.Mix) and _is_job(stage, of)
    if of.replay is not None:
        return isinstance(stage, asked.Replay) and stage.called == of.replay
    match stage:
        case asked.Sweep() | asked.SpanSweep():
            spans = stage.spans if isinstance(stage, asked.SpanSweep) else (stage.span,)
            return _spans(spans, of) and all(
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
        case asked.Mix():
            moving = [stream for stream in stage.streams if stream.trim_percent < WHOLE_PERCENT]
            return all(
                (of.block_bytes is None or {*stream.sizes} == {of.block_bytes})
                and of.read_percent in (None, stream.read_percent)
                for stream in moving
            )
        case _:
            rates = KINDS[stage.kind].about is About.RATES
            return rates and stage.kind not in _TOLD_APART


def _is_job(stage: asked.FioJobs | asked.Mix, of: Which) -> bool:
    """Whether a job file, one of its phases or a mix is meant; a mix has its streams by name."""
    if not (of.names(stage.called) or (of.job or "").startswith(f"{stage.called} ")):
        return False
    if not isinstance(stage, asked.Mix):
        return True
    streams = {stream.name: bool(stream.trim_percent) for stream in stage.streams}
    streams |= {f"{name} trims": True for name, trims in streams.items() if trims}
    if of.stream is not None and of.stream not in streams:
        return False
    return of.direction != "trim" or any(streams.values())


def _spans(spans: tuple[Extent, ...], of: Which) -> bool:
    """A span in bytes may be any share of a drive that is not known yet."""
    wanted = WHOLE_PERCENT if of.span_percent is None else of.span_percent
    return any(span.percent in (None, wanted) for span in spans)
