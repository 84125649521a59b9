"""Purge a drive to its fresh state by a command of its protocol, or else by discards.

The caller must hold the claim on the drive. A method that would erase more than this target is
refused.
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
from ssdbench.model.target import LbaFormat, TargetInfo
from ssdbench.target import ata, nvme, pages, scsi, surroundings
from ssdbench.target.inspect import kernel_name
from ssdbench.target.pages import Protocol

FORMAT_TIMEOUT_MS = 600_000
POLL_S = 1.0
TAKEN_PATIENCE_S, TAKEN_POLL_S = 20.0, 0.05  # wait until the kernel notices a format
MOST_EVENTS = 16  # a SCSI unit may report so many events before it answers
SANITIZE_ACTIONS = (("crypto", 4), ("block", 2))  # SANACT; overwrite wears flash and is not used
DISCARD_STEP_BYTES = 1 << 30
SAMPLES = 64
IN_PROGRESS = "in progress"
UNRESTRICTED_EXIT = 1 << 3
IMMEDIATE = 1 << 7


@dataclass(frozen=True, slots=True)
class Purged:
    """Hold the result of a purge, with evidence from before and after the purge."""

    method: str
    said: str
    seconds: float
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    fallback: bool = False  # purged only by discards, which a drive may ignore
    lasting: str = ""  # what stays changed in the drive, and how to undo it


def obstacles(wanted: Purge, protocol: Protocol, found: pages.Pages) -> list[str]:
    """Return why a purge method cannot or must not be used on a drive; empty if usable; no I/O."""
    match wanted:
        case Purge.NONE | Purge.DISCARD:
            return []
        case Purge.FORMAT | Purge.SANITIZE if protocol is Protocol.NVME:
            return list(_nvme_obstacles(wanted, found))
        case Purge.SANITIZE if protocol is Protocol.ATA:
            if {"crypto", "block"} & ata.identify(found[ata.IDENTIFY]).sanitizes:
                return []
            return ["it has neither a crypto scramble nor a block erase sanitize (ATA)"]
        case Purge.SANITIZE | Purge.FORMAT if protocol is Protocol.SCSI:
            return []
        case Purge.ATA_ERASE if protocol is Protocol.ATA:
            return list(_erase_obstacles(ata.identify(found[ata.IDENTIFY])))
        case _:
            return [f"its protocol ({protocol.value}) has no {wanted.value}"]


def _nvme_obstacles(wanted: Purge, found: pages.Pages) -> Iterator[str]:
    said = nvme.controller(found[nvme.CONTROLLER])
    # Other controllers of the subsystem may have namespaces that this controller does not list.
    lists = [found[page] for page in (nvme.SIBLINGS, nvme.ALLOCATED) if page in found]
    siblings = sorted({nsid for page in lists for nsid in nvme.namespaces(page)})
    listed = ", ".join(str(nsid) for nsid in siblings)
    reaches_all = wanted is Purge.SANITIZE or said.formats_all or said.erases_all
    if nvme.SIBLINGS not in found:
        yield "cannot tell which other namespaces it has"
    elif reaches_all and said.shared_subsystem and nvme.ALLOCATED not in found:
        yield "cannot tell which namespaces the other controllers of its subsystem have"
    if wanted is Purge.SANITIZE:
        if not said.sanitizes & {"crypto", "block"}:
            yield "it has neither a crypto erase nor a block erase sanitize (NVMe)"
        if len(siblings) > 1:
            yield f"a sanitize erases all namespaces of the subsystem ({listed})"
        return
    if not said.can_format:
        yield "it has no format command"
    if len(siblings) > 1 and reaches_all:
        yield f"its format changes all namespaces ({listed})"


def _erase_obstacles(said: ata.Identify) -> Iterator[str]:
    if not said.security_supported:
        yield "it has no ATA security, so it cannot do an ATA erase"
    if said.security_enabled or said.security_locked:
        yield "an ATA password is set on it"
    if said.security_frozen:
        yield "its ATA security is frozen until a power cycle: suspend the host or replug the drive"


def _nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Witness:
    """Hold callbacks for events of a purge, which the caller stores on disk."""

    password: Callable[[], None] = _nothing  # called before a password is set on the drive
    share: Callable[[float], None] = _nothing  # gets the finished share of a sanitize


def purge(
    info: TargetInfo,
    wanted: Purge,
    descriptor: int,
    witness: Witness = Witness(),
    *,
    lba_format: LbaFormat | None = None,
) -> Purged:
    """Purge a claimed drive and return the result.

    `lba_format` is the new LBA format for an NVMe format command; if it is None, the drive keeps
    its LBA format. Raises TargetRefused with all obstacles before anything is done, DeviceError if
    the purge fails.
    """
    sysfs = Sysfs()
    kernel, node = kernel_name(info, sysfs=sysfs), Path(info.node)
    protocol = pages.protocol(kernel, sysfs)
    drive_pages = pages.read(kernel, node, sysfs=sysfs)
    if against := obstacles(wanted, protocol, drive_pages):
        raise TargetRefused(info.name, against, hint="choose another way, such as discard")
    before = _evidence(drive_pages, info, descriptor)
    began = time.monotonic()
    match wanted:
        case Purge.FORMAT if protocol is Protocol.NVME:
            said = _format(node, drive_pages, lba_format)
            _taken(kernel, descriptor, drive_pages, sysfs)
        case Purge.SANITIZE if protocol is Protocol.NVME:
            said = _sanitize(node, drive_pages, witness.share)
        case Purge.SANITIZE if protocol is Protocol.ATA:
            said = _ata_sanitize(node, drive_pages)
        case Purge.ATA_ERASE:
            said = _ata_erase(node, drive_pages, witness.password)
        case Purge.SANITIZE:
            said = _scsi_sanitize(node)
        case Purge.FORMAT:
            said = _scsi_format(node, drive_pages)
        case _:
            discard(info, descriptor, 0, info.size_bytes)
            said = "discards over the whole drive (a fallback: a drive is free to ignore them)"
    seconds = time.monotonic() - began
    after = _evidence(pages.read(kernel, node, sysfs=sysfs), info, descriptor)
    return Purged(wanted.value, said, seconds, before, after, wanted is Purge.DISCARD)


def _format(node: Path, found: pages.Pages, told: LbaFormat | None = None) -> str:
    """Format an NVMe drive with the LBA format `told`, or keep its LBA format if `told` is None."""
    said = nvme.namespace(found[nvme.NAMESPACE])
    crypto = nvme.controller(found[nvme.CONTROLLER]).can_crypto_erase
    before, _ = nvme.lba_formats(found)
    wanted = told or before
    with nvme_bus.opened(node) as drive:
        nsid = drive.nsid()
        cdw10 = _format_word(said, told) | (2 if crypto else 1) << 9
        drive.admin(
            nvme_bus.Command(nvme_bus.FORMAT, nsid, cdw10=cdw10, timeout_ms=FORMAT_TIMEOUT_MS)
        )
        now, _ = nvme.lba_formats({nvme.NAMESPACE: drive.identify(0, nsid=nsid)})
    if now != wanted:
        raise DeviceError(f"the drive was asked for LBA format {wanted}, but it has {now}")
    how = f"NVMe format with {'crypto' if crypto else 'user data'} erase, LBA format"
    return f"{how} kept" if now == before else f"{how} {before} changed to {now}"


def _format_word(said: nvme.Namespace, told: LbaFormat | None) -> int:
    """Return dword 10 of Format NVM, without the bits for the erase (NVM Express 2.0, 5.14).

    If `told` differs from the present format, its metadata are set as separate. Raises DeviceError
    for a format that the namespace lacks.
    """
    index, extended, protection = said.format_index, said.extended_metadata, said.protection
    if told is not None:
        sizes = (told.data_bytes, told.metadata_bytes)
        if sizes not in said.formats:
            raise DeviceError(f"the drive has no LBA format {told.sizes}")
        kept = said.format == sizes
        index = said.format_index if kept else said.formats.index(sizes)
        extended, protection = extended and kept, told.protection
    return (
        index & 15
        | extended << 4
        | protection << 5
        | (said.protection_first and protection > 0) << 8
        | (index >> 4) << 12
    )


def _taken(kernel: str, descriptor: int, before: pages.Pages, sysfs: Sysfs) -> None:
    """Wait until the kernel has noticed a drive's new size and block size after a format.

    A rescan of the controller makes Linux read the namespace again. Raises DeviceError if the
    kernel does not accept the format, for example one with metadata that it cannot handle
    separately.
    """
    node = Path("/dev") / kernel
    was = nvme.namespace(before[nvme.NAMESPACE])
    with nvme_bus.opened(node) as drive:
        now = nvme.namespace(drive.identify(0, nsid=drive.nsid()))
    if (was.format, was.size_blocks) == (now.format, now.size_blocks):
        return
    data = now.format[0]
    for controller in surroundings.controllers(kernel, sysfs):
        sysfs.ask(f"{controller}/rescan_controller")
    deadline = time.monotonic() + TAKEN_PATIENCE_S
    size_bytes = now.size_blocks * data
    while True:
        geometry = blockdev.geometry_of(descriptor)
        if (geometry.size_bytes, geometry.logical_block_bytes) == (size_bytes, data):
            break
        if time.monotonic() > deadline:
            raise DeviceError(
                f"the drive has LBA format {data}+{now.format[1]} now, but the kernel shows "
                f"{geometry.size_bytes} bytes of it in blocks of {geometry.logical_block_bytes}",
                hint=f"it was {was.format[0]}+{was.format[1]}: `ssdbench retire {node} --method "
                "format --lba-format …` gives it another format",
            )
        time.sleep(TAKEN_POLL_S)
    blockdev.set_block_size(descriptor, data)


def _sanitize(node: Path, found: pages.Pages, share: Callable[[float], None]) -> str:
    """Start a sanitize, or wait for one that already runs, for example after a reboot.

    The command allows unrestricted exit: if the sanitize fails, the drive can leave the failed
    state without another sanitize (AUSE, NVM Express 2.0, 5.24).
    """
    can = nvme.controller(found[nvme.CONTROLLER]).sanitizes
    name, action = next((n, a) for n, a in SANITIZE_ACTIONS if n in can)
    with nvme_bus.opened(node) as drive:
        state, _ = _sanitize_state(drive)
        if state != IN_PROGRESS:
            drive.admin(nvme_bus.Command(nvme_bus.SANITIZE, cdw10=action | UNRESTRICTED_EXIT))
        _await(lambda: _sanitize_state(drive), share)
    return f"NVMe {name} sanitize"


def awaited(info: TargetInfo) -> bool:
    """Wait until a running sanitize or SCSI format ends; return True if one was running.

    Until the sanitize or format ends, the drive refuses reads, so the guard could not check the
    drive. Raises DeviceError if the sanitize fails.
    """
    if not info.major_minor:  # a file, or simulated
        return False
    sysfs, node = Sysfs(), Path(info.node)
    match pages.protocol(kernel_name(info, sysfs=sysfs), sysfs):
        case Protocol.NVME:
            return _awaited_nvme(node)
        case Protocol.ATA:
            with scsi_bus.opened(node) as disk:
                can = ata.identify(disk.ata(scsi_bus.AtaCommand(0xEC, reads_sectors=1)).data)
                return _await_ata(disk) if can.sanitizes else False
        case Protocol.SCSI:
            with scsi_bus.opened(node) as disk:
                return _await_ready(disk)
        case _:
            return False


def _awaited_nvme(node: Path) -> bool:
    with nvme_bus.opened(node) as drive:
        try:
            state, _ = _sanitize_state(drive)
        except DeviceError:  # without this log, the drive has no sanitize
            return False
        if state != IN_PROGRESS:
            return False
        _await(lambda: _sanitize_state(drive), _nothing)
    return True


def _sanitize_state(drive: nvme_bus.Nvme) -> tuple[str, float]:
    return nvme.sanitize_state(drive.log_page(0x81, 512))


def _await(state: Callable[[], tuple[str, float]], share: Callable[[float], None]) -> None:
    while (now := state())[0] == IN_PROGRESS:
        share(now[1])
        time.sleep(POLL_S)
    if not now[0].startswith("completed"):
        raise DeviceError(f"the sanitize ended as {now[0]!r}")


def _ata_sanitize(node: Path, found: pages.Pages) -> str:
    can = ata.identify(found[ata.IDENTIFY]).sanitizes
    name, feature, key = (
        ("crypto", 0x0011, 0x43727970) if "crypto" in can else ("block", 0x0012, 0x426B4572)
    )
    with scsi_bus.opened(node, writes=True) as disk:
        disk.ata(scsi_bus.AtaCommand(0xB4, feature=feature, lba=key, extended=True))
        _await_ata(disk)
    return f"ATA {name} sanitize"


def _await_ata(disk: scsi_bus.Scsi) -> bool:
    """Wait until an ATA sanitize ends (SANITIZE STATUS EXT); return True if one was running."""
    status = scsi_bus.AtaCommand(0xB4, feature=0, extended=True, registers=True)
    at_work = False
    while ata.sanitizing(disk.ata(status).sense):
        at_work = True
        time.sleep(POLL_S)
    return at_work


def _ata_erase(node: Path, found: pages.Pages, note: Callable[[], None]) -> str:
    """Erase a drive by ATA security, with the enhanced erase if the drive has one.

    Before the password is set, a note about it is stored on disk, because a crash during the erase
    leaves a drive that is locked with this password.
    """
    said = ata.identify(found[ata.IDENTIFY])
    with scsi_bus.opened(node, writes=True) as disk:
        note()
        scsi_bus.set_ata_password(disk)
        scsi_bus.ata_erase(disk, enhanced=said.enhanced_erase, minutes=said.erase_minutes)
    return f"ATA {'enhanced ' if said.enhanced_erase else ''}security erase"


def _scsi_sanitize(node: Path) -> str:
    """Sanitize by SANITIZE with BLOCK ERASE (SBC-4, 5.30), and poll until it is done."""
    with scsi_bus.opened(node, writes=True) as disk:
        disk.command(bytes([0x48, IMMEDIATE | 0x02, *bytes(8)]))
        _await_ready(disk)
    return "SCSI block sanitize"


def _scsi_format(node: Path, found: pages.Pages) -> str:
    """Format by FORMAT UNIT (SBC-4, 5.4) with the present protection, and poll until it is done."""
    kind = scsi.protection(found.get(scsi.CAPACITY, b""))
    information, usage = {0: (0, 0), 1: (2, 0), 2: (3, 0), 3: (3, 1)}[kind]
    immediately = bytes([usage, 0x02, 0, 0])  # the parameter list
    with scsi_bus.opened(node, writes=True) as disk:
        disk.command(bytes([0x04, information << 6 | 0x10, 0, 0, 0, 0]), data=immediately)
        _await_ready(disk)
        again = disk.command(scsi.READ_CAPACITY, reads_bytes=32).data
    if scsi.format_of(again) != scsi.format_of(found.get(scsi.CAPACITY, again)):
        raise DeviceError("the format changed the block size or protection, which it must keep")
    return "SCSI format unit, block size and protection kept"


def _await_ready(disk: scsi_bus.Scsi) -> bool:
    """Wait until a format or sanitize ends; return True if one was running. Raises DeviceError."""
    at_work, events = False, 0
    while True:
        try:
            disk.command(bytes(6))  # TEST UNIT READY
        except scsi_bus.ScsiRefused as refused:
            if scsi.attention(refused.sense) and events < MOST_EVENTS:
                events += 1
                continue
            if not scsi.at_work(refused.sense):
                raise
            at_work = True
            time.sleep(POLL_S)
        else:
            return at_work


def discard(info: TargetInfo, descriptor: int, offset_bytes: int, length_bytes: int) -> None:
    """Discard a range; a drive may ignore that. Raises HostLacks or DeviceError if refused."""
    end = offset_bytes + length_bytes
    try:
        for offset in range(offset_bytes, end, DISCARD_STEP_BYTES):
            length = min(DISCARD_STEP_BYTES, end - offset)
            blockdev.discard(descriptor, offset_bytes=offset, length_bytes=length)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOTTY):
            raise HostLacks(f"{info.name} takes no discards", hint="choose another way") from error
        raise DeviceError(f"{info.name} refused a discard: {error.strerror}") from error


def _evidence(found: pages.Pages, info: TargetInfo, descriptor: int) -> dict[str, str]:
    """Return evidence for a purge: the drive's counters, and a check of samples of its data."""
    size_bytes = blockdev.size_of(descriptor) if nvme.NAMESPACE in found else info.size_bytes
    zeros, read = blockdev.zero_samples(descriptor, size_bytes, SAMPLES)
    facts = {"samples that read as zeros": f"{zeros} of {read}"}
    if nvme.NAMESPACE in found:
        said = nvme.namespace(found[nvme.NAMESPACE])
        facts["blocks in use"] = f"{said.used_blocks} of {said.size_blocks}"
        facts["LBA format"] = str(nvme.lba_formats(found)[0])
        facts["size in bytes"] = str(size_bytes)
    if nvme.SANITIZE in found:
        facts["last sanitize"] = nvme.sanitize_state(found[nvme.SANITIZE])[0]
    if nvme.SMART in found:
        smart = nvme.smart_facts(found[nvme.SMART])
        facts |= {n: smart[n] for n in ("percentage used", "data written") if n in smart}
    if scsi.CAPACITY in found:
        facts |= {k: v for k, v in scsi.facts(found).items() if k.startswith("capacity")}
    return facts
