"""Read a drive's names, place, link, queues and paths from the kernel."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ssdbench.host import extents
from ssdbench.host.sysfs import Sysfs, queues_of
from ssdbench.target import ata, nvme, pages
from ssdbench.target.evidence import BRIDGED, Function, Place
from ssdbench.target.identity import Names, same_drive

LOCAL_TRANSPORTS = frozenset({"pcie", "apple-nvme"})
NETWORK_NAMES = ("nbd", "rbd", "drbd", "dasd", "etherd")
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")

_LINK = {
    "link speed": "current_link_speed",
    "link speed possible": "max_link_speed",
    "link width": "current_link_width",
    "link width possible": "max_link_width",
    "NUMA node": "numa_node",
    "PCI power": "power/runtime_status",
    "PCI power control": "power/control",
    "ASPM L1": "link/l1_aspm",
    "ASPM L1.1": "link/l1_1_aspm",
    "ASPM L1.2": "link/l1_2_aspm",
    "interrupts": "msi_irqs",
}
_QUEUE = (
    "logical_block_size", "physical_block_size", "hw_sector_size", "minimum_io_size",
    "optimal_io_size", "max_sectors_kb", "max_hw_sectors_kb", "nr_requests", "scheduler",
    "rotational", "zoned", "discard_granularity", "discard_max_bytes", "write_zeroes_max_bytes",
    "fua", "nomerges", "rq_affinity", "io_poll", "wbt_lat_usec", "read_ahead_kb", "iostats",
)  # fmt: skip


def names_of(kernel: str, sysfs: Sysfs) -> Names:
    """Return all names of a whole disk that the kernel knows.

    Names from a USB bridge are not used, because all bridges of a series may report the same serial
    number. Instead, the drive behind the bridge is asked, for which the disk must be opened.
    """
    return sysfs.once(("names", kernel), lambda: _names_of(kernel, sysfs))


def _names_of(kernel: str, sysfs: Sysfs) -> Names:
    base = f"/sys/block/{kernel}"

    def said(attribute: str) -> str:
        return (sysfs.find(f"{base}/{attribute}") or "").replace("\0", "").strip()

    wwid = said("wwid") or said("device/wwid")
    subsystem, nsid = said("device/subsysnqn"), said("nsid")
    bridged = pages.bridge(kernel, sysfs)
    serial = (sysfs.find(f"{base}/device/vpd_pg80") or "")[4:].strip()  # after a header of 4 bytes
    if bridged:
        return _behind_bridge(kernel, sysfs, bridged, serial, wwid)
    # The kernel reads a SATA drive's serial number from IDENTIFY. The serial number of another unit
    # is trusted only if the unit is on PCI without a bridge.
    trusted = said("device/vendor") == "ATA" or place(kernel, sysfs).startswith("pci-")
    return Names(
        nguid=_hex(said("nguid")),
        eui64=_hex(said("eui")),
        uuid=wwid.removeprefix("uuid.") if wwid.startswith("uuid.") else "",
        wwn=wwid if wwid.startswith(("naa.", "eui.")) else "",
        mapped=said("dm/uuid") or said("md/uuid"),
        model=said("device/model"),
        serial=said("device/serial") or said("serial") or (serial if trusted else ""),
        told_serial="" if trusted else serial,
        path=place(kernel, sysfs),
        unit=f"{subsystem}/{nsid}" if subsystem and nsid else "",
        controller=said("device/cntlid"),
        size_bytes=(sysfs.number(f"{base}/size") or 0) * 512,
    )


def _behind_bridge(kernel: str, sysfs: Sysfs, bridge: str, serial: str, wwid: str) -> Names:
    """Return the names of the drive behind a bridge, and separately the bridge's own names."""
    found = pages.of_bridged(kernel, sysfs)
    names = Names(
        model=(sysfs.find(f"/sys/block/{kernel}/device/model") or "").strip(),
        path=place(kernel, sysfs),
        size_bytes=(sysfs.number(f"/sys/block/{kernel}/size") or 0) * 512,
        told_serial=serial,
        told_name=wwid if wwid.startswith(("naa.", "eui.")) else "",
        bridge=bridge,
    )
    if page := found.get(f"{BRIDGED}{ata.IDENTIFY}"):
        drive = ata.identify(page)
        wwn = f"naa.{drive.wwn}" if drive.wwn.strip("0") else ""
        return replace(names, model=drive.model, serial=drive.serial, wwn=wwn)
    if page := found.get(f"{BRIDGED}{nvme.CONTROLLER}"):
        controller = nvme.controller(page)
        unit = nvme.namespace(found.get(f"{BRIDGED}{nvme.NAMESPACE}", b""))
        return replace(
            names,
            model=controller.model,
            serial=controller.serial,
            nguid=unit.nguid,
            eui64=unit.eui64,
        )
    return names


