"""Data without a signature is seen by samples, and what ssdbench left there is known again."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import content
from ssdbench.target.objection import DATA
from ssdbench.units import KIB, MIB

SIZE = 64 * MIB


@pytest.fixture
def drive(tmp_path: Path) -> TargetInfo:
    path = tmp_path / "drive"
    path.touch()
    os.truncate(path, SIZE)
    return TargetInfo(
        kind=TargetKind.DRIVE,
        name="/dev/sda",
        node=str(path),
        id="naa.5002538f12345678",
        model="Flash X",
        serial="S1",
        size_bytes=SIZE,
    )


def put(drive: TargetInfo, place: int, data: bytes) -> None:
    with Path(drive.node).open("r+b") as file:
        file.seek(place)
        file.write(data)


def noise(length: int) -> bytes:
    return random.Random(1).randbytes(length)


def asked(drive: TargetInfo, directory: Path) -> str:
    """Why the drive is refused; empty when it is not."""
    found = content.objections(drive, directory=directory)
    assert all(objection.option == DATA for objection in found)
    return "\n".join(objection.reason for objection in found)


@pytest.mark.parametrize("filler", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_a_trimmed_or_new_drive_holds_no_data(
    drive: TargetInfo, tmp_path: Path, filler: bytes
) -> None:
    put(drive, 0, filler * SIZE)

    assert asked(drive, tmp_path / "records") == ""


@pytest.mark.parametrize(
    ("place", "length"),
    [
        (0, 4 * KIB),
        (SIZE - 4 * KIB, 4 * KIB),  # the copy of a GPT
        (8 * MIB + KIB, KIB),  # the copy of an ext superblock, its first one overwritten
        (MIB + 64 * KIB, 4 * KIB),  # btrfs in a first partition whose table is lost
        (16 * MIB, 4 * KIB),  # the payload of LUKS, its header elsewhere
        (37 * MIB, 2 * MIB),  # anything in the middle
    ],
)
def test_data_without_a_signature_is_named_with_an_address(
    drive: TargetInfo, tmp_path: Path, place: int, length: int
) -> None:
    put(drive, place, noise(length))

    reason = asked(drive, tmp_path / "records")

    named = int(reason.rpartition(" ")[2])
    assert place // 4096 * 4096 <= named < place + length


def test_what_ssdbench_left_is_known_again(drive: TargetInfo, tmp_path: Path) -> None:
    put(drive, 0, noise(SIZE))
    assert asked(drive, tmp_path / "settings/records")

    content.remember(drive, directory=tmp_path / "settings/records")

    assert asked(drive, tmp_path / "settings/records") == ""


def somebody_else_wrote(drive: TargetInfo, directory: Path) -> TargetInfo:
    put(drive, 0, b"precious")
    return drive


def another_drive(drive: TargetInfo, directory: Path) -> TargetInfo:
    return drive.model_copy(update={"serial": "S2"})


def record_that_others_can_write(drive: TargetInfo, directory: Path) -> TargetInfo:
    (record,) = directory.glob("*.json")
    record.chmod(0o666)
    return drive


def damaged_record(drive: TargetInfo, directory: Path) -> TargetInfo:
    (record,) = directory.glob("*.json")
    record.write_text("{")
    return drive


@pytest.mark.parametrize(
    "changed",
    [somebody_else_wrote, another_drive, record_that_others_can_write, damaged_record],
)
def test_what_somebody_else_left_is_not(
    drive: TargetInfo, tmp_path: Path, changed: Callable[[TargetInfo, Path], TargetInfo]
) -> None:
    directory = tmp_path / "settings/records"
    put(drive, 0, noise(SIZE))
    content.remember(drive, directory=directory)

    assert "data that no signature explains" in asked(changed(drive, directory), directory)


def test_places_are_within_the_drive_and_the_same_each_time(drive: TargetInfo) -> None:
    for size in (0, 512, 4096, MIB + 512, SIZE, 4 << 40):
        info = drive.model_copy(update={"size_bytes": size})
        found = content.places(info)
        assert found == content.places(info)
        assert all(0 <= place <= size - 4096 and place % 4096 == 0 for place in found)
    assert len(content.places(drive)) > content.RANDOM_PLACES * 0.9
