"""Events as lines, for people and for whoever attaches."""

import json
import os
import pty
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.cli.eventlog import EventLog, Reader
from ssdbench.cli.output import document, table
from ssdbench.cli.progress import ProgressBar, ProgressLines, said
from ssdbench.engine.events import FindingRaised, Progress, StageFinished, StageStarted
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.findings.repeats import RepeatsMove
from tests.support.builders import stage_result

SLOW = Finding(code=Code.TREND, severity=Severity.WARNS, message="it drifts", advice="wait")
HALF = Progress("02-steady", 0.5, 320.0, "4 KiB random write", 212e6, 51_757.8, 2.4)


def test_progress_is_a_line_with_time_left_rate_and_written_share() -> None:
    assert said(HALF) == (
        "50 %, 5 min 20 s left: 4 KiB random write, 51,758 IOPS, 212 MB/s, 2.4 fills written"
    )
    ends = replace(HALF, ends_after_s=(3600.0, 5400.0))
    assert said(ends) == f"{said(HALF)}; the run takes 1 h 00 min to 1 h 30 min"


def test_a_line_has_one_clock_and_names_it(capfd: pytest.CaptureFixture[str]) -> None:
    drive_s, host_s = (3600.0, 5400.0), (100.0, 400.0)
    simulated = replace(HALF, ends_after_s=drive_s, wait_s=host_s, simulated=True)
    drive_likely_s = (4000.0, 5000.0)
    begun = StageStarted(
        "02-steady", "Warm up", 2, 4, (60.0, 7200.0), drive_s, host_s, drive_likely_s
    )
    ended = StageFinished(stage_result("steady", duration_s=5400.0, wall_s=100.0))
    real = StageFinished(stage_result("steady", duration_s=100.2, wall_s=100.0))

    lines = ProgressLines()
    for event in (begun, ended, real):
        lines.show(event)

    assert capfd.readouterr().err.splitlines() == [
        "[2/4] Warm up, drive's time: 1 min 00 s to 2 h 00 min",
        "  the whole run: likely 1 h 06 min to 1 h 23 min, at most 1 h 30 min",
        "  host's time until the end: 1 min 40 s to 6 min 40 s",
        "  done, drive's time: 1 h 30 min",
        "  host's time: 1 min 40 s",
        "  done in 1 min 40 s",
    ]
    assert said(simulated).splitlines() == [
        "50 %, 4 KiB random write, 51,758 IOPS, 212 MB/s, 2.4 fills written; "
        "the run takes 1 h 00 min to 1 h 30 min of the drive's time",
        "  host's time: 5 min 20 s left of this stage, 1 min 40 s to 6 min 40 s left of the run",
    ]


def test_progress_is_told_now_and_then_and_findings_once(
    capfd: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]
    lines = ProgressLines(clock=lambda: now[0])

    lines.show(StageStarted("02-steady", "Warm up", 2, 4, (60.0, 7200.0)))
    lines.show(HALF)
    now[0] = 31.0
    lines.show(HALF)
    lines.show(HALF)
    lines.show(FindingRaised(SLOW))
    lines.show(FindingRaised(SLOW))

    assert capfd.readouterr().err.splitlines() == [
        "[2/4] Warm up, drive's time: 1 min 00 s to 2 h 00 min",
        f"  {said(HALF)}",
        "  warning: it drifts (wait)",
    ]


def test_the_bar_writes_to_stderr_only(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar() as bar:
        bar.show(HALF)
        bar.show(FindingRaised(SLOW))

    out, err = capfd.readouterr()
    assert out == ""
    assert "it drifts" in err


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (40, "[2/4]  50 % 5 min 20 s left: 4 KiB rando"),
        (80, "5 min 20 s left: 4 KiB random write, 51,758 IOPS, 212 MB/s, 2.4 fill"),
    ],
)
def test_the_bar_is_one_line_that_shows_the_workload(
    columns: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as within:
        within.setattr("sys.stderr", terminal)
        with ProgressBar() as bar:
            bar.show(StageStarted("02-steady", "Warm up", 2, 4, (60.0, 7200.0)))
            bar.show(HALF)
            bar._bar.refresh()
    read = b""
    with suppress(OSError):  # EIO: nobody holds the other end, and all was read
        while part := os.read(ours, 1 << 16):  # a terminal hands out 4 KiB at most
            read += part
    os.close(ours)
    text = read.decode()

    drawn = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", one) for one in re.split(r"[\r\n]+", text)]
    bars = [one.strip() for one in drawn if "%" in one]
    assert bars and all(len(one) <= columns for one in bars)
    assert bars[-1].endswith(shown)
    told = [one for one in drawn if one.strip() and "%" not in one]
    assert all(len(one) <= columns for one in told)
    assert " ".join(one.strip() for one in told) == (
        "[2/4] Warm up, drive's time: 1 min 00 s to 2 h 00 min"  # no word is broken
    )


def test_whoever_attaches_sees_each_event_once(tmp_path: Path) -> None:
    log, reader = EventLog(tmp_path), Reader(tmp_path)
    assert list(reader.lines()) == []

    log.write(FindingRaised(SLOW))
    log.write(FindingRaised(SLOW))
    log.write(HALF)

    assert list(reader.lines()) == ["  warning: it drifts (wait)"]
    assert list(reader.lines()) == []
    assert reader.progress() == HALF
    assert reader.progress() is None


def test_a_stored_event_has_every_field_of_its_finding(tmp_path: Path) -> None:
    drift = RepeatsMove(change=-0.1, tau=-0.8, p=0.003).finding(
        stage="03-sweep", point="write-qd1", repeat=2
    )
    EventLog(tmp_path).write(FindingRaised(drift))

    stored = json.loads((tmp_path / "events.jsonl").read_text())
    assert stored["finding"]["numbers"] == {"change": -0.1, "tau": -0.8, "p": 0.003}
    assert Finding.model_validate(stored["finding"]) == drift


def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    EventLog(tmp_path / "not there").write(FindingRaised(SLOW))

    assert list(tmp_path.iterdir()) == []


def test_json_has_no_infinity(capfd: pytest.CaptureFixture[str]) -> None:
    document({"a": float("inf"), "b": [float("nan"), 1.5]})

    assert capfd.readouterr().out.split() == [
        "{",
        '"a":',
        "null,",
        '"b":',
        "[",
        "null,",
        "1.5",
        "]",
        "}",
    ]


def test_numbers_of_a_table_stand_to_the_right() -> None:
    assert table(("name", "IOPS"), [("a", "5"), ("bc", "1,234")]).splitlines() == [
        "name   IOPS",
        "----  -----",
        "a         5",
        "bc    1,234",
    ]


def test_a_table_wider_than_its_terminal_stays_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    header, rows = ("point", "IOPS"), [("4 KiB random write", "12,345"), ("64 KiB", "9")]
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setenv("COLUMNS", "21")
        narrow = table(header, rows)
        monkeypatch.setenv("COLUMNS", "26")
        wide = table(header, rows)
    os.close(ours)

    assert narrow.splitlines() == [
        "point            IOPS",
        "-------------  ------",
        "4 KiB random   12,345",
        "write",
        "64 KiB              9",
    ]
    assert wide.splitlines()[2] == "4 KiB random write  12,345"