def around(kernel: str, sysfs: Sysfs) -> Place:
    """Return where a disk is attached, and its driver."""
    base = f"/sys/block/{kernel}"
    parts = sysfs.path(base).resolve().parts
    transports = [sysfs.find(f"{c}/transport") or "" for c in controllers(kernel, sysfs)]
    host = next((part for part in parts if re.fullmatch(r"host[0-9]+", part)), "")
    unit = next(
        (m for p in parts if (m := re.fullmatch(r"[0-9]+:([0-9]+):[0-9]+:[0-9]+", p))), None
    )
    return Place(
        size_bytes=(sysfs.number(f"{base}/size") or 0) * 512,
        network=fabric(kernel, sysfs),
        transport=transports[0].strip() if transports else "",
        functions=tuple(_function(slot, sysfs) for slot in _slots(kernel, sysfs)),
        driver=(sysfs.find(f"/sys/class/scsi_host/{host}/proc_name") or "").strip() if host else "",
        channel=int(unit[1]) if unit else None,
        raid_level=(sysfs.find(f"{base}/device/raid_level") or "").strip(),
        bridge=pages.bridge(kernel, sysfs),
        software=parts[-3:-1] == ("virtual", "block"),
    )


def _function(slot: str, sysfs: Sysfs) -> Function:
    def number(attribute: str) -> int:
        value = (sysfs.find(f"{slot}/{attribute}") or "").strip()
        return int(value, 16) if re.fullmatch(r"0x[0-9a-f]+", value) else 0

    another = sysfs.exists(f"{slot}/physfn")
    return Function(number("vendor"), number("device"), number("subsystem_vendor"), another)


def disks(sysfs: Sysfs) -> list[str]:
    """Return the kernel names of this host's whole disks, without loop, RAM, dm and md devices."""
    there = (name for name in sysfs.names("/sys/block") if not name.startswith(_NOT_DISKS))
    return [name for name in there if not _hidden(name, sysfs)]


def shown(sysfs: Sysfs) -> list[str]:
    """Return the kernel names of all block devices, except the single paths of multipath heads."""
    return [name for name in sysfs.names("/sys/block") if not _hidden(name, sysfs)]


def names_here(sysfs: Sysfs) -> dict[str, Names]:
    """Return the names of all disks of this host, by kernel name."""
    return sysfs.once("names", lambda: {k: names_of(k, sysfs) for k in disks(sysfs)})


