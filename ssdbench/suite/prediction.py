"""Predict other workloads of a drive from one run: fit a simulated drive to the run's warm-up.

Nothing is measured, so no answer of this module is VALIDATED. Predicted are random writes, because
only these were compared with real drives (docs/fidelity.md): uniform, Zipf, or with a hot part,
over all that the profile fills.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from ssdbench.errors import UsageError
from ssdbench.model.fitting import misfits
from ssdbench.model.found import FillDone, WarmUp
from ssdbench.model.kind import KINDS
from ssdbench.model.loading import load_profile, misfit_error
from ssdbench.model.profile import Profile, Purge
from ssdbench.model.workload import Pattern, Workload
from ssdbench.report.read import StoredRun
from ssdbench.sim.amplification import UNIT_BYTES, Writes, parsed
from ssdbench.sim.fit import (
    ALONE,
    Parameters,
    observed,
    of_one_run,
    predict_from_one,
    widened,
)
from ssdbench.stages.points import PointStage
from ssdbench.stages.steady import Steady
from ssdbench.stats.series import Series
from ssdbench.suite.assemble import stages
from ssdbench.suite.request import Planning
from ssdbench.units import format_rate

FILLS = 6  # of a predicted workload; its last fill is taken as steady
LEAST_FILLS = 1.5  # of a warm-up; shorter series were not compared with real drives
WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Predicted:
    """One workload: its predicted steady rate with the 90 % interval, or why there is none."""

    point: str
    workload: str
    bytes_per_s: float = math.nan
    low_bytes_per_s: float = math.nan
    high_bytes_per_s: float = math.nan
    iops: float = math.nan
    measured_bytes_per_s: float = math.nan  # only of a point of the run itself
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """All workloads of a profile, and how well the run's own other points were predicted."""

    drives: tuple[Parameters, Parameters]  # fitted; one run does not tell which is right
    warm_up: str
    fills: float
    span_bytes: int  # that the warm-up wrote
    points: tuple[Predicted, ...]
    held_out: tuple[Predicted, ...]  # points of the run that the fit did not see

    def said(self) -> str:
        """Return the parameters of both fits, and what a single run does not tell."""
        spares = [one.physical_bytes / self.span_bytes - 1 for one in self.drives]
        flashes = [format_rate(one.flash_bytes_per_s) for one in self.drives]
        return (
            f"spare area {spares[0]:.1%} and flash {flashes[0]}, or {spares[1]:.1%} and "
            f"{flashes[1]} if the host does not limit the first writes; the mean of both is "
            "predicted. Greedy garbage collection is assumed"
        )


@dataclass(frozen=True, slots=True)
class _Warmed:
    """The warm-up of a run: its workload, and how many bytes of flash one written byte replaces."""

    workload: Workload
    writes: Writes
    times: float
    fills: float
    drives: tuple[Parameters, Parameters]


def prediction(run: StoredRun, profile: Profile, text: str, name: str) -> Prediction:
    """Predict each workload of a profile on the drive of a run.

    Raises UsageError if the run does not tell the drive, ProfileError if the profile does not fit.
    """
    target = run.result.target
    if mistakes := misfits(profile, target):
        raise misfit_error(text, name, mistakes)
    warmed = _warmed(run)
    own = [one for one in _measured(run, warmed) if not one.reason]
    factor = math.exp(max((abs(math.log(_ratio(one))) for one in own), default=0.0))
    planning = Planning.of(profile, target)
    outside = _outside(profile)
    points = []
    for point, label, workload in _asked(profile, planning):
        level = planning.level_bytes
        points.append(_predicted(point, label, workload, level, warmed, factor, outside))
    return Prediction(
        warmed.drives,
        warmed.workload.label(),
        warmed.fills,
        warmed.writes.span_bytes,
        tuple(points),
        tuple(own),
    )


def errors_on_real_drives() -> str:
    """Return how far such predictions were from the rates of real drives, by pattern."""
    words = {"random": "uniform", "zipf": "zipf", "zoned": "hot"}
    said = [f"{words[kind]} {factor:.2f} (n {n})" for kind, (factor, n) in ALONE.items()]
    wider = [
        f"{words[k]} {widened(*one):.2f}" for k, one in ALONE.items() if widened(*one) > one[0]
    ]
    return (
        f"95 % of such predictions of real drives were within a factor of {', '.join(said)}; "
        f"where n is small, the interval is wider: {', '.join(wider)}"
    )


def _ratio(one: Predicted) -> float:
    return one.measured_bytes_per_s / one.bytes_per_s


