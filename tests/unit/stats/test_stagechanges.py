"""Test what points of the same hours show about each other, on planted changes and waves."""

import math

import numpy as np
import pytest

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.repeats import RepeatsMove
from ssdbench.model.point import PointResult, Repeat, Verdict
from ssdbench.stats.bounds.evidence import Role, Stretch, pieces
from ssdbench.stats.bounds.stagechanges import alternations, compared_points, longest_wave_s, wave
from ssdbench.stats.bounds.sustained import unseen_drift
from ssdbench.stats.series import Series
from tests.support.builders import a_verdict, series_of
from tests.support.fakes import WearyDrive
from tests.support.runs import a_point

MINUTE_S = 60.0
DRIVE = WearyDrive()
RUNS = 200


def a_repeat(iops: float, sequence: int) -> Repeat:
    return Repeat(
        repeat=sequence, pass_order=0, sequence=sequence, seed=1, settle_s=1, settle=None,
        measure_from_s=1, measure_to_s=2, iops=iops, bw_bytes_per_s=1, worst_second_iops=iops,
        worst_minute_iops=iops, artifacts="x",
    )  # fmt: skip


def a_result(name: str, rates: dict[int, float], *codes: Code) -> PointResult:
    findings = tuple(
        Finding(code=code, severity=Severity.INVALIDATES, message="seen") for code in codes
    )
    verdict: Verdict = "NOT VALIDATED" if codes else "VALIDATED"
    return PointResult(
        point=a_point(DRIVE, name), repeats=tuple(a_repeat(v, n) for n, v in rates.items()),
        estimates=(), verdict=verdict, findings=findings,
    )  # fmt: skip


# One pass after another of two points: even places are writes, odd ones are a mix.
ONE_SLOW_HOUR = {n: 14.5 if n == 6 else 26.0 for n in range(0, 20, 2)}
SLOW_BY_TURNS = {n: 14.5 if n % 4 else 26.0 for n in range(0, 20, 2)}
SLOW_THREE_TIMES = {n: 14.5 if n in (6, 8, 10) else 26.0 for n in range(0, 20, 2)}
CALM = {n: 75.0 + n % 3 for n in range(1, 21, 2)}


def test_a_point_that_was_lucky_is_not_valid_beside_one_that_saw_the_drive_change() -> None:
    writes = a_result("writes", ONE_SLOW_HOUR, Code.CV_TOO_HIGH)
    mix = a_result("mix", CALM)

    _, judged = compared_points([writes, mix], {}, ())

    assert judged.verdict == "NOT VALIDATED"
    (finding,) = judged.findings
    assert finding.code is Code.SHARED_CHANGE
    assert finding.numbers["alternations"] == 0


def test_two_levels_under_one_point_count_against_a_point_that_saw_only_one() -> None:
    levels = Finding(code=Code.BISTABLE, severity=Severity.WARNS, message="seen")
    mix = a_result("mix", CALM).model_copy(update={"findings": (levels,)})
    writes = a_result("writes", ONE_SLOW_HOUR)

    both = compared_points([mix, writes], {}, ())

    assert [one.verdict for one in both] == ["VALIDATED", "NOT VALIDATED"]
    assert both[1].findings[0].numbers["seen"] == "bistable"
    reads = mix.model_copy(update={"point": a_point(DRIVE, "reads", read=100)})
    apart = compared_points([reads, writes], {}, ())
    assert [one.verdict for one in apart] == ["VALIDATED", "VALIDATED"]


