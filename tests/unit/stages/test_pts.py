from pathlib import Path
from typing import Any

import pytest

from ssdbench.model.finding import Code
from ssdbench.model.result import StageResult
from ssdbench.stages.pts.tests import BLOCKS, FORMS, MIXES, TESTS, Setting
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun


def a_setting(drive: WearyDrive, *, form: str = "enterprise", scale: float = 1.0) -> Setting:
    return Setting(drive.info, FORMS[form], 25, scale)


def go(path: Path, drive: WearyDrive, test: str, *, scale: float = 0.05) -> StageResult:
    run = ARun(path / "run", drive)
    run.stages += TESTS[test](f"01-pts-{test}", a_setting(drive, scale=scale))
    return run.go().stages[0]


def records(result: StageResult, name: str) -> list[dict[str, Any]]:
    found = result.data[name]
    assert isinstance(found, list)
    return found


def test_the_iops_test_is_seven_mixes_of_eight_blocks_writes_last() -> None:
    (test,) = TESTS["iops"]("01", a_setting(WearyDrive()))

    assert len(test.cells) == len(MIXES) * len(BLOCKS) == 56
    assert test.cells[0].name == "100/0 1 MiB" and test.cells[-1].name == "0/100 512 B"
    assert [t.cell for t in test.tracking] == ["0/100 4 KiB", "65/35 64 KiB", "100/0 1 MiB"]
    assert all(t.cell in [cell.name for cell in test.cells] for t in test.tracking)


def test_the_forms_differ_in_active_range_queue_and_threads() -> None:
    drive = WearyDrive()
    enterprise, client = (
        TESTS["iops"]("01", a_setting(drive, form=form))[0].cells[6].workload
        for form in ("enterprise", "client")
    )

    assert (enterprise.iodepth, enterprise.numjobs) == (32, 4)
    assert (client.iodepth, client.numjobs) == (16, 2)
    assert client.range.length_bytes == pytest.approx(0.75 * enterprise.range.length_bytes)


def test_half_kib_points_do_not_apply_to_a_drive_with_4_kib_blocks(tmp_path: Path) -> None:
    result = go(tmp_path, WearyDrive(logical_block_bytes=4096), "latency")

    codes = [finding.code for finding in result.findings]
    assert codes.count(Code.NOT_APPLICABLE) == 3
    assert len(records(result, "means_over_the_window")) == 6


def test_a_test_ends_when_five_rounds_are_alike(tmp_path: Path) -> None:
    result = go(tmp_path, WearyDrive(fresh_iops=2560, floor_iops=2560), "throughput")

    assert result.summary["rounds"] == 5 and result.summary["steady_state"] == "reached"
    (header,) = records(result, "steady_state")
    assert header["steady"] and header["window"] == "rounds 1 to 5"
    (write,) = [m for m in records(result, "means_over_the_window") if m["read_percent"] == 0]
    assert write["throughput_bytes_per_s"] == pytest.approx(
        2560 * 4096, rel=0.02
    )  # the planted floor


def test_a_drive_that_never_settles_is_said_to_be_unsteady_after_25_rounds(tmp_path: Path) -> None:
    drive = WearyDrive(floor_iops=25_600, fresh_iops=25_600, drift_per_fill=0.002)

    result = go(tmp_path, drive, "throughput", scale=1.0)

    assert result.summary["rounds"] == 25
    assert Code.NOT_STEADY in [finding.code for finding in result.findings]


def test_scaled_durations_are_labelled_and_never_valid(tmp_path: Path) -> None:
    result = go(tmp_path, WearyDrive(fresh_iops=2560, floor_iops=2560), "throughput")

    assert result.summary["durations"] == "SCALED by 0.05"
    assert Code.QUICK_RULE in [finding.code for finding in result.findings]


def test_the_latency_test_ends_with_a_histogram_in_steady_state(tmp_path: Path) -> None:
    drive = WearyDrive(fresh_iops=100)

    result = go(tmp_path, drive, "latency")

    (last,) = records(result, "in_steady_state")
    assert last["cell"] == "0/100 4 KiB, 20 min"
    assert drive.starts[-1][0].runtime_s == 60  # 20 min, scaled
    assert last["mean_ns"] == pytest.approx(1e9 / 100, rel=0.05)


def test_the_demand_matrix_goes_down_from_the_most_outstanding_requests() -> None:
    (test,) = TESTS["demand"]("01", a_setting(WearyDrive()))

    totals = [cell.workload.iodepth * cell.workload.numjobs for cell in test.cells[1:]]
    assert len(totals) == 49 and totals == sorted(totals, reverse=True)
    assert test.cells[0].seconds == 300


def test_the_composite_split_sums_up_on_drives_with_4_kib_blocks() -> None:
    for logical in (512, 4096):
        (test,) = TESTS["composite"]("01", a_setting(WearyDrive(logical_block_bytes=logical)))
        split = test.cells[-1].workload.block_split

        assert sum(share for _, share in split) == 100
        assert all(size % logical == 0 for size, _ in split)
