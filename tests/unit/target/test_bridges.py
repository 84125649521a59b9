"""Behind a bridge the drive is asked itself; where it is silent, its place and content name it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ssdbench.errors import DeviceError
from ssdbench.host import scsi as bus
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import Consent, TargetKind
from ssdbench.target import ata, consent, content, nvme, pages, surroundings
from ssdbench.target.evidence import BRIDGED, Function
from ssdbench.target.identity import BRIDGES, Names, filler, identity, not_used, same_drive
from ssdbench.target.inspect import find, identities
from tests.support.builders import a_target

DATA = Path(__file__).parents[2] / "data" / "pages"
USB = "pci0000:00/0000:00:14.0/usb2/2-3"
# As sold: the serial number that every unit of the bridge tells.
CLONED = ("DB9876543214E", "152D00539000", "20170331000C3", "202006054D01", "0123456789ABCDEF")


def an_identify(serial: str) -> bytes:
    """IDENTIFY DEVICE of a real drive with another serial number."""
    stored = json.loads((DATA / "real-intel-320.json").read_text())["pages"][ata.IDENTIFY]
    page = bytearray(bytes.fromhex(stored["hex"]).ljust(512, b"\0"))
    text = serial.encode().ljust(20)
    page[20:40] = b"".join(text[at + 1 : at + 2] + text[at : at + 1] for at in range(0, 20, 2))
    page[216:224] = bytes(8)  # no world-wide name
    page[511] = 0
    page[511] = -sum(page) % 256
    return bytes(page)


@pytest.fixture
def dock(tmp_path: Path) -> Callable[..., Sysfs]:
    """A dock with two drives, sda and sdb: two units of one USB device."""

    def made(serial: str = CLONED[0], **attributes: str) -> Sysfs:
        for unit, disk in enumerate(("sda", "sdb")):
            where = f"{USB}/2-3:1.0/host6/target6:0:0/6:0:0:{unit}/block/{disk}"
            device = tmp_path / "sys/devices" / where
            (device / "device").mkdir(parents=True)
            (device / "device/model").write_text("Dock\n")
            (device / "device/vendor").write_text("SABRENT\n")
            (device / "device/vpd_pg80").write_text(f"\0\x80\0{chr(len(serial))}{serial}")
            (device / "size").write_text("234441648\n")
            for name, value in attributes.items():
                (device / "device" / name).write_text(f"{value}\n")
            (tmp_path / "sys/block").mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys/block" / disk).symlink_to(device)
        bridge = tmp_path / "sys/devices" / USB
        (bridge / "idVendor").write_text("152d\n")
        (bridge / "idProduct").write_text("0578\n")
        return Sysfs(tmp_path)

    return made


@pytest.mark.parametrize("serial", CLONED)
def test_what_a_bridge_tells_names_no_drive(dock: Callable[..., Sysfs], serial: str) -> None:
    sysfs = dock(serial, wwid="naa.5000000000000001")
    names = surroundings.names_of("sda", sysfs)

    assert identities(sysfs=sysfs) == {
        "path.pci-0000:00:14.0-usb-2-3-scsi-0:0:0.120034123776": "/dev/sda",
        "path.pci-0000:00:14.0-usb-2-3-scsi-0:0:1.120034123776": "/dev/sdb",
    }
    assert find(f"serial.Dock.{serial}", sysfs=sysfs) is None
    assert not_used(names, {}) == {
        "naa.5000000000000001": BRIDGES,
        f"serial.Dock.{serial}": BRIDGES,
    }


def test_two_drives_in_one_dock_are_two_even_where_all_their_names_agree(
    dock: Callable[..., Sysfs],
) -> None:
    sysfs = dock(wwid="naa.5002538f12345678")

    assert len(identities(sysfs=sysfs)) == 2
    assert surroundings.twins("sda", sysfs) == []


def test_behind_a_bridge_the_drive_itself_is_asked_for_its_names(
    dock: Callable[..., Sysfs], monkeypatch: pytest.MonkeyPatch
) -> None:
    sysfs = dock()
    own = {"sda": an_identify("CVPR0000001"), "sdb": an_identify("CVPR0000002")}
    monkeypatch.setattr(
        pages, "of_bridged", lambda kernel, _: {f"{BRIDGED}{ata.IDENTIFY}": own[kernel]}
    )

    assert identities(sysfs=sysfs) == {
        "serial.INTEL_SSDSA2CW120G3.CVPR0000001": "/dev/sda",
        "serial.INTEL_SSDSA2CW120G3.CVPR0000002": "/dev/sdb",
    }
    own["sdb"] = own["sda"]  # a dock that passes every command to its first drive
    assert all(name.startswith("path.") for name in identities(sysfs=sysfs))


def test_an_nvme_drive_behind_a_bridge_is_known_by_its_own_names(
    dock: Callable[..., Sysfs], monkeypatch: pytest.MonkeyPatch
) -> None:
    sysfs = dock()
    controller, namespace = bytearray(4096), bytearray(4096)
    controller[4:24], controller[24:64] = b"S4EWNX0".ljust(20), b"970 EVO".ljust(40)
    namespace[120:128] = bytes.fromhex("0025385b91b0a4d2")
    own = {nvme.CONTROLLER: bytes(controller), nvme.NAMESPACE: bytes(namespace)}
    answers = {"sda": {f"{BRIDGED}{name}": page for name, page in own.items()}, "sdb": {}}
    monkeypatch.setattr(pages, "of_bridged", lambda kernel, _: answers[kernel])

    assert identities(sysfs=sysfs)["eui.0025385b91b0a4d2"] == "/dev/sda"


class Bridge:
    """A disk node whose bridge answers some commands, and refuses all others."""

    def __init__(self, answers: Callable[[bytes], bytes | None]) -> None:
        self.answers = answers
        self.sent: list[bytes] = []

    def command(self, block: bytes, **options: Any) -> bus.Reply:
        self.sent.append(block)
        data = self.answers(block)
        if data is None:
            raise bus.ScsiRefused(block[0], 2, b"")
        return bus.Reply(data, b"", 0)


def asked(
    monkeypatch: pytest.MonkeyPatch, ids: str, answers: Callable[[bytes], bytes | None]
) -> tuple[pages.Pages, list[bytes]]:
    bridge, disk = Bridge(answers), bus.Scsi(-1)
    monkeypatch.setattr(bus.Scsi, "command", lambda _, block, **o: bridge.command(block, **o))
    return pages._bridged(disk, ids), bridge.sent


@pytest.mark.parametrize(("opcode", "command_at"), [(0x85, 14), (0xA1, 9)])
def test_identify_is_asked_for_in_16_and_in_12_bytes(
    monkeypatch: pytest.MonkeyPatch, opcode: int, command_at: int
) -> None:
    page = an_identify("S1")
    found, sent = asked(
        monkeypatch, "174c:55aa", lambda block: page if block[0] == opcode else None
    )

    assert found == {f"{BRIDGED}{ata.IDENTIFY}": page}
    assert sent[-1][command_at] == 0xEC  # SAT-4 12.2.1 and 12.2.2
    assert len(sent[-1]) == {0x85: 16, 0xA1: 12}[opcode]


def test_an_answer_that_is_no_identify_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(an_identify("S1"))
    damaged[100] ^= 1

    assert asked(monkeypatch, "174c:55aa", lambda _: bytes(damaged))[0] == {}
    assert asked(monkeypatch, "174c:55aa", lambda _: bytes(512))[0] == {}
    assert asked(monkeypatch, "firewire", lambda _: an_identify("S1")) == ({}, [])


@pytest.mark.parametrize(
    ("ids", "block"),
    [
        ("174c:2362", "e606000100000000" + "00" * 8),
        ("0bda:9210", "e400100601" + "00" * 11),
    ],
    ids=["asmedia", "realtek"],
)
def test_bridges_to_nvme_are_asked_in_their_own_commands(
    monkeypatch: pytest.MonkeyPatch, ids: str, block: str
) -> None:
    page = bytes(4) + b"S1".ljust(20) + bytes(4072)
    found, sent = asked(monkeypatch, ids, lambda b: page if b[0] in (0xE4, 0xE6) else None)

    assert sent[0].hex() == block
    assert found[f"{BRIDGED}{nvme.CONTROLLER}"] == page
    assert {block[3] if block[0] == 0xE4 else block[1] for block in sent} == {0x06, 0x02}


def test_a_jmicron_bridge_is_told_the_command_gives_the_data_and_says_how_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = bytes(4) + b"S1".ljust(20) + bytes(4072)
    ends = {0: b"", 2: page, 0xF: b"NVME".ljust(512, b"\0")}
    found, sent = asked(monkeypatch, "152d:0583", lambda block: ends.get(block[1] & 0xF))

    assert found[f"{BRIDGED}{nvme.CONTROLLER}"] == page
    assert [block[1] for block in sent[:3]] == [0x80, 0x82, 0x8F]
    assert all(block[0] == 0xA1 for block in sent)
    refused = {**ends, 0xF: b"NVME" + bytes(16) + (1 << 17).to_bytes(4, "little") + bytes(488)}
    assert asked(monkeypatch, "152d:0583", lambda block: refused.get(block[1] & 0xF))[0] == {}


def test_commands_of_a_maker_reach_no_other_makers_bridge() -> None:
    with pytest.raises(DeviceError, match="does not know how the USB bridge 1234:5678"):
        bus.Scsi(-1).nvme_behind("1234:5678", 0x06, 1)


PLACEHOLDERS = (
    "naa.5002538900000000",
    "naa.5002538900000001",
    "naa.3333333000001f40",  # given locally (scsi_debug)
    "naa.3000000012345678",
    "naa.2000000000000000",
    "eui.5254000000000001",  # QEMU's, on each of its drives
    "eui.0025380000000001",
    "serial.X.9876543210",
    "serial.X.DB9876543214E",
    "serial.X.5002538900000000",
)
OWN = (
    "naa.5002538e40a1b2c3",
    "naa.20000025384a1b2c",
    "eui.cfe000030a93ed00",  # a maker that writes its number backwards
    "eui.36344730527001490025384300000001",
    "serial.X.S4EWNX0R123456",
    "serial.X.CVPR1234000120AGN",
)


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_a_placeholder_is_known_by_its_form(name: str) -> None:
    assert filler(name)


@pytest.mark.parametrize("name", OWN)
def test_a_name_of_its_own_is_none(name: str) -> None:
    assert not filler(name)


ONE = Names(wwn="naa.5002538e40a1b2c3", model="M", serial="S1", size_bytes=1000)


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ({"path": "pci-1-ata-1-scsi-0:0:0"}, {"path": "pci-1-ata-2-scsi-0:0:0"}),
        ({"bridge": "152d:0578", "path": "p1"}, {"path": "p2"}),
        ({"size_bytes": 1000}, {"size_bytes": 2000}),
        (
            {"controller": "1", "path": "pci-0000:01:00.0-nvme-1"},
            {"controller": "1", "path": "pci-0000:02:00.0-nvme-1"},
        ),
    ],
    ids=["two-sata-ports", "a-bridge", "two-sizes", "one-controller-number-twice"],
)
def test_one_name_at_places_that_cannot_be_one_drive_names_neither(
    mine: dict[str, Any], other: dict[str, Any]
) -> None:
    here = {"sda": replace(ONE, **mine), "sdb": replace(ONE, **other)}

    assert not same_drive(here["sda"], here["sdb"])
    assert identity(here["sda"], here).startswith("path.")


def test_two_controllers_of_one_drive_are_two_paths_to_it() -> None:
    mine, other = (
        replace(ONE, controller=number, path=f"pci-0000:0{number}:00.0-nvme-1")
        for number in ("1", "2")
    )

    assert same_drive(mine, other)


def test_consent_for_a_drive_without_a_name_is_for_what_it_holds_and_says_so() -> None:
    info = a_target(TargetKind.DRIVE, id="path.pci-1-usb-2-3.1000", content="0a1b2c")
    own = "path.pci-1-usb-2-3.1000+content.0a1b2c"

    (bare,) = consent.objections(info, Consent())
    (place,) = consent.objections(info, Consent(identity=info.id))
    (before,) = consent.objections(info, Consent(identity=f"{info.id}+content.ffffff"))

    assert consent.objections(info, Consent(identity=own)) == []
    assert bare.option == ("--destroy", own)
    assert "no readable name of its own" in bare.reason
    assert "is not what it holds now" in place.reason
    assert "is not what it holds now" in before.reason


def test_what_a_drive_holds_changes_what_consent_is_given_for(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(16 << 20))
    info = a_target(TargetKind.DRIVE, id="path.x", node=str(disk), size_bytes=16 << 20)
    blank = content.digest(info)
    assert content.digest(info) == blank

    disk.write_bytes(b"other".ljust(4096, b"\1") * 4096)

    assert content.digest(info) != blank


def test_where_a_disk_is_plugged_in_is_read_for_each_path(tmp_path: Path) -> None:
    slots = [tmp_path / f"sys/devices/pci0000:00/0000:0{n}:00.0/nvme/nvme{n}" for n in (1, 2)]
    for number, controller in enumerate(slots, 1):
        controller.mkdir(parents=True)
        for name, value in (("vendor", 0x144D), ("device", 0xA80A), ("subsystem_vendor", 0x144D)):
            (controller.parents[1] / name).write_text(f"{value:#x}\n")
        (controller / "transport").write_text("pcie\n")
        (controller / "state").write_text(f"live{number}\n")
    head = tmp_path / "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme1n1"
    (head / "device").mkdir(parents=True)
    for number, controller in enumerate(slots, 1):
        (head / f"device/nvme{number}").symlink_to(controller)
    (tmp_path / "sys/block").mkdir()
    (tmp_path / "sys/block/nvme1n1").symlink_to(head)

    place = surroundings.around("nvme1n1", Sysfs(tmp_path))

    assert place.functions == (Function(0x144D, 0xA80A, 0x144D),) * 2
    assert (place.transport, place.network, place.software) == ("pcie", "", False)


def test_driver_channel_and_bridge_of_a_scsi_disk_are_read(tmp_path: Path) -> None:
    disk = tmp_path / "sys/devices/pci0000:00/0000:05:00.0/host0/target0:2:0/0:2:0:0/block/sda"
    (disk / "device").mkdir(parents=True)
    (disk / "device/raid_level").write_text("RAID 5\n")
    host = tmp_path / "sys/class/scsi_host/host0"
    host.mkdir(parents=True)
    (host / "proc_name").write_text("megaraid_sas\n")
    (tmp_path / "sys/block").mkdir()
    (tmp_path / "sys/block/sda").symlink_to(disk)

    place = surroundings.around("sda", Sysfs(tmp_path))

    assert (place.driver, place.channel) == ("megaraid_sas", 2)
    assert (place.raid_level, place.bridge) == ("RAID 5", "")
