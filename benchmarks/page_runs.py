"""Make the stored runs that the page is judged by: real runs of simulated drives, kept small.

    python -m benchmarks.page_runs              all, in about five minutes
    python -m benchmarks.page_runs rate cut     some

Each is run and shown once. The files that its report opened are kept in
tests/data/runs/pages/NAME.tar.xz, without places and facts of the host that made it. The run of a
thousand points is made by `tests.support.page_runs`, because a real one takes too long.
"""

import gzip
import io
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ssdbench.cli import main as command_line
from ssdbench.cli.background import PROCESS
from ssdbench.host.command import run, spawn
from ssdbench.model.rundirectory import (
    ARTIFACTS_CSV,
    HOST_AFTER,
    HOST_BEFORE,
    MANIFEST,
    REPORT,
    RESULT,
    RESULTS_CSV,
    RESULTS_PARQUET,
    SUMMARY_CSV,
)
from ssdbench.report.view.conditions import RUN_FILES
from tests.support.page_runs import STORED, unpacked

ROOT = Path(__file__).parents[1]
SMALL = "target: sim:x25m-g2-160,capacity=1GiB\n"
FILL = "precondition: [{pattern: sequential, block: 128KiB, fill: 2}]\n"
RUN_LIMIT_S = 900.0
LOG_ROWS = 300  # reads and writes of the longest window
WRITTEN = {ARTIFACTS_CSV, REPORT, RESULTS_CSV, RESULTS_PARQUET, SUMMARY_CSV}  # by the report
LEFT_OUT = {*WRITTEN, PROCESS}
HOST = {"kernel": "6.12.0", "machine": "x86_64", "CPU": "a CPU", "CPUs": "2", "memory": "8 GiB"}

opened: set[str | bytes] = set()


@dataclass(frozen=True, slots=True)
class Kept:
    """Describe one run; when a file that matches `killed_at` appears, the run is killed."""

    profile: str  # YAML text, or empty for the demo
    killed_at: str = ""


RUNS = {
    "demo": Kept(""),
    "points": Kept(
        "title: Demonstration on a simulated Intel X25-M G2\n"
        "target: sim:x25m-g2-160,capacity=4GiB\n"
        "precondition:\n  - {pattern: sequential, block: 128KiB, fill: 2}\n"
        "  - {pattern: random, block: 4KiB, fill: 1}\n"
        "repeats: 10\nwindow: 60s\nsettle: {window: 2m, flat: 60s, max_fills: 2}\nmeasure:\n"
        "  - sweep: {block: [4KiB, 64KiB], read: [100, 70, 0], iodepth: 32, numjobs: 1}\n"
        "  - span: {block: 4KiB, spans: [5%, 25%, 50%, 100%], rest: ordered, "
        "settle: {spare: 200%, window: 2m, flat: 60s, max_fills: 60}}\n"
        "  - blocksize: {writes: 4000}\n"
        "plan: {demand_iops: 40000, growth: 30%}\n"
    ),
    "standard": Kept(
        "title: Standard tests of a client drive, scaled down to a fortieth\n"
        "target: sim:dram-ssd-2012,capacity=1GiB\n"
        "measure: [{pts: {tests: [throughput, latency], form: client,"
        " scale: 0.025, max_rounds: 8}}]\n"
    ),
    "rate": Kept(
        "title: Open-loop rate of a simulated Intel X25-M G2\n" + SMALL + FILL + "repeats: 3\n"
        "window: 30s\nsettle: {spare: 10%, window: 60s, flat: 30s, max_fills: 4}\nmeasure:\n"
        "  - rate: {block: 4KiB, read: 70, limit: 10ms, repeats: 2, window: 20s, settle: 10s, "
        "start: 500, resolution: 15%}\n"
    ),
    "stepping": Kept(
        "title: A drive that steps down after its warm-up\n"
        "target: sim:x25m-g2-160,capacity=1GiB,step_after_ppm=8000000,step_slow_ppm=1500000\n"
        "precondition:\n  - {pattern: sequential, block: 128KiB, fill: 2}\n"
        "  - {pattern: random, block: 4KiB, fill: 1}\n"
        "repeats: 10\nwindow: 60s\nsettle: {window: 2m, flat: 60s, max_fills: 2}\n"
        "measure: [{sweep: {block: 4KiB, read: 0, iodepth: 32, numjobs: 1}}]\n"
    ),
    "cut": Kept(
        "title: A run that was killed\n" + SMALL + FILL + "repeats: 5\nwindow: 30s\n"
        "settle: {spare: 10%, window: 60s, flat: 30s, max_fills: 4}\n"
        "measure: [{sweep: {block: 4KiB, read: [100, 70, 0], iodepth: 32, numjobs: 1}}]\n",
        killed_at="stages/03-sweep/*r0*/repeat-03",
    ),
}


