"""Decide from a disk's answers and its place whether it is one physical drive; no I/O.

A name does not prove anything, because controllers and clouds may give a volume any name. A disk is
taken as one drive only if it answers commands in a way that only a drive does. A disk that shows no
sign of a volume is not yet proven to be a drive.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ssdbench.model.target import LACKS, NOT_READ, TAKEN, TargetInfo, TargetKind
from ssdbench.target import ata, nvme, scsi

BRIDGED = "bridged "  # prefix of the names of pages from a drive behind a bridge
APPLE = "apple-nvme"  # transport of a controller inside Apple's chips
CLOSE_BYTES = 4096  # some bridges hide a block or two at the end
LEAST_KELVIN, MOST_KELVIN = 200, 400
GROUP, LOCAL = 0x010000, 0x020000  # bits that a company's number must not have (IEEE 802, 8.2.2)

# PCI vendors of emulated functions or of a cloud's hardware (pci.ids).
_VIRTUAL_VENDORS = {
    0x1414: "Microsoft", 0x15AD: "VMware", 0x1AB8: "Parallels", 0x1AE0: "Google",
    0x1AF4: "Red Hat (virtio)", 0x1B36: "Red Hat (QEMU)", 0x1D0F: "Amazon", 0x1DD8: "Pensando",
    0x1DED: "Alibaba", 0x4E58: "SPDK (vfio-user)", 0x5853: "Xen", 0x80EE: "VirtualBox",
    0xFB5D: "bhyve",
}  # fmt: skip
_VOLUME_FUNCTIONS = {
    (0x1B4B, 0x2241): "a Marvell 88NR2241, which mirrors the drives behind it",
    (0x15B3, 0x6001): "an NVMe SNAP function of a network card",
    (0x8086, 0x5845): "QEMU's NVMe controller",
    (0x106B, 0x1A05): "Apple's virtual NVMe controller",
}
_VIRTUAL_COMPANIES = {
    0x000569: "VMware", 0x000C29: "VMware", 0x005056: "VMware", 0x001C14: "VMware",
    0x00155D: "Microsoft", 0x74E28C: "Microsoft", 0x00163E: "Xen", 0x001A4A: "Qumranet",
    0x001C42: "Parallels", 0xA002DC: "Amazon",
}  # fmt: skip
# SCSI channels that a driver uses for volumes, by the driver's source (drivers/scsi of Linux 6.12):
# MEGASAS_MAX_PD_CHANNELS, CONTAINER_CHANNEL, RAID_CHANNEL of mpt3sas, PQI_RAID_VOLUME_BUS, and
# HPSA_RAID_VOLUME_BUS, with volumes of external arrays behind it.
_VOLUME_CHANNELS = {
    "megaraid_sas": (2, 3), "aacraid": (0,), "mpt2sas": (1,), "mpt3sas": (1,),
    "smartpqi": (1, 2), "hpsa": (1, 2),
}  # fmt: skip
_VOLUME_DRIVERS = (
    "3w-", "gdth", "hptiop", "ips", "megaraid_mbox", "mvumi", "stex", "virtio_scsi", "storvsc",
    "vmw_pvscsi", "xen", "scsi_debug", "tcm_loop", "loopback", "ibmvscsi",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Function:
    """Describe a PCI function that a disk is attached to."""

    vendor: int = 0
    device: int = 0
    subsystem_vendor: int = 0
    of_another: bool = False  # a virtual function (SR-IOV)


@dataclass(frozen=True, slots=True)
class Place:
    """Describe where a disk is attached, and its driver."""

    size_bytes: int = 0
    network: str = ""  # the network between host and disk; "" for a local disk
    transport: str = ""  # transport of an NVMe controller
    functions: tuple[Function, ...] = ()  # one function for each path
    driver: str = ""  # driver of the SCSI host
    channel: int | None = None  # channel of the SCSI host
    raid_level: str = ""  # RAID level, if the driver reports one
    bridge: str = ""  # the USB bridge before the disk
    software: bool = False  # made by the kernel, without hardware


@dataclass(frozen=True, slots=True)
class Evidence:
    """Hold the proofs that a disk is one drive, missing proofs, and signs of a volume."""

    shown: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("it was not asked",)
    volume: tuple[str, ...] = ()


def evidence(
    place: Place, attributes: Mapping[str, str], found: Mapping[str, bytes], unread: str = ""
) -> Evidence:
    """Return the evidence about a disk; `found` has its pages, `unread` says why pages are missing.

    An NVMe drive must have a physical PCI function, a company's number (OUI), and a health log with
    a temperature and a count of power cycles. An ATA drive must answer IDENTIFY DEVICE by
    pass-through, with SMART and the size of the disk. A SAS drive must have the vital product data
    and logs of a disk. An MMC card must have its identification.
    """
    shown, missing = _of_protocol(place, attributes, found)
    if unread and not found:
        missing = [unread]
    return Evidence(tuple(shown), tuple(missing), tuple(_volume(place, attributes, found)))


def models(found: Mapping[str, bytes]) -> list[str]:
    """Return the model names that a drive's own pages contain."""
    named = []
    for prefix in ("", BRIDGED):
        if page := found.get(f"{prefix}{ata.IDENTIFY}"):
            named.append(ata.identify(page).model)
        if page := found.get(f"{prefix}{nvme.CONTROLLER}"):
            named.append(nvme.controller(page).model)
    return named


