"""Overlay file systems: a file has one number where the layers are joined, another in its layer.

So whoever uses it by the other path is not found by the number. The layers of an overlay are in its
mount options (Documentation/filesystems/overlayfs.rst of the kernel). Layers that cannot be reached
from here, as those of the container that we are in, and other file systems that show files of
another one (FUSE), are not followed.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ssdbench.host.procfs import Mount, Procfs, unescaped

OVERLAY = "overlay"
UPPER = "upperdir"
LAYERS = frozenset({"lowerdir", "lowerdir+", "datadir+", UPPER})
Inode = tuple[int, int]  # (st_dev, st_ino)


def in_layer(path: Path, procfs: Procfs) -> str:
    """Where the overlay is mounted that has a file in one of its layers; empty when none has.

    What is written there changes what that overlay shows.
    """
    overlays = [mount for mount in procfs.all_mounts() if mount.file_system == OVERLAY]
    above = {inode for parent in path.parents if (inode := _inode(parent))} if overlays else set()
    for mount in overlays:
        if any(_inode(procfs.seen(mount, layer)) in above for _, layer in _layers(mount)):
            return mount.mount_point
    return ""


def upper_file(path: Path, procfs: Procfs) -> Inode | None:
    """The number, in its upper layer, of a file that is reached through an overlay.

    None for any other file, and for one that is in no upper layer yet.
    """
    around = [m for m in procfs.mounts() if path.is_relative_to(m.mount_point)]
    if not around:
        return None
    # The longest mount point has the file, and of several on one directory the last.
    mount = max(reversed(around), key=lambda m: len(Path(m.mount_point).parts))
    if mount.file_system != OVERLAY:
        return None
    inside = Path(mount.root.lstrip("/")) / path.relative_to(mount.mount_point)
    uppers = (procfs.seen(mount, layer) for option, layer in _layers(mount) if option == UPPER)
    return next((found for upper in uppers if (found := _inode(upper / inside))), None)


def _layers(mount: Mount) -> Iterator[tuple[str, str]]:
    """(option, directory) of each layer whose path is whole."""
    for option in mount.options.split(","):
        name, _, value = option.partition("=")
        if name not in LAYERS:
            continue
        value = unescaped(value)
        parts = re.split(r"(?<!\\):+", value) if name == "lowerdir" else [value]
        for part in parts:
            # As it was given to mount(2), with backslashes, or to fsconfig(2), without: either.
            for way in {part, re.sub(r"\\(.)", r"\1", part)}:
                if way.startswith("/"):
                    yield name, way


def _inode(path: Path) -> Inode | None:
    with suppress(OSError, ValueError):
        status = os.stat(path)  # noqa: PTH116 - a tenth of the time, and there may be thousands
        return status.st_dev, status.st_ino
    return None
