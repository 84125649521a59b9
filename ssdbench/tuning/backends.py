"""Read and write settings of the kernel, of services, of modules and of block devices."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ssdbench.errors import CommandFailed, DeviceError, HostLacks
from ssdbench.host import command, nvme, scsi
from ssdbench.host.counters import counted_disks
from ssdbench.host.sysfs import Sysfs, chosen, node_of, queues_of
from ssdbench.tuning.confined import require_ours
from ssdbench.tuning.mounting import DirectoryBackend, MountBackend, PartitionBackend
from ssdbench.tuning.setting import Backend, NoSetting, located

THERE, ABSENT = "there", "absent"


Locate = Callable[[str], str | None]  # the name below /sys/block of the drive with an identity


class ServiceBackend:
    """Tell whether a systemd service runs ("active" or "inactive"), and start or stop it."""

    def read(self, attribute: str, drive: str) -> str:
        """Return "active" when the service runs, else "inactive"."""
        if command.which("systemctl") is None:
            raise HostLacks(
                f"cannot tell whether {attribute} is active: systemctl is not installed",
                hint="Set `irq_affinity: keep` in the profile on a host without systemd.",
            )
        asked = command.run(["systemctl", "is-active", attribute], ok=(0, 3, 4))
        return "active" if asked.stdout.strip() == "active" else "inactive"

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Start or stop the service. Raises HostLacks if its state does not change."""
        verb = "start" if value == "active" else "stop"
        _do(["systemctl", verb, attribute], f"{attribute} cannot be made {value}")
        if self.read(attribute, drive) != value:
            raise HostLacks(
                f"the service {attribute} was made {value}, but is not {value} now",
                hint=f"`systemctl status {attribute}` shows why.",
            )


class ModuleBackend:
    """Load and unload a kernel module, given by its name or .ko file; "there" means loaded."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """Return "there" if the module is loaded or built into the kernel, else "absent"."""
        loaded = self._sysfs.exists(f"/sys/module/{_module_name(attribute)}")
        return THERE if loaded else ABSENT

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Load the module for the value "there", or unload the module for "absent"."""
        if value == ABSENT:
            _do(["rmmod", _module_name(attribute)], f"the module {attribute} cannot be unloaded")
        else:
            program = "insmod" if "/" in attribute else "modprobe"
            _do([program, attribute], f"the module {attribute} cannot be loaded")


def _module_name(attribute: str) -> str:
    name = Path(attribute).name.removesuffix(".xz").removesuffix(".ko")
    return name.replace("-", "_")


def _do(argv: Sequence[str], failing: str) -> None:
    try:
        command.run(argv)
    except CommandFailed as failed:
        raise HostLacks(f"{failing}: {failed.message}") from failed


OF_THE_HEAD = "queue/read_ahead_kb"  # the page cache reads ahead on the head, not on its paths
OF_COUNTERS = frozenset({"queue/iostats", "queue/iostats_passthrough"})

_log = logging.getLogger(__name__)


class SettingBackend(Protocol):
    """Read and write the settings of one kind; `Backend` lists the kinds.

    `drive` is the identity of the drive that has the setting; it is empty for a setting of the
    host. `read` and `write` raise HostLacks if the setting does not exist; `write` also raises
    HostLacks if the value is refused, or if a read afterwards returns another value. An attribute
    whose name ends in `/` is a directory, for which `read` returns the names of its writable
    attributes.
    """

    def read(self, attribute: str, drive: str) -> str: ...

    def write(self, attribute: str, value: str, drive: str) -> None: ...


