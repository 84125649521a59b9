"""Targets of a profile that nothing in it measures; pure.

Such a target could only ever be "cannot tell", after hours. Jobs of fio, mixes and several
writers are given the benefit of the doubt: what they measure is theirs to say.
"""

from collections.abc import Iterator

from ssdbench.model import asked
from ssdbench.model.accept import WHOLE_PERCENT, Target, Which
from ssdbench.model.asked.mistakes import Mistake
from ssdbench.model.kind import KINDS, About, StageKind
from ssdbench.model.profile import Profile
from ssdbench.model.quantity import Extent

_TOLD_APART = (StageKind.RATE, StageKind.REPLAY, StageKind.PTS)


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
        for percentile in target.latency:
            if not any(_searches(stage, target.of, percentile) for stage in stages):
                yield (
                    f"no `- rate:` searches for {percentile} of {target.of.label()}; add one, with "
                    "the limit of this target"
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


def _searches(stage: asked.MeasuredStage, of: Which, percentile: str) -> bool:
    return (
        isinstance(stage, asked.RateSweep)
        and percentile == stage.percentile
        and of.block_bytes in (None, stage.block_bytes)
        and of.read_percent in (None, stage.read_percent)
        and of.pattern in (None, stage.pattern)
    )


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
