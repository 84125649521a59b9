"""The remap (indirection) unit, from what random writes below it cost."""

from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.probing import remap_unit
from ssdbench.units import GIB, KIB, MIB, format_size

BLOCKS = (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB)
EACH_BYTES = 192 * MIB  # several times what a buffer holds
SPAN_BYTES = 4 * GIB
DEPTH = 32


class RemapUnit:
    """Bytes/s of random writes of several sizes: below the unit they fall with the size."""

    name = "remap-unit"
    title = "Remap unit from the cost of small random writes"

    def writes(self, size_bytes: int) -> int:
        """One fill of the span and the random writes."""
        return part(size_bytes, SPAN_BYTES) + len(BLOCKS) * EACH_BYTES

    def ask(self, bench: Bench) -> Said:
        """Largest writes first, so that wear on the mapping does not favour the small ones."""
        span = part(bench.size_bytes, SPAN_BYTES)
        bench.fill(span)
        rates: dict[int, float] = {}
        for block in sorted(BLOCKS, reverse=True):
            done = bench.rate(Pattern.RANDOM, block, 0, DEPTH, span, EACH_BYTES)
            rates[block] = done.bytes / max(done.runtime_s, 1e-9)
        unit = remap_unit(rates)
        table = tuple(
            {"block_bytes": block, "mb_per_s": round(rates[block] / 1e6, 2)} for block in BLOCKS
        )
        if unit is None:
            return Said("cannot tell: small writes are limited by something else", {}, table)
        least = unit == min(BLOCKS)
        text = f"{format_size(unit)} or less" if least else format_size(unit)
        return Said(f"remap unit {text}", {"remap_unit_bytes": unit, "at_most": least}, table)
