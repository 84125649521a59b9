"""The data sheet's figures and the wear on the command line of `plan` and `run`."""

import json
from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli.main import run
from ssdbench.engine.manifest import Manifest
from ssdbench.engine.store import load
from ssdbench.model.profile import Rated
from ssdbench.target.consent import Wear, reported_endurance_tb

FIGURES = "random_write_iops=200k,sequential_write=3.5GB/s,random_read_iops=1M,tbw=7008TB"
TINY = """
title: Tiny
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
rated: {random_write_iops: 300, tbw: 20TB}
steady: {rule: pss-quick, max_fills: 1}
repeats: 3
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure: [{sweep: {block: 4KiB, read: 0}}, {sweep: {block: [8KiB, 16KiB], read: 0}}]
"""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    with path.open("wb") as file:
        file.truncate(3840 * 10**9)
    return path


def planned(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert run(["plan", *map(str, arguments), "--json"]) == 0
    document: dict[str, Any] = json.loads(capfd.readouterr().out)
    return document


def test_figures_of_the_data_sheet_narrow_the_plan_and_are_named_as_such(
    disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    known = planned(capfd, "pessimistic", "--target", disk, "--rated", FIGURES)
    unknown = planned(capfd, "pessimistic", "--target", disk)
    assert run(["plan", "pessimistic", "--target", str(disk), "--rated", FIGURES]) == 0

    shown = capfd.readouterr().out
    assert known["seconds"][1] <= 2.5 * known["seconds"][0]
    assert unknown["seconds"][1] <= 8 * unknown["seconds"][0]
    assert known["seconds"][1] < unknown["seconds"][1] / 2
    assert "(from the data sheet)" in known["rates"]
    assert "of most SSDs of this size" in unknown["rates"]
    assert "by rates from the data sheet, at most" in shown
    assert run(["plan", "quick", "--target", "sim:pm9a3", "--rated", FIGURES]) == 0
    assert f"--rated {FIGURES}" in capfd.readouterr().out.split("to run it:")[1]


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ("random_write_iops", "is not NAME=FIGURE"),
        ("iops=5", "a data sheet has no 'iops' here; known are random_write_iops"),
        ("random_write_iops=fast", "random_write_iops: a data sheet's figure looks like 200k"),
        ("random_write_iops=0", "random_write_iops: no drive has '0'"),
        ("random_write_iops=9T", "no drive has '9T'"),
        ("sequential_write=3.5GiB/s", "looks like 3.5GB/s"),
        ("sequential_write=3.5", "looks like 3.5GB/s"),
        ("tbw=7008", "looks like 7008TB"),
        ("tbw=7TB,tbw=8TB", "tbw is given twice"),
        ("random_write_iops=900k,sequential_write=500MB/s", "more than the sequential 500 MB/s"),
        ("", "is not NAME=FIGURE"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "run"])
def test_figures_that_no_data_sheet_has_are_refused(
    verb: str, figures: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "pessimistic", "--target", "sim:pm9a3", "--rated", figures]) == 2

    assert says in " ".join(capfd.readouterr().err.split())


