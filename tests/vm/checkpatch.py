"""Check the C of the modules with the kernel's scripts/checkpatch.pl, at 100 columns.

    python -m tests.vm.checkpatch [SERIES] [SOURCE]

ends with 1 if it complains of anything but the kinds in EXPECTED, each of which has its reason.
SOURCE is an unpacked kernel; without it Debian's source of the series is fetched.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ssdbench.host import command
from ssdbench.lab.archive import Archive, cache_directory
from ssdbench.lab.kernels import SERIES
from tests.vm.linux_source import linux_source

MODULES = Path(__file__).parents[2] / "kmod"
COLUMNS = 100
# What a file may be told: most files of the core are tables made by macros (ssdb_params.h).
TABLES = (
    "Macros with complex values should be enclosed in parentheses",
    "macros should not use a trailing semicolon",
    "is not used in function-like macro",
    "please, no spaces at the start of a line",
)
EXPECTED: dict[str, tuple[str, ...]] = {
    "ftl/counters.h": TABLES,
    "ftl/drive.h": TABLES,
    "ftl/gauges.c": (*TABLES, "Prefer ARRAY_SIZE"),  # user space has no such macro
    "ftl/params.c": TABLES,
    "ftl/ssdb_params.h": TABLES,
    "flash/main.c": TABLES,
    "bpref/main.c": TABLES,
    "include/ssdb/compat_sched.h": ("do not add new typedefs", "Macros with flow control"),
    "slam/levels.c": ("externs should be avoided",),  # a symbol that is looked up late
    "slam/pattern.h": ("Prefer 'unsigned int'",),  # a name that user space shares
}
_TOLD = re.compile(r"\S+?:(?P<line>\d+): (?P<what>(?:ERROR|WARNING): .*)")


def sources() -> list[Path]:
    """Every C file of the modules, without the tests in user space."""
    found = sorted(MODULES.rglob("*.[ch]"))
    return [path for path in found if "tests" not in path.relative_to(MODULES).parts[:-1]]


def complaints(source: Path) -> Iterator[str]:
    """What checkpatch says of the modules, but for what is expected."""
    options = ["--no-tree", "--terse", f"--max-line-length={COLUMNS}"]
    for path in sources():
        name = str(path.relative_to(MODULES))
        argv = ["perl", str(source / "scripts/checkpatch.pl"), *options, "-f", str(path)]
        said = command.run(argv, ok=(0, 1), timeout_s=120).stdout
        for told in map(_TOLD.match, said.splitlines()):
            if told and not any(kind in told["what"] for kind in EXPECTED.get(name, ())):
                yield f"kmod/{name}:{told['line']}: {told['what']}"


def main(words: list[str]) -> None:
    """Check every file. Ends with 1 where something is not expected."""
    series = words[0] if words else SERIES[-1]
    archive = Archive(cache_directory())
    source = Path(words[1]) if words[1:] else linux_source(archive, series)
    found = list(complaints(source))
    print("\n".join([*found, f"checkpatch: {len(sources())} files, {len(found)} complaints"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main(sys.argv[1:])