def _warmed(run: StoredRun) -> _Warmed:
    """Fit a simulated drive to the first warm-up of a run. Raises UsageError if it has none."""
    where = run.directory
    profile = load_profile(run.result.profile_text, f"{where}: profile")
    found = [s.found for s in run.result.stages if isinstance(s.found, WarmUp) and s.found.workload]
    if not found or found[0].workload is None:
        raise UsageError(
            f"{where} has no warm-up, so its rates do not tell the drive",
            hint="Name a run whose profile has `precondition` and `steady`.",
        )
    warm, workload = found[0], found[0].workload
    if outside := _outside(profile):
        raise UsageError(f"{where}: {outside}", hint="Name a run that filled the whole drive.")
    level = Planning.of(profile, run.result.target).level_bytes
    pattern = pattern_of(workload, level)
    ordered = [one for one in profile.precondition if one.pattern.pattern is Pattern.SEQUENTIAL]
    if pattern != "random" or len(ordered) != len(profile.precondition) or not ordered:
        raise UsageError(
            f"{where}: its warm-up is {warm.label}; only random writes over all that was filled, "
            "after a sequential fill, tell the drive",
            hint="Name a run with such a warm-up, such as one of `quick`.",
        )
    unit = warm.mapping.unit_bytes if warm.mapping and warm.mapping.proven else 0
    times = workload.overwrites(unit)
    writes = Writes(
        pattern, level, max(workload.block_bytes, unit, UNIT_BYTES), iodepth=in_flight(workload)
    )
    seconds = run.seconds(warm.seconds_csv)
    if seconds is None:
        raise UsageError(
            f"{where}: {PurePosixPath(warm.seconds_csv)} is missing or damaged",
            hint="Copy the whole run directory.",
        )
    written = np.cumsum(seconds.write_bytes) * times
    fills = float(written[-1]) / level
    if fills < LEAST_FILLS:
        raise UsageError(
            f"{where}: its warm-up wrote {fills:.2g} fills; a prediction needs {LEAST_FILLS:g}",
            hint="Set a larger `steady: max_fills`, and run it again.",
        )
    rate = seconds.write_bytes * times / seconds.duration_s
    series = Series(seconds.t_s, rate, written / level)
    ordered_rates = [
        s.found.ordered_bytes_per_s for s in run.result.stages if isinstance(s.found, FillDone)
    ]
    filled = next((one for one in ordered_rates if one), math.inf)
    return _Warmed(
        workload, writes, times, fills, of_one_run(observed(str(where), writes, series), filled)
    )


def _outside(profile: Profile) -> str:
    """Return why the spare area is not known, if the profile fills only a part of a used drive."""
    if profile.fill_level_percent < WHOLE_PERCENT and profile.purge is Purge.NONE:
        return "it fills a part of the drive without a purge, so the data outside is not known"
    return ""


def in_flight(workload: Workload) -> int:
    """Return how many requests a workload keeps in flight."""
    return workload.iodepth if workload.streams else workload.iodepth * workload.numjobs


def pattern_of(workload: Workload, level_bytes: int) -> str | None:
    """Return the pattern of plain random writes over all `level_bytes`; None for other loads."""
    moving = workload.moving
    if workload.read_percent or workload.trims or not workload.keeps_queue_full:
        return None
    if len(workload.streams) > 1 or len(set(workload.block_sizes)) > 1 or workload.zones:
        return None
    if not (moving[0].random if moving else workload.pattern is Pattern.RANDOM):
        return None
    if workload.range.length_bytes + max(workload.block_sizes) <= level_bytes:
        return None
    options = dict(moving[0].options) if moving else {}
    said = options.get("random_distribution", "random")
    if "percentage_random" in options:
        return None
    try:
        parsed(said)
    except UsageError:  # a distribution that was not compared with real drives
        return None
    return said


def _asked(profile: Profile, planning: Planning) -> Iterator[tuple[str, str, Workload | None]]:
    """Yield name, label and workload of all that a profile writes; None where it has no points."""
    for stage in stages(profile, planning.target):
        if isinstance(stage, Steady):
            yield stage.name, stage.workload.label(), stage.workload
        elif isinstance(stage, PointStage):
            for group in stage.groups:
                yield from ((one.id, one.label(), one.workload) for one in group)
        elif not KINDS[stage.kind].prepares:
            yield stage.name, stage.title, None


def _predicted(
    point: str,
    label: str,
    workload: Workload | None,
    level_bytes: int,
    warmed: _Warmed,
    factor: float,
    outside: str,
) -> Predicted:
    """Return the prediction of one workload; `factor` is the largest error within the run."""
    pattern = pattern_of(workload, level_bytes) if workload else None
    reason = outside
    if workload is None or pattern is None:
        reason = reason or (
            "only random writes over all that is filled are predicted: uniform, zipf or hot"
        )
    elif workload.block_sizes[0] != warmed.workload.block_bytes:
        reason = reason or "its block differs from the warm-up's, for which no error is known"
    elif in_flight(workload) < in_flight(warmed.workload):
        reason = reason or "it has fewer requests in flight than the warm-up"
    if reason or workload is None or pattern is None:
        return Predicted(point, label, reason=reason)
    writes = Writes(pattern, level_bytes, warmed.writes.block_bytes, iodepth=warmed.writes.iodepth)
    try:
        rate = predict_from_one(warmed.drives, writes, FILLS) / warmed.times
    except UsageError as error:
        return Predicted(point, label, reason=error.message)
    wide = max(factor, widened(*ALONE[writes.kind]))
    block = workload.block_sizes[0]
    return Predicted(point, label, rate, rate / wide, rate * wide, rate / block)


def _measured(run: StoredRun, warmed: _Warmed) -> Iterator[Predicted]:
    """Yield the steady points of a run that are another workload than its warm-up."""
    for stage in run.result.stages:
        for found in stage.points:
            point = found.point
            mean = found.estimate("bw_bytes_per_s")
            level = warmed.writes.span_bytes
            if mean is None or found.unsteady or pattern_of(point.workload, level) == "random":
                continue
            said = _predicted(point.id, point.label(), point.workload, level, warmed, 1.0, "")
            yield replace(said, measured_bytes_per_s=mean.value)
