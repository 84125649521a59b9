"""Test that block sizes are found where they are planted, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import hidden_blocks
from benchmarks.judge_the_answers import SEED
from ssdbench.errors import UsageError
from ssdbench.stats.inside import writebuffer
from ssdbench.stats.inside.blockjudge import judge
from ssdbench.stats.inside.blocksize import Form, detect
from ssdbench.stats.inside.strides import SCALES, Series, StridePlan, own_scale, plan
from ssdbench.stats.inside.writebuffer import held, lags
from ssdbench.stats.inside.writecount import count_period
from ssdbench.units import GIB, KIB, MIB
from tests.support.stride_traces import LEVELS, Planted, trace


def walked(seed: int = 3) -> list[StridePlan]:
    found = [plan(s, 16 * GIB, block_bytes=4096, seed=seed) for s in SCALES[:2]]
    return [p for p in found if p is not None]


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize(("block", "phase"), [(128 * KIB, 0), (1536 * KIB, 84 * KIB)])
def test_a_block_is_found_exactly_at_every_level_of_noise(
    level: int, block: int, phase: int
) -> None:
    drive = Planted(LEVELS[level], block, phase, 700)

    verdict = detect(trace(drive, walked(), np.random.default_rng(11)))

    assert verdict.block_bytes == block


@pytest.mark.parametrize("level", range(4))
def test_a_drive_without_blocks_is_given_none(level: int) -> None:
    drive = Planted(LEVELS[level], None, 0, 256)

    verdict = judge(trace(drive, walked(), np.random.default_rng(12)))

    assert verdict.block_bytes is None


@pytest.mark.parametrize(
    ("block", "phase"),
    [
        (64 * KIB, 28 * KIB),  # below what was the smallest period: 128 KiB shows as well
        (1056 * KIB, 0),  # three times 352 KiB, which is on the lattice
        (2052 * KIB, 4 * KIB),  # 27 x 19 x 4 KiB
        (8324 * KIB, 0),  # beyond the fine periods
    ],
)
def test_blocks_on_and_off_the_lattice_are_not_taken_for_their_relatives(
    block: int, phase: int
) -> None:
    series = trace(Planted(LEVELS[0], block, phase, None), walked(), np.random.default_rng(5))

    verdict = judge(merging(series))

    assert (verdict.block_bytes, verdict.at_most, verdict.doubt) == (block, False, "")
    assert verdict.confidence is not None and verdict.confidence < 1


def test_half_of_a_block_that_is_known_to_4_kib_is_looked_for_again() -> None:
    """Its rough period of 16.3 MiB is not a multiple of 8 KiB; the exact one is."""
    hidden = hidden_blocks.made(187, SEED)

    verdict, _ = hidden_blocks.asked(hidden, seed=188)

    assert verdict.block_bytes == hidden.block_bytes == 8_548_352


@pytest.mark.parametrize("block", [32 * KIB, 48 * KIB])
def test_a_block_below_the_search_is_this_or_less_or_too_faint_to_tell(block: int) -> None:
    series = trace(Planted(LEVELS[0], block, 0, None), walked(), np.random.default_rng(6))

    verdict = judge(merging(series))

    assert verdict.best is not None and verdict.best.period_bytes > block
    if verdict.block_bytes is None:
        assert "such weak evidence" in verdict.doubt
    else:
        assert verdict.block_bytes % block == 0
        assert verdict.block_bytes == block or verdict.at_most


def merging(series: list[Series]) -> list[Series]:
    """Make all writes four times as slow, so that a boundary costs as much as an erase."""
    return [one.with_latency(4 * one.latency_ns) for one in series]


def test_a_small_period_that_costs_no_erase_may_be_a_remap_unit() -> None:
    series = trace(Planted(LEVELS[0], 64 * KIB, 0, None), walked(), np.random.default_rng(6))

    assert judge(merging(series)).block_bytes == 64 * KIB
    for doubtful in (judge(series), judge(merging(series), own=False)):
        assert doubtful.block_bytes is None
        assert "remap unit" in doubtful.doubt


@pytest.mark.parametrize("writes", [52, 64])
def test_a_small_buffer_is_not_taken_for_a_block(writes: int) -> None:
    series = trace(Planted(LEVELS[1], None, 0, writes), walked(), np.random.default_rng(20))

    assert detect(series).block_bytes is not None  # its peaks alone do look like one
    assert judge(series).block_bytes is None


def test_a_block_is_found_behind_a_buffer_of_its_own_size() -> None:
    series = trace(Planted(LEVELS[2], MIB, 0, 256), walked(), np.random.default_rng(17))

    assert judge(series).block_bytes == MIB


@pytest.mark.parametrize(("block", "seed"), [(256 * KIB, 1), (128 * KIB, 2), (256 * KIB, 9)])
def test_the_peaks_of_a_small_block_are_not_set_aside_as_a_buffers(block: int, seed: int) -> None:
    series = trace(Planted(LEVELS[0], block, 0, None), walked(seed), np.random.default_rng(seed))

    verdict = judge(series)

    assert verdict.block_bytes == block
    assert verdict.best is not None and verdict.best.place_bytes == 0
    assert count_period(series, verdict) is None


def test_equal_latencies_show_no_block() -> None:
    quiet = [
        s.with_latency(np.full(len(s), 9.0))
        for s in trace(Planted(LEVELS[0], None, 0, None), walked(), np.random.default_rng(1))
    ]

    verdict = detect(quiet)

    assert verdict.block_bytes is None


def test_a_buffer_is_found_by_the_number_of_writes() -> None:
    series = trace(Planted(LEVELS[1], MIB, 0, 900), walked(), np.random.default_rng(13))

    found = count_period(series, detect(series))

    assert found is not None
    assert found.writes == 900


@pytest.mark.parametrize("level", [2, 3])
def test_a_large_buffer_is_found_through_noise(level: int) -> None:
    series = trace(Planted(LEVELS[level], MIB, 0, 2300), walked(), np.random.default_rng(15))

    found = count_period(series, detect(series))

    assert found is not None
    assert found.writes == 2300


@pytest.mark.parametrize("level", [0, 2])
def test_no_buffer_is_made_up_from_blocks_and_bursts(level: int) -> None:
    series = trace(Planted(LEVELS[level], MIB, 0, None), walked(), np.random.default_rng(16))

    assert count_period(series, detect(series)) is None


@pytest.mark.parametrize("writes", [128, 256, 640, 3000])
def test_a_full_buffer_makes_peaks_late_by_what_it_holds(writes: int) -> None:
    """The lag may also be longer than one or several blocks of 256 writes."""
    series = trace(Planted(LEVELS[0], MIB, 0, None, writes), walked(), np.random.default_rng(14))

    verdict = detect(series)
    found = held(series, verdict)

    assert verdict.block_bytes == MIB
    assert found is not None
    assert (found.least_writes, found.most_writes) == (writes, writes)


@pytest.mark.parametrize("seed", range(3))
def test_the_end_of_the_pass_before_is_no_buffer(seed: int) -> None:
    """In a short pass, writes that leave the buffer late belong to strides of the pass before."""
    short = [replace(scale, writes=4000) for scale in SCALES[:2]]
    passes = [plan(s, GIB, block_bytes=4096, seed=seed) for s in short]
    drive = Planted(LEVELS[0], MIB, 0, None, 128)

    series = trace(drive, [p for p in passes if p is not None], np.random.default_rng(seed))
    found = held(series, judge(series))

    assert found is not None
    assert found.least_writes == found.most_writes == 128


def delayed(series: list[Series], writes: int) -> list[Series]:
    """Make every write wait for the one `writes` before it, or for an older one at the start."""
    count = 1 + max(int(one.sequence.max()) for one in series)
    latency = np.full(count + writes, float(np.median(series[0].latency_ns)))
    for one in series:
        latency[one.sequence + writes] = one.latency_ns
    return [one.with_latency(latency[one.sequence]) for one in series]


def test_a_block_is_found_behind_a_buffer_that_holds_passes_of_other_strides() -> None:
    series = trace(Planted(LEVELS[0], MIB, 0, None), walked(), np.random.default_rng(18))
    late = delayed(merging(series), 20_001)

    verdict = judge(late)

    assert detect(late).block_bytes is None
    assert verdict.block_bytes == MIB
    found = held(late, verdict)
    assert found is not None
    assert found.least_writes <= 20_001 <= found.most_writes
    assert found.most_writes - found.least_writes <= 0.05 * 20_001


@pytest.mark.parametrize(
    "likely",
    [
        writebuffer.Lag(383, 362, 392),  # where the block was seen is another number of writes
        writebuffer.Lag(20_001, 19_900, 20_100, in_reach=False),  # more may be likelier still
    ],
)
def test_what_a_buffer_holds_is_not_told_where_the_strides_do_not(
    monkeypatch: pytest.MonkeyPatch, likely: writebuffer.Lag
) -> None:
    series = trace(Planted(LEVELS[0], MIB, 0, None), walked(), np.random.default_rng(18))
    late = delayed(merging(series), 20_001)
    verdict = judge(late)
    monkeypatch.setattr(writebuffer, "likeliest_lag", lambda series: likely)

    assert held(late, verdict) is None


def test_a_buffer_beyond_the_largest_lag_is_told_to_be_beyond() -> None:
    series = merging(trace(Planted(LEVELS[0], MIB, 0, None), walked(), np.random.default_rng(18)))
    most = (1 + max(int(one.sequence.max()) for one in series)) // writebuffer.MOST_SHARE

    assert writebuffer.likeliest_lag(delayed(series, most // 2)).in_reach
    assert not writebuffer.likeliest_lag(delayed(series, most + 500)).in_reach


def test_strides_whose_differences_divide_the_period_cannot_tell_parts_of_it_apart() -> None:
    """The strides differ by 4 units, so 64 writes of 256 later all peaks have moved equally."""
    strides = tuple(4096 * n for n in (6, 10, 14))
    places = {s: (100 * s) % MIB for s in strides}
    best = replace(
        detect(trace(Planted(LEVELS[0], MIB, 0, None), walked(), np.random.default_rng(1))).best
        or pytest.fail("no evidence"),
        period_bytes=MIB,
        form=Form.DELAYED,
        stride_scores=tuple((s, 10.0) for s in strides),
        stride_places=(places, places),
    )

    assert lags(best) == [36, 100, 164, 228]


@pytest.mark.parametrize(("by_strides", "told"), [(68, True), (5000, False)])
def test_a_buffer_that_holds_more_by_the_strides_is_not_told_by_where_peaks_begin(
    monkeypatch: pytest.MonkeyPatch, by_strides: int, told: bool
) -> None:
    monkeypatch.setattr(writebuffer, "likeliest_lag", lambda series: writebuffer.Lag(by_strides))
    series = trace(Planted(LEVELS[0], MIB, 0, None, 640), walked(), np.random.default_rng(14))

    assert (held(series, detect(series)) is not None) == told


def test_no_lag_is_made_up() -> None:
    series = trace(Planted(LEVELS[1], MIB, 0, 256), walked(), np.random.default_rng(18))

    assert writebuffer.likeliest_lag(series) == writebuffer.NO_LAG
    assert (
        writebuffer.likeliest_lag(
            trace(Planted(LEVELS[1], None, 0, 256), walked(), np.random.default_rng(18))
        )
        == writebuffer.NO_LAG
    )


@pytest.mark.parametrize("level", range(3))
def test_no_buffer_is_made_up_in_front_of_a_block(level: int) -> None:
    series = trace(Planted(LEVELS[level], MIB, 0, None), walked(), np.random.default_rng(level))

    assert held(series, detect(series)) is None


def test_blocks_up_to_8_mib_cost_less_than_a_gibibyte() -> None:
    assert sum(p.bytes_written for p in walked()) <= GIB


def test_passes_stay_within_their_regions() -> None:
    for one_plan in walked():
        for one in one_plan.passes:
            region = one_plan.regions[one.region]
            assert region.offset_bytes <= one.offset_bytes
            assert one.offset_bytes + one.length_bytes <= region.offset_bytes + region.length_bytes


def test_a_stride_that_is_too_large_for_the_drive_is_refused() -> None:
    with pytest.raises(UsageError, match="too large"):
        own_scale([MIB, 2 * MIB, 3 * MIB], 8 * MIB, 4096)
