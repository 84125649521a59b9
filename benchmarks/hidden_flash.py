"""Draw page-mapped drives, and give probes measurements of them on the core."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.zoo import Values
from ssdbench.generator.base import Direction
from ssdbench.model.workload import Pattern
from ssdbench.sim.core import Drive, Job, Op, Order
from ssdbench.stages.probe.bench import Bench
from ssdbench.stats.inside.strides import Floats
from ssdbench.units import GIB, KIB, MIB, NS_PER_S

LONGEST_S = 20_000
AMONG_FEW = 2  # of gc_policy
# What a declared criterion calls identifiable: room for a block, and what is within it.
LEAST_SPARE, MOST_SPARE = 0.06, 0.3
FIRST_FILL = 128 * KIB
ORDERS = {Pattern.SEQUENTIAL: Order.SEQUENTIAL, Pattern.STRIDED: Order.STRIDED}


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
        found |= {
            "stall_period_ns": int(rng.uniform(1e9, 30e9)),
            "stall_ns": int(rng.uniform(5e6, 300e6)),
            "stall_random": int(rng.integers(2)),
        }
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


class CoreBench(Bench):
    """Give probes their measurements on the core instead of through fio; without flushes."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self._runs = 0

    @property
    def size_bytes(self) -> int:
        return self.drive.capacity_bytes

    @property
    def logical_block_bytes(self) -> int:
        return self.drive.lba_bytes

    def fill(self, length_bytes: int, *, pattern: Pattern = Pattern.SEQUENTIAL) -> Floats:
        """Write the drive's first `length_bytes` once."""
        block = FIRST_FILL if pattern is Pattern.SEQUENTIAL else 4 * KIB
        return self.write(pattern, block, 32, length_bytes, length_bytes)

    def write(
        self,
        pattern: Pattern,
        block_bytes: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int,
        *,
        cover: bool = False,
    ) -> Floats:
        """Write `total_bytes`; return the bytes of each second."""
        job = self._core_job(pattern, block_bytes, iodepth, span_bytes, stop_bytes=total_bytes)
        said = self.drive.run(job, seconds=LONGEST_S)
        return np.asarray(said.seconds["bytes"][:, 1], dtype=np.float64)

    def rate(
        self,
        pattern: Pattern,
        block_bytes: int,
        read_percent: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int,
        *,
        stride_bytes: int | None = None,
    ) -> Direction:
        """Move `total_bytes`; return the totals of the reads, or of the writes without reads."""
        job = self._core_job(
            pattern, block_bytes, iodepth, span_bytes,
            stop_bytes=total_bytes // block_bytes * block_bytes,
        )  # fmt: skip
        before = self.drive.now_ns
        said = self.drive.run(
            replace(job, read_percent=read_percent, stride_bytes=stride_bytes or 0)
        )
        which = 0 if read_percent else 1
        return Direction(
            ios=said.ios[which],
            bytes=said.bytes[which],
            runtime_s=(self.drive.now_ns - before) / NS_PER_S,
            lat_mean_ns=said.mean_ns[which],
        )

    def random_writes(
        self,
        block_bytes: int,
        iodepth: int,
        span_bytes: int,
        total_bytes: int,
        offsets: Sequence[int],
    ) -> list[float]:
        """Write at random from each offset on, without a rest; return bytes per second."""
        rates = []
        for offset in offsets:
            job = self._core_job(
                Pattern.RANDOM, block_bytes, iodepth, span_bytes - offset, stop_bytes=total_bytes
            )
            said = self.drive.run(replace(job, offset_bytes=offset))
            rates.append(said.bytes_per_s)
        return rates

    def latencies(
        self,
        block_bytes: int,
        iodepth: int,
        span_bytes: int,
        ios: int,
        *,
        rest_s: float = 2.0,
        pattern: Pattern = Pattern.RANDOM,
        offset: int = 0,
        quiet_iops: float = 0.0,
    ) -> Floats:
        """Return the latencies in ns of writes that begin after a rest without any reads."""
        job = self._core_job(pattern, block_bytes, iodepth, span_bytes)
        job = replace(job, offset_bytes=offset, idle_s=rest_s, stop_ios=ios)
        return np.asarray(self.drive.run(job, per_io=ios).per_io["latency_ns"], dtype=np.float64)

    def discard(self, offset_bytes: int, length_bytes: int) -> bool:
        """Discard a range; every simulated drive takes it."""
        self.drive.submit(Op.TRIM, offset_bytes, length_bytes)
        return True

    def _core_job(
        self, pattern: Pattern, block_bytes: int, iodepth: int, span_bytes: int, stop_bytes: int = 0
    ) -> Job:
        self._runs += 1
        return Job(
            order=ORDERS.get(pattern, Order.RANDOM),
            block_bytes=block_bytes,
            iodepth=iodepth,
            span_bytes=span_bytes // block_bytes * block_bytes,
            seed=self._runs,
            stop_bytes=stop_bytes,
        )
