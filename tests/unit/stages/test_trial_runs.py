"""A trial as a run has it, on a target that is only there: killed, resumed, and lied to by fio."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ssdbench.engine.journal import Kind
from ssdbench.errors import DeviceLost
from ssdbench.generator.base import Direction, JobOutcome
from ssdbench.generator.fio.driver import Sections, run_fio_sections
from ssdbench.host.command import Process
from ssdbench.host.counters import DiskStat
from ssdbench.model.finding import Code
from ssdbench.model.found import Comparison
from ssdbench.model.kind import StageKind
from ssdbench.model.result import RunResult, StageResult
from ssdbench.stages.host import trial
from ssdbench.stages.host.trial import Trial, TrialWorkload, Variant
from ssdbench.stats.histogram import Histogram
from tests.support.fakefio import FakeFio, a_job, a_report
from tests.support.fakes import MIB, Killed, WearyDrive
from tests.support.runs import ARun, a_point, result_of
from tests.unit.generator.test_sections import Claimed

NAME = "01-queue"
STAGE = Trial(
    name=NAME,
    kind=StageKind.QUEUE,
    title="Compare settings of the queue",
    variants=(Variant("a", options={"iodepth": 4}), Variant("b", cpus=(1,))),
    workloads=(TrialWorkload("writes", ({"rw": "randwrite", "bs": 4096},)),),
    span_bytes=1 << 20,
    repeats=2,
    window_s=1,
    notes=("nothing polls here",),
)


@dataclass
class Startable(WearyDrive):
    """A drive on which fio's own options do what a test wants."""

    asked: list[tuple[Sections, tuple[int, ...]]] = field(default_factory=list)
    does: Callable[[Sections, Path, Callable[[Process], None]], JobOutcome] | None = None

    def run_sections(
        self,
        work: Sections,
        *,
        artifacts: Path,
        cpus: Collection[int],
        below: Path | None,
        meanwhile: Callable[[Process], None],
    ) -> JobOutcome:
        self.asked.append((work, tuple(cpus)))
        if self.does is not None:
            return self.does(work, artifacts, meanwhile)
        ios = 1000 * len(self.asked)
        done = Direction(ios=ios, bytes=4096 * ios, runtime_s=1.0, latency=Histogram.of([5] * ios))
        return JobOutcome("start", Direction(), done)


class Idle:
    """Counters that stand still."""

    def read(self) -> DiskStat:
        return DiskStat(0, 0, 0, 0, 0)


@pytest.fixture(autouse=True)
def _no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """This drive is not in /sys."""

    @contextmanager
    def idle(major_minor: str) -> Iterator[Idle]:
        yield Idle()

    monkeypatch.setattr(trial, "disk_counters", idle)


def a_run(path: Path, drive: Startable) -> ARun:
    run = ARun(path, drive=drive)
    run.stages.append(STAGE)
    return run


def found_in(result: RunResult) -> tuple[StageResult, Comparison]:
    stage = result_of(result, NAME)
    assert isinstance(stage.found, Comparison)
    return stage, stage.found


def test_every_cell_is_a_start_with_the_options_and_cpus_of_its_variant(tmp_path: Path) -> None:
    drive = Startable()

    stage, found = found_in(a_run(tmp_path / "run", drive).go())

    assert stage.complete
    options = [(work.sections[0].get("iodepth"), cpus) for work, cpus in drive.asked]
    assert sorted(options, key=str) == [(4, ()), (4, ()), (None, (1,)), (None, (1,))]
    assert all(work.options["size"] == 1 << 20 for work, _ in drive.asked)
    assert {median.variant: median.repeats for median in found.medians} == {"a": 2, "b": 2}
    assert found.notes == ("nothing polls here",)
    assert stage.bytes_written == 4096 * 1000 * (1 + 2 + 3 + 4)
    assert len((tmp_path / "run" / found.cells_csv).read_text().splitlines()) == 5


def test_a_killed_trial_goes_on_with_the_cells_that_are_missing(tmp_path: Path) -> None:
    drive = Startable()
    run = a_run(tmp_path / "run", drive)

    def kill(_: WearyDrive) -> None:
        if len(drive.asked) == 3:
            raise Killed

    drive.on_save = kill
    with pytest.raises(Killed):
        run.go()

    _, found = found_in(run.resume())

    assert len(drive.asked) == 5  # the third was not finished
    finished = run.units(Kind.FINISHED)
    assert len(finished) == len(set(finished)) == 4
    assert sum(median.repeats for median in found.medians) == 4


def test_what_the_drive_digested_before_a_trial_counts_no_more_after_it(tmp_path: Path) -> None:
    settle_s = []
    for with_trial in (False, True):
        run = ARun(tmp_path / f"run-{with_trial}", drive=Startable(spare_bytes=60 * MIB)).steady()
        if with_trial:
            run.stages.append(replace(STAGE, name="02-queue"))
        run.sweep(a_point(run.drive, "write"), repeats=1)
        (point,) = run.go().points
        settle_s.append(point.repeats[0].settle_s)

    assert settle_s[1] > settle_s[0]


def test_a_fio_without_a_single_request_fails_the_trial(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job()))

    def lied_to(
        work: Sections, artifacts: Path, meanwhile: Callable[[Process], None]
    ) -> JobOutcome:
        return run_fio_sections(Claimed(), work, artifacts=artifacts, placed={})

    run = a_run(tmp_path / "run", Startable(does=lied_to))

    with pytest.raises(DeviceLost, match="fio did no I/O in the start"):
        run.go()

    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())
    stage, found = found_in(result)
    assert not stage.complete
    assert found.medians == ()
    assert any(finding.code is Code.CUT_SHORT for finding in stage.findings)


def test_a_signal_ends_a_start_that_is_at_work(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(runs_s=60.0)
    drive = Startable()
    run = a_run(tmp_path / "run", drive)

    def long(work: Sections, artifacts: Path, meanwhile: Callable[[Process], None]) -> JobOutcome:
        run.signal = 2
        return run_fio_sections(
            Claimed(), work, artifacts=artifacts, placed={}, meanwhile=meanwhile
        )

    drive.does = long

    stage, _ = found_in(run.go())

    assert not stage.complete
    assert len(drive.asked) == 1
    assert run.units(Kind.FINISHED) == []
