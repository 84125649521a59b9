"""Real fio on a regular file: preallocated, direct, counted by fio's own I/O."""

import os
from pathlib import Path

import pytest

from ssdbench.errors import DeviceLost, HostLacks
from ssdbench.generator.base import Job
from ssdbench.generator.fio.attachment import FileAttachment, attachment
from ssdbench.generator.fio.driver import Fio
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB

SIZE = 32 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk: one.img"  # a colon would be a second file name
    path.touch()
    os.truncate(path, SIZE)
    return path


def a_workload(**changes: object) -> Workload:
    fields = {
        "pattern": Pattern.RANDOM,
        "block_bytes": 4096,
        "read_percent": 50,
        "iodepth": 4,
        "range": ActiveRange(offset_bytes=0, length_bytes=SIZE),
        **changes,
    }
    return Workload(**fields)  # type: ignore[arg-type]


def test_a_file_is_filled_and_measured_and_keeps_its_size(disk: Path, tmp_path: Path) -> None:
    fill = a_workload(pattern=Pattern.SEQUENTIAL, block_bytes=131072, read_percent=0)
    info = inspect(str(disk))

    with Claim(info) as claim:
        assert claim.fd is not None
        fio = Fio(attachment(info, claim.fd))
        with fio.start([Job("fill", fill, 1, total_bytes=SIZE)], artifacts=tmp_path / "1") as first:
            list(first)
        with fio.start(
            [Job("mix", a_workload(), 2, runtime_s=2.2)], artifacts=tmp_path / "2"
        ) as second:
            list(second)
        filled, mixed = first.outcome(), second.outcome()

    total = mixed.jobs[0].read.ios + mixed.jobs[0].write.ios
    assert filled.jobs[0].write.bytes == sum(s.write_bytes for s in filled.seconds) == SIZE
    assert sum(second.ios for second in mixed.seconds) == pytest.approx(total, rel=0.01)
    assert disk.stat().st_size == SIZE


def test_a_file_in_memory_without_direct_io_or_counters_is_refused(tmp_path: Path) -> None:
    path = Path("/proc/self/environ")  # a file without direct I/O on every kernel

    with path.open() as held, pytest.raises(HostLacks, match="without direct I/O"):
        FileAttachment(path, held.fileno())


def test_a_file_that_shrinks_during_a_run_is_lost(disk: Path, tmp_path: Path) -> None:
    info = inspect(str(disk))
    with Claim(info) as claim:
        assert claim.fd is not None
        fio = Fio(attachment(info, claim.fd))
        job = Job("write", a_workload(read_percent=0, numjobs=2), 1, runtime_s=1.5)
        with fio.start([job], artifacts=tmp_path / "run") as running:
            for number, _ in enumerate(running):
                if number == 0:
                    os.truncate(disk, SIZE + 4096)

        with pytest.raises(DeviceLost, match="it had"):
            running.outcome()


def test_a_file_that_shrank_between_two_starts_is_lost(disk: Path, tmp_path: Path) -> None:
    info = inspect(str(disk))
    with Claim(info) as claim:
        assert claim.fd is not None
        os.truncate(disk, SIZE // 2)

        with pytest.raises(DeviceLost, match="it had"):
            Fio(attachment(info, claim.fd)).start(
                [Job("write", a_workload(), 1, runtime_s=1)], artifacts=tmp_path / "run"
            )


def test_jobs_of_several_block_sizes_need_starts_of_their_own(disk: Path, tmp_path: Path) -> None:
    info = inspect(str(disk))
    jobs = [Job("a", a_workload(), 1), Job("b", a_workload(block_bytes=8192), 1)]

    with Claim(info) as claim, pytest.raises(ValueError, match="one block size"):
        assert claim.fd is not None
        Fio(attachment(info, claim.fd)).start(jobs, artifacts=tmp_path / "run")
