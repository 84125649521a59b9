"""The write buffer, from how many writes of a burst are answered before they have to wait."""

from ssdbench.model.inside import ProbeNumbers
from ssdbench.stages.probe.bench import COLLECTING, Bench, Said, collect
from ssdbench.stats.probing import buffer_bytes
from ssdbench.units import KIB, MIB, format_size

BLOCK_BYTES = 32 * KIB  # no smaller than usual remap units: a part of one waits for a read
DEPTH = 4
BURSTS = 3
BURST_BYTES = 256 * MIB
AGREE = 1.25


class WriteBuffer:
    """Bursts of writes after a rest: the latency rises when the buffer is full.

    Flash that only programs may be faster than the link, and no buffer fills; flash that collects
    as well is not. So the drive is brought to collect first.
    """

    name = "write-buffer"
    title = "Write buffer from bursts after a rest"

    def writes(self, size_bytes: int) -> int:
        """One fill and a half, and the bursts."""
        return round((1 + COLLECTING) * size_bytes) + BURSTS * BURST_BYTES

    def ask(self, bench: Bench) -> Said:
        """The two smallest bursts that wait, if they agree within a quarter."""
        size = bench.size_bytes
        collect(bench)
        ios = BURST_BYTES // BLOCK_BYTES
        steps = [
            buffer_bytes(list(bench.latencies(BLOCK_BYTES, DEPTH, size, ios)), BLOCK_BYTES, DEPTH)
            for _ in range(BURSTS)
        ]
        table = tuple({"burst": n, "buffer_bytes": one} for n, one in enumerate(steps, start=1))
        # What leaves the buffer unnoticed only adds to a burst, so the smallest are nearest.
        known = sorted(one for one in steps if one is not None)
        if not known:
            return Said("cannot tell: no burst was taken at once and then had to wait", table=table)
        if len(known) < 2 or known[1] > AGREE * known[0]:
            return Said("cannot tell: bursts do not agree on a buffer", table=table)
        taken = (known[0] + known[1]) // 2
        return Said(
            f"write buffer of about {format_size(taken)}", ProbeNumbers(buffer_bytes=taken), table
        )
