"""Make a TargetInfo from the name that a user gives: kind, size, identity and other properties."""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from ssdbench import foreign
from ssdbench.errors import HostLacks, SsdbenchError, TargetRefused, UsageError
from ssdbench.host import blockdev, regular
from ssdbench.host.blockdev import Zone
from ssdbench.host.counters import SECTOR_BYTES
from ssdbench.host.loops import behind
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.model.target import NOT_READ, VIA, ZONES, TargetInfo, TargetKind
from ssdbench.sim import spec as simspec
from ssdbench.sim import ublk
from ssdbench.sim.library import DIRECT, PAGE
from ssdbench.target import ata, content, nvme, pages, scsi, surroundings
from ssdbench.target.evidence import evidence, evidence_facts, kind_of, models
from ssdbench.target.identity import NOT_USED, PLACE, Names, filler, identity, not_used
from ssdbench.target.surroundings import names_here, names_of

BY_ID = "/dev/disk/by-id"
ROOT = Sysfs()


def inspect(name: str, *, sysfs: Sysfs = ROOT) -> TargetInfo:
    """Return the target with this name: /dev/…, a regular file, or sim:MODEL.

    Raises UsageError for a name that cannot be a target, TargetRefused for a partition or a
    controller, HostLacks without permission to look.
    """
    if name.startswith(simspec.PREFIX):
        return _simulated(name)
    path = Path(name)
    try:
        status = path.stat()
    except OSError as error:
        raise _absent(name, error) from error
    except ValueError as error:  # a NUL
        raise _no_line(name) from error
    for text in (name, os.path.realpath(path)):
        if foreign.page(text) != text or "\n" in text:
            raise _no_line(text)
    mode = status.st_mode
    if stat.S_ISBLK(mode):
        return _block_device(name, Path(os.path.realpath(path)), status.st_rdev, sysfs)
    if stat.S_ISREG(mode):
        return _regular_file(name, Path(os.path.realpath(path)), status)
    raise _unfit(name, mode)


def kernel_name(info: TargetInfo, *, sysfs: Sysfs = ROOT) -> str:
    """Return the target's name below /sys/block; "" if gone or not a whole block device."""
    if not info.major_minor:
        return ""
    name = sysfs.path(f"/sys/dev/block/{info.major_minor}").resolve().name
    return name if sysfs.exists(f"/sys/block/{name}") else ""


def find(drive: str, *, sysfs: Sysfs = ROOT) -> str | None:
    """Return the present kernel name of the block device with a given identity.

    If a drive has several paths, the identity may include a path (TargetInfo.here); then only this
    path is searched for. The result is None if no device, or more than one, has the identity.
    """
    named = [(kernel, id_) for id_, kernel in _identities(sysfs)]
    kernels = [kernel for kernel, id_ in named if id_ == drive]
    if not kernels:
        drive, _, place = drive.rpartition(VIA)
        kernels = [kernel for kernel, id_ in named if drive and id_ == drive]
        chosen = [kernel for kernel in kernels if surroundings.place(kernel, sysfs) == place]
        kernels = chosen or kernels
    return kernels[0] if len(kernels) == 1 else None


def found_again(known: TargetInfo) -> TargetInfo:
    """Inspect a known target again: by its name, or by its identity if it has moved.

    The drive may now have another slot and name. If no device of this host has its identity, the
    device with the old name is returned, so the caller must compare the identity. Raises the errors
    of `inspect`.
    """
    try:
        now = inspect(known.name)
        if now.id == known.id:
            return now
    except SsdbenchError:
        if (kernel := find(known.id)) is None:
            raise
        return inspect(node_of(kernel))
    kernel = find(known.id)
    return inspect(node_of(kernel)) if kernel else now


def identities(*, sysfs: Sysfs = ROOT) -> dict[str, str]:
    """Return the device nodes of all block devices of this host, by identity."""
    return {id_: node_of(kernel) for id_, kernel in _identities(sysfs)}


def _identities(sysfs: Sysfs) -> list[tuple[str, str]]:
    """Return pairs (identity, kernel name) of all block devices of this host."""
    here = names_here(sysfs)
    return [
        (_identity(kernel, here.get(kernel) or names_of(kernel, sysfs), here, sysfs), kernel)
        for kernel in surroundings.shown(sysfs)
    ]


