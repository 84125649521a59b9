"""How settings of the kernel are read and written; those of drives and the host lie beside."""

from collections.abc import Callable, Mapping
from typing import Protocol

from ssdbench.errors import HostLacks
from ssdbench.host.sysfs import Sysfs, chosen
from ssdbench.tuning.hostmedia import ModuleReach, ServiceReach
from ssdbench.tuning.located import NoSetting, located
from ssdbench.tuning.mounting import DirectoryReach, MountReach, PartitionReach, TracerReach
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
            raise NoSetting(f"there is no setting {attribute} here")
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
        return f"/sys/block/{located(self._locate, drive)}/{attribute}"

    def read(self, attribute: str, drive: str) -> str:
        """The value in force."""
        return self._attributes.read(self._path(attribute, drive), "")

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write and read back."""
        self._attributes.write(self._path(attribute, drive), value, "")


def reaches(
    sysfs: Sysfs, locate: Callable[[str], str | None], extra: Mapping[Medium, Reach]
) -> dict[Medium, Reach]:
    """The media of this host; `locate` finds a drive's name below /sys/block by its identity."""
    return {
        Medium.SYSFS: SysfsReach(sysfs),
        Medium.IRQ: SysfsReach(sysfs),
        Medium.BLOCK: BlockReach(sysfs, locate),
        Medium.SERVICE: ServiceReach(),
        Medium.MODULE: ModuleReach(sysfs),
        Medium.MOUNT: MountReach(sysfs),
        Medium.TRACER: TracerReach(sysfs),
        Medium.DIRECTORY: DirectoryReach(),
        Medium.PARTITION: PartitionReach(sysfs, locate),
        **extra,
    }
