"""Distribution kernels for the guest: image, modules, headers, the block layer's private headers.

Facts behind the steps (checked on Debian 12): extracted headers work once their Makefile names the
extraction directory; 6.12 headers carry a `vmlinux` that makes the build ask for pahole, and its
absence is harmless ("Skipping BTF generation"); the elevator's headers exist only in the source
package, which must be of the same version.
"""

import lzma
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import HostLacks
from ssdbench.host import command, files
from ssdbench.lab.archive import Archive, Package, extract

SERIES = ("6.1", "6.12")
XZ_MAGIC = b"\xfd7zXZ\0"
SIZE_BYTES = 4  # of the unpacked kernel, behind the packed one


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, extracted and ready to boot and to build against."""

    series: str  # "6.12"
    release: str  # "6.12.95+deb12-amd64", as uname -r says it
    root: Path  # extraction directory

    @property
    def image(self) -> Path:
        """The bootable image."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def unpacked_image(self) -> Path:
        """The same image unpacked, where `unpack_image` made one."""
        return self.root / "boot" / f"vmlinux-{self.release}"

    @property
    def modules(self) -> Path:
        """The directory that `depmod` and `modprobe` know as /lib/modules."""
        return self.root / "lib" / "modules"

    @property
    def headers(self) -> Path:
        """KDIR of an out-of-tree build."""
        return self.root / "usr" / "src" / f"linux-headers-{self.release}"

    @property
    def block_source(self) -> Path:
        """The block layer's own directory, for elevator.h and blk-mq-sched.h (KSRC)."""
        return self.root / "source" / f"linux-source-{self.series}"

    def insertion_order(self, *names: str) -> list[Path]:
        """Module files to insert, needs first; names that are built in add nothing."""
        order: list[Path] = []
        for name in names:
            shown = command.run(
                ["modprobe", "-d", str(self.root), "-S", self.release, "--show-depends", name],
                hint="install it with `apt-get install kmod`",
            ).stdout
            for line in shown.splitlines():
                path = Path(line.split()[1]) if line.startswith("insmod") else None
                if path is not None and path not in order:
                    order.append(path)
        return order


def module_bytes(path: Path) -> bytes:
    """A module as the kernel loads it: 6.12 packages ship them compressed."""
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def payload(image: bytes) -> bytes:
    """The compressed kernel inside a bootable image (Documentation/arch/x86/boot.rst of Linux)."""
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    return image[start : start + length]


def unpack_image(kernel: Kernel) -> None:
    """Unpack the image once, which an emulated CPU does for seconds at each boot (6.1: four).

    Where there is no program for it (zstd), guests boot the packed image.
    """
    if kernel.unpacked_image.exists():
        return
    packed = payload(kernel.image.read_bytes())
    if packed.startswith(XZ_MAGIC):
        unpacked = lzma.LZMADecompressor().decompress(packed)  # up to the size at its end
    elif command.which("zstd"):
        said = command.run(["zstd", "-dcq"], input=packed[:-SIZE_BYTES])
        unpacked = said.raw
    else:
        return
    files.write_atomic(kernel.unpacked_image, unpacked)


def newest(names: list[str], series: str) -> str | None:
    """The newest release among header package names of one series, or None.

    Only the generic flavour: the cloud flavour has no AHCI on 6.1 and few file systems.
    """
    pattern = re.compile(rf"linux-headers-({re.escape(series)}\.[0-9][0-9.+\-a-z]*-amd64)$")
    releases = [found.group(1) for name in names if (found := pattern.fullmatch(name))]
    generic = [r for r in releases if not re.search(r"-(cloud|rt)-", r)]
    return max(generic, key=lambda r: [int(n) for n in re.findall(r"[0-9]+", r)], default=None)


def fetch(archive: Archive, series: str) -> Kernel:
    """The newest kernel of a series, from the cache or the archive.

    Raises HostLacks when the archive has none.
    """
    record = archive.root / f"kernel-{series}"
    if record.exists():
        release = record.read_text().strip()
        return Kernel(series, release, archive.root / f"linux-{release}")
    release, version = _choose(archive, series)
    kernel = Kernel(series, release, archive.root / f"linux-{release}")
    _unpack(archive, kernel, version)
    files.write_atomic(record, release + "\n")
    return kernel


def _choose(archive: Archive, series: str) -> tuple[str, str]:
    """The newest release, and its package version, that comes with image and source."""
    names = archive.names(rf"^linux-headers-{re.escape(series)}\..*amd64$")
    sources = archive.versions(f"linux-source-{series}") if names else []
    while (release := newest(names, series)) is not None:
        offered = archive.versions(f"linux-headers-{release}")
        common = [version for version in offered if version in sources]
        if common and archive.versions(f"linux-image-{release}"):
            return release, common[0]
        names.remove(f"linux-headers-{release}")
    raise HostLacks(f"the package archive has no kernel {series} with its source")


def _unpack(archive: Archive, kernel: Kernel, version: str) -> None:
    common = re.sub(r"-amd64$", "-common", kernel.release)
    base = re.sub(r"-amd64$", "", kernel.release)
    kbuild = f"linux-kbuild-{base if kernel.series != '6.1' else '6.1'}"
    names = [
        f"linux-image-{kernel.release}", f"linux-headers-{kernel.release}",
        f"linux-headers-{common}", kbuild,
    ]  # fmt: skip
    extract([archive.download(Package(name, version)) for name in names], kernel.root)
    makefile = kernel.headers / "Makefile"
    text = makefile.read_text().replace("include /usr/src/", f"include {kernel.root}/usr/src/")
    files.write_atomic(makefile, text)
    (kernel.headers / "vmlinux").unlink(missing_ok=True)
    command.run(["depmod", "-b", str(kernel.root), kernel.release], hint="apt-get install kmod")
    _unpack_block_headers(archive, kernel, version)


def _unpack_block_headers(archive: Archive, kernel: Kernel, version: str) -> None:
    source = f"linux-source-{kernel.series}"
    package = archive.download(Package(source, version))
    into = kernel.root / "source"
    files.make_directory(into)
    command.run(
        [
            "sh", "-c",
            'dpkg-deb --fsys-tarfile "$1" | tar -xOf - "./usr/src/$2.tar.xz" '
            '| tar -xJf - -C "$3" --wildcards "$2/block/*"',
            "sh", str(package), source, str(into),
        ],
        timeout_s=300,
    )  # fmt: skip
