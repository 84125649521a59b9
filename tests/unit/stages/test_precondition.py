from pathlib import Path

import pytest

from ssdbench.model.finding import Code, Severity
from ssdbench.model.found import FillDone
from ssdbench.model.profile import Fill
from ssdbench.model.profile.sweeps import AccessOrder
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetKind
from ssdbench.model.workload import Content
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun

SEQUENTIAL = Fill()  # twice, in order
RANDOM = Fill(pattern=AccessOrder.RANDOM, block=4096, fill=1)


def codes(result: RunResult) -> set[Code]:
    return {finding.code for stage in result.stages for finding in stage.findings}


def fill_of(result: RunResult) -> FillDone:
    found = result.stages[0].found
    assert isinstance(found, FillDone)
    return found


@pytest.fixture
def run(tmp_path: Path) -> ARun:
    return ARun(tmp_path / "run")


def test_all_fills_run_in_one_start_with_other_offsets_each(run: ARun) -> None:
    run.precondition(SEQUENTIAL, RANDOM).go()

    (start,) = run.drive.starts
    assert [job.total_bytes for job in start] == [run.drive.size_bytes] * 3
    assert [job.cover for job in start] == [False, False, True]
    assert len({job.seed for job in start}) == 3


def test_fills_of_a_file_start_once_per_block_size(run: ARun) -> None:
    run.drive = WearyDrive(kind=TargetKind.FILE)

    run.precondition(SEQUENTIAL, RANDOM).go()

    assert [len(start) for start in run.drive.starts] == [2, 1]


def test_a_fill_that_the_counters_confirm_has_no_finding(run: ARun) -> None:
    result = run.precondition(SEQUENTIAL).go()

    assert codes(result) == set()
    assert fill_of(result).counted_bytes == 2 * run.drive.size_bytes


def test_bytes_that_the_counters_do_not_show_are_no_fill(run: ARun) -> None:
    run.drive.on_second = lambda drive, second: setattr(drive, "loses_bytes", 1 << 20)

    result = run.precondition(SEQUENTIAL).go()

    assert codes(result) == {Code.FILL_UNPROVEN}


def test_a_partial_fill_is_labelled_and_stays_below_its_level(run: ARun) -> None:
    result = run.precondition(SEQUENTIAL, level_percent=50).go()

    ends = {job.workload.range.length_bytes for job in run.drive.starts[0]}
    assert ends == {run.drive.size_bytes // 2}
    assert codes(result) == {Code.PARTIAL_FILL}


@pytest.mark.parametrize(
    ("for_experiment", "severity"), [(False, Severity.INVALIDATES), (True, Severity.NOTES)]
)
def test_a_partial_fill_spoils_numbers_and_is_what_an_experiment_asked_for(
    run: ARun, for_experiment: bool, severity: Severity
) -> None:
    result = run.precondition(SEQUENTIAL, level_percent=50, for_experiment=for_experiment).go()

    assert [f.severity for stage in result.stages for f in stage.findings] == [severity]


def test_zeros_are_labelled(run: ARun) -> None:
    result = run.precondition(Fill(fill=1, content=Content.ZEROS)).go()

    assert codes(result) == {Code.COMPRESSIBLE}


@pytest.mark.parametrize(
    ("share", "severity"),
    [
        pytest.param(1.0, None, id="alike"),
        pytest.param(1.005, None, id="within-a-hundredth"),
        pytest.param(0.9, Severity.INVALIDATES, id="the-drive-saw-less"),
        pytest.param(1.1, Severity.WARNS, id="the-drive-saw-more"),
    ],
)
def test_the_drives_health_log_is_a_second_witness(
    run: ARun, share: float, severity: Severity | None
) -> None:
    run.drive.size_bytes = 1 << 30
    run.drive.fresh_iops = run.drive.floor_iops = 50_000
    run.drive.health = lambda drive: int(drive.written_bytes * share)

    result = run.precondition(SEQUENTIAL).go()

    found = [f for f in result.stages[0].findings if f.code is Code.FILL_UNPROVEN]
    assert [f.severity for f in found] == ([] if severity is None else [severity])
    told = fill_of(result).smart_written_bytes
    assert told == pytest.approx(share * (2 << 30), rel=1e-6)


def test_rounding_of_a_small_fill_is_no_disagreement(run: ARun) -> None:
    run.drive.health = lambda drive: -(-drive.written_bytes // 512_000) * 512_000

    assert codes(run.precondition(RANDOM).go()) == set()
