"""What a name leads to, and a sentence for everything that is no target."""

import fcntl
import os
import struct
from pathlib import Path

import pytest

from ssdbench.errors import SsdbenchError, TargetRefused, UsageError
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import Consent, TargetInfo, TargetKind
from ssdbench.target import consent
from ssdbench.target.evidence import Evidence, kind_of
from ssdbench.target.inspect import _block_device, _simulator, identities, inspect
from tests.support.mappedhost import MappedHost


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("/dev/absent0", "there is no device /dev/absent0"),
        ("/absent/file", "there is no file /absent/file"),
        ("/proc/version/x", "there is no file"),
        ("/tmp", "is a directory"),
        ("/dev/null", "it is a character device"),
        ("sim:no-such-model", "no simulated drive 'no-such-model'"),
        ("x" * 5000, "there is no file"),
    ],
    ids=["device", "file", "below-a-file", "directory", "character", "model", "too-long"],
)
def test_what_is_no_target_is_a_sentence_with_a_way_out(name: str, sentence: str) -> None:
    with pytest.raises(SsdbenchError, match=sentence) as failure:
        inspect(name)

    assert isinstance(failure.value, UsageError | TargetRefused)
    assert failure.value.hint


def test_an_empty_file_is_told_how_to_get_a_size(tmp_path: Path) -> None:
    (tmp_path / "disk").touch()

    with pytest.raises(UsageError, match="is empty") as failure:
        inspect(str(tmp_path / "disk"))

    assert "truncate -s" in failure.value.hint


def test_a_pipe_is_no_target(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="neither a block device nor a regular file"):
        inspect(str(tmp_path / "pipe"))


def test_a_file_is_known_by_its_real_path_and_size(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, (1 << 20) + 100)
    (tmp_path / "link").symlink_to(disk)

    info = inspect(str(tmp_path / "link"))

    assert info.kind is TargetKind.FILE
    assert info.id == f"file:{disk}:{(1 << 20) + 100}"
    assert info.size_bytes == 1 << 20
    assert not info.kind.plannable


def test_the_remap_unit_of_a_simulated_drive_is_known() -> None:
    assert inspect("sim:bm1743").remap_unit_bytes == 16384
    assert inspect("sim:dram-ssd-2012").remap_unit_bytes == 0  # no flash, nothing to read first


def test_a_simulated_drive_is_labelled_and_complete() -> None:
    info = inspect("sim:x25m-g2-160,capacity=1GiB,seed=9")

    assert info.kind is TargetKind.SIMULATED
    assert info.simulated
    assert (info.size_bytes, info.sim_seed) == (1 << 30, 9)
    assert info.id.startswith("sim:x25m-g2-160")


@pytest.mark.parametrize(
    ("kernel_name", "model", "kind"),
    [
        ("loop7", "", TargetKind.LOOP),
        ("nvme0n1", "Samsung SSD 990 PRO 2TB", TargetKind.UNPROVEN),
        ("sda", "INTEL SSDSC2BB48", TargetKind.UNPROVEN),
        ("sdb", "QEMU HARDDISK", TargetKind.VIRTUAL),
        ("nvme1n1", "Amazon Elastic Block Store", TargetKind.VIRTUAL),
        ("sdc", "PERC H740P Mini", TargetKind.VIRTUAL),
        ("sdd", "MR9361-8i", TargetKind.VIRTUAL),
        ("sde", "LOGICAL VOLUME", TargetKind.VIRTUAL),
        ("sdf", "DELLBOSS VD", TargetKind.VIRTUAL),
        ("vda", "", TargetKind.VIRTUAL),
        ("nbd0", "", TargetKind.VIRTUAL),
        ("zram0", "", TargetKind.VIRTUAL),
        ("dm-0", "", TargetKind.MAPPED),
        ("md127", "", TargetKind.MAPPED),
        ("zd16", "", TargetKind.MAPPED),
    ],
)
def test_a_name_alone_makes_no_drive(kernel_name: str, model: str, kind: TargetKind) -> None:
    assert kind_of(kernel_name, {"device/model": model}) is kind
    shown = Evidence(shown=("its pages are a drive's",), missing=())
    proven = TargetKind.DRIVE if kind is TargetKind.UNPROVEN else kind
    assert kind_of(kernel_name, {"device/model": model}, shown) is proven


# --- mappings without a UUID ----------------------------------------------------------------------


def named(host: MappedHost, kernel: str) -> str:
    nodes = {node: id_ for id_, node in identities(sysfs=Sysfs(host.root)).items()}
    return nodes[f"/dev/{kernel}"]


