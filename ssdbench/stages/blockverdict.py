"""Turn the judge's verdicts on block size and buffer into a result, sentences and findings."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ssdbench.model.finding import Finding
from ssdbench.model.findings.drive import BoundaryHiddenByBuffer, NoBoundary
from ssdbench.model.inside import (
    BlockCandidate,
    BlockSizeFound,
    Searched,
    SmallestEffect,
    StrideScore,
)
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stages.strides import DEEP, StrideWay, Trace
from ssdbench.stats.inside.blocksize import BlockVerdict, Evidence, Form, smallest_effects
from ssdbench.stats.inside.writebuffer import Held, held, lag, shifted
from ssdbench.stats.inside.writecount import CountPeriod, count_period
from ssdbench.units import format_size

ABSORBED_NS = 60_000  # no NAND programs faster; a faster answer is from a buffer
WAITS = 2.0  # times ABSORBED_NS; slower parallel writes had to wait for flash
QUEUED = 1.5  # times as many single writes; a queue cannot explain more
SLOW_PERCENTILE = 99.0
REAL = (TargetKind.DRIVE, TargetKind.SIMULATED, TargetKind.VIRTUAL, TargetKind.UNPROVEN)


@dataclass(slots=True)
class WayVerdict:
    """Hold the latencies of one way of sending requests at strides, and their verdict."""

    trace: Trace
    verdict: BlockVerdict | None = None

    @property
    def found(self) -> bool:
        """Tell whether the verdict has a block size."""
        return self.verdict is not None and self.verdict.block_bytes is not None


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold the result of the stage, and the way of sending requests that gave this result."""

    found: BlockSizeFound
    way: StrideWay | None = None  # None if nothing was measured
    findings: tuple[Finding, ...] = ()


def absorbed(asked: Mapping[StrideWay, WayVerdict], target: TargetInfo) -> bool:
    """Tell whether the drive answered single writes faster than flash can be programmed."""
    single = asked.get(StrideWay.WRITES)
    return (
        target.kind in REAL
        and single is not None
        and 0 < single.trace.median_latency_ns < ABSORBED_NS
    )


def saturated(asked: Mapping[StrideWay, WayVerdict]) -> bool:
    """Tell whether parallel writes filled the drive's buffer and had to wait for its flash.

    If the buffer is full, some writes wait for the flash. A write that waits takes longer than the
    shortest time in which NAND can be programmed. A write that waits also takes longer than n
    single writes one after another, where n is the number of parallel writes. So a queue in the
    link or in the controller cannot explain the wait.
    """
    deep, single = asked.get(StrideWay.SATURATED), asked.get(StrideWay.WRITES)
    if deep is None or single is None or not len(deep.trace):
        return False
    slow = float(np.percentile(deep.trace.latencies_ns, SLOW_PERCENTILE))
    return slow >= max(WAITS * ABSORBED_NS, QUEUED * DEEP * single.trace.median_latency_ns)


def buffered(asked: Mapping[StrideWay, WayVerdict]) -> Held | None:
    """Return how many writes the buffer holds, from latencies of single writes; or None.

    The other ways of sending requests do not give latencies of single writes, so they cannot show
    the size of the buffer.
    """
    single = asked.get(StrideWay.WRITES)
    if single is None or single.verdict is None or not single.found:
        return None
    return held(single.trace.series(), single.verdict)


def answer(
    asked: Mapping[StrideWay, WayVerdict], *, target: TargetInfo, block_bytes: int, seed: int
) -> Answer:
    """Return the result; without a block size, add which sizes this search could have found."""
    way = next((w for w, one in asked.items() if one.found), next(iter(asked), None))
    verdict = asked[way].verdict if way is not None else None
    if way is None or verdict is None or not len(asked[way].trace):
        return Answer(BlockSizeFound(answer="nothing was measured"))
    if verdict.best is None:
        return Answer(BlockSizeFound(answer="too little was measured to tell"))
    series = asked[way].trace.series()
    if verdict.lag_writes:
        series = shifted(series, verdict.lag_writes)
    holds = buffered(asked)
    count = None if holds else count_period(series, verdict)
    median = next(iter(asked.values())).trace.median_latency_ns
    said = verdict.block_bytes if target.kind in REAL else None
    shows = verdict.block_bytes is not None or bool(verdict.doubt)
    hidden = not shows and absorbed(asked, target) and not saturated(asked)
    # A buffer that hides the block hides slower writes of any size, so no smallest detectable
    # slowdown can be named.
    effects = {} if shows or hidden else smallest_effects(series, seed=seed)
    found = BlockSizeFound(
        answer=_sentence(verdict, target, hidden=hidden),
        block_bytes=said,
        at_most=said is not None and verdict.at_most,
        phase_bytes=_phase(verdict) if said is not None else None,
        p_value=verdict.p_value,
        confidence=verdict.confidence if said is not None else None,
        strides_agreeing=verdict.best.agreeing,
        buffer_bytes=holds.least_writes * block_bytes if holds and holds.exact else None,
        buffer_least_bytes=holds.least_writes * block_bytes if holds else None,
        buffer_most_bytes=holds.most_writes * block_bytes if holds else None,
        buffer=_buffer(holds, count, verdict, block_bytes)
        or _absorbing(hidden=hidden, answers=absorbed(asked, target)),
        median_latency_ns=round(median),
        evidence=way.value,
        asked="; ".join(w.value for w in asked),
        searched=(
            Searched(
                smallest_bytes=verdict.searched_bytes[0], largest_bytes=verdict.searched_bytes[1]
            ),
        ),
        candidates=tuple(_candidate(e) for e in (verdict.best, *verdict.runners_up)),
        strides=tuple(
            StrideScore(stride_bytes=stride, score=round(score, 2))
            for stride, score in verdict.best.stride_scores
        ),
        smallest_effects=tuple(
            SmallestEffect(block_bytes=size, times_slower=factor)
            for size, factor in effects.items()
        ),
    )
    findings = () if shows else _findings(verdict, effects, median, tuple(asked), hidden=hidden)
    return Answer(found, way, findings)


