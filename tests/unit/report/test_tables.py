import io
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from ssdbench.report import render
from ssdbench.report.csv import RESULT_TYPES, results_frame, summary_frame
from tests.support.builders import StoredRunBuilder, a_small_run, with_found
from tests.support.goldens import assert_golden


def test_the_summary_is_as_it_was_looked_at(tmp_path: Path) -> None:
    a_small_run(tmp_path)

    render(tmp_path)

    assert_golden("report/summary.csv", (tmp_path / "summary.csv").read_text())


def test_every_row_says_that_the_drive_is_simulated(tmp_path: Path) -> None:
    a_small_run(tmp_path)

    render(tmp_path)

    for name in ("results.csv", "summary.csv"):
        table = pd.read_csv(tmp_path / name, dtype=str)
        assert len(table) >= 3
        assert set(table["simulated"]) == {"SIMULATED: x25m-g2-160, seed 7"}


def test_results_hold_each_estimate_and_each_repeat_once(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)

    frame = results_frame(result)

    points = [point for stage in result.stages for point in stage.points]
    estimates = sum(len(point.estimates) for point in points)
    repeats = sum(len(point.repeats) for point in points)
    steady = sum(stage.verdict is not None for stage in result.stages)
    assert len(frame) == estimates + 4 * repeats + steady
    single = frame[(frame["repeat"] == "2") & (frame["metric"] == "iops")]
    assert list(single["value"]) == [point.repeats[1].iops for point in points]


def test_directions_follow_from_what_the_workload_does(tmp_path: Path) -> None:
    frame = results_frame(a_small_run(tmp_path))

    found = frame[frame["metric"] == "iops"].groupby("read_percent")["direction"].unique()

    assert {share: list(names) for share, names in found.items()} == {
        0: ["write"],
        70: ["total"],
        100: ["read"],
    }


def test_parquet_holds_the_same_rows_with_fixed_types(tmp_path: Path) -> None:
    frame = results_frame(a_small_run(tmp_path))
    render(tmp_path)
    source = f"'{tmp_path / 'results.parquet'}'"

    with duckdb.connect() as database:
        types = dict(
            database.sql(f"SELECT column_name, column_type FROM (DESCRIBE {source})").fetchall()
        )
        values = database.sql(f"SELECT value FROM {source}").fetchall()
        empty = database.sql(f"SELECT count(*) FROM {source} WHERE bound IS NULL").fetchall()
        metadata = database.sql(f"SELECT key, value FROM parquet_kv_metadata({source})").fetchall()

    assert list(types) == list(RESULT_TYPES)
    assert types["value"] == "DOUBLE" and types["block_bytes"] == "BIGINT"
    assert [value for (value,) in values] == list(frame["value"])
    assert empty == [(int(frame["bound"].isna().sum()),)]
    assert (b"schema_version", b"2") in metadata


def test_a_run_without_points_writes_headers_only(tmp_path: Path) -> None:
    StoredRunBuilder(tmp_path).write(verdict="NOT VALIDATED", interrupted=True)

    render(tmp_path)

    for name in ("results.csv", "summary.csv"):
        assert (tmp_path / name).read_text().count("\n") == 1
    with duckdb.connect() as database:
        rows = database.sql(f"SELECT count(*) FROM '{tmp_path / 'results.parquet'}'").fetchall()
    assert rows == [(0,)]


def test_reasons_of_a_point_stand_in_its_rows(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,), noisy=("b4096-r0-qd32",))
    result = builder.write(verdict="NOT VALIDATED")

    summary = summary_frame(result)

    assert list(summary["verdict"]) == ["NOT VALIDATED"]
    assert list(summary["reasons"]) == ["cv-too-high: The repeats differ by 6.3 %, more than 4 %."]


def test_a_suppressed_percentile_is_left_empty_in_the_summary(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    point = result.stages[1].points[0]
    hidden = tuple(e.model_copy(update={"status": "suppressed"}) for e in point.estimates)
    stage = with_found(result.stages[1], points=(point.model_copy(update={"estimates": hidden}),))

    summary = summary_frame(result.model_copy(update={"stages": (stage,)}))

    assert summary["lat_p99_ns"].isna().all()


@pytest.mark.parametrize("name", ["results.csv", "summary.csv"])
def test_tables_survive_a_round_trip_with_commas_and_quotes(tmp_path: Path, name: str) -> None:
    a_small_run(tmp_path, run_id='a "quoted", run')

    render(tmp_path)

    table = pd.read_csv(io.BytesIO((tmp_path / name).read_bytes()))
    assert set(table["run_id"]) == {'a "quoted", run'}