class Logged:
    """Refuse settings that ssdbench never changes, and log each write for `--debug`."""

    def __init__(self, kind: Backend, backend: SettingBackend) -> None:
        self._kind = kind
        self._backend = backend

    def read(self, attribute: str, drive: str) -> str:
        """Return the current value of the setting."""
        require_ours(self._kind, attribute)
        return self._backend.read(attribute, drive)

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write the value of the setting, then read it again to check that it has the value."""
        what = f"{self._kind} {drive + ' ' if drive else ''}{attribute} = {value!r}"
        try:
            require_ours(self._kind, attribute, value)
            self._backend.write(attribute, value, drive)
        except BaseException as error:
            _log.debug("setting not written: %s: %s", what, error)
            raise
        _log.debug("setting written: %s", what)


class SysfsBackend:
    """Read and write sysfs attributes by their full path."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """Return the value that the kernel uses; for a directory, its writable attributes."""
        if attribute.endswith("/"):
            return " ".join(self._sysfs.writable(attribute))
        value = self._sysfs.find(attribute)
        if value is None:
            raise NoSetting(f"this host has no setting {attribute}")
        return chosen(value)

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write a value, and check it by a read; an error names the values that are possible."""
        try:
            self._sysfs.write(attribute, value)
        except HostLacks as refused:
            offered = self._sysfs.find(attribute) or ""
            if "[" in offered:
                choices = offered.replace("[", "").replace("]", "").split()
                raise HostLacks(refused.message, hint=f"it offers {', '.join(choices)}") from None
            raise


class BlockBackend:
    """Read and write attributes below /sys/block of the drive with a given identity.

    An NVMe multipath head has no request queue, so its queue settings are written on all its paths.
    """

    def __init__(self, sysfs: Sysfs, locate: Locate) -> None:
        self._sysfs = sysfs
        self._attributes = SysfsBackend(sysfs)
        self._locate = locate

    def _paths(self, attribute: str, drive: str) -> list[str]:
        name = located(self._locate, drive)
        if not attribute.startswith("queue/") or attribute == OF_THE_HEAD:
            names = [name]
        elif attribute in OF_COUNTERS:
            names = counted_disks(name, self._sysfs)
        else:
            names = queues_of(name, self._sysfs)
        return [f"/sys/block/{name}/{attribute}" for name in names]

    def read(self, attribute: str, drive: str) -> str:
        """Return the current value. Raises HostLacks if the drive's paths have different values."""
        paths = self._paths(attribute, drive)
        values: list[str | NoSetting] = []
        for path in paths:
            try:
                values.append(self._attributes.read(path, ""))
            except NoSetting as absent:
                values.append(absent)
        if len({str(value) for value in values}) > 1 and any(isinstance(v, str) for v in values):
            told = ", ".join(f"{p}: {v}" for p, v in zip(paths, values, strict=True))
            raise HostLacks(
                f"the paths of {drive} are set differently ({told})",
                hint="Set all paths to the same value first.",
            )
        if isinstance(values[0], NoSetting):
            raise values[0]
        return values[0]

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write the value on every path of the drive, and check that each path has the value."""
        for path in self._paths(attribute, drive):
            self._attributes.write(path, value, "")


@contextmanager
def _told(failing: str, hint: str = "") -> Iterator[None]:
    """Turn a drive's error into one that says what failed."""
    try:
        yield
    except DeviceError as error:
        raise HostLacks(f"{failing}: {error.message}", hint=hint) from error


class _Located:
    """Find the device node of a drive by its identity."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate

    def _node(self, drive: str) -> Path:
        return Path(node_of(located(self._locate, drive)))


class NvmeFeatureBackend(_Located):
    """Read and set NVMe features by number, such as `0x06`; a reset of the drive undoes them."""

    def read(self, attribute: str, drive: str) -> str:
        """Return the current value of the feature as a number."""
        with _told(f"feature {attribute} cannot be read"), nvme.opened(self._node(drive)) as device:
            return str(device.feature(int(attribute, 16)).result)

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Set the value of the feature, then read the feature again to check its value."""
        with _told(f"feature {attribute} cannot be set"), nvme.opened(self._node(drive)) as device:
            device.set_feature(int(attribute, 16), int(value))
        kept = self.read(attribute, drive)
        if kept != value:
            raise HostLacks(f"feature {attribute} was set to {value}, but the drive keeps {kept}")


def monitor_settings(page: bytes) -> str:
    """Return the settings in log page C3h as the numbers that `monitor_feature` accepts.

    The numbers are: end of the timer, the four thresholds, configuration, shortest window, trigger
    of the debug log, and whether the monitor is on.
    """
    told = [_number(page, 4), *page[6:10], _number(page, 10), page[12], _number(page, 0x1C0)]
    return ",".join(str(value) for value in (*told, page[0] & 1))


