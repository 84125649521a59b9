"""What shows that a disk is one drive: no volume does, every genuine drive does."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ssdbench.engine.verdict import about_target
from ssdbench.model.finding import Severity
from ssdbench.model.loading import load_profile
from ssdbench.model.target import LACKS, TAKEN, Consent, TargetKind
from ssdbench.suite import plan as suite_plan
from ssdbench.suite.request import RunRequest
from ssdbench.target import ata, nvme, scsi
from ssdbench.target.evidence import (
    BRIDGED,
    Evidence,
    Function,
    Place,
    evidence,
    kind_of,
    models,
    taken_for_a_drive,
    unplannable,
)
from tests.support.builders import a_target

PAGES = Path(__file__).parents[2] / "data" / "pages"
SATA = sorted(path.stem for path in PAGES.glob("real-*.json") if "sas" not in path.stem)


def stored(name: str) -> dict[str, bytes]:
    pages = json.loads((PAGES / f"{name}.json").read_text())["pages"]
    return {k: bytes.fromhex(p["hex"]).ljust(p["size"], b"\0") for k, p in pages.items()}


@dataclass(frozen=True)
class Disk:
    """A disk as the kernel shows it and as it answers."""

    kernel: str
    vendor: str = ""
    model: str = ""
    place: Place = Place()
    pages: dict[str, bytes] = field(default_factory=dict)
    wwid: str = ""

    @property
    def attributes(self) -> dict[str, str]:
        named = {"vendor": self.vendor, "model": self.model, "wwid": self.wwid}
        return {f"device/{name}": value for name, value in named.items() if value}

    @property
    def seen(self) -> Evidence:
        return evidence(self.place, self.attributes, self.pages)

    @property
    def kind(self) -> TargetKind:
        return kind_of(self.kernel, self.attributes, self.seen, models=models(self.pages))


def nvme_pages(
    vendor: int, company: int, *, model: str = "", kelvin: int = 305, cycles: int = 9
) -> dict[str, bytes]:
    """Identify controller and the health log, as NVM Express 2.0 has them."""
    controller, log = bytearray(4096), bytearray(512)
    controller[0:2], controller[4:24] = vendor.to_bytes(2, "little"), b"S1".ljust(20)
    controller[24:64] = model.encode().ljust(40)
    controller[73:76] = company.to_bytes(3, "little")
    log[1:3], log[112:128] = kelvin.to_bytes(2, "little"), cycles.to_bytes(16, "little")
    return {nvme.CONTROLLER: bytes(controller), nvme.SMART: bytes(log)}


def an_nvme(vendor: int, company: int, model: str, **health: int) -> Disk:
    place = Place(transport="pcie", functions=(Function(vendor, 0x1, vendor),))
    return Disk("nvme0n1", "", model, place, nvme_pages(vendor, company, model=model, **health))


# Vendor and model of INQUIRY (NVMe: the model alone) as they were reported, and by whom.
HARDWARE = "linux-hardware.org, drives of servers"
LSSCSI = "lsscsi and /proc/scsi/scsi in reports to linux-scsi and to distributions"
MULTIPATH = "multipath-tools, libmultipath/hwtable.c"
CLOUDS = "the providers' guides: AWS NVMe EBS volumes, Azure azure-vm-utils, GCP guest-configs"
VOLUMES = (
    ("FTS", "PRAID EP400i", HARDWARE),
    ("FTS", "PRAID EP580i", HARDWARE),
    ("ATA", "MARVELL Raid VD", HARDWARE),
    ("ATA", "DELLBOSS VD", "Linux 2e9832713631: a quirk of libata"),
    ("ATA", "ThinkSystem M.2 VD", "baremetal operators' hints for root devices"),
    ("ATA", "JMicron H/W RAID", "parted in a report to smartmontools"),
    ("", "Dell BOSS-N1", "data sheet of the Marvell 88NR2241"),
    ("", "HPE NS204i-p Gen10+ Boot Controller", "HPE's QuickSpecs"),
    ("AVAGO", "SMC3108", LSSCSI),
    ("AVAGO", "MR9361-8i", LSSCSI),
    ("LSI", "MR9271-8i", LSSCSI),
    ("LSI", "MegaRAID SAS RMB", LSSCSI),
    ("LSI", "Logical Volume", LSSCSI),
    ("BROADCOM", "MR9560-16i", LSSCSI),
    ("DELL", "PERC H730P Mini", HARDWARE),
    ("DELL", "PERC H965i Front", "smartmontools issue 313"),
    ("DELL", "PERC 6/i", HARDWARE),
    ("LENOVO", "RAID 930-8i-2GB", "lsblk in a report to an operator of clusters"),
    ("Lenovo", "RAID 730-8i-1GB", HARDWARE),
    ("IBM", "ServeRAID M5210", LSSCSI),
    ("HPE", "MR416i-p Gen11", "HPE's QuickSpecs"),
    ("HPE", "MR216i-a Gen10+", "HPE's QuickSpecs"),
    ("HPE", "LOGICAL VOLUME", LSSCSI),
    ("HP", "LOGICAL VOLUME", LSSCSI),
    ("Cisco", "UCSC-RAID12G-2GB", "lsblk in the tests of a disk library"),
    ("Cisco", "UCSC-RAID12GP-4G", LSSCSI),
    ("AMCC", "9690SA-8I DISK", LSSCSI),
    ("Areca", "ARC-1160-VOL#00", LSSCSI),
    ("ASR8405", "storage", LSSCSI),
    ("Adaptec", "RAID 5", LSSCSI),
    ("DGC", "VRAID", MULTIPATH),
    ("EMC", "SYMMETRIX", MULTIPATH),
    ("NETAPP", "LUN C-Mode", MULTIPATH),
    ("PURE", "FlashArray", MULTIPATH),
    ("3PARdata", "VV", MULTIPATH),
    ("COMPELNT", "Compellent Vol", MULTIPATH),
    ("HUAWEI", "XSG1", MULTIPATH),
    ("HITACHI", "OPEN-V", MULTIPATH),
    ("Nimble", "Server", MULTIPATH),
    ("SYNOLOGY", "iSCSI Storage", MULTIPATH),
    ("LIO-ORG", "nvme_disk", LSSCSI),
    ("IET", "VIRTUAL-DISK", "tgt, usr/target.c"),
    ("ORACLE", "BlockVolume", "lsblk on instances of Oracle's cloud"),
    ("Msft", "Virtual Disk", "Hyper-V in lsscsi"),
    ("VMware", "Virtual disk", LSSCSI),
    ("NUTANIX", "VDISK", LSSCSI),
    ("Google", "PersistentDisk", CLOUDS),
    ("", "nvme_card-pd", CLOUDS),
    ("", "Amazon Elastic Block Store", CLOUDS),
    ("", "Amazon EC2 NVMe Instance Storage", CLOUDS),
    ("", "Microsoft NVMe Direct Disk v2", CLOUDS),
    ("", "MSFT NVMe Accelerator v1.0", CLOUDS),
    ("", "Alibaba Cloud Elastic Block Storage", "lsblk on an instance of Alibaba's cloud"),
    ("", "SPDK bdev Controller", "SPDK, its NVMe-oF target"),
    ("", "NVIDIA NVMe SNAP Controller", "NVIDIA's guide to SNAP"),
    ("", "bhyve-NVMe", "FreeBSD, usr.sbin/bhyve/pci_nvme.c"),
    ("QEMU", "QEMU HARDDISK", "QEMU, hw/scsi/scsi-disk.c"),
)


@pytest.mark.parametrize(("vendor", "model", "source"), VOLUMES, ids=lambda v: str(v)[:24])
def test_no_volume_is_plannable_and_no_word_makes_it_so(
    vendor: str, model: str, source: str
) -> None:
    kernel = "sda" if vendor else "nvme0n1"
    disk = Disk(kernel, vendor, model)
    info = a_target(disk.kind)

    assert source
    assert not disk.kind.plannable
    assert not taken_for_a_drive(info).kind.plannable


# The same where the name says nothing, by what each kind of volume shows.
LONG_NAME = bytes([0, 0x83, 0, 20, 1, 3, 0, 16]) + bytes.fromhex("600508b1001c18a54136918e59858bef")
SCSI_VOLUME = {scsi.INQUIRY: bytes(96), scsi.DEVICE_ID: LONG_NAME, scsi.SERIAL: b"\0\x80\0\x01A"}
NAMELESS = {
    "a RAID volume": Disk("sda", "ACME", "Disk", Place(), SCSI_VOLUME, "naa.600508b1001c18a5"),
    "of megaraid_sas": Disk("sda", "ACME", "D", Place(driver="megaraid_sas", channel=2)),
    "of smartpqi": Disk("sda", "ACME", "D", Place(driver="smartpqi", raid_level="RAID 1(+0)")),
    "of aacraid": Disk("sda", "ACME", "D", Place(driver="aacraid", channel=0)),
    "of a hypervisor": Disk("sda", "ATA", "D", Place(functions=(Function(0x8086, 1, 0x1AF4),))),
    "of virtio": Disk("sda", "ACME", "D", Place(driver="virtio_scsi")),
    "of iSCSI": Disk("sda", "ACME", "D", Place(network="iSCSI")),
    "of a cloud": an_nvme(0x1D0F, 0xA002DC, "Disk"),
    "of another one": an_nvme(0x1414, 0x74E28C, "Disk"),
    "of a third": an_nvme(0x1DED, 0x000000, "Disk"),
    "of QEMU": an_nvme(0x1B36, 0x525400, "Disk"),
    "of a mirror": replace(
        an_nvme(0x1B4B, 0x005043, "Disk"), place=Place(functions=(Function(0x1B4B, 0x2241),))
    ),
    "of the kernel": Disk("mine0", place=Place(software=True)),
}


@pytest.mark.parametrize("disk", NAMELESS.values(), ids=NAMELESS)
def test_a_volume_of_an_unknown_name_is_known_by_what_it_shows(disk: Disk) -> None:
    assert disk.kind is TargetKind.VIRTUAL


def test_a_mirror_that_shows_one_of_its_drives_has_another_size() -> None:
    """And a volume that shows nothing at all is no drive, whatever it is called."""
    pages = stored("real-samsung-870-evo")
    size = ata.identify(pages[ata.IDENTIFY]).sectors * 512
    mirror = Disk("sda", "ATA", "Samsung SSD 870", Place(size_bytes=size - (64 << 20)), pages)

    assert mirror.kind is TargetKind.UNPROVEN
    assert "the drive that answers has" in mirror.seen.missing[0]
    assert Disk("sda", "ATA", "Samsung SSD 870").kind is TargetKind.UNPROVEN


GENUINE = (
    an_nvme(0x144D, 0x002538, "Samsung SSD 990 PRO 2TB"),
    an_nvme(0x8086, 0x5CD2E4, "INTEL SSDPE2KX080T8"),
    an_nvme(0x1344, 0x00A075, "Micron_7450_MTFDKCB3T8TFR", cycles=1),
    an_nvme(0x1179, 0x8CE38E, "KXG60ZNV512G TOSHIBA"),
    an_nvme(0x1C58, 0x000CCA, "HUSMR7632BHP301"),
)


@pytest.mark.parametrize("disk", GENUINE, ids=lambda disk: disk.model)
def test_a_genuine_nvme_drive_is_one(disk: Disk) -> None:
    assert disk.kind is TargetKind.DRIVE
    head = replace(disk.place, functions=disk.place.functions * 2)
    assert replace(disk, place=head).kind is TargetKind.DRIVE  # behind two controllers


@pytest.mark.parametrize("name", sorted(path.stem for path in PAGES.glob("handmade-*.json")))
def test_a_drive_by_the_letter_of_its_standard_is_one(name: str) -> None:
    nvme_drive = "nvme" in name
    place = Place(functions=(Function(0x1987, 0x5012, 0x1987),)) if nvme_drive else Place()

    assert Disk("nvme0n1" if nvme_drive else "sda", place=place, pages=stored(name)).kind.plannable


@pytest.mark.parametrize("name", SATA)
@pytest.mark.parametrize("driver", ["ahci", "mpt3sas", "megaraid_sas"])
def test_a_genuine_sata_drive_is_one_at_a_port_and_behind_an_hba(name: str, driver: str) -> None:
    pages = stored(name)
    said = ata.identify(pages[ata.IDENTIFY])
    hba = Function(0x1000, 0x00E5, 0x1000)
    place = Place(said.sectors * 512, driver=driver, channel=0, functions=(hba,))

    assert Disk("sda", "ATA", said.model[:16], place, pages).kind is TargetKind.DRIVE


@pytest.mark.parametrize("name", SATA)
def test_a_drive_behind_a_bridge_is_one_when_it_answers_itself(name: str) -> None:
    page = stored(name)[ata.IDENTIFY]
    place = Place(ata.identify(page).sectors * 512, bridge="152d:0578", driver="uas")
    silent = Disk("sda", "SABRENT", "SABRENT", place, {scsi.INQUIRY: bytes(96)})

    assert silent.kind is TargetKind.UNPROVEN
    assert "behind the USB bridge does not answer" in silent.seen.missing[0]
    assert replace(silent, pages={f"{BRIDGED}{ata.IDENTIFY}": page}).kind is TargetKind.DRIVE


def test_an_nvme_drive_behind_a_bridge_is_one_when_it_answers_itself() -> None:
    pages = nvme_pages(0x144D, 0x002538, model="Samsung SSD 970 EVO")
    bridged = {f"{BRIDGED}{name}": page for name, page in pages.items()}

    assert Disk("sda", "ACME", "X", Place(bridge="0bda:9210"), bridged).kind is TargetKind.DRIVE


def test_a_box_that_mirrors_drives_is_known_behind_usb_by_what_answers() -> None:
    page = bytearray(stored("real-intel-320")[ata.IDENTIFY])
    text = b"JMicron H/W RAID1".ljust(40)
    page[54:94] = b"".join(text[at + 1 : at + 2] + text[at : at + 1] for at in range(0, 40, 2))
    page[511] = 0
    page[511] = -sum(page) % 256
    pages = {f"{BRIDGED}{ata.IDENTIFY}": bytes(page)}

    assert Disk("sda", "ACME", "X", Place(bridge="152d:0567"), pages).kind is TargetKind.VIRTUAL


def test_a_sas_drive_is_one_by_its_pages() -> None:
    disk = Disk("sda", "SEAGATE", "XS1600ME70004", Place(driver="mpt3sas", channel=0))

    assert replace(disk, pages=stored("handmade-sas")).kind is TargetKind.DRIVE
    for page in (scsi.DEVICE_ID, scsi.SERIAL, scsi.CHARACTERISTICS):
        pages = {name: value for name, value in stored("handmade-sas").items() if name != page}
        assert replace(disk, pages=pages).kind is TargetKind.UNPROVEN


def test_a_card_is_one_drive_by_its_identification() -> None:
    attributes = {"device/type": "MMC", "device/cid": "150100424a54443452"}

    assert kind_of("mmcblk0", attributes, evidence(Place(), attributes, {})) is TargetKind.DRIVE
    assert kind_of("mmcblk0", {}, evidence(Place(), {}, {})) is TargetKind.UNPROVEN


LACKING = {
    "company": (an_nvme(0x144D, 0, "X"), "no company number"),
    "local company": (an_nvme(0x144D, 0x025400, "X"), "no company number"),
    "temperature": (an_nvme(0x144D, 0x002538, "X", kelvin=0), "no temperature"),
    "cycles": (an_nvme(0x144D, 0x002538, "X", cycles=0), "counts no power cycle"),
    "function": (replace(an_nvme(0x144D, 0x002538, "X"), place=Place()), "no PCI function"),
    "own function": (
        replace(
            an_nvme(0x144D, 0x002538, "X"),
            place=Place(functions=(Function(0x144D, 1, of_another=True),)),
        ),
        "SR-IOV",
    ),
}


@pytest.mark.parametrize(("disk", "why"), LACKING.values(), ids=LACKING)
def test_what_is_missing_is_told_with_the_word_that_takes_it_on(disk: Disk, why: str) -> None:
    assert disk.kind is TargetKind.UNPROVEN
    info = a_target(disk.kind, facts={LACKS: "; ".join(disk.seen.missing)})
    assert why in unplannable(info)
    assert "--accept-unproven" in unplannable(info)

    (before,), (after,) = about_target(info), about_target(taken_for_a_drive(info))

    assert (before.severity, after.severity) == (Severity.INVALIDATES, Severity.WARNS)
    assert why in before.message
    assert "--accept-unproven" in before.advice
    assert taken_for_a_drive(info).kind.plannable


@pytest.mark.parametrize("kind", [k for k in TargetKind if k is not TargetKind.UNPROVEN])
def test_the_word_changes_nothing_but_what_is_unproven(kind: TargetKind) -> None:
    info = a_target(kind)

    assert taken_for_a_drive(info) == info


def test_the_word_on_the_command_line_is_what_a_run_is_planned_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = a_target(TargetKind.UNPROVEN, facts={LACKS: "it has no health log"})
    monkeypatch.setattr(suite_plan, "inspect", lambda _: info)
    text = "title: t\n"
    asked = RunRequest(load_profile(text, "p.yaml"), "p.yaml", text, target=info.name)

    assert suite_plan.target_of(asked) == info
    taken = suite_plan.target_of(replace(asked, consent=Consent(unproven=True)))
    assert taken.kind is TargetKind.DRIVE
    assert "it has no health log" in taken.facts[TAKEN]


@pytest.mark.parametrize(
    "model", ["Synology SAT5210-480G", "ALIBABA AliFlash V3", "OCZ-ARC100", "MR000480GWHLD"]
)
def test_a_genuine_drive_of_a_maker_of_arrays_is_one(model: str) -> None:
    assert an_nvme(0x144D, 0x002538, model).kind is TargetKind.DRIVE


@pytest.mark.parametrize(
    "model",
    ["SATADIET 500", "DIETRICH SSD", "Virtualis Pro 1TB", "NonVirtual9", "VDX 240"],
)
def test_a_word_inside_a_longer_word_makes_nothing_virtual(model: str) -> None:
    disk = an_nvme(0x144D, 0x002538, model)

    assert disk.kind is TargetKind.DRIVE
    assert Disk("sda", "ACME", model).kind is TargetKind.UNPROVEN


def test_without_the_right_to_ask_it_is_said_that_nothing_was_read() -> None:
    seen = evidence(Place(), {}, {}, unread="not read: run as root")

    assert seen.missing == ("not read: run as root",)