def place(kernel: str, sysfs: Sysfs) -> str:
    """Return a text for a disk's place that does not depend on the order of discovery.

    For an NVMe namespace, the text has the namespace's number, not the number in its kernel name.
    The reason: since Linux 6.12, namespaces are scanned in parallel (nvme_scan_ns_async), and their
    kernel names depend on the order in which they are found.
    """
    link = sysfs.path(f"/sys/block/{kernel}")
    parts = link.resolve().parts
    bus = [part for part in parts if _PCI.fullmatch(part)]
    tail = []
    for part in parts:
        if target := re.fullmatch(r"[0-9]+:([0-9]+):([0-9]+):([0-9]+)", part):
            tail.append(f"scsi-{target[1]}:{target[2]}:{target[3]}")
        elif re.fullmatch(r"ata[0-9]+", part):
            port = sysfs.find(f"/sys/class/ata_port/{part}/port_no")
            tail.append(f"ata-{(port or '?').strip()}")
        elif re.fullmatch(r"usb[0-9]+|[0-9]+-[0-9.]+", part):
            tail = [f"usb-{part}"]
    if (nsid := sysfs.number(f"/sys/block/{kernel}/nsid")) is not None:
        tail.append(f"nvme-{nsid}")
    return "-".join(["pci", bus[-1], *tail]) if bus else "-".join(["node", kernel, *tail])


def made_of(kernel: str, called: Callable[[str], str], sysfs: Sysfs) -> str:
    """Describe what a mapping (dm, md) consists of: its table, or its members in order.

    `called` returns a lasting name for each lower device. The text is empty for any other device,
    and if the table cannot be read.
    """
    base = f"/sys/block/{kernel}"
    names = {(sysfs.find(f"/sys/class/block/{n}/dev") or "").strip(): n
             for n in sysfs.names(f"{base}/slaves")}  # fmt: skip
    if kernel.startswith("dm-"):
        try:
            table = extents.tables((sysfs.find(f"{base}/dev") or "").strip(), sysfs=sysfs)
        except (OSError, ValueError):
            return ""
        lines = ((str(t.begin), str(t.length), t.kind, *t.words) for t in table)
        return "\n".join(
            " ".join(called(names[word]) if word in names else word for word in line)
            for line in lines
        )
    rows = [
        f"{(sysfs.find(f'{base}/md/dev-{name}/slot') or '').strip()} {called(name)}"
        for name in names.values()
    ]
    how = [
        (sysfs.find(f"{base}/md/{of}") or "").strip() for of in ("level", "layout", "chunk_size")
    ]
    return "\n".join([" ".join(how), *sorted(rows)]) if rows else ""


def facts(kernel: str, sysfs: Sysfs) -> dict[str, str]:
    """Return facts on a disk's link, power, NUMA node and queues, for the report."""
    base = f"/sys/block/{kernel}"
    told = {f"sysfs queue/{name}": sysfs.find(f"{base}/queue/{name}") for name in _QUEUE}
    queues = sysfs.names(f"/sys/block/{queues_of(kernel, sysfs)[0]}/mq")
    told["hardware queues"] = str(len(queues)) if queues else ""
    if slots := _slots(kernel, sysfs):  # facts of the last path
        for name, attribute in _LINK.items():
            path = f"{slots[-1]}/{attribute}"
            listed = sysfs.names(path) if attribute == "msi_irqs" else []
            told[name] = str(len(listed)) if listed else sysfs.find(path)
    told["place"] = place(kernel, sysfs)
    if (paths := queues_of(kernel, sysfs)) != [kernel]:
        told["paths"] = ", ".join(paths)
        told["path policy"] = sysfs.find(f"{base}/device/iopolicy") or ""
    return {name: value.strip() for name, value in told.items() if value and value.strip()}


def fabric(kernel: str, sysfs: Sysfs) -> str:
    """Return the network between the host and a disk; "" for a local disk."""
    if kernel.startswith(NETWORK_NAMES):
        return kernel.partition("!")[0].rstrip("0123456789")
    for controller in controllers(kernel, sysfs):
        transport = (sysfs.find(f"{controller}/transport") or "").strip()
        if transport and transport not in LOCAL_TRANSPORTS:
            return f"NVMe over {transport}"
    parts = sysfs.path(f"/sys/block/{kernel}").resolve().parts
    if any(re.fullmatch(r"session[0-9]+", part) for part in parts):
        return "iSCSI"
    if any(part.startswith("rport-") for part in parts):
        return "Fibre Channel"
    return ""


