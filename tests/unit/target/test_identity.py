"""A drive is known by itself; by its place only when nothing of its own is unique."""

from pathlib import Path

import pytest

from ssdbench.host.sysfs import Sysfs
from ssdbench.target import surroundings
from ssdbench.target.identity import Names, identity, same_drive
from ssdbench.target.inspect import find, identities

SERIAL = Names(model="Flash X", serial="S1", path="pci-0000:01:00.0-nvme-1", size_bytes=1000)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (Names(nguid="ab" * 16, eui64="cd" * 8, serial="S1"), "eui." + "ab" * 16),
        (Names(eui64="cd" * 8, uuid="1-2", serial="S1"), "eui." + "cd" * 8),
        (Names(uuid="1-2", serial="S1"), "uuid.1-2"),
        (Names(wwn="naa.5000c500", serial="S1"), "naa.5000c500"),
        (SERIAL, "serial.Flash_X.S1"),
    ],
)
def test_the_best_name_of_its_own_wins(names: Names, expected: str) -> None:
    assert identity(names, [("Flash X", "S1")]) == expected


def test_a_serial_that_two_drives_show_names_neither() -> None:
    """Namespaces of one controller share it, and USB bridges clone it."""
    here = [("Flash X", "S1"), ("Bridge", "S1")]

    assert identity(SERIAL, here) == "path.pci-0000:01:00.0-nvme-1.1000"


def test_two_nodes_with_one_world_wide_name_are_one_drive() -> None:
    assert same_drive(Names(wwn="naa.5"), Names(wwn="naa.5"))
    assert not same_drive(Names(serial="S1"), Names(serial="S1"))
    assert not same_drive(Names(), Names())


def host(root: Path, disk: str, where: str, **attributes: str) -> None:
    """A disk below sys/block that links to its place, as the kernel has it."""
    device = root / "sys/devices" / where
    (device / "device").mkdir(parents=True)
    for name, value in attributes.items():
        path = device / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value + "\n")
    block = root / "sys/block"
    block.mkdir(parents=True, exist_ok=True)
    (block / disk).symlink_to(device)


def test_names_and_paths_are_read_from_the_kernel(tmp_path: Path) -> None:
    host(
        tmp_path, "sda", "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda",
        device__wwid="naa.5002538f", device__model="SSD  ", size="1000",
    )  # fmt: skip
    host(
        tmp_path, "sdb", "pci0000:00/0000:00:1d.0/usb2/2-1/2-1:1.0/host5/target5:0:0/5:0:0:0/sdb",
        device__wwid="naa.5002538f", size="1000",
    )  # fmt: skip
    sysfs = Sysfs(tmp_path)

    assert surroundings.names_of("sda", sysfs).wwn == "naa.5002538f"
    assert surroundings.other_paths("sda", sysfs) == ["sdb"]
    host(
        tmp_path, "sdc", "pci0000:00/0000:00:1f.2/ata4/host3/target3:0:0/3:0:0:0/block/sdc",
        device__wwid="naa.0000000000000000", size="1000",
    )  # fmt: skip
    assert surroundings.names_of("sdc", sysfs).wwn == ""  # others of its model have the same
    assert surroundings.place("sda", sysfs).startswith("pci-0000:00:1f.2-ata-")
    assert surroundings.place("sdb", sysfs) == "pci-0000:00:1d.0-usb-2-1-scsi-0:0:0"


@pytest.mark.parametrize(
    ("disk", "where", "attributes", "network"),
    [
        ("nbd0", "virtual/block/nbd0", {}, "nbd"),
        ("sdc", "platform/host3/session1/target3:0:0/3:0:0:1/block/sdc", {}, "iSCSI"),
        ("sdd", "pci0000:00/0000:00:03.0/host4/rport-4:0-1/t/4:0:0:0/block/sdd", {}, "Fibre"),
        ("nvme1n1", "virtual/nvme-fabrics/ctl/nvme1/nvme1n1", {"device__transport": "tcp"}, "tcp"),
    ],
)
def test_a_drive_behind_a_network_is_told(
    tmp_path: Path, disk: str, where: str, attributes: dict[str, str], network: str
) -> None:
    host(tmp_path, disk, where, **attributes)

    assert network in surroundings.fabric(disk, Sysfs(tmp_path))


def test_a_local_drive_is_local(tmp_path: Path) -> None:
    host(
        tmp_path, "nvme0n1", "pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1",
        device__transport="pcie", device__state="live",
    )  # fmt: skip

    assert surroundings.fabric("nvme0n1", Sysfs(tmp_path)) == ""
    assert surroundings.other_paths("nvme0n1", Sysfs(tmp_path)) == []


def test_the_place_of_a_namespace_has_its_own_number_whatever_the_kernel_named_it(
    tmp_path: Path,
) -> None:
    controller = "pci0000:00/0000:00:04.0/nvme/nvme0"
    host(tmp_path, "nvme0n1", f"{controller}/nvme0n1", nsid="2")
    host(tmp_path, "nvme0n2", f"{controller}/nvme0n2", nsid="1")
    sysfs = Sysfs(tmp_path)

    assert surroundings.place("nvme0n1", sysfs) == "pci-0000:00:04.0-nvme-2"
    assert surroundings.place("nvme0n2", sysfs) == "pci-0000:00:04.0-nvme-1"


def test_a_multipath_head_counts_the_paths_of_its_own_namespace_and_they_are_no_drives(
    tmp_path: Path,
) -> None:
    """Two controllers: the first namespace is behind both, the second behind one."""
    controllers = {"device__nvme0__state": "live", "device__nvme1__state": "live"}
    for head, nsid in (("nvme0n1", "1"), ("nvme0n2", "2")):
        where, names = f"virtual/nvme-subsystem/nvme-subsys0/{head}", {"wwid": f"uuid.{nsid}"}
        host(tmp_path, head, where, nsid=nsid, **names, **controllers)
    for path, nsid in (("nvme0c0n1", "1"), ("nvme0c1n1", "1"), ("nvme0c1n2", "2")):
        where, names = f"pci0000:00/0000:00:04.0/nvme/{path}", {"wwid": f"uuid.{nsid}"}
        host(tmp_path, path, where, nsid=nsid, hidden="1", **names)
    sysfs = Sysfs(tmp_path)

    assert surroundings.shown(sysfs) == ["nvme0n1", "nvme0n2"]
    assert surroundings.other_paths("nvme0n1", sysfs) == ["nvme0", "nvme1"]
    assert surroundings.other_paths("nvme0n2", sysfs) == []
    assert find("uuid.1", sysfs=sysfs) == "nvme0n1"
    assert identities(sysfs=sysfs)["uuid.2"] == "/dev/nvme0n2"