def _of_protocol(
    place: Place, attributes: Mapping[str, str], found: Mapping[str, bytes]
) -> tuple[list[str], list[str]]:
    """Return the proofs and the missing proofs, by the protocol in which the disk answers."""
    for prefix in ("", BRIDGED):
        if page := found.get(f"{prefix}{ata.IDENTIFY}"):
            return _sides(
                ["it answers IDENTIFY DEVICE as an ATA drive with SMART"],
                _ata_lacks(page, place.size_bytes),
            )
        if page := found.get(f"{prefix}{nvme.CONTROLLER}"):
            log = found.get(f"{prefix}{nvme.SMART}", b"")
            space = nvme.namespace(found.get(f"{prefix}{nvme.NAMESPACE}", b""))
            tells = space.size_blocks * space.format[0]
            lacks = [
                *([] if prefix else _function_lacks(place)),
                *_nvme_lacks(page, log, local=place.transport == APPLE),
                *_size_lacks(tells, place),
            ]
            return _sides(["its NVMe controller has a company's number and a health log"], lacks)
    if place.bridge:
        return [], ["the drive behind the USB bridge does not answer (SAT or NVMe pass-through)"]
    if scsi.DEVICE_ID in found or scsi.INQUIRY in found:
        return _sides(["it has the pages and logs of a SAS disk"], list(_sas_lacks(found)))
    if attributes.get("device/type") in ("MMC", "SD") and attributes.get("device/cid"):
        return ["it has the identification of a card (CID)"], []
    return [], ["it does not answer as an NVMe, ATA or SAS drive"]


def _sides(shown: list[str], lacks: list[str]) -> tuple[list[str], list[str]]:
    return ([], lacks) if lacks else (shown, [])


def _function_lacks(place: Place) -> Iterator[str]:
    if not place.functions and place.transport != APPLE:
        yield "no PCI function of its controller is known"
    if any(function.of_another for function in place.functions):
        yield "its controller is a virtual PCI function (SR-IOV), which shares a drive"


def _nvme_lacks(controller: bytes, log: bytes, *, local: bool) -> Iterator[str]:
    company = nvme.company(controller)
    if not local and (not company or company & (GROUP | LOCAL)):
        yield f"its controller has no company number from IEEE (it reports {company:06x})"
    if len(log) < nvme.HEALTH_BYTES:
        yield "it has no health log"
    elif not LEAST_KELVIN <= nvme.number(log, 1, 2) <= MOST_KELVIN:
        yield "its health log has no temperature"
    elif not nvme.power_cycles(log):
        yield "its health log counts no power cycle"


def _ata_lacks(page: bytes, size_bytes: int) -> list[str]:
    said, words = ata.identify(page), ata.words(page)
    tells = said.sectors * said.logical_bytes
    return [
        why
        for true, why in (
            (not ata.whole(page), "the checksum of its IDENTIFY DEVICE is wrong"),
            (bool(words[0] & 1 << 15), "its IDENTIFY DEVICE is not of an ATA drive"),
            (not said.model or not said.sectors, "its IDENTIFY DEVICE has no model or size"),
            (not words[82] & 1, "its IDENTIFY DEVICE has no SMART"),
        )
        if true
    ] + _size_lacks(tells, Place(size_bytes=size_bytes))


def _size_lacks(tells: int, place: Place) -> list[str]:
    """Return a sentence if the drive's size differs from the disk's, as it does for a volume."""
    if not tells or not place.size_bytes or abs(tells - place.size_bytes) <= CLOSE_BYTES:
        return []
    return [f"the drive that answers has {tells} bytes, but the disk {place.size_bytes}"]


