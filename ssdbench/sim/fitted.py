"""Parse the description of a series' workload, and write fitted parameters as a model file."""

import json
import math
from pathlib import Path
from typing import Any

from ssdbench.errors import UsageError
from ssdbench.sim.amplification import Before, Writes
from ssdbench.sim.fit import REWRITE, Fit, Observed, last_fill, observed, predict
from ssdbench.sim.series import read_series
from ssdbench.units import GIB, KIB, format_rate, format_size, parse_size

DIES = 64
PROGRAM_BYTES = 32 * KIB  # of one die, with all its planes
GC_LOW = 3
FILLS = 8  # of random writes, after which the rate is steady
LEAST_SUPERBLOCKS = 512  # where the size is not known; collection keeps a few of them
KEYS = ("pattern", "span", "block", "iodepth", "before")


def measured(text: str) -> Observed:
    """Return the run of a SERIES: its file, and after commas `KEYS` with values.

    Raises UsageError if the text is not a series.
    """
    path, *settings = text.split(",")
    said = dict(setting.partition("=")[::2] for setting in settings)
    wrong = [key for key in said if key not in KEYS]
    if wrong or not said.get("pattern") or not said.get("span"):
        raise UsageError(
            f"{text}: "
            + (f"there is no key {wrong[0]!r}" if wrong else "pattern or span is missing"),
            hint="such as rates.csv,pattern=zipf:0.8,span=894GiB,block=4KiB,before=sequential",
        )
    before, iodepth = said.get("before", Before.SEQUENTIAL), said.get("iodepth", "128")
    if before not in list(Before) or not iodepth.isdecimal():
        raise UsageError(f"{text}: before is {', '.join(Before)}; iodepth is a whole number")
    try:
        writes = Writes(
            said["pattern"],
            parse_size(said["span"]),
            parse_size(said.get("block", "4KiB")),
            Before(before),
            int(iodepth),
        )
    except ValueError as error:
        raise UsageError(f"{text}: {error}") from error
    return observed(path, writes, read_series(Path(path), writes.span_bytes))


def model_text(fit: Fit, capacity_bytes: int, title: str, runs: int, drive: str = "") -> str:
    """Return a model file for `sim:PATH.yaml` with the fitted parameters of the core.

    With `drive`, the real drive's model string, the file also has the rates of sequential writes
    and of 4 KiB random writes to the whole drive in steady state, from which `plan` estimates.
    The geometry is the same for every drive: rates of writes tell only the time of all dies
    together. The model's garbage collection reads single units, so that the time of its reads is
    that of `copy_cost`.
    """
    found = fit.parameters
    unknown = min(GIB, capacity_bytes / LEAST_SUPERBLOCKS)
    superblock = unknown if math.isnan(found.superblock_bytes) else found.superblock_bytes
    block = max(1, round(superblock / DIES / PROGRAM_BYTES)) * PROGRAM_BYTES
    kept = (GC_LOW + (found.policy.streams + 1) / 2) * block * DIES
    op = (found.physical_bytes + kept) / capacity_bytes - 1
    program_ns = DIES * PROGRAM_BYTES / found.flash_bytes_per_s * 1e9
    read_ns = found.copy_cost * DIES * 4 * KIB / found.flash_bytes_per_s * 1e9
    link = max(found.most_bytes_per_s.values()) / 1e6
    params = {
        "capacity": capacity_bytes,
        "op": round(op * 1e6),
        "channels": 8,
        "dies_per_channel": DIES // 8,
        "planes": 2,
        "program_unit": "16KiB",
        "read_unit": "4KiB",
        "erase_block": block,
        "t_read": round(read_ns),
        "t_prog": round(program_ns),
        "t_erase": 0,
        "channel": 100000,
        "link": max(1, round(link)),
        "wbuf": "32MiB",
        "cmd_serial": 0,
        "gc_policy": found.policy.name,
        "gc_d": found.policy.choices,
        "gc_streams": found.policy.streams,
        "gc_low": GC_LOW,
    }
    lines = [
        f"title: {json.dumps(title)}",
        "sources:",
        f'  - "fitted to {runs} series of write rates"',
    ]
    if drive:
        writes = Writes("random", capacity_bytes)
        rate = last_fill(predict(found, writes, FILLS))
        in_order = min(found.flash_bytes_per_s, *found.most_bytes_per_s.values())
        lines += [
            f"drive: {json.dumps(drive)}",
            "simulated:",
            f"  random_write_iops: {rate / writes.block_bytes:.0f}",
            f"  seq_write_mbps: {in_order / 1e6:.0f}",
        ]
    lines += [
        "differences:",
        *(f"  - {json.dumps(note)}" for note in notes(fit, capacity_bytes)),
        "params:",
    ]
    lines += [f"  {name}: {value}" for name, value in params.items()]
    return "\n".join(lines) + "\n"


