"""Test the verdict on a point: every reason against it is named, and no other."""

from dataclasses import replace

import numpy as np
import pytest

from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.point import PointResult, Repeat, SteadyVerdict
from ssdbench.model.workload import ActiveRange, IoEngine, Pattern, Point, Stream, Workload
from ssdbench.stats.bounds.measured import Context, Measured, StreamSeen, window_rates
from ssdbench.stats.bounds.point import judge_point
from ssdbench.stats.bounds.streams import with_held_back
from ssdbench.stats.bounds.sustained import WarmUpEvidence
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.series import Floats, Series

SECONDS = 120
PLANNABLE = Context(plannable=True)


def a_point(**workload: object) -> Point:
    values: dict[str, object] = {
        "pattern": Pattern.RANDOM,
        "block_bytes": 4096,
        "read_percent": 0,
        "iodepth": 32,
        "range": ActiveRange(offset_bytes=0, length_bytes=1 << 30),
    }
    return Point(id="p1", sweep="s", workload=Workload.model_validate(values | workload))


def a_window(iops: float | Floats, *, seed: int = 0, queue: float = 32) -> Measured:
    rng = np.random.default_rng(seed)
    rates = np.broadcast_to(np.asarray(iops, dtype=np.float64), SECONDS)
    ios = rng.poisson(rates)
    none = np.zeros(SECONDS, dtype=np.int64)
    mean_ns = queue * 1e9 / rates.mean()
    latencies = rng.gamma(16, mean_ns / 16, 40_000)
    return Measured(
        duration_s=np.ones(SECONDS),
        read_ios=none,
        write_ios=ios,
        read_bytes=none,
        write_bytes=ios * 4096,
        write=Histogram.of(latencies),
    )


def a_repeat(number: int, measured: Measured, *, settle: SteadyVerdict | None = None) -> Repeat:
    rates = window_rates(measured)
    return Repeat(
        repeat=number,
        pass_order=0,
        sequence=number,
        seed=number,
        settle_s=60,
        settle=settle,
        measure_from_s=0,
        measure_to_s=SECONDS,
        **rates,
        artifacts=f"stages/03-sweep/p1/{number}",
    )


def judged(
    windows: list[Measured], context: Context = PLANNABLE, point: Point | None = None
) -> PointResult:
    repeats = [a_repeat(i, m) for i, m in enumerate(windows, 1)]
    return judge_point(point or a_point(), repeats, windows, context)


def steady_windows(count: int = 10, spread: float = 0.005) -> list[Measured]:
    rng = np.random.default_rng(11)
    return [a_window(30_000 * (1 + spread * rng.standard_normal()), seed=i) for i in range(count)]


def against(result: PointResult) -> set[Code]:
    return {f.code for f in result.findings if f.severity is Severity.INVALIDATES}


def test_ten_repeats_that_agree_are_validated() -> None:
    result = judged(steady_windows())

    iops = result.estimate("iops")
    assert result.verdict == "VALIDATED"
    assert against(result) == set()
    assert iops is not None
    assert iops.ci_low is not None
    assert iops.ci_high is not None
    assert iops.bound is not None
    assert iops.ci_low < 30_000 < iops.ci_high
    assert iops.bound < iops.ci_low
    assert iops.bound <= min(r.worst_minute_iops for r in result.repeats)
    assert iops.n == 10
    assert len(iops.artifacts) == 10


@pytest.mark.parametrize("before_iops", [29_700.0, 30_300.0])
def test_an_interval_reaches_what_a_long_stretch_of_the_load_says(before_iops: float) -> None:
    """Ten windows agree on what the load before left behind; the unbroken hour does not show it."""
    windows = steady_windows()
    hour = Series(np.arange(1.0, 3601.0), np.full(3600, before_iops), unit="1/s")
    alone, beside = judged(windows), judged([replace(windows[0], before=hour), *windows[1:]])

    for metric, bytes_per_io in (("iops", 1), ("bw_bytes_per_s", 4096)):
        one, other = alone.estimate(metric), beside.estimate(metric)
        assert one is not None
        assert other is not None
        true = bytes_per_io * before_iops
        assert not (one.ci_low or 0.0) <= true <= (one.ci_high or 0.0)
        assert (other.ci_low or 0.0) <= true <= (other.ci_high or 0.0)
        assert other.value == one.value
        assert (one.ci_high == other.ci_high) is (before_iops < 30_000)


