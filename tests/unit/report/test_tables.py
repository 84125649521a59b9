import io
import re
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from ssdbench.model.finding import Code
from ssdbench.model.point import StreamResult
from ssdbench.report import render
from ssdbench.report.comparison import COMPARISON_TYPES
from ssdbench.report.tables import (
    ARTIFACT_TYPES,
    PLAN_TYPES,
    RESULT_TYPES,
    SHARED_TYPES,
    SUMMARY_TYPES,
    TARGET_TYPES,
    artifacts_table,
    results_table,
    summary_table,
)
from tests.support.builders import StoredRunBuilder, a_finding, a_small_run, with_found
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

    frame = results_table(result).frame()

    points = [point for stage in result.stages for point in stage.points]
    estimates = sum(len(point.estimates) for point in points)
    repeats = sum(len(point.repeats) for point in points)
    steady = sum(stage.verdict is not None for stage in result.stages)
    assert len(frame) == estimates + 4 * repeats + steady
    single = frame[(frame["repeat_number"] == 2) & (frame["metric"] == "iops")]
    assert list(single["metric_value"]) == [point.repeats[1].iops for point in points]


def test_directions_follow_from_what_the_workload_does(tmp_path: Path) -> None:
    frame = results_table(a_small_run(tmp_path)).frame()

    found = frame[frame["metric"] == "iops"].groupby("read_percent")["direction"].unique()

    assert {share: list(names) for share, names in found.items()} == {
        0: ["write"],
        70: ["total"],
        100: ["read"],
    }


