"""Read mounts, swap areas and open files from /proc."""

import ctypes
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

_KCMP = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "loongarch64": 272}  # of the system call
_KCMP_FILES = 2
_MEDIA = (stat.S_IFBLK, stat.S_IFREG)  # kinds of files whose users are listed
_INITIAL = "pid:[4026531836]"  # PROC_PID_INIT_INO of linux/proc_ns.h
# In mounts of these types, the source is only a word, even if it looks like a drive's name.
WITHOUT_SOURCE = frozenset({"tmpfs", "ramfs", "overlay", "proc", "sysfs"})
_libc = ctypes.CDLL(None, use_errno=True)
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the kernel's mountinfo: a mount."""

    major_minor: str  # anonymous (0:N) for btrfs, zfs and overlay
    mount_point: str
    file_system: str
    source: str  # device node, dataset or label
    seen_by: int = 0  # id of a process in its mount namespace; 0: our namespace
    root: str = field(default="/", compare=False)  # directory of the file system that is mounted
    options: str = field(default="", compare=False)  # of the file system, with mountinfo's escapes


@dataclass(frozen=True, slots=True)
class Opener:
    """A process that has a device or file open."""

    pid: int
    command: str
    of_file: bool = False  # whether it is a regular file, not a device

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


class Procfs:
    """Read the kernel's tables below `root`/proc."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"

    def mounts(self) -> list[Mount]:
        """Return all mounts in our mount namespace."""
        return self._mounts_of("self")

    def all_mounts(self) -> list[Mount]:
        """Return our namespace's mounts, and others' mounts of devices that ours does not mount.

        A container or service may have mounted a device where no other process sees the mount.
        Mount namespaces that we may not read are left out. The devices in them are still protected,
        because another check finds the kernel's claim on a mounted device.
        """
        found = self.mounts()
        here = {mount.major_minor for mount in found}
        seen = {_namespace(self._proc / "self")}
        for process in self._proc.iterdir():
            if not process.name.isdigit() or (space := _namespace(process)) in seen:
                continue
            seen.add(space)
            try:
                theirs = self._mounts_of(process.name)
            except OSError:
                continue
            pid = int(process.name)
            found += [replace(m, seen_by=pid) for m in theirs if m.major_minor not in here]
        return found

    def source(self, mount: Mount) -> os.stat_result | None:
        """Return stat of the file or device that was mounted; None if the source is not a path.

        The source may be a file: since Linux 6.12 EROFS needs no loop device.
        """
        if not mount.source.startswith("/") or mount.file_system in WITHOUT_SOURCE:
            return None
        try:
            return self.seen(mount, mount.source).stat()
        except (OSError, ValueError):
            return None

    def seen(self, mount: Mount, path: str) -> Path:
        """Return the path by which we can reach `path` in the mount namespace of `mount`."""
        root = self._proc / str(mount.seen_by) / "root" if mount.seen_by else Path("/")
        return root / path.lstrip("/")

    def _mounts_of(self, process: str) -> list[Mount]:
        text = (self._proc / process / "mountinfo").read_text(errors="surrogateescape")
        return [mount for line in text.splitlines() if (mount := parse_mount(line))]

    def swap_areas(self) -> list[str]:
        """Return the devices and files that the kernel swaps to."""
        try:
            lines = (self._proc / "swaps").read_text(errors="surrogateescape").splitlines()[1:]
        except FileNotFoundError:  # the kernel has no swap
            return []
        return [unescaped(line.split()[0]) for line in lines if line.strip()]

    def sees_all(self) -> bool:
        """Return whether /proc shows all processes of the host; false in most containers."""
        try:
            return str((self._proc / "self/ns/pid").readlink()) == _INITIAL
        except OSError:  # the kernel has no such namespaces
            return True

    def openers(self, wanted: "Wanted") -> list[Opener]:
        """Return other processes that have one of the wanted devices or files open or mapped."""
        found = []
        for process in self._proc.iterdir():
            pid = int(process.name) if process.name.isdigit() else None
            if pid in (None, os.getpid()):
                continue
            used = (status for status in _used_files(process, wanted) if wanted.matches(status))
            if (status := next(used, None)) is not None:
                is_file = stat.S_ISREG(status.st_mode)
                found.append(Opener(int(process.name), _command(process), of_file=is_file))
        return sorted(found, key=lambda opener: opener.pid)


class OneLookProcfs(Procfs):
    """Like Procfs, but read each table only once, for lists of many devices."""

    mounts = cache(Procfs.mounts)
    all_mounts = cache(Procfs.all_mounts)
    swap_areas = cache(Procfs.swap_areas)

    def openers(self, wanted: "Wanted") -> list[Opener]:
        """Return processes that have wanted files open, from a table that the first call read."""
        found = {pid: one for key in wanted.keys for pid, one in self._used.get(key, {}).items()}
        return [found[pid] for pid in sorted(found)]

    @cached_property
    def _used(self) -> dict[Key, dict[int, Opener]]:
        """Return, for each file that is open or mapped anywhere, the processes that use it."""
        used: dict[Key, dict[int, Opener]] = {}
        for process in self._proc.iterdir():
            if not process.name.isdigit() or int(process.name) == os.getpid():
                continue
            command = _command(process)
            for status in _used_files(process, None):
                is_file = stat.S_ISREG(status.st_mode)
                opener = Opener(int(process.name), command, of_file=is_file)
                used.setdefault(_key(status), {}).setdefault(opener.pid, opener)
        return used


def _key(status: os.stat_result) -> Key:
    """Return the key of an open file: the number of a device, or the inode of a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind in (stat.S_IFBLK, stat.S_IFCHR):
        return kind, status.st_rdev
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class Wanted:
    """The open files to search for: devices by their number, regular files by their inode."""

    devices: frozenset[int] = frozenset()  # block devices
    inodes: frozenset[tuple[int, int]] = frozenset()  # (st_dev, st_ino)
    characters: frozenset[int] = frozenset()  # character devices

    @property
    def keys(self) -> frozenset[Key]:
        """Return the keys of all wanted devices and files, in the form of `_key`."""
        devices = ((stat.S_IFBLK, number) for number in self.devices)
        characters = ((stat.S_IFCHR, number) for number in self.characters)
        return frozenset((*devices, *characters, *self.inodes))

    def matches(self, status: os.stat_result) -> bool:
        """Return whether an open file is one of the wanted files or devices."""
        if stat.S_ISBLK(status.st_mode):
            return status.st_rdev in self.devices
        if stat.S_ISCHR(status.st_mode):
            return status.st_rdev in self.characters
        return (status.st_dev, status.st_ino) in self.inodes


