"""The NBD front: the simulated drive in real time on a unix socket, for any NBD client."""

from pathlib import Path
from typing import NoReturn

from ssdbench.host.command import become
from ssdbench.sim import native_files
from ssdbench.sim.drive import SimDrive


def uri(socket_path: Path) -> str:
    """What NBD clients and fio's nbd engine call the server."""
    return f"nbd+unix:///?socket={socket_path}"


def argv(
    state: Path, socket_path: Path, *, data: Path | None, overhead_ns: int | None = None
) -> list[str]:
    """The server's command line; without `data`, what is read is zeros.

    `overhead_ns` is what the socket adds to each request, and is taken off the drive's latency;
    None lets the server measure a round trip on this machine first.

    Raises HostLacks when the server has not been built.
    """
    return [
        str(native_files.library("ssdb-nbd")),
        "--state", str(state),
        "--socket", str(socket_path),
        *(["--overhead-ns", str(overhead_ns)] if overhead_ns is not None else []),
        *(["--data", str(data)] if data else []),
    ]  # fmt: skip


def become_server(
    state: Path, socket_path: Path, *, data: Path | None, overhead_ns: int | None = None
) -> NoReturn:
    """Turn this process into the server, so that signals reach it and nobody must pass them on.

    Raises what `SimDrive.open` raises when the state cannot be used.
    """
    SimDrive.open(state).close(saves=False)  # the server changes it
    become(argv(state, socket_path, data=data, overhead_ns=overhead_ns))