def _sas_lacks(found: Mapping[str, bytes]) -> Iterator[str]:
    inquiry = found.get(scsi.INQUIRY, b"\0")
    if inquiry[0] & 0x1F not in (0x00, 0x14):  # SPC-5 6.6.2: direct access, zoned
        yield "its INQUIRY is not of a disk"
    if not scsi.name_of_a_drive(found.get(scsi.DEVICE_ID, b"")):
        yield "it has no world-wide name from a drive maker (VPD 83h)"
    if not scsi.serial(found.get(scsi.SERIAL, b"")):
        yield "it has no serial number (VPD 80h)"
    if not int.from_bytes(found.get(scsi.CHARACTERISTICS, b"")[4:6], "big"):
        yield "it does not report its medium (VPD B1h)"
    logs = any(found.get(log) for log in (scsi.TEMPERATURE, scsi.ENDURANCE, scsi.EXCEPTIONS))
    if not logs and not scsi.has_port(found.get(scsi.DEVICE_ID, b"")):
        yield "it has neither a SAS port nor a log of its temperature or health"


def _volume(
    place: Place, attributes: Mapping[str, str], found: Mapping[str, bytes]
) -> Iterator[str]:
    """Yield signs that a disk is a volume: several drives, or a drive shared with other users."""
    if place.software:
        yield "the kernel makes it: no hardware is behind it"
    if place.network:
        yield f"it is reached over a network ({place.network})"
    for function in place.functions:
        for vendor in dict.fromkeys((function.vendor, function.subsystem_vendor)):
            if vendor in _VIRTUAL_VENDORS:
                yield f"its PCI function is of {_VIRTUAL_VENDORS[vendor]}"
        if what := _VOLUME_FUNCTIONS.get((function.vendor, function.device)):
            yield f"its PCI function is {what}"
    if place.driver.startswith(_VOLUME_DRIVERS):
        yield f"its driver ({place.driver}) has only volumes and virtual disks"
    if place.channel in _VOLUME_CHANNELS.get(place.driver, ()):
        yield f"its driver ({place.driver}) uses channel {place.channel} for volumes"
    if place.raid_level not in ("", "N/A", "unknown"):
        yield f"its driver reports a volume ({place.raid_level})"
    yield from _volume_by_pages(attributes, found, place.bridge)


def _volume_by_pages(
    attributes: Mapping[str, str], found: Mapping[str, bytes], bridge: str
) -> Iterator[str]:
    page = found.get(nvme.CONTROLLER, b"") or found.get(f"{BRIDGED}{nvme.CONTROLLER}", b"")
    if page:
        if vendor := _VIRTUAL_VENDORS.get(nvme.number(page, 0, 2)):
            yield f"its NVMe controller is of {vendor}"
        if company := _VIRTUAL_COMPANIES.get(nvme.company(page)):
            yield f"its NVMe controller has a number of {company}"
    log = found.get(nvme.SMART, b"") or found.get(f"{BRIDGED}{nvme.SMART}", b"")
    if page and not nvme.company(page) and not nvme.power_cycles(log):  # as emulated ones
        yield "its NVMe controller has neither a company's number nor a health log that counts"
    if not bridge and _answers_as_no_drive(found):
        yield "it answers SCSI commands without a drive's name, port or logs"
    long_name = attributes.get("device/wwid", "").startswith("naa.6")
    is_ata = any(name.endswith(ata.IDENTIFY) for name in found)
    if long_name and not is_ata and not scsi.name_of_a_drive(found.get(scsi.DEVICE_ID, b"")):
        yield "its world-wide name has 16 bytes, as volumes of arrays have, and it has no SAS port"


def _answers_as_no_drive(found: Mapping[str, bytes]) -> bool:
    """Tell whether a SCSI disk answers like a volume: without any property of a drive."""
    if scsi.INQUIRY not in found or any(ata.IDENTIFY in n or nvme.CONTROLLER in n for n in found):
        return False
    identity = found.get(scsi.DEVICE_ID, b"")
    logs = any(found.get(log) for log in (scsi.TEMPERATURE, scsi.ENDURANCE, scsi.EXCEPTIONS))
    return not (logs or scsi.name_of_a_drive(identity) or scsi.has_port(identity))


NOTHING = Evidence()


UNPROVEN = ("--accept-unproven",)
VOLUME, SHOWN = "sign of a volume", "proof of one drive"  # names of facts

