"""Which strided writes tell a block boundary from a buffer; pure arithmetic on bytes.

Dunn 2009 writes 4 KiB, skips to the next stride and looks for latency peaks: at a fixed distance in
offset they are block boundaries, at a fixed amount written they are a buffer. The two can only be
told apart by several strides, so here

- strides are primes times 4 KiB, so that no two of them share a period;
- every pass begins at a random 4 KiB offset of its region, so that the number of writes since some
  flush says nothing about the place on the drive;
- all of it happens in two disjoint regions, one to find a boundary and one to confirm it.

A block of P bytes is seen by strides from P / 512 to P / 3, so strides grow with the blocks that
are looked for. Blocks up to 8 MiB cost 0.875 GiB of writes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ssdbench.errors import UsageError
from ssdbench.units import KIB, MIB, format_size

UNIT_BYTES = 4 * KIB
LEAST_BLOCKS = 6  # that a region must hold of the largest block that is looked for
LEAST_BLOCK_BYTES = 60 * KIB
LARGEST_BLOCK_BYTES = 64 * MIB
LEAST_STRIDES = 3  # that must agree on a boundary
STRIDES_PER_BLOCK = 3  # a block holds at least this many strides
MOST_PASSES = 24


@dataclass(frozen=True, slots=True)
class Scale:
    """Strides that find blocks up to a size."""

    largest_block_bytes: int
    strides: tuple[int, ...]
    writes: int  # per stride and region
    region_bytes: int


SCALES = (
    Scale(MIB, tuple(p * UNIT_BYTES for p in (2, 3, 5, 7, 11)), 12_251, 512 * MIB),
    Scale(8 * MIB, tuple(p * UNIT_BYTES for p in (23, 29, 37, 53)), 16_381, 512 * MIB),
    Scale(64 * MIB, tuple(p * UNIT_BYTES for p in (179, 227, 293, 419)), 8_191, 2048 * MIB),
)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the drive that is written to."""

    index: int
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk over a region at one stride."""

    region: int
    stride_bytes: int
    offset_bytes: int
    writes: int

    @property
    def length_bytes(self) -> int:
        """From the first byte to the end of the last stride."""
        return self.writes * self.stride_bytes


@dataclass(frozen=True, slots=True)
class StridePlan:
    """All passes of one scale, region by region, and how large a block they can show."""

    block_bytes: int
    regions: tuple[Region, ...]
    passes: tuple[Pass, ...]
    largest_block_bytes: int

    @property
    def bytes_written(self) -> int:
        """By the passes; conditioning is apart."""
        return sum(one.writes for one in self.passes) * self.block_bytes

    @property
    def conditioning_bytes(self) -> int:
        """Every region is written once from end to end before."""
        return sum(region.length_bytes for region in self.regions)


def regions(size_bytes: int, length_bytes: int, *, align_bytes: int = MIB) -> tuple[Region, ...]:
    """Two disjoint regions, in the middle of each half of the drive, or as large as the halves."""
    half = size_bytes // 2 // align_bytes * align_bytes
    length = min(length_bytes, half)
    start = (half - length) // 2 // align_bytes * align_bytes
    return (Region(0, start, length), Region(1, half + start, length))


def plan(scale: Scale, size_bytes: int, *, block_bytes: int, seed: int) -> StridePlan | None:
    """The passes of one scale on a drive of this size; None when the drive is too small for it.

    Raises UsageError when a stride does not fit into a region at all.
    """
    found = regions(size_bytes, scale.region_bytes)
    length = found[0].length_bytes
    if length < LEAST_BLOCKS * STRIDES_PER_BLOCK * sorted(scale.strides)[LEAST_STRIDES - 1]:
        return None
    chance = random.Random(seed)  # chance, not cryptography
    passes = [
        one
        for region in found
        for stride in scale.strides
        for one in _passes(region, stride, scale.writes, block_bytes, chance)
    ]
    largest = min(scale.largest_block_bytes, length // LEAST_BLOCKS)
    return StridePlan(block_bytes, found, tuple(passes), largest)


def own_scale(strides: Sequence[int], size_bytes: int, block_bytes: int) -> Scale:
    """Strides that a user chose. Raises UsageError for those that can show nothing."""
    region = size_bytes // 2
    for stride in strides:
        if stride <= block_bytes or stride % block_bytes:
            raise UsageError(
                f"a stride of {format_size(stride)} must be a larger multiple of the write of "
                f"{format_size(block_bytes)}"
            )
        if stride * LEAST_BLOCKS * STRIDES_PER_BLOCK > region:
            raise UsageError(
                f"a stride of {format_size(stride)} is too large for two regions of "
                f"{format_size(region)}",
                hint=f"Blocks hold {STRIDES_PER_BLOCK} strides and regions {LEAST_BLOCKS} blocks: "
                "give smaller strides, or a larger drive.",
            )
    if len(strides) < LEAST_STRIDES:
        raise UsageError(
            f"{len(strides)} strides cannot tell a block from a buffer",
            hint=f"Give at least {LEAST_STRIDES}, or `auto`.",
        )
    largest = 512 * max(strides)
    return Scale(largest, tuple(sorted(strides)), 16_384, min(region, max(512 * MIB, 8 * largest)))


def _passes(
    region: Region, stride: int, writes: int, block_bytes: int, chance: random.Random
) -> list[Pass]:
    """Walks from random starts until all writes are done; a walk never leaves its region.

    On a small drive, where a walk is short, fewer writes are done.
    """
    passes: list[Pass] = []
    step = max(UNIT_BYTES, block_bytes)
    slack = min(region.length_bytes // 8, stride * 64)
    while writes > 0 and len(passes) < MOST_PASSES:
        start = chance.randrange(max(1, slack // step)) * step
        count = min(writes, (region.length_bytes - start) // stride)
        passes.append(Pass(region.index, stride, region.offset_bytes + start, count))
        writes -= count
    return passes
