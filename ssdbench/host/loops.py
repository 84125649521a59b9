"""Find loop devices over a file or device, and the file or device below a loop device.

Files and devices are identified by device and inode numbers. A path is not enough: it may be
deleted, it may lead elsewhere in another mount namespace, and a device may have several nodes.
"""

import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from ssdbench.host.blockdev import major_minor
from ssdbench.host.sysfs import Sysfs, node_of

# <linux/loop.h>: LOOP_GET_STATUS64 and struct loop_info64.
GET_STATUS = 0x4C05
_STATUS = struct.Struct("=5Q4I160s2Q")
ROOT = 0
Thing = str | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Backing:
    """The file or device that holds the data of a loop device, and where the data begin."""

    inode: tuple[int, int]  # (st_dev, st_ino) of the file or of the device's node
    device: str = ""  # `8:1` of a block device, empty for a file
    offset_bytes: int = 0

    @property
    def thing(self) -> Thing:
        """Return the number of the backing device, or the inode of the backing file."""
        return self.device or self.inode


def behind(name: str, *, sysfs: Sysfs) -> Backing | None:
    """Return the file or device below a loop device; None if the loop device is detached.

    Raises OSError.
    """
    return sysfs.once(("behind", name), lambda: _behind(name, sysfs))


def _behind(name: str, sysfs: Sysfs) -> Backing | None:
    if sysfs.known(f"/sys/block/{name}/loop/backing_file") is None:
        return None
    node, number = sysfs.path(node_of(name)), sysfs.read(f"/sys/block/{name}/dev").strip()
    try:
        descriptor = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        said = f"the loop device {node} is in use but cannot be opened: {error.strerror}"
        raise OSError(error.errno, said) from error
    try:
        answer = fcntl.ioctl(descriptor, GET_STATUS, bytes(_STATUS.size))
        asked = major_minor(os.fstat(descriptor).st_rdev)
    except OSError as error:
        if error.errno == errno.ENXIO:  # detached since it was listed
            return None
        raise
    finally:
        os.close(descriptor)
    if asked != number:
        raise OSError(errno.ENODEV, f"{node} is not the node of {name}")
    device, inode, behind_it, offset, *_ = _STATUS.unpack(answer)
    return Backing((device, inode), major_minor(behind_it) if behind_it else "", offset)


def loops_over(wanted: Backing, *, sysfs: Sysfs, path: str = "") -> list[str]:
    """Return the kernel names of all loop devices over a device or file. Raises OSError.

    Only root may query loop devices. For other users, `path` is compared with the path of the
    backing file that sysfs shows.
    """
    attached, unasked = sysfs.once("loops", lambda: _attached(sysfs))
    leading = (name for name, file in unasked.items() if path and _leads_to(path, file))
    return [*attached.get(wanted.thing, ()), *leading]


def _attached(sysfs: Sysfs) -> tuple[dict[Thing, list[str]], dict[str, str]]:
    """Return all loop devices by their file or device, and those that only root may query."""
    attached: dict[Thing, list[str]] = {}
    unasked: dict[str, str] = {}
    for name in sysfs.listed("/sys/block"):
        if not name.startswith("loop"):
            continue
        try:
            backing = behind(name, sysfs=sysfs)
        except PermissionError:
            if os.geteuid() == ROOT:
                raise
            unasked[name] = sysfs.known(f"/sys/block/{name}/loop/backing_file") or ""
            continue
        if backing is not None:
            attached.setdefault(backing.thing, []).append(name)
    return attached, unasked


def _leads_to(one: str, other: str) -> bool:
    try:
        return one == other or Path(one).samefile(other)
    except OSError:  # a device is gone or not visible here
        return False
