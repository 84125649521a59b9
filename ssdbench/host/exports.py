"""List the devices and files that the kernel serves to other hosts, such as NVMe targets.

To serve a device or file, the kernel opens it, often without an exclusive claim. It stays open even
after its node is deleted.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from ssdbench.host.sysfs import Sysfs

CONFIG = "/sys/kernel/config"


@dataclass(frozen=True, slots=True)
class Export:
    """A device or file that the kernel serves to other hosts."""

    what: str  # the kind of server
    path: str  # path of the device or file when it was opened
    end: str  # command that stops serving it
    number: str = ""  # device number such as `8:0`, if the kernel shows it
    size_bytes: int = 0  # size that is served, if shown; the device may be larger

    @property
    def said(self) -> str:
        """Return a sentence that says why a target that is served must not be used."""
        return f"the kernel serves {self.path} to others ({self.what})"

    @property
    def stale(self) -> str:
        """Return why an export whose path is gone is still a danger: it may serve this target."""
        return (
            f"{self.said}; this path is gone, so it may be the same drive under an old name "
            f"(`{self.end}` removes a stale export)"
        )


def exported(sysfs: Sysfs) -> Iterator[Export]:
    """Yield the devices and files that the kernel serves as NVMe, SCSI or USB storage.

    Raises OSError if sysfs is unreadable.
    """
    yield from _nvme(sysfs)
    # LIO targets; iblock shows the device number, fileio the size
    for store in _below(sysfs, "target", "core", "*", "*"):
        if not sysfs.exists(f"{store}/info"):
            continue
        info = _said(sysfs, f"{store}/info")
        number = re.search(r"Major: ([0-9]+)\s+Minor: ([0-9]+)", info)
        size = re.search(r"\bSize: ([0-9]+)", info)
        for path in re.findall(r"(?:File|UDEV PATH): (/\S+)", info):
            yield Export(
                "SCSI target",
                path,
                f"targetcli clearconfig, or: rmdir {shlex.quote(store)}",
                f"{number[1]}:{number[2]}" if number and number[1] != "0" else "",
                int(size[1]) if size else 0,
            )
    yield from _usb(sysfs)


def _nvme(sysfs: Sysfs) -> Iterator[Export]:
    """Yield the namespaces that NVMe targets serve, and controllers served in passthru mode."""
    namespaces = _below(sysfs, "nvmet", "subsystems", "*", "namespaces", "*")
    controllers = _below(sysfs, "nvmet", "subsystems", "*", "passthru")
    served = [(n, "NVMe target") for n in namespaces]
    served += [(c, "NVMe target, passthru") for c in controllers]
    for directory, what in served:
        if _said(sysfs, f"{directory}/enable") == "1":
            end = f"echo 0 > {shlex.quote(f'{directory}/enable')}"
            yield Export(what, _said(sysfs, f"{directory}/device_path"), end)


def _usb(sysfs: Sysfs) -> Iterator[Export]:
    for function in _below(sysfs, "usb_gadget", "*", "functions", "*"):
        for lun in (n for n in sysfs.listed(function) if n.startswith("lun.")):
            file = f"{function}/{lun}/file"
            if path := _said(sysfs, file):
                yield Export("USB gadget", path, f"echo > {shlex.quote(file)}")


def _below(sysfs: Sysfs, *levels: str) -> list[str]:
    """Return the configfs directories of a path in which `*` stands for any name."""
    paths = [CONFIG]
    for level in levels:
        paths = [
            f"{path}/{name}"
            for path in paths
            for name in (sysfs.listed(path) if level == "*" else [level])
            if level == "*" or sysfs.exists(f"{path}/{level}")
        ]
    return paths


def _said(sysfs: Sysfs, attribute: str) -> str:
    return (sysfs.known(attribute) or "").strip()
