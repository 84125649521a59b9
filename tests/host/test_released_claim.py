"""A step that needs the drive unclaimed: it alone gets it, journalled, guarded before and after."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssdbench.engine.claimedsession import ClaimedSession, signatures_are_ours
from ssdbench.engine.journal import Journal, StageJournal, stored_records
from ssdbench.errors import DeviceLost, TargetRefused
from ssdbench.host import blockdev
from ssdbench.host.command import run
from ssdbench.model.target import TargetInfo
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice, attached_loop


@pytest.fixture
def device(tmp_path: Path) -> Iterator[LoopDevice]:
    with attached_loop(tmp_path / "disk.img") as device:
        yield device


@pytest.fixture
def info(device: LoopDevice) -> TargetInfo:
    return inspect(str(device.node))


def free(node: Path) -> bool:
    """Whether anybody could claim the device."""
    try:
        os.close(blockdev.claim(node))
    except BlockingIOError:
        return False
    return True


def udev_kept_off(node: Path) -> bool:
    """Whether udev, which takes a shared lock, would leave the device alone."""
    descriptor = os.open(node, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_a_step_gets_the_device_for_itself_while_udev_stays_off(
    device: LoopDevice, info: TargetInfo, tmp_path: Path
) -> None:
    journal = Journal.create(tmp_path / "journal.jsonl")
    with Claim(info) as claim:
        session = ClaimedSession(info, claim)
        seen = [(free(device.node), udev_kept_off(device.node))]
        stage = StageJournal(journal, "04-filesystem")
        with session.released("make a file system", stage, leaves_signatures=True):
            seen.append((free(device.node), udev_kept_off(device.node)))
            run(["mkfs.ext4", "-q", str(device.node)])
            said = [record.data["said"] for record in stored_records(tmp_path / "journal.jsonl")]
        seen.append((free(device.node), udev_kept_off(device.node)))
    journal.close()

    assert seen == [(False, True), (True, True), (False, True)]
    assert said == ["the claim is given up: make a file system"]  # on disk before it was
    assert journal.records[-1].data["said"] == "the claim is held again: make a file system"
    assert signatures_are_ours(journal.records)
    assert not udev_kept_off(device.node)


def test_a_step_may_not_begin_or_end_while_somebody_else_has_the_device(
    device: LoopDevice, info: TargetInfo, tmp_path: Path
) -> None:
    mount = tmp_path / "mounted"
    mount.mkdir()
    notes: list[str] = []
    try:
        with (
            Claim(info) as claim,
            pytest.raises(TargetRefused, match="has claimed it"),
            claim.released("make a file system", notes.append, leaves_signatures=True),
        ):
            run(["mkfs.ext4", "-q", str(device.node)])
            run(["mount", str(device.node), str(mount)])
        assert claim.fd is None
    finally:
        run(["umount", str(mount)])

    assert notes == ["the claim is given up: make a file system"]
    with pytest.raises(TargetRefused, match="signature of ext4"):
        Claim(info).__enter__()


def test_a_device_that_changed_during_the_step_is_not_taken_again(
    device: LoopDevice, info: TargetInfo
) -> None:
    with (
        Claim(info) as claim,
        pytest.raises(DeviceLost, match="bytes"),
        claim.released("grow it", lambda said: None),
    ):
        os.truncate(device.backing, device.size_bytes * 2)
        run(["losetup", "--set-capacity", str(device.node)])


def test_the_error_of_a_step_goes_first_and_the_claim_is_held_again(
    device: LoopDevice, info: TargetInfo
) -> None:
    with Claim(info) as claim:
        with (
            pytest.raises(RuntimeError, match="the step failed"),
            claim.released("fail", lambda said: None),
        ):
            raise RuntimeError("the step failed")
        assert not free(device.node)


def test_a_device_that_a_formatting_tool_has_locked_is_refused(
    device: LoopDevice, monkeypatch: pytest.MonkeyPatch, info: TargetInfo
) -> None:
    monkeypatch.setattr(blockdev.locked_against_udev, "__kwdefaults__", {"patience_s": 0.1})
    other = os.open(device.node, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TargetRefused, match="holds its lock"):
            Claim(info).__enter__()
    finally:
        os.close(other)