def _sentence(verdict: BlockVerdict, target: TargetInfo, *, hidden: bool) -> str:
    if verdict.doubt and verdict.best is not None:
        period = format_size(verdict.best.period_bytes)
        return f"cannot tell: peaks every {period}, but {verdict.doubt}"
    if verdict.block_bytes is None:
        return "hidden by the buffer" if hidden else "no boundary found"
    size = format_size(verdict.block_bytes) + (" or less" if verdict.at_most else "")
    if target.kind in REAL:
        return f"block size {size}"
    return f"not a block of a drive: peaks every {size} come from {_behind(target)}"


def _behind(target: TargetInfo) -> str:
    """Name the layers between generator and drive that may cause the peaks of latency."""
    if target.kind is TargetKind.FILE:
        return f"the file system that {target.name} lies on, or from a layer below it"
    if target.kind is not TargetKind.LOOP:
        return "the device mapper or array, or from a layer below it"
    file = target.facts.get("sysfs loop/backing_file", "a file")
    if target.facts.get("sysfs loop/dio") == "1":
        return f"the file below the loop device: {file} and its file system"
    return f"the file below the loop device: {file}, its file system and the host's page cache"


def _phase(verdict: BlockVerdict) -> int | None:
    best = verdict.best
    if verdict.block_bytes is None or best is None or best.form is Form.DELAYED:
        return None
    # The block is not the period of the peaks, so its place is not known.
    if verdict.at_most or verdict.block_bytes > best.period_bytes:
        return None
    return best.place_bytes % verdict.block_bytes


def _buffer(
    holds: Held | None, count: CountPeriod | None, verdict: BlockVerdict, block_bytes: int
) -> str:
    """Describe the write buffer from peaks of latency; "" if blocks explain all peaks."""
    if holds is not None:
        least, most = (
            format_size(n * block_bytes) for n in (holds.least_writes, holds.most_writes)
        )
        if holds.exact:
            return f"write buffer of {least}: peaks come {holds.least_writes} writes late"
        size = f"{least} to {most}" if holds.least_writes > 1 else f"{most} or less"
        return f"write buffer of {size}: this much is written before the peaks of blocks begin"
    if verdict.block_bytes and verdict.best is not None and verdict.best.form is Form.DELAYED:
        return (
            f"cannot tell its size: peaks come {lag(verdict.best)} writes late, or later by the "
            "writes of one or more blocks"
        )
    if count is not None:
        size = format_size(count.writes * block_bytes)
        return (
            f"cannot tell: peaks after every {count.writes} writes ({size}) "
            "come from a buffer that is emptied at once, a stripe or an open superblock"
        )
    return ""


def _absorbing(*, hidden: bool, answers: bool) -> str:
    """Describe the write buffer from latencies, if no peaks of latency show the buffer."""
    if not answers:
        return "no sign of a buffer"
    full = "never showed that it was full" if hidden else "was full under many parallel writes"
    return f"a buffer answers before flash can be programmed; it {full}"


def _candidate(e: Evidence) -> BlockCandidate:
    return BlockCandidate(
        block_bytes=e.period_bytes,
        score=round(e.score, 2),
        form=e.form.value,
        score_region_1=round(e.region_scores[0], 2),
        score_region_2=round(e.region_scores[1], 2),
        strides_agreeing=e.agreeing,
    )


def _findings(
    verdict: BlockVerdict,
    effects: dict[int, float | None],
    median_ns: float,
    ways: tuple[StrideWay, ...],
    *,
    hidden: bool,
) -> tuple[Finding, ...]:
    further = tuple(
        way.value for way in ways if way in (StrideWay.READS_BETWEEN, StrideWay.SATURATED)
    )
    if hidden:
        return (BoundaryHiddenByBuffer(median_ns, further).finding(),)
    smallest, largest = verdict.searched_bytes
    said = NoBoundary(
        smallest,
        largest,
        only_reads=StrideWay.ONLY_READS in ways,
        also_tried=further,
        block_bytes=tuple(effects),
        times_slower=tuple(effects.values()),
    )
    return (said.finding(),)
