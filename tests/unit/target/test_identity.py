"""A drive is known by itself; by its place only when nothing of its own is unique."""

from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.host.sysfs import Sysfs
from ssdbench.target import surroundings
from ssdbench.target.identity import Names, filler, identity, not_used, same_drive
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
    assert identity(names, {"sda": names}) == expected


def test_a_serial_that_two_drives_show_names_neither() -> None:
    """Namespaces of one controller share it, and USB bridges clone it."""
    here = {"sda": SERIAL, "sdb": Names(model="Bridge", serial="S1")}

    assert identity(SERIAL, here) == "path.pci-0000:01:00.0-nvme-1.1000"


ONE = Names(wwn="naa.5002538f12345678", model="Flash X", serial="S1", path="p1", size_bytes=1000)


def test_a_world_wide_name_that_two_drives_show_names_neither() -> None:
    """Cheap drives of one series share it; serial or model tell them apart."""
    other = replace(ONE, serial="S2", path="p2")
    here = {"sda": ONE, "sdb": other}

    assert identity(ONE, here) == "serial.Flash_X.S1"
    assert identity(other, here) == "serial.Flash_X.S2"
    assert not_used(ONE, here) == {ONE.wwn: "/dev/sdb, another drive, has it too"}
    assert not same_drive(ONE, other)
    assert not same_drive(ONE, replace(ONE, model="Flash Y", path="p2"))


def test_a_world_wide_name_on_two_paths_of_a_drive_is_its_name() -> None:
    here = {"sda": ONE, "sdb": replace(ONE, path="p2")}

    assert identity(ONE, here) == ONE.wwn
    assert not_used(ONE, here) == {}


FILLERS = (
    "naa.5000000000000016",  # Biwintech SX500, and others
    "naa.502b2a201d1c1b1a",
    "naa.0000000000000000",
    "naa.50f0000000000000",  # Samsung MP0804H
    "naa.ffffffffffffffff",
    "naa.5002538fffffffff",
    "naa.600000000000000000000000000000a1",
    "eui.0000000000000001",
    "eui.0025380000000000",
    "eui.00000000000000010000000000000002",
    "uuid.00000000-0000-0000-0000-000000000000",
    "serial.Flash_X.0123456789",
    "serial.Flash_X.123456789012",
    "serial.Flash_X.00000000",
    "serial.Flash_X.None",
)
REAL = (
    "naa.500000e04167f90c",  # Fujitsu, Intel, Kingston, Toshiba, WD, Hitachi
    "naa.5001517387d61905",
    "naa.50026b7782159949",
    "naa.500080db1000804c",
    "naa.50014ee6aadfd43a",
    "naa.5000cca396ea414b",
    "eui.0025385b91b0a4d2",
    "eui.01000000010000005cd2e4b8a1d35151",  # Intel: its OUI in the middle
    "uuid.5e8a1cb6-0a8f-4c11-9e2d-7f1d2c3b4a59",
    "serial.KINGSTON_SA400S37240G.50026B7782159949",
)


@pytest.mark.parametrize("name", FILLERS)
def test_a_filler_is_told(name: str) -> None:
    assert filler(name)


@pytest.mark.parametrize("name", REAL)
def test_a_name_of_a_real_drive_is_no_filler(name: str) -> None:
    assert not filler(name)


def test_a_filler_is_never_what_consent_is_given_for() -> None:
    drive = replace(ONE, wwn="naa.5000000000000016")

    assert identity(drive, {"sda": drive}) == "serial.Flash_X.S1"
    assert "placeholder" in not_used(drive, {"sda": drive})[drive.wwn]


ODD = ("X Y", "X_Y", "X  Y", "X\tY", "X%5FY", "X.Y", "X\u00a0Y", "X\x1b[2JY")


def test_no_two_serials_and_models_make_one_identity() -> None:
    drives = [Names(model=model, serial=serial) for model in ODD for serial in ODD]
    made = {identity(names, {}) for names in drives}

    assert len(made) == len(drives)
    assert all(name.isascii() and name.isprintable() and " " not in name for name in made)


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
        tmp_path, "sdb", "pci0000:00/0000:00:1d.0/host5/port-5:0/target5:0:0/5:0:0:0/block/sdb",
        device__wwid="naa.5002538f", size="1000",
    )  # fmt: skip
    sysfs = Sysfs(tmp_path)

    assert surroundings.names_of("sda", sysfs).wwn == "naa.5002538f"
    assert surroundings.other_paths("sda", sysfs) == ["sdb"]
    host(
        tmp_path, "sdc", "pci0000:00/0000:00:1f.2/ata4/host3/target3:0:0/3:0:0:0/block/sdc",
        device__wwid="naa.0000000000000000", size="1000",
    )  # fmt: skip
    assert list(not_used(surroundings.names_of("sdc", sysfs), {})) == ["naa.0000000000000000"]
    assert surroundings.place("sda", sysfs).startswith("pci-0000:00:1f.2-ata-")
    assert surroundings.place("sdb", sysfs) == "pci-0000:00:1d.0-scsi-0:0:0"


def test_a_drive_in_a_directory_of_its_own_is_known_by_the_node_that_it_has(tmp_path: Path) -> None:
    host(tmp_path, "etherd!e1.0", "virtual/block/etherd!e1.0", size="1000")
    host(tmp_path, "cciss!c0d0", "pci0000:00/0000:00:04.0/cciss0/c0d0/block/cciss!c0d0", size="10")
    sysfs = Sysfs(tmp_path)

    nodes = identities(sysfs=sysfs).values()

    assert sorted(nodes) == ["/dev/cciss/c0d0", "/dev/etherd/e1.0"]
    assert surroundings.fabric("etherd!e1.0", sysfs) == "etherd"


def test_two_drives_of_this_host_with_one_world_wide_name_are_two(tmp_path: Path) -> None:
    for disk, serial in (("sda", "S1"), ("sdb", "S2")):
        host(
            tmp_path, disk, f"pci0000:00/0000:00:1f.2/ata3/host2/target/2:0:0:0/block/{disk}",
            device__wwid="naa.5002538f12345678", device__serial=serial, size="1000",
        )  # fmt: skip
    sysfs = Sysfs(tmp_path)

    assert identities(sysfs=sysfs) == {
        "serial.unknown.S1": "/dev/sda",
        "serial.unknown.S2": "/dev/sdb",
    }
    assert find("naa.5002538f12345678", sysfs=sysfs) is None
    assert surroundings.other_paths("sda", sysfs) == []


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
