"""Download Debian packages for the guest, without changing this system.

The package lists, the cache and the extracted files are in a private apt directory. Packages are
extracted, not installed. The package database of the system is read, but never written.

A power cut or a full disk can truncate files. So new files are synced to disk, and their sizes are
stored beside them. Before a file is used, its size is compared with the stored size.
"""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host import command, files


def note_sizes(made: Path) -> None:
    """Sync a file, or all files in a directory, to disk, and store their sizes."""
    command.run(["sync", *(["-f"] if made.is_dir() else []), str(made)])
    sizes = [f"{os.lstat(name).st_size} {name.removeprefix(str(made))}\n" for name in _files(made)]
    files.write_atomic(_sizes(made), "".join(sizes))


def is_whole(made: Path, *, unnoted: bool = True) -> bool:
    """Return whether a file or directory exists and all its files have their stored sizes.

    Returns `unnoted` if no sizes are stored, because older versions did not store sizes.
    """
    if not made.exists():
        return False
    if not _sizes(made).exists():
        return unnoted
    lines = (line.split(" ", 1) for line in _sizes(made).read_text().splitlines())
    return all(_size(f"{made}{name}") == size for size, name in lines)


def _sizes(made: Path) -> Path:
    return made.with_name(f"{made.name}.sizes")


def _files(made: Path) -> Iterator[str]:
    if not made.is_dir():
        yield str(made)
    for base, _, names in os.walk(made):
        yield from (f"{base}/{name}" for name in names)


def _size(name: str) -> str:
    try:
        return str(os.lstat(name).st_size)
    except OSError:
        return "none"


