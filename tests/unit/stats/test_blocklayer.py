"""Test the cost of the block layer on repeats with a planted cost."""

import numpy as np
import pytest

from ssdbench.model.point import PointResult, Repeat
from ssdbench.model.workload import ActiveRange, IoEngine, Pattern, Point, Workload
from ssdbench.stats.blocklayer import block_layer_costs

REPEATS = 10


def a_point(engine: IoEngine, request_us: float, *, seed: int, depth: int = 1) -> PointResult:
    """Return a point whose requests take this long, to within 1 %."""
    workload = Workload(
        pattern=Pattern.RANDOM,
        block_bytes=4096,
        read_percent=100,
        iodepth=depth,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 30),
        engine=engine,
    )
    noise = np.random.default_rng(seed).normal(1, 0.01, REPEATS)
    repeats = tuple(
        Repeat(
            point=engine.value, repeat=number, pass_order=0, sequence=number, seed=1, settle_s=1,
            settle=None, measure_from_s=1, measure_to_s=2, iops=depth * 1e6 / (request_us * n),
            bw_bytes_per_s=1, worst_second_iops=1, worst_minute_iops=1, artifacts="",
        )
        for number, n in enumerate(noise, 1)
    )  # fmt: skip
    point = Point(id=engine.value, sweep="01-sweep", workload=workload)
    return PointResult(point=point, repeats=repeats, estimates=(), verdict="VALIDATED")


@pytest.mark.parametrize("depth", [1, 8])
def test_the_cost_that_was_planted_is_found(depth: int) -> None:
    points = [
        a_point(IoEngine.LIBAIO, 90, seed=1, depth=depth),
        a_point(IoEngine.IO_URING, 85, seed=2, depth=depth),
        a_point(IoEngine.IO_URING_CMD, 80, seed=3, depth=depth),
    ]

    (found,) = block_layer_costs(points, "01-sweep")

    assert found.numbers["through"] == "io_uring"  # the like, not the first
    assert found.numbers["shown"] == 1
    low, high = found.numbers["cost_low_ns"], found.numbers["cost_high_ns"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < 5000 < high
    assert low > 3500
    assert high < 6500
    assert "the layer makes each request" in found.message


def test_no_difference_is_called_none() -> None:
    points = [
        a_point(IoEngine.LIBAIO, 80, seed=4),
        a_point(IoEngine.IO_URING_CMD, 80, seed=5),
    ]

    (found,) = block_layer_costs(points, "01-sweep")

    assert found.numbers["through"] == "libaio"
    assert found.numbers["shown"] == 0
    assert "do not show what the block layer costs" in found.message


def test_without_its_like_a_point_tells_no_cost() -> None:
    past = a_point(IoEngine.IO_URING_CMD, 80, seed=6)
    other = a_point(IoEngine.IO_URING, 80, seed=7, depth=2)

    assert not list(block_layer_costs([past], "01-sweep"))
    assert not list(block_layer_costs([past, other], "01-sweep"))
