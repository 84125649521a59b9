"""How fast the simulated drive's core is, and what it needs: `python -m benchmarks.sim_core`.

Random 4 KiB writes at queue depth 32 through the core's own loop, in steady state, on one
processor; CPU seconds of this process, so that other load on the machine shows little.

MQSim (https://github.com/CMU-SAFARI/MQSim, commit 7ec40e3) took 21 s of CPU and 3.1 GB for
1 million random 4 KiB writes at queue depth 32, on two shared virtual processors.
"""

import os
import sys
import time
from dataclasses import dataclass

from ssdbench.sim.core import Drive, Job
from ssdbench.sim.library import Params
from ssdbench.sim.simulation import fill
from ssdbench.units import GIB

MQSIM_WRITES_PER_S = 1_000_000 / 21
GB = 10**9


@dataclass(frozen=True)
class Case:
    name: str
    capacity_bytes: int
    op_ppm: int
    target_per_s: float  # 0: none
    drive_writes: float  # before measuring
    ios: int  # measured


CASES = (
    Case("8 GB", 8 * GB, 70_000, 8e6, 4, 20_000_000),
    Case("8 GB", 8 * GB, 140_000, 0, 4, 20_000_000),
    Case("8 GB", 8 * GB, 280_000, 0, 4, 20_000_000),
    Case("160 GB", 160 * GB, 70_000, 5e6, 1.5, 20_000_000),
)


def params(case: Case) -> dict[str, int]:
    """A drive of 64 dies whose superblocks hold some thousand units."""
    return {
        "capacity_bytes": case.capacity_bytes // 4096 * 4096,
        "op_ppm": case.op_ppm,
        "channels": 8,
        "dies_per_channel": 4,
        "erase_block_bytes": 256 * 1024 if case.capacity_bytes < 100 * GIB else 1024 * 1024,
    }


def measure(case: Case) -> tuple[float, float, float, int]:
    """Writes per CPU second, NAND units per CPU second, amplification, bytes of state."""
    core = Params(params(case))
    drive = Drive.in_memory(core)
    fill(drive)
    drive.run(Job(stop_bytes=int(case.capacity_bytes * case.drive_writes)))
    before = drive.counters()
    began = time.process_time()
    drive.run(Job(stop_ios=case.ios, seed=2))
    took = time.process_time() - began
    nand = drive.counters()["nand_write_units"] - before["nand_write_units"]
    return case.ios / took, nand / took, nand / case.ios, core.state_bytes()


def main() -> int:
    """Print the table; exit status 1 when a target is missed."""
    print(f"one processor of {os.cpu_count()}, load average {os.getloadavg()[0]:.1f}")
    header = ("drive", "OP", "writes/s", "target", "NAND units/s", "WA", "x MQSim", "GB per TB")
    print("{:>7} {:>5} {:>10} {:>8} {:>13} {:>6} {:>8} {:>10}".format(*header))
    missed = 0
    for case in CASES:
        writes, nand, amplification, state = measure(case)
        missed += writes < case.target_per_s
        target = f"{case.target_per_s / 1e6:.0f} M" if case.target_per_s else "-"
        print(
            f"{case.name:>7} {case.op_ppm / 1e4:>4.0f}% {writes / 1e6:>8.1f} M {target:>8} "
            f"{nand / 1e6:>11.1f} M {amplification:>6.2f} {writes / MQSIM_WRITES_PER_S:>8.0f} "
            f"{state / case.capacity_bytes * 1000:>10.2f}"
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