def parse_mount(line: str) -> Mount | None:
    """Parse a line of mountinfo (proc(5)); return None for a line without the separator " - "."""
    fields = line.split(" ")
    if "-" not in fields[6:]:
        return None
    after = fields.index("-", 6)
    if len(fields) < after + 3:
        return None
    return Mount(
        fields[2],
        unescaped(fields[4]),
        fields[after + 1],
        unescaped(fields[after + 2]),
        root=unescaped(fields[3]),
        options=",".join(fields[after + 3 :]),
    )


def unescaped(text: str) -> str:
    r"""Return a path of mountinfo or swaps without escapes; the kernel writes a space as \040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


def _namespace(process: Path) -> str:
    """Return the mount namespace of a process; empty if the process ended or cannot be read."""
    try:
        return str((process / "ns/mnt").readlink())
    except OSError:
        return ""


def _used_files(process: Path, wanted: Wanted | None) -> Iterator[os.stat_result]:
    yield from _descriptors(str(process), wanted)
    for thread in _listed(f"{process}/task"):
        if thread != process.name and not _share_descriptors(process, thread):
            yield from _descriptors(f"{process}/task/{thread}", wanted)
    yield from _mapped_files(process, wanted)


def _mapped_files(process: Path, wanted: Wanted | None) -> Iterator[os.stat_result]:
    """Yield the files that a process has mapped into memory, even if it has closed them.

    With `wanted`, other files may be left out. Without `wanted`, all files are yielded.
    """
    try:
        maps = (process / "maps").read_bytes()
    except OSError:
        return
    signs = [b" %d " % inode for _, inode in wanted.inodes] if wanted else [b" "]
    if wanted and wanted.devices:
        signs.append(b" /dev/")
    if not any(sign in maps for sign in signs):
        return
    seen = set()
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)  # addresses, rights, offset, device, inode, path
        thing = tuple(fields[3:5])
        if thing in seen or thing[1:] == (b"0",) or not any(sign in line for sign in signs):
            continue
        try:
            yield (process / "map_files" / fields[0].decode()).stat()
            seen.add(thing)
        except OSError:
            continue


def _descriptors(task: str, wanted: Wanted | None) -> Iterator[os.stat_result]:
    for entry in _listed(f"{task}/fd"):
        try:
            status = os.stat(f"{task}/fd/{entry}")  # noqa: PTH116 - Path costs three times as much
        except OSError:
            continue
        asked = wanted.matches(status) if wanted else stat.S_IFMT(status.st_mode) in _MEDIA
        if not (asked and _is_place_only(f"{task}/fdinfo/{entry}")):
            yield status


def _is_place_only(fdinfo: str) -> bool:
    """Return whether a descriptor only names a file (O_PATH) and cannot read or write it."""
    try:
        text = Path(fdinfo).read_text()
    except OSError:
        return False
    flags = re.search(r"^flags:\s*([0-7]+)", text, re.MULTILINE)
    return flags is not None and bool(int(flags[1], 8) & os.O_PATH)


def _listed(directory: str) -> list[str]:
    """Return the names in a directory; none when the process ended or may not be read."""
    try:
        return os.listdir(directory)  # noqa: PTH208 - as above
    except OSError:
        return []


def _share_descriptors(process: Path, thread: str) -> bool:
    """Return whether a thread shares its process's file table, as almost all do (kcmp(2)).

    If the file tables are shared, the thread's descriptors need no check; a process may have
    thousands of threads. The result is False if the kernel gives no answer. Then the caller checks
    the descriptors of the thread in addition to those of the process; this only takes longer.
    """
    number = _KCMP.get(os.uname().machine)
    if number is None or process.parent != Path("/proc"):
        return False
    answer: int = _libc.syscall(number, int(process.name), int(thread), _KCMP_FILES, 0, 0)
    return answer == 0


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return "unknown"