def test_the_bound_of_a_direction_is_its_own(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    stage = next(stage for stage in result.stages if stage.points)
    mixed = next(point for point in stage.points if point.point.workload.read_percent == 70)
    total = mixed.estimate("iops")
    assert total is not None and total.bound is not None
    reads = total.model_copy(update={"direction": "read", "bound": 0.7 * total.bound})
    told = mixed.model_copy(update={"estimates": (total, reads), "repeats": ()})
    found = stage.found.model_copy(update={"points": (told,)})
    only = stage.model_copy(update={"found": found})

    frame = results_table(result.model_copy(update={"stages": (only,)})).frame()

    rows = frame[(frame["metric"] == "iops") & (frame["point"] == mixed.point.id)]
    bounds = dict(zip(rows["direction"], rows["bound"], strict=True))
    assert bounds == {"total": total.bound, "read": 0.7 * total.bound}


def test_while_the_rate_was_still_moving_no_rate_has_a_bound(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    stage = next(stage for stage in result.stages if stage.points)
    first = stage.points[0]
    stream = StreamResult(name="a", label="a", estimates=first.estimates)
    moving = first.model_copy(
        update={"findings": (a_finding(Code.NOT_STEADY_POINT),), "streams": (stream,)}
    )

    frame = results_table(
        result.model_copy(update={"stages": (with_found(stage, points=(moving,)),)})
    ).frame()

    rates = frame[frame["unit"].isin(["1/s", "B/s"])]
    assert {"iops", "bw_bytes_per_s"} <= set(rates["metric"])
    assert set(rates["stream"].dropna()) == {"a"}
    assert not rates["bound"].notna().any()
    whole = rates[rates["repeat_number"].isna()]
    assert whole["computed_by"].str.endswith("no bound: the rate was still moving").all()
    assert frame[frame["metric"] == "lat_p99_ns"]["bound"].notna().any()


def test_parquet_holds_the_same_rows_with_fixed_types(tmp_path: Path) -> None:
    frame = results_table(a_small_run(tmp_path)).frame()
    render(tmp_path)
    source = f"'{tmp_path / 'results.parquet'}'"

    with duckdb.connect() as database:
        types = dict(
            database.sql(f"SELECT column_name, column_type FROM (DESCRIBE {source})").fetchall()
        )
        values = database.sql(f"SELECT metric_value FROM {source}").fetchall()
        empty = database.sql(f"SELECT count(*) FROM {source} WHERE bound IS NULL").fetchall()
        metadata = database.sql(f"SELECT key, value FROM parquet_kv_metadata({source})").fetchall()

    assert list(types) == list(RESULT_TYPES)
    assert types["metric_value"] == "DOUBLE" and types["block_bytes"] == "BIGINT"
    held = frame["metric_value"]
    assert [value for (value,) in values] == [None if pd.isna(v) else v for v in held]
    assert empty == [(int(frame["bound"].isna().sum()),)]
    assert (b"schema_version", b"2") in metadata


def test_a_run_without_points_writes_headers_only(tmp_path: Path) -> None:
    StoredRunBuilder(tmp_path).write(verdict="NOT VALIDATED", interrupted=True)

    render(tmp_path)

    for name in ("results.csv", "summary.csv", "artifacts.csv"):
        assert (tmp_path / name).read_text().count("\n") == 1
    with duckdb.connect() as database:
        rows = database.sql(f"SELECT count(*) FROM '{tmp_path / 'results.parquet'}'").fetchall()
    assert rows == [(0,)]


def test_reasons_of_a_point_stand_in_its_rows(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,), noisy=("b4096-r0-qd32",))
    result = builder.write(verdict="NOT VALIDATED")

    summary = summary_table(result).frame()

    assert list(summary["verdict"]) == ["NOT VALIDATED"]
    assert list(summary["reasons"]) == ["cv-too-high: The repeats differ by 6.3 %, more than 4 %."]


def test_resets_of_zones_have_a_row_where_fio_counted_them(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    stage, point = result.stages[1], result.stages[1].points[0]
    counted = point.repeats[0].model_copy(update={"zone_resets": 7})
    changed = point.model_copy(update={"repeats": (counted, *point.repeats[1:])})
    found = stage.found.model_copy(update={"points": (changed, *stage.points[1:])})
    stages = (result.stages[0], stage.model_copy(update={"found": found}))

    frame = results_table(result.model_copy(update={"stages": stages})).frame()

    ((value, how),) = frame[frame["metric"] == "zone_resets"][
        ["metric_value", "computed_by"]
    ].values
    assert (value, how) == (7, "fio's count, settling included")


def test_a_suppressed_percentile_is_left_empty_in_the_summary(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    point = result.stages[1].points[0]
    hidden = tuple(e.model_copy(update={"status": "suppressed"}) for e in point.estimates)
    stage = with_found(result.stages[1], points=(point.model_copy(update={"estimates": hidden}),))

    summary = summary_table(result.model_copy(update={"stages": (stage,)})).frame()

    assert summary["lat_p99_ns"].isna().all()


@pytest.mark.parametrize("name", ["results.csv", "summary.csv"])
def test_tables_survive_a_round_trip_with_commas_and_quotes(tmp_path: Path, name: str) -> None:
    a_small_run(tmp_path, run_id='a "quoted", run')

    render(tmp_path)

    table = pd.read_csv(io.BytesIO((tmp_path / name).read_bytes()))
    assert set(table["run_id"]) == {'a "quoted", run'}


def dictionary(title: str) -> dict[str, str]:
    """Column and type of one table of the documentation."""
    text = (Path(__file__).parents[3] / "docs" / "tables.md").read_text()
    section = text.split(f"## {title}\n")[1].split("\n## ")[0]
    words = {"text": "str", "integer": "Int64", "number": "Float64"}
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| [^|]* \| [^|]+ \|$", section, re.MULTILINE)
    return {name: words[kind] for name, kind in rows}


def test_the_documented_dictionary_has_each_column_with_its_type() -> None:
    shared = dictionary("In results.csv and summary.csv")

    assert list(shared.items()) == list(SHARED_TYPES.items())
    of_results = shared | dictionary("results.csv and results.parquet")
    assert list(of_results.items()) == list(RESULT_TYPES.items())
    assert list((shared | dictionary("summary.csv")).items()) == list(SUMMARY_TYPES.items())
    assert list(dictionary("artifacts.csv").items()) == list(ARTIFACT_TYPES.items())
    assert list(dictionary("targets.csv").items()) == list(TARGET_TYPES.items())
    assert list(dictionary("compare --csv").items()) == list(COMPARISON_TYPES.items())
    assert list(dictionary("capacity --csv").items()) == list(PLAN_TYPES.items())


# Reserved in SQL:2016 and likely as names of columns, beside those that DuckDB itself refuses.
SQL_WORDS = re.findall(
    r"\w+",
    """all and any array as at between by case check column condition count cross current
date day default distinct each element else end except exists false filter for from function group
having hour in index interval into is join key language left like limit match method minute mod
module month natural new no none not null of offset on one only or order out over partition pattern
percent period position primary range rank ratio reads references repeat result return right
row rows second select set size sql start system table then time timestamp to trigger true union
unique user using value values when where window with within year""",
)
R_WORDS = ["if", "else", "repeat", "while", "function", "for", "next", "break", "in", "na", "inf"]


def test_no_column_is_a_reserved_word_of_r_or_sql() -> None:
    with duckdb.connect() as database:
        said = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
        reserved = {word for (word,) in database.sql(said).fetchall()}

    names = {*RESULT_TYPES, *SUMMARY_TYPES, *ARTIFACT_TYPES, *COMPARISON_TYPES, *TARGET_TYPES}
    names |= {*PLAN_TYPES}

    assert names.isdisjoint(reserved | {*SQL_WORDS, *R_WORDS})


def test_what_is_suppressed_has_a_row_and_no_value(tmp_path: Path) -> None:
    frame = results_table(a_small_run(tmp_path)).frame()

    hidden = frame[frame["status"] == "suppressed"]

    assert set(hidden["metric"]) == {"lat_p99_99_ns"} and len(hidden) == 3
    assert hidden[["metric_value", "ci_low", "ci_high", "bound"]].isna().to_numpy().all()
    assert frame[frame["status"] != "suppressed"]["metric_value"].notna().all()


def test_a_spreadsheet_can_pivot_the_summary_by_its_numbers(tmp_path: Path) -> None:
    StoredRunBuilder(tmp_path, repeats=2, measure_s=5).sweep().span().write()

    render(tmp_path)
    table = pd.read_csv(tmp_path / "summary.csv")

    assert {str(table[name].dtype) for name in ("block_bytes", "read_percent", "iodepth")} == {
        "int64"
    }
    sweep = table[table["stage_kind"] == "sweep"]
    pivot = sweep.pivot_table(
        index="block_bytes", columns=["read_percent", "iodepth"], values="iops"
    )
    assert pivot.shape == (4, 6) and pivot.notna().to_numpy().all()
    assert pivot.loc[4096, (0, 1)] == pytest.approx(6_000, rel=0.02)  # as planted
    assert list(table[table["stage_kind"] == "span"]["span_percent"]) == [5, 25, 50, 100]


def test_rates_block_size_probes_and_capacity_have_rows(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=5)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,)).rate(8_000.0).blocksize()
    builder.probe("stripe", "stripes of 64 KiB", stripe_bytes=65536).probe("trim", "cannot tell")
    text = "measure: [{sweep: {}}]\nplan: {demand_iops: 5000, endurance_tb: 1000000}\n"

    frame = results_table(builder.write(profile_text=text)).frame()

    values = {
        metric: value
        for metric, value in zip(frame["metric"], frame["metric_value"], strict=True)
        if pd.notna(value)
    }
    assert values["rate_within_limit_iops"] == 8_000
    assert values["block_found_bytes"] == 1 << 20
    assert values["probe_stripe_bytes"] == 65536
    assert values["capacity_drives"] == 3  # 5,000 / (5,700 x 0.7) = 1.3, so 2, and 1 that may fail
    assert set(frame[frame["metric"] == "probe_answer"]["answer"]) == {
        "stripes of 64 KiB",
        "cannot tell",
    }


def test_artifacts_name_the_directory_of_each_repeat(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)

    found = artifacts_table(result).frame()

    one = found[(found["point"] == "b4096-r0-qd32") & (found["repeat_number"] == 2)]
    assert list(one["artifact_path"]) == ["stages/02-sweep/b4096-r0-qd32/repeat-02"]
    assert all((tmp_path / path).exists() for path in found["artifact_path"])
