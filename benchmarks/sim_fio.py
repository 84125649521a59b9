"""How fast fio is on the simulated drive's clock: `python -m benchmarks.sim_fio [--demo]`.

Unmodified fio, jobs as threads, random 4 KiB reads of `sim:p4800x` in virtual time; I/Os per second
of wall time, and of the processor's time, which other load on the machine hardly changes.
With `--demo` also the wall time of `profiles/demo.yaml`, from the first fill to the report.
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from ssdbench.host.command import run
from ssdbench.sim import native_files
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse

TARGET = "sim:p4800x"
JOBS = (1, 2, 8, 32, 128)
IOS = 4_000_000
TARGET_PER_S = 2e6
DEMO = Path(__file__).resolve().parents[1] / "profiles" / "demo.yaml"
DEMO_TARGET_S = 60.0


def fio(state: Path, jobs: int) -> int:
    """One fio with so many jobs; answers the I/Os done."""
    argv = [
        "env", f"LD_PRELOAD={native_files.library('libssdb_virtualtime.so')}",
        f"SSDB_VT_STATE={state}",
        "fio", "--name=b", "--ioengine=nbd", "--uri=sim:", "--thread", "--group_reporting",
        "--clocksource=clock_gettime", "--rw=randread", "--bs=4096", "--size=1g", "--norandommap",
        f"--numjobs={jobs}", f"--io_size={4096 * IOS // jobs}",
        "--output-format=json",
    ]  # fmt: skip
    said = run(argv, timeout_s=600).stdout
    job = json.loads("{" + said.partition("{")[2])["jobs"][0]
    return int(job["read"]["total_ios"])


def cpu_s() -> float:
    """The processor's time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fio_rows(directory: Path) -> int:
    """A line for each number of jobs; answers how many miss the target on the processor's time."""
    missed = 0
    print(f"{'jobs':>5} {'I/Os':>10} {'M/s wall':>9} {'M/s CPU':>9} {'target':>7}")
    for jobs in JOBS:
        state = directory / f"{jobs}.ssdb"
        SimDrive.create(parse(TARGET), state).close()
        wall_s, used_s = time.monotonic(), cpu_s()
        ios = fio(state, jobs)
        wall_s, used_s = time.monotonic() - wall_s, cpu_s() - used_s
        missed += ios / used_s < TARGET_PER_S
        print(f"{jobs:>5} {ios:>10} {ios / wall_s / 1e6:>9.2f} {ios / used_s / 1e6:>9.2f} {2:>5} M")
    return missed


def demo_row(directory: Path) -> int:
    """The demonstration's wall time; answers 1 when it takes too long."""
    wall_s, used_s = time.monotonic(), cpu_s()
    where = directory / "demo"
    run(
        [sys.executable, "-m", "ssdbench", "run", str(DEMO), "--output", str(where)],
        timeout_s=900,
    )
    wall_s, used_s = time.monotonic() - wall_s, cpu_s() - used_s
    print(f"demo.yaml: {wall_s:.0f} s of wall time, {used_s:.0f} s of CPU, target 60 s")
    return int(wall_s > DEMO_TARGET_S)


def main() -> int:
    """Print the table; exit status 1 when a target is missed."""
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as directory:
        missed = fio_rows(Path(directory))
        if "--demo" in sys.argv[1:]:
            missed += demo_row(Path(directory))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