def monitor_feature(settings: str) -> bytes:
    """Return the 4096 bytes of feature C5h for settings; the drive then keeps its debug log."""
    sizes = (2, 1, 1, 1, 1, 2, 1, 2)
    *values, on = map(int, settings.split(","))
    fields = (v.to_bytes(size, "little") for v, size in zip(values, sizes, strict=True))
    return (b"".join(fields) + bytes([0, on])).ljust(4096, b"\0")


def _number(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + 2], "little")


class LatencyMonitorBackend(_Located):
    """Read and set the latency monitor of an OCP drive; the next reset of the drive undoes it."""

    def read(self, attribute: str, drive: str) -> str:
        """Return the settings of the latency monitor as numbers, read from log page C3h."""
        with _told(f"the {attribute} cannot be read"), nvme.opened(self._node(drive)) as device:
            page = device.log_page(nvme.MONITOR_LOG, nvme.MONITOR_BYTES)
        if page[496:512] != nvme.MONITOR_GUID:
            raise HostLacks(
                f"the drive {drive} has no {attribute}", hint="Set `latency_monitor: keep`."
            )
        return monitor_settings(page)

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Set all settings of the latency monitor (feature C5h), and check them by a read."""
        with _told(f"the {attribute} cannot be set"), nvme.opened(self._node(drive)) as device:
            device.set_feature(nvme.MONITOR_FEATURE, 0, data=monitor_feature(value))
        kept = self.read(attribute, drive)
        if kept != value:
            raise HostLacks(f"the {attribute} was set to {value}, but the drive keeps {kept}")


class WriteCacheBackend(BlockBackend):
    """Read and set the write cache of a SCSI or ATA disk through the attribute `cache_type`.

    The kernel sends the value as a mode page and asks the drive to save it (drivers/scsi/sd.c,
    cache_type_store).
    """

    def _paths(self, attribute: str, drive: str) -> list[str]:
        directory = f"/sys/block/{located(self._locate, drive)}/device/scsi_disk"
        disks = self._sysfs.names(directory)
        if not disks:
            raise HostLacks(
                f"the write cache of {drive} cannot be switched",
                hint="Set `write_cache: keep` in the profile.",
            )
        return [f"{directory}/{disks[0]}/{attribute}"]


class AtaPasswordBackend(_Located):
    """Read and remove the ATA password that a purge sets; "" means that no password is set."""

    def read(self, attribute: str, drive: str) -> str:
        """Return ssdbench's password if the drive reports that a password is set, else ""."""
        said = _told(f"cannot tell whether an {attribute} is set")
        with said, scsi.opened(self._node(drive)) as disk:
            word = scsi.ata_security_word(disk)
        return scsi.ATA_PASSWORD if word & scsi.ATA_SECURITY_ENABLED else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Unlock the drive and remove its password. Raises HostLacks if the drive refuses."""
        if value:
            raise HostLacks(f"only a purge sets an {attribute}")
        said = _told(
            f"the {attribute} cannot be removed",
            hint="An erase may still be in progress: wait, then run `ssdbench restore` again.",
        )
        with said, scsi.opened(self._node(drive), writes=True) as disk:
            scsi.ata_unlock(disk)
        if self.read(attribute, drive):
            raise HostLacks(f"the {attribute} is still set")


def backends_of(sysfs: Sysfs, locate: Locate) -> dict[Backend, SettingBackend]:
    """Return one backend for each kind of setting of this host; each backend logs its writes."""
    found: dict[Backend, SettingBackend] = {
        Backend.SYSFS: SysfsBackend(sysfs),
        Backend.IRQ: SysfsBackend(sysfs),
        Backend.BLOCK: BlockBackend(sysfs, locate),
        Backend.SERVICE: ServiceBackend(),
        Backend.MODULE: ModuleBackend(sysfs),
        Backend.MOUNT: MountBackend(sysfs),
        Backend.TRACER: DirectoryBackend(sysfs),
        Backend.DIRECTORY: DirectoryBackend(sysfs),
        Backend.PARTITION: PartitionBackend(sysfs, locate),
        Backend.NVME_FEATURE: NvmeFeatureBackend(locate),
        Backend.LATENCY_MONITOR: LatencyMonitorBackend(locate),
        Backend.WRITE_CACHE: WriteCacheBackend(sysfs, locate),
        Backend.ATA_PASSWORD: AtaPasswordBackend(locate),
    }
    return {kind: Logged(kind, backend) for kind, backend in found.items()}
