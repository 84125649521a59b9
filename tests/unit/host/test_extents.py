"""What shares a byte with a mapping is seen beside it, and what has none in common is let pass."""

import fcntl
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.host import extents
from ssdbench.host.extents import Target, target
from ssdbench.host.sysfs import Sysfs
from tests.support.mappedhost import MappedHost


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MappedHost:
    return MappedHost(tmp_path, monkeypatch)


def snapshot(host: MappedHost) -> None:
    """As LVM builds it: v over v-real, its snapshot s over v-real and s-cow."""
    host.dm("dm-0", "0 65536 linear sda 0")
    host.dm("dm-1", "0 65536 snapshot-origin dm-0")
    host.dm("dm-2", "0 16384 linear sdb 0")
    host.dm("dm-3", "0 65536 snapshot dm-0 dm-2 P 8")


def multipath(host: MappedHost) -> None:
    host.dm("dm-0", "0 65536 linear sda 2048")
    host.dm("dm-1", "0 131072 multipath 0 0 1 1 round-robin 0 1 1 sda 1000")


def multipath_of_another_path(host: MappedHost) -> None:
    host.twins = {"sda": ["sdb"], "sdb": ["sda"]}
    host.dm("dm-0", "0 65536 linear sdb 2048")
    host.dm("dm-1", "0 131072 multipath 0 0 1 1 round-robin 0 1 1 sda 1000")


def crypt_and_linear(host: MappedHost) -> None:
    host.dm("dm-0", "0 65536 crypt aes-xts-plain64 00ff 0 sda 0")
    host.dm("dm-1", "0 65536 linear sda 0")


def second_half(host: MappedHost) -> None:
    host.dm("dm-0", "0 65536 linear sda 0")
    host.dm("dm-1", "0 65536 linear sda 32768")


def one_sector(host: MappedHost) -> None:
    host.dm("dm-0", "0 8 linear sda 100")
    host.dm("dm-1", "0 8 linear sdb 0", "8 8 linear sda 107")


def thin(host: MappedHost) -> None:
    host.dm("dm-0", "0 131072 thin-pool sda sdb 128 0")
    host.dm("dm-2", "0 131072 thin dm-0 0")
    host.dm("dm-1", "0 131072 thin dm-0 1")


def thin_whose_table_cannot_be_read(host: MappedHost) -> None:
    host.dm("dm-0", "0 131072 thin-pool sda sdb 128 0", unread=True)
    host.dm("dm-2", "0 131072 thin dm-0 0", unread=True)
    host.dm("dm-1", "0 131072 thin dm-0 1", unread=True)


def volumes_in_vdo(host: MappedHost) -> None:
    host.dm("dm-3", "0 65536 vdo V4 sda 16384 4096 32768 16380")
    host.dm("dm-0", "0 8192 linear dm-3 0")
    host.dm("dm-1", "0 8192 linear dm-3 8192")


def one_cache(host: MappedHost) -> None:
    host.part("sdb1", "sdb", 0, 65536)
    host.part("sdb2", "sdb", 65536, 65536)
    host.over("bcache0", "sda", "sdb1")
    host.over("bcache1", "sda", "sdb2")


def stripe(host: MappedHost) -> None:
    host.dm("dm-0", "0 1024 linear sdb 4096")
    host.dm("dm-1", "0 8192 striped 2 128 sda 0 sdb 1024")


def log_of_a_mirror(host: MappedHost) -> None:
    host.dm("dm-0", "0 8192 mirror disk 2 sda 1024 2 sdb 0 sdb 8192")
    host.dm("dm-1", "0 8 linear sda 0")


def pair_of_loops(host: MappedHost) -> None:
    host.loop("loop0", "file", 0, 32)
    host.loop("loop1", "file", 31, 32)


def loop_and_mapping(host: MappedHost) -> None:
    host.loop("loop0", "sda", 16, 16)
    host.dm("dm-0", "0 2048 linear sda 63488")


def loop_and_partition(host: MappedHost) -> None:
    host.part("sda1", "sda", 2048, 4096)
    host.loop("loop0", "sda", 2, 1)


