"""Read the raw pages that a drive keeps about itself; other modules decode them.

This module never writes to a drive. A page that the drive lacks is left out. A drive that does not
identify itself raises an error.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path

from ssdbench.errors import DeviceError, SsdbenchError
from ssdbench.host import nvme as nvme_bus
from ssdbench.host import scsi as scsi_bus
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.target import ata, nvme, scsi
from ssdbench.target.evidence import BRIDGED

Pages = dict[str, bytes]
READ_RESERVATION = bytes([0x5E, 0x01, 0, 0, 0, 0, 0, 1, 0, 0])
ATTENTIONS = 5  # a unit may report so many events before it answers


class Protocol(StrEnum):
    """Name the protocol in which a drive is asked."""

    NVME = "nvme"
    ATA = "ata"
    SCSI = "scsi"
    NONE = "none"  # for loop, dm, md, virtio, which have no pages


def protocol(kernel: str, sysfs: Sysfs) -> Protocol:
    """Return a whole disk's protocol, judged by its kernel name and vendor."""
    if kernel.startswith("nvme"):
        return Protocol.NVME
    vendor = sysfs.find(f"/sys/block/{kernel}/device/vendor")
    if not kernel.startswith("sd") or vendor is None:
        return Protocol.NONE
    return Protocol.ATA if vendor.strip() == "ATA" else Protocol.SCSI


def read(kernel: str, node: Path, *, sysfs: Sysfs) -> Pages:
    """Read all pages that a drive has. Raises DeviceError, HostLacks."""
    match protocol(kernel, sysfs):
        case Protocol.NVME:
            with nvme_bus.opened(node) as drive:
                return _nvme(drive)
        case Protocol.ATA:
            with scsi_bus.opened(node) as disk:
                return {**_ata(disk), **_scsi(disk)}
        case Protocol.SCSI:
            with scsi_bus.opened(node) as disk:
                behind = bridge(kernel, sysfs) if askable(kernel, sysfs) else ""
                return {**_scsi(disk), **_bridged(disk, behind)}
        case Protocol.NONE:
            return {}


def bridge(kernel: str, sysfs: Sysfs) -> str:
    """Return the bridge before a disk: USB numbers such as `152d:0583`, `firewire`, or ""."""
    directory = sysfs.path(f"/sys/block/{kernel}").resolve()
    for parent in directory.parents:
        if re.fullmatch(r"[0-9]+-[0-9]+(\.[0-9]+)*", parent.name):
            ids = ((parent / name) for name in ("idVendor", "idProduct"))
            texts = [file.read_text().strip() if file.exists() else "?" for file in ids]
            return ":".join(texts)
        if re.fullmatch(r"fw[0-9]+(\.[0-9]+)?", parent.name):
            return "firewire"
    return ""


def of_bridged(kernel: str, sysfs: Sysfs) -> Pages:
    """Return the pages of the drive behind a bridge; empty if the drive cannot be asked."""
    if not askable(kernel, sysfs):
        return {}
    with suppress(SsdbenchError), scsi_bus.opened(sysfs.path(node_of(kernel))) as disk:
        return _bridged(disk, bridge(kernel, sysfs))
    return {}


def askable(kernel: str, sysfs: Sysfs) -> bool:
    """Tell whether a disk's bridge may be sent commands, which it may pass to a drive.

    udev's 60-persistent-storage.rules have the same rule: they ask all USB disks except removable
    media.
    """
    base = f"/sys/block/{kernel}"
    fixed = (sysfs.find(f"{base}/removable") or "0").strip() == "0"
    return fixed and bool(sysfs.number(f"{base}/size")) and bridge(kernel, sysfs) != ""


