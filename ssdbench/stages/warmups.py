"""Read the evidence of the warm-up's workload, which ran before the points and again after them."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ssdbench.engine.series import stored_arrays, stored_seconds
from ssdbench.model.found import WarmUp
from ssdbench.model.kind import StageKind
from ssdbench.model.point import Repeat
from ssdbench.model.result import StageResult
from ssdbench.model.rundirectory import HISTOGRAMS
from ssdbench.model.target import TargetInfo
from ssdbench.stages.measuring import read_measured
from ssdbench.stats.bounds.evidence import Role, Stretch, slowest
from ssdbench.stats.bounds.sustained import WarmUpEvidence, began_s, horizon, levels_of
from ssdbench.stats.histogram import Histogram, from_arrays
from ssdbench.stats.series import Series
from ssdbench.stats.steady.pss import MEMORY
from ssdbench.stats.steady.window import Needed, needed_window

STOOD_STILL = 0.5  # below this share of the steady rate, the drive stalled


def read_warm_up(
    results: Sequence[StageResult], run_path: Path, target: TargetInfo, asked_s: float
) -> tuple[WarmUpEvidence, Needed]:
    """Return the newest warm-up's steady part, and the window length that this part requires.

    Without a steady warm-up, the evidence is empty. If the drive was filled after the warm-up, the
    warm-up does not decide the length of windows. Raises UsageError if the warm-up's stored seconds
    are damaged.
    """
    refilled = False
    for index in range(len(results) - 1, -1, -1):
        found = results[index].found
        refilled |= found.kind is StageKind.PRECONDITION
        if isinstance(found, WarmUp):
            verdict = found.verdict
            if found.workload is None or verdict is None or not verdict.steady:
                break
            before = sum(result.bytes_written for result in results[:index])
            before_s = sum(result.duration_s for result in results[:index])
            stretch, needed, stalled_iops = _steady_part(
                run_path / found.seconds_csv,
                verdict.window_from_s,
                (before, before_s),
                target.size_bytes,
                asked_s,
            )
            around = WarmUpEvidence(
                workload=found.workload,
                warm_up=stretch,
                stalled_iops=stalled_iops,
                rhythm_s=needed.rhythm_s,
                capacity_bytes=target.size_bytes,
                refilled=refilled,
                latencies=_latencies((run_path / found.seconds_csv).with_name(HISTOGRAMS)),
            )
            return around, Needed(asked_s) if refilled else needed
    return WarmUpEvidence(capacity_bytes=target.size_bytes), Needed(asked_s)


@lru_cache(maxsize=4)  # needed before each repeat, and large
def _steady_part(
    path: Path, from_s: float, before: tuple[int, float], size_bytes: int, asked_s: float
) -> tuple[Stretch, Needed, float]:
    """Return the steady part, the needed window length, and the rate in a stall (inf: no stall).

    While a drive becomes steady, its rate may for some time be a little below the final level. But
    if, in the last three quarters of the warm-up, the rate over one horizon is less than half of
    the steady rate, the drive stalled.
    """
    before_bytes, before_s = before
    seconds = stored_seconds(path)
    duration_s = np.maximum(seconds["duration_s"], 1e-9)
    steady = seconds["t_s"] > from_s + 1e-9
    ios = seconds["read_ios"] + seconds["write_ios"]
    fills = (before_bytes + np.cumsum(seconds["write_bytes"])) / size_bytes
    series = Series(np.cumsum(duration_s[steady]), (ios / duration_s)[steady], unit="1/s")
    stretch = Stretch(
        Role.WARM_UP,
        series,
        from_fills=float(fills[steady][0]),
        to_fills=float(fills[-1]),
        from_s=before_s + from_s,
    )
    levels = levels_of([stretch]) is not None
    needed = needed_window(asked_s, series, two_levels=levels)
    late = seconds["t_s"] > (1 - MEMORY) * seconds["t_s"][-1]
    remembered = Series(np.cumsum(duration_s[late]), (ios / duration_s)[late], unit="1/s")
    lowest = slowest([remembered], horizon(needed.rhythm_s))
    return stretch, needed, lowest if lowest < STOOD_STILL * stretch.mean else math.inf


@lru_cache(maxsize=4)
def _latencies(path: Path) -> Mapping[str, Sequence[Histogram]]:
    """Return the steady part's latencies by direction; empty for older runs without them."""
    if not path.is_file():
        return {}
    with stored_arrays(path) as stored:
        return {name: from_arrays(stored, name) for name in ("read", "write")}


def read_return(again: Repeat, run_path: Path, target: TargetInfo) -> Stretch:
    """Return, as evidence, the warm-up's workload measured after the points. Raises UsageError."""
    measured = read_measured(run_path / again.artifacts / HISTOGRAMS)
    written = float(measured.write_bytes.sum()) / target.size_bytes
    return Stretch(
        Role.AGAIN,
        measured.evidence,
        from_fills=again.at_fills,
        to_fills=again.at_fills + written,
        from_s=began_s(again, measured),
    )