@pytest.mark.parametrize("read", [0, 100])
def test_two_levels_hide_no_change_of_their_own_point_or_of_another(read: int) -> None:
    levels = Finding(code=Code.BISTABLE, severity=Severity.WARNS, message="seen")
    slow = a_result("writes", ONE_SLOW_HOUR, Code.CV_TOO_HIGH)
    calm = a_result("other", CALM).model_copy(
        update={"point": a_point(DRIVE, "other", read=read), "findings": (levels,)}
    )

    _, on_levels = compared_points([slow, calm], {}, ())
    assert on_levels.verdict == "NOT VALIDATED"

    slow = slow.model_copy(update={"findings": (*slow.findings, levels)})
    calm = calm.model_copy(update={"findings": ()})
    _, beside_both = compared_points([slow, calm], {}, ())
    assert beside_both.findings[0].numbers["seen"] == "cv-too-high"


def test_a_load_that_alone_is_slow_again_and_again_spoils_no_other() -> None:
    writes = a_result("writes", SLOW_THREE_TIMES, Code.CV_TOO_HIGH)

    _, judged = compared_points([writes, a_result("mix", CALM)], {}, ())

    assert judged.verdict == "VALIDATED"
    assert not judged.findings


def test_repeats_that_differ_by_chance_alone_spoil_no_other_point() -> None:
    rng = np.random.default_rng(3)

    def repeats(levels: list[float]) -> list[Stretch]:
        return [
            Stretch(Role.REPEAT, series_of(rng.normal(level, 40.0, 600), unit="1/s"), number)
            for number, level in enumerate(levels)
        ]

    noisy, slow_once = repeats([26.0] * 10), repeats([26.0] * 6 + [14.5] + [26.0] * 3)
    writes, mix = a_result("writes", ONE_SLOW_HOUR, Code.CV_TOO_HIGH), a_result("mix", CALM)

    assert compared_points([writes, mix], {"writes": noisy}, ())[1].verdict == "VALIDATED"
    assert compared_points([writes, mix], {"writes": slow_once}, ())[1].verdict == "NOT VALIDATED"


@pytest.mark.parametrize(("p", "verdict"), [(0.008, "VALIDATED"), (0.0004, "NOT VALIDATED")])
def test_a_trend_among_many_points_counts_only_beyond_what_chance_gives_to_one(
    p: float, verdict: Verdict
) -> None:
    trend = a_result("writes", ONE_SLOW_HOUR, Code.TREND)
    trend = trend.model_copy(update={"findings": (RepeatsMove(-0.06, -0.6, p).finding(),)})
    others = [a_result(f"mix-{number}", CALM) for number in range(9)]

    judged = compared_points([trend, *others], {}, ())

    assert {point.verdict for point in judged[1:]} == {verdict}


@pytest.mark.parametrize(("unbroken_s", "verdict"), [(0.0, "VALIDATED"), (7200.0, "NOT VALIDATED")])
def test_a_long_repeat_that_never_became_flat_counts_against_the_other_points(
    unbroken_s: float, verdict: Verdict
) -> None:
    """Not so a load that never ran for long: that says nothing of the drive."""
    mix = a_result("mix", CALM, Code.NOT_SUSTAINED)
    first, *rest = mix.repeats
    moving = first.model_copy(update={"unbroken_s": unbroken_s, "settle": a_verdict(steady=False)})
    mix = mix.model_copy(update={"repeats": (moving, *rest)})

    _, judged = compared_points([mix, a_result("writes", CALM)], {}, ())

    assert judged.verdict == verdict


def test_slow_repeats_are_this_loads_own_only_where_the_others_lie_between_two_of_them() -> None:
    mix = [a_repeat(v, n) for n, v in CALM.items()]
    slow_mix = [a_repeat(60.0 if n == 7 else v, n) for n, v in CALM.items()]

    def of(rates: dict[int, float]) -> list[Repeat]:
        return [a_repeat(v, n) for n, v in rates.items()]

    assert alternations(of(SLOW_THREE_TIMES), mix) == 2
    assert alternations(of(ONE_SLOW_HOUR), mix) == 0
    assert alternations(of(SLOW_BY_TURNS), mix) == 0
    assert alternations(of(SLOW_THREE_TIMES), slow_mix) == 0