def _simulated(name: str) -> TargetInfo:
    drive = simspec.parse(name)
    block = int(drive.params.get("lba_bytes", 512))
    notes = {f"simulation note {number}": note for number, note in enumerate(drive.notes, start=1)}
    return TargetInfo(
        kind=TargetKind.SIMULATED,
        name=drive.text,
        node="",  # the run will create the state file
        id=drive.text,
        size_bytes=drive.capacity_bytes,
        full_size_bytes=drive.full_bytes,
        logical_block_bytes=block,
        physical_block_bytes=int(drive.params.get("physical_block_bytes", block)),
        discards=drive.params["ftl"] != DIRECT,
        model=drive.title,
        facts={**_cache_facts(drive.params), **notes},
        write_buffer_bytes=drive.params["wbuf_bytes"] + drive.params["cache_bytes"],
        # On drives that map pages, smaller writes must first read the other bytes of the unit.
        remap_unit_bytes=drive.params["map_unit_bytes"] if drive.params["ftl"] == PAGE else 0,
        simulated=True,
        sim_model=drive.text.removeprefix(simspec.PREFIX),
        sim_seed=drive.seed,
    )


def _cache_facts(params: Mapping[str, int]) -> dict[str, str]:
    """Return facts on a simulated drive's cache, named as for an NVMe drive."""
    if params["wbuf_volatile"] and params["wbuf_bytes"]:
        return {"volatile write cache": "present", "write cache": "on"}
    return {"volatile write cache": "absent"}


def _block_device(name: str, node: Path, device: int, sysfs: Sysfs) -> TargetInfo:
    number = blockdev.major_minor(device)
    directory = sysfs.path(f"/sys/dev/block/{number}").resolve()
    if (directory / "partition").exists():
        raise TargetRefused(
            name,
            [f"it is a partition of {node_of(directory.parent.name)}"],
            hint="a benchmark needs the whole drive: its speed depends on all of it",
        )
    kernel = directory.name
    # Read from sysfs, because this needs no permission to open the device.
    size_bytes = (sysfs.number(f"/sys/block/{kernel}/size") or 0) * SECTOR_BYTES
    block_bytes = sysfs.number(f"/sys/block/{kernel}/queue/logical_block_size") or SECTOR_BYTES
    physical = sysfs.number(f"/sys/block/{kernel}/queue/physical_block_size") or block_bytes
    preferred = sysfs.number(f"/sys/block/{kernel}/queue/minimum_io_size") or 0
    values = ((name, (sysfs.find(f"/sys/block/{kernel}/{name}") or "").strip()) for name in _READ)
    read = {name: value for name, value in values if value}
    links = sysfs.once("links", lambda: _links_here(sysfs)).get(str(node), [])
    names = names_of(kernel, sysfs)
    here = {**names_here(sysfs), kernel: names}
    said, unread = _asked(kernel, node, sysfs)
    seen = evidence(surroundings.around(kernel, sysfs), read, said, "; ".join(unread.values()))
    own_names = models(said)
    what = kind_of(kernel, read, seen, models=own_names)
    lba_format, lba_formats = nvme.lba_formats(said)
    found, zones_told = _zones(kernel, node, sysfs)
    zone_bytes, zone_length_bytes = blockdev.equal_zone_sizes(found)
    info = TargetInfo(
        kind=what,
        name=name,
        node=str(node),
        id=_identity(kernel, names, here, sysfs),
        via=surroundings.place(kernel, sysfs) if surroundings.twins(kernel, sysfs) else "",
        # Only the capacity of a zone can be written, which may be less than its size.
        size_bytes=len(found) * zone_bytes or size_bytes,
        logical_block_bytes=block_bytes,
        physical_block_bytes=physical,
        preferred_write_bytes=preferred if preferred > block_bytes else 0,
        write_sizes=nvme.write_sizes(said) or _write_sizes(kernel, block_bytes, sysfs),
        discards=bool(sysfs.number(f"/sys/block/{kernel}/queue/discard_max_bytes")),
        zone_bytes=zone_bytes,
        zone_length_bytes=zone_length_bytes,
        simulated_by=_simulator(kernel, sysfs),
        model=read.get("device/model", ""),
        serial=names.serial,
        firmware=read.get("device/firmware_rev", "") or read.get("device/rev", ""),
        major_minor=number,
        facts={
            "kernel name": kernel,
            **({"model behind the bridge": names.model} if names.bridge and names.serial else {}),
            **{f"sysfs {attribute}": value for attribute, value in read.items()},
            **surroundings.facts(kernel, sysfs),
            **zones_told,
            **{f"{NOT_USED}{name}": why for name, why in not_used(names, here).items()},
            **page_facts(said),
            **unread,
            **(evidence_facts(read, seen, own_names) if what not in _PLAIN else {}),
            **({"links": ", ".join(links)} if links else {}),
        },
        lba_format=lba_format,
        lba_formats=lba_formats,
    )
    return _with_content(info) if info.id.startswith(PLACE) else info


