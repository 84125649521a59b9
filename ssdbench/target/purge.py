"""Brings a drive back to its fresh state, by the drive's own command; discard only as a fallback.

Whoever calls has the claim. A method is refused when more than this one target would go with it.
"""

import errno
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ssdbench.errors import DeviceError, HostLacks, TargetRefused
from ssdbench.host import blockdev
from ssdbench.host import nvme as nvme_bus
from ssdbench.host import scsi as scsi_bus
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.profile import Purge
from ssdbench.model.target import TargetInfo
from ssdbench.target import ata, nvme, pages, scsi
from ssdbench.target.inspect import kernel_name
from ssdbench.target.pages import Protocol

FORMAT_TIMEOUT_MS = 600_000
POLL_S = 1.0
SANITIZE_ACTIONS = (("crypto", 4), ("block", 2))  # SANACT; overwrite wears flash and is not used
DISCARD_STEP_BYTES = 1 << 30
SAMPLES = 64


@dataclass(frozen=True, slots=True)
class Purged:
    """What was done, with evidence from before and after."""

    method: str
    said: str
    seconds: float
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    fallback: bool = False  # only discards: the drive was free to ignore them


def obstacles(wanted: Purge, protocol: Protocol, found: pages.Pages) -> list[str]:
    """Why this method must not or cannot be used on this drive (pure); empty means it may."""
    match wanted:
        case Purge.NONE | Purge.DISCARD:
            return []
        case Purge.FORMAT | Purge.SANITIZE if protocol is Protocol.NVME:
            return list(_nvme_obstacles(wanted, found))
        case Purge.SANITIZE if protocol is Protocol.ATA:
            said = ata.identify(found[ata.IDENTIFY])
            usable = {"crypto", "block"} & said.sanitizes
            return [] if usable else ["its ATA interface has no sanitize that spares flash"]
        case Purge.SANITIZE | Purge.FORMAT if protocol is Protocol.SCSI:
            return []
        case Purge.ATA_ERASE if protocol is Protocol.ATA:
            return ["an ATA erase needs a password, which this version does not set"]
        case _:
            return [f"{wanted.value} is no command of its protocol ({protocol.value})"]


def _nvme_obstacles(wanted: Purge, found: pages.Pages) -> Iterator[str]:
    said = nvme.controller(found[nvme.CONTROLLER])
    siblings = nvme.namespaces(found.get(nvme.SIBLINGS, b""))
    listed = ", ".join(str(nsid) for nsid in siblings)
    if nvme.SIBLINGS not in found:
        yield "its other namespaces cannot be known"
    if wanted is Purge.SANITIZE:
        if not said.sanitizes & {"crypto", "block"}:
            yield "it has no sanitize that spares flash"
        if len(siblings) > 1:
            yield f"a sanitize erases all namespaces of the subsystem ({listed})"
        return
    if not said.can_format:
        yield "it has no format command"
    if len(siblings) > 1 and (said.formats_all or said.erases_all):
        yield f"its format changes all namespaces ({listed})"


def purge(info: TargetInfo, wanted: Purge, descriptor: int) -> Purged:
    """Purge a claimed drive and say what was done.

    Raises TargetRefused with every obstacle before anything is done, DeviceError when the drive
    does not do it.
    """
    sysfs = Sysfs()
    kernel, node = kernel_name(info, sysfs=sysfs), Path(info.node)
    protocol = pages.protocol(kernel, sysfs)
    found = pages.read(kernel, node, sysfs=sysfs)
    if against := obstacles(wanted, protocol, found):
        raise TargetRefused(info.name, against, hint="choose another `purge`, such as discard")
    before = _evidence(found, info, descriptor)
    began = time.monotonic()
    match wanted:
        case Purge.FORMAT if protocol is Protocol.NVME:
            said = _format(node, found)
        case Purge.SANITIZE if protocol is Protocol.NVME:
            said = _sanitize(node, found)
        case Purge.SANITIZE if protocol is Protocol.ATA:
            said = _ata_sanitize(node, found)
        case Purge.SANITIZE:
            said = _scsi(node, "block sanitize", bytes([0x48, 0x02, *bytes(8)]))
        case Purge.FORMAT:
            said = _scsi(node, "format unit", bytes([0x04, 0, 0, 0, 0, 0]))
        case _:
            said = _discard(info, descriptor)
    seconds = time.monotonic() - began
    after = _evidence(pages.read(kernel, node, sysfs=sysfs), info, descriptor)
    return Purged(wanted.value, said, seconds, before, after, wanted is Purge.DISCARD)


