"""`compare` and `capacity`: what is printed, refused and returned."""

import csv
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli import main
from ssdbench.model.target import TargetKind
from ssdbench.report.comparison import pair_verdict
from ssdbench.report.read import StoredRun
from ssdbench.stats.compare import Pair, compare
from tests.support.builders import StoredRunBuilder, a_small_run, a_target
from tests.support.documents import checked
from tests.support.pages import without_script

RATED = ["--endurance", "1e9"]


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    for name in ("a", "b"):
        a_small_run(tmp_path / name, run_id=name)
    return [str(tmp_path / "a"), str(tmp_path / "b")]


def test_two_runs_are_answered_as_table_json_and_page(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"

    assert main.run(["compare", *runs, "--html", str(page)]) == 0
    assert "no difference shown" in capsys.readouterr().out
    assert main.run(["compare", *runs, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)

    assert len(answer["pairs"]) == 3
    assert all(run["simulated"] for run in answer["runs"])
    text = page.read_text()
    assert "SIMULATED" in text and "Hodges-Lehmann" in text
    assert "<script" not in without_script(text)


def test_repeats_that_are_wholly_apart_but_few_are_not_called_equal(tmp_path: Path) -> None:
    a_small_run(tmp_path / "run", run_id="run")
    stages = StoredRun.open(tmp_path / "run").result.stages
    point = next(point for stage in stages for point in stage.points)

    def answer(first: list[float], second: list[float]) -> str:
        found = compare(first, second)
        pair = Pair("p", 0, 1, (point, point), found, found.p_mann_whitney)
        return pair_verdict(pair, ["A", "B"])[1]

    assert answer([100, 101, 102], [800, 801, 802]) == "too few repeats to tell"
    assert answer([100, 101, 102], [99, 101.5, 103]) == "no difference shown"
    assert "is faster than" in answer([100, 101, 102, 103, 104], [800, 801, 802, 803, 804])


@pytest.mark.parametrize("which", [0, 1])
def test_bounds_a_factor_of_four_apart_never_read_as_no_difference(
    runs: list[str], which: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(runs[which]) / "result.json"
    result = json.loads(path.read_text())
    for stage in result["stages"]:
        for point in stage["found"].get("points", ()):
            for estimate in point["estimates"]:
                if estimate["metric"] == "iops":
                    estimate["bound"] /= 4
    path.write_text(json.dumps(result))

    assert main.run(["compare", *runs]) == 0
    said = capsys.readouterr().out

    assert "no difference shown" not in said
    lower = f"the bound of {'AB'[which]} is 4 times lower"
    table = [line for line in said.splitlines() if lower in line]
    assert table[0].startswith(lower) and len(table) == 1 + 3  # the answer, and each point
    head = next(line for line in said.splitlines() if line.startswith("point"))
    assert head.index("bound") < head.index("shift")


def test_simulated_and_real_drives_are_not_mixed_silently(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = a_target(TargetKind.DRIVE)
    builder = StoredRunBuilder(tmp_path / "real", target=target, repeats=3, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(100, 70, 0), depths=(32,)).write()

    page = tmp_path / "page.html"

    assert main.run(["compare", runs[0], str(tmp_path / "real")]) == 2
    assert "--mix-simulated" in capsys.readouterr().err
    assert (
        main.run(
            ["compare", runs[0], str(tmp_path / "real"), "--mix-simulated", "--html", str(page)]
        )
        == 0
    )
    assert "(simulated)" in capsys.readouterr().out
    text = page.read_text()
    assert (
        "Some drives are simulated and some are real" in text
        and "X25-M G2 160 GB against x25m-g2-160 (simulated)" in text
    )
    assert 'class="sim"' not in text  # the mark of a page on which everything is simulated


def test_a_capacity_plan_is_valid_only_with_a_valid_run(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_small_run(tmp_path / "bad", verdict="NOT VALIDATED")

    assert main.run(["capacity", runs[0], "--iops", "5000", *RATED, "--json"]) == 0
    good = json.loads(capsys.readouterr().out)
    assert main.run(["capacity", str(tmp_path / "bad"), "--iops", "5000", *RATED, "--json"]) == 1
    bad = json.loads(capsys.readouterr().out)

    assert good["validated"] and good["plan"]["drives"] == 3
    assert bad["reasons"] == ["the run is NOT VALIDATED"]


def test_the_sum_of_a_plan_is_printed_with_its_numbers(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(runs[0]) / "result.json"
    result = json.loads(path.read_text())
    for stage in result["stages"]:
        for point in stage["found"].get("points", ()):
            for estimate in point["estimates"]:
                if estimate["metric"] == "iops":
                    estimate["bound"] = 5_000.0
    path.write_text(json.dumps(result))
    asked = ["--iops", "40000", "--growth", "30", "--utilisation", "80", "--reserve", "2"]

    assert main.run(["capacity", runs[0], *asked]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert main.run(["capacity", runs[0], *asked, "--endurance", "1000"]) == 0
    worn = " ".join(capsys.readouterr().out.split())

    # 52,000 / (5,000 x 0.8) = 13 drives; 52,000 / (5,000 x 0.85) = 12.24, so 13; and 2.
    for step in (
        "Demand 40,000 IOPS",
        "Growth + 30 % a year for 1 year = x 1.3",
        "Load to carry 40,000 x 1.3 = 52,000 IOPS",
        "Bound of one drive 5,000 IOPS: 4",
        "Utilisation 5,000 x 0.8 = 4,000 IOPS for each drive",
        "Drives for the load 52,000 / 4,000 = 13, so 13",
        "Drives after failures 52,000 / (5,000 x 0.85) = 12.24, so 13",
        "Reserve 13 + 2 drives that may fail = 15",
        "Drives 15",
        "price of a drive no cost --price",
        "INCOMPLETE: sim:x25m-g2-160",
    ):
        assert step in said
    # 52,000 x 4,096 B x 86,400 s = 18.4 TB a day; for 1,825 days 33,584 TB of 1,000: 34 drives.
    sum_of_wear = "18.403 TB a day x 1,825 days / 1,000 TB = 33.59, so 34"
    assert f"Drives for the wear {sum_of_wear}; 19 more than the rate needs" in worn
    assert "5.06 years, warranty 5 years; 2.23 with 15 drives for the rate without wear" in worn
    assert "VALIDATED: sim:x25m-g2-160" in worn


def test_a_plan_without_a_demand_is_a_usage_error(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["capacity", runs[0]]) == 2
    assert "needs a demand" in capsys.readouterr().err


def test_a_run_is_not_compared_with_itself(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["compare", runs[0], runs[1], runs[0]]) == 2
    assert "named twice" in capsys.readouterr().err


def test_a_kind_that_was_not_measured_is_answered_with_those_that_were(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["capacity", runs[0], "--iops", "5000", "--read", "35"]) == 1
    assert "measured were 4 KiB with 0 % reads, 4 KiB with 70 % reads" in capsys.readouterr().out


def test_a_copy_of_a_run_is_not_compared_with_it(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs[0], tmp_path / "copy")

    assert main.run(["compare", runs[0], runs[1], str(tmp_path / "copy")]) == 2
    assert "contain the same run" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--iops", "0"],
        ["--iops", "-5"],
        ["--iops", "nan"],
        ["--iops", "inf"],
        ["--iops", "1e300"],
        ["--iops", "5", "--growth", "1e308"],
        ["--iops", "5", "--price", "nan"],
        ["--iops", "5", "--price", "0"],
        ["--iops", "5", "--endurance", "1e300"],
        ["--iops", "5", "--warranty", "inf"],
        ["--iops", "5", "--waf", "0"],
        ["--iops", "5", "--reserve", "9" * 30],
        ["--iops", "5", "--p99", "0s"],
        ["--iops", "5", "--p99", f"{'9' * 400}s"],
        ["--iops", "5", "--block", "0"],
        ["--iops", "5", "--read", "101"],
    ],
)
def test_a_demand_that_nobody_can_mean_is_a_usage_error(
    runs: list[str], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["capacity", runs[0], *options]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"error: Invalid value for '{options[-2]}'")
    assert not said.out


def _repeats(result: dict[str, Any], **values: object) -> None:
    for stage in result["stages"]:
        for point in stage["found"].get("points", ()):
            for repeat in point["repeats"]:
                repeat.update(values)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda r: _repeats(r, iops=math.nan), ".points.0.repeats.0.iops: "),
        (lambda r: _repeats(r, iops=-5.0), ".points.0.repeats.0.iops: "),
        (lambda r: _repeats(r, bw_bytes_per_s=math.inf), "repeats.0.bw_bytes_per_s: "),
        (lambda r: r["target"].update(size_bytes=0), "target.size_bytes: is 0, but points"),
        (lambda r: r.update(schema_version=99), "schema_version: is 99, but this version reads 2"),
        (lambda r: r.update(verdict="GREAT"), "verdict: Input should be"),
    ],
)
@pytest.mark.parametrize("command", ["capacity", "compare", "report"])
def test_a_result_edited_to_nonsense_is_refused_by_file_and_place(
    runs: list[str],
    command: str,
    spoil: Callable[[dict[str, Any]], None],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Path(runs[1]) / "result.json"
    result = json.loads(path.read_text())
    spoil(result)
    path.write_text(json.dumps(result))
    rest = {"capacity": ["--iops", "5"], "compare": [runs[0]], "report": []}[command]

    assert main.run([command, runs[1], *rest]) == 2
    said = capsys.readouterr().err
    assert f"{path} is not a result that this version of ssdbench can read" in said
    assert says in said


def test_a_bound_without_a_repeat_behind_it_is_not_planned_with(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(runs[0]) / "result.json"
    result = json.loads(path.read_text())
    for stage in result["stages"]:
        for point in stage["found"].get("points", ()):
            point["repeats"] = []
    path.write_text(json.dumps(result))

    assert main.run(["capacity", runs[0], "--iops", "5"]) == 1
    assert "Drives:" not in (said := capsys.readouterr().out)
    assert "no measured point that fits the plan has a bound" in said


def test_a_result_that_was_cut_short_is_refused_by_file_and_line(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(runs[1]) / "result.json"
    path.write_bytes(path.read_bytes()[:-100])

    assert main.run(["compare", *runs]) == 2
    assert f"{path} is not a result" in (said := capsys.readouterr().err)
    assert "at line" in said


def test_candidates_stand_side_by_side_the_cheapest_that_holds_first(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--iops", "50000", *RATED, "--price", "300", "--price", "200", "--json"]

    assert main.run(["capacity", *runs, *given]) == 0
    told = checked(capsys.readouterr().out, "capacity-candidates")["candidates"]
    assert main.run(["capacity", *runs, *given[:-1]]) == 0
    said = capsys.readouterr().out.splitlines()

    assert [one["run"] for one in told] == ["b", "a"]
    drives = told[0]["plan"]["drives"]
    assert [one["plan"]["cost"] for one in told] == [200 * drives, 300 * drives]
    assert told[0]["plan"]["cost_per_kiops"] == pytest.approx(200 * drives / 50)
    buy = f"Buy {drives} drives for {200 * drives:,} of B (run b, decided by IOPS)"
    others = f"against {drives} for {300 * drives:,} of A (run a, decided by IOPS)"
    assert said[0] == f"{buy}, {others}; VALIDATED (simulated drives)"
    assert ["drives", "with", "spares", f"{drives}", f"{drives}"] in [line.split() for line in said]
    assert ["verdict", "VALIDATED", "VALIDATED"] in [line.split() for line in said]


def test_what_is_said_of_drives_is_said_of_all_or_of_each(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--iops", "5000", "--price", "1", "--price", "2", "--price", "3"]

    assert main.run(["capacity", *runs, *given]) == 2
    assert "--price is given 3 times for 2 runs" in capsys.readouterr().err


def test_a_plan_lists_what_nobody_told_and_what_changes_it(
    runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["capacity", runs[0], "--iops", "5000", *RATED]) == 0
    little = capsys.readouterr().out
    more = ["--capacity", "8", "--power", "7", "--failure-rate", "1", "--rebuild-time", "12h"]
    assert main.run(["capacity", runs[0], "--iops", "5000", *RATED, *more, "--price", "9"]) == 0
    told = capsys.readouterr().out

    for option in ("--capacity", "--power", "--failure-rate", "--rebuild-time", "--price"):
        assert option in little and option not in told
    for line in (
        "Drives for the data",
        "Power of all drives",
        "Expected failures",
        "Time without enough drives",
        "Price per TB",
        "demand x 2",
        "utilisation of 80 %",
    ):
        assert line in told


def test_the_page_has_bounds_first_then_rates_latencies_and_the_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = []
    for number, firmware in enumerate(("1.0", "1.0", "2.0")):
        target = a_target(firmware=firmware)
        at = f"2026-01-0{number + 1}T00:00:00+00:00"
        a_small_run(tmp_path / f"r{number}", run_id=f"r{number}", started_at=at, target=target)
        names.append(str(tmp_path / f"r{number}"))
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"

    assert main.run(["compare", *names, "--html", str(page), "--csv", str(rows)]) == 0

    text = page.read_text()
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles == ["Answer", "The runs", "Bounds", "One drive over time", "Rates and latencies",
                      "Do they differ?"]  # fmt: skip
    assert "Before run C the firmware changed from 1.0 to 2.0." in text
    assert "The tests below show no change of any point" in text
    assert text.count("<svg") == 2 and "<script" not in without_script(text)
    assert all(f">p{share}<" in text for share in ("50", "99", "99.9"))
    table = list(csv.DictReader(rows.read_text().splitlines()))
    points = [row for row in table if row["metric"] == "iops"]
    assert len(points) == 3 * 3  # pairs of three runs, of three points
    assert {row["metric"] for row in table} == {"iops", "lat_p99_ns"}
    point = StoredRun.open(tmp_path / "r0").result.points[0]
    estimate = point.estimate("iops")
    (row, *_) = [r for r in table if r["workload"] == point.point.label()]
    assert estimate is not None and float(row["iops_bound"]) == estimate.bound
    assert capsys.readouterr().err.count(": ") >= 2


def test_a_series_names_the_points_that_changed_from_one_run_to_the_next(tmp_path: Path) -> None:
    names = []
    for number in range(3):
        at = f"2026-01-0{number + 1}T00:00:00+00:00"
        a_small_run(tmp_path / f"r{number}", run_id=f"r{number}", started_at=at)
        names.append(str(tmp_path / f"r{number}"))
    path, page = Path(names[1]) / "result.json", tmp_path / "page.html"
    result = json.loads(path.read_text())
    hurt = result["stages"][-1]["found"]["points"][0]
    for estimate in hurt["estimates"]:
        if estimate["metric"] == "iops":
            estimate["bound"] /= 4
    path.write_text(json.dumps(result))

    assert main.run(["compare", *names, "--html", str(page)]) == 0

    text = page.read_text()
    series = text[text.index('id="series"') : text.index('id="rates"')]
    changes = series[series.index("Points that changed from one run") :]
    assert re.findall(r">(\w).against.(\w)<", changes) == [("B", "A"), ("C", "B")]
    assert changes.count("the bound of B is 4 times lower") == 2


def test_two_runs_of_different_drives_are_no_series(runs: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    assert main.run(["compare", *runs, "--html", str(page)]) == 0

    assert "One drive over time" not in page.read_text()
