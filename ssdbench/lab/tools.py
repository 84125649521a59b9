"""What a guest is booted with: QEMU, what serves it files, and its first file system."""

from dataclasses import dataclass
from pathlib import Path

from ssdbench.host import files
from ssdbench.lab import cpio
from ssdbench.lab.archive import Archive, Package, extract
from ssdbench.lab.kernels import Kernel, module_bytes
from ssdbench.lab.machine import Bus
from ssdbench.lab.whole import is_whole, note

BOOT_MODULES = (
    "virtio_pci", "fuse", "virtiofs", "overlay", "configfs",
    "nvme", "ahci", "sd_mod", "virtio_blk", "virtio_scsi",
)  # fmt: skip
# What a kernel of one's own may lack, with the option that gives it: for a guest at all, for disks.
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
QEMU_FROM = "bpo12"  # QEMU 7.2's TCG corrupts 6.12 guests; 10.0 of the backports does not


@dataclass(frozen=True, slots=True)
class Tools:
    """QEMU and its companions, extracted."""

    qemu: Path
    firmware: tuple[Path, ...]
    libraries: Path
    virtiofsd: Path
    busybox: Path


def fetch_tools(archive: Archive) -> Tools:
    """A QEMU that runs both kernels, from the cache or the archive."""
    root, server = archive.root / "qemu", archive.root / "virtiofsd"
    if not ((root / "complete").exists() and is_whole(root) and is_whole(server)):
        (root / "complete").unlink(missing_ok=True)
        version = archive.newest("qemu-system-x86", of=QEMU_FROM).version
        names = ("qemu-system-x86", "qemu-system-common", "qemu-system-data")
        packages = [Package(name, version) for name in names]
        packages += [archive.newest("seabios", of=QEMU_FROM), archive.newest("busybox-static")]
        extract(archive.download_with_needs(packages), root)
        # The C virtiofsd left QEMU after 7.2; it still serves newer ones.
        common = archive.newest("qemu-system-common", not_of=QEMU_FROM)
        extract([archive.download(common)], server)
        note(root)
        note(server)
        files.write_atomic(root / "complete", version)
    return Tools(
        qemu=root / "usr/bin/qemu-system-x86_64",
        firmware=(root / "usr/share/qemu", root / "usr/share/seabios"),
        libraries=root / "usr/lib/x86_64-linux-gnu",
        virtiofsd=server / "usr/lib/qemu/virtiofsd",
        busybox=root / "bin/busybox",
    )


def build_initramfs(kernel: Kernel, tools: Tools) -> bytes:
    """The guest's first file system: busybox, the boot modules and the init script."""
    order = kernel.insertion_order(*BOOT_MODULES)
    names = [path.name.removesuffix(".xz") for path in order]
    programs = {"bin/busybox": tools.busybox.read_bytes()}
    programs["init"] = INIT.read_bytes()
    programs["modules/order"] = "\n".join(names).encode() + b"\n"
    for name, path in zip(names, order, strict=True):
        programs[f"modules/{name}"] = module_bytes(path)
    return cpio.initramfs(["bin", "modules"], programs)
