"""Loop devices and files in dangerous states: all refused, each reason named, no byte changed.

Each state is met with signatures overridden and not, where that must make no difference, and with
every size of logical block: in CI where a probe reads that size, elsewhere in soak.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ssdbench.errors import SsdbenchError, TargetRefused
from ssdbench.host.command import run
from ssdbench.model.target import Consent
from ssdbench.target import consent, guard
from ssdbench.target.inspect import inspect
from tests.support.devices import (
    BLOCK_SIZES,
    ONE_BLOCK_SIZE,
    LoopDevice,
    accepted,
    attached_loop,
    shown_partitions,
)

Holder = Callable[..., int]
MIB = 1 << 20

# Signatures by the bytes that libblkid looks for: (offset, bytes).
SIGNATURES: dict[str, tuple[tuple[int, bytes], ...]] = {
    "crypto_LUKS": ((0, b"LUKS\xba\xbe\0\x01"),),
    "swsuspend": ((4086, b"S1SUSPEND\0"),),
    # Uberblocks of the first label: four are enough to be believed.
    "zfs_member": tuple(
        ((128 << 10) + (n << 10), (0x00BAB10C).to_bytes(8, "little")) for n in range(8)
    ),
}
MADE = {"ext4": ["mkfs.ext4", "-q", "-F"], "ext2": ["mkfs.ext2", "-q", "-F"], "swap": ["mkswap"]}


def refused(
    target: Path, bytes_of: Path, *, overwrite: bool = False, checked_bytes: int = -1
) -> str:
    """The reasons, one a line; that no byte changed is checked on the way."""
    with bytes_of.open("rb") as file:
        before = hashlib.sha256(file.read(checked_bytes)).digest()
        with pytest.raises(TargetRefused) as refusal:
            guard.check(inspect(str(target)), Consent(overwrite=overwrite))
        file.seek(0)
        assert hashlib.sha256(file.read(checked_bytes)).digest() == before
    return str(refusal.value)


def put(device: LoopDevice, *pieces: tuple[int, bytes]) -> None:
    with device.backing.open("r+b") as file:
        for offset, data in pieces:
            file.seek(offset)
            file.write(data)
        os.fsync(file.fileno())
    run(["blockdev", "--flushbufs", str(device.node)])


def table(*, kind: int = 0x83, start: int = 2048, count: int = 4096) -> tuple[int, bytes]:
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", kind, b"\0\2\0", start, count)
    return (446, entry.ljust(64, b"\0") + b"\x55\xaa")


# --- idle signatures: soft, listed, overridden by one option -------------------------------------


# By libblkid: partition tables count in blocks, and the labels of a pool follow their size; all
# others are looked for at fixed bytes.
BY_BLOCK_SIZE = ("zfs_member", "in a pool", "partition mounted", "partition swapped to")


def on_each_block_size(names: Iterable[str]) -> list[object]:
    """Pairs of a name and a size of block, those that only repeat another one in soak."""
    return [
        pytest.param(
            name,
            size,
            id=f"{name}-{block}",
            marks=() if size == 512 or name in BY_BLOCK_SIZE else pytest.mark.soak,
        )
        for name in names
        for block, size in BLOCK_SIZES.items()
    ]


@pytest.mark.parametrize(
    ("name", "loop_device"), on_each_block_size([*SIGNATURES, *MADE]), indirect=["loop_device"]
)
def test_an_idle_signature_is_listed_and_only_then_overridden(
    loop_device: LoopDevice, name: str
) -> None:
    if name in MADE:
        run([*MADE[name], str(loop_device.node)])
    else:
        put(loop_device, *SIGNATURES[name])

    assert f"signature of {name}" in refused(loop_device.node, loop_device.backing)
    accepted(inspect(str(loop_device.node)), Consent(overwrite=True))


@pytest.mark.parametrize("kind", [0x83, 0x82, 0x8E, 0xFD, 0x07, 0xEE])
def test_a_partition_table_of_any_kind_is_listed(loop_device: LoopDevice, kind: int) -> None:
    put(loop_device, table(kind=kind))

    assert "signature of" in refused(loop_device.node, loop_device.backing)


# --- in use: hard, whatever is overridden ---------------------------------------------------------


@contextmanager
def mounted(device: LoopDevice, directory: Path, *options: str) -> Iterator[str]:
    run(["mkfs.ext4", "-q", "-F", str(device.node)])
    point = directory / "mount point"
    point.mkdir()
    run(["mount", *options, str(device.node), str(point)])
    try:
        yield f"mounted on {point}"
    finally:
        run(["umount", "--all-targets", "--recursive", str(point)])


@contextmanager
def mounted_twice(device: LoopDevice, directory: Path) -> Iterator[str]:
    with mounted(device, directory):
        second = directory / "second"
        second.mkdir()
        run(["mount", "--bind", str(directory / "mount point"), str(second)])
        try:
            yield f"mounted on {second}"
        finally:
            run(["umount", str(second)])


@contextmanager
def swapped(device: LoopDevice, directory: Path) -> Iterator[str]:
    del directory
    run(["mkswap", str(device.node)])
    run(["swapon", str(device.node)])
    try:
        yield f"swaps to {device.node}"
    finally:
        run(["swapoff", str(device.node)])


@contextmanager
def under_a_loop(device: LoopDevice, directory: Path) -> Iterator[str]:
    del directory
    upper = run(["losetup", "--find", "--show", str(device.node)]).stdout.strip()
    try:
        yield f"in use by {upper}"
    finally:
        run(["losetup", "--detach", upper])


@contextmanager
def beside_a_loop(device: LoopDevice, directory: Path) -> Iterator[str]:
    """A second loop device over the same file, by another name of it."""
    (other := directory / "other.img").hardlink_to(device.backing)
    beside = run(["losetup", "--find", "--show", str(other)]).stdout.strip()
    try:
        yield f"in use by {beside}"
    finally:
        run(["losetup", "--detach", beside])


@contextmanager
def mounted_beside(device: LoopDevice, directory: Path) -> Iterator[str]:
    with beside_a_loop(device, directory) as reason:
        run(["mkfs.ext4", "-q", "-F", beside := reason.split()[-1]])
        (directory / "beside").mkdir()
        run(["mount", beside, str(directory / "beside")])
        try:
            yield f"mounted on {directory / 'beside'}"
        finally:
            run(["umount", str(directory / "beside")])


@contextmanager
def under_two_loops(device: LoopDevice, directory: Path) -> Iterator[str]:
    with under_a_loop(device, directory) as reason:
        upper = reason.split()[-1]
        top = run(["losetup", "--find", "--show", upper]).stdout.strip()
        try:
            yield f"in use by {top}"
        finally:
            run(["losetup", "--detach", top])


@contextmanager
def mounted_through_a_loop(device: LoopDevice, directory: Path) -> Iterator[str]:
    with under_a_loop(device, directory) as reason:
        run(["mkfs.ext4", "-q", "-F", upper := reason.split()[-1]])
        (directory / "deep").mkdir()
        run(["mount", upper, str(directory / "deep")])
        try:
            yield f"mounted on {directory / 'deep'}"
        finally:
            run(["umount", str(directory / "deep")])


@contextmanager
def read_only(device: LoopDevice, directory: Path) -> Iterator[str]:
    del directory
    run(["blockdev", "--setro", str(device.node)])
    try:
        yield "it is read-only"
    finally:
        run(["blockdev", "--setrw", str(device.node)])


@contextmanager
def claimed_by_the_kernel(device: LoopDevice, directory: Path) -> Iterator[str]:
    del directory
    descriptor = os.open(device.node, os.O_RDONLY | os.O_EXCL)
    try:
        yield "has claimed it"
    finally:
        os.close(descriptor)


@contextmanager
def pool_in_use(device: LoopDevice, directory: Path) -> Iterator[str]:
    """As ZFS has it, which claims its disks and shows them nowhere."""
    put(device, *SIGNATURES["zfs_member"])
    with claimed_by_the_kernel(device, directory):
        yield "a ZFS pool has it in use"


@contextmanager
def partition_in_use(device: LoopDevice, directory: Path) -> Iterator[str]:
    start = 8 if device.block_bytes == 4096 else 2048
    put(device, table(start=start, count=4096))
    part = f"{device.node}p1"
    with shown_partitions(device.node):
        run(["mkfs.ext4", "-q", "-F", part])
        (directory / "part").mkdir()
        run(["mount", part, str(directory / "part")])
        try:
            yield f"mounted on {directory / 'part'}"
        finally:
            run(["umount", str(directory / "part")])


@contextmanager
def swapped_partition(device: LoopDevice, directory: Path) -> Iterator[str]:
    del directory
    start = 8 if device.block_bytes == 4096 else 2048
    put(device, table(start=start, count=4096))
    part = f"{device.node}p1"
    with shown_partitions(device.node):
        run(["mkswap", part])
        run(["swapon", part])
        try:
            yield f"swaps to {part}"
        finally:
            run(["swapoff", part])


STATES = {
    "mounted": mounted,
    "mounted read-only": lambda device, directory: mounted(device, directory, "-o", "ro"),
    "mounted twice": mounted_twice,
    "swapped to": swapped,
    "under a loop device": under_a_loop,
    "under two loop devices": under_two_loops,
    "beside a loop device on its file": beside_a_loop,
    "mounted through another loop device on its file": mounted_beside,
    "mounted through a loop device": mounted_through_a_loop,
    "read-only": read_only,
    "claimed": claimed_by_the_kernel,
    "in a pool": pool_in_use,
    "partition mounted": partition_in_use,
    "partition swapped to": swapped_partition,
}


@pytest.mark.parametrize("overwrite", [False, True], ids=["strict", "overridden"])
@pytest.mark.parametrize(
    ("state", "loop_device"), on_each_block_size(STATES), indirect=["loop_device"]
)
def test_a_device_in_use_is_refused_whatever_is_overridden(
    loop_device: LoopDevice, tmp_path: Path, state: str, *, overwrite: bool
) -> None:
    with STATES[state](loop_device, tmp_path) as reason:
        os.sync()
        # A busy host does swap to it: of a swap area only the header stays as it was.
        header = -1 if "swap" not in state else 4096 if state == "swapped to" else 446

        assert reason in refused(
            loop_device.node, loop_device.backing, overwrite=overwrite, checked_bytes=header
        )


def test_the_disk_of_the_running_system_is_refused_whatever_is_overridden() -> None:
    """Only looked at, as everything here is that the guard is asked for."""
    number = Path("/").stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not place.exists():
        pytest.skip("the root file system of this host lies on no one block device")
    place = place.resolve()
    disk = place.parent if (place / "partition").exists() else place

    reasons = guard.standing(inspect(f"/dev/{disk.name}"), Consent(overwrite=True, shared=True))

    assert "it holds the running system" in [found.reason for found in reasons]


@ONE_BLOCK_SIZE
@pytest.mark.parametrize("overwrite", [False, True], ids=["strict", "overridden"])
def test_a_device_that_is_open_elsewhere_is_refused(
    loop_device: LoopDevice, holder: Holder, *, overwrite: bool
) -> None:
    pid = holder(loop_device.node)

    assert f"process {pid}" in refused(loop_device.node, loop_device.backing, overwrite=overwrite)


@ONE_BLOCK_SIZE
@pytest.mark.parametrize("overwrite", [False, True], ids=["strict", "overridden"])
@pytest.mark.parametrize("mode", ["rb", "r+b"], ids=["for reading", "for writing"])
def test_a_loop_device_whose_file_is_open_elsewhere_is_refused(
    loop_device: LoopDevice, holder: Holder, mode: str, *, overwrite: bool
) -> None:
    pid = holder(loop_device.backing, mode)

    reasons = refused(loop_device.node, loop_device.backing, overwrite=overwrite)

    assert f"process {pid} (sleep) has the file behind it open" in reasons


@ONE_BLOCK_SIZE
def test_a_loop_device_whose_deleted_file_is_open_elsewhere_is_refused(
    loop_device: LoopDevice, holder: Holder
) -> None:
    pid = holder(loop_device.backing, "r+b")
    loop_device.backing.unlink()

    with pytest.raises(TargetRefused, match=rf"process {pid} \(sleep\)"):
        guard.check(inspect(str(loop_device.node)))


@ONE_BLOCK_SIZE
def test_our_own_descriptors_of_the_file_behind_a_loop_device_are_no_reason(
    loop_device: LoopDevice,
) -> None:
    with loop_device.backing.open("r+b"):
        accepted(inspect(str(loop_device.node)))


@contextmanager
def idle_below(device: LoopDevice, directory: Path) -> Iterator[str]:
    with under_a_loop(device, directory) as reason:
        yield reason.split()[-1]


BELOW = ("mounted", "swapped to", "partition mounted", "partition swapped to", "claimed")


@pytest.mark.parametrize("overwrite", [False, True], ids=["strict", "overridden"])
@pytest.mark.parametrize(
    ("state", "loop_device"), on_each_block_size(BELOW), indirect=["loop_device"]
)
def test_what_is_in_use_behind_a_loop_device_is_refused(
    loop_device: LoopDevice, tmp_path: Path, state: str, *, overwrite: bool
) -> None:
    with (
        idle_below(loop_device, tmp_path) as upper,
        STATES[state](loop_device, tmp_path) as reason,
    ):
        os.sync()
        header = -1 if "swap" not in state else 4096 if state == "swapped to" else 446

        assert reason in refused(
            Path(upper), loop_device.backing, overwrite=overwrite, checked_bytes=header
        )


@ONE_BLOCK_SIZE
def test_who_has_open_what_is_behind_two_loop_devices_is_named(
    loop_device: LoopDevice, tmp_path: Path, holder: Holder
) -> None:
    with idle_below(loop_device, tmp_path) as upper:
        accepted(inspect(upper))

        pids = [holder(loop_device.node), holder(loop_device.backing, "r+b")]
        reasons = refused(Path(upper), loop_device.backing, overwrite=True)

    assert all(f"process {pid}" in reasons for pid in pids)


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
def disk_file(tmp_path: Path) -> Path:
    path = tmp_path / "disk"
    path.touch()
    os.truncate(path, 4 * MIB)
    return path


def test_a_file_with_data_is_refused(disk_file: Path) -> None:
    disk_file.write_bytes(b"letters".ljust(4 * MIB, b"\0"))

    assert "holds data" in refused(disk_file, disk_file)


def test_a_file_with_a_second_name_is_refused(disk_file: Path) -> None:
    os.link(disk_file, disk_file.with_name("other"))

    assert "2 names" in refused(disk_file, disk_file)


def test_a_file_that_is_open_elsewhere_is_refused(disk_file: Path, holder: Holder) -> None:
    pid = holder(disk_file)

    assert f"process {pid}" in refused(disk_file, disk_file)


@ONE_BLOCK_SIZE
def test_a_file_behind_a_loop_device_is_refused(loop_device: LoopDevice) -> None:
    assert "loop device" in refused(loop_device.backing, loop_device.backing)


# --- consent --------------------------------------------------------------------------------------


@ONE_BLOCK_SIZE
@pytest.mark.parametrize("given", [None, "", "loop:", "/dev/loop0", "*"])
def test_without_the_exact_identity_nothing_is_written(
    loop_device: LoopDevice, given: str | None
) -> None:
    info = inspect(str(loop_device.node))

    with pytest.raises(SsdbenchError) as refusal:
        consent.require_consent(info, Consent(identity=given))

    assert refusal.value.exit_code == 3
    assert ("--destroy" in refusal.value.hint) is (given is None)


def without_signature(device: LoopDevice, *pieces: tuple[int, bytes]) -> None:
    put(device, *pieces)
    assert run(["wipefs", "--no-act", str(device.node)]).stdout == ""


def payload_without_its_header(device: LoopDevice) -> None:
    """LUKS with a detached header: nothing but noise."""
    without_signature(device, (16 * MIB, os.urandom(8 * MIB)))


def records_in_the_middle(device: LoopDevice) -> None:
    without_signature(device, (24 * MIB, b"a record of a data base".ljust(64, b".") * (MIB // 32)))


def file_system_whose_start_is_lost(device: LoopDevice) -> None:
    run(["mkfs.ext4", "-q", "-F", "-b", "1024", str(device.node)])
    without_signature(device, (0, bytes(MIB)))


def file_system_behind_a_lost_table(device: LoopDevice) -> None:
    with attached_loop(device.backing.with_name("part.img"), size_bytes=32 * MIB) as part:
        run(["mkfs.ext4", "-q", "-F", str(part.node)])
        os.sync()
        without_signature(device, (MIB, part.backing.read_bytes()))


UNKNOWN = [
    payload_without_its_header,
    records_in_the_middle,
    file_system_whose_start_is_lost,
    file_system_behind_a_lost_table,
]


@ONE_BLOCK_SIZE
@pytest.mark.parametrize("state", UNKNOWN, ids=lambda state: state.__name__)
def test_data_without_a_signature_needs_an_option_of_its_own(
    loop_device: LoopDevice, state: Callable[[LoopDevice], None]
) -> None:
    state(loop_device)
    info = inspect(str(loop_device.node))
    agreed = Consent(identity=info.id, overwrite=True)

    with pytest.raises(TargetRefused, match="data that no signature explains") as refusal:
        consent.require_consent(info, agreed)

    assert refusal.value.options == ("--overwrite-data",)
    consent.require_consent(info, agreed.model_copy(update={"data": True}))


@ONE_BLOCK_SIZE
@pytest.mark.parametrize("filler", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_a_trimmed_device_needs_none(loop_device: LoopDevice, filler: bytes) -> None:
    put(loop_device, (0, filler * loop_device.size_bytes))
    info = inspect(str(loop_device.node))

    consent.require_consent(info, Consent(identity=info.id))


@ONE_BLOCK_SIZE
def test_all_states_of_one_device_are_named_at_once(
    loop_device: LoopDevice, tmp_path: Path, holder: Holder
) -> None:
    with ExitStack() as stack:
        reason = stack.enter_context(mounted(loop_device, tmp_path))
        upper = stack.enter_context(under_a_loop(loop_device, tmp_path))
        pid = holder(loop_device.node)

        reasons = refused(loop_device.node, loop_device.backing, overwrite=True)

        for part in (reason, upper, f"process {pid}", "claimed it"):
            assert part in reasons


@ONE_BLOCK_SIZE
def test_the_device_passes_when_all_is_over(loop_device: LoopDevice, tmp_path: Path) -> None:
    with mounted(loop_device, tmp_path):
        pass

    accepted(inspect(str(loop_device.node)), Consent(overwrite=True))


def test_two_devices_are_never_taken_for_each_other(tmp_path: Path) -> None:
    with attached_loop(tmp_path / "a") as one, attached_loop(tmp_path / "b") as other:
        first, second = inspect(str(one.node)), inspect(str(other.node))

        with pytest.raises(TargetRefused, match=f"belongs to {one.node}; its own is"):
            consent.require_consent(second, Consent(identity=first.id))
