"""Compare the points of one stage, which were measured in the same hours.

Three questions need several points for an answer. First: did the drive change while another point
was measured? If the drive changed, this point may have been measured at a lucky time, so it is not
valid either. This point stays valid if the other point varies only by chance. This point also stays
valid if none of its repeats was slow, and if at least twice the other point was slow both just
before and just after a repeat of this point. Second: does the rate rise and fall in a wave over
hours? If there is a wave, all points show the same wave, each around its own mean rate. Third:
which period has the slowest wave that this run could detect?
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.repeats import ALTERNATIONS, SharedChange, Wave
from ssdbench.model.point import PointResult, Repeat
from ssdbench.stats.bounds.changes import changed
from ssdbench.stats.bounds.evidence import BLOCKS, HORIZON_S, Role, Stretch, pieces
from ssdbench.stats.distributions import f_upper_p
from ssdbench.stats.series import Floats, History

# The drive may show a change with these codes under any load.
OF_THE_DRIVE = (Code.CHANGED, Code.CV_TOO_HIGH, Code.TREND, Code.NOT_SUSTAINED)
SLOW = 0.95  # of a point's usual rate: a repeat below it was slow
CHANCE_P = 0.01  # p-value of chance; below it the drive changed
USUAL = 0.75  # quantile of the repeats that is the usual rate

SHORTEST_WAVE_S = 2 * HORIZON_S  # shorter ones are in each mean over a horizon
SEEN_SHARE = 0.75  # of the time from first to last evidence: the longest wave that is seen for sure
WAVE_P = 0.001  # after the correction for the periods tried
LEAST_SWING = 0.04  # of the mean, from lowest to highest
OVERSAMPLED = 4  # periods tried per independent one
LEAST_WAVE_PIECES = 8


def compared_points(
    points: Sequence[PointResult],
    stretches: Mapping[str, Sequence[Stretch]],
    others: Sequence[Sequence[Stretch]],
) -> tuple[PointResult, ...]:
    """Add to each point the findings of the comparison, and the longest wave that it could detect.

    `stretches` holds the evidence of each point, by the id of the point. `others` holds the
    evidence of other workloads: the points of earlier stages, and the warm-up if no point has its
    workload.
    """
    groups = [own for own in (*stretches.values(), *others) if own]
    longest_s = longest_wave_s(groups)
    common = wave(groups)
    found = []
    for point in points:
        own = wave([stretches.get(point.point.id, ())]) if common is None else common
        more = [*_shared(point, points, stretches), *([own.finding()] if own else [])]
        found.append(_with(point, more, longest_s))
    return tuple(found)


def _with(point: PointResult, more: Sequence[Finding], longest_s: float) -> PointResult:
    named = [finding.model_copy(update={"point": point.point.id}) for finding in more]
    invalid = any(finding.severity is Severity.INVALIDATES for finding in named)
    verdict = "NOT VALIDATED" if invalid and point.verdict == "VALIDATED" else point.verdict
    basis = point.basis
    if basis is not None and longest_s > 0:
        basis = basis.model_copy(update={"longest_wave_s": longest_s})
    return point.model_copy(
        update={"findings": (*point.findings, *named), "verdict": verdict, "basis": basis}
    )


def _shared(
    point: PointResult,
    points: Sequence[PointResult],
    stretches: Mapping[str, Sequence[Stretch]],
) -> Iterator[Finding]:
    """Yield the first change under another point that may also affect this point."""
    if _changed(point) is not None:
        return  # it says so itself
    for other in points:
        if other is point:
            continue
        code = _changed(other)
        if code is None or _by_chance(
            other, code, stretches.get(other.point.id, ()), of=len(points)
        ):
            code = Code.BISTABLE if _only_on_two_levels(other, point) else None
        if code is None:
            continue
        times = alternations(other.repeats, point.repeats)
        if times < ALTERNATIONS:
            yield SharedChange(other.point.label(), code.value, times).finding()
            return


def _changed(point: PointResult) -> Code | None:
    """Return the code of a finding of a change that makes this point invalid, or None."""
    invalid = [f.code for f in point.findings if f.severity is Severity.INVALIDATES]
    if not any(repeat.unbroken_s and not repeat.settled for repeat in point.repeats):
        invalid = [code for code in invalid if code is not Code.NOT_SUSTAINED]  # it never ran long
    return next((code for code in invalid if code in OF_THE_DRIVE), None)


def _only_on_two_levels(other: PointResult, point: PointResult) -> bool:
    """Tell whether `other` moved between two levels while `point` was on one level only.

    A point with two levels stays valid, because its bound is the bound of the lower level. But
    `point` may have been measured only while the drive was on the upper level. Points that only
    read are measured after the points that write. So reads and writes cannot show whether two
    levels belong to only one of the loads (as levels from heat do), and are not compared.
    """
    codes = [{finding.code for finding in one.findings} for one in (other, point)]
    in_turn = other.point.workload.writes == point.point.workload.writes
    return in_turn and [Code.BISTABLE in own for own in codes] == [True, False]


def _by_chance(point: PointResult, code: Code, stretches: Sequence[Stretch], *, of: int) -> bool:
    """Tell whether chance explains this finding, if `of` points are tested (Bonferroni)."""
    if code is Code.CV_TOO_HIGH:
        return by_chance(stretches)
    if code is Code.TREND:
        p = next((f.numbers.get("p") for f in point.findings if f.code is code), None)
    else:
        change = changed(stretches)
        p = None if change is None else change.p
    return isinstance(p, int | float) and p * of > CHANCE_P


def by_chance(stretches: Sequence[Stretch]) -> bool:
    """Tell whether repeats differ no more than the parts of one repeat differ.

    The test is a one-way analysis of variance: the repeats are the groups, and each is cut into
    ten parts whose mean rates are the values.
    """
    cut = [
        History.of(s.series).blocks(0.0, s.seconds, BLOCKS)
        for s in stretches
        if s.role is Role.REPEAT and s.seconds > 0
    ]
    if len(cut) < 2:
        return False
    between = float(np.var([blocks.mean() for blocks in cut], ddof=1)) * BLOCKS
    within = float(np.mean([blocks.var(ddof=1) for blocks in cut]))
    if not within:
        return not between
    return f_upper_p(between / within, len(cut) - 1, len(cut) * (BLOCKS - 1)) > CHANCE_P


def alternations(changed: Sequence[Repeat], steady: Sequence[Repeat]) -> int:
    """Count the repeats of `steady` between two slow repeats in a row of `changed`.

    A repeat is slow if it is below 95 % of its point's usual rate (`SLOW`). Several repeats of
    `steady` between the same two slow repeats count once. The result is 0 if any repeat of `steady`
    was slow itself.
    """
    slow_steady = _slow(steady)
    if any(slow_steady):
        return 0
    order = sorted(zip(changed, _slow(changed), strict=True), key=lambda pair: pair[0].sequence)
    count = 0
    for (first, slow_before), (second, slow_after) in zip(order, order[1:], strict=False):
        if slow_before and slow_after:
            count += any(first.sequence < one.sequence < second.sequence for one in steady)
    return count


def _slow(repeats: Sequence[Repeat]) -> list[bool]:
    rates = [repeat.iops for repeat in repeats]
    usual = float(np.quantile(rates, USUAL)) if rates else 0.0
    return [rate < SLOW * usual for rate in rates]


def longest_wave_s(groups: Sequence[Sequence[Stretch]]) -> float:
    """Return the longest period, in s, of a wave that the evidence surely shows.

    The wave has a swing of 10 % from lowest to highest. The result is 0 without evidence.
    """
    ends = [end for own in groups for s in own for end in (s.from_s, s.from_s + s.seconds)]
    return SEEN_SHARE * (max(ends) - min(ends)) if ends else 0.0


def wave(groups: Sequence[Sequence[Stretch]]) -> Wave | None:
    """Search the rates of all groups for one common wave around each group's mean; None if none.

    A sine of each period is fitted by least squares to the logarithms of the rates of the pieces
    (Lomb 1976, Scargle 1982), with one mean level for each group; the p-value of the F-test is
    corrected for the number of tested periods.
    """
    cut = [pieces(own) for own in groups]
    parts = [(number, piece) for number, own in enumerate(cut) for piece in own if piece.mean > 0]
    if len(parts) < LEAST_WAVE_PIECES + 2 * len({number for number, _ in parts}):
        return None
    t_s = np.array([piece.at_s for _, piece in parts])
    logs = np.log([piece.mean for _, piece in parts])
    numbers = [number for number, _ in parts]
    levels = np.equal.outer(numbers, sorted(set(numbers))).astype(np.float64)
    span_s = float(np.ptp(t_s))
    if span_s < SHORTEST_WAVE_S:
        return None
    most = max(OVERSAMPLED + 1, int(OVERSAMPLED * span_s / SHORTEST_WAVE_S))
    fits = (_fit(t_s, logs, levels, span_s * OVERSAMPLED / n) for n in range(OVERSAMPLED, most + 1))
    best = min(fits, key=lambda fit: fit[0])
    p = min(1.0, best[0] * max(1.0, span_s / SHORTEST_WAVE_S))
    if p > WAVE_P or best[2] < LEAST_SWING:
        return None
    return Wave(period_s=best[1], swing=best[2], periods=span_s / best[1], p=p)


def _fit(t_s: Floats, logs: Floats, levels: Floats, period_s: float) -> tuple[float, float, float]:
    """Fit a sine of this period; return its p-value, the period, and the swing as a share."""
    angle = 2 * math.pi * t_s / period_s
    design = np.column_stack([levels, np.cos(angle), np.sin(angle)])
    without = logs - levels @ np.linalg.lstsq(levels, logs, rcond=None)[0]
    solved = np.linalg.lstsq(design, logs, rcond=None)[0]
    rest = float(((logs - design @ solved) ** 2).sum())
    freedom = len(logs) - design.shape[1]
    gain = max(0.0, float((without**2).sum()) - rest) / 2
    p = f_upper_p(gain * freedom / rest, 2, freedom) if rest > 0 and freedom > 0 else 1.0
    curve = design[:, -2:] @ solved[-2:]
    return p, period_s, float(math.expm1(float(np.ptp(curve))))
