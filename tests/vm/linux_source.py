"""Debian's source of a kernel, unpacked once beside the lab's kernels."""

import sys
from pathlib import Path

from ssdbench.host import command, files
from ssdbench.host.lock import waiting
from ssdbench.lab.archive import Archive, Package
from ssdbench.lab.kernels import source_package


def linux_source(archive: Archive, series: str, version: str = "") -> Path:
    """The whole source of a kernel, of the newest version if none is said. Raises HostLacks."""
    name = source_package(series)
    version = version or archive.newest(name).version
    into = archive.root / f"source-{version}"
    with waiting(archive.root / "linux-source.lock"):
        if not (into / "complete").exists():
            package = archive.download(Package(name, version))
            say(f"unpacking {package.name}")
            command.run(["rm", "-rf", str(into)])
            files.make_directory(into)
            command.run(
                [
                    "sh", "-c",
                    'dpkg-deb --fsys-tarfile "$1" | tar -xOf - "./usr/src/$2.tar.xz" '
                    '| tar -xJf - -C "$3"',
                    "sh", str(package), name, str(into),
                ],
                timeout_s=900,
            )  # fmt: skip
            files.write_atomic(into / "complete", "")
    return into / name


def say(text: str) -> None:
    """Tell whoever waits what goes on; standard output is for the result."""
    print(text, file=sys.stderr, flush=True)
