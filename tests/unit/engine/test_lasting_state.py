"""Stages that build on the drive what they measure on: what a crash leaves of it, and says."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ssdbench.engine.journal import Kind
from ssdbench.engine.stage import (
    Concluded,
    Context,
    Ended,
    Lasting,
    PlainStage,
    RateHint,
    StagePlan,
    Unit,
)
from ssdbench.model import records
from ssdbench.model.finding import Code
from ssdbench.model.found import PurgeDone
from ssdbench.model.kind import StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.target import TargetInfo
from tests.support.fakes import Killed, WearyDrive
from tests.support.runs import ARun, result_of

UNITS = ("lay", "one", "age", "two", "three")
BUILDS = ("lay", "age")


@dataclass
class Built(PlainStage):
    """Lays files, measures, ages, and measures twice; its tape tells what was done."""

    name: str = "02-built"
    tape: list[str] = field(default_factory=list)
    dies_in: str = ""
    holds: bool = True  # what is intact can be mounted again
    kind = StageKind.FILESYSTEM
    title = "Build and measure"
    destructive = True
    units_last = Lasting.CONTENT
    units_are = "steps"
    record = UnitRecord

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        return StagePlan.of(self, target, jobs=(), seconds=(0, 0))

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        intact = context.intact and self.holds
        self.tape.append("mounted" if intact else "made")
        yield replace(context, intact=intact)

    def units(self, context: Context, done: Sequence[UnitRecord]) -> Iterator[Unit[str]]:
        for name in UNITS:
            yield Unit(name, name, builds=name in BUILDS)

    def measure(self, context: Context, unit: Unit[str]) -> UnitRecord:
        if unit.name == self.dies_in:
            raise Killed
        self.tape.append(unit.name)
        return UnitRecord()

    def conclude(
        self, context: Context, done: Sequence[UnitRecord], ended: Ended[UnitRecord]
    ) -> Concluded[PurgeDone]:
        return Concluded(PurgeDone())


def killed_in(tmp_path: Path, unit: str) -> tuple[ARun, Built]:
    stage = Built(dies_in=unit)
    run = ARun(tmp_path / "run").precondition()
    run.stages.append(stage)
    with pytest.raises(Killed):
        run.go()
    stage.tape.clear()
    stage.dies_in = ""
    return run, stage


def again(run: ARun) -> list[str]:
    """What a resumed run says of measuring again."""
    stage = result_of(run.resume(), "02-built")
    return [finding.message for finding in stage.findings if finding.code is Code.RESUMED]


def test_what_stands_is_mounted_again_and_nothing_finished_is_repeated(tmp_path: Path) -> None:
    run, stage = killed_in(tmp_path, "three")

    assert again(run) == []
    assert stage.tape == ["mounted", "three"]
    finished = run.units(Kind.FINISHED)
    assert [unit for unit in finished if unit in UNITS] == list(UNITS)  # each once


def test_what_was_built_by_half_is_made_anew_and_said_once(tmp_path: Path) -> None:
    run, stage = killed_in(tmp_path, "age")

    said = again(run)

    assert len(said) == 1
    assert "2 finished steps no longer count" in said[0]
    assert stage.tape == ["made", *UNITS]


def test_a_first_step_that_never_ended_costs_nothing_that_was_measured(tmp_path: Path) -> None:
    run, stage = killed_in(tmp_path, "lay")

    assert again(run) == []
    assert stage.tape == ["made", *UNITS]


def test_what_cannot_be_mounted_again_is_made_anew(tmp_path: Path) -> None:
    run, stage = killed_in(tmp_path, "three")
    stage.holds = False

    assert len(again(run)) == 1
    assert stage.tape == ["made", *UNITS]


def test_when_others_wrote_to_the_drive_it_is_filled_and_built_anew(tmp_path: Path) -> None:
    run, stage = killed_in(tmp_path, "three")
    run.drive.discarded_bytes += 1 << 20

    assert len(again(run)) == 1
    assert stage.tape == ["made", *UNITS]
    assert run.finished() == ["01-precondition", "02-built"]


def test_what_was_finished_before_a_loss_does_not_count_after_a_second_crash(
    tmp_path: Path,
) -> None:
    run, stage = killed_in(tmp_path, "age")  # "lay" and "one" are finished, and lost with it
    stage.dies_in = "one"
    with pytest.raises(Killed):
        run.resume()
    stage.tape.clear()
    stage.dies_in = ""

    again(run)

    assert stage.tape == ["mounted", "one", "age", "two", "three"]


def test_a_warm_up_before_a_fill_is_not_proven_again_for_what_comes_after_the_fill(
    tmp_path: Path,
) -> None:
    stage = Built(name="04-built", dies_in="three")
    run = ARun(tmp_path / "run", drive=WearyDrive()).precondition().steady().precondition()
    run.stages.append(stage)
    with pytest.raises(Killed):
        run.go()
    stage.dies_in = ""

    run.resume()

    assert run.reused() == ["01-precondition", "02-steady", "03-precondition"]
    assert stage.tape[-2:] == ["mounted", "three"]


def test_a_fill_that_a_new_warm_up_overwrote_is_done_again(tmp_path: Path) -> None:
    run = ARun(tmp_path / "run").precondition().steady().sweep()
    stage = Built(name="05-built", dies_in="two")
    run.precondition()
    run.stages.append(stage)
    with pytest.raises(Killed):
        run.go()
    # Somebody removes the results of the sweep: its warm-up is proven again, over the fill.
    (run.path / "stages/03-sweep/stage.json").unlink()
    journal = run.path / "journal.jsonl"
    kept = [
        line.fields
        for line in records.read(journal.read_bytes()).lines
        if (line.fields["kind"], line.fields.get("stage")) != ("finished", "03-sweep")
        or "unit" in line.fields
    ]
    numbered = [records.line({**fields, "n": n}) for n, fields in enumerate(kept)]
    journal.write_text("\n".join(numbered) + "\n")
    stage.dies_in = ""
    stage.tape.clear()

    run.resume()

    assert run.finished() == ["02-steady", "03-sweep", "04-precondition", "05-built"]
    assert stage.tape == ["made", *UNITS]
