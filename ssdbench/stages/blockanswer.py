"""The verdict on a drive's blocks in words and numbers, for people and for programs."""

from dataclasses import dataclass

import numpy as np

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stages.stridetrace import Trace
from ssdbench.stats.blocksize import BlockVerdict, Evidence, Form, smallest_effects
from ssdbench.stats.writecount import CountPeriod, count_period, lag
from ssdbench.units import format_ns, format_size

ABSORBED_NS = 60_000  # a write that is answered faster was not programmed: NAND takes longer
REAL = (TargetKind.DRIVE, TargetKind.SIMULATED, TargetKind.VIRTUAL)
READS_ARE_WEAK = (
    "reads seldom show block boundaries; only writes (without --read-only) are good evidence"
)

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said about a drive."""

    block_bytes: int | None
    summary: dict[str, Scalar]
    data: dict[str, object]
    findings: tuple[Finding, ...]


def answer(
    trace: Trace,
    verdict: BlockVerdict | None,
    *,
    target: TargetInfo,
    block_bytes: int,
    read_only: bool,
    seed: int,
) -> Answer:
    """Put a verdict into words, with the buffer, or with what could have been found."""
    if verdict is None or not len(trace):
        summary: dict[str, Scalar] = {"answer": "nothing was measured", "block_bytes": None}
        return Answer(None, summary, {}, ())
    series = trace.series()
    count = count_period(series, verdict, block_bytes=block_bytes)
    late = lag(series, verdict)
    median = float(np.median(trace.arrays()["latency_ns"].astype(np.float64)))
    hidden = verdict.block_bytes is None and median < ABSORBED_NS and target.kind in REAL
    effects = {} if verdict.block_bytes else smallest_effects(series, seed=seed)
    summary = {
        "answer": _sentence(verdict, hidden=hidden and not read_only),
        "block_bytes": verdict.block_bytes,
        "phase_bytes": _phase(verdict),
        "p_value": verdict.p_value,
        "confidence": verdict.confidence,
        "strides_agreeing": verdict.best.agreeing if verdict.best else 0,
        "buffer_bytes": _buffer_bytes(count, late, block_bytes),
        "buffer": _buffer(count, late, block_bytes),
        "median_latency_ns": round(median),
        "evidence": READS_ARE_WEAK if read_only else "writes",
    }
    data: dict[str, object] = {
        "searched": [
            {
                "smallest_bytes": verdict.searched_bytes[0],
                "largest_bytes": verdict.searched_bytes[1],
            }
        ],
        "candidates": [_row(e) for e in (verdict.best, *verdict.runners_up) if e],
        "strides": _strides(verdict.best),
        "smallest_effects": [
            {"block_bytes": size, "times_slower": factor} for size, factor in effects.items()
        ],
    }
    found = _findings(verdict, effects, median, hidden=hidden and not read_only)
    return Answer(verdict.block_bytes, summary, data, found)


def trouble(cut_short: str, errors: int) -> list[Finding]:
    """What kept the measurement from being whole."""
    found = []
    if cut_short:
        found.append(
            Finding(
                code=Code.CUT_SHORT,
                severity=Severity.INVALIDATES,
                message=f"the strided writes ended early: {cut_short}",
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


def _buffer(count: CountPeriod | None, late: int | None, block_bytes: int) -> str:
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
    return "no sign of a buffer"


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
    verdict: BlockVerdict, effects: dict[int, float | None], median_ns: float, *, hidden: bool
) -> tuple[Finding, ...]:
    if verdict.block_bytes is not None:
        return ()
    if hidden:
        return (
            Finding(
                code=Code.HIDDEN_BY_BUFFER,
                severity=Severity.NOTES,
                message=f"writes were answered in {format_ns(median_ns)}, faster than flash can be "
                "programmed: if there is a block boundary, the write buffer hides it",
                advice="A page-mapped drive has none; its superblocks follow the amount written.",
            ),
        )
    return (
        Finding(
            code=Code.NO_BOUNDARY,
            severity=Severity.NOTES,
            message=f"no boundary found between {format_size(verdict.searched_bytes[0])} and "
            f"{format_size(verdict.searched_bytes[1])}; {_detectable(effects)}",
            advice="Page-mapped drives, loop devices and files have no block boundary to find.",
        ),
    )


def _detectable(effects: dict[int, float | None]) -> str:
    parts = [
        f"{format_size(size)} blocks if writes into a new block took {factor:g} times as long"
        if factor is not None
        else f"{format_size(size)} blocks at no effect that was tried"
        for size, factor in effects.items()
    ]
    return "it would have found " + ", ".join(parts) if parts else "nothing was injected"
