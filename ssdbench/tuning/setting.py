"""Describe one change to the host or drive: which setting, which value, and why (pure)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ssdbench.errors import HostLacks


class Backend(StrEnum):
    """Name the kind of a setting, which selects the code that reads and writes the setting."""

    SYSFS = "sysfs"  # a kernel attribute: lasts until reboot
    BLOCK = "block"  # an attribute below the drive's /sys/block directory: found by identity
    IRQ = "irq"  # /proc/irq/N/smp_affinity_list: lasts until reboot
    NVME_FEATURE = "nvme-feature"  # may outlive a reboot
    LATENCY_MONITOR = "latency-monitor"  # of an OCP drive (feature C5h): lasts until its next reset
    WRITE_CACHE = "write-cache"  # ATA or SCSI caching page: may outlive a reboot
    SERVICE = "service"  # a system service that is stopped during the run
    MODULE = "module"  # a kernel module that is loaded for the run
    MOUNT = "mount"  # a file system that is mounted for the run, by its mount point
    PARTITION = "partition"  # known to the kernel during the run; nothing is written to the drive
    TRACER = "tracer"  # a tracefs instance
    DIRECTORY = "directory"  # made for the run: a mount point, or a place for a server's socket
    ATA_PASSWORD = "ata-password"  # set for a secure erase; outlives a reboot and locks the drive

    @property
    def outlives_reboot(self) -> bool:
        """Return whether the change is still in force after a reboot of the host."""
        return self in (
            Backend.NVME_FEATURE,
            Backend.LATENCY_MONITOR,
            Backend.WRITE_CACHE,
            Backend.ATA_PASSWORD,
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """Hold one setting of the host or drive: its name, the wanted value, and the reason.

    `drive` is the identity of the drive that has the setting (TargetInfo.id), because the drive may
    be in another slot at the restore; it is empty for a setting of the host.
    """

    backend: Backend
    attribute: str  # "/sys/…", "queue/scheduler", interrupt number, feature id, service, …
    value: str
    reason: str
    drive: str = ""

    def holds(self, now: str) -> bool:
        """Return whether the value `now` is the wanted value; options of a mount are ignored."""
        if self.backend is Backend.MOUNT:
            return now.split(" ")[:2] == self.value.split(" ")[:2]
        return now == self.value

    def __str__(self) -> str:
        return f"{self.drive + ' ' if self.drive else ''}{self.attribute} = {self.value}"


OF_SCHEDULER = "queue/iosched/"  # the directory of the parameters of the chosen scheduler

# When an attribute on the left is written, the kernel resets the attributes on the right; of a
# directory, all writable attributes. Measured: a change of the scheduler changes nr_requests from
# 64 to 256, and the new scheduler starts with the defaults of its own parameters; on Linux 6.18
# nr_requests sets async_depth of mq-deadline, and add_random and iostats set read_ahead_kb to its
# default. So the attributes on the right are recorded before such a change and restored after it.
RESETS: Mapping[str, tuple[str, ...]] = {
    "queue/scheduler": (
        "queue/nr_requests",
        "queue/wbt_lat_usec",
        "queue/async_depth",
        OF_SCHEDULER,
    ),
    "queue/nr_requests": ("queue/async_depth", f"{OF_SCHEDULER}async_depth"),
    "queue/add_random": ("queue/read_ahead_kb",),
    "queue/iostats": ("queue/read_ahead_kb",),
    "queue/iostats_passthrough": ("queue/read_ahead_kb",),
}


def restore_order(attribute: str) -> int:
    """Return a sort rank: a setting that resets other settings is restored before them."""
    order = [name for name in RESETS if attribute.endswith(name)]
    return list(RESETS).index(order[0]) if order else len(RESETS)


# The settings must be written in this order, because some reset later ones (see RESETS).
QUEUE_SETTINGS: Mapping[str, tuple[str, str]] = {
    "scheduler": ("queue/scheduler", "the scheduler decides order and merging of requests"),
    "nr_requests": ("queue/nr_requests", "a scheduler may hold at most this many requests"),
    "nomerges": ("queue/nomerges", "merged requests do not have the block size that was asked for"),
    "rq_affinity": ("queue/rq_affinity", "where completions run changes latency and CPU cost"),
    "wbt_lat_usec": ("queue/wbt_lat_usec", "writeback throttling holds back buffered writes"),
    "add_random": ("queue/add_random", "feeding the entropy pool costs CPU per request"),
    "io_poll": ("queue/io_poll", "polled completions cost CPU time and lower the latency"),
    "read_ahead_kb": ("queue/read_ahead_kb", "read-ahead reads more than was asked for"),
}

KEEP = "keep"


def queue_settings(wishes: Mapping[str, str | int], drive: str) -> list[Setting]:
    """Return the settings of one drive's queue that the profile asks for; `keep` asks for none."""
    return [
        Setting(Backend.BLOCK, attribute, str(wishes[name]), reason, drive)
        for name, (attribute, reason) in QUEUE_SETTINGS.items()
        if str(wishes.get(name, KEEP)) != KEEP
    ]


class DriveAbsent(HostLacks):
    """Report that no drive here, or more than one, has the identity of a setting's drive."""

    def __init__(self, drive: str) -> None:
        super().__init__(
            f"the drive {drive} is not on this host, or several drives have this identity",
            hint="Plug it in again.",
        )
        self.drive = drive


class NoSetting(HostLacks):
    """Report that this host does not have an attribute."""


def located(locate: Callable[[str], str | None], drive: str) -> str:
    """Return a drive's present kernel name, such as `sda`. Raises DriveAbsent if it is not here."""
    name = locate(drive)
    if name is None:
        raise DriveAbsent(drive)
    return name
