"""Disks of a guest from what a user writes: `nvme=sim:MODEL`, `ahci=null:8GiB`, `virtio=FILE`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.lab.machine import Bus, Disk
from ssdbench.units import parse_size

DEFAULT = "nvme=sim:x25m-g2-160,capacity=2GiB"
SERIAL_PREFIX = "SSDBENCH-LAB-"  # consent inside the guest is implied for these alone


@dataclass(frozen=True, slots=True)
class DiskRequest:
    """One disk as asked for; `sim` is served through the NBD server before the guest boots."""

    disk: Disk
    sim: str | None = None  # "sim:MODEL,…"


def parse(text: str, index: int) -> DiskRequest:
    """One `BUS[,option…]=BACKEND`. Options: hotplug, queues=N, fail=SECTOR.

    Raises UsageError with a sentence.
    """
    front, found, backend = text.partition("=sim:")
    backend = f"sim:{backend}" if found else ""
    if not found:
        front, found, backend = text.rpartition("=")
    bus_name, *options = front.split(",")
    if not found or bus_name not in set(Bus):
        raise UsageError(
            f"disk {text!r} is not of the form BUS=BACKEND",
            hint=f"BUS is one of {', '.join(Bus)}; BACKEND is sim:MODEL, null:SIZE or a file.",
        )
    given = dict(option.partition("=")[::2] for option in options)
    unknown = set(given) - {"hotplug", "queues", "fail"}
    if unknown:
        raise UsageError(f"disk {text!r}: unknown option {', '.join(sorted(unknown))!r}")
    try:
        null_bytes = parse_size(backend[5:]) if backend.startswith("null:") else None
        queues = int(given["queues"]) if "queues" in given else None
        fail = int(given["fail"]) if "fail" in given else None
    except ValueError as error:
        raise UsageError(f"disk {text!r}: {error}") from error
    image = None
    if null_bytes is None and not backend.startswith("sim:"):
        image = Path(backend).absolute()
        if not image.is_file():
            raise UsageError(f"disk {text!r}: {image} is not a file")
    disk = Disk(
        bus=Bus(bus_name),
        serial=f"{SERIAL_PREFIX}{index}",
        image=image,
        null_bytes=null_bytes,
        fail_read_sector=fail,
        io_queues=queues,
        hotplug="hotplug" in given,
    )
    return DiskRequest(disk, backend if backend.startswith("sim:") else None)


def parse_all(texts: Sequence[str]) -> list[DiskRequest]:
    """All disks; without any, one simulated NVMe drive."""
    return [parse(text, index) for index, text in enumerate(texts or [DEFAULT])]
