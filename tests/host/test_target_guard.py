"""The gate on real loop devices in dangerous states: refused, named, and not a byte changed."""

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from ssdbench.errors import DeviceLost, TargetRefused
from ssdbench.host import blockdev
from ssdbench.host.command import run, spawn
from ssdbench.host.regular import born_ns
from ssdbench.model.target import Consent, TargetKind
from ssdbench.target import consent, guard
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice, accepted, attached_loop, shown_partitions


def refused(
    device: LoopDevice, *, overwrite: bool = False, checked_bytes: int | None = None
) -> str:
    """The reasons; that nothing was changed is checked on the way."""
    before = hashlib.sha256(device.backing.read_bytes()[:checked_bytes]).digest()
    with pytest.raises(TargetRefused) as refusal:
        guard.check(inspect(str(device.node)), Consent(overwrite=overwrite))
    assert hashlib.sha256(device.backing.read_bytes()[:checked_bytes]).digest() == before
    return str(refusal.value)


def partition(device: LoopDevice) -> None:
    """Write a table of one partition of 1000 blocks, from block 8 on."""
    table = bytearray(512)
    table[446:462] = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\0\2\0", 8, 1000)
    table[510:] = b"\x55\xaa"
    with device.node.open("r+b", buffering=0) as disk:
        disk.write(bytes(table).ljust(device.block_bytes, b"\0"))
        os.fsync(disk.fileno())


@pytest.fixture
def mounted(loop_device: LoopDevice, tmp_path: Path) -> Iterator[Path]:
    run(["mkfs.ext4", "-q", str(loop_device.node)])
    (tmp_path / "mnt").mkdir()
    late = ["-o", "noinit_itable,commit=300"]  # the kernel writes nothing by itself meanwhile
    run(["mount", *late, str(loop_device.node), str(tmp_path / "mnt")])
    os.sync()
    yield tmp_path / "mnt"
    run(["umount", str(tmp_path / "mnt")])


def test_an_empty_loop_device_passes_and_is_known_by_its_file(loop_device: LoopDevice) -> None:
    info = inspect(str(loop_device.node))

    accepted(info)

    assert info.kind is TargetKind.LOOP
    inode = loop_device.backing.stat().st_ino
    thing = f"{inode}.{born_ns(loop_device.backing, inode)}"
    assert info.id == f"loop:{loop_device.backing}:{loop_device.size_bytes}:0+0:{thing}"
    assert info.logical_block_bytes == loop_device.block_bytes