def test_percentiles_come_from_all_repeats_with_an_upper_bound() -> None:
    result = judged(steady_windows())

    p99 = result.estimate("lat_p99_ns")
    assert p99 is not None
    assert p99.direction == "write"
    assert p99.n == 400_000
    assert p99.status == "published"
    assert p99.bound is not None
    assert p99.bound >= p99.value
    assert result.estimate("lat_p99.999_ns") is not None


def test_a_file_is_measured_and_never_plannable() -> None:
    result = judged(steady_windows(), Context(plannable=False))

    assert result.verdict == "MEASURED, NOT PLANNABLE"
    assert against(result) == {Code.NOT_PLANNABLE}


def test_a_simulated_drive_is_validated_and_labelled() -> None:
    result = judged(steady_windows(), Context(plannable=True, simulated=True))

    assert result.verdict == "VALIDATED"
    assert Code.SIMULATED in {f.code for f in result.findings}


def test_too_few_repeats_are_named() -> None:
    assert against(judged(steady_windows(9))) == {Code.TOO_FEW_REPEATS}


def test_a_single_repeat_still_gets_a_bound() -> None:
    result = judged(steady_windows(1))

    iops = result.estimate("iops")
    assert iops is not None
    assert iops.ci_low is None
    assert iops.bound == min(result.repeats[0].iops, result.repeats[0].worst_minute_iops)


def test_repeats_that_vary_more_than_the_gate_are_named_and_all_kept() -> None:
    result = judged(steady_windows(spread=0.08))

    assert Code.CV_TOO_HIGH in against(result)
    assert len(result.repeats) == 10
    assert result.verdict == "NOT VALIDATED"


def test_a_fall_from_repeat_to_repeat_is_a_trend() -> None:
    windows = [a_window(30_000 * (1 - 0.004 * i), seed=i) for i in range(10)]

    assert Code.TREND in against(judged(windows))


def test_a_fall_inside_every_window_is_a_drift() -> None:
    falling = 30_000 * np.linspace(1.05, 0.95, SECONDS)

    assert against(judged([a_window(falling, seed=i) for i in range(10)])) == {Code.DRIFT_IN_WINDOW}


def test_two_levels_of_repeats_are_told() -> None:
    windows = [a_window(30_000 if i % 2 else 24_000, seed=i) for i in range(10)]

    result = judged(windows)

    assert Code.BIMODAL in {f.code for f in result.findings}
    assert Code.CV_TOO_HIGH in against(result)


def test_a_queue_that_was_not_full_contradicts_littles_law() -> None:
    windows = [a_window(30_000, seed=i, queue=20) for i in range(10)]

    assert against(judged(windows)) == {Code.LITTLE_MISMATCH}


def test_waiting_for_a_slot_of_the_drive_is_told_and_no_contradiction() -> None:
    windows = [replace(m, submit_percent=87.0, start_in_flight=32.0) for m in steady_windows()]

    result = judged(windows)

    assert against(result) == set()
    (told,) = [f for f in result.findings if f.code is Code.QUEUE_FULL]
    assert "87 % of the latency" in told.message


def test_a_busy_generator_thread_means_that_the_host_was_measured() -> None:
    windows = [replace(m, cpu_percent=97.0) for m in steady_windows()]

    assert against(judged(windows)) == {Code.HOST_BOUND}


def test_a_thread_that_polls_is_always_busy_and_only_the_ceiling_tells_of_the_host() -> None:
    windows = [replace(m, cpu_percent=99.0) for m in steady_windows()]
    polled = a_point(engine=IoEngine.IO_URING_POLLED)
    near = replace(PLANNABLE, host_ceiling_iops=33_000.0)

    assert judged(windows, point=polled).verdict == "VALIDATED"
    assert against(judged(windows, near, polled)) == {Code.HOST_BOUND}


def test_a_rate_near_the_hosts_ceiling_means_that_the_host_was_measured() -> None:
    context = replace(PLANNABLE, host_ceiling_iops=33_000.0)

    assert against(judged(steady_windows(), context)) == {Code.HOST_BOUND}


