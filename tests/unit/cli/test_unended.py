"""A run that was killed can be shown and asked, at whatever place of its journal it died."""

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ssdbench.cli import main
from ssdbench.engine.journal import Journal, Kind, is_unended
from ssdbench.engine.stage import AnyStage
from ssdbench.generator.base import Second
from ssdbench.model.finding import Code
from ssdbench.model.rundirectory import JOURNAL, MANIFEST, RESULT
from ssdbench.suite import unended
from tests.support.builders import a_manifest
from tests.support.fakes import Killed, WearyDrive
from tests.support.killpoints import killed_at
from tests.support.runs import ARun, a_point

PROFILE = "measure: [{sweep: {block: [4KiB], read: [0]}}]\n"
EVERY = 97  # one of so many places


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ARun:
    """A run of three stages, whose profile is taken to ask for just these."""
    made = ARun(tmp_path / "run").precondition().steady()
    made.sweep(a_point(made.drive, "write"), repeats=2)

    def asked(*_: object) -> list[AnyStage]:
        return made.stages

    monkeypatch.setattr(unended, "stages", asked)
    return made


def described(run: ARun) -> None:
    """Give the run its manifest, which no test of the engine needs."""
    kept = a_manifest(profile_text=PROFILE, target=run.drive.info, seed=run.seed)
    (run.path / MANIFEST).write_text(kept.model_dump_json())


def test_what_a_killed_run_measured_is_shown_and_labelled(
    run: ARun, capsys: pytest.CaptureFixture[str]
) -> None:
    second_repeat = run.path / "stages/03-sweep/write/repeat-02"

    def dies(drive: WearyDrive, second: Second) -> None:
        if second_repeat.exists():
            raise Killed

    run.drive.on_second = dies
    with pytest.raises(Killed):
        run.go()
    described(run)
    directory = str(run.path)

    assert main.run(["report", directory]) == 0
    result = unended.unended(run.path)

    page = (run.path / "report.html").read_text()
    assert "The run ended early, in stage 3 of 3: it ended in mid-run" in page
    assert not (run.path / RESULT).exists()
    assert [stage.complete for stage in result.stages] == [True, True, False]
    (point,) = result.points
    assert [repeat.repeat for repeat in point.repeats] == [1]
    assert result.verdict == "NOT VALIDATED"
    capsys.readouterr()
    assert main.run(["capacity", directory, "--iops", "1000", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["validated"]
    assert "it ended in mid-run" in answer["reasons"][0]


def test_a_damaged_journal_is_shown_up_to_its_damage(run: ARun) -> None:
    run.go()
    described(run)
    (run.path / RESULT).unlink()
    lines = (run.path / JOURNAL).read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"stage":"03-sweep"' in line)
    lines[at] = lines[at].replace(b"sweep", b"sweeq")
    (run.path / JOURNAL).write_bytes(b"".join(lines))

    assert main.run(["report", str(run.path)]) == 0

    result = unended.unended(run.path)
    assert [stage.name for stage in result.stages] == ["01-precondition", "02-steady"]
    assert f"its journal is damaged in line {at + 1}" in result.findings[0].message


def test_a_run_that_was_resumed_and_killed_shows_what_it_holds_since(run: ARun) -> None:
    run.interrupted_in("02-steady")
    run.go()
    described(run)
    assert not is_unended(run.path)
    with pytest.raises(Killed):
        run.resume(killed_in="03-sweep")
    described(run)

    assert is_unended(run.path)
    assert [stage.name for stage in unended.unended(run.path).stages][-1] == "03-sweep"


def killed_everywhere(run: ARun, fresh: Callable[[Path], ARun], step: int) -> None:
    """Kill a run at its places; each time its directory is shown, and the run resumed."""
    for number in count(1, step):
        one = fresh(run.path.parent / str(number))
        one.stages, one.drive = run.stages, type(run.drive)()
        killed = killed_at(number, one.go)
        if not (one.path / JOURNAL).exists() or not (one.path / JOURNAL).read_bytes().count(b"\n"):
            continue  # it had not begun
        described(one)
        if is_unended(one.path):
            shown = unended.unended(one.path)
            assert shown.verdict == "NOT VALIDATED", number
            assert Code.CUT_SHORT in {finding.code for finding in shown.findings}
        else:
            assert json.loads((one.path / RESULT).read_text())["finished_at"]
        result = one.resume()
        assert result.finished_at is not None, number
        assert len(result.points[0].repeats) == 2, number
        journal = Journal.open(one.path / JOURNAL)
        journal.close()
        assert journal.records[-1].kind is Kind.ENDED
        if not killed:
            return


def test_a_run_killed_somewhere_is_shown_and_resumed(
    run: ARun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    killed_everywhere(run, ARun, EVERY)


@pytest.mark.soak
def test_a_run_killed_anywhere_is_shown_and_resumed(
    run: ARun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    killed_everywhere(run, ARun, 1)
