"""Files as targets: nothing of the user's is overwritten, and the file system keeps its room."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.errors import DeviceLost, TargetRefused
from ssdbench.host import regular
from ssdbench.target import fileguard
from ssdbench.target.claim import Claim
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


def test_content_that_is_not_ours_is_refused(disk: Path) -> None:
    disk.write_bytes(b"holiday pictures" * 4096)

    assert "data that ssdbench did not write" in reasons(disk)


def test_content_that_is_ours_may_be_overwritten(disk: Path) -> None:
    disk.write_bytes(b"\1" * SIZE)
    regular.mark(disk)

    assert reasons(disk) == ""


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
    (host / "proc").mkdir()

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
        assert regular.is_marked(disk)


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

    assert "no direct I/O" in reasons(disk)


def test_a_file_system_in_memory_is_known() -> None:
    assert regular.in_memory(Path("/dev/shm"))  # only looked at