def two_disks(root: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]) -> MappedHost:
    """The same two drives, by their serials, under names that the kernel gives in some order."""
    host = MappedHost(root, monkeypatch)
    for disk, serial in zip(order, ("S1", "S2"), strict=True):
        host.put(f"sys/block/{disk}/serial", serial)
        host.part(f"{disk}1", disk, 2048, 65536)
    return host


def test_a_mapping_without_a_uuid_is_named_by_its_table_and_drives_and_never_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "0 8192 linear {}1 0", "8192 8192 crypt aes 00ff 0 {} 70000"
    host = two_disks(tmp_path / "first", monkeypatch, ("sda", "sdb"))
    host.dm("dm-0", *(line.format("sda") for line in table))
    host.dm("dm-1", *(line.format("sdb") for line in table))
    first, other = named(host, "dm-0"), named(host, "dm-1")

    again = two_disks(tmp_path / "again", monkeypatch, ("sdb", "sda"))
    again.dm("dm-0", *(line.format("sda") for line in table))
    again.dm("dm-1", *(line.format("sdb") for line in table))

    assert first.startswith("mapped.table-")
    assert first != other
    assert (named(again, "dm-1"), named(again, "dm-0")) == (first, other)


def test_volumes_of_one_thin_pool_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = MappedHost(tmp_path, monkeypatch)
    host.dm("dm-0", "0 131072 thin-pool sda sdb 128 0")
    for number in (1, 2):
        host.dm(f"dm-{number}", f"0 131072 thin dm-0 {number}")

    assert len({named(host, f"dm-{number}") for number in range(3)}) == 3


def test_an_array_without_a_superblock_is_named_by_its_members_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = set()
    for number, slots in enumerate(("01", "10", "01")):
        host = two_disks(tmp_path / str(number), monkeypatch, ("sda", "sdb"))
        host.md(f"md{number}", "sda", "sdb")
        host.put(f"sys/block/md{number}/md/uuid", "00000000:00000000:00000000:00000000")
        for slot, disk in zip(slots, ("sda", "sdb"), strict=True):
            host.put(f"sys/block/md{number}/md/dev-{disk}/slot", slot)
        found.add(named(host, f"md{number}"))

    assert len(found) == 2


def test_a_mapping_whose_table_cannot_be_read_is_refused_as_it_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = MappedHost(tmp_path, monkeypatch)
    host.dm("dm-0", "0 8192 linear sda 0", unread=True)
    info = TargetInfo(
        kind=TargetKind.MAPPED, name="d", node="/dev/dm-0", id=named(host, "dm-0"), size_bytes=512
    )

    (against,) = consent.objections(info, Consent(identity=info.id))

    assert "a mapping without a UUID" in against.reason
    assert against.option == ()


@pytest.mark.parametrize(("told", "preferred"), [("16384", 16384), ("4096", 0), ("", 0)])
def test_the_write_that_a_drive_recommends_is_what_the_kernel_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, preferred: int
) -> None:
    host = MappedHost(tmp_path, monkeypatch)
    host.put("sys/block/sda/queue/logical_block_size", "4096")
    host.put("sys/block/sda/queue/minimum_io_size", told)
    device = os.makedev(*(int(part) for part in host.numbers["sda"].split(":")))

    info = _block_device("/dev/sda", Path("/dev/sda"), device, Sysfs(tmp_path))

    assert info.preferred_write_bytes == preferred


def test_a_block_device_of_the_projects_own_simulators_is_known(tmp_path: Path) -> None:
    running, group = tmp_path / "run/ssdbench", tmp_path / "sys/kernel/config/ssdb_flash/ssd0"
    running.mkdir(parents=True)
    group.mkdir(parents=True)
    head = (int.from_bytes(b"SSDBLATE", "little"), 0, 0, 0)
    (running / "ublkb0").write_bytes(struct.pack("<508Q", *head, *[0] * 504))
    (running / "ublkb1").write_bytes(bytes(508 * 8))
    (group / "power").write_text("1\n")
    host = Sysfs(tmp_path)

    assert _simulator("ublkb0", host) == ""  # the server that left this file has ended
    with (running / "ublkb0").open() as served, (running / "ublkb1").open() as another:
        for file in (served, another):
            fcntl.flock(file, fcntl.LOCK_EX)
        assert _simulator("ublkb0", host) == "`ssdbench sim attach`"
        assert _simulator("ublkb1", host) == ""  # of another program
    assert _simulator("ssd0", host) == "the kernel module ssdb_flash"
    assert _simulator("sda", host) == _simulator("ublkb2", host) == ""
    (group / "power").write_text("0\n")
    assert _simulator("ssd0", host) == ""
