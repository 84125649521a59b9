"""Reasons against a point that come from the drive and from the stages before it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ssdbench.engine.stage import Context
from ssdbench.generator.base import Job, Outcome, Running
from ssdbench.host.sensors import Heat
from ssdbench.model.finding import Code
from ssdbench.model.point import PointResult
from ssdbench.model.target import TargetInfo
from ssdbench.stages.points import PointStage
from tests.support.builders import stage_result
from tests.support.fakes import WearyDrive, WearyOutcome, WearyRunning
from tests.support.runs import QUICK, ARun, a_point


@dataclass
class Faulty(WearyDrive):
    """Three requests of every start fail; physical blocks are larger than logical ones."""

    errors: int = 3

    @property
    def info(self) -> TargetInfo:
        return super().info.model_copy(update={"physical_block_bytes": 16384})

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        artifacts.mkdir(parents=True, exist_ok=True)
        return Failing(self, jobs)


class Failing(WearyRunning):
    """Counts what failed."""

    def outcome(self) -> Outcome:
        done = super().outcome()
        errors = self._drive.errors  # type: ignore[attr-defined]
        jobs = tuple(replace(job, io_errors=errors) for job in done.jobs)
        return WearyOutcome(jobs, done.seconds, tuple(self._jobs))


@dataclass(frozen=True)
class After:
    """A sweep after a stage that found a buffer, on a drive with a thermometer."""

    sweep: PointStage
    buffer_bytes: int = 0
    heat: Heat | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self.sweep, name)

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        found = stage_result("blocksize", {"buffer_bytes": self.buffer_bytes})
        return nullcontext(
            replace(context, results=(*context.results, found), heat=lambda info: self.heat)
        )


def the_point(tmp_path: Path, drive: WearyDrive, **more: object) -> PointResult:
    run = ARun(tmp_path / "run", drive).precondition()
    sweep = PointStage("02-sweep", ((a_point(drive, "write"),),), 2, QUICK)
    run.stages.append(After(sweep, **more))  # type: ignore[arg-type]
    return run.go().stages[1].points[0]


def codes(point: PointResult) -> dict[Code, str]:
    return {finding.code: finding.severity for finding in point.findings}


def test_requests_that_failed_keep_a_point_from_being_valid(tmp_path: Path) -> None:
    assert codes(the_point(tmp_path, Faulty()))[Code.IO_ERRORS] == "invalidates"


def test_blocks_below_the_physical_block_are_labelled(tmp_path: Path) -> None:
    assert codes(the_point(tmp_path, Faulty(errors=0)))[Code.BELOW_REMAP_UNIT] == "notes"
    assert Code.BELOW_REMAP_UNIT not in codes(the_point(tmp_path / "b", WearyDrive()))


@pytest.mark.parametrize(
    ("buffer_bytes", "hidden"), [(0, False), (4 << 20, False), (64 << 20, True)]
)
def test_a_window_is_held_against_the_buffer_that_was_found(
    tmp_path: Path, buffer_bytes: int, hidden: bool
) -> None:
    drive = WearyDrive(floor_iops=200)  # 48 MiB a minute, and windows of at most ten

    found = codes(the_point(tmp_path, drive, buffer_bytes=buffer_bytes))

    assert (Code.HIDDEN_BY_BUFFER in found) == hidden


def test_a_drive_that_is_too_hot_is_not_valid_and_its_heat_is_stored(tmp_path: Path) -> None:
    hot = Heat(85, 80, alarm=False, gentle=True)

    point = the_point(tmp_path, WearyDrive(), heat=hot)

    assert codes(point)[Code.THROTTLED] == "invalidates"
    series = tmp_path / "run" / point.repeats[0].artifacts / "temperature.csv"
    assert series.read_text().splitlines()[-1].endswith(",85,80,measure")