def _simulator(kernel: str, sysfs: Sysfs) -> str:
    """Return what simulates a block device, if it is of ssdbench; "" for other devices.

    A client of an NBD server cannot tell what is behind it. Neither can a device over the drive,
    such as a RAID.
    """
    if kernel.startswith("ublkb") and ublk.serves(kernel, running=sysfs.path(str(ublk.RUNNING))):
        return "`ssdbench sim attach`"
    if sysfs.number(f"/sys/kernel/config/ssdb_flash/{kernel}/power") == 1:
        return "the kernel module ssdb_flash"
    return ""


def _write_sizes(kernel: str, block_bytes: int, sysfs: Sysfs) -> dict[str, int]:
    """Return write sizes that the kernel recommends, in bytes, if larger than a logical block."""
    names = ("physical_block_size", "minimum_io_size", "optimal_io_size")
    sizes = {name: sysfs.number(f"/sys/block/{kernel}/queue/{name}") or 0 for name in names}
    return {name: size for name, size in sizes.items() if size > block_bytes}


def _with_content(info: TargetInfo) -> TargetInfo:
    """Add a digest of the data to a target that has only a place as identity."""
    try:
        return info.model_copy(update={"content": content.digest(info)})
    except OSError as error:
        facts = {**info.facts, "content": f"{NOT_READ}: {error.strerror or error}"}
        return info.model_copy(update={"facts": facts})


_PLAIN = (TargetKind.LOOP, TargetKind.MAPPED)
_READ = (
    "device/model", "device/vendor", "device/serial", "device/firmware_rev", "device/rev",
    "device/wwid", "device/transport", "device/cid", "device/type", "device/subsysnqn", "wwid",
    "nsid", "serial", "removable", "ro", "loop/backing_file", "loop/offset", "loop/sizelimit",
    "loop/dio", "dm/name", "dm/uuid", "md/uuid", "queue/nr_zones",
)  # fmt: skip


def _zones(kernel: str, node: Path, sysfs: Sysfs) -> tuple[list[Zone], dict[str, str]]:
    """Return a zoned drive's zones, and a line of text about them for the report.

    Both are empty for other drives.
    """
    queue = f"/sys/block/{kernel}/queue"
    if (sysfs.find(f"{queue}/zoned") or "none").strip() == "none":
        return [], {}
    limits = (sysfs.number(f"{queue}/max_{state}_zones") or 0 for state in ("open", "active"))
    try:
        found = blockdev.report_zones(node)
    except OSError as error:
        return [], {ZONES: f"{NOT_READ}: {error.strerror}"}
    except SsdbenchError as error:
        return [], {ZONES: f"{NOT_READ}: {error.message}"}
    return found, {ZONES: blockdev.describe_zones(found, *limits)}


def _identity(kernel: str, names: Names, here: Mapping[str, Names], sysfs: Sysfs) -> str:
    backing_file = sysfs.find(f"/sys/block/{kernel}/loop/backing_file")
    if backing_file is None:
        return identity(replace(names, mapped=_mapped(kernel, names, here, sysfs)), here)
    # Two loop devices are different targets if they use different parts of a file, or different
    # files that had the same name.
    part = "+".join(str(sysfs.number(f"/sys/block/{kernel}/loop/{n}") or 0) for n in _PART)
    thing = _backing(kernel, backing_file, sysfs)
    return f"loop:{backing_file}:{names.size_bytes}:{part}:{thing}"


_PART = ("offset", "sizelimit")


def _mapped(kernel: str, names: Names, here: Mapping[str, Names], sysfs: Sysfs) -> str:
    """Return a mapping's UUID, else a hash of its table; its kernel number may change.

    A hash of the table is enough, because two mappings with the same table over the same drives
    have the same data.
    """
    if names.mapped and not filler(f"mapped.{names.mapped}"):
        return names.mapped

    def called(lower: str) -> str:
        start = sysfs.find(f"/sys/class/block/{lower}/start")
        if start is None:
            return _identity(lower, names_of(lower, sysfs), here, sysfs)
        drive = sysfs.path(f"/sys/class/block/{lower}").resolve().parent.name
        size = (sysfs.find(f"/sys/class/block/{lower}/size") or "").strip()
        return f"{called(drive)}+{start.strip()}+{size}"

    made_of = surroundings.made_of(kernel, called, sysfs)
    return f"table-{sha256(made_of.encode()).hexdigest()[:32]}" if made_of else ""


