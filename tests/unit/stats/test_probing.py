"""What probes make of measurements whose truth is known."""

import numpy as np
import pytest

from ssdbench.stats.probing import (
    buffer_bytes,
    cliff,
    parallelism,
    remap_unit,
    step_down,
    stripe,
)

KIB = 1024


def test_the_remap_unit_is_where_larger_writes_stop_to_pay() -> None:
    rates = {4 * KIB: 25.0, 8 * KIB: 50.0, 16 * KIB: 100.0, 32 * KIB: 104.0, 64 * KIB: 170.0}

    assert remap_unit(rates) == 16 * KIB


def test_rates_that_grow_with_every_size_tell_no_unit() -> None:
    assert remap_unit({4 * KIB: 1.0, 8 * KIB: 2.0, 16 * KIB: 4.0}) is None


def test_parallelism_is_the_rate_over_that_of_one_read() -> None:
    assert parallelism({1: 10, 2: 20, 4: 40, 8: 79, 16: 80, 32: 80}) == (8, 8)


def test_a_rate_that_still_grows_tells_no_parallelism() -> None:
    assert parallelism({1: 10, 2: 20, 4: 40}) is None


def test_the_stripe_is_the_smallest_of_the_slowest_strides() -> None:
    rates = {16: 100.0, 80: 40.0, 96: 99.0, 160: 15.0, 320: 15.1, 448: 97.0}

    assert stripe(rates) == 160


def test_equal_strides_tell_no_stripe() -> None:
    assert stripe({16: 100.0, 32: 90.0, 64: 95.0}) is None


def test_a_cache_ends_where_the_rate_falls_for_good() -> None:
    rate = np.array([500.0] * 20 + [100.0] + [500.0] * 4 + [120.0] * 60)

    found = step_down(list(rate.cumsum()), list(rate))

    assert found is not None
    assert found[0] == pytest.approx(rate[:25].sum())


def test_a_steady_rate_has_no_cache() -> None:
    rate = np.array([500.0] * 60)

    assert step_down(list(rate.cumsum()), list(rate)) is None


def test_the_cliff_tells_the_spare_area_and_the_amplification() -> None:
    rate = np.array([100.0] * 30 + [60.0] * 10 + [25.0] * 80)

    found = cliff(list(rate.cumsum()), list(rate))

    assert found is not None
    assert found == pytest.approx((3000.0, 4.0))


def test_a_buffer_is_what_was_taken_in_less_what_left_meanwhile() -> None:
    latency = [10.0] * 100 + [100.0] * 900  # a tenth of the rate leaves while it fills

    assert buffer_bytes(latency, 4096) == pytest.approx(90 * 4096)


def test_no_rise_is_no_buffer() -> None:
    assert buffer_bytes([10.0] * 1000, 4096) is None
