"""The verdict on a drive's blocks in words and numbers, for people and for programs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stages.stridetrace import Trace
from ssdbench.stages.strideways import DEEP, Way
from ssdbench.stats.blocksize import BlockVerdict, Evidence, Form, smallest_effects
from ssdbench.stats.writecount import CountPeriod, count_period, lag
from ssdbench.units import format_ns, format_size

ABSORBED_NS = 60_000  # a write that is answered faster was not programmed: NAND takes longer
WAITS = 2.0  # times what is absorbed: at depth, writes had to wait for the medium
QUEUED = 1.5  # times as many single writes, for their own spread
SLOW_PERCENTILE = 99.0
REAL = (TargetKind.DRIVE, TargetKind.SIMULATED, TargetKind.VIRTUAL)
READS_ARE_WEAK = (
    "Reads are far weaker evidence than writes: a drive merges when it is written to. The "
    "simulated memoright-gt shows its blocks to writes and not to reads."
)

Scalar = str | int | float | bool | None


@dataclass(slots=True)
class Asked:
    """What a drive said in one way of asking, and what is made of it."""

    trace: Trace
    verdict: BlockVerdict | None = None

    @property
    def found(self) -> bool:
        """Whether a block is shown."""
        return self.verdict is not None and self.verdict.block_bytes is not None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said about a drive."""

    block_bytes: int | None
    way: Way | None  # whose evidence it is; None without any
    summary: dict[str, Scalar]
    data: dict[str, object]
    findings: tuple[Finding, ...]


def absorbed(asked: Mapping[Way, Asked], target: TargetInfo) -> bool:
    """Whether a drive answered single writes before anything can have been programmed."""
    single = asked.get(Way.WRITES)
    return (
        target.kind in REAL
        and single is not None
        and 0 < single.trace.median_latency_ns < ABSORBED_NS
    )


def saturated(asked: Mapping[Way, Asked]) -> bool:
    """Whether the buffer was full when many writes were under way, so that it can hide nothing.

    Then writes wait for programs: longer than NAND takes at the least, and longer than as many
    writes one after another, which a queue on the link or in the drive's processor explains.
    """
    deep, single = asked.get(Way.SATURATED), asked.get(Way.WRITES)
    if deep is None or single is None or not len(deep.trace):
        return False
    slow = float(np.percentile(np.concatenate(deep.trace.latencies), SLOW_PERCENTILE))
    return slow >= max(WAITS * ABSORBED_NS, QUEUED * DEEP * single.trace.median_latency_ns)


def answer(
    asked: Mapping[Way, Asked], *, target: TargetInfo, block_bytes: int, seed: int
) -> Answer:
    """Put verdicts into words, with the buffer, or with what could have been found."""
    way = next((w for w, one in asked.items() if one.found), next(iter(asked), None))
    verdict = asked[way].verdict if way is not None else None
    if way is None or verdict is None or not len(asked[way].trace):
        return _nothing("nothing was measured")
    if verdict.best is None:
        return _nothing("too little was measured to tell")
    series = asked[way].trace.series()
    count = count_period(series, verdict, block_bytes=block_bytes)
    late = lag(series, verdict)
    median = next(iter(asked.values())).trace.median_latency_ns
    hidden = verdict.block_bytes is None and absorbed(asked, target) and not saturated(asked)
    # What is hidden would not have been found, whatever its effect.
    effects = {} if verdict.block_bytes or hidden else smallest_effects(series, seed=seed)
    summary = {
        "answer": _sentence(verdict, hidden=hidden),
        "block_bytes": verdict.block_bytes,
        "phase_bytes": _phase(verdict),
        "p_value": verdict.p_value,
        "confidence": verdict.confidence,
        "strides_agreeing": verdict.best.agreeing,
        "buffer_bytes": _buffer_bytes(count, late, block_bytes),
        "buffer": _buffer(count, late, block_bytes, hidden=hidden),
        "median_latency_ns": round(median),
        "evidence": way.value,
        "asked": "; ".join(w.value for w in asked),
    }
    data: dict[str, object] = {
        "searched": [
            {
                "smallest_bytes": verdict.searched_bytes[0],
                "largest_bytes": verdict.searched_bytes[1],
            }
        ],
        "candidates": [_row(e) for e in (verdict.best, *verdict.runners_up)],
        "strides": _strides(verdict.best),
        "smallest_effects": [
            {"block_bytes": size, "times_slower": factor} for size, factor in effects.items()
        ],
    }
    found = _findings(verdict, effects, median, tuple(asked), hidden=hidden)
    return Answer(verdict.block_bytes, way, summary, data, found)