def told(fit: Fit) -> dict[str, Any]:
    """Return the parameters and their ranges.

    Each range covers several fits: the fit to all workloads, and for each workload the fit to all
    others.
    """
    found = fit.parameters
    left = [found, *fit.without.values()]
    spares = [one.physical_bytes for one in left]
    flashes = [one.flash_bytes_per_s for one in left]
    streams = [one.policy.streams for one in left]
    return {
        "physical_bytes": found.physical_bytes,
        "physical_bytes_range": (min(spares), max(spares)),
        "gc_policy": str(found.policy),
        "gc_policies": tuple(sorted({str(one.policy) for one in left})),
        "gc_streams": found.policy.streams,
        "gc_streams_range": (min(streams), max(streams)),
        "superblock_bytes": None if math.isnan(found.superblock_bytes) else found.superblock_bytes,
        "flash_bytes_per_s": found.flash_bytes_per_s,
        "flash_bytes_per_s_range": (min(flashes), max(flashes)),
        "copy_cost": found.copy_cost,
        "most_bytes_per_s": dict(found.most_bytes_per_s),
        "loss": fit.loss,
        "error_without": {
            f"{one.pattern},span={one.span_bytes}": error for one, error in fit.errors.items()
        },
    }


def notes(fit: Fit, capacity_bytes: int) -> list[str]:
    """Return sentences on the parameters and how well they are known."""
    said = told(fit)
    low, high = (one / capacity_bytes - 1 for one in said["physical_bytes_range"])
    slow, fast = said["flash_bytes_per_s_range"]
    superblock = said["superblock_bytes"]
    spare = f"spare area {said['physical_bytes'] / capacity_bytes - 1:.1%}"
    collection = f"garbage collection {said['gc_policy']}"
    streams = f"streams of collected data {said['gc_streams']}"
    flash = f"flash {format_rate(said['flash_bytes_per_s'])}"
    left_out = "no workload was left out: a fit needs another one that does not rewrite zones"
    if any(one.kind != REWRITE for one in fit.without):
        spare += f"; without one workload each {low:.1%} to {high:.1%}"
        collection += f"; without one workload each {', '.join(said['gc_policies'])}"
        fewest, most = said["gc_streams_range"]
        streams += f"; without one workload each {fewest} to {most}"
        flash += f"; without one workload each {format_rate(slow)} to {format_rate(fast)}"
        worst = max(abs(math.expm1(-error)) for error in fit.errors.values())
        left_out = f"each workload that was left out is predicted within {worst:.0%}"
    else:
        collection += " and the cost of copying are assumed: one workload does not tell them"
    return [
        spare,
        collection,
        streams,
        flash,
        f"superblock {format_size(int(superblock))}"
        if superblock
        else "superblock not identifiable: no series rewrites zones",
        "write buffer and cache not identifiable: rates of sustained writes do not tell them",
        left_out,
        "not fitted: reads, latency, heat, TRIM",
    ]
