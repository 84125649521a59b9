"""The real core behind unmodified fio: what flash does is as repeatable as what a formula does."""

import os
from pathlib import Path

import pytest

from ssdbench.sim.drive import SimDrive
from ssdbench.sim.library import native_file
from ssdbench.sim.spec import parse
from ssdbench.sim.virtualtime import VirtualClock
from ssdbench.units import MIB
from tests.support.server_drive import SimFio

FILL = ("--thread", "--rw=write", "--bs=131072", "--size=100%", "--time_based=0", "--runtime=0")


@pytest.fixture
def fio(tmp_path: Path) -> SimFio:
    return SimFio(native_file("libssdb_virtualtime.so"), tmp_path / "drive.ssdb", tmp_path)


def fresh(fio: SimFio) -> SimFio:
    """A new flash drive of 256 MiB."""
    fio.state.unlink(missing_ok=True)
    SimDrive.create(parse(f"sim:x25m-g2-160,capacity={256 * MIB}"), fio.state).close()
    return fio


@pytest.mark.parametrize(
    "options",
    [
        ("--rw=randrw", "--iodepth=8"),
        ("--rw=randwrite", "--rate_iops=300", "--rate_process=poisson", "--numjobs=4"),
        ("--rw=randwrite", "--thinktime=500", "--numjobs=4"),
        ("--rw=randrw", "--numjobs=128"),
    ],
    ids=lambda options: " ".join(options).replace("--", ""),
)
def test_a_worn_drive_answers_the_same_way_each_time(fio: SimFio, options: tuple[str, ...]) -> None:
    said = []
    for _ in range(3):
        fresh(fio).run(*FILL)
        said.append(fio.run("--thread", "--size=100%", "--runtime=2", *options).text)

    assert '"total_ios"' in said[0]
    assert said[1:] == said[:1] * 2


def test_the_drive_remembers_what_an_earlier_fio_wrote(fio: SimFio) -> None:
    first_day = fresh(fio).run("--thread", "--rw=randwrite", "--size=100%", "--runtime=2")
    fio.run(*FILL)
    fio.run("--thread", "--rw=randwrite", "--size=100%", "--runtime=10", "--iodepth=8")
    worn = fio.run("--thread", "--rw=randwrite", "--size=100%", "--runtime=2")

    assert worn.iops < first_day.iops / 2


def test_a_state_that_is_cut_off_under_fio_ends_it_with_a_sentence(fio: SimFio) -> None:
    fresh(fio)
    with VirtualClock.create(fio.directory / "page", state=fio.state) as clock:
        started = fio.start(
            "--rw=randwrite", "--time_based", "--runtime=30", "--thread", env=clock.environment()
        )
        clock.advance(1, alive=started.alive)
        os.truncate(fio.state, 4096)
        clock.advance(10, alive=started.alive)
        ended = started.finish()

    assert ended.status == 99
    assert f"{fio.state} has lost a page: its disk is full or fails" in ended.stderr


def test_beyond_the_end_is_refused(fio: SimFio) -> None:
    run = fresh(fio).run("--thread", "--rw=read", "--size=257m", "--time_based=0", "--runtime=0")

    assert run.jobs[0]["read"]["io_bytes"] <= 256 * MIB
