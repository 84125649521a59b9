"""Simulate the write amplification of a write pattern, fill by fill, on a small copy of a drive.

Write amplification depends only on ratios: the spare area to the written range, the writes to each
part of the range to all writes, and the superblock to the range. So a copy with some hundred
thousand mapped units behaves like a drive of terabytes, and the core fills it several times in a
fraction of a second.

A pattern is written like fio's `random_distribution`; the last pattern is our own:

* `random`: every unit equally often
* `zipf:0.8`: Zipf with this exponent; the often written units are scattered over the range
* `zipf-in-order:0.8`: the same, but they are at the start of the range
* `zoned:90/10:10/90`: 90 % of the writes to 10 % of the range; the parts are scattered over it
* `rewrite:8GiB/4`: whole zones of 8 GiB are discarded and written again in order, 4 at once
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.sim.core import Drive, Job, Op, Order
from ssdbench.sim.library import Params, parameters
from ssdbench.stats.series import Floats
from ssdbench.units import KIB, parse_size

Blocks = npt.NDArray[np.uint32]

UNITS = 65536  # mapped units of the small copy
SUPERBLOCK_UNITS = 128  # if the size has no effect; fewer units would separate hot from cold data
UNIT_BYTES = 4096
STEPS = 4  # write amplification values per fill
GC_LOW = 2
SEED = 1
MOST_DRAWS = 64
MOST_KEPT = 32  # workloads whose offsets are kept: a fit simulates each on hundreds of drives
_EULER = 0.5772156649


class Before(StrEnum):
    """The writes between a sanitize of the drive and the start of the workload."""

    SEQUENTIAL = "sequential"
    SHUFFLED = "shuffled"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Writes:
    """A write workload: its pattern and range, block size and depth, and the writes before it."""

    pattern: str
    span_bytes: int
    block_bytes: int = 4 * KIB
    before: Before = Before.SEQUENTIAL
    iodepth: int = 128  # with more than 1, copying overlaps with host writes

    def __post_init__(self) -> None:
        """Check that each field of the workload has a possible value. Raises UsageError."""
        parsed(self.pattern)
        least = max(self.block_bytes, UNIT_BYTES)
        if self.block_bytes < 1 or self.iodepth < 1 or self.span_bytes < least:
            raise UsageError(
                "block and iodepth must be at least 1, and span at least one block and 4 KiB"
            )

    @property
    def kind(self) -> str:
        """Return the kind of the pattern, which is its first word, such as `zipf`."""
        return self.pattern.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Policy:
    """How garbage collection chooses the next superblock: gc_policy and gc_d of the core."""

    name: str
    choices: int = 10
    streams: int = 1  # of collected data: the core's gc_streams

    def __str__(self) -> str:
        """Return the policy as reports show it, such as `dchoice of 10 with 4 streams`."""
        said = f"{self.name} of {self.choices}" if self.name == "dchoice" else self.name
        return said if self.streams == 1 else f"{said} with {self.streams} streams"


def parsed(pattern: str) -> tuple[str, tuple[float, ...]]:
    """Return the kind of a pattern and its numbers. Raises UsageError.

    The numbers of `zoned` are pairs: a share of the writes and a share of the range. The numbers of
    `rewrite` are the size of a zone in bytes, and how many zones are written at once.
    """
    kind, _, said = pattern.partition(":")
    try:
        numbers = _numbers(kind, said)
    except (ValueError, UsageError):
        numbers = None
    if numbers is None:
        raise UsageError(
            f"{pattern!r} is not a write pattern",
            hint="such as random, zipf:0.8, zoned:90/10:10/90 (share of writes/share of range) "
            "or rewrite:8GiB/4",
        )
    return kind, numbers


def _numbers(kind: str, said: str) -> tuple[float, ...] | None:
    """Return the numbers of a pattern; None if a number is out of range. Raises ValueError."""
    if kind == "random":
        return None if said else ()
    if kind == "zoned":
        numbers = tuple(float(part) for part in re.split("[:/]", said))
        shares, sizes = numbers[::2], numbers[1::2]
        possible = len(shares) == len(sizes) and min(shares) >= 0 < sum(shares) and min(sizes) > 0
        possible = possible and math.isfinite(sum(numbers))
        return numbers if possible else None
    if kind == "rewrite":
        size, _, together = said.partition("/")
        numbers = (float(parse_size(size)), float(int(together or "1")))
        return numbers if min(numbers) >= 1 else None
    if kind not in ("zipf", "zipf-in-order"):
        return None
    return (float(said),) if 0 <= float(said) < math.inf else None


def amplification(
    writes: Writes, fills: int, alpha: float, policy: Policy, superblock_bytes: int
) -> Floats | None:
    """Return the write amplification of each quarter of each fill.

    `alpha` is the physical size, without superblocks that are never spare, divided by the size of
    the written range. `superblock_bytes` has an effect only when zones are rewritten. The result is
    None if such a drive has no spare area.
    """
    kind, numbers = parsed(writes.pattern)
    pages = writes.span_bytes // UNIT_BYTES if kind.startswith("zipf") and numbers[0] >= 1 else 0
    superblock, zone, draws = SUPERBLOCK_UNITS, 0, 1
    if kind == "rewrite":
        superblock = max(1, round(superblock_bytes / writes.span_bytes * UNITS))
        zone = max(1, round(numbers[0] / writes.span_bytes * UNITS))
        draws = min(MOST_DRAWS, round(writes.span_bytes / writes.block_bytes / UNITS)) or 1
    return _simulated(
        writes.pattern, pages, zone, draws, writes.before, fills, alpha, policy, superblock
    )


@cache
def _simulated(
    pattern: str,
    pages: int,
    zone_units: int,
    draws: int,
    before: Before,
    fills: int,
    alpha: float,
    policy: Policy,
    superblock_units: int,
) -> Floats | None:
    drive = _copy(alpha, policy, superblock_units)
    if drive is None:
        return None
    order, blocks, discards = _offsets(pattern, pages, zone_units, draws, before, fills)
    _write(drive, order)
    step = UNITS // STEPS
    found = []
    for start in range(0, fills * UNITS, step):
        moved = drive.counters()["gc_units"]
        at = start
        for stop in [*sorted(p for p in discards if start <= p < start + step), start + step]:
            _write(drive, blocks[at:stop])
            if stop in discards and stop < start + step:
                zone_bytes = zone_units * UNIT_BYTES
                drive.submit(Op.TRIM, discards[stop] * zone_bytes, zone_bytes)
            at = stop
        found.append(1 + (drive.counters()["gc_units"] - moved) / step)
    return np.array(found)


@lru_cache(maxsize=MOST_KEPT)
def _offsets(
    pattern: str, pages: int, zone_units: int, draws: int, before: Before, fills: int
) -> tuple[Blocks, Blocks, dict[int, int]]:
    """Return what is written before, the blocks of the workload, and the zones to discard.

    A zone is discarded before the write with the number that is its key.
    """
    rng = np.random.default_rng(SEED)
    order = np.arange(0 if before is Before.NOTHING else UNITS, dtype=np.uint32)
    if before is Before.SHUFFLED:
        order = order.reshape(-1, 128)[rng.permutation(UNITS // 128)].ravel()
    kind, numbers = parsed(pattern)
    if kind == "rewrite":
        blocks, discards = _rewritten(zone_units, draws, int(numbers[1]), fills * UNITS, rng)
        return order, blocks, discards
    return order, _blocks(pattern, fills * UNITS, pages, rng), {}


def _write(drive: Drive, blocks: Blocks) -> None:
    if len(blocks):
        drive.run(Job(Order.LISTED, blocks=blocks, stop_ios=len(blocks), iodepth=1))


def _copy(alpha: float, policy: Policy, superblock_units: int) -> Drive | None:
    # Never spare: GC_LOW superblocks, and on average half of each one that is being written.
    never_spare = GC_LOW + (policy.streams + 1) // 2
    superblocks = round(alpha * UNITS / superblock_units) + never_spare
    if superblocks < math.ceil(UNITS / superblock_units) + GC_LOW + policy.streams + 3:
        return None
    spare = superblocks * superblock_units - UNITS
    params = {
        "capacity_bytes": UNITS * UNIT_BYTES,
        "lba_bytes": UNIT_BYTES,
        "map_unit_bytes": UNIT_BYTES,
        "program_unit_bytes": UNIT_BYTES,
        "read_unit_bytes": UNIT_BYTES,
        "erase_block_bytes": superblock_units * UNIT_BYTES,
        "op_ppm": math.ceil(spare / UNITS * 1e6),
        "channels": 1,
        "dies_per_channel": 1,
        "gc_low": GC_LOW,
        "gc_policy": parameters()["gc_policy"].choices.index(policy.name),
        "gc_d": policy.choices,
        "gc_streams": policy.streams,
    }
    return Drive.in_memory(Params(params))


def _blocks(pattern: str, count: int, pages: int, rng: np.random.Generator) -> Blocks:
    kind, numbers = parsed(pattern)
    if kind == "random":
        return rng.integers(0, UNITS, count, dtype=np.uint32)
    if kind == "zoned":
        shares, sizes = np.array(numbers[::2]), np.array(numbers[1::2])
        ends = np.concatenate([[0], np.cumsum(sizes / sizes.sum())]) * UNITS
        part = rng.choice(len(shares), count, p=shares / shares.sum())
        place = ends[part] + rng.random(count) * np.diff(ends)[part]
    else:
        place = _zipf(numbers[0], pages, rng.random(count)) * UNITS
    blocks = np.minimum(place, UNITS - 1).astype(np.uint32)
    scattered = rng.permutation(UNITS).astype(np.uint32)
    return blocks if kind == "zipf-in-order" else scattered[blocks]


def _zipf(exponent: float, pages: int, u: Floats) -> Floats:
    """Return random page ranks under Zipf's law, as shares of all pages, from uniform numbers."""
    if exponent < 1:
        return np.asarray(u ** (1 / (1 - exponent)))
    if exponent == 1:
        return np.asarray(np.exp(u * (math.log(pages) + _EULER) - _EULER) / pages)
    power = 1 - exponent
    return np.asarray((1 + u * (pages**power - 1)) ** (1 / power) / pages)


