"""Find the true rates of a simulated drive with long runs of the core, if no formula is known."""

import math
from collections.abc import Mapping
from dataclasses import replace

from ssdbench.errors import UsageError
from ssdbench.model.workload import Pattern
from ssdbench.sim.core import Drive, Job, Order, RunResult
from ssdbench.sim.library import BLOCKLOG, PAGE, Params
from ssdbench.sim.truth import Load, Method, Rest, Truth, check, drive_truth
from ssdbench.units import MIB

FILL_BLOCK_BYTES = MIB
STAYS_WITHIN = 0.005  # most relative change between two runs in a row that count as steady
MAX_STRETCHES = 60
AFTER_STEP_FILLS = 0.5  # drive writes from a model's step to the measurement
AGED = 1_000  # added to the seed of aging writes, so that they differ from other writes
_LEAST_IOS = 20_000


def simulate(target: str, p: Mapping[str, int], load: Load) -> Truth:
    """Fill a drive, write until its rate no longer changes, and return the true values.

    The load runs again and again, each time with the same number of I/Os, until the rates agree.
    """
    check(p, load)
    drive = Drive.in_memory(Params(dict(p)))
    if load.rest is not Rest.EMPTY:
        fill(drive)
    if load.rest is Rest.STATIC and load.span_bytes:
        everywhere = _job(p, replace(load, span_bytes=None, pattern=Pattern.RANDOM), read_percent=0)
        wear_in(drive, everywhere)
        steady(drive, everywhere)
    writes, asked = _job(p, load, read_percent=0), _job(p, load, read_percent=load.read_percent)
    wear_in(drive, writes)
    at_fills = load.at_fills
    if at_fills is None and p["step_after_ppm"]:
        at_fills = max(fills(drive), p["step_after_ppm"] / 1e6 + AFTER_STEP_FILLS)
    if load.read_percent and at_fills is None and not p["drift_ppm_per_fill"]:
        steady(drive, writes)
    if at_fills is not None:
        age(drive, writes, at_fills)
    began = fills(drive)
    if load.horizon_s is not None:
        result, amplification = _stretch(drive, asked, 0, 0, 0, stop_s=load.horizon_s)
    elif p["drift_ppm_per_fill"]:  # the rate never stays constant, so one run must do
        result, amplification = _stretch(drive, asked, _stretch_ios(drive, asked), 0, 0)
    else:
        result, amplification = steady(drive, asked)
    return Truth(
        target=target,
        drive=drive_truth(p),
        load=load,
        method=Method.SIMULATION,
        write_amplification=amplification if p["ftl"] in (PAGE, BLOCKLOG) else None,
        iops=result.iops,
        bytes_per_s=result.bytes_per_s,
        from_fills=began,
        to_fills=fills(drive),
    )


def fills(drive: Drive) -> float:
    """Return how many times the whole capacity of a drive has been written so far."""
    return drive.counters()["host_write_bytes"] / drive.capacity_bytes


def age(drive: Drive, job: Job, at_fills: float) -> None:
    """Write until `at_fills` drive fills were written. Raises UsageError if the drive had more."""
    left = round((at_fills - fills(drive)) * drive.capacity_bytes)
    if left < 0:
        raise UsageError(
            f"after {at_fills:g} drive writes this drive is not worn in yet",
            hint=f"use at least --at {math.ceil(fills(drive) * 10) / 10:g}",
        )
    if left >= job.block_bytes:
        drive.run(replace(job, stop_bytes=left, seed=job.seed + AGED))


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
    """Write as many bytes as the whole flash has, so that each of its blocks was used once."""
    p = drive.params()
    if p["ftl"] == PAGE:
        physical = p["capacity_bytes"] * (1_000_000 + p["op_ppm"]) // 1_000_000
        drive.run(replace(job, read_percent=0, stop_bytes=physical + p["slc_bytes"]))


def steady(drive: Drive, job: Job) -> tuple[RunResult, float | None]:
    """Run the job in parts until rate and write amplification are constant; return the last part.

    Each part on a page-mapped drive writes half as many bytes as the span has. Call `wear_in`
    first: the rate of a new drive is also constant until its spare area is used up. The returned
    write amplification is None if nothing was written.
    """
    ios = _stretch_ios(drive, job)
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


def _stretch_ios(drive: Drive, job: Job) -> int:
    span = job.span_bytes or drive.capacity_bytes
    half = span // job.block_bytes // 2
    return max(_LEAST_IOS, half) if drive.params()["ftl"] == PAGE else _LEAST_IOS


def _stretch(
    drive: Drive, job: Job, ios: int, stretch: int, position: int, *, stop_s: float = 0.0
) -> tuple[RunResult, float | None]:
    began = drive.counters()
    result = drive.run(
        replace(job, position=position, seed=job.seed + stretch, stop_ios=ios, stop_s=stop_s)
    )
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
