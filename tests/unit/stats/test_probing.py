"""Test what probes conclude from measurements with a known truth."""

from heapq import heappop, heappush
from typing import Any, cast

import numpy as np
import pytest

from ssdbench.model.result import StageResult
from ssdbench.stages.probe.bench import Bench, Resting
from ssdbench.stages.probe.buffers import SlcCache
from ssdbench.stages.probe.reads import Wake
from ssdbench.stats.inside.probing import (
    Flush,
    Shifted,
    Trimmed,
    buffer_bytes,
    falls_at_once,
    fast_writes,
    flush_waits,
    known_remap_unit,
    parallelism,
    read_chunk,
    remap_unit,
    step_down,
    stripe,
    trim_effect,
    wake_cost_ns,
    waking_energy,
)
from tests.support.builders import a_target, stage_result

KIB, MIB = 1024, 1 << 20


def shifted(unit: int, *, link: float = 1e9, flash: float = 100.0) -> dict[int, Shifted]:
    """Return the rates of a drive with a remap unit, whose link may hide what its flash does."""
    rates = {}
    for size in (n * KIB for n in (8, 16, 32, 64, 128, 256)):
        whole = max(size / unit, 1.0)  # units that an aligned write costs
        crossed = 1 + min(size / unit, 1.0) if size <= unit else whole
        crossed = 2.0 if size == unit else crossed
        aligned, moved = (min(link, flash * size / unit / cost) for cost in (whole, crossed))
        rates[size] = Shifted(aligned, (moved, moved))
    return rates


@pytest.mark.parametrize("kib", [8, 16, 32, 64, 128])
def test_the_remap_unit_is_the_largest_size_at_which_a_shift_costs(kib: int) -> None:
    assert remap_unit(shifted(kib * KIB)) == (kib * KIB, False)


def test_a_drive_whose_shifted_writes_cost_nothing_has_a_unit_of_a_host_page_or_less() -> None:
    assert remap_unit(shifted(4 * KIB)) == (4 * KIB, True)


def test_a_unit_that_may_be_larger_than_every_size_is_not_told() -> None:
    assert remap_unit(shifted(256 * KIB)) is None
    assert remap_unit(shifted(MIB)) is None


@pytest.mark.parametrize("link", [53, 55, 58, 60, 65, 80, 95])
def test_a_link_never_makes_half_of_the_unit_look_like_the_unit(link: float) -> None:
    assert remap_unit(shifted(64 * KIB, link=link)) in (None, (64 * KIB, False))


def test_rates_that_change_meanwhile_tell_no_unit() -> None:
    rates = shifted(16 * KIB)
    cached = {**rates, 32 * KIB: Shifted(100.0, (900.0, 50.0))}

    assert remap_unit(cached) is None
    assert remap_unit({32 * KIB: Shifted(100.0, (95.0, 120.0))}) is None  # aligned ones: too slow


def a_probe(**numbers: object) -> StageResult:
    return stage_result("probe", {"numbers": numbers})


def test_the_largest_remap_unit_that_is_known_counts() -> None:
    drive = a_target(physical_block_bytes=4 * KIB)

    assert known_remap_unit(drive, ()) == 4 * KIB
    assert known_remap_unit(drive, [a_probe(remap_unit_bytes=16 * KIB)]) == 16 * KIB
    assert known_remap_unit(drive, [a_probe(remap_unit_bytes=8 * KIB, at_most=True)]) == 4 * KIB
    searched = stage_result("blocksize", {"remap_unit_bytes": 32 * KIB})
    assert known_remap_unit(drive, [searched]) == 32 * KIB
    assert known_remap_unit(a_target(remap_unit_bytes=64 * KIB), [a_probe()]) == 64 * KIB


def test_the_chunk_is_twice_the_stride_from_which_pairs_of_reads_do_not_wait() -> None:
    pairs = {stride: pair_rate(stride, chunk=32, dies=10) for stride in (4, 8, 12, 16, 24, 32, 64)}

    assert read_chunk(pairs, alone=1.0) == 32


def pair_rate(stride: int, *, chunk: int, dies: int) -> float:
    """Return the rate of two parallel reads at a stride, in units of one read's rate."""
    free, under_way = [0] * dies, [0, 0]
    for n in range(1000):
        die = n * stride // chunk % dies
        free[die] = max(free[die], heappop(under_way)) + 1
        heappush(under_way, free[die])
    return 1000 / max(free)


def test_reads_that_do_not_wait_for_dies_tell_no_chunk() -> None:
    assert read_chunk({8: 2.0, 16: 2.0, 640: 1.98}, alone=1.0) is None
    assert read_chunk({8: 2.0, 16: 2.0, 640: 1.2}, alone=1.0) == 16


def test_two_reads_that_are_no_faster_than_one_tell_no_chunk() -> None:
    assert read_chunk({4: 1.0, 8: 1.0, 16: 1.1}, alone=1.0) is None


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

    found = step_down(list(rate))

    assert found is not None
    assert found[0] == pytest.approx(rate[:25].sum(), rel=0.02)


