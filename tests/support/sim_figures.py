"""Measures a model's main figures with the core, as its `simulated:` block says.

`python -m tests.support.sim_figures MODEL…` prints them, to be put into a changed model file.
"""

import sys
from collections.abc import Callable

from ssdbench.sim.core import Drive, Job, Order
from ssdbench.sim.library import Params
from ssdbench.sim.simulation import fill, steady
from ssdbench.sim.spec import ModelCard, SimSpec, catalogue, parse

KIB = 1024
SPAN_8GB = 8_000_000_000  # the span of client drives' data sheets


class Bench:
    """A model, and drives of it in the states that figures are measured in."""

    def __init__(self, card: ModelCard, target: str | None = None) -> None:
        self.spec: SimSpec = parse(target or f"sim:{card.name}")
        self.share = self.spec.capacity_bytes / card.capacity_bytes
        self.depth = self.spec.params["queue_slots"] or 256
        self.bulk = max(128 * KIB, self.spec.params["map_unit_bytes"])
        self._filled: Drive | None = None

    def fresh(self) -> Drive:
        return Drive.in_memory(Params(dict(self.spec.params)))

    def filled(self) -> Drive:
        if self._filled is None:
            self._filled = self.fresh()
            fill(self._filled)
        return self._filled

    def sequential(self, *, read: bool) -> float:
        job = Job(
            order=Order.SEQUENTIAL,
            read_percent=100 if read else 0,
            block_bytes=self.bulk,
            stop_bytes=self.spec.capacity_bytes // 10,
        )
        return self.filled().run(job).bytes_per_s / 1e6

    def reads(self, block_bytes: int, iodepth: int) -> float:
        job = Job(
            read_percent=100, block_bytes=block_bytes, iodepth=iodepth, stop_ios=100_000, idle_s=60
        )
        return self.filled().run(job).iops

    def steady_writes(self, block_bytes: int, span_bytes: int = 0) -> float:
        drive = self.fresh()
        fill(drive)
        unit = self.spec.params["map_unit_bytes"]
        span = int(span_bytes * self.share) // unit * unit
        job = Job(block_bytes=block_bytes, iodepth=self.depth, span_bytes=span)
        return steady(drive, job)[0].iops

    def fresh_writes(self) -> float:
        job = Job(iodepth=self.depth, stop_bytes=self.spec.capacity_bytes // 20)
        return self.fresh().run(job).iops

    def latency_us(self, *, read: bool) -> float:
        job = Job(read_percent=100 if read else 0, iodepth=1, stop_ios=500, idle_s=60)
        return self.filled().run(job).mean_ns[0 if read else 1] / 1e3

    def slc_writes(self) -> float:
        job = Job(
            order=Order.SEQUENTIAL,
            block_bytes=self.bulk,
            stop_bytes=self.spec.capacity_bytes // 20,
        )
        return self.fresh().run(job).bytes_per_s / 1e6

    def slc_reads(self) -> float:
        drive, span = self.fresh(), self.spec.capacity_bytes // 20
        drive.run(Job(order=Order.SEQUENTIAL, block_bytes=self.bulk, stop_bytes=span))
        return drive.run(
            Job(read_percent=100, iodepth=self.depth, span_bytes=span, stop_ios=100_000)
        ).iops

    def boundary_kib(self) -> float:
        drive, stride = self.filled(), 32 * KIB
        job = Job(order=Order.STRIDED, stride_bytes=stride, iodepth=1, stop_ios=512)
        ios = drive.run(job, per_io=512).per_io[64:]
        slow = ios["offset"][ios["latency_ns"] > 5 * sorted(ios["latency_ns"])[224]]
        return float((slow[1:] - slow[:-1]).min()) / KIB


MEASURES: dict[str, Callable[[Bench], float]] = {
    "seq_read_mbps": lambda b: b.sequential(read=True),
    "seq_write_mbps": lambda b: b.sequential(read=False),
    "random_read_iops": lambda b: b.reads(4 * KIB, b.depth),
    "random_read_qd16_iops": lambda b: b.reads(4 * KIB, 16),
    "random_read_512b_iops": lambda b: b.reads(512, b.depth),
    "random_read_slc_iops": Bench.slc_reads,
    "random_write_fresh_iops": Bench.fresh_writes,
    "random_write_8gb_iops": lambda b: b.steady_writes(4 * KIB, SPAN_8GB),
    "random_write_iops": lambda b: b.steady_writes(4 * KIB),
    "random_write_16k_iops": lambda b: b.steady_writes(16 * KIB),
    "read_us": lambda b: b.latency_us(read=True),
    "write_us": lambda b: b.latency_us(read=False),
    "slc_write_mbps": Bench.slc_writes,
    "boundary_kib": Bench.boundary_kib,
}


def main(names: list[str]) -> None:
    for card in catalogue():
        if names and card.name not in names:
            continue
        bench = Bench(card)
        print(card.name)
        for name in card.figures:
            print(f"  {name}: {MEASURES[name](bench):.4g}   # published {card.figures[name]:g}")


if __name__ == "__main__":
    main(sys.argv[1:])
