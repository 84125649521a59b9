import pytest

from ssdbench.report.metrics import percentile
from ssdbench.report.view import words
from tests.support.builders import a_workload


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
    assert words.fact("proven", True) == ("Proven", "yes")
    assert words.fact("nothing", None) == ("Nothing", words.NONE)


def test_a_queue_is_never_broken_over_two_lines() -> None:
    label = words.workload_label(a_workload())

    assert label == "4 KiB random write, QD\u00a032\u00a0×\u00a04"


def test_messages_become_sentences() -> None:
    assert words.sentence("the fill ended early") == "The fill ended early."
    assert words.sentence("Why?") == "Why?"
    assert words.sentence("") == ""
