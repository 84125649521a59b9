"""Where the compiled parts of the simulated drive are: in the wheel, or built in the clone."""

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