_MAPPED = re.compile(r"(dm-|md|bcache|drbd|zd|rbd|dasd)[0-9_a-z]")
# Kernel names of paravirtual disks, network disks, disks in memory, and volumes with special names.
# Nobody can buy such a drive, so its numbers are of no use for planning.
_VIRTUAL = re.compile(
    r"(vd|xvd|nbd|ram|zram|pmem|nullb|ublkb|ubd)[0-9a-z]|(etherd|cciss|ida|rd|i2o)[!/]"
)
# Model names that hypervisors, clouds, arrays and RAID controllers give their disks; only whole
# words match. The list need not be complete, because a volume with another name still lacks the
# proof that it is one drive.
_HINTS = re.compile(
    r"""
      \b(QEMU|VBOX|VMware|bhyve|Virtual|VDISK|VD|Msft|scsi_debug|LIO-ORG|SPDK)\b
    | ^IET\b | ^(AVAGO|BROADCOM|AMCC|Areca|Adaptec|ASR[0-9]+|NUTANIX|DGC|EMC|NETAPP|PURE)\b
    | \b(3PARdata|COMPELNT|Nimble|INFINIDAT|XtremIO|SteelVine|iSCSI)\b
    | Amazon\ E(C2|lastic) | \bEphemeralDisk\b | \bnvme_card | PersistentDisk | ^Google\b
    | Direct\ Disk | NVMe\ Accelerator | (Alibaba|Tencent)\ Cloud | BlockVolume | Block\ ?Storage
    | LOGICAL\ VOLUME | \bPERC\b | \b(DELL)?BOSS\b | MegaRAID | ServeRAID | \bP?RAID | \bNS[0-9]{3}i
    | \bMR[0-9]{3}i\b | \bMR9[0-9]{3}\b | 2-Bay | \bSMC[0-9]{4} | AMCC\ 9 | ARC-[0-9]{4}
    | SNAP\ Controller | \bXSG1\b | \bLUN\b | \bFlashArray\b | \bOPEN-[A-Z0-9]
    """,
    re.VERBOSE | re.IGNORECASE,
)


def kind_of(
    kernel_name: str,
    attributes: Mapping[str, str],
    seen: Evidence = NOTHING,
    *,
    models: Sequence[str] = (),
) -> TargetKind:
    """Return a whole block device's kind, from its kernel name, attributes and evidence.

    `models` are the model names in the disk's own pages. A disk with a sign or name of a volume is
    VIRTUAL. Without such a sign, a disk with all proofs is a DRIVE, and any other disk is UNPROVEN.
    """
    if kernel_name.startswith("loop"):
        return TargetKind.LOOP
    if _MAPPED.match(kernel_name):
        return TargetKind.MAPPED
    if _VIRTUAL.match(kernel_name) or seen.volume or name_of_a_volume(attributes, models):
        return TargetKind.VIRTUAL
    return TargetKind.UNPROVEN if seen.missing or not seen.shown else TargetKind.DRIVE


def name_of_a_volume(attributes: Mapping[str, str], models: Sequence[str] = ()) -> str:
    """Return a disk's name if only volumes have such names, else ""."""
    vendor, model = (attributes.get(f"device/{n}", "").strip() for n in ("vendor", "model"))
    named = (f"{vendor} {model}".strip(), *models)
    return next((name for name in named if _HINTS.search(name)), "")


def evidence_facts(
    attributes: Mapping[str, str], seen: Evidence, models: Sequence[str]
) -> dict[str, str]:
    """Return the signs that a disk is one drive or a volume, as facts for the report."""
    name = name_of_a_volume(attributes, models)
    signs = [*seen.volume, *([f"only volumes have such a name ({name})"] if name else [])]
    said = {SHOWN: seen.shown, LACKS: seen.missing, VOLUME: signs}
    return {fact: "; ".join(words) for fact, words in said.items() if words}


def unplannable(info: TargetInfo) -> str:
    """Return why a device's numbers cannot be used for planning, and a remedy; "" if usable."""
    if info.kind is TargetKind.UNPROVEN and info.facts.get("pages", "").startswith(NOT_READ):
        return f"the pages that show one drive were {info.facts['pages']}"
    if info.kind is TargetKind.UNPROVEN:
        return (
            f"{info.facts.get(LACKS, 'nothing shows that it is one drive')}; if you know that it "
            f"is one drive, add {' '.join(UNPROVEN)}"
        )
    return info.facts.get(VOLUME, "") if info.kind is TargetKind.VIRTUAL else ""


def taken_for_a_drive(info: TargetInfo) -> TargetInfo:
    """Turn an unproven disk into a drive, because the user says so; return others unchanged."""
    if info.kind is not TargetKind.UNPROVEN:
        return info
    why = f"by {' '.join(UNPROVEN)}, though {info.facts.get(LACKS, 'nothing shows it')}"
    facts = {**info.facts, TAKEN: why}
    return info.model_copy(update={"kind": TargetKind.DRIVE, "facts": facts})
