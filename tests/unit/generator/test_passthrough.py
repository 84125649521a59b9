"""Requests past the kernel's counters: counted by their rings, and by fio's report at last."""

from pathlib import Path

import pytest

from ssdbench.generator.fio.jobfile import engine_of
from ssdbench.generator.fio.passthrough import PassthroughMeter, _directions
from ssdbench.generator.fio.sampling import Reading
from ssdbench.generator.slam import objections
from ssdbench.host.iouring import Rings
from ssdbench.model.workload import IoEngine
from tests.unit.generator.jobs import a_job


def ring(root: Path, descriptor: int, ended: int | None) -> None:
    """A ring as /proc shows it; None while it is being filled."""
    for directory in ("fd", "fdinfo"):
        (root / "proc/7" / directory).mkdir(parents=True, exist_ok=True)
    link = root / f"proc/7/fd/{descriptor}"
    link.unlink(missing_ok=True)
    link.symlink_to("anon_inode:[io_uring]")
    tail = "" if ended is None else f"SqTail:\t9\nCqTail:\t{ended}\nCachedCqTail:\t77\n"
    (root / f"proc/7/fdinfo/{descriptor}").write_text(f"pos:\t0\n{tail}")


def test_all_rings_count_and_other_files_do_not(tmp_path: Path) -> None:
    ring(tmp_path, 5, 100)
    ring(tmp_path, 6, 30)
    (tmp_path / "proc/7/fd/8").symlink_to("/dev/null")
    (tmp_path / "proc/7/fdinfo/8").write_text("CqTail:\t1000\n")
    rings = Rings(7, tmp_path)

    assert rings.ended() == 130
    ring(tmp_path, 5, 150)
    assert rings.ended() == 180


def test_a_ring_that_does_not_tell_now_counts_what_was_seen_and_catches_up(tmp_path: Path) -> None:
    ring(tmp_path, 5, 100)
    rings = Rings(7, tmp_path)
    rings.ended()

    ring(tmp_path, 5, None)
    assert rings.ended() == 100
    ring(tmp_path, 5, 300)
    assert rings.ended() == 300


@pytest.mark.parametrize(
    ("before", "now", "together"),
    [(1000, 40, 1040), (2**32 - 10, 30, 2**32 + 30)],
    ids=["the ring of a later thread", "a counter of 32 bits that begins anew"],
)
def test_counters_that_fall(tmp_path: Path, before: int, now: int, together: int) -> None:
    ring(tmp_path, 5, before)
    rings = Rings(7, tmp_path)
    rings.ended()
    ring(tmp_path, 5, now)

    assert rings.ended() == together


def test_a_process_that_ended_keeps_its_sum(tmp_path: Path) -> None:
    ring(tmp_path, 5, 100)
    rings = Rings(7, tmp_path)
    rings.ended()

    assert Rings(8, tmp_path).ended() == 0
    (tmp_path / "proc/7/fd/5").unlink()
    assert rings.ended() == 100


class Others:
    def read(self) -> Reading:
        return Reading(read_ios=3, foreign_ios=3)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("reported", "ios"), [(0, 100), (104, 104)])
def test_the_last_sum_is_that_of_the_report(tmp_path: Path, reported: int, ios: int) -> None:
    ring(tmp_path, 5, 100)
    meter = PassthroughMeter(
        Rings(7, tmp_path),
        Others(),
        block_bytes=4096,
        reads=False,
        ended=lambda: reported,
    )

    assert meter.read() == Reading(write_ios=ios, write_bytes=ios * 4096, foreign_ios=3)


def test_a_start_has_one_engine_and_slam_has_none_of_them() -> None:
    past = a_job(engine=IoEngine.IO_URING_CMD)

    assert engine_of([past, past]) is IoEngine.IO_URING_CMD
    with pytest.raises(ValueError, match="one engine"):
        engine_of([past, a_job()])
    assert objections(past) == ["`engine: io_uring_cmd`"]
    assert objections(a_job()) == []


def test_only_one_direction_can_be_counted() -> None:
    assert _directions([a_job(read_percent=100)]) == {True}
    assert _directions([a_job(read_percent=0)]) == {False}
    assert len(_directions([a_job(read_percent=50)])) == 2
