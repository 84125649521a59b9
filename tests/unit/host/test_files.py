"""Files that survive: whole or not at all, line by line."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.foreign import write_whole
from ssdbench.host import files


def test_a_replaced_file_has_the_new_bytes_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    files.write_atomic(path, "new")

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full_disk)

    with pytest.raises(HostLacks, match="No space left on device"):
        files.write_atomic(path, "new")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [files.write_atomic, write_whole])
def test_root_replaces_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None]
) -> None:
    path = tmp_path / "null"  # stands for /dev/null, which this test must never replace
    path.write_text("a device")
    null = Path("/dev/null").stat()
    monkeypatch.setattr(Path, "lstat", lambda _: null)

    with pytest.raises((HostLacks, OSError), match="it is a device"):
        write(path, b"new")

    assert os.listdir(tmp_path) == ["null"]  # noqa: PTH208 - iterdir may ask lstat
    assert path.read_text() == "a device"


def test_appended_lines_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    for line in ("one", "two"):
        with files.Appender(path) as journal:
            journal.append(line)

    assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("torn", ["tw", "x" * 200_000], ids=["short", "longer-than-a-block"])
def test_opening_drops_a_line_that_was_torn(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text("one\n" + torn)

    with files.Appender(path) as journal:
        journal.append("three")

    assert path.read_text() == "one\nthree\n"


def test_a_failed_append_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    with files.Appender(path) as journal:
        journal.append("one")
        monkeypatch.setattr(os, "fsync", full_disk)

        with pytest.raises(HostLacks, match="cannot be written"):
            journal.append("two")

    assert path.read_text() == "one\n"


def test_a_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(HostLacks, match="Not a directory"):
        files.make_directory(tmp_path / "file" / "below")


def full_disk(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_room_that_the_disk_does_not_have_is_refused_with_the_disk_and_the_file_stays(
    tmp_path: Path,
) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"kept")

    with path.open("r+b") as file, pytest.raises(HostLacks) as raised:
        files.reserve(file.fileno(), path, 1 << 60)

    assert f"{path} needs " in raised.value.message
    assert "but its file system on /" in raised.value.message
    assert "free some space" in raised.value.hint
    assert path.read_bytes() == b"kept"


def test_reserved_room_is_room_that_no_one_else_can_take(tmp_path: Path) -> None:
    path = tmp_path / "reserved"
    path.write_bytes(b"kept")

    with path.open("r+b") as file:
        files.reserve(file.fileno(), path, 1 << 20)

    assert path.stat().st_size == 1 << 20
    assert path.stat().st_blocks * 512 >= 1 << 20
    assert path.read_bytes()[:4] == b"kept"


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.ENOSPC, "Free some space"), (errno.EROFS, "read-only"), (errno.EIO, "disk below"),
     (errno.EACCES, "sudo"), (errno.ELOOP, "Find out who"), (errno.EBUSY, "another place")],
)  # fmt: skip
def test_what_to_do_fits_why_a_file_cannot_be_written(
    number: int, hint: str, tmp_path: Path
) -> None:
    told = files.unwritable(tmp_path / "x", OSError(number, os.strerror(number)))

    assert hint in told.hint
    assert ("Free some space" in told.hint) == (number == errno.ENOSPC)


def test_a_directory_that_is_not_there_is_the_reason(tmp_path: Path) -> None:
    with pytest.raises(HostLacks, match=f"{tmp_path}/run does not exist") as raised:
        files.write_atomic(tmp_path / "run" / "stages" / "x", "")

    assert "space" not in raised.value.hint


def test_a_file_system_that_became_read_only_is_told_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with files.Appender(tmp_path / "journal") as journal:
        journal.append("one")
        monkeypatch.setattr(os, "write", read_only)
        monkeypatch.setattr(os, "ftruncate", read_only)
        with pytest.raises(HostLacks, match=f"{tmp_path}/journal .* Read-only") as raised:
            journal.append("two")

    assert "its file system is read-only" in raised.value.hint.lower()
