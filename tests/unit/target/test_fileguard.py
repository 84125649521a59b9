"""Files as targets: nothing of the user's is overwritten, and the file system keeps its room."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from ssdbench.errors import DeviceLost, TargetRefused
from ssdbench.generator.fio.attachment import attachment
from ssdbench.host import regular
from ssdbench.host.procfs import Mount, Procfs
from ssdbench.model.target import Consent
from ssdbench.target import fileguard, guard
from ssdbench.target.claim import Claim
from ssdbench.target.consent import lacking
from ssdbench.target.inspect import inspect

SIZE = 1 << 20


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty file, as if on a disk; pytest's directory may be in memory."""
    monkeypatch.setattr(regular, "in_memory", lambda path: False)
    monkeypatch.setattr(regular, "direct_io_works", lambda path: True)
    path = tmp_path / "disk.img"
    path.touch()
    os.truncate(path, SIZE)
    return path


def reasons(path: Path) -> str:
    return "\n".join(str(found) for found in fileguard.objections(inspect(str(path))))


def test_an_empty_file_with_a_size_may_be_used(disk: Path) -> None:
    assert reasons(disk) == ""


def test_a_file_that_ends_within_a_block_is_used_up_to_its_last_whole_block(disk: Path) -> None:
    os.truncate(disk, SIZE + 100)
    info = inspect(str(disk))

    with Claim(info) as claim:
        assert claim.fd is not None
        attached = attachment(info, claim.fd)
        attached.check()
        os.truncate(disk, SIZE + 4096)
        with pytest.raises(DeviceLost, match=f"it had {SIZE}"):
            attached.check()


def test_a_file_that_is_mounted_without_a_loop_device_is_refused(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Procfs, "mounts", lambda _: [Mount("0:39", "/data", "erofs", str(disk))])

    assert reasons(disk) == "it is mounted on /data"


def test_content_that_is_not_ours_is_refused(disk: Path) -> None:
    disk.write_bytes(b"holiday pictures" * 4096)

    assert "data that ssdbench did not write" in reasons(disk)


def worked_on(disk: Path, run: str = "") -> None:
    """What a run leaves: random content that is ours."""
    with Claim(inspect(str(disk)), Consent(run=run)) as claim:
        assert claim.fd is not None
        os.pwrite(claim.fd, os.urandom(SIZE), 0)


def test_content_that_is_ours_may_be_overwritten(disk: Path) -> None:
    worked_on(disk)
    worked_on(disk)

    assert reasons(disk) == ""


