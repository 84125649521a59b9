"""`plan` and `run` within a time: what is left out, what it can prove, what is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ssdbench.cli import background
from ssdbench.cli.main import run
from ssdbench.engine.estimates import rate_hint
from ssdbench.model.loading import load_profile
from ssdbench.model.profile import Rated
from ssdbench.model.profile.spec import Sweep
from ssdbench.stages.precondition import Precondition
from ssdbench.suite.assemble import stages
from ssdbench.suite.budget import Prepared, replanned, within
from ssdbench.suite.plan import fitted, target_of
from ssdbench.suite.request import RunRequest

TARGET = ("--target", "sim:x25m-g2-160,capacity=4GiB")
TINY = """
title: Tiny
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 2}]
steady: {rule: pss-quick, max_fills: 1}
repeats: 12
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure:
  - sweep: {block: [4KiB, 64KiB], read: [0, 100]}
  - span: {spans: [10%, 100%]}
"""


def budget(capfd: pytest.CaptureFixture[str], time: str, *more: str) -> dict[str, Any]:
    assert run(["plan", "pessimistic", *TARGET, "--budget", time, "--json", *more]) == 0
    document = json.loads(capfd.readouterr().out)
    found: dict[str, Any] = document["budget"]
    found["stages"] = [stage["kind"] for stage in document["stages"]]
    return found


def test_less_time_leaves_out_more_and_never_promises_more(
    capfd: pytest.CaptureFixture[str],
) -> None:
    times = {"90d": 90 * 24, "2d": 48, "12h": 12, "100m": 5 / 3, "80m": 4 / 3}
    found = {time: budget(capfd, time) for time in times}

    cuts = {time: found[time]["cuts"] for time in times}
    assert cuts["90d"] == []
    assert any("`span`" in cut for cut in cuts["12h"])
    assert [not found[time]["lacks"] for time in times] == [True, True, True, False, False]
    for time, hours in times.items():
        likely_s = found[time]["likely_s"]
        assert isinstance(likely_s, float)
        assert likely_s <= 3600 * hours
    assert any("repeats of each point" in cut for cut in cuts["100m"])
    assert any("pss-quick" in cut for cut in cuts["80m"])
    assert "1 drive in" in str(found["12h"]["risk"]) or "no drive" in str(found["12h"]["risk"])


def test_a_plan_within_a_time_says_so_and_its_command_keeps_the_time(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(["plan", "pessimistic", *TARGET, "--budget", "100m"]) == 0

    out = capfd.readouterr().out
    assert "within 1 h 40 min: likely 1 h" in out
    assert re.search(
        r"cannot be VALIDATED: (.*; )?there are only [3-9] repeats, and at least 10", out
    )
    assert "VALIDATED is likely possible within" in out
    assert "  risk: for the worst family of the zoo" in out
    assert "--budget 100m" in out.split("to run it:")[1]


def test_without_a_time_nothing_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "pessimistic", *TARGET, "--json"]) == 0

    assert json.loads(capfd.readouterr().out)["budget"] is None


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_a_time_below_the_fill_alone_is_refused(
    verb: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    code = run([verb, "pessimistic", *TARGET, "--budget", "10s", "--output", str(out)])

    err = capfd.readouterr().err
    assert code == 2
    assert "filling sim:x25m-g2-160,capacity=4GiB once takes 35 s at best" in err
    assert "more than --budget 10 s" in err
    assert "Give a longer --budget" in err
    assert not out.exists()


@pytest.mark.parametrize("time", ["0s", "-1h", "soon", ""])
def test_a_time_that_is_none_is_refused(time: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "quick", *TARGET, "--budget", time]) == 2

    assert "--budget" in capfd.readouterr().err


def test_a_run_within_a_time_is_the_shorter_plan_and_its_result_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile, out = tmp_path / "tiny.yaml", tmp_path / "out"
    profile.write_text(f"{TINY}unit: 4KiB\n")  # nothing to prove, which takes ten minutes

    assert run(["run", str(profile), "--budget", "20m", "--output", str(out), "--json"]) == 1

    result = json.loads(capfd.readouterr().out)["result"]
    kept = json.loads((out / "manifest.json").read_text())
    assert result["budget"] == kept["budget"]
    assert result["budget"]["seconds"] == kept["max_time_s"] == 1200
    assert result["verdict"] == "NOT VALIDATED"
    assert result["budget"]["lacks"]
    assert [s["found"]["kind"] for s in result["stages"]] == ["precondition", "steady", "sweep"]
    ran = load_profile(result["profile_text"], "the stored profile")
    assert ran.repeats < 12
    assert sum(s["duration_s"] for s in result["stages"]) <= 1200 + 60
    page = (out / "report.html").read_text()
    assert "20 min 00 s" in page
    assert "(item 2 of <code>measure</code>) is left out" in page


def test_a_run_measures_what_was_left_out_if_the_warm_up_shows_a_faster_drive(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The drive writes about 350 times a second. The run reaches a limit first, and is resumed."""
    profile, out = tmp_path / "tiny.yaml", tmp_path / "out"
    profile.write_text(f"{TINY}unit: 4KiB\n".replace("repeats: 12", "repeats: 3"))
    given = [str(profile), "--budget", "150m", "--rated", "random_write_iops=30", "--json"]

    assert run(["plan", *given]) == 0
    before = json.loads(capfd.readouterr().out)
    assert run(["run", *given, "--max-writes", "4GiB", "--output", str(out)]) == 1
    first = json.loads(capfd.readouterr().out)["result"]
    (out / background.PROCESS).unlink()  # this process, which ran it
    assert run(["resume", str(out), "--max-writes", "1TiB", "--json"]) == 1

    last = json.loads(capfd.readouterr().out)["result"]
    assert [one["kind"] for one in before["stages"]] == ["precondition", "steady", "sweep"]
    kinds = [[one["found"]["kind"] for one in result["stages"]] for result in (first, last)]
    assert kinds[1] == [*kinds[0], "span"] == ["precondition", "steady", "sweep", "span"]
    for result in (first, last):
        (said,) = [one for one in result["findings"] if one["code"] == "planned-again"]
        assert said["message"] == (
            "the rates of the warm-up changed the plan for 2 h 30 min: nothing is left out"
        )
    kept = json.loads((out / "manifest.json").read_text())
    assert kept["profile_text"] == last["profile_text"]
    assert kept["budget"] == last["budget"]
    assert "span" in last["profile_text"]


