"""Medians of an experiment over the host: each start's range and disturbance stay visible."""

from ssdbench.model.found import Median, ThreadsMedian
from ssdbench.report.view.trials import BY_THREADS, median_table

MEDIAN = Median(
    workload="random write",
    variant="bfq",
    repeats=3,
    iops=30_215.0,
    iops_least=18_938.0,
    iops_most=31_903.0,
    bw_bytes_per_s=123_900_000,
    lat_p50_ns=655_000,
)


def changed(**changes: object) -> Median:
    return MEDIAN.model_copy(update=changes)


def test_a_median_stands_beside_the_least_and_the_most_of_its_starts() -> None:
    (made,) = median_table([MEDIAN])

    assert made.caption == "Medians of 3 measurements, with the least and the most rate"
    assert [column.title for column in made.columns] == [
        "Workload", "Variant", "IOPS", "Least – most", "Throughput", "p50",
    ]  # fmt: skip
    assert [cell.text for cell in made.rows[0]] == [
        "random write", "bfq", "30,215", "18,938 – 31,903", "123.9 MB/s", "655 us",
    ]  # fmt: skip
    assert [column.number for column in made.columns] == [False, False, *(True,) * 4]


def test_disturbed_starts_are_counted_where_there_are_any_and_in_every_row() -> None:
    (made,) = median_table([changed(disturbed=2), changed(variant="none")])

    assert made.columns[-1].title == "Disturbed"
    assert [row[-1].text for row in made.rows] == ["2 of 3", "0 of 3"]


def test_starts_that_differ_in_number_have_a_column() -> None:
    (made,) = median_table([MEDIAN, changed(repeats=2)])

    assert made.columns[2].title == "Starts"
    assert [row[2].text for row in made.rows] == ["3", "2"]


def test_a_single_start_has_no_range_and_is_no_median() -> None:
    (made,) = median_table([changed(repeats=1)])

    assert made.caption == "One measurement each"
    assert "Least – most" not in [column.title for column in made.columns]


def test_what_only_some_rows_have_is_a_dash_in_the_others() -> None:
    (made,) = median_table([MEDIAN, changed(lat_p50_ns=None, variant="none", iops_per_watt=12.0)])

    shown = {c.title: cell.text for c, cell in zip(made.columns, made.rows[1], strict=True)}
    assert (shown["p50"], shown["I/Os per joule"]) == ("–", "12")


def test_a_stage_that_compares_nothing_has_no_such_table() -> None:
    assert list(median_table([])) == []


def test_what_a_probe_told_has_columns_by_its_own_names() -> None:
    (made,) = median_table([changed(more={"device_ns": 8_000.0, "requests": 1200.0})])

    shown = {c.title: cell.text for c, cell in zip(made.columns, made.rows[0], strict=True)}
    assert (shown["Device"], shown["Requests"]) == ("8 us", "1,200")


def test_threads_on_a_file_system_have_columns_of_their_own() -> None:
    own = {"file_system": "ext4", "state": "aged", "threads": 16, "direction": "read"}
    median = ThreadsMedian.model_validate(MEDIAN.model_dump() | own)

    (made,) = median_table([median], BY_THREADS)

    titles = [column.title for column in made.columns]
    assert titles[-4:] == ["File system", "State", "Threads", "Direction"]
    assert [cell.text for cell in made.rows[0]][-4:] == ["ext4", "aged", "16", "read"]
