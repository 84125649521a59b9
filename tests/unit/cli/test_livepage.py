"""The page that follows a run: what it says, how often it is written, and that it harms no run."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import html5lib
import pytest

from ssdbench.cli import background, livepage
from ssdbench.cli.livepage import COST_TIMES, EVERY_S, LivePage
from ssdbench.cli.main import run
from ssdbench.cli.progress import headline
from ssdbench.engine.events import (
    Event,
    FindingRaised,
    Progress,
    RunStarted,
    StageStarted,
    UnitFinished,
)
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.found import FillDone
from ssdbench.report import live, write
from ssdbench.report.live import Course, Curve
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Cell, number
from tests.support.builders import a_full_run, a_small_run, a_target
from tests.unit.cli.test_run import LONG

STARTED = RunStarted("r1", Path("r1"), a_target(), ("Fill", "Sweep"))
SWEEP = StageStarted("02-sweep", "Sweep", 2, 2, (60.0, 120.0))
AT_WORK = Progress(
    "02-sweep", 0.25, 90.0, "4 KiB random read", 4e6, 1000.0, 1.5, ran_s=100.0,
    ends_after_s=(400.0, 700.0),
)  # fmt: skip
INVALID = Finding(code=Code.NOT_STEADY, severity=Severity.INVALIDATES, message="it fell by 9 %")


def course(*events: Event) -> Course:
    found = Course(STARTED)
    for event in events:
        found.see(event)
    return found


def test_the_question_stands_before_the_first_result() -> None:
    asked = replace(STARTED, question="100 VMs x 40 IOPS <b>")

    assert '<p class="prose">Question: 100 VMs x 40 IOPS &lt;b&gt;</p>' in live.frame(
        Course(asked), None, every_s=EVERY_S
    )
    assert headline(asked).splitlines()[1:] == ["question: 100 VMs x 40 IOPS <b>"]
    assert "question" not in headline(STARTED).lower()


def test_the_state_names_stage_work_and_the_time_left_of_each_clock() -> None:
    facts = dict(course(SWEEP, replace(AT_WORK, ran_s=200.0, wait_s=(4.0, 10.0))).facts())

    assert facts["Stage"] == "2 of 2: Sweep"
    assert facts["Work"] == "25 % of the stage: 4 KiB random read"
    assert facts["Left in this stage"] == "1 min 30 s on this host's clock"
    assert facts["Left in the run"].startswith("3 min 20 s to 8 min 20 s on the simulated drive's")
    assert facts["Time to wait"] == "4 s to 10 s on this host's clock"


def test_a_finding_is_shown_once_and_the_most_serious_first() -> None:
    note = Finding(code=Code.SIMULATED, severity=Severity.NOTES, message="no real drive")
    cut = Finding(code=Code.CUT_SHORT, severity=Severity.INVALIDATES, message="still in progress")
    found = course(*[FindingRaised(one) for one in (note, INVALID, INVALID, cut)])

    shown = found.findings()
    assert shown is not None
    assert [group.code for group in shown.groups] == [str(Code.NOT_STEADY), str(Code.SIMULATED)]


def test_only_findings_of_finished_stages_are_taken_from_the_results_so_far(
    tmp_path: Path,
) -> None:
    few = Finding(code=Code.TOO_FEW_REPEATS, severity=Severity.INVALIDATES, message="only 1 repeat")
    result = a_small_run(tmp_path)
    first, second = (
        stage.model_copy(update={"findings": (finding,), "complete": done, "found": FillDone()})
        for stage, finding, done in zip(result.stages, (INVALID, few), (True, False), strict=True)
    )
    found = course()
    found.take(result.model_copy(update={"stages": (first, second)}))

    assert [finding.message for finding in found.found.values()] == [INVALID.message]


def test_the_report_so_far_has_no_figure_and_no_count_of_drives(tmp_path: Path) -> None:
    result = a_full_run(tmp_path)
    page = write.page(StoredRun(tmp_path, result))
    assert page.workloads is not None
    counted = replace(page.workloads, columns=[*page.workloads.columns, number(words.DRIVES)],
                      rows=[[*row, Cell("4711")] for row in page.workloads.rows])  # fmt: skip
    shown = live.frame(course(), replace(page, workloads=counted), every_s=10.0)

    assert "4711" not in shown
    assert "<figure" not in shown
    assert "What was measured" in shown


def test_a_long_curve_keeps_its_slowest_and_its_fastest_second() -> None:
    curve = Curve("Warm up")
    for second in range(20_000):
        rate = {7_777: 5.0, 12_345: 9000.0}.get(second, 1000.0)
        curve.add(
            replace(AT_WORK, ran_s=float(second), rate_iops=rate, rate_bytes_per_s=4e3 * rate)
        )

    assert len(curve.samples) <= 600
    assert min(sample[1] for sample in curve.samples) == 5.0
    assert max(sample[2] for sample in curve.samples) == 9000.0
    assert curve.drawn()["top"] == "9,000 IOPS"
    heights = [float(y) for y in re.findall(r",([\d.]+)", curve.drawn()["outline"])]
    assert min(heights) == 0.0  # the fastest second stands at the top


class Clocks:
    """A clock that a test moves, and a CPU clock that each look moves by `cost_s`."""

    def __init__(self, cost_s: float) -> None:
        self.now_s, self.used_s, self.cost_s = 100.0, 0.0, cost_s

    def cpu(self) -> float:
        self.used_s += self.cost_s
        return self.used_s


@pytest.mark.parametrize(("cost_s", "every_s"), [(0.001, EVERY_S), (0.02, COST_TIMES * 0.02)])
def test_the_page_is_written_no_more_often_than_its_share_of_the_cpu_allows(
    cost_s: float, every_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks, times = Clocks(cost_s), list[float]()
    monkeypatch.setattr(livepage, "write_whole", lambda path, data: times.append(clocks.now_s))
    monkeypatch.setattr(livepage, "unended_result", lambda directory: None)
    (tmp_path / "live.html").touch()
    page = LivePage(tmp_path, clock=lambda: clocks.now_s, cpu=clocks.cpu)
    events: list[Event] = [STARTED, SWEEP, *[AT_WORK] * 1000]
    for event in events:
        page.see(event)
        clocks.now_s += 0.5

    apart = [later - earlier for earlier, later in zip(times[1:], times[2:], strict=False)]
    assert apart
    assert all(pause == pytest.approx(every_s, abs=0.5) for pause in apart)


def test_the_report_so_far_is_read_only_between_two_measurements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks, reads = Clocks(0.0), list[float]()
    monkeypatch.setattr(livepage, "unended_result", lambda directory: reads.append(clocks.now_s))
    (tmp_path / "live.html").touch()
    page = LivePage(tmp_path, clock=lambda: clocks.now_s, cpu=clocks.cpu)
    events: list[Event] = [STARTED, SWEEP, *[AT_WORK] * 50]
    for event in events:
        page.see(event)
        clocks.now_s += 20.0
    assert reads == [100.0]

    page.see(UnitFinished("02-sweep", "repeat-01"))
    assert reads == [100.0, clocks.now_s]


def test_a_full_disk_gives_the_page_up_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(livepage, "write_whole", full)
    (tmp_path / "live.html").touch()
    page = LivePage(tmp_path)
    for event in (STARTED, SWEEP, AT_WORK, AT_WORK):
        page.see(event)
    page.end()

    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert said[0].endswith("the run itself goes on")


def test_a_finding_from_before_the_start_is_on_the_page(tmp_path: Path) -> None:
    page = LivePage(tmp_path, wanted=True)
    page.see(FindingRaised(INVALID))
    page.see(STARTED)

    assert "fell by 9 %" in (tmp_path / "live.html").read_text()


def test_nothing_is_written_unless_a_page_was_asked_for(tmp_path: Path) -> None:
    page = LivePage(tmp_path)
    for event in (STARTED, SWEEP, AT_WORK):
        page.see(event)
    page.end()

    assert not list(tmp_path.iterdir())


def test_a_run_that_is_killed_leaves_a_whole_page_that_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    out, page = tmp_path / "out", tmp_path / "out" / "live.html"
    argv = [sys.executable, "-m", "ssdbench", "run", str(tmp_path / "long.yaml"), "--output",
            str(out), "--page"]  # fmt: skip
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        until_s = time.monotonic() + 120
        while not list(out.glob("stages/*/*/seconds.csv")):
            assert process.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)

    html5lib.HTMLParser(strict=True).parse(text := page.read_text())
    assert f"ssdbench resume {out}" in text
    assert f"ssdbench attach {out}" in text


def test_the_last_page_is_the_report_and_forwards_nowhere(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<!DOCTYPE html><title>the report</title>")
    page = LivePage(tmp_path, wanted=True)
    page.see(STARTED)
    page.end()

    assert (tmp_path / "live.html").read_text() == (tmp_path / "report.html").read_text()


def test_the_last_page_of_a_run_that_failed_says_why_whatever_report_there_was(
    tmp_path: Path,
) -> None:
    (tmp_path / "report.html").touch()  # of the run before it was resumed
    page = LivePage(tmp_path, wanted=True)
    page.see(STARTED)
    page.end("The run ended: <no space>.")

    html5lib.HTMLParser(strict=True).parse(text := (tmp_path / "live.html").read_text())
    assert "The run ended: &lt;no space&gt;." in text
    assert "refresh" not in text


def test_attach_to_a_live_run_only_makes_the_file_that_the_run_then_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    background.begin(tmp_path)  # by this process, which lives
    monkeypatch.setattr(time, "sleep", lambda seconds: background.end(tmp_path, 5))

    assert run(["attach", "--page", str(tmp_path)]) == 5
    asked = (tmp_path / "live.html").read_text()
    assert 'http-equiv="refresh" content="10"' in asked
    assert str(tmp_path / "live.html") in capfd.readouterr().err

    page = LivePage(tmp_path)
    page.see(STARTED)
    assert "RUNNING" in (tmp_path / "live.html").read_text()


def test_a_run_directory_that_cannot_be_written_costs_attach_the_page_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(path: Path, data: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    background.begin(tmp_path)
    monkeypatch.setattr(livepage, "write_whole", refused)
    monkeypatch.setattr(time, "sleep", lambda seconds: background.end(tmp_path, 5))

    assert run(["attach", "--page", str(tmp_path)]) == 5
    assert "no live page: " in (said := capfd.readouterr().err)
    assert "Permission denied" in said
    assert json.loads((tmp_path / "ended.json").read_text()) == {"exit_code": 5}
