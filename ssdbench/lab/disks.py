"""Parse the disks of a guest, such as `nvme=sim:MODEL`, `ahci=null:8GiB`, `virtio=FILE`."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.lab.machine import Bus, Disk
from ssdbench.units import format_size, parse_size

DEFAULT = "nvme=sim:x25m-g2-160,capacity=2GiB"
LEAST_ZONE_BYTES = 1 << 20  # QEMU needs a zone to be at least as large as a transfer
MAX_QUEUES = 0xFFFE  # queues of an NVMe controller, without the admin queue
# A file name may contain commas and =, but the value of an option may contain neither , nor = nor /
# nor :
_FORM = re.compile(r"(?P<front>[a-z]+(?:,[a-z]+(?:=[^,=/:]*)?)*)=(?P<backend>.+)", re.DOTALL)
SERIAL_PREFIX = "SSDBENCH-LAB-"


@dataclass(frozen=True, slots=True)
class DiskRequest:
    """A requested disk; a simulated drive (`sim`) is served over NBD before the guest boots."""

    disk: Disk
    sim: str | None = None  # "sim:MODEL,…"; None: not simulated


def parse(text: str, index: int) -> DiskRequest:
    """Parse `BUS[,option…]=BACKEND`. Raises UsageError.

    The options are hotplug, queues=N, fail=SECTOR, zoned=SIZE and open=N.
    """
    found = _FORM.fullmatch(text)
    bus_name, *options = found["front"].split(",") if found else [""]
    backend = found["backend"] if found else ""
    if not found or bus_name not in set(Bus):
        raise UsageError(
            f"disk {text!r} is not of the form BUS=BACKEND",
            hint=f"BUS is one of {', '.join(Bus)}; BACKEND is sim:MODEL, null:SIZE or a file.",
        )
    given = dict(option.partition("=")[::2] for option in options)
    unknown = set(given) - {"hotplug", "queues", "fail", "zoned", "open"}
    if unknown:
        raise UsageError(f"disk {text!r}: unknown option {', '.join(sorted(unknown))!r}")
    try:
        null_bytes = parse_size(backend[5:]) if backend.startswith("null:") else None
        queues = int(given["queues"]) if "queues" in given else None
        fail = int(given["fail"]) if "fail" in given else None
        zone_bytes = parse_size(given["zoned"]) if "zoned" in given else None
        open_zones = int(given["open"]) if "open" in given else None
    except ValueError as error:
        raise UsageError(f"disk {text!r}: {error}") from error
    if null_bytes == 0:
        raise UsageError(f"disk {text!r}: a disk must be larger than 0 bytes")
    image = None
    if null_bytes is None and not backend.startswith("sim:"):
        image = Path(backend).absolute()
        if not image.is_file():
            raise UsageError(f"disk {text!r}: {image} is not a file")
    misplaced = _misplaced(bus_name, given, queues, fail, has_file=image is not None) or _unzoned(
        bus_name, given, zone_bytes, open_zones
    )
    if misplaced:
        raise UsageError(f"disk {text!r}: {misplaced}")
    disk = Disk(
        bus=Bus(bus_name),
        serial=f"{SERIAL_PREFIX}{index}",
        image=image,
        null_bytes=null_bytes,
        fail_read_sector=fail,
        io_queues=queues,
        zone_bytes=zone_bytes,
        open_zones=open_zones,
        hotplug="hotplug" in given,
        # A file without allocated blocks is a new disk; other files may hold data of the user.
        ours=image is None or image.stat().st_blocks == 0,
    )
    return DiskRequest(disk, backend if backend.startswith("sim:") else None)


def _misplaced(
    bus: str, given: Mapping[str, str], queues: int | None, fail: int | None, *, has_file: bool
) -> str:
    """Return why an option does not fit the bus or the backend; empty if every option fits."""
    if "hotplug" in given and bus not in (Bus.NVME, Bus.VIRTIO):
        return f"hotplug works with nvme and virtio, not with {bus}"
    if given.get("hotplug"):
        return "hotplug takes no value"
    if queues is not None and bus != Bus.NVME:
        return f"queues works with nvme, not with {bus}"
    if queues is not None and not 1 <= queues <= MAX_QUEUES:
        return f"queues must be a number from 1 to {MAX_QUEUES}"
    if fail is not None and not has_file:
        return "fail=SECTOR works only with a file as the backend"
    if fail is not None and fail < 0:
        return "fail must be the number of a sector"
    return ""


def _unzoned(
    bus: str, given: Mapping[str, str], zone_bytes: int | None, open_zones: int | None
) -> str:
    """Return why the requested zones are not possible; an empty text if nothing is wrong."""
    if open_zones is not None and zone_bytes is None:
        return "open=N needs zoned=SIZE"
    if open_zones is not None and open_zones < 1:
        return "open must be the number of zones that may be open, at least 1"
    if zone_bytes is None:
        return ""
    if bus != Bus.NVME:
        return f"zoned works with nvme, not with {bus}"
    if "hotplug" in given:
        return "zoned and hotplug cannot be used together"
    if zone_bytes < LEAST_ZONE_BYTES or zone_bytes & (zone_bytes - 1):
        least = format_size(LEAST_ZONE_BYTES)
        return f"zoned must be the size of a zone: a power of two, at least {least}"
    return ""


def consent(disks: Sequence[Disk]) -> str:
    """Return JSON for the guest that lists the disks it may overwrite without --destroy."""
    return json.dumps([{"serial": disk.serial, "bus": disk.bus} for disk in disks if disk.ours])


def parse_all(texts: Sequence[str], *, in_memory: bool = False) -> list[DiskRequest]:
    """Parse all --disk options; the default is one simulated NVMe drive.

    A guest with all programs in memory (`in_memory`) has no default disk. A simulated drive is
    served by the host, which decides when its requests complete. So two runs with such a drive
    would not give exactly the same numbers.
    """
    default = [] if in_memory else [DEFAULT]
    return [parse(text, index) for index, text in enumerate(texts or default)]