def other_paths(kernel: str, sysfs: Sysfs) -> list[str]:
    """Return other live paths to a drive: disks with the same names, or its live controllers."""
    others = twins(kernel, sysfs)
    states = ((c, sysfs.find(f"{c}/state") or "") for c in _attached(kernel, sysfs))
    live = [Path(c).name for c, state in states if state.strip() == "live"]
    return others + (live if len(live) > 1 else [])


def twins(kernel: str, sysfs: Sysfs) -> list[str]:
    """Return other disks that are, by their names, the same drive (paths without multipath)."""
    mine = names_of(kernel, sysfs)
    others = names_here(sysfs).items()
    return [n for n, other in others if n != kernel and same_drive(mine, other)]


def _attached(kernel: str, sysfs: Sysfs) -> list[str]:
    """Return only the controllers that lead to a namespace, not all controllers of its subsystem.

    For each path of a multipath head nvmeSnN, the kernel has a hidden disk nvmeScCnN.
    """
    others = controllers(kernel, sysfs)
    if len(others) < 2:
        return others
    subsystem, _, head = kernel.rpartition("n")
    there = sysfs.names("/sys/block")
    numbered = ((c, Path(c).name.removeprefix("nvme")) for c in others)
    return [c for c, number in numbered if f"{subsystem}c{number}n{head}" in there]


def controllers(kernel: str, sysfs: Sysfs) -> list[str]:
    """Return a disk's NVMe controller, or all controllers of a multipath head's subsystem."""
    if not kernel.startswith("nvme"):
        return []
    device = f"/sys/block/{kernel}/device"
    below = [n for n in sysfs.names(device) if re.fullmatch(r"nvme[0-9]+", n)]
    return [f"{device}/{name}" for name in below] if below else [device]


def _slots(kernel: str, sysfs: Sysfs) -> list[str]:
    """Return the PCI functions to which a disk is attached, one for each path."""
    paths = controllers(kernel, sysfs) or [f"/sys/block/{kernel}"]
    found = []
    for path in paths:
        real = sysfs.path(path).resolve()
        if slot := next((p for p in (real, *real.parents) if _PCI.fullmatch(p.name)), None):
            found.append("/" + str(slot.relative_to(sysfs.root.resolve())))
    return found


def _hidden(kernel: str, sysfs: Sysfs) -> bool:
    return (sysfs.find(f"/sys/block/{kernel}/hidden") or "0").strip() == "1"


def _hex(value: str) -> str:
    digits = re.sub(r"[^0-9a-f]", "", value.lower())
    return digits if digits.strip("0") else ""


REFUSES_SINCE = (6, 8)  # Linux commit ed5cc702d311: CONFIG_BLK_DEV_WRITE_MOUNTED
_PARAMETER = "bdev_allow_write_mounted"


def mounted_writes(sysfs: Sysfs) -> str:
    """Say in a clause whether the kernel itself refuses writes to mounted devices.

    The result is empty for a kernel before 6.8, which cannot refuse such writes. The option on the
    kernel's command line overrides CONFIG_BLK_DEV_WRITE_MOUNTED
    (Documentation/admin-guide/kernel-parameters.txt).
    """
    release = (sysfs.find("/proc/sys/kernel/osrelease") or "").strip()
    version = re.match(r"(\d+)\.(\d+)", release)
    if version is None or (int(version[1]), int(version[2])) < REFUSES_SINCE:
        return ""
    given = re.findall(rf"\b{_PARAMETER}=(\S+)", sysfs.find("/proc/cmdline") or "")
    config = sysfs.find(f"/boot/config-{release}") or ""
    lacks = "# CONFIG_BLK_DEV_WRITE_MOUNTED is not set" in config.splitlines()
    if given[-1].lower() in ("0", "n", "no", "off", "false") if given else lacks:
        return "this kernel refuses writes to mounted devices, too"
    return f"started with {_PARAMETER}=0, this kernel itself refuses writes to mounted devices"
