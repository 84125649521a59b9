import pytest

from ssdbench.engine.verdict import about_target
from ssdbench.model.finding import Code
from ssdbench.model.target import TargetKind
from ssdbench.report.metrics import percentile
from ssdbench.report.view import words
from tests.support.builders import a_target, a_workload


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("lat_p50_ns", 50.0),
        ("lat_p99_ns", 99.0),
        ("lat_p99_9_ns", 99.9),
        ("lat_p99.99_ns", 99.99),
        ("lat_p999_ns", 99.9),
        ("clat_p9999_ns", 99.99),
        ("lat_p100_ns", 100.0),
        ("lat_mean_ns", None),
        ("iops", None),
    ],
)
def test_percentiles_are_read_from_metric_names(metric: str, expected: float | None) -> None:
    assert percentile(metric) == expected


def test_facts_are_told_in_their_units() -> None:
    assert words.fact("block_bytes", 1 << 20) == ("Block", "1 MiB")
    assert words.fact("p99_limit_ns", 10_000_000) == ("P99 limit", "10 ms")
    assert words.fact("growth_percent", 30) == ("Growth", "30 %")
    assert words.fact("demand_iops", 40_000) == ("Demand IOPS", "40,000")
    assert words.fact("block_bytes", None) == ("Block", words.NONE)
    assert words.fact("flush_us", 36_180.0) == ("Flush", "36.18 ms")
    assert words.fact("settle_s", 105) == ("Settle", "1 min 45 s")


def test_rates_are_no_durations_and_a_share_in_a_name_is_no_value() -> None:
    assert words.fact("mb_per_s", 105.0) == ("Rate", "105 MB/s")
    assert words.fact("mb_per_s_within", 400.0) == ("Rate within", "400 MB/s")
    assert words.fact("bytes_per_s", 105e6) == ("Rate", "105 MB/s")
    assert words.fact("mean_bytes_per_s", 105e6) == ("Mean", "105 MB/s")
    assert words.fact("queries_per_s", 105) == ("Queries per second", "105")
    assert words.fact("depth_for_90_percent", 32) == ("Depth for 90 percent", "32")
    assert words.fact("proven", True) == ("Proven", "yes")
    assert words.fact("nothing", None) == ("Nothing", words.NONE)


def test_a_queue_is_never_broken_over_two_lines() -> None:
    label = words.workload_label(a_workload())

    assert label == "4 KiB random write, QD\u00a032\u00a0×\u00a04"


def test_messages_become_sentences() -> None:
    assert words.sentence("the fill ended early") == "The fill ended early."
    assert words.sentence("Why?") == "Why?"
    assert words.sentence("") == ""


def test_drives_with_one_seed_share_it_in_the_label_and_none_says_its_seed_twice() -> None:
    drives = [
        a_target(sim_model=name, sim_seed=seed)
        for name, seed in (("a", 7), ("b,capacity=1GiB", 7), ("c,seed=9", 9))
    ]

    assert words.simulated_labels(drives[:2]) == "SIMULATED: a and b,capacity=1GiB, seed 7"
    assert words.simulated_label(drives[2]) == "SIMULATED: c,seed=9"
    assert words.simulated_labels(drives) == (
        "SIMULATED: a, seed 7, b,capacity=1GiB, seed 7 and c,seed=9"
    )
    assert words.simulated_labels([*drives, a_target(TargetKind.DRIVE)]) == ""
    attached = a_target(TargetKind.VIRTUAL).model_copy(
        update={"name": "/dev/ublkb0", "simulated_by": "`ssdbench sim attach`"}
    )
    assert words.simulated_label(attached) == "SIMULATED: /dev/ublkb0, by ssdbench sim attach"
    assert [one.code for one in about_target(attached)] == [Code.SIMULATED, Code.NOT_PLANNABLE]