def a_stage(rng: np.random.Generator, *, swing: float, period_s: float) -> list[list[Stretch]]:
    """Return the evidence of two points under one wave; the first has the warm-up's workload."""
    noise, phase, at_s = float(rng.uniform(0.003, 0.02)), rng.uniform(0, 2 * math.pi), 0.0

    def next_one(role: Role, level: float, seconds: float, number: int = 0) -> Stretch:
        nonlocal at_s
        t_s = np.arange(MINUTE_S, seconds + 1, MINUTE_S)
        depth = swing / 2 * np.sin(2 * math.pi * (at_s + t_s) / period_s + phase)
        # Noise of a minute whose means over ten minutes differ by `noise`.
        rate = level * (1 + depth) * (1 + noise * 10**0.5 * rng.standard_normal(len(t_s)))
        fills = at_s / 3600
        one = Stretch(
            role, Series(t_s, rate, unit="1/s"), number, fills, fills + seconds / 3600, at_s
        )
        at_s += seconds
        return one

    writes, mix = [next_one(Role.WARM_UP, 20.0, 4200)], []
    for number in range(1, 11):
        for index in rng.permutation(2):
            at_s += 0 if number > 1 else 600
            if index:
                mix.append(next_one(Role.REPEAT, 60.0, 660, number))
            else:
                writes.append(next_one(Role.REPEAT, 20.0, 660, number))
    writes.append(next_one(Role.AGAIN, 20.0, 1200))
    return [writes, mix]


def test_waves_within_the_period_that_is_told_are_seen_in_95_of_100_runs() -> None:
    rng, seen = np.random.default_rng(11), 0
    for _ in range(RUNS):
        longest_s = longest_wave_s(a_stage(rng, swing=0.0, period_s=1.0))
        period_s = float(rng.uniform(1800, longest_s))
        seen += (
            wave(a_stage(rng, swing=float(rng.uniform(0.1, 0.3)), period_s=period_s)) is not None
        )

    assert seen >= 0.95 * RUNS


def test_a_flat_drive_seldom_has_a_wave() -> None:
    rng = np.random.default_rng(12)

    found = [wave(a_stage(rng, swing=0.0, period_s=1.0)) for _ in range(RUNS)]

    assert sum(one is not None for one in found) <= 1


def test_the_period_and_the_swing_of_a_planted_wave_are_told() -> None:
    found = wave(a_stage(np.random.default_rng(13), swing=0.2, period_s=7200.0))

    assert found is not None
    assert found.period_s == pytest.approx(7200, rel=0.15)
    assert found.swing == pytest.approx(0.2, rel=0.3)
    assert found.severity() is Severity.INVALIDATES


def test_a_wave_is_a_finding_of_every_point_and_each_says_the_longest_that_it_could_see() -> None:
    points = [a_result("writes", CALM), a_result("mix", CALM)]
    groups = a_stage(np.random.default_rng(13), swing=0.2, period_s=7200.0)
    stretches = {p.point.id: own for p, own in zip(points, groups, strict=True)}

    judged = compared_points(points, stretches, ())

    assert [p.verdict for p in judged] == ["NOT VALIDATED", "NOT VALIDATED"]
    assert all(Code.WAVE in {f.code for f in p.findings} for p in judged)


@pytest.mark.parametrize("per_fill", [0.002, 0.005, 0.02])
def test_a_planted_drift_is_seldom_above_the_one_that_is_told(per_fill: float) -> None:
    rng, above = np.random.default_rng(14), 0
    for _ in range(RUNS):
        own, _ = a_stage(rng, swing=0.0, period_s=1.0)
        falling = [
            Stretch(
                s.role,
                Series(s.series.t_s, s.series.rate * (1 - per_fill) ** s.from_fills, unit="1/s"),
                s.number, s.from_fills, s.to_fills, s.from_s,
            )
            for s in own
        ]  # fmt: skip
        told = unseen_drift(pieces(falling))
        assert told is not None
        above += told < per_fill

    assert above <= 0.05 * RUNS
