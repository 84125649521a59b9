"""Reads beside growing write loads: what is planned, and which write load keeps the limit."""

from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.engine.estimates import rate_hint
from ssdbench.engine.stage import Lasting
from ssdbench.errors import ProfileError
from ssdbench.model.kind import StageKind
from ssdbench.model.loading import load_profile
from ssdbench.model.point import Estimate, PointResult, StreamResult, Verdict
from ssdbench.model.workload import Point
from ssdbench.report.tables import results_table
from ssdbench.report.view.headline import headline
from ssdbench.report.view.rates import interference_blocks
from ssdbench.stages.interference import Interference
from ssdbench.stats.bounds.interference import curves
from ssdbench.stats.steady.settle import UNBROKEN_S
from ssdbench.suite.assemble import stages
from tests.support.builders import StoredRunBuilder, stage_result
from tests.unit.stages.test_writers import PROFILES, TARGET, point_stages

MS = 1e6
BREAKS_AT_IOPS = 200.0  # planted: above this write load reads wait for garbage collection


def planned(keys: str) -> Interference:
    found = stages(load_profile(f"measure: [{{interference: {{{keys}}}}}]", "p"), TARGET)
    (stage,) = (stage for stage in found if isinstance(stage, Interference))
    return stage


def loads_of(stage: Interference) -> list[tuple[int, float | None]]:
    both = [point.workload.streams for point in stage.points]
    return [(readers.iodepth, writers.offered_iops) for readers, writers in both]


def measured(
    stage: Interference,
    p999_ms: list[float],
    *,
    reached: dict[int, float] | None = None,
    verdict: Verdict = "VALIDATED",
) -> tuple[PointResult, ...]:
    """Every point of a stage with planted percentiles, whose upper limits are 2 % above them."""
    return tuple(
        with_latency(point, value * MS, (reached or {}).get(place, 100.0), verdict)
        for place, (point, value) in enumerate(zip(stage.points, p999_ms, strict=True))
    )


def with_latency(point: Point, value: float, reached: float, verdict: Verdict) -> PointResult:
    readers, writers = point.workload.streams
    own = (
        Estimate(metric="iops", unit="1/s", value=4000.0, direction="read"),
        Estimate(
            metric="lat_p99.9_ns", unit="ns", value=value, bound=1.02 * value, direction="read"
        ),
    )
    share = Estimate(metric="delivered_percent", unit="%", value=reached, bound=reached)
    streams = (
        StreamResult(name="readers", label=readers.label(), estimates=own),
        StreamResult(name="writers", label=writers.label(), estimates=(share,)),
    )
    return PointResult(point=point, repeats=(), estimates=(), streams=streams, verdict=verdict)


def test_a_plan_says_which_write_rates_the_drive_cannot_reach() -> None:
    hint = replace(rate_hint(TARGET), random_write_iops=(800.0, 1000.0), source="of a test")
    rates = "writers: {rate_iops: [900, 1001, 5000]}, limit: 5ms"

    def said(keys: str) -> list[str]:
        return [n for n in planned(keys).plan(TARGET, hint).notes if "cannot be reached" in n]

    assert said(rates) == [
        "writes of 1,001 and 5,000 IOPS cannot be reached: by rates of a test the drive writes at "
        "most 1,000 IOPS"
    ]
    assert said("limit: 5ms") == said("writers: {rate_iops: [1000]}, limit: 5ms") == []


def test_each_read_load_is_measured_beside_each_write_load() -> None:
    stage = planned("readers: {iodepth: [8, 1]}, writers: {rate_iops: [200, 50]}, limit: 5ms")

    assert loads_of(stage) == [(1, 50), (1, 200), (8, 50), (8, 200)]
    assert stage.kind is StageKind.INTERFERENCE and stage.limit_ns == 5 * MS
    assert all(point.workload.paced for point in stage.points)


def test_readers_may_have_a_rate_and_writers_may_flush() -> None:
    stage = planned(
        "readers: {rate_iops: 300}, writers: {rate_iops: 80, flush_every: 1}, limit: 5ms"
    )
    readers, writers = stage.points[0].workload.streams

    assert readers.offered_iops == 300
    assert writers.flushes and writers.numjobs == 16
    assert writers.offered_iops == pytest.approx(80)