def raid_volumes(host: MappedHost) -> None:
    host.md("md127", "sda", "sdb", metadata="external:imsm")
    host.md("md125", "sda", "sdb", metadata="external:/md127/1", at=0, kib=8192)
    host.md("md126", "sda", "sdb", metadata="external:/md127/0", at=8192, kib=8192)


@pytest.mark.parametrize(
    ("build", "asked", "other"),
    [
        (snapshot, "dm-1", "dm-3"),
        (snapshot, "dm-3", "dm-1"),
        (multipath, "dm-1", "dm-0"),
        (multipath_of_another_path, "dm-1", "dm-0"),
        (crypt_and_linear, "dm-1", "dm-0"),
        (crypt_and_linear, "dm-0", "dm-1"),
        (second_half, "dm-1", "dm-0"),
        (one_sector, "dm-1", "dm-0"),
        (thin, "dm-1", "dm-2"),
        (thin_whose_table_cannot_be_read, "dm-1", "dm-2"),
        (volumes_in_vdo, "dm-1", "dm-0"),
        (one_cache, "bcache0", "bcache1"),
        (stripe, "dm-1", "dm-0"),
        (log_of_a_mirror, "dm-1", "dm-0"),
        (pair_of_loops, "loop1", "loop0"),
        (loop_and_mapping, "dm-0", "loop0"),
        (raid_volumes, "md126", "md125"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_what_maps_the_same_bytes_or_shares_their_space_is_beside(
    host: MappedHost, build: Callable[[MappedHost], None], asked: str, other: str
) -> None:
    build(host)

    assert other in host.usage(asked).beside()
    assert host.mounts(asked, other) == ["/data"]


def test_a_partition_under_a_loop_device_is_no_user_until_it_is_mounted(host: MappedHost) -> None:
    loop_and_partition(host)

    assert host.usage("loop0").beside() == []
    assert host.mounts("loop0", "sda1") == ["/data"]


def test_what_is_built_on_the_same_bytes_is_a_user_as_well(host: MappedHost) -> None:
    crypt_and_linear(host)
    host.dm("dm-7", "0 1024 linear dm-0 0")

    assert host.usage("dm-1").beside() == ["dm-0", "dm-7"]


def linear(at: int, length: int = 8192, disk: str = "sda") -> str:
    return f"0 {length} linear {disk} {at}"


def two(first: str, second: str) -> Callable[[MappedHost], str]:
    def build(host: MappedHost) -> str:
        host.dm("dm-0", first)
        host.dm("dm-1", second)
        return "dm-0"

    return build


def on_partitions(host: MappedHost) -> str:
    host.part("sda1", "sda", 2048, 8192)
    host.part("sda2", "sda", 10240, 8192)
    host.dm("dm-0", "0 8192 linear sda1 0")
    host.dm("dm-1", "0 8192 linear sda2 0")
    return "dm-0"


def beside_a_partition(host: MappedHost) -> str:
    host.part("sda1", "sda", 2048, 8192)
    host.part("sda2", "sda", 10240, 8192)
    host.dm("dm-1", "0 8192 linear sda2 0")
    return "sda1"


def on_raid(level: str) -> Callable[[MappedHost], str]:
    def build(host: MappedHost) -> str:
        host.md("md9", "sda", "sdb", metadata=level)
        host.dm("dm-0", "0 8192 linear md9 0")
        host.dm("dm-1", "0 8192 linear md9 8192")
        return "dm-0"

    return build


def on(lower: str) -> Callable[[MappedHost], str]:
    """Two volumes on one mapping that keeps its bytes apart."""

    def build(host: MappedHost) -> str:
        host.dm("dm-5", lower)
        host.dm("dm-0", "0 8192 linear dm-5 0")
        host.dm("dm-1", "0 8192 linear dm-5 8192")
        return "dm-0"

    return build


def beside_a_thin_pool(host: MappedHost) -> str:
    host.dm("dm-4", linear(0))
    host.dm("dm-5", linear(8192))
    host.dm("dm-6", "0 8192 thin-pool dm-4 dm-5 128 0")
    host.dm("dm-0", "0 8192 thin dm-6 1")
    host.dm("dm-1", linear(16384))
    return "dm-0"


def beside_a_snapshot(host: MappedHost) -> str:
    snapshot(host)
    host.dm("dm-7", linear(65536))
    return "dm-7"


def two_pools(host: MappedHost) -> str:
    for number, at in enumerate((0, 32768)):
        host.dm(f"dm-1{number}", linear(at, 1024))
        host.dm(f"dm-2{number}", linear(at + 1024))
        host.dm(f"dm-3{number}", f"0 8192 thin-pool dm-1{number} dm-2{number} 128 0")
    host.dm("dm-0", "0 8192 thin dm-30 0")
    host.dm("dm-1", "0 8192 thin dm-31 0")
    return "dm-0"


def loops_over_one_file(host: MappedHost) -> str:
    host.loop("loop0", "file", 0, 16)
    host.loop("loop1", "file", 16, 16)
    return "loop0"


def loop_beside_a_mapping(host: MappedHost) -> str:
    host.loop("loop0", "sda", 32, 16)
    host.dm("dm-1", linear(0))
    return "loop0"


def loop_beside_a_partition(host: MappedHost) -> str:
    host.part("sda1", "sda", 2048, 2048)
    host.loop("loop0", "sda", 2, 1)
    host.dm("dm-1", "0 2048 linear sda1 0")
    return "loop0"


def volumes_in_a_container(host: MappedHost) -> str:
    host.md("md127", "sda", "sdb", metadata="external:imsm")
    host.md("md1", "sda", "sdb", metadata="external:/md127/1", at=16384, kib=8192)
    host.md("md0", "sda", "sdb", metadata="external:/md127/0", at=0, kib=8192)
    return "md0"


def arrays_on_partitions(host: MappedHost) -> str:
    for disk in ("sda", "sdb"):
        host.part(f"{disk}1", disk, 2048, 8192)
        host.part(f"{disk}2", disk, 10240, 8192)
    host.md("md0", "sda1", "sdb1")
    host.md("md1", "sda2", "sdb2")
    return "md0"


def other_disks(host: MappedHost) -> str:
    host.dm("dm-0", linear(0))
    host.dm("dm-1", linear(0, disk="sdb"))
    return "dm-0"


def pieces(host: MappedHost) -> str:
    host.dm("dm-0", "0 8 linear sda 0", "8 8 linear sda 16", "16 8 linear sdb 8")
    host.dm("dm-1", "0 8 linear sda 8", "8 8 linear sda 24", "16 8 linear sdb 0")
    return "dm-0"


APART: dict[str, Callable[[MappedHost], str]] = {
    "neighbours": two(linear(0), linear(8192)),
    "far apart": two(linear(0), linear(100000)),
    "the one before": two(linear(65536), linear(0)),
    "crypt beside linear": two(linear(0), "0 8192 crypt aes-xts-plain64 00ff 0 sda 8192"),
    "crypt beside crypt": two(
        "0 8192 crypt aes-xts-plain64 00ff 0 sda 0", "0 8192 crypt aes-xts-plain64 00ff 0 sda 8192"
    ),
    "delay": two("0 8192 delay sda 0 1", linear(8192)),
    "delay of reads and writes": two("0 8192 delay sda 0 1 sdb 0 1", linear(8192)),
    "flakey": two("0 8192 flakey sda 0 1 0", linear(8192)),
    "stripes": two("0 8192 striped 2 128 sda 0 sdb 0", "0 8192 striped 2 128 sda 4096 sdb 4096"),
    "mirror": two("0 8192 mirror core 2 64 nosync 2 sda 0 sdb 0", linear(8192)),
    "zeros": two("0 8192 zero", linear(0)),
    "pieces in turn": pieces,
    "two disks": other_disks,
    "volumes on partitions": on_partitions,
    "partitions": beside_a_partition,
    "volumes on md": on_raid("1.2"),
    "volumes on md, old format": on_raid("0.90"),
    "volumes on crypt": on("0 65536 crypt aes-xts-plain64 00ff 0 sda 0"),
    "volumes on dm-raid": on("0 65536 raid raid1 2 0 nosync 2 - sda - sdb"),
    "volumes on multipath": on("0 65536 multipath 0 0 1 1 round-robin 0 2 1 sda 1000 sdb 1000"),
    "volumes on integrity": on("0 65536 integrity sda 0 32 J 0"),
    "volume beside a thin pool": beside_a_thin_pool,
    "two thin pools": two_pools,
    "two parts of one file": loops_over_one_file,
    "loop device beside a volume": loop_beside_a_mapping,
    "loop device beside a partition's volume": loop_beside_a_partition,
    "volumes of a RAID container": volumes_in_a_container,
    "arrays on partitions": arrays_on_partitions,
}


@pytest.mark.parametrize("layout", APART)
def test_what_has_no_byte_in_common_is_not_beside(host: MappedHost, layout: str) -> None:
    asked = APART[layout](host)
    other = f"{asked.rstrip('0123456789')}1" if asked != "sda1" else "dm-1"
    other = other if other in host.numbers else "dm-1"

    assert host.usage(asked).beside() == []
    assert host.mounts(asked, other) == []


def test_a_volume_of_zfs_shares_its_pool(host: MappedHost) -> None:
    host.over("zd16")

    assert host.usage("zd16").users() == [
        "/dev/zd16 is a volume of a ZFS pool, and shares its space with others"
    ]


# --- the tables themselves ------------------------------------------------------------------------


def answer(*lines: tuple[int, int, bytes, bytes]) -> bytes:
    """As ctl_ioctl of drivers/md/dm-ioctl.c lays it out: a spec, its text, eight bytes aligned."""
    found = b""
    for begin, length, kind, text in lines:
        size = -(-(40 + len(text) + 1) // 8) * 8
        spec = struct.pack("=2QiI16s", begin, length, 0, len(found) + size, kind)
        found += (spec + text).ljust(size, b"\0")
    return found


def test_a_table_is_read_as_the_kernel_lays_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = answer(
        (0, 8192, b"linear", b"8:0 2048"),
        (8192, 8192, b"crypt", b"aes-xts-plain64 00112233 0 8:16 4096"),
    )
    loaded = answer((0, 8192, b"linear", b"8:32 0"))
    (tmp_path / "dev/mapper").mkdir(parents=True)
    (tmp_path / "dev/mapper/control").touch()
    asked = []

    def ioctl(descriptor: int, request: int, buffer: bytearray) -> int:
        size, flags, device = (struct.unpack_from(f, buffer, at)[0] for f, at in
                               (("=I", 12), ("=I", 28), ("=Q", 40)))  # fmt: skip
        asked.append((request, device))
        found = loaded if flags & 1 << 12 else live
        if size < 2**18:  # as if the table were longer than that
            struct.pack_into("=I", buffer, 28, flags | 1 << 8)
            return 0
        struct.pack_into("=2I", buffer, 16, 312, 1 if found is loaded else 2)
        buffer[312 : 312 + len(found)] = found
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)

    table = extents.tables("253:3", sysfs=Sysfs(tmp_path))

    assert set(asked) == {(0xC138FD0C, 253 << 8 | 3)}
    assert table == [
        Target(0, 8192, "linear", ("8:0", "2048")),
        Target(8192, 8192, "crypt", ("aes-xts-plain64", "-", "0", "8:16", "4096")),
        Target(0, 8192, "linear", ("8:32", "0")),
    ]
    found = extents.segments(table)
    assert found is not None
    assert [(s.begin, s.end, s.lower, s.at, s.exact) for s in found] == [
        (0, 4 << 20, "8:0", 1 << 20, True),
        (4 << 20, 8 << 20, "8:16", 2 << 20, True),
        (0, 4 << 20, "8:32", 0, True),
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("linear", "8:0"),
        ("linear", "sda 0"),
        ("striped", "3 128 8:0 0 8:16 0"),
        ("striped", "0 0"),
        ("mirror", "core 2 64 nosync 2 8:0 0"),
        ("tomorrow", "8:0 0"),
    ],
)
def test_a_line_that_is_not_understood_maps_what_cannot_be_told(kind: str, text: str) -> None:
    lines = [target(0, 8, "linear", "8:0 0"), target(8, 8, kind, text)]

    assert extents.segments(lines) is None
