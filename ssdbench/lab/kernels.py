"""Download kernels for the guest: image, modules, headers, private headers of the block layer.

The following facts were checked on Debian 12. The Makefile of extracted headers must be changed to
include files from the extraction directory. The 6.12 headers contain a `vmlinux`, and if this file
exists, the build needs pahole. If the file was deleted, the build works without pahole, but makes
no BTF. The headers of I/O schedulers exist only in the source package, which must have the same
version. Build tools of a newer Debian need a newer libc than this machine has. So modules for
kernels of a newer Debian are built inside a directory tree of that Debian, with its compiler.
"""

import logging
import lzma
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ssdbench.errors import HostLacks, UsageError
from ssdbench.host import command, files
from ssdbench.host.kernel_source import header_version
from ssdbench.lab.archive import Archive, Package, extract, is_whole, note_sizes

SERIES = ("6.1", "6.12")  # kernel series that all tests use


@dataclass(frozen=True, slots=True)
class Offer:
    """A choice of --kernel: the newest Debian kernel of a series, in one flavour."""

    versions: str  # a regular expression for the beginning of the kernel release
    flavour: str = ""  # "rt" means PREEMPT_RT
    release: str = ""  # Debian release; "" is the one of this machine


OFFERS = {  # by the value of `--kernel`
    "6.1": Offer(r"6\.1"),
    "6.1-rt": Offer(r"6\.1", "rt"),
    "6.12": Offer(r"6\.12"),
    "6.12-rt": Offer(r"6\.12", "rt"),
    "6.12-deb13": Offer(r"6\.12", release="trixie"),
    "7.x": Offer(r"7\.[0-9]+", release="trixie"),
    "7.x-rt": Offer(r"7\.[0-9]+", "rt", "trixie"),
}
# The bundled modules were compiled for these kernels (see kmod/README.md), but Debian has no image
# to boot.
ONLY_COMPILED = ("6.5", "6.6", "6.8", "6.14", "6.17", "6.18", "6.19")
# Packages that building a module needs, besides the kernel headers and their dependencies.
BUILD_WITH = (
    "make", "binutils", "bash", "dash", "coreutils", "sed", "grep", "mawk", "findutils",
    "diffutils", "perl-base", "base-files", "xz-utils",
)  # fmt: skip
BUILT_IMAGE = Path("arch/x86/boot/bzImage")
HEAD_BYTES = 0x250  # head of an image, with the field for the size of the compressed kernel
XZ_MAGIC, GZIP_MAGIC, ZSTD_MAGIC = b"\xfd7zXZ\0", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# The ELF note with the entry point (XEN_ELFNOTE_PHYS32_ENTRY), without which QEMU cannot boot an
# ELF kernel.
PVH_NOTE = struct.pack("<III4s", 4, 8, 18, b"Xen")
SIZE_BYTES = 4  # bytes after the compressed kernel that hold its unpacked size
ROOM_BYTES = 750 << 20  # disk space for a kernel, its packages, and QEMU
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that is ready to boot and to build modules for."""

    series: str  # the value of --kernel, such as "6.12" or "6.12-rt"
    release: str  # the answer of uname -r, such as "6.12.95+deb12-amd64"
    root: Path  # extraction directory, including modules
    tree: Path | None = None  # the build directory, for a kernel of --kernel-dir
    build_root: Path | None = None  # a Debian directory tree to build modules in

    @property
    def image(self) -> Path:
        """Return the path of the bootable image."""
        if self.tree is not None:
            return self.tree / BUILT_IMAGE
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def unpacked_image(self) -> Path:
        """Return the path for the unpacked kernel, which `unpack_image` writes if it can."""
        return self.root / "boot" / f"vmlinux-{self.release}"

    @property
    def modules(self) -> Path:
        """Return the directory of the modules, which an installed system has as /lib/modules."""
        return self.root / "lib" / "modules"

    @property
    def headers(self) -> Path:
        """Return the directory of the kernel headers (KDIR of an out-of-tree build)."""
        if self.tree is not None:
            return self.tree
        root = self.build_root or self.root
        return root / "usr" / "src" / f"linux-headers-{self.release}"

    @property
    def block_source(self) -> Path:
        """Return the root of the kernel source (KSRC); its block/ has elevator.h."""
        if self.tree is not None:
            source = self.tree / "source"  # exists if the kernel was built with O=
            return source if source.exists() else self.tree
        return self.root / "source" / source_package(self.release)

    def insertion_order(self, *names: str) -> list[Path]:
        """Return the module files to insert, in order; skip built-in and missing modules."""
        order: list[Path] = []
        for name in names:
            for line in self._needs(name).stdout.splitlines():
                path = Path(line.split()[1]) if line.startswith("insmod") else None
                if path is not None and path not in order:
                    order.append(path)
        return order

    def require(self, options: Mapping[str, str]) -> None:
        """Raise UsageError if a module is missing; `options` has the kernel option of each one."""
        lacking = [name for name in options if self._needs(name).status]
        if lacking:
            wanted = ", ".join(dict.fromkeys(options[name] for name in lacking))
            raise UsageError(
                f"the kernel built in {self.tree} has no {', '.join(lacking)}, neither built in "
                "nor as a module",
                hint=f"Enable {wanted} and build the kernel again.",
            )

    def _needs(self, name: str) -> command.Completed:
        """Ask modprobe what a module needs; the status is 1 if the module does not exist."""
        return command.run(
            ["modprobe", "-d", str(self.root), "-S", self.release, "--show-depends", name],
            ok=(0, 1),
            hint="install it with `apt-get install kmod`",
        )


def module_bytes(path: Path) -> bytes:
    """Return the content of a module file, unpacked if it is compressed as in Debian's 6.12."""
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def payload(image: bytes) -> bytes:
    """Return the compressed kernel inside a bootable image; no bytes if the image is truncated.

    The format is in Documentation/arch/x86/boot.rst of Linux.
    """
    if len(image) < HEAD_BYTES:
        return b""
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    return image[start : start + length]


