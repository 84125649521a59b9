"""Long runs of the core, for what no closed form says: fill, wear in, measure until it stays."""

from collections.abc import Mapping
from dataclasses import replace

from ssdbench.model.workload import Pattern
from ssdbench.sim.core import Drive
from ssdbench.sim.library import BLOCKLOG, PAGE, Params
from ssdbench.sim.loop import Job, Order, RunResult
from ssdbench.sim.truth import Load, Method, Rest, Truth, check, drive_truth
from ssdbench.units import MIB

FILL_BLOCK_BYTES = MIB
STAYS_WITHIN = 0.005  # relative difference of two stretches in a row that count as steady
MAX_STRETCHES = 60
_LEAST_IOS = 20_000


def simulate(target: str, p: Mapping[str, int], load: Load) -> Truth:
    """The truth by simulation: a filled drive, worn in by the load until its rate stays."""
    check(p, load)
    drive = Drive.in_memory(Params(dict(p)))
    if load.rest is not Rest.EMPTY:
        fill(drive)
    if load.rest is Rest.STATIC and load.span_bytes:
        everywhere = _job(p, replace(load, span_bytes=None, pattern=Pattern.RANDOM), read_percent=0)
        wear_in(drive, everywhere)
        steady(drive, everywhere)
    wear_in(drive, _job(p, load, read_percent=0))
    if load.read_percent:
        steady(drive, _job(p, load, read_percent=0))
    result, amplification = steady(drive, _job(p, load, read_percent=load.read_percent))
    return Truth(
        target=target,
        drive=drive_truth(p),
        load=load,
        method=Method.SIMULATION,
        write_amplification=amplification if p["ftl"] in (PAGE, BLOCKLOG) else None,
        iops=result.iops,
        bytes_per_s=result.bytes_per_s,
    )


def fill(drive: Drive) -> RunResult:
    """Write the whole drive once, sequentially."""
    block = min(FILL_BLOCK_BYTES, drive.capacity_bytes)
    result = drive.run(
        Job(order=Order.SEQUENTIAL, block_bytes=block, stop_bytes=drive.capacity_bytes)
    )
    if rest := drive.capacity_bytes % block:
        drive.run(
            Job(
                order=Order.SEQUENTIAL,
                block_bytes=drive.lba_bytes,
                offset_bytes=drive.capacity_bytes - rest,
                stop_bytes=rest,
            )
        )
    return result


def wear_in(drive: Drive, job: Job) -> None:
    """Write as much as the whole flash holds, so that nothing of it is left unwritten."""
    p = drive.params()
    if p["ftl"] == PAGE:
        physical = p["capacity_bytes"] * (1_000_000 + p["op_ppm"]) // 1_000_000
        drive.run(replace(job, read_percent=0, stop_bytes=physical + p["slc_bytes"]))


def steady(drive: Drive, job: Job) -> tuple[RunResult, float | None]:
    """Run stretches until rate and amplification stay; answers the last ones.

    A stretch of a page-mapped drive is half a span. Its spare must have been used up before:
    a fresh drive is deceptively steady (`wear_in`). The amplification is None when nothing was
    written.
    """
    span = job.span_bytes or drive.capacity_bytes
    ios = _LEAST_IOS
    if drive.params()["ftl"] == PAGE:
        ios = max(ios, span // job.block_bytes // 2)
    before: tuple[float, float] = (0.0, 0.0)
    agreed = 0
    result, amplification = _stretch(drive, job, ios, 0, job.position)
    for stretch in range(1, MAX_STRETCHES):
        result, amplification = _stretch(drive, job, ios, stretch, result.position)
        now = (result.iops, amplification or 1.0)
        near = all(abs(a - b) <= STAYS_WITHIN * a for a, b in zip(now, before, strict=True))
        agreed = agreed + 1 if near else 0
        if agreed == 2:
            break
        before = now
    return result, amplification


def _stretch(
    drive: Drive, job: Job, ios: int, stretch: int, position: int
) -> tuple[RunResult, float | None]:
    began = drive.counters()
    result = drive.run(replace(job, position=position, seed=job.seed + stretch, stop_ios=ios))
    ended = drive.counters()
    host = ended["host_write_bytes"] - began["host_write_bytes"]
    unit = drive.params()["map_unit_bytes"]
    nand = (ended["nand_write_units"] - began["nand_write_units"]) * unit
    units = ended["host_write_units"] - began["host_write_units"]
    return result, nand / (units * unit) if host else None


def _job(p: Mapping[str, int], load: Load, *, read_percent: float) -> Job:
    return Job(
        order=Order.RANDOM if load.pattern is Pattern.RANDOM else Order.SEQUENTIAL,
        read_percent=read_percent,
        iodepth=load.iodepth,
        block_bytes=load.block_bytes,
        span_bytes=load.span_bytes or 0,
        seed=p["seed"],
    )
