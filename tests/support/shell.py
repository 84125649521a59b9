"""The command line as a user calls it, apart from other runs of this host."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

SSDBENCH = shlex.join([sys.executable, "-m", "ssdbench"])


class Shell:
    """Calls ssdbench with a /run and a settings directory of its own."""

    def __init__(self, place: Path, *, path: str = "") -> None:
        self.settings = place / "settings"
        self._path = path  # a directory that comes first on PATH

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        text = f"mount -t tmpfs tmpfs /run && exec {SSDBENCH} {shlex.join(arguments)}"
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", text],
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
            env={
                **os.environ,
                "PATH": os.pathsep.join(filter(None, [self._path, os.environ["PATH"]])),
                "SSDBENCH_SETTINGS": str(self.settings),
            },
        )
