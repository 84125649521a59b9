"""What flashbench and `ssdbench detect-blocksize` say of the same simulated drives.

    python -m benchmarks.flashbench_compare [--flashbench PROGRAM] [--drive NAME]… [--full]

Every drive is served over NBD in real time, becomes a file by nbdfuse and a block device by
losetup, and is written once from end to end; then `flashbench -a` reads it and detect-blocksize
writes to it. Needs root, and flashbench and nbdfuse (Debian: flashbench, libnbd-bin), which
bootstrap does not install; without them this says so and ends with status 4.

Debian's flashbench 62 ends with EINVAL unless its standard input is a terminal: it opens
descriptor 0 for what it prints. `-o /dev/null` avoids that, and the table comes all the same.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ssdbench.errors import CommandFailed, HostLacks
from ssdbench.host.command import run, spawn, which
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from ssdbench.target.inspect import inspect
from ssdbench.units import KIB, MIB, format_size
from tests.support.nbdserver import NbdServer

START_S = 20.0
BUSY_S = 300.0
CLEAR = 2.0  # times the largest difference at smaller alignments is a jump
LEAST_NS = 2000.0  # less is the noise of clocks
STRIDES = ("--writes", "6000", "--stride", "20KiB", "--stride", "28KiB", "--stride", "44KiB")
UNITS_NS = {"n": 1.0, "µ": 1e3, "\ufffd": 1e3, "m": 1e6, "s": 1e9}
# It prints into seven bytes, so a unit may be cut off, even within its µ.
ROW = re.compile(r"^align (\d+)\t.*\tdiff (-?[\d.e+]+)([nµ\ufffdms])")


@dataclass(frozen=True, slots=True)
class Planted:
    """A drive and its block, None where it has none that a host could see."""

    name: str
    spec: str
    block_bytes: int | None


OLD = "sim:memoright-gt,capacity=192MiB"
DRIVES = (
    Planted("block 512 KiB", f"{OLD},block=512KiB", 512 * KIB),
    Planted("block 1 MiB", f"{OLD},block=1MiB", MIB),
    Planted("block 2 MiB", f"{OLD},block=2MiB", 2 * MIB),
    Planted("block 768 KiB", f"{OLD},block=768KiB", 768 * KIB),
    Planted("block 768 KiB from 84 KiB on", f"{OLD},block=768KiB,block_phase=84KiB", 768 * KIB),
    Planted("page-mapped, 10 dies", "sim:x25m-g2-160,capacity=192MiB", None),
    Planted("page-mapped, no buffer", "sim:x25m-g2-160,capacity=192MiB,wbuf=0", None),
)


@contextmanager
def served(drive: Planted, directory: Path) -> Iterator[str]:
    """The drive as a block device in real time."""
    state, disk = directory / "drive.ssdb", directory / "disk"
    SimDrive.create(parse(drive.spec), state).close()
    disk.touch()
    with NbdServer(state, directory / "sock") as server:
        mounted = spawn(
            ["nbdfuse", str(disk), server.uri], stdout=Path(os.devnull), stderr=directory / "fuse"
        )
        try:
            deadline = time.monotonic() + START_S
            while disk.stat().st_size == 0:
                if time.monotonic() > deadline:
                    raise HostLacks("nbdfuse did not mount the drive within 20 s")
                time.sleep(0.05)
            node = run(["losetup", "--find", "--show", "--direct-io=on", str(disk)]).stdout.strip()
            try:
                yield node
            finally:
                run(["losetup", "--detach", node])
        finally:
            run(["umount", str(disk)], ok=(0, 32))
            mounted.terminate()


def alignments(program: str, node: str) -> dict[int, float]:
    """Alignment in bytes -> by how many ns a read across it is slower, as flashbench says it."""
    printed = run([program, "-a", "-o", os.devnull, node], timeout_s=300).stdout
    rows = [ROW.match(line) for line in printed.splitlines()]
    return {int(r[1]): float(r[2]) * UNITS_NS[r[3]] for r in rows if r}


def concluded(difference_ns: dict[int, float]) -> int | None:
    """What a reader of flashbench's README concludes: where the differences jump, and stay high.

    The largest alignment alone is no jump: on a drive of a power of two, one of its reads lies
    across the drive's end, and takes two.
    """
    sizes = sorted(difference_ns)
    for index, size in enumerate(sizes[1:-1], start=1):
        below = max(abs(difference_ns[s]) for s in sizes[:index])
        above = min(difference_ns[s] for s in sizes[index:])
        if above >= max(CLEAR * below, LEAST_NS):
            return size
    return None


def detected(node: str, directory: Path, options: Sequence[str]) -> str:
    """The answer of detect-blocksize, in its words."""
    argv = [
        sys.executable, "-m", "ssdbench", "detect-blocksize", node,
        "--destroy", inspect(node).consent_id, "--overwrite-data", "--json", *options,
        "--output", str(directory / "run"),
    ]  # fmt: skip
    deadline = time.monotonic() + BUSY_S
    while (done := run(argv, ok=(0, 3, 4), timeout_s=900)).status == HostLacks.exit_code:
        if time.monotonic() > deadline:
            raise CommandFailed(argv, done.status, done.stderr)
        time.sleep(1.0)  # another run has the host
    said = json.loads(done.stdout)
    if not said["block_bytes"]:
        return str(said["answer"])
    return f"{format_size(said['block_bytes'])}, p <= {said['p_value']:.3f}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flashbench", default="flashbench", metavar="PROGRAM")
    parser.add_argument("--drive", action="append", choices=[d.name for d in DRIVES])
    parser.add_argument("--full", action="store_true", help="all strides that the command has")
    asked = parser.parse_args()
    for program, package in ((asked.flashbench, "flashbench"), ("nbdfuse", "libnbd-bin")):
        if which(program) is None:
            print(
                f"{program} is not installed: nothing to compare. In Debian it is in the "
                f"package {package}.",
                file=sys.stderr,
            )
            return HostLacks.exit_code
    if os.geteuid() != 0:
        print("needs root, for losetup: nothing to compare", file=sys.stderr)
        return HostLacks.exit_code
    print("| drive | flashbench -a: difference by alignment | a reader | detect-blocksize |")
    print("|---|---|---|---|")
    for drive in DRIVES:
        if asked.drive and drive.name not in asked.drive:
            continue
        with tempfile.TemporaryDirectory(prefix="ssdb") as name, served(drive, Path(name)) as node:
            run(["dd", "if=/dev/zero", f"of={node}", "bs=1M", "oflag=direct"], ok=(1,))
            try:
                read = alignments(asked.flashbench, node)
            except CommandFailed as error:
                print(f"flashbench failed: {error}", file=sys.stderr)
                return error.exit_code
            reader = concluded(read)
            shown = ", ".join(f"{format_size(s)} {read[s] / 1e3:.1f}" for s in sorted(read))
            answer = detected(node, Path(name), () if asked.full else STRIDES)
        said = format_size(reader) if reader else "no pattern"
        print(f"| {drive.name} | {shown} us | {said} | {answer} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