def _bridged(disk: scsi_bus.Scsi, ids: str) -> Pages:
    """Return the pages of the drive behind a USB bridge; their names begin with BRIDGED.

    These pages are only used to identify the drive. To purge the drive or to change its settings,
    ssdbench sends SCSI commands to the bridge.
    """
    if not ids or ids == "firewire":
        return {}
    with suppress(DeviceError):
        identify = disk.nvme_behind(ids, 0x06, 1)
        if nvme.text(identify, 4, 20):
            found = {nvme.CONTROLLER: identify}
            _add(
                found,
                {
                    nvme.NAMESPACE: lambda: disk.nvme_behind(ids, 0x06, 0),
                    nvme.SMART: lambda: disk.nvme_behind(ids, 0x02, 0x02),
                },
            )
            return {f"{BRIDGED}{name}": page for name, page in found.items()}
    for short in (False, True):  # bridges know the long command, the short, or both (SAT-4 12.2)
        command = scsi_bus.AtaCommand(
            0xEC, reads_sectors=1, short=short, timeout_ms=scsi_bus.BRIDGE_TIMEOUT_MS
        )
        with suppress(DeviceError):
            page = disk.ata(command).data
            if ata.whole(page) and ata.identify(page).serial:
                return {f"{BRIDGED}{ata.IDENTIFY}": page}
    return {}


def _nvme(drive: nvme_bus.Nvme) -> Pages:
    nsid = drive.nsid()
    pages = {
        nvme.CONTROLLER: drive.identify(1),
        nvme.NAMESPACE: drive.identify(0, nsid=nsid),
    }
    said = nvme.controller(pages[nvme.CONTROLLER])
    optional: dict[str, Callable[[], bytes]] = {
        nvme.DESCRIPTORS: lambda: drive.identify(3, nsid=nsid),
        nvme.SIBLINGS: lambda: drive.identify(2),
        nvme.ALLOCATED: lambda: drive.identify(0x10),
        nvme.ATTACHED: lambda: drive.identify(0x12, nsid=nsid),
        nvme.SMART: lambda: drive.log_page(0x02, 512),
        nvme.OCP: lambda: drive.log_page(0xC0, 512),
        nvme.ERRORS: lambda: drive.log_page(0x01, 64),
        nvme.FIRMWARE: lambda: drive.log_page(0x03, 512),
        nvme.POWER: lambda: _feature(drive, 0x02),
    }
    if said.volatile_cache:
        optional[nvme.CACHE] = lambda: _feature(drive, 0x06)
    if said.apst:
        optional[nvme.TRANSITIONS] = lambda: _feature(drive, 0x0C, reads_bytes=256)
    if said.memory_wanted_bytes:
        optional[nvme.MEMORY] = lambda: _feature(drive, 0x0D, reads_bytes=4096)
    if said.sanitizes:
        optional[nvme.SANITIZE] = lambda: drive.log_page(0x81, 512)
    if said.fdp and (group := nvme.namespace(pages[nvme.NAMESPACE]).endurance_group):
        optional[nvme.PLACEMENT] = lambda: _feature(drive, 0x1D, dword_11=group)
    if said.measures_power:
        optional[nvme.POWER_LOG] = lambda: drive.log_page(nvme.POWER_LOG_ID, nvme.POWER_LOG_BYTES)
    _add(pages, optional)
    if nvme.is_ocp(pages.get(nvme.OCP, b"")):
        _add(pages, {name: partial(drive.log_page, *log) for name, log in nvme.OCP_LOGS.items()})
    # The guard needs the next two pages, so errors are raised here, and the drive is refused.
    if said.can_reserve and nvme.namespace(pages[nvme.NAMESPACE]).reservable:
        extended = nvme_bus.Command(
            nvme_bus.RESERVATION_REPORT, nsid, cdw10=1023, cdw11=1, reads_bytes=4096
        )
        pages[nvme.RESERVATION] = drive.io(extended).data
    if said.security:
        discovery = nvme_bus.Command(
            nvme_bus.SECURITY_RECEIVE, cdw10=0x01 << 24 | 0x0001 << 8, cdw11=512, reads_bytes=512
        )
        with suppress(nvme_bus.NvmeRefused):  # the drive answers, but has no TCG security
            pages[nvme.SECURITY] = drive.admin(discovery).data
    return pages


def _feature(
    drive: nvme_bus.Nvme, feature: int, *, dword_11: int = 0, reads_bytes: int = 0
) -> bytes:
    """Read a feature; return the four bytes of its value, followed by its data."""
    reply = drive.feature(feature, dword_11=dword_11, reads_bytes=reads_bytes)
    return reply.result.to_bytes(4, "little") + reply.data


