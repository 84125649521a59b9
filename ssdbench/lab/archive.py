"""Fetch packages for the guest from the distribution's archive, without touching the system.

A private apt root holds lists, cache and an extraction directory; the system's package lists and
package database are read, never written. Packages are extracted, not installed.

A power cut or a full disk cuts files short, and the programs that unpack and build do not wait
until their files are on disk. So that is waited for once, and the sizes are stored beside what was
made and compared before it is used.
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
    """Bring a file, or all files below a directory, to disk, and write down their sizes."""
    command.run(["sync", *(["-f"] if made.is_dir() else []), str(made)])
    sizes = [f"{os.lstat(name).st_size} {name.removeprefix(str(made))}\n" for name in _files(made)]
    files.write_atomic(_sizes(made), "".join(sizes))


def is_whole(made: Path, *, unnoted: bool = True) -> bool:
    """Whether it is there and as long as it was.

    Older versions wrote down no sizes: `unnoted` is what counts then.
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
ADDRESS = "SSDBENCH_LAB_ARCHIVE"  # of a mirror, in place of the one of the machine's own sources
NEEDED_HINT = (
    "The lab takes kernels and QEMU from Debian 12's archive. Set SSDBENCH_LAB_ARCHIVE to the "
    "address of a Debian mirror (http://deb.debian.org/debian) if this machine's own sources name "
    "none."
)
_log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Where the lab keeps what it has fetched and made. Raises UsageError."""
    return files.kept_at("SSDBENCH_LAB_CACHE", "/var/cache/ssdbench/lab")


@dataclass(frozen=True, slots=True)
class Package:
    """One package in one version."""

    name: str
    version: str


def archive_address(sources: Sequence[str]) -> str | None:
    """The address of Debian's main archive in the texts of apt source files, or None.

    Reads both the deb822 form and the one-line form; an archive counts when it serves the suite
    `bookworm` itself.
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
    """A private view of the distribution's archive below `root`.

    With `release` it is that of another release of Debian and its backports, for a machine on which
    nothing is installed yet; what comes from there is no program for this one.
    """

    def __init__(self, root: Path, *, address: str | None = None, release: str = "") -> None:
        self.root = root
        self.release = release
        self._address = address
        self._updated = False

    def of(self, release: str) -> "Archive":
        """The same archive's view of another release of Debian; of none: the machine's own."""
        if release == self.release:
            return self
        return Archive(self.root, address=self._address, release=release)

    def _config(self) -> Path:
        apt = self.root / (f"apt-{self.release}" if self.release else "apt")
        suites = (self.release, f"{self.release}-backports") if self.release else SUITES
        config = apt / "apt.conf"
        address = self._address or os.environ.get(ADDRESS) or archive_address(_system_sources())
        if address is None:
            raise HostLacks("no Debian 12 package archive is known here", hint=NEEDED_HINT)
        if not KEYRING.exists():
            raise HostLacks(
                f"there is no {KEYRING}, by which packages are checked",
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
            # A list that does not come is an error, not a warning beside an empty answer.
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
                f"the lab's packages did not come from the archive: {said}", hint=NEEDED_HINT
            ) from failed

    def versions(self, package: str) -> list[str]:
        """All versions on offer, newest first."""
        lines = self._apt("apt-cache", "madison", package).splitlines()
        return [line.split("|")[1].strip() for line in lines if "|" in line]

    def newest(self, package: str, *, of: str = "", not_of: str = "") -> Package:
        """The newest version, of those with `of` and without `not_of` in it. Raises HostLacks."""
        for version in self.versions(package):
            if of in version and not (not_of and not_of in version):
                return Package(package, version)
        raise HostLacks(
            f"the package archive has no {package}{' of ' + of if of else ''}", hint=NEEDED_HINT
        )

    def names(self, pattern: str) -> list[str]:
        """All package names that match a regular expression."""
        lines = self._apt("apt-cache", "search", "--names-only", pattern).splitlines()
        return [line.split(" ")[0] for line in lines]

    def download(self, package: Package) -> Path:
        """The package's file, from the cache or the archive."""
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
        """These packages and all that they need and this machine lacks."""
        wanted = [f"{package.name}={package.version}" for package in packages]
        # Of these alone: a download that was cut short once may lie here in another version.
        into = self.root / "packages" / f"{packages[0].name}_{packages[0].version}_with_needs"
        files.make_directory(into / "partial")
        _log.info("downloading %s and what it needs", packages[0].name)
        backports = ["-t", f"{self.release}-backports"] if self.release else []
        self._apt(
            "apt-get", "install", "-y", "-q", "--no-install-recommends", "--reinstall",
            "--download-only", "-o", f"Dir::Cache::archives={into}", *backports, *wanted,
        )  # fmt: skip
        return sorted(into.glob("*.deb"))


def extract(packages: Sequence[Path], into: Path) -> None:
    """Unpack package files below a directory; nothing of them is run."""
    files.make_directory(into)
    for package in packages:
        _log.info("unpacking %s", package.name)
        command.run(["dpkg-deb", "-x", str(package), str(into)])


def _system_sources() -> list[str]:
    folder = Path("/etc/apt")
    paths = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    return [path.read_text(errors="replace") for path in paths if path.is_file()]