def test_windows_that_wrote_less_than_twenty_buffers_hide_the_drive() -> None:
    written = 10 * 30_000 * 4096 * SECONDS  # by all of them
    too_large = replace(PLANNABLE, buffer_bytes=written // 10)
    small = replace(PLANNABLE, buffer_bytes=written // 30)

    refused = judged(steady_windows(), too_large)
    (hidden,) = [f for f in refused.findings if f.code is Code.HIDDEN_BY_BUFFER]
    assert against(refused) == {Code.HIDDEN_BY_BUFFER}
    assert hidden.numbers["window_s"] == pytest.approx(2 * SECONDS, rel=0.01)
    assert "windows to 4 min" in hidden.advice
    assert against(judged(steady_windows(), small)) == set()


def test_an_early_rule_never_validates() -> None:
    context = replace(PLANNABLE, rule="snia", rule_validates=False)

    assert against(judged(steady_windows(), context)) == {Code.QUICK_RULE}


def test_a_repeat_that_had_not_settled_is_named_with_its_number() -> None:
    windows = steady_windows()
    restless = SteadyVerdict(
        rule="settle", steady=False, checked_s=600, volume_fills=0.1, reason="halves is 0.2"
    )
    repeats = [a_repeat(i, m) for i, m in enumerate(windows, 1)]
    repeats[3] = repeats[3].model_copy(update={"settle": restless})

    result = judge_point(a_point(), repeats, windows, PLANNABLE)

    found = [f for f in result.findings if f.code is Code.NOT_STEADY_POINT]
    assert [f.repeat for f in found] == [4]
    assert result.verdict == "NOT VALIDATED"


def test_repeats_that_had_not_settled_are_one_finding_and_told_once_each() -> None:
    windows = steady_windows()
    restless = SteadyVerdict(
        rule="settle", steady=False, checked_s=600, volume_fills=0.1, reason="halves is 0.2"
    )
    repeats = [a_repeat(i, m) for i, m in enumerate(windows, 1)]
    own = Finding(
        code=Code.NOT_STEADY_POINT, severity=Severity.INVALIDATES, message="not steady by 'settle'"
    )
    for index in (1, 6):
        repeats[index] = repeats[index].model_copy(update={"settle": restless, "findings": (own,)})

    result = judge_point(a_point(), repeats, windows, PLANNABLE)

    [found] = [f for f in result.findings if f.code is Code.NOT_STEADY_POINT]
    assert "repeats 2 and 7 were measured before the drive had settled" in found.message


def test_percentiles_with_too_few_samples_are_one_note() -> None:
    result = judged([a_window(3.0, seed=seed) for seed in range(10)], PLANNABLE)

    [found] = [f for f in result.findings if f.code is Code.FEW_SAMPLES]
    assert found.message.count("write") <= 2
    assert "p99.99" in found.message
    assert "left out" in found.message


def test_findings_of_the_run_reach_the_point_and_those_of_other_points_do_not() -> None:
    hot = Finding(code=Code.THROTTLED, severity=Severity.INVALIDATES, message="85 degrees")
    other = hot.model_copy(update={"code": Code.DISTURBED, "point": "p2"})
    context = replace(PLANNABLE, findings=(hot, other))

    assert against(judged(steady_windows(), context)) == {Code.THROTTLED}


A_STALL = Histogram.of([100_000] * 118_999 + [2_000_000_000])  # of 119 s at 1,000 a second


@pytest.mark.parametrize(
    ("write", "flush", "options"),
    [
        (A_STALL, Histogram.empty(), ()),
        (Histogram.of([100_000] * 119_000), Histogram.merged([A_STALL] * 2), (("fsync", "1"),)),
    ],
    ids=["a write", "a flush, of a start twice as long"],
)
def test_requests_that_a_paused_generator_held_back_are_in_the_latency(
    write: Histogram, flush: Histogram, options: tuple[tuple[str, str], ...]
) -> None:
    range_ = ActiveRange(offset_bytes=0, length_bytes=1 << 30)
    stream = Stream(
        name="log", options=options, random=True, block_sizes=(4096,), mean_bytes=4096,
        read_percent=0, iodepth=32, range=range_, paced=True, offered_iops=1000.0,
    )  # fmt: skip
    point = a_point(streams=(stream,))
    empty = Histogram.empty()
    seen = StreamSeen(empty, write, 0.0, 1000.0, flush=flush)
    window = replace(a_window(np.full(SECONDS, 1000.0)), write=write, streams=(seen,))
    stalled = with_held_back(point.workload, window)

    result = judged([stalled] * 10, PLANNABLE, point)

    # The slowest of a hundred are 1,190: they waited all but 1.19 of the two seconds.
    estimates = [*result.estimates, *result.streams[0].estimates]
    p99s = [e.value for e in estimates if (e.metric, e.direction) == ("lat_p99_ns", "write")]
    assert p99s == pytest.approx([810e6] * 2, rel=0.02)
    told = [f for f in result.findings if f.code is Code.COORDINATED_OMISSION]
    assert len(told) == 1
    numbers = told[0].numbers
    assert numbers["p99_ns"] == pytest.approx(100_000, rel=0.02)
    assert numbers["p99_corrected_ns"] == pytest.approx(810e6, rel=0.02)


@pytest.mark.parametrize(
    ("got", "told"), [([980, 1020] * 5, False), ([960] * 10, True), ([500, *[1000] * 9], True)]
)
def test_arrivals_at_random_are_judged_by_their_number_and_not_refused_by_chance(
    got: list[int], told: bool
) -> None:
    """With 6,000 arrivals a minute, chance takes 1.3 % of a repeat and 0.4 % of ten."""
    stream = Stream(
        name="web", options=(("rate_process", "poisson"),), random=True, block_sizes=(4096, 65536),
        mean_bytes=34816, read_percent=0, range=ActiveRange(offset_bytes=0, length_bytes=1 << 30),
        paced=True, offered_iops=100.0,
    )  # fmt: skip
    windows = []
    for tenths in got:
        write, empty = Histogram.of([100_000] * (6 * tenths)), Histogram.empty()
        seen = StreamSeen(empty, write, 0.0, tenths / 10, moved_bytes_per_s=1e9)
        windows.append(replace(a_window(np.full(SECONDS, 100.0)), write=write, streams=(seen,)))

    result = judged(windows, PLANNABLE, a_point(streams=(stream,)))

    assert (Code.UNDELIVERED in {f.code for f in result.findings}) is told


def test_blocks_below_the_remap_unit_are_labelled() -> None:
    context = replace(PLANNABLE, remap_unit_bytes=16384)

    result = judged(steady_windows(), context)

    assert Code.BELOW_REMAP_UNIT in {f.code for f in result.findings}
    assert result.verdict == "VALIDATED"


@pytest.mark.parametrize(("block", "told"), [(4096, True), (24_576, True), (32_768, False)])
def test_a_block_is_whole_remap_units_or_labelled(block: int, told: bool) -> None:
    context = replace(PLANNABLE, remap_unit_bytes=16384)

    result = judged(steady_windows(), context, a_point(block_bytes=block))

    assert (Code.BELOW_REMAP_UNIT in {f.code for f in result.findings}) == told


def test_repeats_in_which_nothing_was_done_are_no_result() -> None:
    windows = [a_window(30_000, seed=i) for i in range(9)]
    nothing = np.zeros(SECONDS, dtype=np.int64)
    dead = replace(windows[0], write_ios=nothing, write_bytes=nothing, write=Histogram.empty())

    assert Code.IO_ERRORS in against(judged([*windows, dead]))
    assert Code.IO_ERRORS in against(judged([dead] * 10))


@pytest.mark.parametrize(("planned", "quiet", "counts"), [(10, 10, True), (20, 10, False)])
def test_declared_extra_repeats_make_up_for_disturbed_ones_once_as_many_as_planned_were_quiet(
    planned: int, quiet: int, counts: bool
) -> None:
    windows = steady_windows(quiet + 5)
    noise = Finding(code=Code.DISTURBED, severity=Severity.INVALIDATES, message="others wrote")
    repeats = [a_repeat(i, m) for i, m in enumerate(windows, 1)]
    repeats[:5] = [r.model_copy(update={"findings": (noise,)}) for r in repeats[:5]]
    context = replace(PLANNABLE, declared_extra=True, planned_repeats=planned)

    result = judge_point(a_point(), repeats, windows, context)

    assert (Code.DISTURBED not in against(result)) == counts
    assert len(result.repeats) == quiet + 5


def test_the_worst_minute_slides_over_the_seconds() -> None:
    ios = np.full(SECONDS, 1000)
    ios[45:75] = 500
    none = np.zeros(SECONDS, dtype=np.int64)
    window = Measured(np.ones(SECONDS), none, ios, none, ios * 4096)

    rates = window_rates(window)

    assert rates["worst_minute_iops"] == pytest.approx(750)
    assert rates["worst_second_iops"] == 500


def test_repeats_without_their_windows_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="cannot be judged"):
        judge_point(a_point(), [], [], PLANNABLE)


def test_a_rhythm_that_is_too_long_for_windows_is_blamed_and_not_the_host() -> None:
    windows = [a_window(30_000 * (0.7 if i in (2, 7) else 1), seed=i) for i in range(10)]

    result = judged(windows, replace(PLANNABLE, long_rhythm_s=1800.0))

    (vary,) = [f for f in result.findings if f.code is Code.CV_TOO_HIGH]
    assert vary.numbers["window_s"] == 9000
    assert "25 h" in vary.advice
    assert "host" in vary.advice
    assert "1 h" not in vary.message
    assert "30 min" in vary.message


def test_settling_and_a_warm_up_that_saw_worse_are_in_the_limit_of_a_percentile() -> None:
    windows = steady_windows()
    repeats = [a_repeat(i, m) for i, m in enumerate(windows, 1)]
    slow = Histogram.of(np.random.default_rng(1).gamma(16, 8.5e4, 40_000))
    settled = [replace(windows[0], write_parts=(slow, windows[0].write)), *windows[1:]]
    of_warm_up = WarmUpEvidence(workload=a_point().workload, latencies={"write": [slow]})
    other = WarmUpEvidence(workload=a_point(iodepth=1).workload, latencies={"write": [slow]})

    def limit_ns(measured: list[Measured], around: WarmUpEvidence | None = None) -> float:
        estimate = judge_point(a_point(), repeats, measured, PLANNABLE, around=around).estimate(
            "lat_p99_ns"
        )
        assert estimate is not None
        assert estimate.bound is not None
        return estimate.bound

    assert limit_ns(settled) >= slow.percentile_ns(0.99)
    assert limit_ns(windows, of_warm_up) >= slow.percentile_ns(0.99)
    assert limit_ns(windows, other) == limit_ns(windows) < 0.9 * slow.percentile_ns(0.99)


def test_a_drive_that_nearly_stopped_only_in_the_warm_up_is_named_with_the_bound_it_sets() -> None:
    windows = steady_windows()
    repeats = [a_repeat(i, m) for i, m in enumerate(windows, 1)]

    def with_stall(
        stalled_iops: float, point: Point | None = None, warmed: Point | None = None
    ) -> PointResult:
        point = point or a_point()
        warm_up = WarmUpEvidence((warmed or point).workload, stalled_iops=stalled_iops)
        return judge_point(point, repeats, windows, PLANNABLE, around=warm_up)

    result = with_stall(4_321.0)
    iops = result.estimate("iops")
    (warning,) = [f for f in result.findings if f.code is Code.CHANGED]

    assert iops is not None
    assert result.verdict == "VALIDATED" and iops.bound == 4_321
    assert warning.severity is Severity.WARNS and warning.point == "p1"
    assert "4,321 IOPS over 10 min" in warning.message and "the warm-up" in warning.message
    assert "bound" in warning.message and "the warm-up" in iops.method
    assert warning.advice
    stream = Stream(name="log", options=(), random=True, block_sizes=(4096,), read_percent=0,
                    range=a_point().workload.range, mean_bytes=4096, paced=True)  # fmt: skip
    without_bound = a_point(streams=(stream,))
    windows = [
        replace(one, streams=(StreamSeen(Histogram.empty(), one.write, 0.0, 30_000.0),))
        for one in windows
    ]
    others = (
        (np.inf, None, None),
        (4_321.0, None, a_point(iodepth=1)),
        (4_321.0, without_bound, None),
    )
    for other in others:
        result = with_stall(*other)
        assert not [f for f in result.findings if f.code is Code.CHANGED]
        assert "the warm-up" not in getattr(result.estimate("iops"), "method", "")
