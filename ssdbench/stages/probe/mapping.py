"""Whether data that were written at random are slower to read in order than ordered data."""

from ssdbench.model.inside import ProbeNumbers, Scalar
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.units import GIB, KIB

BLOCK_BYTES = 128 * KIB
DEPTH = 4
SPAN_BYTES = GIB
SAME = 0.9


class Mapping:
    """Sequential reads of ordered and of scattered data."""

    name = "mapping"
    title = "Sequential reads of ordered and of scattered data"

    def writes(self, size_bytes: int) -> int:
        """A fill in order and one in random order."""
        return 2 * part(size_bytes, SPAN_BYTES)

    def ask(self, bench: Bench) -> Said:
        """The same reads before and after the data are rewritten at random."""
        span = part(bench.size_bytes, SPAN_BYTES)
        rates = []
        for pattern in (Pattern.SEQUENTIAL, Pattern.RANDOM):
            bench.fill(span, pattern=pattern)
            done = bench.rate(Pattern.SEQUENTIAL, BLOCK_BYTES, 100, DEPTH, span, span)
            rates.append(done.bytes / max(done.runtime_s, 1e-9))
        ordered, scattered = rates
        share = scattered / max(ordered, 1e-9)
        table: tuple[dict[str, Scalar], ...] = (
            {"data": "ordered", "mb_per_s": round(ordered / 1e6, 1)},
            {"data": "scattered", "mb_per_s": round(scattered / 1e6, 1)},
        )
        text = (
            "the order in which data were written does not matter to reads"
            if share >= SAME
            else f"scattered data are read at {100 * share:.0f} % of the rate of ordered data"
        )
        return Said(text, ProbeNumbers(scattered_over_ordered=share), table)
