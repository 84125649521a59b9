"""Measure the speed of the simulated drive: its core alone, and fio on its clock.

    python -m benchmarks.sim_speed

The core does random 4 KiB writes at queue depth 32 in steady state. Unmodified fio, with jobs as
threads, does random 4 KiB reads of `sim:p4800x` in virtual time. Rates are per second of CPU time,
which other work on the machine hardly changes.

MQSim (https://github.com/CMU-SAFARI/MQSim, commit 7ec40e3) took 21 s of CPU and 3.1 GB for
1 million random 4 KiB writes at queue depth 32, on two shared virtual processors.
"""

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from ssdbench.host.command import run
from ssdbench.sim import library
from ssdbench.sim.core import Drive, Job
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.simulation import fill
from ssdbench.sim.spec import parse

MQSIM_WRITES_PER_S = 1_000_000 / 21
GB = 10**9
IOS = 20_000_000
CASES = (  # bytes of the drive, over-provisioning, wanted writes/s (0: none), drive writes before
    (8 * GB, 70_000, 8e6, 4.0),
    (8 * GB, 140_000, 0.0, 4.0),
    (8 * GB, 280_000, 0.0, 4.0),
    (160 * GB, 70_000, 5e6, 1.5),
)
FIO_JOBS = (1, 2, 8, 32, 128)
FIO_IOS = 4_000_000
FIO_WANTED_PER_S = 2e6


def core_rows() -> int:
    """Print a line for each drive; return how many miss their target."""
    header = ("drive", "OP", "writes/s", "target", "NAND units/s", "WA", "x MQSim", "GB per TB")
    print("{:>7} {:>5} {:>10} {:>8} {:>13} {:>6} {:>8} {:>10}".format(*header))
    missed = 0
    for capacity, op_ppm, wanted, drive_writes in CASES:
        core = library.Params(
            {
                "capacity_bytes": capacity // 4096 * 4096,
                "op_ppm": op_ppm,
                "channels": 8,
                "dies_per_channel": 4,
                "erase_block_bytes": (256 if capacity < 100 * GB else 1024) * 1024,
            }
        )
        drive = Drive.in_memory(core)
        fill(drive)
        drive.run(Job(stop_bytes=int(capacity * drive_writes)))
        nand_before, began = drive.counters()["nand_write_units"], time.process_time()
        drive.run(Job(stop_ios=IOS, seed=2))
        took_s = time.process_time() - began
        nand = drive.counters()["nand_write_units"] - nand_before
        per_s = IOS / took_s
        missed += per_s < wanted
        target = f"{wanted / 1e6:.0f} M" if wanted else "-"
        print(
            f"{capacity // GB:>4} GB {op_ppm / 1e4:>4.0f}% {per_s / 1e6:>8.1f} M {target:>8} "
            f"{nand / took_s / 1e6:>11.1f} M {nand / IOS:>6.2f} "
            f"{per_s / MQSIM_WRITES_PER_S:>8.0f} "
            f"{core.state_bytes() / capacity * 1000:>10.2f}",
            flush=True,
        )
    return missed


def fio_rows(directory: Path) -> int:
    """Print a line for each number of jobs; return how many miss the target."""
    print(f"{'jobs':>5} {'I/Os':>10} {'M/s wall':>9} {'M/s CPU':>9} {'target':>7}")
    missed = 0
    for jobs in FIO_JOBS:
        state = directory / f"{jobs}.ssdb"
        SimDrive.create(parse("sim:p4800x"), state).close()
        argv = [
            "env", f"LD_PRELOAD={library.native_file('libssdb_virtualtime.so')}",
            f"SSDB_VT_STATE={state}",
            "fio", "--name=b", "--ioengine=nbd", "--uri=sim:", "--thread", "--group_reporting",
            "--clocksource=clock_gettime", "--rw=randread", "--bs=4096", "--size=1g",
            "--norandommap", f"--numjobs={jobs}", f"--io_size={4096 * FIO_IOS // jobs}",
            "--output-format=json",
        ]  # fmt: skip
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        said = run(argv, timeout_s=600).stdout
        wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        ios = int(json.loads("{" + said.partition("{")[2])["jobs"][0]["read"]["total_ios"])
        missed += ios / cpu_s < FIO_WANTED_PER_S
        print(
            f"{jobs:>5} {ios:>10} {ios / wall_s / 1e6:>9.2f} {ios / cpu_s / 1e6:>9.2f} "
            f"{FIO_WANTED_PER_S / 1e6:>5.0f} M",
            flush=True,
        )
    return missed


def main() -> int:
    """Print both tables; exit status 1 when a target is missed."""
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    missed = core_rows()
    with tempfile.TemporaryDirectory() as directory:
        missed += fio_rows(Path(directory))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
