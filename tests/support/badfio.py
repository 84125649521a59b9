"""A program named fio on PATH that is the real one, and misbehaves in one of its starts."""

import shutil
from pathlib import Path

_PROGRAM = """#!/bin/sh
case "$*" in *--version*|*--enghelp*) exec {fio} "$@";; esac
number=$(($(cat {count} 2>/dev/null || echo 0) + 1)); echo $number > {count}
if [ $number -eq {start} ]; then
{mischief}
fi
exec {fio} "$@"
"""
LATER = "(sleep {seconds:g}; {what}) &"  # the process keeps its id: `$$` becomes fio

CRASHES = LATER.format(seconds=0.7, what="kill -SEGV $$")
HANGS = LATER.format(seconds=0.7, what="kill -STOP $$")
# Without its signal a file that grows beyond the limit (in KiB) is just cut.
CUTS_ITS_REPORT = "trap '' XFSZ; ulimit -f 4"


def bad_fio(directory: Path, mischief: str, *, start: int) -> Path:
    """Write the program into a directory; `start` counts from 1."""
    directory.mkdir()
    program = directory / "fio"
    real = shutil.which("fio") or "fio"
    count = directory / "starts"
    program.write_text(_PROGRAM.format(fio=real, count=count, start=start, mischief=mischief))
    program.chmod(0o755)
    return directory
