"""ssdbench without the start of an interpreter: forks of a process that has it imported.

Where hundreds of runs are killed, most of the time would go into imports. A fork has a process
group, standard streams and an environment of its own, as `command.spawn` gives them, dies with the
process that it is a fork of, and that one with the test.
"""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

_FORKS = """
import ctypes, importlib, json, os, pkgutil, signal, sys
import ssdbench
for module in pkgutil.walk_packages(ssdbench.__path__, "ssdbench."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from ssdbench.cli.main import main
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if not child:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        os.setpgid(0, 0)
        streams = [os.open(os.devnull, os.O_RDONLY)]
        streams += [
            os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")
        ]
        for number, opened in enumerate(streams):
            os.dup2(opened, number)
            os.close(opened)
        os.environ.update(asked["env"])
        sys.argv = ["ssdbench", *asked["argv"]]
        sys.exit(main())
    print(child, flush=True)
    sys.stdin.readline()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Started(Protocol):
    """What one needs of a process in order to kill it; `command.Process` has it too."""

    pid: int

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""

    def ended(self, within_s: float) -> bool:
        """Whether it ends within a time."""

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end; None when the time passed first."""


class Forks:
    """Starts ssdbench, one process at a time, from `with` to its end."""

    def __enter__(self) -> Self:
        self._popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", _FORKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._popen.kill()
        self._popen.communicate()

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], stdout: Path, stderr: Path
    ) -> "Fork":
        """One ssdbench with these arguments; the one before must have been waited for."""
        asked = {"argv": argv, "env": env, "out": str(stdout), "err": str(stderr)}
        return Fork(int(self.said(json.dumps(asked))), self)

    def said(self, line: str) -> str:
        """Send a line, and the line that answers it."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(f"{line}\n")
        return self._popen.stdout.readline()


class Fork:
    """One ssdbench; its status is taken by `wait`, and until then its process id is its own."""

    def __init__(self, pid: int, forks: Forks) -> None:
        self.pid = pid
        self._forks = forks
        self._status: int | None = None

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self.wait(0)

    def ended(self, within_s: float) -> bool:
        """Whether it ends within a time, without polling."""
        if self._status is not None:
            return True
        descriptor = os.pidfd_open(self.pid)
        try:
            return bool(select.select([descriptor], [], [], max(within_s, 0.0))[0])
        finally:
            os.close(descriptor)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end, without polling; None when `timeout_s` passed first."""
        if timeout_s is not None and not self.ended(timeout_s):
            return None
        if self._status is None:
            self._status = int(self._forks.said("reap"))
        return self._status