def _backing(kernel: str, backing_file: str, sysfs: Sysfs) -> str:
    """Return the identity of a loop device's backing device, or of the file, with its birth time.

    Only root may ask the loop device for its file; for other users the file is found by its path.
    """
    try:
        if (backing := behind(kernel, sysfs=sysfs)) is None:
            return "detached"
        device, inode = backing.device, backing.inode[1]
    except OSError:
        try:
            status = Path(backing_file).stat()
        except OSError:
            return "unknown"
        device = blockdev.major_minor(status.st_rdev) if stat.S_ISBLK(status.st_mode) else ""
        inode = status.st_ino
    if device:
        return device
    # The birth time is needed, because another file may later get the same inode number.
    born_ns = regular.born_ns(Path(backing_file), inode)
    return str(inode) if born_ns is None else f"{inode}.{born_ns}"


def page_facts(found: pages.Pages) -> dict[str, str]:
    """Return the facts in a drive's pages, whatever their protocol (SCSI, ATA or NVMe)."""
    return {**scsi.facts(found), **ata.facts(found), **nvme.facts(found)}


def _asked(kernel: str, node: Path, sysfs: Sysfs) -> tuple[pages.Pages, dict[str, str]]:
    """Return a drive's pages, and a fact that says why if they cannot be read."""
    try:
        return pages.read(kernel, node, sysfs=sysfs), {}
    except SsdbenchError as error:
        return {}, {"pages": f"not read: {error.message}"}


def _links_here(sysfs: Sysfs) -> dict[str, list[str]]:
    """Return this host's links in /dev/disk/by-id, by the device nodes to which they point."""
    found: dict[str, list[str]] = {}
    for link in sysfs.names(BY_ID):
        node = (sysfs.path(BY_ID) / link).resolve()
        found.setdefault(str(node), []).append(f"{BY_ID}/{link}")
    return found


def _regular_file(name: str, path: Path, status: os.stat_result) -> TargetInfo:
    if status.st_size == 0:
        raise UsageError(
            f"{name} is empty, so it has no size to measure",
            hint=f"give it one, for example with `truncate -s 8G {name}`",
        )
    size_bytes, block = regular.whole_blocks(status)
    return TargetInfo(
        kind=TargetKind.FILE,
        name=name,
        node=str(path),
        id=f"file:{path}:{status.st_size}",
        size_bytes=size_bytes,
        logical_block_bytes=block,
        physical_block_bytes=block,
        facts={"device of the file system": blockdev.major_minor(status.st_dev)},
    )


def _no_line(name: str) -> UsageError:
    """Make the error for a name that cannot be written into a line of fio's job file."""
    return UsageError(
        f"the name '{foreign.plain(name)}' holds a new line or an unprintable character",
        hint="rename it, and the directories that it is in",
    )


def _absent(name: str, error: OSError) -> UsageError | HostLacks:
    if error.errno in (errno.EACCES, errno.EPERM):
        return HostLacks(f"{name} cannot be examined: {error.strerror}", hint="run as root")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
        if name.startswith("/dev/"):
            return UsageError(
                f"there is no device {name}", hint="`ssdbench drives` lists all targets"
            )
        with suppress(OSError):  # the path with its directory is longer
            device = Path("/dev", name)
            if device.is_block_device():
                return UsageError(f"there is no file {name}", hint=f"the device is {device}")
        return UsageError(
            f"there is no file {name}",
            hint=f"make one with `truncate -s 8G {name}`, or name a device or `sim:MODEL`",
        )
    return UsageError(f"{name} cannot be a target: {error.strerror}")


def _unfit(name: str, mode: int) -> UsageError | TargetRefused:
    if stat.S_ISDIR(mode):
        return UsageError(
            f"{name} is a directory", hint="name a block device, a regular file or `sim:MODEL`"
        )
    if stat.S_ISCHR(mode):
        return TargetRefused(
            name,
            ["it is a character device, not a block device"],
            hint="an NVMe drive is named with its namespace, such as /dev/nvme0n1",
        )
    return UsageError(f"{name} is neither a block device nor a regular file")