def copied_over(disk: Path) -> None:
    disk.write_bytes(b"precious" * (SIZE // 8))


def copied_over_with_its_time(disk: Path) -> None:
    status = disk.stat()
    copied_over(disk)
    os.utime(disk, ns=(status.st_atime_ns, status.st_mtime_ns))


def changed_in_one_byte(disk: Path) -> None:
    with disk.open("r+b") as file:
        file.seek(SIZE // 2 + 12345)
        file.write(b"!")


def moved_to_another_file(disk: Path) -> None:
    other = disk.with_name("other")
    other.write_bytes(b"precious" * (SIZE // 8))
    os.setxattr(other, regular.MARK, os.getxattr(disk, regular.MARK))
    other.rename(disk)


def marked_as_it_was_once(disk: Path) -> None:
    os.setxattr(disk, regular.MARK, b"1")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (copied_over, "its content is not what ssdbench left in it"),
        (copied_over_with_its_time, "its content is not what ssdbench left in it"),
        (changed_in_one_byte, "its content is not what ssdbench left in it"),
        (moved_to_another_file, "it is not the file that ssdbench marked"),
        (marked_as_it_was_once, "an older ssdbench marked it"),
    ],
)
def test_a_marked_file_with_other_content_asks_for_consent(
    disk: Path, changed: Callable[[Path], None], said: str
) -> None:
    worked_on(disk, run="night 1")
    changed(disk)
    info = inspect(str(disk))

    (against,) = guard.standing(info, Consent(run="night 1"))

    assert said in against.reason
    assert against.option == ("--destroy", info.id)
    assert guard.standing(info, Consent(identity="file:/another:1")) == [against]
    assert guard.standing(info, Consent(identity=info.id)) == []


def test_what_a_killed_run_left_is_for_that_run_alone(disk: Path) -> None:
    with disk.open("r+b") as file:
        regular.mark_in_use(file.fileno(), disk, "night 1", ours=True)
        file.write(b"half a fill")
    info = inspect(str(disk))

    (against,) = guard.standing(info, Consent(run="night 2"))

    assert "did not end normally" in against.reason
    assert guard.standing(info, Consent(run="night 1")) == []
    assert guard.standing(info, Consent(identity=info.id)) == []
    assert [found.reason for found in lacking(info, Consent(run="night 2"))] == [against.reason]
    assert lacking(info, Consent(run="night 1")) == []


@pytest.mark.parametrize(("ours", "objections"), [(True, 0), (False, 1)])
def test_a_run_that_was_killed_before_it_wrote_has_changed_nothing(
    disk: Path, ours: bool, objections: int
) -> None:
    with disk.open("r+b") as file:
        file.write(b"what a run left, or what an option gave up to that run alone")
        file.flush()
        regular.mark_in_use(file.fileno(), disk, "night 1", ours=ours)

    assert len(guard.standing(inspect(str(disk)), Consent(run="night 2"))) == objections


def test_what_others_may_have_written_to_meanwhile_is_not_ours(
    disk: Path, sleeper: Callable[[Path], int]
) -> None:
    with Claim(inspect(str(disk))) as claim:
        assert claim.fd is not None
        os.pwrite(claim.fd, os.urandom(SIZE), 0)
        sleeper(disk)

    assert "did not end normally" in reasons(disk)


def test_without_extended_attributes_the_mark_lies_beside_the_file(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> NoReturn:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(os, "setxattr", refused)
    monkeypatch.setattr(os, "getxattr", refused)
    worked_on(disk)
    ours = reasons(disk)
    copied_over(disk)

    assert ours == ""
    assert "not what ssdbench left in it" in reasons(disk)


def test_the_file_that_is_held_is_asked_about_whatever_its_path_leads_to(disk: Path) -> None:
    info = inspect(str(disk))
    precious = disk.with_name("precious")
    copied_over(precious)
    with precious.open("r+b") as held:
        against = fileguard.objections(info, held=held.fileno())

    assert "data that ssdbench did not write" in str(against[0])


def test_a_file_that_was_swapped_between_look_and_claim_is_not_touched(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = inspect(str(disk))
    precious = disk.with_name("precious")
    precious.touch()
    os.truncate(precious, SIZE)

    def swapped(_: object) -> int:
        return os.open(precious, os.O_RDWR)

    monkeypatch.setattr(fileguard, "claim", swapped)

    with pytest.raises(DeviceLost, match="replaced by another file"):
        Claim(info).__enter__()

    assert precious.stat().st_blocks == 0


def test_a_file_with_two_names_is_refused(disk: Path, tmp_path: Path) -> None:
    (tmp_path / "other").hardlink_to(disk)

    assert "2 names" in reasons(disk)


def test_a_file_that_another_process_has_open_is_refused(
    disk: Path, sleeper: Callable[[Path], int]
) -> None:
    pid = sleeper(disk)

    assert f"process {pid} (sleep) has it open" in reasons(disk)
    (found,) = fileguard.objections(inspect(str(disk)))
    assert found.remedy == "wait for that process or end it"


def test_a_file_that_the_kernel_serves_to_others_is_refused(disk: Path, tmp_path: Path) -> None:
    host = tmp_path / "host"
    store = host / "sys/kernel/config/target/core/fileio_0/disk"
    store.mkdir(parents=True)
    (store / "info").write_text(
        f"Status: ACTIVATED\n        File: {disk}  Size: 8  Mode: O_DSYNC\n"
    )
    (host / "proc/self").mkdir(parents=True)
    (host / "proc/self/mountinfo").touch()

    found = [o.reason for o in fileguard.objections(inspect(str(disk)), root=host)]

    assert f"the kernel serves {disk} to others (SCSI target)" in found


def test_a_file_that_would_fill_its_file_system_is_refused(disk: Path) -> None:
    total, free, _ = regular.room(disk)
    os.truncate(disk, free - total // 20)

    assert "10 % must stay" in reasons(disk)


def test_a_claimed_file_has_all_its_blocks_and_our_mark(disk: Path) -> None:
    with Claim(inspect(str(disk))) as claim:
        assert claim.fd is not None
        assert disk.stat().st_blocks * 512 >= SIZE
        assert regular.mark_objection(claim.fd, disk, "another run")


def test_a_file_is_claimed_once(disk: Path) -> None:
    info = inspect(str(disk))

    with (
        Claim(info),
        pytest.raises(TargetRefused, match="another process has locked it"),
        Claim(info),
    ):
        pass


def test_a_file_that_was_replaced_or_resized_is_lost(disk: Path, tmp_path: Path) -> None:
    with Claim(inspect(str(disk))) as claim:
        os.truncate(disk, 2 * SIZE)
        with pytest.raises(DeviceLost, match="was file:"):
            claim.check()

        assert claim.fd is not None
        disk.rename(tmp_path / "old")
        disk.write_bytes(bytes(SIZE))
        with pytest.raises(DeviceLost, match="replaced by another file"):
            regular.still(disk, claim.fd, size_bytes=SIZE)


def test_memory_is_no_storage(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular, "in_memory", lambda path: True)

    assert "memory would be measured" in reasons(disk)


def test_a_file_system_without_direct_io_is_refused(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regular, "direct_io_works", lambda path: False)

    assert "lacks direct I/O" in reasons(disk)


def test_a_file_system_in_memory_is_known() -> None:
    assert regular.in_memory(Path("/dev/shm"))  # only looked at
