"""The NBD server of a simulated drive, in its own process beside a test or a benchmark."""

import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ssdbench.errors import CommandFailed
from ssdbench.host.command import spawn
from ssdbench.sim.drive import nbd_server_argv, nbd_uri, saved_path

_START_S = 30.0  # a large state must be read in before the server answers
_STOP_S = 60.0  # the data are written back


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
        self.uri = nbd_uri(socket_path)
        self.socket_path = socket_path
        self._state = state
        self._argv = nbd_server_argv(state, socket_path, data=data, overhead_ns=overhead_ns)
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
