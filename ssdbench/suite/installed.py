"""Lists the programs that commands need, and the one command that installs those that are missing.

Packages are named as Debian and Ubuntu have them.
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
    """What one command needs."""

    command: str  # as it is typed, with the key of a profile where only that needs it
    packages: Mapping[str, str]  # of each program
    missing: tuple[str, ...]  # programs

    @property
    def install(self) -> str:
        """Return the command that installs what is missing; empty when nothing is."""
        if DUCKDB in self.missing:
            return duckdb.INSTALL
        wanted = dict.fromkeys(self.packages[program] for program in self.missing)
        return f"apt-get install {' '.join(wanted)}" if wanted else ""


def installed() -> list[Installed]:
    """List for each command the programs that it needs and the host lacks."""
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
    if program == QEMU:  # once it was fetched
        try:
            tools = tools_of(cache_directory())
        except UsageError:  # the variable that names it: `lab run` tells
            return False
        return not tools.qemu.exists() or not tools.fault()
    return command.which(program) is not None
