"""Download QEMU and its file server, and build the initramfs of a guest.

The initramfs has the format `newc` (Documentation/driver-api/early-userspace/buffer-format.rst).
"""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import HostLacks, telling
from ssdbench.host import command, files
from ssdbench.lab.archive import Archive, Package, extract, is_whole, note_sizes
from ssdbench.lab.kernels import Kernel, module_bytes
from ssdbench.lab.machine import Bus

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
    """Return a compressed initramfs with directories, executable files and a console device."""
    parts = [_entry(name, mode=_DIRECTORY) for name in ("dev", *directories)]
    parts.append(_entry("dev/console", mode=_DEVICE, device=(5, 1)))
    parts += [_entry(name, mode=_PROGRAM, data=data) for name, data in programs.items()]
    parts.append(_entry("TRAILER!!!", mode=0))
    return gzip.compress(b"".join(parts), compresslevel=1, mtime=0)


BOOT_MODULES = (
    "virtio_pci", "fuse", "virtiofs", "overlay", "configfs",
    "nvme", "ahci", "sd_mod", "virtio_blk", "virtio_scsi",
)  # fmt: skip
# Modules that a kernel of --kernel-dir must have, with their kernel options: modules to boot at
# all, and modules for each disk bus.
TO_BOOT = {
    "virtio_pci": "CONFIG_VIRTIO_PCI",
    "fuse": "CONFIG_FUSE_FS",
    "virtiofs": "CONFIG_VIRTIO_FS",
    "overlay": "CONFIG_OVERLAY_FS",
}
_SD = {"sd_mod": "CONFIG_BLK_DEV_SD"}
FOR_DISKS = {
    Bus.NVME: {"nvme": "CONFIG_BLK_DEV_NVME"},
    Bus.AHCI: {"ahci": "CONFIG_SATA_AHCI", **_SD},
    Bus.VIRTIO: {"virtio_blk": "CONFIG_VIRTIO_BLK"},
    Bus.SCSI: {"virtio_scsi": "CONFIG_SCSI_VIRTIO", **_SD},
}
INIT = Path(__file__).with_name("init.sh")
# Programs that the lab needs on this host, with their Debian packages: to download kernels, and to
# build modules.
TO_FETCH = {"apt-get": "apt", "dpkg-deb": "dpkg", "depmod": "kmod", "modprobe": "kmod"}
TO_BUILD = {"make": "make", "gcc": "gcc", "strip": "binutils"}
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")  # Debian 12 has libraries in both
QEMU_FROM = "bpo12"  # from backports: QEMU 7.2 corrupts emulated 6.12 guests, QEMU 10.0 does not


@dataclass(frozen=True, slots=True)
class Tools:
    """The paths of the extracted files: QEMU, its firmware, libraries, virtiofsd and busybox."""

    qemu: Path
    firmware: tuple[Path, ...]
    libraries: tuple[Path, ...]
    virtiofsd: Path
    busybox: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variable that makes programs find the extracted libraries."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))}

    def fault(self) -> str:
        """Start QEMU once; return why it does not start, or an empty text if it starts."""
        try:
            said = command.run([str(self.qemu), "--version"], env=self.environment, ok=range(256))
        except HostLacks as error:
            return error.message
        return telling(said.stderr) if said.status else ""


def require_programs(wanted: Mapping[str, str]) -> None:
    """Raise HostLacks if programs are not installed; `wanted` maps each program to its package."""
    if lacking := [name for name in wanted if command.which(name) is None]:
        packages = " ".join(dict.fromkeys(wanted[name] for name in lacking))
        raise HostLacks(
            f"the lab needs {', '.join(lacking)}, which this host does not have",
            hint=f"apt-get install {packages}",
        )


def fetch_tools(archive: Archive) -> Tools:
    """Return QEMU and the other tools; download them if the cache lacks them. Raises HostLacks."""
    root, server = archive.root / "qemu", archive.root / "virtiofsd"
    tools = tools_of(archive.root)
    if not ((root / "complete").exists() and is_whole(root) and is_whole(server)):
        (root / "complete").unlink(missing_ok=True)
        version = archive.newest("qemu-system-x86", of=QEMU_FROM).version
        names = ("qemu-system-x86", "qemu-system-common", "qemu-system-data")
        packages = [Package(name, version) for name in names]
        packages += [archive.newest("seabios", of=QEMU_FROM), archive.newest("busybox-static")]
        extract(archive.download_with_needs(packages), root)
        # Debian's QEMU after 7.2 has no virtiofsd written in C; the virtiofsd of QEMU 7.2 also
        # works with newer QEMU.
        common = archive.newest("qemu-system-common", not_of=QEMU_FROM)
        extract([archive.download(common)], server)
        note_sizes(root)
        note_sizes(server)
        if fault := tools.fault():
            raise HostLacks(
                f"the QEMU that the lab downloaded does not start on this host: {fault}",
                hint="`apt-get install qemu-system-x86` installs everything that QEMU needs.",
            )
        files.write_atomic(root / "complete", version)
    return tools


def tools_of(cache: Path) -> Tools:
    """Return the paths that the tools have in a cache, whether they were downloaded or not."""
    root = cache / "qemu"
    return Tools(
        qemu=root / "usr/bin/qemu-system-x86_64",
        firmware=(root / "usr/share/qemu", root / "usr/share/seabios"),
        libraries=tuple(root / place for place in LIBRARIES),
        virtiofsd=cache / "virtiofsd/usr/lib/qemu/virtiofsd",
        busybox=root / "bin/busybox",
    )


def build_initramfs(kernel: Kernel, tools: Tools) -> bytes:
    """Build the initramfs of the guest: busybox, the boot modules and the init script."""
    order = kernel.insertion_order(*BOOT_MODULES)
    names = [path.name.removesuffix(".xz") for path in order]
    programs = {"bin/busybox": tools.busybox.read_bytes()}
    programs["init"] = INIT.read_bytes()
    programs["modules/order"] = "\n".join(names).encode() + b"\n"
    for name, path in zip(names, order, strict=True):
        programs[f"modules/{name}"] = module_bytes(path)
    return initramfs(["bin", "modules"], programs)