def _rewritten(
    zone: int, draws: int, together: int, count: int, rng: np.random.Generator
) -> tuple[Blocks, dict[int, int]]:
    """Return the blocks of `together` zones that are written at once, and where each zone begins.

    For each block that the host writes, one of the open zones is chosen at random; `draws` blocks
    make one mapped unit. So zones that began at the same time become full at almost the same time,
    as on a real drive.
    """
    zones = UNITS // zone
    if together >= zones:
        raise UsageError(f"{together} zones at once do not fit: the range has {zones}")
    slot = rng.integers(0, together, (count + together) * draws, dtype=np.uint16)
    written = [np.flatnonzero(slot == one)[draws - 1 :: draws] for one in range(together)]
    turns = [  # write numbers of the units of one zone
        (int(at[start]), one, at[start : start + zone])
        for one, at in enumerate(written)
        for start in range(0, len(at), zone)
    ]
    when, blocks, began = [], [], []
    active: dict[int, int] = {}
    for first, one, at in sorted(turns, key=lambda turn: turn[:2]):
        chosen = int(rng.integers(zones))
        while chosen in active.values():
            chosen = int(rng.integers(zones))
        active[one] = chosen
        began.append((first, chosen))
        when.append(at)
        blocks.append(chosen * zone + np.arange(len(at), dtype=np.uint32))
    written_at = np.sort(np.concatenate(when))
    order = np.argsort(np.concatenate(when))[:count]
    places = np.searchsorted(written_at, [first for first, _ in began])
    starts = {int(place): zone for place, (_, zone) in zip(places, began, strict=True)}
    return np.concatenate(blocks)[order].astype(np.uint32), starts