def test_the_second_in_which_a_cache_ends_is_divided() -> None:
    found = step_down([500.0] * 5 + [196.0] + [120.0] * 60)  # a fifth of that second was fast

    assert found is not None
    assert found[0] == pytest.approx(2600)


def test_a_rate_that_falls_within_two_seconds_is_known_to() -> None:
    assert falls_at_once([500.0] + [120.0] * 60)
    assert not falls_at_once([500.0] * 20 + [120.0] * 60)
    assert not falls_at_once([500.0] * 60)


def test_a_steady_rate_has_no_cache() -> None:
    rate = np.array([500.0] * 60)

    assert step_down(list(rate)) is None


def test_a_buffer_is_what_was_taken_in_less_what_left_meanwhile() -> None:
    latency = [10.0] * 100 + [100.0] * 900  # a tenth of the rate leaves while it fills

    assert buffer_bytes(latency, 4096, 1) == pytest.approx(90 * 4096, rel=0.01)


def test_a_small_buffer_from_which_nothing_left_yet_is_not_taken_for_a_smaller_one() -> None:
    latency = burst(slots=16, taken_every=10.0, batch=8, leaves_every=300.0)

    assert buffer_bytes(latency, 4096, 4) == pytest.approx(16 * 4096, rel=0.2)


def burst(*, slots: int, taken_every: float, batch: int, leaves_every: float) -> list[float]:
    """Return latencies of four parallel writes; dies finish together, so a batch leaves at once."""
    done: list[float] = []
    for n in range(1000):
        sent = done[n - 4] if n >= 4 else 0.0
        taken = max(sent, done[-1] if done else 0.0) + taken_every
        room = max(0, -(-(n + 1 - slots) // batch)) * leaves_every
        done.append(max(taken, room))
    return [end - (done[n - 4] if n >= 4 else 0.0) for n, end in enumerate(done)]


def test_no_rise_is_no_buffer() -> None:
    assert buffer_bytes([10.0] * 1000, 4096, 1) is None
    assert buffer_bytes([10.0] * 4 + [100.0] * 996, 4096, 1) is None


US = 1000.0


def test_a_flush_that_grows_with_what_was_written_waits_for_the_buffer() -> None:
    assert flush_waits(20 * US, {1: 1600 * US, 64: 6000 * US}) is Flush.BUFFER


def test_a_flush_that_is_faster_than_flash_waits_for_nothing() -> None:
    assert flush_waits(20 * US, {1: 10 * US, 64: 11 * US}) is Flush.NOTHING


def test_slow_flushes_of_equal_length_tell_nothing() -> None:
    assert flush_waits(20 * US, {1: 4000 * US, 64: 4100 * US}) is None


def test_fast_flushes_behind_slow_writes_tell_nothing() -> None:
    assert flush_waits(900 * US, {1: 10 * US, 64: 10 * US}) is None


def test_writes_that_are_faster_after_a_trim_show_that_it_gives_room() -> None:
    assert trim_effect(100, (10, 10), 25) == (Trimmed.FASTER, 2.5)


def test_writes_that_stay_slow_after_a_trim_show_that_it_does_nothing() -> None:
    assert trim_effect(100, (10, 10), 10) == (Trimmed.SAME, 1.0)


@pytest.mark.parametrize(
    ("fresh", "before", "after"),
    [(100, (95, 95), 96), (100, (20, 10), 25), (100, (10, 10), 11.5)],
    ids=["never-slow", "still-moving", "hardly-moved"],
)
def test_the_effect_of_a_trim_cannot_be_told(
    fresh: float, before: tuple[float, float], after: float
) -> None:
    assert trim_effect(fresh, before, after)[0] is None


@pytest.mark.parametrize("fast", [0, 50, 700, 1000])
def test_the_writes_that_a_cache_took_are_counted(fast: int) -> None:
    chance = np.random.default_rng(1)
    spread = chance.uniform(0.7, 1.3, 1000)
    latency_ns = np.where(np.arange(1000) < fast, 10e6, 32e6) * spread  # 3,200 and 1,000 a second

    found = fast_writes(list(latency_ns), 32, 1000.0)

    assert found == pytest.approx(fast, abs=5 if fast else 0)
    assert fast_writes([], 32, 1000.0) == 0


@pytest.mark.parametrize(
    ("fast", "least", "most"), [(0, 0, 0), (700, 700, 732), (1000, 1000, 1000)]
)
def test_the_first_writes_that_wait_for_fewer_others_are_no_cache(
    fast: int, least: int, most: int
) -> None:
    ended_ns: list[float] = []
    latency_ns: list[float] = []
    for number in range(1000):  # one drive serves 32 writes in flight, one after another
        begun = ended_ns[number - 32] if number >= 32 else 0.0
        served = (10e6 if number < fast else 32e6) / 32
        ended_ns.append(max(begun, ended_ns[-1] if ended_ns else 0.0) + served)
        latency_ns.append(ended_ns[-1] - begun)

    assert least <= fast_writes(latency_ns, 32, 1000.0) <= most


class CachedDrive:
    """A bench on a drive of 8 GiB whose cache of 1 GiB is back after 30 s, or the part of it."""

    size_bytes = 8 << 30

    def __init__(self, back_bytes: int) -> None:
        self._back_bytes = back_bytes

    def write(self, *asked: Any, **how: Any) -> list[float]:
        return [64e6] * 16 + [16e6] * 100

    def latencies(
        self, block_bytes: int, iodepth: int, span: int, ios: int, *, rest_s: float, **how: Any
    ) -> list[float]:
        fast = min(ios, self._back_bytes // block_bytes) if rest_s >= 30 else 0
        return [iodepth * block_bytes / 64e6 * 1e9] * fast + [
            iodepth * block_bytes / 16e6 * 1e9
        ] * (ios - fast)


@pytest.mark.parametrize(("back_bytes", "at_least"), [(512 << 20, False), (8 << 30, True)])
def test_a_cache_that_is_wholly_back_is_told_as_a_least_size(
    back_bytes: int, at_least: bool
) -> None:
    found = SlcCache((1.0, 30.0)).ask(cast(Bench, CachedDrive(back_bytes)))

    assert [row["at_least"] for row in found.table if "rest_s" in row] == [False, at_least]
    assert found.numbers.known()["at_least"] is at_least
    assert ("at least" in found.answer) is at_least


def test_a_planted_cost_of_waking_is_found_in_noise() -> None:
    rng = np.random.default_rng(3)
    for cost_ns in (200_000, 5_000_000):
        warm = 80_000 * rng.lognormal(0, 0.2, 256)
        first = cost_ns + 80_000 * rng.lognormal(0, 0.2, 8)

        found = wake_cost_ns(first, warm)

        assert found == pytest.approx(cost_ns, rel=0.2)


def test_no_cost_of_waking_is_seen_where_there_is_none() -> None:
    """4,000 rests of drives whose latencies vary much, with a slow read now and then."""
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(4000):
        reads = 80_000 * rng.lognormal(0, 0.5, 264) * np.where(rng.random(264) < 0.05, 20, 1)
        seen += wake_cost_ns(reads[:8], reads[8:]) is not None

    assert seen <= 2


def test_the_energy_of_waking_is_what_the_mean_power_is_above_the_idle_power() -> None:
    rng = np.random.default_rng(5)
    watts = 1.5 + 0.01 * rng.standard_normal(540)
    wakes = np.arange(60, 540, 60)
    watts[wakes] += 2.0  # for a second each

    idle, joules = waking_energy(list(watts), float(watts.mean()), 540.0, len(wakes))

    assert idle == pytest.approx(1.5, rel=0.01)
    assert joules == pytest.approx(2.0, rel=0.1)


def test_a_meter_that_only_varies_tells_no_energy_of_waking() -> None:
    rng = np.random.default_rng(6)
    told = []
    for _ in range(1000):
        watts = 1.5 + 0.05 * rng.standard_normal(540)
        told.append(waking_energy(list(watts), float(watts.mean()), 540.0, 9)[1])

    assert sum(joules is not None for joules in told) <= 20


class SleepyDrive:
    """A drive of 1.5 W that wakes in 3 ms with 0.4 J after ten seconds, under a power meter."""

    size_bytes = 1 << 30

    def fill(self, length_bytes: int) -> None:
        self.filled_bytes = length_bytes

    def paused_reads(
        self, span_bytes: int, rest_s: float, *, groups: int, each: int
    ) -> tuple[Any, Resting]:
        assert span_bytes <= self.filled_bytes
        latency_ns = np.full((groups, each), 80_000.0)
        latency_ns[:, 0] += 3e6 if rest_s >= 10 else 0
        seconds = rest_s * (groups + 1)
        joules = 0.4 * (groups + 1) if rest_s >= 10 else 0.0
        watts = tuple(1.5 + 0.001 * (n % 3 - 1) for n in range(100))
        return latency_ns, Resting(seconds, 1.5 + joules / seconds, watts)


def test_the_cost_of_waking_is_told_in_time_and_energy() -> None:
    said = Wake((1.0, 60.0)).ask(cast(Bench, SleepyDrive()))

    assert said.numbers.wake_us == pytest.approx(3000)
    assert said.numbers.wake_after_s == 60
    assert said.numbers.warm_us == pytest.approx(80)
    assert said.numbers.wake_idle_watts == pytest.approx(1.5, rel=0.01)
    assert said.numbers.wake_joules == pytest.approx(0.4, rel=0.02)
    assert "3 ms after 1 min 00 s, none seen after 1 s" in said.answer
    assert "idle power 1.5 W, energy of waking 0.4 J" in said.answer
