"""Describe a change to the host or drive as a value: what, to which value, and why (pure).

Also the settings of a block queue, and the errors of a setting that is not found.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ssdbench.errors import HostLacks


class Backend(StrEnum):
    """What reads and writes a setting, and so how long the change lasts."""

    SYSFS = "sysfs"  # a kernel attribute: lasts until reboot
    BLOCK = "block"  # an attribute below the drive's /sys/block directory: found by identity
    IRQ = "irq"  # /proc/irq/N/smp_affinity_list: lasts until reboot
    NVME_FEATURE = "nvme-feature"  # may outlive a reboot
    WRITE_CACHE = "write-cache"  # ATA or SCSI caching page: may outlive a reboot
    SERVICE = "service"  # a system service that is stopped meanwhile
    MODULE = "module"  # a kernel module that is loaded meanwhile
    MOUNT = "mount"  # a file system that is mounted meanwhile, by its mount point
    PARTITION = "partition"  # one that the kernel is told of meanwhile; nothing is written
    TRACER = "tracer"  # a tracefs instance
    DIRECTORY = "directory"  # one that is made meanwhile, for a mount or a server's socket
    ATA_PASSWORD = "ata-password"  # set for a secure erase; outlives a reboot and locks the drive

    @property
    def outlives_reboot(self) -> bool:
        """Whether the change is still there after the host was restarted."""
        return self in (Backend.NVME_FEATURE, Backend.WRITE_CACHE, Backend.ATA_PASSWORD)


@dataclass(frozen=True, slots=True)
class Setting:
    """One attribute, the value wanted, and why a benchmark wants it.

    `drive` is the identity of the drive that it belongs to (TargetInfo.id), empty for the host:
    a drive may have moved to another slot before its settings are put back.
    """

    backend: Backend
    attribute: str  # "/sys/…", "queue/scheduler", interrupt number, feature id, service, …
    value: str
    reason: str
    drive: str = ""

    def holds(self, now: str) -> bool:
        """Whether what is read is what is wanted; the options of a mount are not read back."""
        if self.backend is Backend.MOUNT:
            return now.split(" ")[:2] == self.value.split(" ")[:2]
        return now == self.value

    def __str__(self) -> str:
        return f"{self.drive + ' ' if self.drive else ''}{self.attribute} = {self.value}"


# Writing an attribute resets these behind our back (measured: a scheduler takes nr_requests from 64
# to 256; on Linux 6.18 a write of add_random or iostats makes the kernel apply all limits of the
# queue again, which takes read_ahead_kb from 4 to its default). They are recorded before such a
# change, and restored after it.
RESETS: Mapping[str, tuple[str, ...]] = {
    "queue/scheduler": ("queue/nr_requests", "queue/wbt_lat_usec", "queue/async_depth"),
    "queue/add_random": ("queue/read_ahead_kb",),
    "queue/iostats": ("queue/read_ahead_kb",),
    "queue/iostats_passthrough": ("queue/read_ahead_kb",),
}


def restore_order(attribute: str) -> int:
    """What must be restored before what: whatever resets others before those."""
    order = [name for name in RESETS if attribute.endswith(name)]
    return list(RESETS).index(order[0]) if order else len(RESETS)


# In the order in which they must be written: some reset others (see setting.RESETS).
QUEUE_SETTINGS: Mapping[str, tuple[str, str]] = {
    "scheduler": ("queue/scheduler", "the scheduler decides order and merging of requests"),
    "nr_requests": ("queue/nr_requests", "a scheduler sees at most this many requests"),
    "nomerges": ("queue/nomerges", "merged requests are not the block size that was asked for"),
    "rq_affinity": ("queue/rq_affinity", "where completions run changes latency and CPU cost"),
    "wbt_lat_usec": ("queue/wbt_lat_usec", "writeback throttling holds back buffered writes"),
    "add_random": ("queue/add_random", "feeding the entropy pool costs CPU per request"),
    "io_poll": ("queue/io_poll", "polled completions trade CPU for latency"),
    "read_ahead_kb": ("queue/read_ahead_kb", "read-ahead reads more than was asked for"),
}

KEEP = "keep"


def queue_settings(wishes: Mapping[str, str | int], drive: str) -> list[Setting]:
    """Settings of one drive's queue; `keep` and what is not wished for stay as they are."""
    return [
        Setting(Backend.BLOCK, attribute, str(wishes[name]), reason, drive)
        for name, (attribute, reason) in QUEUE_SETTINGS.items()
        if str(wishes.get(name, KEEP)) != KEEP
    ]


class DriveAbsent(HostLacks):
    """The drive that a setting belongs to is not here, or two claim to be it."""

    def __init__(self, drive: str) -> None:
        super().__init__(
            f"the drive {drive} is not on this host, or several drives have this identity",
            hint="Plug it in again.",
        )
        self.drive = drive


class NoSetting(HostLacks):
    """There is no such attribute here."""


def located(locate: Callable[[str], str | None], drive: str) -> str:
    """The kernel name of a drive, wherever it is now. Raises DriveAbsent when it is not here."""
    name = locate(drive)
    if name is None:
        raise DriveAbsent(drive)
    return name
