"""The NBD front: the simulated drive in real time on a unix socket, for any NBD client."""

import time
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from ssdbench.errors import CommandFailed
from ssdbench.host.command import become, spawn
from ssdbench.sim import native_files
from ssdbench.sim.drive import SimDrive, saved_path

_START_S = 30.0  # a large state must be read in before the server answers
_STOP_S = 60.0  # the data are written back


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


class NbdServer:
    """A server at work in its own process, from `with` to its end."""

    def __init__(
        self,
        state: Path,
        socket_path: Path,
        *,
        data: Path | None = None,
        overhead_ns: int | None = None,
    ) -> None:
        self.uri = uri(socket_path)
        self.socket_path = socket_path
        self._state = state
        self._argv = argv(state, socket_path, data=data, overhead_ns=overhead_ns)
        self._log = socket_path.with_suffix(".log")

    def __enter__(self) -> Self:
        """Start and wait until it answers. Raises CommandFailed with the server's sentence."""
        saved_path(self._state).unlink(missing_ok=True)  # the server changes it
        self.process = spawn(self._argv, stdout=None, stderr=self._log)
        deadline = time.monotonic() + _START_S
        while "ready" not in self._log.read_text():
            status = self.process.poll()
            if status is not None or time.monotonic() > deadline:
                self.process.terminate()
                raise CommandFailed(self._argv, status or 0, self._log.read_text())
            time.sleep(0.01)
        return self

    def stop(self) -> int:
        """End it cleanly: what is under way is answered, state and data are saved."""
        return self.process.terminate(grace_s=_STOP_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
