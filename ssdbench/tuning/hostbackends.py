"""How services and kernel modules are read and made; mounts and tracers are beside."""

from collections.abc import Sequence
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command
from ssdbench.host.sysfs import Sysfs

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
