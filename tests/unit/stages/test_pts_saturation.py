"""Write saturation (SNIA PTS-E, WSAT)."""

from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.errors import UsageError
from ssdbench.model.finding import Code
from ssdbench.model.profile.standard import PtsTest, Saturation
from ssdbench.stages.pts.tests import saturation
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun
from tests.unit.stages.pts_drives import a_setting, codes, flat, found, go


def test_write_saturation_ends_at_the_planted_floor_when_five_samples_are_alike(
    tmp_path: Path,
) -> None:
    drive = WearyDrive(size_bytes=1 << 28, tires_fills=0.05)

    result = go(tmp_path, drive, PtsTest.SATURATION, scale=0.05)

    (window,) = found(result).windows
    assert found(result).steady
    assert window.average == pytest.approx(100, rel=0.02)  # the floor, not the 1000 when fresh
    samples = found(result).samples
    assert len(samples) % 31 == 1 and samples[0].iops > 600
    assert found(result).in_steady_state[0].iops == pytest.approx(100, rel=0.02)


def test_the_optional_workloads_of_write_saturation_are_tests_of_their_own() -> None:
    setting = replace(a_setting(flat()), saturation=tuple(Saturation))

    tests = saturation("pts-saturation", setting)

    loads = [(t.name, t.phases[0].workload) for t in tests]
    assert [
        (name.removeprefix("pts-saturation"), w.pattern.value, w.block_bytes, w.read_percent)
        for name, w in loads
    ] == [
        ("", "random", 4096, 0),
        ("-mixed-8k", "random", 8192, 65),
        ("-sequential-128k", "sequential", 131072, 90),
        ("-sequential-512", "sequential", 512, 50),
        ("-composite", "random", 4096, 40),
    ]
    assert len(loads[-1][1].block_split) == 12
    assert {t.preparation.from_fresh for t in tests} == {True}


def test_half_kib_saturation_is_left_out_on_drives_with_4_kib_blocks() -> None:
    setting = a_setting(replace(flat(), logical_block_bytes=4096))
    both = replace(setting, saturation=(Saturation.WRITES_4K, Saturation.SEQUENTIAL_512))

    (only,) = saturation("pts-saturation", both)

    assert [f.code for f in only.skipped] == [Code.NOT_APPLICABLE]
    with pytest.raises(UsageError, match="no workload"):
        saturation("pts-saturation", replace(setting, saturation=(Saturation.SEQUENTIAL_512,)))


def test_an_optional_saturation_workload_runs_to_its_end(tmp_path: Path) -> None:
    run = ARun(tmp_path / "run", WearyDrive(size_bytes=1 << 28, tires_fills=0.05))
    setting = replace(a_setting(run.drive, scale=0.05), saturation=(Saturation.MIXED_8K,))
    run.stages += saturation("01-pts-saturation", setting)

    (stage,) = run.go().stages

    assert found(stage).load == "65/35 8 KiB" and found(stage).load in stage.title
    assert found(stage).steady
    assert {sample.phase for sample in found(stage).samples} == {"65/35 8 KiB"}


def test_write_saturation_of_a_drifting_drive_ends_unsteady_at_four_fills(tmp_path: Path) -> None:
    drive = WearyDrive(size_bytes=1 << 30, floor_iops=2560, fresh_iops=2560, drift_per_fill=0.08)

    result = go(tmp_path, drive, PtsTest.SATURATION, scale=0.05)

    samples = found(result).samples
    assert found(result).steady is False
    assert Code.NOT_STEADY in codes(result)
    assert samples[-2].written_bytes < 4 * drive.size_bytes <= samples[-1].written_bytes
