"""A small kernel with every check that there is for a module, built once from Debian's source.

    python -m tests.vm.debug_kernel [kasan|kcsan] [6.1|6.1-um|6.12|6.12-rt|6.12-um|7.x|…]

prints the directory in which it was built, which `ssdbench lab run --kernel-dir` boots; one in user
mode (um) is started by user_mode.py, and has no KCSAN. It is kept beside the lab's other kernels,
and built anew where its configuration has changed; of a newer source, once that directory is
removed.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from ssdbench.errors import HostLacks
from ssdbench.host import command, files
from ssdbench.host.lock import waiting
from ssdbench.lab.archive import Archive, Package, cache_directory
from ssdbench.lab.kernels import OFFERS, source_package
from tests.vm.linux_source import linux_source, say

CONFIGS = Path(__file__).with_name("kernel")
BUILD_NEEDS = ("make", "gcc", "flex", "bison", "bc")
LIBELF = Path("/usr/include/libelf.h")
BUILD_S = 3 * 3600  # two busy cores took a quarter of it
CHECKERS = ("kasan", "kcsan")
# Behind a series: with PREEMPT_RT; in user mode, a process of this host.
RT, UM = "rt", "um"
SERIES = ("6.12", "6.12-rt", "6.12-um", "6.1", "6.1-um", "7.x", "7.x-rt", "7.x-um")
LEFT_OUT = {  # what a series lacks, and what gives way to PREEMPT_RT
    "6.1": (
        "BLK_DEV_WRITE_MOUNTED", "FAULT_INJECTION_CONFIGFS", "FAULT_INJECTION_STACKTRACE_FILTER",
    ),
    # KASAN itself frees memory in a call between CPUs there, under a lock that may sleep.
    "6.1 kasan": ("PROVE_RAW_LOCK_NESTING",),
    "6.1-um": ("PREEMPT", "DEBUG_ATOMIC_SLEEP", "DEBUG_PREEMPT"),
    "7.x": ("PROC_SYSCTL",),
    RT: ("PREEMPT",),
}  # fmt: skip


def debug_kernel(cache: Path, checker: str = "kasan", series: str = "6.12") -> Path:
    """The directory of a kernel that was built with a checker. Raises HostLacks, CommandFailed."""
    drives = ["drives"] if series.endswith(f"-{UM}") else []
    return built(cache, f"debug-{series}-{checker}", series, ["checks", checker, *drives])


def built(cache: Path, name: str, series: str, parts: Sequence[str]) -> Path:
    """The directory of a kernel with those parts of a configuration, built if it is not there."""
    linux, _, kind = series.partition("-")
    archive, config = Archive(cache).of(OFFERS[linux].release), _asked(series, parts)
    files.make_directory(cache)
    with waiting(cache / f"{name}.lock"):
        for directory in sorted(cache.glob(f"{name}-*-{_digest(config)}")):
            if (directory / "complete").exists():
                return directory
        _check_needs()
        package = _newest(archive, OFFERS[linux].versions)
        source = linux_source(archive, package.name.rpartition("-")[2], package.version)
        into = cache / f"{name}-{package.version}-{_digest(config)}"
        _build(source, into, config, *(("um", "linux") if kind == UM else ("x86", "bzImage")))
        return into


def _newest(archive: Archive, versions: str) -> Package:
    """The newest source of a series, which is a pattern. Raises HostLacks."""
    names = archive.names(f"^{source_package(versions)}$")
    by_number = sorted(names, key=lambda name: [int(n) for n in re.findall("[0-9]+", name)])
    return archive.newest(by_number[-1] if by_number else source_package(versions))


def _asked(series: str, parts: Sequence[str]) -> str:
    """The configuration that a kernel is built with."""
    linux, _, kind = series.partition("-")
    machine = ["system", UM] if kind == UM else ["system", "x86", *([RT] if kind == RT else [])]
    texts = [(CONFIGS / f"{part}.config").read_text() for part in (*machine, *parts)]
    of = (linux, kind, series, *(f"{linux} {part}" for part in parts))
    left_out = [f"CONFIG_{name}=y" for key in of for name in LEFT_OUT.get(key, ())]
    lines = "".join(texts).splitlines()
    return "".join(f"{line}\n" for line in lines if line not in left_out)


def _digest(config: str) -> str:
    return sha256(config.encode()).hexdigest()[:12]


def _check_needs() -> None:
    lacking = [name for name in BUILD_NEEDS if command.which(name) is None]
    lacking += [] if LIBELF.exists() else ["libelf-dev"]
    if lacking:
        raise HostLacks(
            f"a kernel cannot be built here without {', '.join(lacking)}",
            hint=f"apt-get install {' '.join(lacking)}",
        )


def _build(source: Path, into: Path, config: str, arch: str, image: str) -> None:
    """Configure and build; a choice that the source does not know, or not so, ends it."""
    command.run(["rm", "-rf", str(into)])
    files.make_directory(into)
    files.write_atomic(into / "asked.config", config)
    make = ["nice", "make", "-s", "-C", str(source), f"O={into}", f"ARCH={arch}"]
    command.run([*make, f"KCONFIG_ALLCONFIG={into}/asked.config", "allnoconfig"], timeout_s=600)
    made = (into / ".config").read_text().splitlines()
    if refused := [line for line in config.splitlines() if line[:1] == "C" and line not in made]:
        raise HostLacks(f"{source.name} does not take {', '.join(refused)}")
    began = time.monotonic()
    say(f"kernel: building {into.name}")
    command.run([*make, f"-j{os.cpu_count()}", image, "modules"], timeout_s=BUILD_S)
    say(f"kernel: built in {time.monotonic() - began:.0f} s")
    files.write_atomic(into / "complete", "")


def wished(words: Sequence[str]) -> tuple[str, str]:
    """Checker and series, of which either may be left out. Ends with 2 for anything else."""
    asked = argparse.ArgumentParser(prog="python -m tests.vm.debug_kernel", description=__doc__)
    asked.add_argument("checker", nargs="?", choices=CHECKERS, default=CHECKERS[0])
    asked.add_argument("series", nargs="?", choices=SERIES, default=SERIES[0])
    wishes = asked.parse_args([*([CHECKERS[0]] if {*words[:1]} & {*SERIES} else []), *words])
    if wishes.checker == "kcsan" and wishes.series.endswith(f"-{UM}"):
        asked.error("a kernel in user mode has no kcsan")
    return wishes.checker, wishes.series


if __name__ == "__main__":
    print(debug_kernel(cache_directory(), *wished(sys.argv[1:])))
