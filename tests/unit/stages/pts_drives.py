"""What the tests of SNIA PTS stages begin with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ssdbench.engine.stage import RateHint
from ssdbench.generator.base import Job, Running
from ssdbench.model.finding import Code
from ssdbench.model.profile import Purge
from ssdbench.model.profile.standard import PtsForm, PtsTest
from ssdbench.model.pts import Pts
from ssdbench.model.result import StageResult
from ssdbench.stages.pts.rounds import Rounds
from ssdbench.stages.pts.tests import TESTS, Setting
from ssdbench.stages.pts.timed import Timed
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun

HINT = RateHint()


def flat() -> WearyDrive:
    return WearyDrive(fresh_iops=2560.0, floor_iops=2560.0)


class RestlessDrive(WearyDrive):
    """One whose queue is never empty, whatever the pauses of the workload."""

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        flowing = {"burst_us": 0, "thinktime_us": 0}
        return super().start(
            [replace(job, workload=job.workload.model_copy(update=flowing)) for job in jobs],
            artifacts=artifacts,
        )


def a_setting(
    drive: WearyDrive,
    *,
    form: PtsForm = PtsForm.ENTERPRISE,
    scale: float = 1.0,
    purge: Purge = Purge.FORMAT,
) -> Setting:
    return Setting(drive.info, form, 25, scale, purge)


def rounds_of(test: PtsTest, drive: WearyDrive, *, form: PtsForm = PtsForm.ENTERPRISE) -> Rounds:
    stage = TESTS[test]("01", a_setting(drive, form=form))[0]
    assert isinstance(stage, Rounds)
    return stage


def timed_of(test: PtsTest, drive: WearyDrive, *, scale: float = 1.0) -> Timed:
    (stage,) = TESTS[test]("01", a_setting(drive, scale=scale))
    assert isinstance(stage, Timed)
    return stage


def a_run(path: Path, drive: WearyDrive, test: PtsTest, *, scale: float = 0.05) -> ARun:
    run = ARun(path / "run", drive)
    run.stages += TESTS[test](f"01-pts-{test}", a_setting(drive, scale=scale))[:1]
    return run


def go(path: Path, drive: WearyDrive, test: PtsTest, *, scale: float = 0.05) -> StageResult:
    return a_run(path, drive, test, scale=scale).go().stages[0]


def found(result: StageResult) -> Pts:
    assert isinstance(result.found, Pts)
    return result.found


def codes(result: StageResult) -> list[Code]:
    return [finding.code for finding in result.findings]
