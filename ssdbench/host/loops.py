"""Loop devices: which lie over a file or device, and what lies behind one."""

import errno
import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from ssdbench.host.blockdev import major_minor
from ssdbench.host.sysfs import Sysfs

# <linux/loop.h>: LOOP_GET_STATUS64 and struct loop_info64.
GET_STATUS = 0x4C05
_STATUS = struct.Struct("=5Q4I160s2Q")


@dataclass(frozen=True, slots=True)
class Backing:
    """What lies behind a loop device, as the kernel knows it: paths may be deleted or elsewhere."""

    inode: tuple[int, int]  # (st_dev, st_ino) of the file or of the device's node
    device: str = ""  # `8:1` of a block device, empty for a file


def behind(name: str, *, sysfs: Sysfs) -> Backing | None:
    """What lies behind a loop device, by its kernel name; None for one that is not attached.

    Raises OSError when that cannot be known.
    """
    if sysfs.known(f"/sys/class/block/{name}/loop/backing_file") is None:
        return None
    descriptor = os.open(sysfs.path(f"/dev/{name}"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        answer = fcntl.ioctl(descriptor, GET_STATUS, bytes(_STATUS.size))
    except OSError as error:
        if error.errno == errno.ENXIO:  # it was detached meanwhile
            return None
        raise
    finally:
        os.close(descriptor)
    device, inode, number, *_ = _STATUS.unpack(answer)
    return Backing((device, inode), major_minor(number) if number else "")


def loops_over(path: str, *, sysfs: Sysfs) -> list[str]:
    """Kernel names of the loop devices whose backing file is `path`, by any of its names."""
    loops = []
    for name in sysfs.listed("/sys/block"):
        backing = name.startswith("loop") and sysfs.known(f"/sys/block/{name}/loop/backing_file")
        if backing and (backing == path or _same_file(backing, path)):
            loops.append(name)
    return loops


def _same_file(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:  # one of them is gone, or not seen from here
        return False
