"""Test the results for every point of a lot on planted rates, latencies and conditions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.stats.compare import points_of
from ssdbench.stats.estimate import lower_tolerance
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.lots.population import (
    LotPoint,
    Member,
    Questions,
    effects,
    outliers,
    population,
)
from tests.support.builders import with_found
from tests.support.lots import PLANTED_IOPS, a_lot

SHARES = [1, 1.01, 0.99, 1.005, 0.995, 1.012, 0.988, 1.002, 0.998, 1.007, 0.992, 1.003]


def at_depth(point: PointResult, depth: int) -> PointResult:
    workload = point.point.workload.model_copy(update={"iodepth": depth})
    own = point.point.model_copy(update={"workload": workload})
    return point.model_copy(update={"point": own})


def asked(
    directory: Path,
    shares: Sequence[float],
    *,
    points: int = 1,
    failing: int | None = None,
    conditions: Sequence[Mapping[str, Any]] = (),
    latencies_ns: Sequence[float] = (),
) -> tuple[LotPoint, ...]:
    """Return the results for drives with these shares of the planted rate, at equal points."""
    members = []
    for place, run in enumerate(a_lot(directory, shares)):
        result = RunResult.model_validate_json((run / "result.json").read_text())
        (stage,) = result.stages
        (point,) = stage.points
        more = [at_depth(point, depth) for depth in range(1, points)]
        verdict = "NOT VALIDATED" if place == failing else result.verdict
        stages = (with_found(stage, points=(point, *more)),)
        result = result.model_copy(update={"stages": stages, "verdict": verdict})
        held = Histogram.of([latencies_ns[place]] * 1000) if latencies_ns else Histogram.empty()
        members.append(
            Member(
                result,
                conditions[place] if conditions else {},
                {key: {"write": held} for key in points_of(result)},
            )
        )
    return population(members, Questions())


def test_the_normal_bound_is_of_drives_that_all_passed(tmp_path: Path) -> None:
    (whole,) = asked(tmp_path / "a", SHARES)
    (one_failed,) = asked(tmp_path / "b", SHARES, failing=3)

    bound = lower_tolerance(PLANTED_IOPS * np.array(SHARES))
    assert whole.normal_iops == pytest.approx(bound)
    assert one_failed.normal_iops is None
    assert one_failed.of_model.rate_iops is None


def test_latencies_are_of_all_drives_of_the_worst_and_of_the_one_that_95_percent_beat(
    tmp_path: Path,
) -> None:
    planted = [1e6 * (n + 1) for n in range(20)]
    (found,) = asked(tmp_path, [1.0] * 20, latencies_ns=planted)

    median, *tails = found.latencies
    assert (median.direction, median.name) == ("write", "p50")
    assert median.merged_ns == pytest.approx(10e6, rel=0.02)
    for tail in (median, *tails):
        assert tail.worst == 19
        assert tail.worst_ns == pytest.approx(20e6, rel=0.02)
        assert tail.slow_drive_ns == pytest.approx(19e6, rel=0.02)
    assert tails[0].merged_ns == pytest.approx(20e6, rel=0.02)  # p99


def test_what_is_odd_and_what_conditions_do_is_corrected_for_the_number_of_points(
    tmp_path: Path,
) -> None:
    own = [{"firmware": f"v{n % 2}"} for n in range(len(SHARES))]
    rates = PLANTED_IOPS * np.array(SHARES)
    single = effects(list(rates), {"firmware": [one["firmware"] for one in own]})[0].p

    (alone,) = asked(tmp_path / "1", SHARES, conditions=own)
    three = asked(tmp_path / "3", SHARES, conditions=own, points=3)

    one_test, three_tests = outliers(rates), outliers(rates, tests=3)
    assert one_test and three_tests and single
    assert alone.odd_limit == pytest.approx(float(one_test.limit))
    assert len(three) == 3
    for point in three:
        assert point.odd_limit == pytest.approx(float(three_tests.limit))
        assert point.effects[0].p == pytest.approx(min(1.0, 3 * single))  # Holm, of equal ones
    assert alone.effects[0].p == pytest.approx(single)
