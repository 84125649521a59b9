"""List the programs that each command needs, and the apt command that installs missing ones.

Package names are the names in Debian and Ubuntu.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.host import blktrace, command, database
from ssdbench.host.filesystems import FILE_SYSTEMS
from ssdbench.lab.archive import cache_directory
from ssdbench.lab.tools import TO_BUILD, TO_FETCH, tools_of
from ssdbench.report import database as duckdb
from ssdbench.stages.files.programs import PROGRAMS

HEADERS = "the headers of this kernel"
POSTGRESQL = "PostgreSQL"
DUCKDB = "DuckDB"
QEMU = "a QEMU that starts"


@dataclass(frozen=True, slots=True)
class Installed:
    """Hold the programs that one command needs, and which of them are missing."""

    command: str  # with the key of the profile, if only a profile with it needs the programs
    packages: Mapping[str, str]  # package of each program
    missing: tuple[str, ...]  # programs that are not installed

    @property
    def install(self) -> str:
        """Return the command that installs the missing programs; "" if all are installed."""
        if DUCKDB in self.missing:
            return duckdb.INSTALL
        wanted = dict.fromkeys(self.packages[program] for program in self.missing)
        return f"apt-get install {' '.join(wanted)}" if wanted else ""


def installed() -> list[Installed]:
    """Check for each command whether its programs are installed."""
    return [
        Installed(name, packages, tuple(program for program in packages if not _is_there(program)))
        for name, packages in _needs()
    ]


def _needs() -> Iterator[tuple[str, dict[str, str]]]:
    util = "util-linux"
    yield (
        "run, plan, detect-blocksize, probe",
        {"fio": "fio", "setpriv": util, "taskset": util, "wipefs": util, "lsblk": util},
    )
    yield (
        "run (filesystems, file_writers, file_mix)",
        {system.program: system.package for system in FILE_SYSTEMS.values()},
    )
    applications = {program.program: program.package for program in PROGRAMS.values()}
    yield "run (applications)", {**applications, POSTGRESQL: database.PACKAGE}
    yield "latencies, report (results.parquet)", {DUCKDB: ""}
    yield "run (latency_path)", dict.fromkeys(blktrace.PROGRAMS, "blktrace")
    headers = f"linux-headers-{os.uname().release}"
    yield "kmod build", {"make": "make", "gcc": "gcc", HEADERS: headers}
    yield "kmod load, unload", dict.fromkeys(("modprobe", "insmod", "rmmod"), "kmod")
    yield (
        "lab run",
        {**TO_FETCH, **TO_BUILD, "unshare": util, "zstd": "zstd", QEMU: "qemu-system-x86"},
    )


def _is_there(program: str) -> bool:
    if program == HEADERS:
        return Path("/lib/modules", os.uname().release, "build", "Makefile").exists()
    if program == POSTGRESQL:
        return database.programs() is not None
    if program == DUCKDB:
        return duckdb.is_available()
    if program == QEMU:  # it is fetched by the first `lab run`
        try:
            tools = tools_of(cache_directory())
        except UsageError:  # the environment variable is wrong, as `lab run` reports
            return False
        return not tools.qemu.exists() or not tools.fault()
    return command.which(program) is not None