@pytest.mark.parametrize(
    ("expected", "measured", "cuts"),
    [
        (200e3, 200e3, None),  # as expected: the plan stays
        (200e3, 2e3, ("`span`", "`block`")),
        (30e3, 200e3, ()),  # everything comes back
    ],
)
def test_the_plan_after_the_warm_up_follows_its_rate_and_keeps_the_preparation(
    expected: float, measured: float, cuts: tuple[str, ...] | None
) -> None:
    text = Path("profiles/pessimistic.yaml").read_text()
    profile, rated = load_profile(text, "pessimistic"), Rated(random_write_iops=expected)
    target = "sim:pm9a3,scale=1"
    whole = RunRequest(profile, "pessimistic", text, target, budget_s=50 * 3600, rated=rated)
    info = target_of(whole)
    cut, budget = fitted(whole, info)
    assert budget is not None
    hint = replace(rate_hint(info, rated), random_write_iops=(measured, measured))
    prepared = Prepared(cut.profile, budget, 3 * 3600.0, 3 * info.size_bytes)

    again = replanned(whole, info, hint, cut.all_limits, prepared)

    if cuts is None:
        assert again is None
        return
    assert again is not None
    changed, plan = again
    assert len(plan.cuts) == len(cuts)
    assert all(word in said for word, said in zip(cuts, plan.cuts, strict=True))
    assert changed.profile.precondition == cut.profile.precondition
    assert changed.profile.steady == cut.profile.steady
    assert load_profile(changed.profile_text, "again").measure == changed.profile.measure


def test_the_plan_after_the_warm_up_counts_the_fills_between_later_stages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = Path("profiles/pessimistic.yaml").read_text()
    profile = load_profile(text, "pessimistic")
    whole = RunRequest(profile, "x", text, "sim:pm9a3,scale=1", budget_s=50 * 3600)
    info = target_of(whole)
    cut, made = fitted(whole, info)
    assert made is not None
    hint = rate_hint(info)
    prepared = Prepared(cut.profile, made, 3 * 3600.0, 3 * info.size_bytes)

    def likely_s(again: bool) -> float:
        planned = stages(cut.profile, info)
        fill = [stage for stage in planned if isinstance(stage, Precondition)]
        chosen = (*planned, *(fill if again else ()))
        monkeypatch.setattr("ssdbench.suite.budget.stages", lambda *_: chosen)
        return within(cut, info, hint, None, None, prepared)[1].likely_s

    assert likely_s(again=True) > likely_s(again=False) + 1000


def test_a_short_time_keeps_the_point_that_the_plan_names() -> None:
    text = Path("profiles/pessimistic.yaml").read_text()
    text += "plan: {block: 16KiB, read: 70, outstanding: 128}\n"
    profile = load_profile(text, "pessimistic")
    whole = RunRequest(profile, "x", text, "sim:pm9a3,scale=1", budget_s=5.5 * 3600)

    cut, _ = fitted(whole, target_of(whole))

    (item,) = cut.profile.measure
    assert isinstance(item.stage, Sweep)
    assert item.stage.block_bytes == (16384,)
    assert (item.stage.read_percent, item.stage.iodepth) == ((70,), (32,))


def test_a_time_that_nothing_fits_names_each_cut_once(capfd: pytest.CaptureFixture[str]) -> None:
    found = budget(capfd, "10m")

    assert found["likely_s"] > 600
    assert [cut for cut in found["cuts"] if "warm-up" in cut and "random fill" not in cut] == [
        "the warm-up is judged by pss-quick, after one drive fill"
    ]