def test_a_resumed_run_measures_shares_of_its_new_warm_up_again_and_keeps_rates() -> None:
    rates = planned("writers: {rate_iops: [100]}, limit: 4ms")
    shares = planned("writers: {share: [10%]}, limit: 4ms")

    assert (rates.units_last, shares.units_last) == (Lasting.RESULTS, Lasting.CONTENT)


def test_a_share_becomes_a_rate_when_the_warm_up_has_one() -> None:
    stage = planned("writers: {share: [10%, 50%], block: 8KiB}, limit: 5ms")
    known = stage.at(16_384_000.0)  # 2,000 writes of 8 KiB a second

    assert [writers for _, writers in loads_of(known)] == pytest.approx([200, 1000])
    assert dict(known.points[1].workload.streams[1].options)["rate"].endswith(",8192000")
    assert known.at(1.0) is known
    assert loads_of(planned("limit: 5ms")) == [(4, share) for share in (10, 25, 40, 55, 70, 85)]


def test_a_plan_writes_what_the_writers_may_write_and_no_more() -> None:
    hint = rate_hint(TARGET)
    few, many = (
        planned(f"writers: {{rate_iops: {rate}}}, limit: 5ms, settle: {{window: 2m, unbroken: 1m}}")
        for rate in (10, 1010)
    )
    least = [stage.plan(TARGET, hint).bytes_written[0] for stage in (few, many)]

    # A thousand writes more per second, in ten repeats of two minutes of settling and one counted.
    assert least[1] - least[0] == pytest.approx(1000 * 4096 * 10 * (120 + 60), rel=0.01)
    shares = planned("limit: 5ms").plan(TARGET, hint)
    slow, fast = hint.random_write_iops
    assert shares.bytes_written[1] > shares.bytes_written[0] * fast / slow / 2


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("writers: {rate_iops: [1, 2, 3, 4, 5, 6, 7]}, readers: {iodepth: [1, 2]}, limit: 5ms",
         "2 read loads beside 7 write loads are 14 points; at most 12 are measured"),
        ("writers: {rate_iops: 5, share: 10%}, limit: 5ms", "give either `share` or `rate_iops`"),
        ("readers: {rate_iops: 5, iodepth: 1}, limit: 5ms", "give either `iodepth` or `rate_iops`"),
        ("writers: {rate_iops: [5, 5]}, limit: 5ms", "5.0 is given twice"),
        ("writers: {rate_iops: 5}", "limit"),
        ("writers: {share: 0%}, limit: 5ms", "share"),
        ("percentile: p50, limit: 5ms", "p99"),
        ("writers: {share: []}, limit: 5ms", "share"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_with_its_place(keys: str, said: str) -> None:
    with pytest.raises(ProfileError) as refused:
        planned(keys)

    assert said in "; ".join(str(one) for one in refused.value.diagnostics)


def test_the_largest_write_load_is_the_last_below_a_planted_break() -> None:
    rates = [50.0, 100.0, 150.0, 190.0, 210.0, 300.0]
    stage = planned(f"writers: {{rate_iops: {rates}}}, limit: 5ms")
    breaks = [40.0 if rate > BREAKS_AT_IOPS else 2 + rate / 100 for rate in rates]

    (curve,) = curves(measured(stage, breaks), "p99.9", 5 * MS)

    assert curve.kept_iops == pytest.approx(190) and curve.failed_iops == pytest.approx(210)
    assert curve.likely_iops is None  # the percentile jumps, so no line says where
    assert curve.verdict == "VALIDATED"


def test_a_limit_between_two_loads_is_looked_up_on_the_line_between_them() -> None:
    stage = planned("writers: {rate_iops: [100, 200, 300]}, limit: 4ms")

    (curve,) = curves(measured(stage, [3.0, 3.6, 4.32]), "p99.9", 4 * MS)

    assert (curve.kept_iops, curve.failed_iops) == (200, 300)
    assert curve.likely_iops == pytest.approx(257.8, abs=0.1)  # ln(4 / 3.6) / ln(1.2)


def test_no_line_leads_to_a_load_without_an_upper_limit() -> None:
    stage = planned("readers: {iodepth: 4}, writers: {rate_iops: [100, 200]}, limit: 4ms")
    low, high = measured(stage, [3.6, 4.4])
    readers, writers = high.streams
    unsure = tuple(e.model_copy(update={"bound": None}) for e in readers.estimates)
    streams = (readers.model_copy(update={"estimates": unsure}), writers)
    without = high.model_copy(update={"streams": streams})

    (known,) = curves([low, high], "p99.9", 4 * MS)
    (unknown,) = curves([low, without], "p99.9", 4 * MS)

    assert known.likely_iops == pytest.approx(152.5, abs=0.1)  # ln(4 / 3.6) / ln(4.4 / 3.6)
    assert unknown.likely_iops is None


def test_a_load_that_was_kept_above_one_that_was_not_does_not_count() -> None:
    stage = planned("writers: {rate_iops: [100, 200, 300]}, limit: 4ms")

    (curve,) = curves(measured(stage, [3.0, 4.1, 3.5]), "p99.9", 4 * MS)

    assert (curve.kept_iops, curve.failed_iops) == (100, 200)


def test_the_upper_limit_decides_and_a_load_that_is_not_taken_counts_as_failed() -> None:
    stage = planned("writers: {rate_iops: [100, 200, 300]}, limit: 4ms")

    (late,) = curves(measured(stage, [3.0, 3.99, 5.0]), "p99.9", 4 * MS)
    (lost,) = curves(measured(stage, [3.0, 3.1, 3.2], reached={1: 97.0}), "p99.9", 4 * MS)
    (none,) = curves(measured(stage, [5.0, 6.0, 7.0]), "p99.9", 4 * MS)
    (bad,) = curves(measured(stage, [1.0, 1.1, 1.2], verdict="NOT VALIDATED"), "p99.9", 4 * MS)

    assert late.kept_iops == lost.kept_iops == 100
    assert (none.kept_iops, none.failed_iops, none.verdict) == (None, 100, "NOT VALIDATED")
    assert (bad.kept_iops, bad.failed_iops, bad.verdict) == (300, None, "NOT VALIDATED")


def test_the_answer_is_on_the_page_and_in_the_table(tmp_path: Path) -> None:
    stage = planned("readers: {iodepth: [1, 4]}, writers: {rate_iops: [100, 200]}, limit: 4ms")
    points = measured(stage, [3.0, 3.6, 3.5, 4.3])
    answer = curves(points, "p99.9", 4 * MS)
    stored = StoredRunBuilder(tmp_path, repeats=2, measure_s=5).sweep().write()
    shown = stage_result("interference", {"points": points, "interference": answer})
    result = stored.model_copy(update={"stages": (shown,)})

    table = results_table(result).frame()
    page = str(list(interference_blocks(shown, answer)))
    missed = [answer[0].model_copy(update={"kept_iops": None})]
    stages = [stage_result("interference", {"interference": one}) for one in (answer, missed)]
    top, none = (headline(result.model_copy(update={"stages": (one,)})) for one in stages)

    kept = table[table["metric"] == "interference_kept_iops"]
    assert list(kept["metric_value"]) == [200, 100]
    assert list(kept["verdict"]) == ["VALIDATED", "VALIDATED"]
    assert (
        "4 in flight: 100 write IOPS keep p99.9 of reads within 4 ms, and 200 IOPS do not" in page
    )
    assert "is likely reached at 164.9" in page
    assert (top.number, top.unit) == ("100", "write IOPS")
    assert top.label == "Writes beside which reads keep the limit (simulated drive)"
    assert none.label == "No write load kept the limit of the reads"
    own = "measure: [{interference: {limit: 4ms}}]"
    question = f"{own}\nplan: {{demand_iops: 100, block: 4KiB, read: 100}}\n"
    asked = headline(result.model_copy(update={"profile_text": question}))
    assert asked.number == "No answer" and asked.answer.startswith("No plan: no point measures")
    assert asked.rate is not None and (asked.rate.number, asked.rate.unit) == (top.number, top.unit)


def test_the_shipped_profile_measures_twelve_pairs_at_most() -> None:
    stage = point_stages((PROFILES / "interference.yaml").read_text())[StageKind.INTERFERENCE]
    assert isinstance(stage, Interference) and stage.shares
    assert 6 <= len(stage.points) <= 12 and stage.repeats == 10
    assert stage.how.settle_s is not None and stage.how.settle_s > 1.5 * UNBROKEN_S
