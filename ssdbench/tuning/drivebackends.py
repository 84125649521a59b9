"""Read and write settings inside a drive; the drive is found by its identity."""

from collections.abc import Callable
from pathlib import Path

from ssdbench.errors import DeviceError, HostLacks
from ssdbench.host import nvme, scsi
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.tuning.backends import SysfsBackend
from ssdbench.tuning.setting import located

Locate = Callable[[str], str | None]


class NvmeFeatureBackend:
    """Features of an NVMe drive by number, such as `0x06`; never saved in the drive itself."""

    def __init__(self, locate: Callable[[str], str | None]) -> None:
        self._locate = locate

    def _node(self, drive: str) -> Path:
        return Path(node_of(located(self._locate, drive)))

    def read(self, attribute: str, drive: str) -> str:
        """The current value, as a number."""
        try:
            with nvme.opened(self._node(drive)) as device:
                return str(device.feature(int(attribute, 16)).result)
        except DeviceError as error:
            raise HostLacks(f"feature {attribute} cannot be read: {error.message}") from error

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Set and read back."""
        try:
            with nvme.opened(self._node(drive)) as device:
                device.set_feature(int(attribute, 16), int(value))
        except DeviceError as error:
            raise HostLacks(f"feature {attribute} cannot be set: {error.message}") from error
        kept = self.read(attribute, drive)
        if kept != value:
            raise HostLacks(f"feature {attribute} was set to {value}, but the drive keeps {kept}")


class WriteCacheBackend:
    """The write cache of a SCSI or ATA disk, as the kernel's `cache_type` names it.

    The kernel sends it to the drive as a mode page (drivers/scsi/sd.c, cache_type_store), and asks
    the drive to keep it.
    """

    def __init__(self, sysfs: Sysfs, locate: Locate) -> None:
        self._sysfs = sysfs
        self._attributes = SysfsBackend(sysfs)
        self._locate = locate

    def _path(self, attribute: str, drive: str) -> str:
        directory = f"/sys/block/{located(self._locate, drive)}/device/scsi_disk"
        disks = self._sysfs.names(directory)
        if not disks:
            raise HostLacks(f"the drive {drive} has no {attribute} that can be switched")
        return f"{directory}/{disks[0]}/{attribute}"

    def read(self, attribute: str, drive: str) -> str:
        """`write back` or `write through`, or what else the kernel says."""
        return self._attributes.read(self._path(attribute, drive), "")

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write and read back."""
        self._attributes.write(self._path(attribute, drive), value, "")


class AtaPasswordBackend:
    """The password that an ATA erase needs; "" while none is set.

    It is set by the purge, never from here: putting back "" unlocks the drive and takes it off.
    """

    def __init__(self, locate: Locate) -> None:
        self._locate = locate

    def _node(self, drive: str) -> Path:
        return Path(node_of(located(self._locate, drive)))

    def read(self, attribute: str, drive: str) -> str:
        """Whether one is set."""
        try:
            with scsi.opened(self._node(drive)) as disk:
                word = scsi.ata_security_word(disk)
        except DeviceError as error:
            raise HostLacks(
                f"cannot tell whether an {attribute} is set: {error.message}"
            ) from error
        return scsi.ATA_PASSWORD if word & scsi.ATA_SECURITY_ENABLED else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Unlock and take it off. Raises HostLacks when the drive refuses."""
        if value:
            raise HostLacks(f"only a purge sets an {attribute}")
        try:
            with scsi.opened(self._node(drive), writes=True) as disk:
                scsi.ata_unlock(disk)
        except DeviceError as error:
            raise HostLacks(
                f"the {attribute} cannot be removed: {error.message}",
                hint="An erase may still be in progress: wait, then run `ssdbench restore` again.",
            ) from error
        if self.read(attribute, drive):
            raise HostLacks(f"the {attribute} is still set")
