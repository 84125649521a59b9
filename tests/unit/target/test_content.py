"""Data without a signature is seen by samples, and what ssdbench left there is known again."""

import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ssdbench.errors import TargetRefused
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


@cache
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


# --- what came since a run stopped ----------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_signatures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What wipefs would say, as a test decides."""
    told: list[str] = []
    monkeypatch.setattr(content, "signatures", lambda node: list(told))
    return told


def ours(data: bytes) -> bool:
    return data.startswith(b"ours")


def left(drive: TargetInfo, directory: Path, *, at_work: bool = False) -> content.Remembered:
    """The record of a run that ended, or of one that is at work."""
    if at_work:
        watch = content.Watch(drive, "run 1", content.look(drive), directory=directory)
        watch.before_writing()
    else:
        content.remember(drive, run="run 1", directory=directory)
    kept = content.recalled(drive, directory=directory)
    assert kept is not None
    assert (kept.run, kept.at_work) == ("run 1", at_work)
    return kept


def since(drive: TargetInfo, kept: content.Remembered, **more: bool) -> list[str]:
    seen = content.look(drive, also=kept.digests)
    return [o.reason for o in content.came_since(kept, seen, written_by_us=ours, **more)]


def test_a_drive_that_is_as_the_run_left_it_has_nothing_new(
    drive: TargetInfo, tmp_path: Path
) -> None:
    put(drive, 0, noise(SIZE))

    assert since(drive, left(drive, tmp_path / "settings/records")) == []
    assert since(drive, left(drive, tmp_path / "settings/records", at_work=True)) == []


@pytest.mark.parametrize("data", [b"precious", b"ours", b"\0"], ids=["data", "like ours", "zeros"])
def test_after_a_stop_every_place_must_read_as_it_did(
    drive: TargetInfo, tmp_path: Path, data: bytes
) -> None:
    put(drive, 0, noise(SIZE))
    kept = left(drive, tmp_path / "settings/records")
    place = list(kept.digests)[1000]

    put(drive, place, data * (4096 // len(data)))

    (reason,) = since(drive, kept)
    assert f"1 of {len(kept.digests)} sampled places, for example at byte {place}" in reason


@pytest.mark.parametrize(
    ("data", "asked_again"), [(b"precious", True), (b"ours", False), (b"\0", False)]
)
def test_after_a_kill_what_only_we_write_is_the_runs_own_and_nothing_else_is(
    drive: TargetInfo, tmp_path: Path, data: bytes, asked_again: bool
) -> None:
    put(drive, 0, noise(SIZE))
    kept = left(drive, tmp_path / "settings/records", at_work=True)

    for place in list(kept.digests)[::3]:
        put(drive, place, data * (4096 // len(data)))

    assert bool(since(drive, kept)) is asked_again


def test_a_signature_that_came_since_is_named(
    drive: TargetInfo, tmp_path: Path, no_signatures: list[str]
) -> None:
    no_signatures.append("gpt")
    kept = left(drive, tmp_path / "settings/records")
    assert since(drive, kept) == []

    no_signatures.append("ext4")

    (reason,) = since(drive, kept)
    assert reason.startswith("the signature of ext4 appeared since")


def test_blocks_of_a_file_system_that_a_killed_run_was_making_are_its_own(
    drive: TargetInfo, tmp_path: Path, no_signatures: list[str]
) -> None:
    kept = left(drive, tmp_path / "settings/records", at_work=True)

    put(drive, 0, noise(MIB))
    no_signatures.append("ext4")

    assert len(since(drive, kept)) == 2
    assert since(drive, kept, ours=True) == []


@pytest.mark.parametrize("scattered", [True, False], ids=["scattered", "in one piece"])
def test_a_change_of_a_thousandth_of_a_drive_is_seen_in_95_of_100_cases(scattered: bool) -> None:
    """Over drives of 4 TB, whose places differ by their names; 386 of 400 at 95 % is one in 14."""
    blocks = 10**9
    chance = random.Random(7)
    found = 0
    for number in range(400):
        info = TargetInfo(
            kind=TargetKind.DRIVE, name="d", node="d", id=f"naa.{number}", size_bytes=blocks * 4096
        )
        read = [place // 4096 for place in content.places(info)]
        if scattered:
            found += any(chance.random() < 0.001 for _ in read)
        else:
            begin = chance.randrange(blocks - blocks // 1000)
            found += any(begin <= block < begin + blocks // 1000 for block in read)

    assert found >= 371  # 380 are expected; fewer come once in 60 times


# --- just before the first write ------------------------------------------------------------------


def test_what_changed_between_consent_and_first_write_is_refused_and_not_recorded(
    drive: TargetInfo, tmp_path: Path
) -> None:
    watch = content.Watch(drive, "run 1", content.look(drive), directory=tmp_path / "s/records")
    put(drive, 16 * MIB, b"precious")

    with pytest.raises(TargetRefused, match="its data changed since"):
        watch.before_writing()

    assert content.recalled(drive, directory=tmp_path / "s/records") is None


def test_all_is_read_once_more_before_the_first_write_and_not_before_later_ones(
    drive: TargetInfo, tmp_path: Path
) -> None:
    watch = content.Watch(drive, "run 1", content.look(drive), directory=tmp_path / "s/records")
    watch.before_writing()

    put(drive, 0, noise(SIZE))

    watch.before_writing()


def test_a_record_is_renewed_at_most_once_a_minute_and_for_a_hundredth_of_the_time(
    drive: TargetInfo, tmp_path: Path
) -> None:
    now, reads = [1000.0], 2.0

    def clock() -> float:
        now[0] += reads / 2
        return now[0]

    watch = content.Watch(
        drive, "run 1", content.look(drive), directory=tmp_path / "s/records", clock=clock
    )
    watch.renew(drive)  # nothing was written yet
    assert content.recalled(drive, directory=tmp_path / "s/records") is None
    watch.before_writing()
    put(drive, 0, noise(SIZE))

    def as_it_is() -> bool:
        kept = content.recalled(drive, directory=tmp_path / "s/records")
        assert kept is not None
        return kept.digests == content.look(drive).digests

    now[0] += 90
    watch.renew(drive)
    soon = as_it_is()
    now[0] += 110
    watch.renew(drive)

    assert (soon, as_it_is()) == (False, True)


@pytest.mark.parametrize("consented", [True, False])
def test_a_new_run_does_not_take_what_a_killed_one_met_for_ssdbenchs_own(
    drive: TargetInfo, tmp_path: Path, consented: bool
) -> None:
    """It was killed before it wrote; what it was allowed to erase is still there."""
    directory = tmp_path / "s/records"
    if consented:
        put(drive, 0, noise(SIZE))
    left(drive, directory, at_work=True)

    assert bool(asked(drive, directory)) is consented