def _ata(disk: scsi_bus.Scsi) -> Pages:
    pages = {ata.IDENTIFY: disk.ata(scsi_bus.AtaCommand(0xEC, reads_sectors=1)).data}
    said = ata.identify(pages[ata.IDENTIFY])
    smart = scsi_bus.AtaCommand(0xB0, feature=0xD0, lba=0xC24F00, reads_sectors=1)
    optional: dict[str, Callable[[], bytes]] = {ata.SMART: lambda: disk.ata(smart).data}
    if said.host_protected_area:
        native = scsi_bus.AtaCommand(0x27, extended=True, registers=True)
        optional[ata.NATIVE_MAX] = lambda: disk.ata(native).sense
    if said.accessible_max:
        accessible = scsi_bus.AtaCommand(0x78, extended=True, registers=True)
        optional[ata.ACCESSIBLE_MAX] = lambda: disk.ata(accessible).sense
    _add(pages, optional)
    if said.trusted:
        discovery = scsi_bus.AtaCommand(0x5C, feature=0x01, lba=0x0001 << 8, reads_sectors=1)
        with suppress(scsi_bus.ScsiRefused):  # as above
            pages[nvme.SECURITY] = disk.ata(discovery).data
    return pages


def _scsi(disk: scsi_bus.Scsi) -> Pages:
    pages: Pages = {}
    inquiry = bytes([0x12, 0, 0, 0, 96, 0])
    caching = bytes([0x5A, 0x08, 0x08, 0, 0, 0, 0, 0, 255, 0])
    optional: dict[str, Callable[[], bytes]] = {
        scsi.INQUIRY: lambda: disk.command(inquiry, reads_bytes=96).data,
        scsi.TEMPERATURE: lambda: _log_sense(disk, 0x0D),
        scsi.ENDURANCE: lambda: _log_sense(disk, 0x11),
        scsi.EXCEPTIONS: lambda: _log_sense(disk, 0x2F),
        scsi.SERIAL: lambda: disk.vital_page(0x80),
        scsi.DEVICE_ID: lambda: disk.vital_page(0x83),
        scsi.LIMITS: lambda: disk.vital_page(0xB0),
        scsi.CHARACTERISTICS: lambda: disk.vital_page(0xB1),
        scsi.PROVISIONING: lambda: disk.vital_page(0xB2),
        scsi.CAPACITY: lambda: disk.command(scsi.READ_CAPACITY, reads_bytes=32).data,
        scsi.CACHING: lambda: disk.command(caching, reads_bytes=255).data,
    }
    _add(pages, optional)
    return pages | reservation(disk)


def reservation(disk: scsi_bus.Scsi) -> Pages:
    """Read a SCSI unit's reservation; without an answer, the guard refuses the drive.

    If another initiator has reserved the logical unit (RESERVE of SPC-2), the unit answers with a
    conflict (SPC-4 5.13.3); this status byte is then returned as a page. Raises ScsiRefused,
    DeviceError.
    """
    for _ in range(ATTENTIONS):
        try:
            return {scsi.RESERVATION: disk.command(READ_RESERVATION, reads_bytes=256).data}
        except scsi_bus.ScsiRefused as refused:
            if refused.status == scsi.CONFLICT_STATUS:
                return {scsi.CONFLICT: bytes([refused.status])}
            if scsi.unsupported(refused.sense):
                return {}
            if not scsi.attention(refused.sense):
                raise
    raise DeviceError("the drive reports one event after another instead of its reservation")


def _log_sense(disk: scsi_bus.Scsi, page: int) -> bytes:
    """Read the current cumulative values of a SCSI log page (SPC-5 6.8)."""
    return disk.command(bytes([0x4D, 0, 0x40 | page, 0, 0, 0, 0, 2, 0, 0]), reads_bytes=512).data


def _add(pages: Pages, optional: dict[str, Callable[[], bytes]]) -> None:
    for name, reading in optional.items():
        try:
            pages[name] = reading()
        except DeviceError:  # the unit lacks that page
            continue
