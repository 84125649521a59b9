"""Read and write settings of the kernel, services and modules; drives and mounts have modules."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command
from ssdbench.host.counters import counted_disks
from ssdbench.host.sysfs import Sysfs, chosen, queues_of
from ssdbench.tuning.confined import require_ours
from ssdbench.tuning.mounting import DirectoryBackend, MountBackend, PartitionBackend, TracerBackend
from ssdbench.tuning.setting import Backend, NoSetting, located

THERE, ABSENT = "there", "absent"


class ServiceBackend:
    """A system service: "active" or "inactive"."""

    def read(self, attribute: str, drive: str) -> str:
        """Whether it runs."""
        del drive
        if command.which("systemctl") is None:
            raise HostLacks(
                f"cannot tell whether {attribute} is active: systemctl is not installed"
            )
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


class ModuleBackend:
    """A kernel module by name, or by the path of its file: "there" or "absent"."""

    def __init__(self, sysfs: Sysfs) -> None:
        self._sysfs = sysfs

    def read(self, attribute: str, drive: str) -> str:
        """Whether it is loaded; one that is built in always is."""
        del drive
        loaded = self._sysfs.exists(f"/sys/module/{_module_name(attribute)}")
        return THERE if loaded else ABSENT

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Load or unload it."""
        del drive
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


OF_THE_HEAD = "queue/read_ahead_kb"  # what the page cache sees is the head, not its paths
OF_COUNTERS = frozenset({"queue/iostats", "queue/iostats_passthrough"})

_log = logging.getLogger(__name__)


class SettingBackend(Protocol):
    """Reads and writes the settings of one kind, see `Backend`.

    `read` raises HostLacks when there is no such setting; `write` also when it is refused or does
    not read back.
    """

    def read(self, attribute: str, drive: str) -> str: ...

    def write(self, attribute: str, value: str, drive: str) -> None: ...


class Logged:
    """A backend confined to what ssdbench sets; `--debug` shows its writes, and what they did."""

    def __init__(self, kind: Backend, backend: SettingBackend) -> None:
        self._kind = kind
        self._backend = backend

    def read(self, attribute: str, drive: str) -> str:
        """The value in force."""
        require_ours(self._kind, attribute)
        return self._backend.read(attribute, drive)

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write and read back."""
        what = f"{self._kind} {drive + ' ' if drive else ''}{attribute} = {value!r}"
        try:
            require_ours(self._kind, attribute, value)
            self._backend.write(attribute, value, drive)
        except BaseException as error:
            _log.debug("setting not written: %s: %s", what, error)
            raise
        _log.debug("setting written: %s", what)


class SysfsBackend:
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


class BlockBackend:
    """Attributes of a drive, which is found by its identity wherever it is now.

    An NVMe multipath head has no queue of requests: what concerns that is set on all of its paths.
    """

    def __init__(self, sysfs: Sysfs, locate: Callable[[str], str | None]) -> None:
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
        """The value in force. Raises HostLacks when the paths of one drive have different ones."""
        paths = self._paths(attribute, drive)
        values = [self._attributes.read(path, "") for path in paths]
        if len(set(values)) > 1:
            told = ", ".join(f"{p}: {v}" for p, v in zip(paths, values, strict=True))
            raise HostLacks(
                f"the paths of {drive} are set differently ({told})",
                hint="Set all paths to the same value first.",
            )
        return values[0]

    def write(self, attribute: str, value: str, drive: str) -> None:
        """Write and read back, on every path."""
        for path in self._paths(attribute, drive):
            self._attributes.write(path, value, "")


def backends_of(
    sysfs: Sysfs, locate: Callable[[str], str | None], extra: Mapping[Backend, SettingBackend]
) -> dict[Backend, SettingBackend]:
    """The backends of this host, each logged; `locate` finds a drive's name below /sys/block."""
    found: dict[Backend, SettingBackend] = {
        Backend.SYSFS: SysfsBackend(sysfs),
        Backend.IRQ: SysfsBackend(sysfs),
        Backend.BLOCK: BlockBackend(sysfs, locate),
        Backend.SERVICE: ServiceBackend(),
        Backend.MODULE: ModuleBackend(sysfs),
        Backend.MOUNT: MountBackend(sysfs),
        Backend.TRACER: TracerBackend(sysfs),
        Backend.DIRECTORY: DirectoryBackend(),
        Backend.PARTITION: PartitionBackend(sysfs, locate),
        **extra,
    }
    return {kind: Logged(kind, backend) for kind, backend in found.items()}
