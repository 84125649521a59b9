"""Check whether a regular file may be overwritten as a target, and prepare it for a run."""

import os
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from ssdbench.errors import HostLacks, TargetRefused
from ssdbench.host import files, regular
from ssdbench.host.exports import exported
from ssdbench.host.filesystems import in_layer, upper_file
from ssdbench.host.loops import Backing, loops_over
from ssdbench.host.procfs import Procfs, Wanted
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import TargetInfo
from ssdbench.target.objection import DESTROY, Objection
from ssdbench.units import format_capacity

REMEDY = "name a file that holds nothing else, such as one made by `truncate -s 8G FILE`"
FREE_SHARE = 0.10  # this share of the file system must stay free


def objections(
    info: TargetInfo, *, root: Path = Path("/"), held: int | None = None, run: str = ""
) -> list[Objection]:
    """Return why a file must not be overwritten; empty if it may be overwritten.

    `held` is the descriptor of our claim, if there is one. Then the claimed file is checked, even
    if its path now leads to another file. Content that `run` left in the file is allowed.
    """
    path = Path(info.node)
    try:
        with regular.opened(path) if held is None else nullcontext(held) as descriptor:
            place, status = regular.held(descriptor), os.fstat(descriptor)
            return [
                *_content(info, descriptor, run),
                *_links(status),
                *_users(path, place, status, root),
                *_place(place, path),
                *_room(place, info.size_bytes),
            ]
    except OSError as error:
        return [Objection(f"it cannot be examined: {error.strerror}", remedy=REMEDY)]


def prepare(info: TargetInfo, descriptor: int, run: str) -> None:
    """Allocate a claimed file's blocks and mark the file as in use by `run`. Raises HostLacks."""
    ours = regular.mark_objection(descriptor, Path(info.node), run) == ""
    # Allocate before marking, because allocation may change the file's times.
    files.reserve(descriptor, Path(info.node), os.fstat(descriptor).st_size)
    regular.mark_in_use(descriptor, Path(info.node), run, ours=ours)


def give_back(info: TargetInfo, descriptor: int) -> None:
    """Mark a claimed file's content as written by us, at the end of a run. Raises HostLacks."""
    regular.mark_given_back(descriptor, Path(info.node))


def claim(info: TargetInfo) -> int:
    """Open and lock a file; the caller closes it. Raises TargetRefused for a locked file."""
    try:
        return regular.claim(Path(info.node))
    except BlockingIOError as error:
        raise TargetRefused(info.name, ["another process has locked it"]) from error


def _content(info: TargetInfo, descriptor: int, run: str) -> Iterator[Objection]:
    against = regular.mark_objection(descriptor, Path(info.node), run)
    if against is None and regular.has_data(descriptor):
        yield Objection("it holds data that ssdbench did not write", remedy=REMEDY)
    elif against and regular.has_data(descriptor):
        yield Objection(against, (DESTROY, info.id))


def _links(status: os.stat_result) -> Iterator[Objection]:
    if status.st_nlink > 1:
        reason = f"it has {status.st_nlink} names (hard links)"
        yield Objection(reason, remedy="remove the other names")


def _users(path: Path, place: Path, status: os.stat_result, root: Path) -> Iterator[Objection]:
    this = Backing((status.st_dev, status.st_ino))
    procfs = Procfs(root)
    if point := in_layer(path, procfs):
        yield Objection(f"it is in a layer of the overlay on {point}", remedy=REMEDY)
    upper = upper_file(path, procfs)
    layer = loops_over(Backing(upper), sysfs=Sysfs(root)) if upper else []
    for name in [*loops_over(this, sysfs=Sysfs(root), path=str(place)), *layer]:
        reason = f"the loop device /dev/{name} uses it"
        yield Objection(reason, remedy=f"detach it (`losetup -d /dev/{name}`)")
    if any(_same(area, place) for area in procfs.swap_areas()):
        off = f"stop that (`swapoff {shlex.quote(str(path))}`)"
        yield Objection("the kernel swaps to it", remedy=off)
    for mount in procfs.all_mounts():
        source = procfs.source(mount)
        if source is not None and this.inode == (source.st_dev, source.st_ino):
            yield Objection(f"it is mounted on {mount.mount_point}", remedy="unmount it")
    for export in exported(Sysfs(root)):
        remedy = f"end its use (`{export.end}`)"
        if _same(export.path, place):
            yield Objection(export.said, remedy=remedy)
        elif not (
            Path(export.path).exists()
            or export.number
            or export.path.startswith("/dev/")
            or export.size_bytes > status.st_size
        ):  # the path is gone, is not a device, and the size fits this file
            yield Objection(export.stale, remedy=remedy)
    wanted = Wanted(inodes=frozenset(filter(None, (this.inode, upper))))
    for opener in procfs.openers(wanted):
        yield Objection(f"{opener} has it open", remedy="wait for that process or end it")


def _place(place: Path, path: Path) -> Iterator[Objection]:
    if not os.access(place, os.R_OK | os.W_OK):
        yield Objection("you have no permission to write it", remedy="change its permissions")
        return
    try:
        direct = regular.direct_io_works(place)
    except OSError as error:
        raise HostLacks(f"{path} cannot be opened: {error.strerror}") from error
    if regular.in_memory(place) or not direct:
        reason = "its file system is in memory or lacks direct I/O, so memory would be measured"
        yield Objection(reason, remedy=REMEDY)


def _room(place: Path, size_bytes: int) -> Iterator[Objection]:
    total, free, held = regular.room(place)
    left = free - max(0, size_bytes - held)
    if left < FREE_SHARE * total:
        reason = (
            f"it would leave {format_capacity(max(0, left))} of {format_capacity(total)} free on "
            "its file system; 10 % must stay free"
        )
        yield Objection(reason, remedy="make it smaller, or free some space there")


def _same(area: str, place: Path) -> bool:
    try:
        return place.samefile(area)
    except OSError:
        return False