def unpack_image(kernel: Kernel) -> None:
    """Unpack the kernel image once; unpacking takes an emulated CPU about 4 s at each boot.

    Guests boot the packed image if this host cannot unpack it (no zstd, another format), or if the
    unpacked kernel cannot be booted.
    """
    if _kasan_watches_entry(kernel):
        kernel.unpacked_image.unlink(missing_ok=True)
        return
    if is_whole(kernel.unpacked_image):
        return
    _log.info("unpacking the kernel's image")
    packed = payload(kernel.image.read_bytes())
    if packed.startswith(XZ_MAGIC):
        unpacked = lzma.LZMADecompressor().decompress(packed)  # ignores the size after it
    elif packed.startswith(GZIP_MAGIC):  # the usual form of a kernel that a user builds
        unpacked = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed)
    elif packed.startswith(ZSTD_MAGIC) and command.which("zstd"):
        said = command.run(["zstd", "-dcq"], input=packed[:-SIZE_BYTES])
        unpacked = said.raw
    else:
        return
    if PVH_NOTE in unpacked:
        files.write_atomic(kernel.unpacked_image, unpacked)
        note_sizes(kernel.unpacked_image)


def _kasan_watches_entry(kernel: Kernel) -> bool:
    """Return whether KASAN instruments the entry code of an unpacked kernel, as in Linux 6.1.

    A kernel with such entry code crashes before its first message, because KASAN's memory is not
    set up yet.
    """
    if kernel.tree is None:
        return False
    paths = kernel.tree / ".config", kernel.block_source / "arch/x86/platform/pvh/Makefile"
    config, entry = (path.read_text() if path.exists() else "" for path in paths)
    return "CONFIG_KASAN=y\n" in config and bool(entry) and "KASAN_SANITIZE := n" not in entry


def source_package(release: str) -> str:
    """Return the name of a release's source package; the directory in it has the same name."""
    return "linux-source-" + ".".join(release.split(".")[:2])


