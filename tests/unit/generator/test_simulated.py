"""Unmodified fio on the simulated drive: the clock goes as far as it is looked at."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.driver import Fio, FioOutcome
from ssdbench.generator.fio.simulated import SimAttachment
from ssdbench.generator.fio.userjobs import job_file
from ssdbench.generator.fio.userworkloads import Room, phases_of
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from ssdbench.units import MIB
from tests.unit.generator.jobs import a_job, a_sequential

CAPACITY = 256 * MIB


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[SimDrive]:
    spec = parse(f"sim:x25m-g2-160,capacity={CAPACITY},seed=3")
    with SimDrive.create(spec, tmp_path / "state.ssdb") as created:
        yield created


def stopped_after(drive: SimDrive, seconds: int, directory: Path, *, step_s: int = 1) -> FioOutcome:
    job = a_job(length_bytes=CAPACITY, iodepth=4, numjobs=2, read_percent=30, histogram_log=True)
    fio = Fio(SimAttachment(drive, step_s=step_s))
    with fio.start([job], artifacts=directory) as running:
        for second in running:
            if second.t_s >= seconds:
                running.stop()
    return running.outcome()


def test_a_fill_writes_the_drive_once_and_the_seconds_say_so(
    drive: SimDrive, tmp_path: Path
) -> None:
    fill = a_sequential(length_bytes=CAPACITY, total_bytes=CAPACITY, iodepth=8)

    with Fio(SimAttachment(drive, step_s=5)).start([fill], artifacts=tmp_path / "fill") as running:
        seconds = list(running)

    assert running.outcome().jobs[0].write.bytes == CAPACITY
    assert sum(second.write_bytes for second in seconds) == CAPACITY
    assert drive.counters()["host_write_bytes"] == CAPACITY


def test_a_stop_takes_effect_at_exactly_the_second_that_was_seen(
    drive: SimDrive, tmp_path: Path
) -> None:
    outcome = stopped_after(drive, 3, tmp_path / "run")

    *whole, rest = outcome.seconds
    assert [second.t_s for second in whole] == [1.0, 2.0, 3.0]
    assert rest.duration_s < 0.1  # what was in flight
    assert sum(s.ios for s in outcome.seconds) == (
        outcome.jobs[0].read.ios + outcome.jobs[0].write.ios
    )


def test_larger_steps_only_change_when_the_judge_may_stop(drive: SimDrive, tmp_path: Path) -> None:
    outcome = stopped_after(drive, 3, tmp_path / "run", step_s=5)

    assert [second.t_s for second in outcome.seconds[:5]] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_equal_drives_give_equal_runs(tmp_path: Path) -> None:
    outcomes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        spec = parse(f"sim:x25m-g2-160,capacity={CAPACITY},seed=3")
        with SimDrive.create(spec, tmp_path / name / "state.ssdb") as drive:
            outcomes.append(stopped_after(drive, 2, tmp_path / name / "run"))

    one, two = outcomes
    assert one.seconds == two.seconds
    assert one.jobs[0].write.lat_mean_ns == two.jobs[0].write.lat_mean_ns


def test_histograms_are_on_the_clock_of_the_seconds(drive: SimDrive, tmp_path: Path) -> None:
    outcome = stopped_after(drive, 4, tmp_path / "run")

    window = outcome.latency("write", from_s=1, to_s=3)

    assert window.n == pytest.approx(sum(s.write_ios for s in outcome.seconds[1:3]), rel=0.02)


def test_a_stall_beyond_the_last_bin_is_as_long_as_fios_maximum(tmp_path: Path) -> None:
    stalls = "stall_period_ns=60000000000,stall_ns=25000000000,stall_random=no"
    with SimDrive.create(
        parse(f"sim:x25m-g2-160,capacity={CAPACITY},{stalls}"), tmp_path / "state.ssdb"
    ) as drive:
        outcome = stopped_after(drive, 100, tmp_path / "run")

    window = outcome.latency("write", from_s=5, to_s=100)

    assert window.counts[-1] > 0
    assert window.max_ns() == outcome.jobs[0].write.lat_max_ns
    assert window.max_ns() == pytest.approx(25e9, rel=0.01)


def test_an_error_of_the_judge_leaves_the_drive_whole(drive: SimDrive, tmp_path: Path) -> None:
    fio = Fio(SimAttachment(drive))

    with (
        pytest.raises(ZeroDivisionError),
        fio.start([a_job(length_bytes=CAPACITY)], artifacts=tmp_path / "run") as running,
    ):
        next(iter(running))
        raise ZeroDivisionError
    drive.close()

    with SimDrive.open(drive.path) as again:
        assert again.counters()["host_write_bytes"] > 0


def amplified(drive: SimDrive, text: str, seconds: int, directory: Path) -> float:
    """Flash writes over host writes in the second half of a job file's first phase."""
    room = Room(CAPACITY, 512, simulated=True, discards=True)
    workload = phases_of(job_file(text, path="j.fio"), path="j.fio", room=room).phases[0].workload
    job = Job("jobs", workload, seed=7, histogram_log=True)
    names = ("nand_write_units", "host_write_bytes")
    before = after = [0, 0]
    with Fio(SimAttachment(drive)).start([job], artifacts=directory) as running:
        for second in running:
            after = [drive.counters()[name] for name in names]
            if second.t_s == seconds // 2:
                before = after
            if second.t_s >= seconds:
                running.stop()
    running.outcome()
    units, written = (a - b for a, b in zip(after, before, strict=True))
    return units * drive.spec.params["map_unit_bytes"] / written


def test_trims_free_space_so_that_less_is_written_for_each_write(
    drive: SimDrive, tmp_path: Path
) -> None:
    """Planted: as many trims as writes of the same blocks keep half of the drive mapped."""
    fill = a_sequential(length_bytes=CAPACITY, total_bytes=CAPACITY, iodepth=8)
    with Fio(SimAttachment(drive, step_s=5)).start([fill], artifacts=tmp_path / "fill") as running:
        list(running)
    writes = "[global]\nioengine=libaio\nnorandommap\nbs=16k\n[a]\nrw=randwrite\nrate_iops=300\n"

    full = amplified(drive, writes, 200, tmp_path / "full")
    trims = f"{writes}[t]\nrw=randtrim\nrate_iops=300\n"
    half = amplified(drive, trims, 200, tmp_path / "half")

    assert full > 3
    assert half < 1.4
    mapped = drive.counters()["mapped_units"] * drive.spec.params["map_unit_bytes"]
    assert mapped == pytest.approx(CAPACITY / 2, rel=0.05)


def test_no_clock_is_left_behind(drive: SimDrive, tmp_path: Path) -> None:
    stopped_after(drive, 1, tmp_path / "run")

    assert not (tmp_path / "run/clock").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"block_bytes": 128 * MIB, "length_bytes": CAPACITY}, "must not be larger than 64 MiB"),
        ({"length_bytes": 2 * CAPACITY}, "ends at byte"),
        ({"block_bytes": 1000, "length_bytes": CAPACITY}, "not a multiple of the target's block"),
    ],
    ids=["too-large", "beyond-the-end", "odd"],
)
def test_what_fios_engine_cannot_serve_is_refused(
    drive: SimDrive, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Fio(SimAttachment(drive)).start([a_job(**changes)], artifacts=tmp_path / "run")