def test_the_birth_of_a_file_is_the_one_that_stat_tells(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    told_s = float(run(["stat", "-c", "%.9W", str(file)]).stdout)

    assert born_ns(file, file.stat().st_ino) == pytest.approx(told_s * 1e9, abs=1000)
    assert born_ns(file, file.stat().st_ino + 1) is None
    assert born_ns(tmp_path / "none", 1) is None


def test_a_file_made_anew_with_the_same_inode_number_is_another_drive(tmp_path: Path) -> None:
    def known(image: Path) -> tuple[str, int]:
        with attached_loop(image) as device:
            return inspect(str(device.node)).id, image.stat().st_ino

    image, others = tmp_path / "disk.img", []
    consented, inode = known(image)
    image.unlink()
    for number in range(100):  # ext4 gives the number that was freed last to the next file
        others.append(image.rename(tmp_path / str(number)) if image.exists() else image)
        image.touch()
        if image.stat().st_ino == inode:
            break

    with attached_loop(image) as device:
        info = inspect(str(device.node))
        run(["mkfs.ext4", "-q", str(device.node)])
        assert info.id != consented
        with pytest.raises(TargetRefused, match="is not its own") as refusal:
            consent.require_consent(info, Consent(identity=consented, overwrite=True))
    assert info.id in str(refusal.value)


def test_consent_in_the_words_of_an_older_version_is_asked_for_again(
    loop_device: LoopDevice,
) -> None:
    info = inspect(str(loop_device.node))
    older = info.id.rpartition(".")[0]
    assert older.endswith(f":{loop_device.backing.stat().st_ino}")
    run(["mkfs.ext4", "-q", str(loop_device.node)])

    with pytest.raises(TargetRefused, match="is not its own") as refusal:
        consent.require_consent(info, Consent(identity=older, overwrite=True))

    assert info.id in str(refusal.value)


def test_a_mounted_device_is_refused_even_with_signatures_overridden(
    loop_device: LoopDevice, mounted: Path
) -> None:
    reasons = refused(loop_device, overwrite=True)

    assert f"mounted on {mounted}" in reasons
    assert "claimed" in reasons


@pytest.mark.parametrize(
    ("argv", "signature"),
    [
        (["mkfs.ext4", "-q"], "ext4"),
        (["mkswap"], "swap"),
    ],
    ids=["ext4", "swap"],
)
def test_an_idle_signature_is_refused_unless_overridden(
    loop_device: LoopDevice, argv: list[str], signature: str
) -> None:
    run([*argv, str(loop_device.node)])

    assert f"signature of {signature}" in refused(loop_device)
    accepted(inspect(str(loop_device.node)), Consent(overwrite=True))


def test_a_partition_table_is_refused(loop_device: LoopDevice) -> None:
    """fio itself writes over a partitioned disk and ends with status 0."""
    partition(loop_device)

    assert "signature of dos" in refused(loop_device)


def test_a_partition_is_no_target(make_loop: Callable[..., LoopDevice]) -> None:
    device = make_loop()
    partition(device)
    with shown_partitions(device.node):
        with pytest.raises(TargetRefused, match=f"partition of {device.node}"):
            inspect(f"{device.node}p1")
        assert f"partitions: {device.node.name}p1" in refused(device)


def test_an_active_swap_area_is_refused(loop_device: LoopDevice) -> None:
    run(["mkswap", str(loop_device.node)])
    run(["swapon", str(loop_device.node)])
    try:
        # A host short of memory swaps to it meanwhile; only the header stays as it is.
        reasons = refused(loop_device, overwrite=True, checked_bytes=os.sysconf("SC_PAGE_SIZE"))
        assert f"swaps to {loop_device.node}" in reasons
    finally:
        run(["swapoff", str(loop_device.node)])


def test_a_device_under_another_loop_device_is_refused(
    loop_device: LoopDevice,
) -> None:
    upper = run(["losetup", "--find", "--show", str(loop_device.node)]).stdout.strip()
    try:
        assert f"in use by {upper}" in refused(loop_device)
    finally:
        run(["losetup", "--detach", upper])


def test_a_device_that_another_process_has_open_is_refused(
    loop_device: LoopDevice, holder: Callable[[Path], int]
) -> None:
    pid = holder(loop_device.node)

    assert f"process {pid}" in refused(loop_device)


def test_a_read_only_device_is_refused(tmp_path: Path) -> None:
    with attached_loop(tmp_path / "disk.img") as device:
        run(["blockdev", "--setro", str(device.node)])
        try:
            assert "it is read-only" in refused(device)
        finally:
            run(["blockdev", "--setrw", str(device.node)])  # it would outlive the attachment


def test_the_file_behind_a_loop_device_is_refused(loop_device: LoopDevice) -> None:
    with pytest.raises(TargetRefused, match=f"loop device {loop_device.node} uses it"):
        guard.check(inspect(str(loop_device.backing)))


def test_all_reasons_come_at_once(
    loop_device: LoopDevice, mounted: Path, holder: Callable[[Path], int]
) -> None:
    pid = holder(loop_device.node)

    reasons = refused(loop_device)

    for part in (f"mounted on {mounted}", f"process {pid}", "claimed", "signature of ext4"):
        assert part in reasons


def test_a_claim_keeps_others_out_and_notices_a_new_signature(
    loop_device: LoopDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockdev.locked_against_udev, "__kwdefaults__", {"patience_s": 0.1})
    info = inspect(str(loop_device.node))

    with Claim(info) as claim:
        with pytest.raises(TargetRefused, match="claimed|lock"), Claim(info):
            pass
        claim.check()

        assert claim.fd is not None
        os.pwrite(claim.fd, b"\x53\xef", 1080)  # the magic of ext2
        os.fsync(claim.fd)
        with pytest.raises(TargetRefused, match="signature of ext2"):
            claim.check()


def test_a_claim_notices_another_backing_file(loop_device: LoopDevice, tmp_path: Path) -> None:
    info = inspect(str(loop_device.node))

    with Claim(info) as claim:
        os.truncate(loop_device.backing, loop_device.size_bytes // 2)
        run(["losetup", "--set-capacity", str(loop_device.node)])

        with pytest.raises(DeviceLost, match="exchanged|is now"):
            claim.check()


@contextmanager
def opened(device: LoopDevice) -> Iterator[None]:
    process = spawn(
        ["sh", "-c", f"exec 9<{device.node}; echo ready; sleep 600"],
        stdout=device.backing.with_name("out"),
        stderr=device.backing.with_name("err"),
    )
    try:
        while "ready" not in device.backing.with_name("out").read_text():
            pass
        yield
    finally:
        process.kill()


@contextmanager
def looped(device: LoopDevice) -> Iterator[None]:
    upper = run(["losetup", "--find", "--show", str(device.node)]).stdout.strip()
    try:
        yield
    finally:
        run(["losetup", "--detach", upper])


@contextmanager
def protected(device: LoopDevice) -> Iterator[None]:
    run(["blockdev", "--setro", str(device.node)])
    try:
        yield
    finally:
        run(["blockdev", "--setrw", str(device.node)])


APPEARING: dict[str, tuple[Callable[[LoopDevice], AbstractContextManager[None]], str]] = {
    "opened": (opened, "has it open"),
    "under a loop device": (looped, "in use by"),
    "read-only": (protected, "it is read-only"),
}


@pytest.mark.parametrize("state", APPEARING)
def test_what_appears_between_two_stages_stops_the_next_one(
    make_loop: Callable[..., LoopDevice], state: str
) -> None:
    device = make_loop()
    appears, reason = APPEARING[state]

    with Claim(inspect(str(device.node)), Consent(overwrite=True)) as claim:
        claim.check()
        with appears(device), pytest.raises(TargetRefused, match=reason):
            claim.check()
        claim.check()  # and it goes on once that is over


@pytest.mark.parametrize("state", APPEARING)
def test_what_appears_between_the_look_and_the_claim_stops_the_claim(
    make_loop: Callable[..., LoopDevice], state: str
) -> None:
    device = make_loop()
    appears, reason = APPEARING[state]
    info = inspect(str(device.node))
    accepted(info)

    with appears(device), pytest.raises(TargetRefused, match=reason), Claim(info):
        pytest.fail("it was claimed")