def made(name: str, kept: Kept) -> Path:
    """Run it in the working directory, so that no result names another place."""
    profile = ROOT / "profiles" / "demo.yaml"
    if kept.profile:
        profile = Path(f"{name}.yaml")
        profile.write_text(kept.profile, encoding="utf-8")
    argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--seed", "1", "--output", name]
    if not kept.killed_at:
        run(argv, ok=(0, 1), timeout_s=RUN_LIMIT_S)
        return Path(name)
    child = spawn(argv, stdout=None, stderr=None)
    until = time.monotonic() + RUN_LIMIT_S
    while not list(Path(name).glob(kept.killed_at)):
        if time.monotonic() > until or child.ended(0.01):
            sys.exit(f"{name} ended before it could be killed")
    child.kill()
    return Path(name)


def kept_of(directory: Path, archive: Path) -> None:
    """Show a run; store the files that its report opened."""
    if command_line.run(["report", str(directory)]) != 0:
        sys.exit(f"no report of {directory}")
    root = directory.resolve()
    linked = [root / name for name, _ in RUN_FILES]
    files = sorted({*(Path(os.fsdecode(name)).resolve() for name in opened), *linked})
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in files:
            if path.is_relative_to(root) and path.is_file() and path.name not in LEFT_OUT:
                data = anyones(path, root.parent)
                member = tarfile.TarInfo(str(path.relative_to(root)))
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    again = unpacked(archive, Path("again"))
    if command_line.run(["report", str(again)]) != 0:
        sys.exit(f"no report of what is kept of {directory}")
    if "Files that could not be read" in (again / REPORT).read_text(encoding="utf-8"):
        sys.exit(f"of {directory} less is kept than its report reads")


def anyones(path: Path, place: Path) -> bytes:
    """Return the content of a file without places and facts of the host that made it.

    Of fio's log of latencies the report reads only the counted time, at the end.
    """
    data = path.read_bytes()
    if path.name.endswith("_clat_hist.1.log.gz"):
        first, *others = gzip.decompress(data).splitlines(keepends=True)
        return gzip.compress(b"".join([first, *others[-LOG_ROWS:]]), mtime=0)
    if path.name in (HOST_BEFORE, HOST_AFTER):
        return json.dumps(HOST).encode()
    if path.name in (RESULT, MANIFEST):
        document = json.loads(data)
        document["host"] = HOST
        data = json.dumps(document).encode()
    if path.suffix == "" or path.name == MANIFEST:
        data = data.replace(f"{ROOT}/".encode(), b"").replace(f"{place}/".encode(), b"")
    return data


def note_opened(event: str, args: tuple[object, ...]) -> None:
    """Remember each file that Python opens."""
    if event == "open" and isinstance(args[0], str | os.PathLike):
        opened.add(os.fspath(args[0]))


def main(names: Sequence[str]) -> int:
    """Make the runs of these names, or all."""
    if unknown := [name for name in names if name not in RUNS]:
        print(f"no run {unknown[0]}; there are: {', '.join(RUNS)}", file=sys.stderr)
        return 2
    STORED.mkdir(parents=True, exist_ok=True)
    sys.addaudithook(note_opened)
    for name in names or RUNS:
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            print(f"{name} …", flush=True)
            directory = made(name, RUNS[name])
            opened.clear()
            kept_of(directory, STORED / f"{name}.tar.xz")
            os.chdir(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