def _nothing(answer: str) -> Answer:
    return Answer(None, None, {"answer": answer, "block_bytes": None}, {}, ())


def trouble(cut_short: str, errors: int) -> list[Finding]:
    """What kept the measurement from being whole."""
    found = []
    if cut_short:
        found.append(
            Finding(
                code=Code.CUT_SHORT,
                severity=Severity.INVALIDATES,
                message=f"the strides ended early: {cut_short}",
                advice="What was measured was judged and is kept; run it again for the rest.",
            )
        )
    if errors:
        found.append(
            Finding(
                code=Code.IO_ERRORS,
                severity=Severity.INVALIDATES,
                message=f"{errors} requests failed",
                advice="The drive is faulty or worn out; see its SMART log.",
            )
        )
    return found


def _sentence(verdict: BlockVerdict, *, hidden: bool) -> str:
    if verdict.block_bytes is not None:
        return f"block size {format_size(verdict.block_bytes)}"
    return "hidden by the buffer" if hidden else "no boundary found"


def _phase(verdict: BlockVerdict) -> int | None:
    best = verdict.best
    if verdict.block_bytes is None or best is None or best.form is Form.DELAYED:
        return None
    return best.place_bytes


def _buffer_bytes(count: CountPeriod | None, late: int | None, block_bytes: int) -> int | None:
    if count is not None:
        return count.bytes
    return None if late is None else late * block_bytes


def _buffer(count: CountPeriod | None, late: int | None, block_bytes: int, *, hidden: bool) -> str:
    if count is not None:
        return (
            f"write buffer or open superblock of {format_size(count.bytes)}: peaks after every "
            f"{count.writes} writes"
        )
    if late is not None:
        return (
            f"write buffer of {format_size(late * block_bytes)}: peaks come {late} writes late "
            "(or by a whole number of blocks' worth of writes more)"
        )
    return "it never showed that it was full" if hidden else "no sign of a buffer"


def _row(e: Evidence) -> dict[str, object]:
    return {
        "block_bytes": e.period_bytes,
        "score": round(e.score, 2),
        "form": e.form.value,
        "score_region_1": round(e.region_scores[0], 2),
        "score_region_2": round(e.region_scores[1], 2),
        "strides_agreeing": e.agreeing,
    }


def _strides(best: Evidence | None) -> list[dict[str, object]]:
    if best is None:
        return []
    return [{"stride_bytes": s, "score": round(score, 2)} for s, score in best.stride_scores]


def _findings(
    verdict: BlockVerdict,
    effects: dict[int, float | None],
    median_ns: float,
    ways: tuple[Way, ...],
    *,
    hidden: bool,
) -> tuple[Finding, ...]:
    if verdict.block_bytes is not None:
        return ()
    further = [way for way in ways if way in (Way.READS_BETWEEN, Way.SATURATED)]
    also = f", also not with {' and '.join(further)}" if further else ""
    neither = f"; {' and '.join(further)} show none either" if further else ""
    if hidden:
        return (
            Finding(
                code=Code.HIDDEN_BY_BUFFER,
                severity=Severity.NOTES,
                message=f"writes were answered in {format_ns(median_ns)}, faster than flash can be "
                f"programmed: if there is a block boundary, the write buffer hides it{neither}",
                advice="A page-mapped drive has none; its superblocks follow the amount written.",
            ),
        )
    return (
        Finding(
            code=Code.NO_BOUNDARY,
            severity=Severity.NOTES,
            message=f"no boundary found between {format_size(verdict.searched_bytes[0])} and "
            f"{format_size(verdict.searched_bytes[1])}{also}; {_detectable(effects, ways)}",
            advice=READS_ARE_WEAK
            if Way.ONLY_READS in ways
            else "Page-mapped drives, loop devices and files have no block boundary to find.",
        ),
    )


def _detectable(effects: dict[int, float | None], ways: tuple[Way, ...]) -> str:
    """The smallest effect that would have been found, block sizes of equal effect together."""
    what = "reads from" if Way.ONLY_READS in ways else "writes into"
    parts = []
    for factor in dict.fromkeys(effects.values()):
        sizes = listed([format_size(size) for size, f in effects.items() if f == factor])
        parts.append(
            f"blocks of {sizes} if {what} a new block took {factor:g} times as long"
            if factor is not None
            else f"blocks of {sizes} at no effect that was tried"
        )
    return "it would have found " + ", ".join(parts) if parts else "nothing was injected"


def listed(items: list[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
