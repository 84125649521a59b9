"""The write buffer, from how many writes of a burst are answered before they have to wait."""

from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.probing import buffer_bytes
from ssdbench.units import GIB, KIB, MIB, format_size

BLOCK_BYTES = 16 * KIB
DEPTH = 8
BURSTS = 3
BURST_BYTES = 256 * MIB
SPAN_BYTES = 2 * GIB


class WriteBuffer:
    """Bursts of writes after a rest: the latency rises when the buffer is full."""

    name = "write-buffer"
    title = "Write buffer from bursts after a rest"

    def writes(self, size_bytes: int) -> int:
        """One fill and the bursts."""
        return part(size_bytes, SPAN_BYTES) + BURSTS * BURST_BYTES

    def ask(self, bench: Bench) -> Said:
        """The smallest burst that waits, if another one agrees within a quarter."""
        span = part(bench.size_bytes, SPAN_BYTES)
        bench.fill(span)
        sizes = [
            buffer_bytes(
                list(bench.latencies(BLOCK_BYTES, DEPTH, span, BURST_BYTES // BLOCK_BYTES)),
                BLOCK_BYTES,
            )
            for _ in range(BURSTS)
        ]
        table = tuple({"burst": n, "buffer_bytes": size} for n, size in enumerate(sizes, start=1))
        # What leaves the buffer unnoticed only adds to a burst, so the smallest is nearest.
        known = sorted(size for size in sizes if size is not None)
        if len(known) < 2 or known[1] > 1.25 * known[0]:
            return Said("cannot tell: bursts show no buffer, or not the same one", {}, table)
        size = known[0]
        return Said(f"write buffer of about {format_size(size)}", {"buffer_bytes": size}, table)