def newest(names: list[str], series: str, flavour: str = "") -> str | None:
    """Return the newest release of a series (a pattern) among header packages, or None.

    The default is the generic flavour, because the cloud flavour of 6.1 has no AHCI.
    """
    pattern = re.compile(rf"linux-headers-({series}\.[0-9][0-9.+\-a-z]*-amd64)$")
    releases = [found.group(1) for name in names if (found := pattern.fullmatch(name))]
    wanted = [r for r in releases if (re.findall(r"-(cloud|rt)-", r) or [""]) == [flavour]]
    return max(wanted, key=lambda r: [int(n) for n in re.findall(r"[0-9]+", r)], default=None)


def fetch(archive: Archive, series: str) -> Kernel:
    """Return the newest kernel for a key of OFFERS; download it if the cache does not have it.

    Raises HostLacks when the archive has no such kernel.
    """
    offer, record = OFFERS[series], archive.root / f"kernel-{series}"
    archive = archive.of(offer.release)
    build_root = archive.root / f"build-{offer.release}" if offer.release else None
    if record.exists():
        release = record.read_text().strip()
        kernel = Kernel(series, release, archive.root / f"linux-{release}", build_root=build_root)
        if is_whole(kernel.root) and (build_root is None or is_whole(build_root)):
            if not (kernel.block_source / "Makefile").exists():  # in the cache of an older version
                same = f"{header_version(kernel.headers)}-"
                source = archive.newest(source_package(release), of=same)
                _unpack_block_headers(archive, kernel, source.version)
            return kernel
        _log.info("the kernel in the cache is damaged; it is unpacked again")
    files.require_room_for(archive.root, ROOM_BYTES)
    release, version = _choose(archive, series, offer)
    kernel = Kernel(series, release, archive.root / f"linux-{release}", build_root=build_root)
    _unpack(archive, kernel, version)
    if build_root is not None:
        _make_build_root(archive, build_root, Package(f"linux-headers-{release}", version))
    else:
        _unpack_headers(archive, kernel, version)
    (kernel.headers / "vmlinux").unlink(missing_ok=True)
    kernel.unpacked_image.unlink(missing_ok=True)  # it may come from a damaged image
    for made in (kernel.root, *([build_root] if build_root else [])):
        note_sizes(made)
    files.write_atomic(record, release + "\n")
    return kernel


def from_tree(tree: Path, cache: Path) -> Kernel:
    """Return the kernel that was built in `tree`, and install its modules in `cache`.

    The modules are installed again only after the kernel was built again. Raises UsageError if
    `tree` has no built kernel.
    """
    tree = tree.resolve()
    record = tree / "include" / "config" / "kernel.release"
    for need in (tree / BUILT_IMAGE, record):
        if not need.exists():
            raise UsageError(
                f"there is no kernel built in {tree}: {need.relative_to(tree)} is missing",
                hint="Give a directory in which `make bzImage modules` has finished.",
            )
    release = record.read_text().strip()
    of_tree = f"tree-{sha256(str(tree).encode()).hexdigest()[:16]}"
    root = cache / f"{of_tree}-{_digest_of_build(tree)}"
    kernel = Kernel(release, release, root, tree=tree)
    if (root / "complete").exists() and is_whole(root):
        return kernel
    _log.info("installing the modules of %s for the guest", release)
    command.run(["rm", "-rf", *map(str, cache.glob(f"{of_tree}*"))])
    files.make_directory(root / "boot")
    files.make_directory(root / "lib" / "modules" / release)
    command.run(
        [
            "make", "-s", "-C", str(tree), "modules_install", f"INSTALL_MOD_PATH={root}",
            "INSTALL_MOD_STRIP=1",
        ],
        timeout_s=1800,
    )  # fmt: skip
    command.run(["depmod", "-b", str(root), release], hint="apt-get install kmod")
    note_sizes(root)
    files.write_atomic(root / "complete", "")
    return kernel


