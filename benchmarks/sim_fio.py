"""How fast fio is on the simulated drive's clock: `python -m benchmarks.sim_fio [--demo]`.

Unmodified fio, jobs as threads, random 4 KiB reads of `sim:p4800x` in virtual time; I/Os per second
of wall time, and of the processor's time, which other load on the machine hardly changes.
With `--demo` also the wall time of `profiles/demo.yaml`, from the first fill to the report. With
`--user` instead: the fio that `ssdbench sim fio` starts for fixed jobs of a user, against the same
I/O on the way that runs take, one after the other in one go (A B A B …). A pair gives the ratio of
its user CPU times; what is told is the median with its interval of 95 %, from ranks alone.
"""

import json
import math
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from ssdbench.generator.fio import userjobs
from ssdbench.host.command import run
from ssdbench.sim import library
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse

TARGET = "sim:p4800x"
JOBS = (1, 2, 8, 32, 128)
IOS = 4_000_000
TARGET_PER_S = 2e6
USER_JOBS = {  # a user's options, and the same on our way
    "4 KiB random reads, QD 1": ("--rw=randread --bs=4k --ioengine=psync", 1),
    "4 KiB random reads, QD 32": ("--rw=randread --bs=4k --ioengine=libaio", 32),
    "4 KiB random writes, QD 32": ("--rw=randwrite --bs=4k --ioengine=io_uring", 32),
    "4 KiB 70/30, QD 16": ("--rw=randrw --rwmixread=70 --bs=4k --ioengine=libaio", 16),
    "128 KiB writes in order, QD 8": ("--rw=write --bs=128k --ioengine=libaio", 8),
    "4 KiB random reads, QD 8 x 4": ("--rw=randread --bs=4k --ioengine=libaio --numjobs=4", 8),
}
USER_IOS, ROUNDS, LEAST_SHARE = 600_000, 12, 0.95
RANK = 2  # of 12 pairs: their 3rd and 10th enclose the median in 96 of 100 cases (binomial)
DEMO = Path(__file__).resolve().parents[1] / "profiles" / "demo.yaml"
DEMO_TARGET_S = 60.0


def fio(state: Path, jobs: int) -> int:
    """One fio with so many jobs; answers the I/Os done."""
    argv = [
        "env", f"LD_PRELOAD={library.native_file('libssdb_virtualtime.so')}",
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


def started(state: Path, arguments: list[str]) -> float:
    """User CPU seconds of one fio on the drive's clock."""
    preloaded = library.native_file("libssdb_virtualtime.so")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run(["env", f"LD_PRELOAD={preloaded}", f"SSDB_VT_STATE={state}", "fio", *arguments],
        timeout_s=600)  # fmt: skip
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def user_way(options: list[str], directory: Path) -> list[str]:
    """What `ssdbench sim fio` hands to fio for a user's options."""
    asked = userjobs.command_line(options)
    if asked.sections is None:
        raise ValueError("options without a job")
    said = run(["fio", "--enghelp=nbd"], ok=range(256)).stdout
    known = frozenset(re.findall(r"^ *(\w+) +:", said, re.MULTILINE))
    made = userjobs.for_simulated_drive(asked.sections, engine_options=lambda engine: known)
    (directory / "user.fio").write_text(made.text)
    return [*asked.general, str(directory / "user.fio")]


def own_way(options: list[str], directory: Path) -> list[str]:
    """What a run of ours would hand to fio for the same I/O."""
    left = [one for one in options if not one.startswith("--ioengine")]
    return [*left, "--ioengine=nbd", "--uri=sim:", "--clocksource=clock_gettime"]


def user_rows(directory: Path) -> int:
    """A line for each job; answers how many are surely too slow, by their whole interval."""
    missed = 0
    every: list[float] = []
    print(f"{'job':<32}{'our way M/s CPU':>16}{'sim fio':>9}{'share':>7}  95 %")
    for job, (words, depth) in USER_JOBS.items():
        ios = USER_IOS // (4 if "128k" in words else 1)
        size = 128 * 1024 if "128k" in words else 4096
        jobs = 4 if "numjobs" in words else 1
        options = [
            "--name=b", *words.split(), f"--iodepth={depth}", "--size=1g", "--norandommap",
            "--thread", "--group_reporting", f"--io_size={size * ios // jobs}",
            "--output=/dev/null",
        ]  # fmt: skip
        rates: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(2 * ROUNDS):  # in turns, so that both meet the same load of the machine
            user = turn % 2 == 1
            state = directory / "drive.ssdb"
            state.unlink(missing_ok=True)
            SimDrive.create(parse(TARGET), state).close()
            arguments = (user_way if user else own_way)(options, directory)
            rates[user].append(ios / started(state, arguments) / 1e6)
        shares = sorted(
            theirs / ours for ours, theirs in zip(rates[False], rates[True], strict=True)
        )
        every += shares
        share = statistics.median(shares)
        low, high = shares[RANK], shares[-1 - RANK]
        missed += high < LEAST_SHARE
        told = f"{statistics.median(rates[False]):>16.2f}{statistics.median(rates[True]):>9.2f}"
        print(f"{job:<32}{told}{share:>7.3f}  {low:.3f} to {high:.3f}", flush=True)
    every.sort()
    half = 0.98 * math.sqrt(len(every))  # ranks beside the median: the normal form of the above
    low, high = (every[round(len(every) / 2 + side * half)] for side in (-1, 1))
    print(f"{'all':<57}{statistics.median(every):>7.3f}  {low:.3f} to {high:.3f}")
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
        if "--user" in sys.argv[1:]:
            return int(user_rows(Path(directory)) > 0)
        missed = fio_rows(Path(directory))
        if "--demo" in sys.argv[1:]:
            missed += demo_row(Path(directory))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
