"""The read chunk: how much ordered data lies on one die before the next one begins.

Two reads side by side at a small stride meet on one die; that costs nothing from a stride of half
the chunk on, since then the second of a pair on one die runs beside the first on the next. Source:
reads pushed over a chunk's boundary, of Chen (HPCA 2011) and Queenie (SYSTOR 2022, F1).
"""

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.inside.probing import read_chunk
from ssdbench.units import GIB, KIB, format_size

BLOCK_BYTES = 4 * KIB
STRIDES = tuple(n * KIB for n in (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256))
MEET = tuple(n * KIB for n in (640, 768, 896, 1024))  # multiples of most stripes: one die for all
SPAN_BYTES = 2 * GIB
IOS = 2500
WRAPS = 4  # strides that the span must hold at the least


class ReadChunk:
    """Two reads under way at growing stride: as fast as it gets from half the chunk on."""

    name = "read-chunk"
    title = "Read chunk from two reads side by side at small strides"

    def writes(self, size_bytes: int) -> int:
        """One fill in order: the mapping of ordered data is what is looked at."""
        return part(size_bytes, SPAN_BYTES)

    def ask(self, bench: Bench) -> Said:
        """One read alone, then pairs of them at strides of 8 KiB to 1 MiB."""
        span = part(bench.size_bytes, SPAN_BYTES)
        bench.fill(span)
        alone = _rate(bench, STRIDES[-1], 1, span)
        rates = {
            stride: _rate(bench, stride, 2, span)
            for stride in STRIDES + MEET
            if stride * WRAPS <= span
        }
        table = tuple({"stride_bytes": s, "iops": round(rate, 1)} for s, rate in rates.items())
        found = read_chunk(rates, alone=alone)
        if found is None:
            return Said("cannot tell: two reads at once do not wait for dies", table=table)
        least = found <= 2 * min(rates)
        text = f"{format_size(found)} or less" if least else format_size(found)
        return Said(f"read chunk of {text}", ProbeNumbers(chunk_bytes=found, at_most=least), table)


def _rate(bench: Bench, stride_bytes: int, iodepth: int, span_bytes: int) -> float:
    """Reads per second at a stride."""
    done = bench.rate(
        Pattern.STRIDED, BLOCK_BYTES, 100, iodepth, span_bytes, IOS * BLOCK_BYTES,
        stride_bytes=stride_bytes,
    )  # fmt: skip
    return done.ios / max(done.runtime_s, 1e-9)
