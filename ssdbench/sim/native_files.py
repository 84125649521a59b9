"""Where the compiled parts of the simulated drive are: in the wheel, or built in the clone."""

import os
import re
from functools import cache
from pathlib import Path

from ssdbench.errors import HostLacks

BIN = Path(__file__).parent / "bin"


def library(name: str) -> Path:
    """The path of `libssdb_drive.so`, `libssdb_virtualtime.so` or `ssdb-nbd`.

    Raises HostLacks when it has not been built.
    """
    path = BIN / name
    if not path.is_file():
        raise HostLacks(
            f"{name}, a part of the simulated drive, has not been built",
            hint="build it with `make -C ssdbench/sim/native`, or install ssdbench from its wheel",
        )
    return path


def preload(name: str) -> str:
    """What LD_PRELOAD says to have a library loaded by a program that we start.

    A blank or a colon would end its path there (ld.so(8)), so such a path goes by a descriptor of
    ours. Raises HostLacks when the library has not been built.
    """
    path = library(name)
    return _held(path, os.getpid()) if re.search(r"[\s:]", str(path)) else str(path)


@cache
def _held(path: Path, pid: int) -> str:
    """Open as long as this process is; a fork of it has one of its own."""
    return f"/proc/{pid}/fd/{os.open(path, os.O_RDONLY | os.O_CLOEXEC)}"
