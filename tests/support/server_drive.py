"""fio on a drive whose every answer is known on paper, and the theory that says so."""

import hashlib
import json
import os
import struct
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "ssdbench" / "sim" / "native"
SOURCE = Path(__file__).parent / "srvdrive" / "server_drive.c"

SUBMIT_NS = COMPLETE_NS = 500  # what the library charges for fio's own code
CPU_S = (SUBMIT_NS + COMPLETE_NS) * 1e-9

_MAGIC = 0x5352565344524956
_HEADER = struct.Struct("<8Q64Q")
_NOWHERE = 2**64 - 1


def build_library(out: Path) -> Path:
    """The preloaded library with the paper drive in the place of the core."""
    library = out / "libssdb_virtualtime.so"
    subprocess.run(
        [
            "make",
            "-s",
            f"--directory={NATIVE}",
            f"OUT={out}",
            f"BUILD={out}/build",
            f"CORE={SOURCE}",
            str(library),
        ],
        check=True,
        timeout=300,
    )
    return library


def make_state(
    path: Path,
    *,
    servers: int = 8,
    service_ns: int = 100_000,
    capacity_bytes: int = 8 << 30,
    bad_offset: int = _NOWHERE,
    torn: int = 0,
) -> Path:
    """A fresh paper drive: `servers` that take `service_ns` for each request."""
    fields = (_MAGIC, _HEADER.size, 0, torn, servers, service_ns, capacity_bytes, bad_offset)
    path.write_bytes(_HEADER.pack(*fields, *[0] * 64))
    return path


@dataclass(frozen=True)
class FioRun:
    """What one fio said."""

    status: int
    stderr: str
    text: str  # its JSON, without what it says before

    @property
    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.text)["jobs"]
        return found

    @property
    def ios(self) -> int:
        return sum(job[way]["total_ios"] for job in self.jobs for way in ("read", "write", "trim"))

    @property
    def iops(self) -> float:
        return float(
            sum(job[way]["iops"] for job in self.jobs for way in ("read", "write", "trim"))
        )

    @property
    def mean_latency_s(self) -> float:
        reads = [job["read"] for job in self.jobs]
        total = sum(r["total_ios"] for r in reads)
        return float(sum(r["lat_ns"]["mean"] * r["total_ios"] for r in reads) / total / 1e9)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass
class SimFio:
    """Starts fio on the drive in `state`."""

    library: Path
    state: Path
    directory: Path
    environment: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()  # a program that starts fio, and its arguments

    def command(self, *options: str) -> list[str]:
        given = {option.split("=")[0] for option in options}
        defaults = {
            "--clocksource": "clock_gettime",
            "--ioengine": "nbd",
            "--uri": "sim:",
            "--name": "job",
            "--rw": "randread",
            "--bs": "4096",
            "--size": "1g",
            "--time_based": "1",
            "--runtime": "5",
            "--norandommap": "1",
            "--output-format": "json",
        }
        argv = [f"{name}={value}" for name, value in defaults.items() if name not in given]
        return [*self.prefix, "timeout", "--signal=KILL", "120", "fio", *argv, *options]

    def start(self, *options: str, env: dict[str, str] | None = None) -> "Started":
        """Output goes to a file: nobody reads a pipe while time is stepped."""
        said = self.directory / f"fio.{time.monotonic_ns()}.out"
        with said.open("w") as out:
            return Started(self._spawn(out, *options, env=env), said)

    def _spawn(
        self, out: TextIO, *options: str, env: dict[str, str] | None
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*options),
            env={
                **os.environ,
                "LD_PRELOAD": str(self.library),
                "SSDB_VT_STATE": str(self.state),
                **self.environment,
                **(env or {}),
            },
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str, env: dict[str, str] | None = None) -> FioRun:
        return self.start(*options, env=env).finish()


@dataclass(frozen=True)
class Started:
    """A fio that runs, and the file of what it says."""

    process: "subprocess.Popen[str]"
    said: Path

    def alive(self) -> bool:
        return self.process.poll() is None

    def finish(self) -> FioRun:
        """Wait for its end and read what it said."""
        _, err = self.process.communicate()
        out = self.said.read_text()
        return FioRun(self.process.returncode, err, out[out.find("{") :] if "{" in out else out)
