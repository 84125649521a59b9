"""A smaller drive with the same physics.

A drive of 1/s of the capacity has about the same write amplification, IOPS and latency, and its
cliff after the same number of drive writes, when its spare ratio, the shares of buffer and caches
and its service times stay and it still has many superblocks; only its time axis is s times shorter.
Superblocks that hold fewer units are collected with less copying, so small drives are faster: by
how much is said, from the closed forms of `ssdbench.sim.truth`.
"""

from collections.abc import Mapping

from ssdbench.errors import UsageError
from ssdbench.sim import truth
from ssdbench.sim.library import FIFO, GREEDY, PAGE
from ssdbench.units import format_capacity, format_size

MIN_SUPERBLOCKS = 1000
SAME = 0.01  # of a rate: not worth a word


def scaled(
    params: Mapping[str, int], capacity_bytes: int, *, keep: frozenset[str] = frozenset()
) -> tuple[dict[str, int], tuple[str, ...]]:
    """The parameters for another capacity, and sentences on what was changed.

    Parameters in `keep` were set by the user and stay. Raises UsageError when no drive of this
    size can have the physics of the model.
    """
    resized = dict(params)
    full = params["capacity_bytes"]
    unit = max(params["map_unit_bytes"], params["lba_bytes"])
    resized["capacity_bytes"] = capacity_bytes // unit * unit
    if capacity_bytes == full:
        return resized, ()
    notes = []
    if params["ftl"] == PAGE:
        notes += _shares(resized, full, keep)
        notes += _superblocks(resized, keep)
        notes += _usable_spare(resized, params, keep)
    size = f"capacity is {format_capacity(capacity_bytes)} instead of {format_capacity(full)}"
    if capacity_bytes < full:
        size += (
            f": all that takes its time from the capacity happens {full / capacity_bytes:.3g} "
            f"times as soon, {_rates(params, resized)}"
        )
    return resized, (size, *notes)


def _rates(full: Mapping[str, int], small: Mapping[str, int]) -> str:
    """By how much random writes of the smaller drive are faster; its superblocks hold less."""
    same = "rates and latencies are unchanged"
    if full["ftl"] != PAGE:
        return same
    load = truth.Load(block_bytes=max(4096, full["map_unit_bytes"]))
    rates: list[float] = []
    for one in (full, small):
        # Those that choose among some superblocks come up to those that choose among all.
        policy = FIFO if one["gc_policy"] == FIFO else GREEDY
        params = {**one, "gc_policy": policy}
        spare = truth.medium(params).alpha > 1  # the core refuses a drive without
        amplified = truth.write_amplification(params, load) if spare else None
        if amplified is None and rates:
            return (
                "random writes over the whole drive are faster in steady state, by how much "
                "`ssdbench sim truth` simulates"
            )
        if amplified is None:
            return "rates that collection limits are not compared"
        rates.append(min(truth.page_limits(params, load, amplified).values()))
    change = rates[1] / rates[0] - 1
    if abs(change) < SAME:
        return f"{same} within {100 * SAME:.0f} %"
    much = f"{100 * abs(change):.0f} % {'faster' if change > 0 else 'slower'}"
    return f"random writes over the whole drive are {much} in steady state"


def _shares(params: dict[str, int], full: int, keep: frozenset[str]) -> list[str]:
    """Caches keep their share of the capacity; the buffer, besides, two programs per die."""
    notes = []
    dies = params["channels"] * params["dies_per_channel"]
    row = max(params["program_unit_bytes"] * params["planes"], params["map_unit_bytes"]) * dies
    for name, floor in (("cache_bytes", 1), ("slc_bytes", 1), ("wbuf_bytes", 2 * row)):
        if name in keep or not params[name]:
            continue
        before = params[name]
        share = before * params["capacity_bytes"] // full
        params[name] = max(share, min(before, floor))
        if params[name] != before:
            notes.append(f"{name} is {format_size(params[name])} instead of {format_size(before)}")
    return notes


def _superblocks(params: dict[str, int], keep: frozenset[str]) -> list[str]:
    """Shorten the erase block, and its erase time with it, until there are enough superblocks."""
    before = params["erase_block_bytes"]
    smallest = max(params["program_unit_bytes"] * params["planes"], params["map_unit_bytes"])
    if params["slc_bytes"] or params["slc_dynamic_ppm"]:
        smallest *= params["slc_bits"]
    while superblocks(params) < MIN_SUPERBLOCKS and "erase_block_bytes" not in keep:
        half = params["erase_block_bytes"] // smallest // 2 * smallest
        if not half:
            break
        params["t_erase_ns"] = params["t_erase_ns"] * half // params["erase_block_bytes"]
        params["erase_block_bytes"] = half
    if superblocks(params) < MIN_SUPERBLOCKS and "erase_block_bytes" not in keep:
        least = params["capacity_bytes"] * MIN_SUPERBLOCKS // max(1, superblocks(params))
        raise UsageError(
            f"a drive of {format_size(params['capacity_bytes'])} is too small for this model's "
            f"physics: it would have fewer than {MIN_SUPERBLOCKS} superblocks",
            hint=f"give it at least {format_size(least)}, or set erase_block yourself",
        )
    if params["erase_block_bytes"] == before:
        return []
    return [
        f"erase blocks are {format_size(params['erase_block_bytes'])} instead of "
        f"{format_size(before)}, with their erase time in proportion, to keep "
        f"{superblocks(params)} superblocks"
    ]


def _usable_spare(
    params: dict[str, int], full: Mapping[str, int], keep: frozenset[str]
) -> list[str]:
    """Keep the share of spare that collection can use.

    A few superblocks are never spare (being filled, or the low-water mark); of a smaller drive
    they are a larger share, for which the over-provisioning makes up.
    """
    if {"op_ppm", "gc_low"} & keep:
        return []
    reserved = params["gc_low"] + 1
    before, now = (
        reserved
        * p["erase_block_bytes"]
        * p["channels"]
        * p["dies_per_channel"]
        * 1_000_000
        // p["capacity_bytes"]
        for p in (full, params)
    )
    if now <= before:
        return []
    params["op_ppm"] += now - before
    return [
        f"over-provisioning is {params['op_ppm'] / 1e4:.2f} % instead of "
        f"{full['op_ppm'] / 1e4:.2f} %, so that the spare that collection can use stays the same"
    ]


def superblocks(params: Mapping[str, int]) -> int:
    """Superblocks of the medium: one erase block of every die each."""
    dies = params["channels"] * params["dies_per_channel"]
    physical = params["capacity_bytes"] * (1_000_000 + params["op_ppm"]) // 1_000_000
    return physical // (params["erase_block_bytes"] * dies)