def test_two_endurances_that_differ_are_refused(
    disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["plan", "pessimistic", "--target", str(disk)]
    assert run([*asked, "--rated", "tbw=7008TB", "--endurance", "700"]) == 2
    assert "--endurance says 700 TB and --rated tbw=7008TB" in capfd.readouterr().err

    assert run([*asked, "--rated", "tbw=7008TB", "--endurance", "7008"]) == 0


@pytest.mark.parametrize(
    ("rated", "plan", "says"),
    [
        ("{random_write_iops: 5, sequential_write: 3MB/s}", "{}", ""),
        ("{random_write_iops: 900k, sequential_write: 500MB/s}", "{}", "check both figures"),
        ("{tbw: 700TB}", "{endurance_tb: 7000}", "`plan` says 7000 TB"),
        ("{writes: 5}", "{}", "unknown key 'writes'"),
    ],
)
def test_a_profile_gives_the_same_figures(
    rated: str, plan: str, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.yaml"
    text = TINY.replace("{random_write_iops: 300, tbw: 20TB}", rated)
    profile.write_text(f"{text}plan: {plan}\n")

    code = run(["plan", str(profile)])

    assert code == (2 if says else 0)
    assert says in capfd.readouterr().err


def test_one_figure_of_the_command_line_overrides_that_of_the_profile(tmp_path: Path) -> None:
    kept = Rated.model_validate({"random_write_iops": "300", "tbw": "20TB"})

    both = Rated.model_validate({"random_write_iops": "5k"}).over(kept)

    assert both == Rated.model_validate({"random_write_iops": 5000, "tbw": "20TB"})


def test_a_plan_within_a_wear_writes_less_and_says_what(
    disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ("pessimistic", "--target", disk, "--rated", FIGURES, "--max-wear")
    whole, cut = planned(capfd, *asked, "50%"), planned(capfd, *asked, "0.6%")
    assert run(["plan", *map(str, asked), "0.6%"]) == 0

    shown = capfd.readouterr().out
    assert whole["budget"]["cuts"] == []
    assert cut["budget"]["cuts"]
    assert cut["bytes_written"][1] <= cut["wear"]["most_bytes"] == 0.006 * 7008 * 10**12
    assert cut["budget"]["most_bytes"] == cut["wear"]["most_bytes"]
    assert "within 0.6 % of the rated endurance (42.05 TB): likely" in shown
    assert "% of 7,008 TBW" in shown
    assert "of its rated endurance of 7,008 TB" in shown


def test_time_and_wear_are_both_kept(disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ("pessimistic", "--target", disk, "--rated", FIGURES, "--budget", "48h")

    both = planned(capfd, *asked, "--max-wear", "0.4%")

    assert both["budget"]["likely_s"] <= 48 * 3600
    assert both["bytes_written"][1] <= 0.004 * 7008 * 10**12


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_wear_of_an_unknown_endurance_is_refused_with_the_way_to_give_it(
    verb: str, disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([verb, "pessimistic", "--target", str(disk), "--max-wear", "1%"]) == 2

    err = capfd.readouterr().err
    assert "--max-wear needs the rated endurance of" in err
    assert "--rated tbw=7008TB" in err


def test_a_wear_below_one_fill_is_refused(disk: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "pessimistic", "--target", str(disk), "--rated", "tbw=100TB"]
    assert run([*asked, "--max-wear", "1%"]) == 2

    assert "once writes 3.84 TB, and --max-wear allows 1 TB (1 % of 100 TB)" in (
        capfd.readouterr().err
    )


@pytest.mark.parametrize("share", ["0%", "101%", "1", "much", "-1%"])
def test_a_wear_that_is_no_share_is_refused(share: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "quick", "--target", "sim:pm9a3", "--max-wear", share]) == 2

    assert "--max-wear" in capfd.readouterr().err


def test_a_run_keeps_the_figures_and_ends_within_the_wear(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile, out = tmp_path / "tiny.yaml", tmp_path / "out"
    profile.write_text(f"{TINY}plan: {{max_wear: 0.003%}}\n")  # 600 MB: the fill and the warm-up

    assert run(["run", str(profile), "--output", str(out), "--json"]) == 1

    result = json.loads(capfd.readouterr().out)["result"]
    kept = load(out / "manifest.json", Manifest)
    assert kept.rated == Rated.model_validate({"random_write_iops": 300, "tbw": "20TB"})
    assert "(from the data sheet)" in kept.counted_on
    assert kept.endurance_tb == 20
    assert kept.max_writes_bytes == result["budget"]["most_bytes"] == 600_000_000
    assert 0 < sum(stage["bytes_written"] for stage in result["stages"]) <= 600_000_000
    assert "0.003 % of the rated endurance (600 MB)" in (out / "report.html").read_text()


def test_the_drives_own_counters_tell_its_endurance_and_never_replace_consent() -> None:
    facts = {"percentage used": "9 %", "data written": "630 TB"}
    new = {"percentage used": "1 %", "data written": "630 TB"}

    reported_tb = reported_endurance_tb(facts)

    assert reported_tb == pytest.approx(6300)
    assert reported_endurance_tb(new) is reported_endurance_tb({}) is None
    wear = Wear(10**12, likely_bytes=(10**11, 2 * 10**11), reported_tb=reported_tb)
    assert wear.needs_consent
    assert wear.sentence == (
        "it would write 100 GB to 200 GB, 0.0032 %, or at worst up to 1 TB, 0.016 %; by its own "
        "counters it lasts for about 6,300 TB"
    )
