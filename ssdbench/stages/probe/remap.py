"""The remap (indirection) unit, from what random writes below it cost."""

import numpy as np

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.inside.probing import BUFFERED_NS, remap_unit
from ssdbench.units import GIB, KIB, MIB, format_size

BLOCKS = (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB)
EACH_BYTES = 192 * MIB  # several times what a buffer holds
SPAN_BYTES = 4 * GIB
DEPTH = 32
SINGLE = 64  # writes one at a time, after a rest
CHANGED = 0.25  # of the rate of the largest writes, before and after the others
SHARE = 8  # of the drive at most: the spare area is large beside it, so nothing is amplified


class RemapUnit:
    """Bytes/s of random writes of several sizes: below the unit they fall with the size."""

    name = "remap-unit"
    title = "Remap unit from the cost of small random writes"

    def writes(self, size_bytes: int) -> int:
        """One fill of the span and the random writes."""
        return part(size_bytes // SHARE, SPAN_BYTES) + (len(BLOCKS) + 1) * EACH_BYTES

    def ask(self, bench: Bench) -> Said:
        """Largest writes first, so that wear on the mapping does not favour the small ones."""
        span = part(bench.size_bytes // SHARE, SPAN_BYTES)
        bench.discard(0, bench.size_bytes)  # room, where the drive takes it: nothing is collected
        bench.fill(span)
        # Without a buffer every write programs a page: then what shows may be that page.
        behind = buffered(bench, span)
        rates: dict[int, float] = {}
        for block in sorted(BLOCKS, reverse=True):
            rates[block] = _rate(bench, block, span)
        again = _rate(bench, max(BLOCKS), span)
        unit = remap_unit(rates)
        table = tuple(
            {"block_bytes": block, "mb_per_s": round(rates[block] / 1e6, 2)} for block in BLOCKS
        )
        if abs(again / rates[max(BLOCKS)] - 1) > CHANGED:
            return Said(
                "cannot tell: the rate changed meanwhile: a cache, or collection", table=table
            )
        if unit is None:
            return Said("cannot tell: small writes are limited by something else", table=table)
        least = unit == min(BLOCKS) or not behind
        text = f"{format_size(unit)} or less" if least else format_size(unit)
        return Said(f"remap unit {text}", ProbeNumbers(remap_unit_bytes=unit, at_most=least), table)


def buffered(bench: Bench, span: int) -> bool:
    """Whether single writes after a rest are answered before flash could be programmed."""
    return any(
        float(np.median(bench.latencies(block, 1, span, SINGLE))) < BUFFERED_NS
        for block in (4 * KIB, 16 * KIB, 64 * KIB)
    )


def _rate(bench: Bench, block_bytes: int, span_bytes: int) -> float:
    """Bytes/s of random writes of one size."""
    done = bench.rate(Pattern.RANDOM, block_bytes, 0, DEPTH, span_bytes, EACH_BYTES)
    return max(done.bytes, 1) / max(done.runtime_s, 1e-9)
