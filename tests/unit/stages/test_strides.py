"""What each way of walking over strides makes of the generator's log."""

from itertools import product

import numpy as np

from ssdbench.generator.base import LoggedIo
from ssdbench.model.finding import Code
from ssdbench.model.target import TargetKind
from ssdbench.stages import blockverdict
from ssdbench.stages.blockverdict import WayVerdict
from ssdbench.stages.strides import DEEP, Heard, StrideWay, Trace, heard, stride_job
from ssdbench.stats.inside.blockjudge import judge
from ssdbench.stats.inside.strides import Pass
from ssdbench.units import KIB
from tests.support.builders import a_target

ONE = Pass(region=0, stride_bytes=8192, offset_bytes=0, writes=100)


def logged(latency: list[int], offset: list[int], *, reads: tuple[int, ...] = ()) -> LoggedIo:
    return LoggedIo(
        t_ns=range(len(latency)),
        latency_ns=latency,
        offset_bytes=offset,
        is_write=[n not in reads for n in range(len(latency))],
    )


def asked(median_ns: float) -> WayVerdict:
    trace = Trace()
    constant = np.full(3, median_ns)
    trace.add(ONE, Heard(np.arange(3, dtype=np.int64), constant, constant))
    return WayVerdict(trace)


def test_a_write_is_judged_by_the_longest_read_behind_it() -> None:
    log = logged([20, 90, 300, 20, 20, 80], [0, 7, 9, 8192, 16384, 11], reads=(1, 2, 5))

    said = heard(StrideWay.READS_BETWEEN, log)

    assert said.offset_bytes.tolist() == [0, 8192, 16384]
    assert said.judged_ns.tolist() == [300, 0, 80]


def test_at_saturation_a_pause_shows_at_the_write_that_it_came_before() -> None:
    latency = [100] * 200
    latency[120 : 120 + DEEP] = [900] * DEEP  # all that were under way waited
    log = logged(latency, [8192 * n for n in range(200)])

    said = heard(StrideWay.SATURATED, log)

    assert np.flatnonzero(said.judged_ns > 0).tolist() == [120]


def test_a_queue_that_fills_and_empties_is_no_pause_of_the_drive() -> None:
    fills = [7 * min(n - 2, DEEP) for n in range(3, 400)]  # the first are answered meanwhile
    empties = [7 * n for n in range(DEEP, 0, -1)]
    empties[0] *= 2
    log = logged(fills + empties, [8192 * n for n in range(len(fills + empties))])

    said = heard(StrideWay.SATURATED, log)

    assert not said.judged_ns.any()


def test_completions_that_overtake_are_put_in_order() -> None:
    said = heard(StrideWay.SATURATED, logged([1, 2, 3], [16384, 0, 8192]))

    assert said.offset_bytes.tolist() == [0, 8192, 16384]


def test_every_way_writes_as_much_as_the_pass_says() -> None:
    for way in (StrideWay.WRITES, StrideWay.READS_BETWEEN, StrideWay.SATURATED):
        one = stride_job("p", way, ONE, block_bytes=4096, seed=1)
        written = (one.total_bytes or 0) * (100 - one.workload.read_percent) // 100

        assert written == ONE.writes * 4096


def without_peaks(log_ns: float, *, every: int = 0) -> WayVerdict:
    """Noise; or, with `every`, four times as slow where such a block begins."""
    chance = np.random.default_rng(1)
    trace = Trace()
    for region, stride in product((0, 1), (8192, 20480, 28672, 36864, 65536)):
        one = Pass(region=region, stride_bytes=stride, offset_bytes=region << 30, writes=4000)
        noise = chance.lognormal(log_ns, 0.1, one.writes)
        offsets = one.offset_bytes + np.arange(one.writes, dtype=np.int64) * stride
        if every:
            noise = noise * np.where(offsets % every < stride, 4, 1)
        trace.add(one, Heard(offsets, noise, noise))
    return WayVerdict(trace, judge(trace.series(), seed=1))


def test_a_drive_without_peaks_is_said_to_have_no_boundary_and_what_would_have_shown() -> None:
    found = {StrideWay.WRITES: without_peaks(12)}

    said = blockverdict.answer(found, target=a_target(TargetKind.DRIVE), block_bytes=4096, seed=1)

    assert said.found.block_bytes is None
    (told,) = said.findings
    assert (told.code, told.severity) == (Code.NO_BOUNDARY, "notes")
    assert "times as long" in told.message
    assert told.advice


def test_what_a_buffer_hides_is_not_said_to_have_been_looked_for() -> None:
    found = {StrideWay.WRITES: without_peaks(10), StrideWay.SATURATED: without_peaks(12)}

    said = blockverdict.answer(found, target=a_target(TargetKind.DRIVE), block_bytes=4096, seed=1)

    assert said.found.answer == "hidden by the buffer"
    assert said.found.buffer.endswith("it never showed that it was full")
    assert said.found.smallest_effects == ()
    (told,) = said.findings
    assert "; writes at saturation show no boundary either" in told.message
    assert "times as long" not in told.message


def test_quick_writes_are_absorbed_only_where_flash_may_be_behind() -> None:
    quick = {StrideWay.WRITES: asked(20_000)}

    assert blockverdict.absorbed(quick, a_target(TargetKind.DRIVE))
    assert not blockverdict.absorbed(quick, a_target(TargetKind.LOOP))
    assert not blockverdict.absorbed({StrideWay.WRITES: asked(90_000)}, a_target(TargetKind.DRIVE))


def test_writes_that_wait_at_depth_were_not_absorbed() -> None:
    assert blockverdict.saturated(
        {StrideWay.WRITES: asked(8_000), StrideWay.SATURATED: asked(400_000)}
    )
    assert not blockverdict.saturated(
        {StrideWay.WRITES: asked(20_000), StrideWay.SATURATED: asked(30_000)}
    )


def test_a_queue_of_absorbed_writes_hides_as_much_as_a_single_one() -> None:
    assert not blockverdict.saturated(
        {StrideWay.WRITES: asked(20_000), StrideWay.SATURATED: asked(400_000)}
    )


def test_what_lies_behind_a_loop_device_is_named_and_its_period_is_no_block() -> None:
    found = {StrideWay.WRITES: without_peaks(12, every=128 * KIB)}
    facts = {"sysfs loop/backing_file": "/srv/disk.img", "sysfs loop/dio": "0"}
    loop = a_target(TargetKind.LOOP).model_copy(update={"facts": facts})

    on_drive, on_loop = (
        blockverdict.answer(found, target=target, block_bytes=4096, seed=1).found
        for target in (a_target(TargetKind.DRIVE), loop)
    )

    assert on_drive.block_bytes == 128 * KIB
    assert (on_loop.block_bytes, on_loop.phase_bytes, on_loop.confidence) == (None, None, None)
    assert "/srv/disk.img" in on_loop.answer
    assert "page cache" in on_loop.answer