def _digest_of_build(tree: Path) -> str:
    """Return a digest of the file times of the image and the modules; a new build changes it."""
    order = tree / "modules.order"
    names = order.read_text().split() if order.exists() else []
    built = [tree / BUILT_IMAGE, *((tree / name).with_suffix(".ko") for name in names)]
    times = " ".join(f"{path.stat().st_mtime_ns}" for path in built if path.exists())
    return sha256(times.encode()).hexdigest()[:16]


def _choose(archive: Archive, series: str, offer: Offer) -> tuple[str, str]:
    """Return the newest release with an image and a source package, and its package version."""
    names = archive.names(rf"^linux-headers-{offer.versions}\..*amd64$")
    while (release := newest(names, offer.versions, offer.flavour)) is not None:
        sources = archive.versions(source_package(release))
        offered = archive.versions(f"linux-headers-{release}")
        common = [version for version in offered if version in sources]
        if common and archive.versions(f"linux-image-{release}"):
            return release, common[0]
        names.remove(f"linux-headers-{release}")
    raise HostLacks(f"the package archive has no kernel {series} with its source")


def _unpack(archive: Archive, kernel: Kernel, version: str) -> None:
    """Download and extract the image, the modules and the block layer's headers."""
    names = [f"linux-image-{kernel.release}"]
    # Since Linux 7, the package linux-image is empty; its dependencies have the files.
    parts = [f"linux-{part}-{kernel.release}" for part in ("base", "binary", "modules")]
    names += [name for name in parts if archive.release and archive.versions(name)]
    extract([archive.download(Package(name, version)) for name in names], kernel.root)
    if not kernel.modules.exists():  # the packages of Linux 7 install below /usr
        (kernel.root / "lib").symlink_to("usr/lib")
    if not kernel.image.exists():
        files.make_directory(kernel.image.parent)
        kernel.image.symlink_to(kernel.modules / kernel.release / "vmlinuz")
    command.run(["depmod", "-b", str(kernel.root), kernel.release], hint="apt-get install kmod")
    _unpack_block_headers(archive, kernel, version)


def _unpack_headers(archive: Archive, kernel: Kernel, version: str) -> None:
    """Download and extract headers that suit this machine's compiler and libc."""
    base, flavour = _parts(kernel.release)
    names = [
        f"linux-headers-{kernel.release}", f"linux-headers-{base}-common{flavour}",
        f"linux-kbuild-{'6.1' if base.startswith('6.1.0-') else base}",
    ]  # fmt: skip
    extract([archive.download(Package(name, version)) for name in names], kernel.root)
    makefile = kernel.headers / "Makefile"
    text = makefile.read_text().replace("include /usr/src/", f"include {kernel.root}/usr/src/")
    files.write_atomic(makefile, text)


def _parts(release: str) -> tuple[str, str]:
    """Split a release without its architecture into version and flavour ("-rt" or "")."""
    base = release.removesuffix("-amd64")
    flavour = "-rt" if base.endswith("-rt") else ""
    return base.removesuffix(flavour), flavour


def _make_build_root(archive: Archive, root: Path, headers: Package) -> None:
    """Extract a Debian directory tree to build modules in: headers, compiler and build tools."""
    packages = [headers, *(archive.newest(name) for name in BUILD_WITH)]
    extract(archive.download_with_needs(packages), root)
    awk = root / "usr" / "bin" / "awk"
    if not awk.is_symlink():
        awk.symlink_to("mawk")  # a link that Debian's install scripts make


def _unpack_block_headers(archive: Archive, kernel: Kernel, version: str) -> None:
    source = source_package(kernel.release)
    package = archive.download(Package(source, version))
    into = kernel.root / "source"
    _log.info("unpacking %s", source)
    files.make_directory(into)
    command.run(
        [
            "sh", "-c",
            'dpkg-deb --fsys-tarfile "$1" | tar -xOf - "./usr/src/$2.tar.xz" '
            '| tar -xJf - -C "$3" --wildcards "$2/block/*" "$2/Makefile"',
            "sh", str(package), source, str(into),
        ],
        timeout_s=300,
    )  # fmt: skip