SUITES = ("bookworm", "bookworm-updates", "bookworm-backports")  # for this machine
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ADDRESS = "SSDBENCH_LAB_ARCHIVE"  # address of a Debian mirror instead of the host's
NEEDED_HINT = (
    "The lab takes kernels and QEMU from Debian 12's archive. If apt on this machine does not use "
    "a Debian 12 archive, set SSDBENCH_LAB_ARCHIVE to the address of a Debian mirror "
    "(http://deb.debian.org/debian)."
)
_log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Return the directory where the lab keeps downloaded and built files. Raises UsageError."""
    return files.kept_at("SSDBENCH_LAB_CACHE", "/var/cache/ssdbench/lab")


@dataclass(frozen=True, slots=True)
class Package:
    """Name and version of a Debian package."""

    name: str
    version: str


def archive_address(sources: Sequence[str]) -> str | None:
    """Return the address of an archive with Debian `bookworm` in apt source files, or None.

    `sources` are the texts of the files, in the deb822 form or the one-line form.
    """
    for text in sources:
        for stanza in re.split(r"\n\s*\n", text):
            fields = dict(re.findall(r"^(URIs|Suites):[ \t]*(\S.*)$", stanza, flags=re.MULTILINE))
            if "bookworm" in fields.get("Suites", "").split():
                return str(fields["URIs"].split()[0])
        line = re.search(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+bookworm\s", text, flags=re.MULTILINE)
        if line:
            return str(line.group(1))
    return None


class Archive:
    """A Debian archive, with its own apt directory in `root`.

    With `release`, packages come from this other Debian release and its backports. Programs of
    another release may need libraries that this machine lacks. So apt then assumes that no package
    is installed, and downloads all dependencies.
    """

    def __init__(self, root: Path, *, address: str | None = None, release: str = "") -> None:
        self.root = root
        self.release = release
        self._address = address
        self._updated = False

    def of(self, release: str) -> "Archive":
        """Return the same archive for a Debian release; "" is the release of this machine."""
        if release == self.release:
            return self
        return Archive(self.root, address=self._address, release=release)

    def _config(self) -> Path:
        apt = self.root / (f"apt-{self.release}" if self.release else "apt")
        suites = (self.release, f"{self.release}-backports") if self.release else SUITES
        config = apt / "apt.conf"
        address = self._address or os.environ.get(ADDRESS) or archive_address(_system_sources())
        if address is None:
            raise HostLacks("this host knows no archive of Debian 12", hint=NEEDED_HINT)
        if not KEYRING.exists():
            raise HostLacks(
                f"{KEYRING}, the keys that check packages, is missing",
                hint="install it with `apt-get install debian-archive-keyring`",
            )
        for directory in ("lists/partial", "cache/archives/partial", "state", "parts"):
            files.make_directory(apt / directory)
        files.write_atomic(
            apt / "parts" / "lab.sources",
            f"Types: deb\nURIs: {address}\nSuites: {' '.join(suites)}\nComponents: main\n"
            f"Signed-By: {KEYRING}\n",
        )
        status = "/var/lib/dpkg/status"
        if self.release:
            status = str(apt / "status")
            files.write_atomic(apt / "status", "")
        files.write_atomic(
            config,
            'Dir::Etc::sourcelist "/dev/null";\n'
            f'Dir::Etc::sourceparts "{apt}/parts";\n'
            f'Dir::State "{apt}/state";\n'
            f'Dir::State::lists "{apt}/lists";\n'
            f'Dir::State::status "{status}";\n'
            f'Dir::Cache "{apt}/cache";\n'
            'APT::Sandbox::User "root";\n'
            # Make a failed download of a list an error; by default it is only a warning.
            'APT::Update::Error-Mode "any";\n',
        )
        return config

    def _apt(self, *argv: str, cwd: Path | None = None) -> str:
        config = self._config()
        if not self._updated:
            self._updated = True
            _log.info("reading the package archive's lists")
            self._apt("apt-get", "-q", "update")
        where = ["env", "-C", str(cwd)] if cwd else []
        try:
            return command.run(
                [*where, *argv], env={"APT_CONFIG": str(config)}, timeout_s=600
            ).stdout
        except CommandFailed as failed:
            errors = [line for line in failed.stderr.splitlines() if line.startswith("E: ")]
            said = errors[0].removeprefix("E: ") if errors else failed.message
            raise HostLacks(
                f"the lab cannot download packages from the archive: {said}", hint=NEEDED_HINT
            ) from failed

    def versions(self, package: str) -> list[str]:
        """Return all versions of a package in the archive, newest first."""
        lines = self._apt("apt-cache", "madison", package).splitlines()
        return [line.split("|")[1].strip() for line in lines if "|" in line]

    def newest(self, package: str, *, of: str = "", not_of: str = "") -> Package:
        """Return the newest version of a package; the version must contain `of` but not `not_of`.

        Raises HostLacks if the archive has no such version.
        """
        for version in self.versions(package):
            if of in version and not (not_of and not_of in version):
                return Package(package, version)
        raise HostLacks(
            f"the archive has no package {package}{' of ' + of if of else ''}", hint=NEEDED_HINT
        )

    def names(self, pattern: str) -> list[str]:
        """Return all package names that match a regular expression."""
        lines = self._apt("apt-cache", "search", "--names-only", pattern).splitlines()
        return [line.split(" ")[0] for line in lines]

    def download(self, package: Package) -> Path:
        """Return the path of a package's .deb file; download it if the cache does not have it."""
        into = self.root / "packages" / f"{package.name}_{package.version}"
        kept = next(into.glob("*.deb"), None)
        if kept is not None and is_whole(kept, unnoted=False):
            return kept
        _log.info("downloading %s %s", package.name, package.version)
        files.make_directory(into)
        self._apt("apt-get", "download", "-q", f"{package.name}={package.version}", cwd=into)
        found = next(into.glob("*.deb"))
        note_sizes(found)
        return found

    def download_with_needs(self, packages: Sequence[Package]) -> list[Path]:
        """Download packages and the dependencies that this machine lacks; return the .deb files."""
        wanted = [f"{package.name}={package.version}" for package in packages]
        # Use a separate directory, because an old download may have left other versions.
        into = self.root / "packages" / f"{packages[0].name}_{packages[0].version}_with_needs"
        files.make_directory(into / "partial")
        _log.info("downloading %s and its dependencies", packages[0].name)
        backports = ["-t", f"{self.release}-backports"] if self.release else []
        self._apt(
            "apt-get", "install", "-y", "-q", "--no-install-recommends", "--reinstall",
            "--download-only", "-o", f"Dir::Cache::archives={into}", *backports, *wanted,
        )  # fmt: skip
        return sorted(into.glob("*.deb"))


def extract(packages: Sequence[Path], into: Path) -> None:
    """Unpack package files into a directory, without running their install scripts."""
    files.make_directory(into)
    for package in packages:
        _log.info("unpacking %s", package.name)
        command.run(["dpkg-deb", "-x", str(package), str(into)])


def _system_sources() -> list[str]:
    folder = Path("/etc/apt")
    paths = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    return [path.read_text(errors="replace") for path in paths if path.is_file()]