def _format(node: Path, found: pages.Pages) -> str:
    """Format NVM with the LBA format, protection and metadata that are there."""
    with nvme_bus.opened(node) as drive:
        nsid = drive.nsid()
        settings = found[nvme.NAMESPACE]
        said = nvme.namespace(settings)
        crypto = nvme.controller(found[nvme.CONTROLLER]).can_crypto_erase
        erase = 2 if crypto else 1
        cdw10 = (
            said.format_index & 15
            | (said.extended_metadata << 4)
            | said.protection << 5
            | (said.protection_first << 8)
            | erase << 9
            | (said.format_index >> 4) << 12
        )
        drive.admin(
            nvme_bus.Command(nvme_bus.FORMAT, nsid, cdw10=cdw10, timeout_ms=FORMAT_TIMEOUT_MS)
        )
        now = nvme.namespace(drive.identify(0, nsid=nsid))
    if (now.format, now.protection) != (said.format, said.protection):
        raise DeviceError(f"the format changed from {said.format} to {now.format}")
    return f"NVMe format with {'crypto' if crypto else 'user data'} erase, LBA format kept"


def _sanitize(node: Path, found: pages.Pages) -> str:
    can = nvme.controller(found[nvme.CONTROLLER]).sanitizes
    name, action = next((n, a) for n, a in SANITIZE_ACTIONS if n in can)
    with nvme_bus.opened(node) as drive:
        running = nvme.sanitize_state(drive.log_page(0x81, 512))[0] == "in progress"
        if not running:  # one that a reboot interrupted goes on by itself
            drive.admin(nvme_bus.Command(nvme_bus.SANITIZE, cdw10=action))
        _await(lambda: nvme.sanitize_state(drive.log_page(0x81, 512))[0])
    return f"NVMe {name} sanitize"


def _await(state: Callable[[], str]) -> None:
    while (now := state()) == "in progress":
        time.sleep(POLL_S)
    if not now.startswith("completed"):
        raise DeviceError(f"the sanitize ended as {now!r}")


def _ata_sanitize(node: Path, found: pages.Pages) -> str:
    can = ata.identify(found[ata.IDENTIFY]).sanitizes
    name, feature, key = (
        ("crypto", 0x0011, 0x43727970) if "crypto" in can else ("block", 0x0012, 0x426B4572)
    )
    with scsi_bus.opened(node, writes=True) as disk:
        disk.ata(scsi_bus.AtaCommand(0xB4, feature=feature, lba=key, extended=True))
        status = scsi_bus.AtaCommand(0xB4, feature=0, extended=True, registers=True)
        while ata.sanitizing(disk.ata(status).sense):
            time.sleep(POLL_S)
    return f"ATA {name} sanitize"


def _scsi(node: Path, name: str, block: bytes) -> str:
    with scsi_bus.opened(node, writes=True) as disk:
        disk.command(block, timeout_ms=FORMAT_TIMEOUT_MS)
    return f"SCSI {name}"


def _discard(info: TargetInfo, descriptor: int) -> str:
    """Discard everything; no drive promises that anything comes of it."""
    offset = 0
    try:
        while offset < info.size_bytes:
            length = min(DISCARD_STEP_BYTES, info.size_bytes - offset)
            blockdev.discard(descriptor, offset_bytes=offset, length_bytes=length)
            offset += length
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY):
            raise HostLacks(
                f"{info.name} takes no discards", hint="choose another `purge`"
            ) from error
        raise DeviceError(f"{info.name} refused a discard: {error.strerror}") from error
    return "discards over the whole drive (a fallback: a drive is free to ignore them)"


def _evidence(found: pages.Pages, info: TargetInfo, descriptor: int) -> dict[str, str]:
    """What shows whether a drive was purged: its counters, and samples of what it holds."""
    zeros, read = blockdev.zero_samples(descriptor, info.size_bytes, SAMPLES)
    facts = {"samples that read as zeros": f"{zeros} of {read}"}
    if nvme.NAMESPACE in found:
        said = nvme.namespace(found[nvme.NAMESPACE])
        facts["blocks in use"] = f"{said.used_blocks} of {said.size_blocks}"
        facts["LBA format"] = f"{said.format[0]}+{said.format[1]}"
    if nvme.SANITIZE in found:
        facts["last sanitize"] = nvme.sanitize_state(found[nvme.SANITIZE])[0]
    if nvme.SMART in found:
        smart = nvme.smart_facts(found[nvme.SMART])
        facts |= {name: smart[name] for name in ("percentage used", "data written")}
    if scsi.CAPACITY in found:
        facts |= {k: v for k, v in scsi.facts(found).items() if k.startswith("capacity")}
    return facts
