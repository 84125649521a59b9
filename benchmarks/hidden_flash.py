"""Draw page-mapped drives, and give probes measurements of them on the core."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Self, cast

import numpy as np

from benchmarks.core_generator import core_job, direction
from benchmarks.zoo import Values, stalling
from ssdbench.engine.fiorun import FioRun
from ssdbench.engine.stage import Context
from ssdbench.generator.base import Job, JobOutcome, LoggedIo
from ssdbench.model.workload import Pattern
from ssdbench.sim.core import Drive, Op, RunResult
from ssdbench.stages.probe.bench import Bench
from ssdbench.stages.probe.spare import RemapUnit
from ssdbench.stats.inside.strides import Floats
from ssdbench.units import GIB, KIB, MIB, NS_PER_S

LONGEST_S = 20_000
BLOCK_BYTES = 64 * KIB  # of random writes in steady state
AMONG_FEW = 2  # of gc_policy
# What a declared criterion calls identifiable: room for a block, and what is within it.
LEAST_SPARE, MOST_SPARE = 0.06, 0.3


def spare(params: Values) -> float:
    """Return the share of hidden space over visible space, SLC blocks included."""
    return params["op_ppm"] / 1e6 + params.get("slc_bytes", 0) / params["capacity_bytes"]


def made(number: int, seed: int) -> Values:
    """Return the parameters of a number: any collector, paced or not, with a buffer or without."""
    rng = np.random.default_rng([0xF1A5, seed, number])
    unit = int(rng.choice([4, 8, 16, 32, 64])) * KIB
    page = max(unit, int(rng.choice([8, 16])) * KIB)
    channels = int(rng.choice([1, 2, 4, 8]))
    capacity = GIB
    # About a thousand superblocks, in whole pages.
    erase = max(2, round(capacity / 1000 / channels / page)) * page
    found = {
        "capacity_bytes": capacity,
        "op_ppm": round(float(np.exp(rng.uniform(np.log(0.04), np.log(0.5)))) * 1e6),
        "map_unit_bytes": unit,
        "channels": channels,
        "dies_per_channel": 1,
        "program_unit_bytes": page,
        "read_unit_bytes": page,
        "erase_block_bytes": erase,
        "t_prog_ns": int(rng.uniform(0.3e6, 2e6)),
        "t_read_ns": int(rng.uniform(40e3, 300e3)),
        "t_erase_ns": int(rng.uniform(1e6, 8e6)),
        "wbuf_bytes": int(rng.choice([0, 512, 2048, 8192, 32768])) * KIB,
        "wbuf_volatile": int(rng.integers(2)),
        "gc_policy": int(rng.integers(3)),
        "gc_d": int(rng.choice([2, 4, 10])),
        "gc_paced": int(rng.integers(2)),
        "gc_low": int(rng.integers(2, 6)),
        "noise_ppm": int(rng.choice([0, 50_000, 200_000])),
        "link_mbps": int(rng.choice([300, 600, 3200])),
        "fw_read_ns": int(rng.uniform(5e3, 60e3)),
        "fw_write_ns": int(rng.uniform(5e3, 60e3)),
        "seed": int(rng.integers(1, 2**31)),
    }
    if rng.random() < 0.3:
        found |= stalling(rng.uniform(1e9, 30e9), rng.uniform(5e6, 300e6), rng.integers(2))
    if rng.random() < 0.1:
        found["wbuf_bytes"] = int(rng.uniform(0.02, 0.2) * capacity) // MIB * MIB
    if rng.random() < 0.1:
        found |= {
            "bistable_period_ns": int(rng.uniform(20e9, 600e9)),
            "bistable_slow_ppm": int(rng.uniform(0.15, 1.0) * 1e6),
            "bistable_random": int(rng.integers(2)),
        }
    if rng.random() < 0.1:
        found |= {
            "erase_block_bytes": max(erase, 4 * page),
            "slc_bytes": int(rng.integers(2))
            * int(rng.uniform(0.003, 0.03) * capacity)
            // MIB
            * MIB,
            "slc_dynamic_ppm": int(rng.uniform(0.05, 1.0) * 1e6),
            "slc_t_prog_ns": found["t_prog_ns"] // 6,
            "slc_t_read_ns": found["t_read_ns"] // 2,
            "slc_full": int(rng.integers(2)),
            "gc_paced": 1,
        }
    return found


def room(params: Values) -> str:
    """Name the class of the spare area, and what makes it hard to measure."""
    size = "6 to 30 %" if LEAST_SPARE <= spare(params) <= MOST_SPARE else "little or much"
    in_the_way = "phases" if params.get("bistable_period_ns") else ""
    if params["gc_policy"] == AMONG_FEW:
        in_the_way = "overlooks free blocks"
    elif params.get("slc_dynamic_ppm") or params.get("slc_bytes"):
        in_the_way = "SLC"
    elif params["wbuf_bytes"] > 0.05 * params["capacity_bytes"]:
        in_the_way = "large buffer"
    return ", ".join(filter(None, (size, in_the_way)))


def logged(said: RunResult) -> LoggedIo:
    """Return the requests that a run kept, as a generator's log has them."""
    ios = said.per_io
    return LoggedIo(
        t_ns=(ios["submit_ns"] + ios["latency_ns"]).astype(np.int64).tolist(),
        offset_bytes=ios["offset"].tolist(),
        latency_ns=ios["latency_ns"].tolist(),
        is_write=(ios["op"] == 1).tolist(),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    """Hold what a bench reads of a run of the generator."""

    jobs: list[JobOutcome]
    last: RunResult

    @property
    def series(self) -> Self:
        """The seconds of the last job."""
        return self

    def column(self, name: str) -> Floats:
        """The bytes written in each second."""
        return np.asarray(self.last.seconds["bytes"][:, 1], dtype=np.float64)

    def outcome(self) -> Self:
        """What the jobs did."""
        return self

    def logged(self, job: str) -> LoggedIo:
        """All requests of the last job."""
        return logged(self.last)


class CoreBench(Bench):
    """Give probes their measurements on the core instead of through fio; without flushes."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        context = SimpleNamespace(
            seed=0,
            target=SimpleNamespace(
                size_bytes=drive.capacity_bytes, logical_block_bytes=drive.lba_bytes
            ),
            session=SimpleNamespace(discard=partial(drive.submit, Op.TRIM)),
        )
        super().__init__(RemapUnit(), cast("Context", context))  # the probe only names jobs

    def amplification(self) -> float:
        """Return the write amplification of random writes to the whole drive in steady state.

        What passes through SLC first is counted where it ends.
        """
        size = self.size_bytes
        self.fill(size)
        self.write(Pattern.RANDOM, BLOCK_BYTES, 32, size, 2 * size)
        before = self.drive.counters()
        self.write(Pattern.RANDOM, BLOCK_BYTES, 32, size, size // 2)
        after = self.drive.counters()
        names = ("nand_write_units", "slc_write_units", "host_write_units")
        nand, slc, host = (after[name] - before[name] for name in names)
        return (nand - slc) / host

    def _start(self, jobs: Sequence[Job]) -> FioRun:
        """Run jobs; a load of few reads is a rest, in which nothing at all is read."""
        rests_s = [job.runtime_s or 0.0 for job in jobs if job.workload.rate_iops]
        runs, done = list[RunResult](), list[JobOutcome]()
        for job in jobs[len(rests_s) :]:
            self._starts += 1
            asked = replace(core_job(job), seed=self._starts, idle_s=sum(rests_s))
            before_ns, ios = self.drive.now_ns, asked.stop_bytes // asked.block_bytes
            said = self.drive.run(asked, seconds=LONGEST_S, per_io=ios if job.latency_log else 0)
            runs.append(said)
            # One of several jobs takes until its last answer, by when the next has begun.
            took_s = (self.drive.now_ns - before_ns) / NS_PER_S
            read, write = (
                replace(direction(said, side), runtime_s=said.duration_s if jobs[1:] else took_s)
                for side in (0, 1)
            )
            done.append(JobOutcome(job.name, read, write))
        return cast("FioRun", Ran(done, runs[-1]))
