"""How each kind of setting is read and written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from ssdbench.errors import CommandFailed, DeviceError, HostLacks
from ssdbench.host import command, nvme
from ssdbench.host.sysfs import Sysfs, chosen
from ssdbench.tuning.mounting import MountReach, PartitionReach, TracerReach
from ssdbench.tuning.setting import Medium


class Reach(Protocol):
    """Reads and writes the settings of one medium.

    `read` raises HostLacks when there is no such setting; `write` also when it is refused or does
    not read back.
    """

    def read(self, attribute: str, drive: str) -> str: ...

    def write(self, attribute: str, value: str, drive: str) -> None: ...


class SysfsReach:
    """Attributes by their full path."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """The value in force."""
        del drive
        value = self._sysfs.find(attribute)
        if value is None:
            raise HostLacks(f"there is no setting {attribute} here")
        return chosen(value)

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write and read back; an unknown choice is answered with those that exist."""
        del drive
        try:
            self._sysfs.write(attribute, value)
        except HostLacks as refused:
            offered = self._sysfs.find(attribute) or ""
            if "[" in offered:
                choices = offered.replace("[", "").replace("]", "").split()
                raise HostLacks(refused.message, hint=f"it offers {', '.join(choices)}") from None
            raise


class BlockReach:
    """Attributes of a drive, which is found by its identity wherever it is now."""

    def __init__(self, sysfs: Sysfs, locate: Callable[[str], str | None]) -> None:
        self._attributes = SysfsReach(sysfs)
        self._locate = locate

    def _path(self, attribute: str, drive: str) -> str:
        name = self._locate(drive)
        if name is None:
            raise HostLacks(f"the drive {drive} is not on this host", hint="Plug it in again.")
        return f"/sys/block/{name}/{attribute}"

    def read(self, attribute: str, drive: str) -> str:
        """The value in force."""
        return self._attributes.read(self._path(attribute, drive), "")

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write and read back."""
        self._attributes.write(self._path(attribute, drive), value, "")


class NvmeFeatureReach:
    """Features of an NVMe drive by number, such as `0x06`; never saved in the drive itself."""

    def __init__(self, locate: Callable[[str], str | None]) -> None:
        self._locate = locate

    def _node(self, drive: str) -> Path:
        name = self._locate(drive)
        if name is None:
            raise HostLacks(f"the drive {drive} is not on this host", hint="Plug it in again.")
        return Path(f"/dev/{name}")

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


class ServiceReach:
    """A system service: "active" or "inactive"."""

    def read(self, attribute: str, drive: str) -> str:
        """Whether it runs."""
        del drive
        if command.which("systemctl") is None:
            raise HostLacks(f"{attribute} cannot be asked for: there is no systemctl here")
        asked = command.run(["systemctl", "is-active", attribute], ok=(0, 3, 4))
        return "active" if asked.stdout.strip() == "active" else "inactive"

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Start or stop it."""
        try:
            command.run(["systemctl", "start" if value == "active" else "stop", attribute])
        except CommandFailed as failed:
            raise HostLacks(f"{attribute} cannot be made {value}: {failed.message}") from failed
        if self.read(attribute, drive) != value:
            raise HostLacks(f"{attribute} does not stay {value}")


def reaches(
    sysfs: Sysfs, locate: Callable[[str], str | None], extra: Mapping[Medium, Reach] | None = None
) -> dict[Medium, Reach]:
    """The media of this host; `locate` finds a drive's name below /sys/block by its identity."""
    return {
        Medium.SYSFS: SysfsReach(sysfs),
        Medium.IRQ: SysfsReach(sysfs),
        Medium.BLOCK: BlockReach(sysfs, locate),
        Medium.SERVICE: ServiceReach(),
        Medium.MOUNT: MountReach(sysfs),
        Medium.TRACER: TracerReach(sysfs),
        Medium.PARTITION: PartitionReach(sysfs, locate),
        **(extra or {}),
    }
