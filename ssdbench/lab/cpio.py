"""The initial RAM file system of a guest, as bytes (pure).

Format: `newc`, as in Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
"""

import gzip
from collections.abc import Mapping, Sequence

_DIRECTORY = 0o040755
_PROGRAM = 0o100755
_DEVICE = 0o020600


def _entry(name: str, *, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    path = name.encode() + b"\0"
    numbers = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0]
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + path
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def initramfs(directories: Sequence[str], programs: Mapping[str, bytes]) -> bytes:
    """A compressed archive of directories, then executable files, and a console device."""
    parts = [_entry(name, mode=_DIRECTORY) for name in ("dev", *directories)]
    parts.append(_entry("dev/console", mode=_DEVICE, device=(5, 1)))
    parts += [_entry(name, mode=_PROGRAM, data=data) for name, data in programs.items()]
    parts.append(_entry("TRAILER!!!", mode=0))
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)
