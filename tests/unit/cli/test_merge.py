"""`merge`: many drives in one answer, and what must not be merged."""

import csv
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import mannwhitneyu

from ssdbench.cli import main
from ssdbench.model.result import METHOD, RunResult
from ssdbench.model.target import TargetKind
from ssdbench.report.read import StoredRun
from tests.support.documents import checked
from tests.support.lots import PLANTED_IOPS, a_lot, stored
from tests.support.pages import without_script

SHARES = [1, 1.01, 0.99, 1.005, 0.995, 1.012, 0.988, 1.002, 0.998, 1.007, 0.9, 1.003]
SLOW = SHARES.index(0.9)


@pytest.fixture
def lot(tmp_path: Path) -> list[Path]:
    return a_lot(tmp_path / "lot", SHARES)


def merged(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    main.run(["merge", *map(str, arguments), "--json"])
    return checked(capsys.readouterr().out, "merge")


def test_a_directory_of_runs_is_one_lot_with_its_slow_drive(
    lot: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["merge", str(lot[0].parent), "--lot", "100", "--set", "4"]) == 0
    said = capsys.readouterr().out

    assert f"{SLOW + 1}: drive-11 is odd: 10.1 % below the median of the other drives" in said
    assert said.count(" is odd: ") == 1
    # 12 of 100, none of them below the slowest.
    lot_percent = int(1000 * (1 - comb(94, 12) / comb(100, 12))) / 10
    model_percent = int(1000 * (1 - 0.95**12)) / 10
    assert "at least 95 % of the lot of 100 reach 5,394 IOPS" in said
    assert f"with only {lot_percent} % confidence; 95 % confidence needs 39 drives" in said
    assert f"with only {model_percent} % confidence; 95 % confidence needs 59 drives" in said
    assert "striped evenly over 4 drives: the slowest drive is expected to reach" in said
    assert "firmware, slot, host, temperature and wear cannot be separated: not known" in said


def test_the_answer_in_json_is_the_same_for_a_directory_and_for_its_runs(
    lot: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    told = merged(capsys, lot[0].parent, "--rate", "5900")

    assert told == merged(capsys, *lot, "--rate", "5900")
    point = told["points"][0]
    assert [rate["odd"] for rate in point["rates"]] == [place == SLOW for place in range(12)]
    assert point["asked"]["below"] == sum(share * 0.999 * PLANTED_IOPS < 5900 for share in SHARES)
    assert told["method"] == METHOD and len(told["drives"]) == 12


def test_a_drive_that_is_not_validated_is_a_failure_and_is_not_left_out(
    lot: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(lot[3], lambda r: r.model_copy(update={"verdict": "NOT VALIDATED"}))
    table, page = tmp_path / "lot.csv", tmp_path / "lot.html"

    asked = ["merge", str(lot[0].parent), "--csv", str(table), "--html", str(page)]
    assert main.run(asked) == 1
    said = capsys.readouterr().out

    assert "4: drive-04 counts as failed: the run is NOT VALIDATED" in said
    assert "no rate can be promised for the model" in said and "93 drives must be measured" in said
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 12 and rows[3]["counts_iops"] == "0.0" and rows[3]["failing"]
    text = page.read_text()
    assert "SIMULATED" in text and "<script" not in without_script(text) and "src=" not in text
    assert "drive-11 is odd" in text and "1 of 12 drives count as failed" in text


def change(directory: Path, how: Callable[[RunResult], RunResult]) -> None:
    """Make the run one that found something else, with a journal that proves it."""
    stored(directory, how(StoredRun.open(directory).result))


def with_target(**changes: object) -> Callable[[RunResult], RunResult]:
    return lambda r: r.model_copy(update={"target": r.target.model_copy(update=changes)})


def of(**changes: object) -> Callable[[RunResult], RunResult]:
    return lambda r: r.model_copy(update=changes)


FUTURE = (datetime.now(UTC) + timedelta(days=30)).isoformat()


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        (with_target(id="sim-drive-1"), "are of one drive, sim-drive-1"),
        (with_target(serial="S0001"), "are of one drive under two names, sim-drive-1 and"),
        (with_target(model="Another"), "are of different models or sizes"),
        (with_target(simulated=False), "are of a simulated drive and a real drive"),
        (of(method=METHOD + 1), f"were measured by methods {METHOD} and {METHOD + 1}"),
        (of(profile_text="repeats: 9\n"), "are the results of different profiles"),
        (of(interrupted=True), "was interrupted before its end"),
        (of(started_at=FUTURE), "says that it was measured 29 days from now"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    lot: list[Path],
    how: Callable[[RunResult], RunResult],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(lot[1], how)

    assert main.run(["merge", str(lot[0].parent), "--json"]) == 2
    told = capsys.readouterr()

    assert sentence in told.err and "hint:" in told.err or "must not be mixed" in told.err
    checked(told.out, "error")


def test_a_seed_makes_no_other_simulated_drive_and_its_parameters_do(
    lot: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    drive = "sim:x25m-g2-160,capacity=1GiB"
    change(lot[0], with_target(id=drive))
    change(lot[1], with_target(id=f"{drive},t_prog=1.5ms"))
    assert main.run(["merge", *map(str, lot[:2]), "--json"]) == 0
    change(lot[1], with_target(id=f"{drive},seed=7"))
    capsys.readouterr()

    assert main.run(["merge", *map(str, lot[:2])]) == 2
    said = capsys.readouterr().err

    assert f"are of one drive under two seeds, {drive} and {drive},seed=7" in said
    assert "hint: " in said


def altered(path: Path) -> None:
    text = json.loads(path.read_text())
    text["verdict"] = "NOT VALIDATED"
    path.write_text(json.dumps(text))


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def no_longer(path: Path) -> None:
    path.unlink()


def damaged_journal(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"result_sha256", b"result_sha257"))


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("result.json", altered, "its SHA-256 is not the one in the journal"),
        ("result.json", half, "is not a result that this version of ssdbench can read"),
        ("result.json", a_link, "has no result.json"),
        ("result.json", a_pipe, "has no result.json"),
        ("result.json", no_longer, "did not end"),
        ("journal.jsonl", no_longer, "is not a complete run directory"),
        ("journal.jsonl", damaged_journal, "the journal is damaged"),
        ("journal.jsonl", half, "did not end"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)
def test_a_damaged_or_half_written_run_is_refused_and_nothing_is_merged(
    lot: list[Path],
    name: str,
    damage: Callable[[Path], None],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(lot[1] / name)
    page = tmp_path / "page.html"

    assert main.run(["merge", str(lot[0].parent), "--html", str(page)]) == 2

    assert sentence in capsys.readouterr().err and not page.exists()


def test_a_run_that_is_named_twice_or_a_directory_without_runs_is_refused(
    lot: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()

    assert main.run(["merge", str(lot[0]), str(lot[0].parent)]) == 2
    assert "is named twice" in capsys.readouterr().err
    assert main.run(["merge", str(tmp_path / "empty")]) == 2
    assert "has no run" in capsys.readouterr().err
    assert main.run(["merge", *map(str, lot), "--lot", "11"]) == 2
    assert "--lot is 11, but 12 drives" in capsys.readouterr().err


def test_what_a_profile_calls_itself_and_clocks_days_apart_are_no_reason_to_refuse(
    lot: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# of this drive\nrepeats: 10\ntarget: sim:x25m-g2-160\nseed: 3\n"
    change(lot[1], of(profile_text=text))
    change(lot[2], of(started_at="2026-10-01T00:00:00+00:00"))

    assert main.run(["merge", str(lot[0].parent)]) == 0
    assert "up to 51 days apart" in capsys.readouterr().out


def test_names_that_act_on_a_terminal_or_a_page_are_shown_as_text(
    lot: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b[2J<script>alert(1)</script>"
    for directory in lot:
        change(directory, with_target(model=evil, firmware="=1+1"))
    page, table = tmp_path / "page.html", tmp_path / "lot.csv"

    asked = ["merge", str(lot[0].parent), "--html", str(page), "--csv", str(table)]
    assert main.run(asked) == 0

    assert "\x1b" not in capsys.readouterr().out
    text = without_script(page.read_text())
    assert "<script" not in text and "\x1b" not in text
    assert "'=1+1" in table.read_text()


@pytest.mark.parametrize("spread", ["striped", "balanced"])
def test_a_plan_from_a_lot_counts_what_its_set_carries(
    lot: list[Path], spread: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["capacity", str(lot[0].parent), "--spread", spread, "--iops", "20000", "--json"]

    code = main.run([*asked, "--endurance", "1e9"])
    told = checked(capsys.readouterr().out, "capacity-lot")

    bounds = sorted(0.98 * PLANTED_IOPS * share for share in SHARES)
    assert sorted(told["rates_iops"]) == pytest.approx(bounds)
    planned, drives = told["planned"], told["planned"]["plan"]["drives"]
    # From one healthy drive it would be 20,000 / (0.7 x 5,880) and one in reserve: 6. A slow one is
    # in most sets, and they are as slow as it is.
    if spread == "striped":
        sets = [min(chosen) for chosen in combinations(bounds, drives)]
        assert planned["bound_iops"] == pytest.approx(sum(sets) / len(sets))
        assert (code, drives) == (0, 7)
    else:
        assert drives > 6 and planned["plan"]["usable_iops"] * (drives - 1) >= 20_000


def test_a_plan_for_more_drives_than_were_measured_or_with_a_failure_is_not_valid(
    lot: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["capacity", str(lot[0].parent), "--spread", "striped", "--endurance", "1e9", "--iops"]

    assert main.run([*asked, "200000"]) == 1
    said = capsys.readouterr().out
    assert "only 12 were measured" in said and "NOT VALIDATED" in said
    change(lot[3], of(verdict="NOT VALIDATED"))
    assert main.run([*asked, "20000"]) == 1
    said = capsys.readouterr().out
    assert "1 of 12 drives count as failures; the first is drive-04" in said


def test_two_lots_are_compared_drive_by_drive(
    lot: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = a_lot(tmp_path / "other", [0.97 * share for share in SHARES], first=101)
    page = tmp_path / "lots.html"
    lots = [str(lot[0].parent), str(other[0].parent)]

    assert main.run(["compare", "--population", *lots, "--html", str(page)]) == 0
    assert "the second lot is slower" in capsys.readouterr().out
    assert main.run(["compare", "--population", *lots, "--json"]) == 0
    told = checked(capsys.readouterr().out, "compare-population")

    found = told["pairs"][0]
    assert found["shift_percent"] == pytest.approx(-3, abs=0.3) and found["drives"] == [12, 12]
    slower = [0.97 * share for share in SHARES]
    assert found["p_holm"] == pytest.approx(mannwhitneyu(SHARES, slower, method="exact").pvalue)
    assert "SIMULATED" in page.read_text()


def test_a_drive_in_both_lots_or_a_lot_of_one_drive_is_refused(
    lot: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = a_lot(tmp_path / "again", SHARES)
    alone = a_lot(tmp_path / "alone", [1.0], first=301)

    for lots, sentence in [
        ([lot[0].parent, again[0].parent], "hold the same run"),
        ([lot[0].parent, alone[0].parent], "contains only one run"),
        ([lot[0].parent], "compares two lots, but 1 are named"),
    ]:
        assert main.run(["compare", "--population", *map(str, lots)]) == 2
        assert sentence in capsys.readouterr().err


def test_firmware_that_slows_drives_on_two_hosts_is_separated_from_the_hosts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slower = [place % 2 == 1 for place in range(12)]
    healthy = [1, 1.001, 0.999, 1.002, 0.998, 1, 0.999, 1, 1.002, 0.998, 1.001, 1]
    shares = [s * (0.97 if old else 1) for s, old in zip(healthy, slower, strict=True)]
    made = a_lot(tmp_path / "lot", shares)
    for place, directory in enumerate(made):
        real = with_target(
            kind=TargetKind.DRIVE,
            simulated=False,
            firmware="OLD" if slower[place] else "NEW",
            facts={"place": f"pci-0000:{place:02d}:00.0", "percentage used": "3 %"},
        )
        change(directory, real)
        change(directory, of(host={"host": "left" if place < 6 else "right"}))

    assert main.run(["merge", str(tmp_path / "lot")]) == 0
    said = capsys.readouterr().out

    assert re.search(r"firmware changes the rate by (2\.9|3\.0|3\.1) %", said)
    assert "host: no effect shown" in said
    assert "slot cannot be separated: nearly every drive has its own value" in said
    assert "wear cannot be separated: the same for all drives" in said
    assert "temperature cannot be separated: not known for any drive" in said
