"""Read and write settings inside a drive, which is found by its identity."""

from collections.abc import Callable
from pathlib import Path

from ssdbench.errors import DeviceError, HostLacks
from ssdbench.host import nvme, scsi
from ssdbench.host.sysfs import Sysfs, node_of
from ssdbench.tuning.backends import SysfsBackend
from ssdbench.tuning.setting import located

Locate = Callable[[str], str | None]


class _Located:
    """Find the device node of a drive by its identity."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate

    def _node(self, drive: str) -> Path:
        return Path(node_of(located(self._locate, drive)))


class NvmeFeatureBackend(_Located):
    """Read and set features of an NVMe drive by number, such as `0x06`, until its next reset."""

    def read(self, attribute: str, drive: str) -> str:
        """Return the current value as a number."""
        try:
            with nvme.opened(self._node(drive)) as device:
                return str(device.feature(int(attribute, 16)).result)
        except DeviceError as error:
            raise HostLacks(f"feature {attribute} cannot be read: {error.message}") from error

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Set the value and require that it reads back."""
        try:
            with nvme.opened(self._node(drive)) as device:
                device.set_feature(int(attribute, 16), int(value))
        except DeviceError as error:
            raise HostLacks(f"feature {attribute} cannot be set: {error.message}") from error
        kept = self.read(attribute, drive)
        if kept != value:
            raise HostLacks(f"feature {attribute} was set to {value}, but the drive keeps {kept}")


class WriteCacheBackend:
    """Read and set the write cache of a SCSI or ATA disk, as the kernel's `cache_type`.

    The kernel sends it as a mode page and asks the drive to save it (drivers/scsi/sd.c,
    cache_type_store).
    """

    def __init__(self, sysfs: Sysfs, locate: Locate) -> None:
        self._sysfs = sysfs
        self._attributes = SysfsBackend(sysfs)
        self._locate = locate

    def _path(self, attribute: str, drive: str) -> str:
        directory = f"/sys/block/{located(self._locate, drive)}/device/scsi_disk"
        disks = self._sysfs.names(directory)
        if not disks:
            raise HostLacks(
                f"the write cache of {drive} cannot be switched",
                hint="Set `write_cache: keep` in the profile.",
            )
        return f"{directory}/{disks[0]}/{attribute}"

    def read(self, attribute: str, drive: str) -> str:
        """Return `write back`, `write through` or another state that the kernel names."""
        return self._attributes.read(self._path(attribute, drive), "")

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write the value and require that it reads back."""
        self._attributes.write(self._path(attribute, drive), value, "")


class AtaPasswordBackend(_Located):
    """Read and remove the password that a purge sets for an ATA erase; "" while none is set."""

    def read(self, attribute: str, drive: str) -> str:
        """Return our password when the drive says that one is set, else ""."""
        try:
            with scsi.opened(self._node(drive)) as disk:
                word = scsi.ata_security_word(disk)
        except DeviceError as error:
            raise HostLacks(
                f"cannot tell whether an {attribute} is set: {error.message}"
            ) from error
        return scsi.ATA_PASSWORD if word & scsi.ATA_SECURITY_ENABLED else ""

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Unlock the drive and remove the password. Raises HostLacks when the drive refuses."""
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
