"""The write buffer, from how many writes of a burst are answered before they have to wait."""

from collections.abc import Sequence

from ssdbench.model.inside import ProbeNumbers
from ssdbench.stages.probe.bench import COLLECTING, Bench, Said, collect
from ssdbench.stats.inside.probing import buffer_bytes
from ssdbench.units import KIB, MIB, format_size

# No smaller than usual remap units, a part of which waits for a read; then for small buffers.
BLOCKS = (64 * KIB, 32 * KIB)
DEPTHS = (8, 4)
RESTS_S = (30.0, 60.0, 60.0)  # a buffer that is still leaving takes more after a longer one
BURST_BYTES = 256 * MIB
AGREE = 1.25
WRITTEN_BYTES = len(BLOCKS) * len(RESTS_S) * BURST_BYTES  # by all bursts together, at most


class WriteBuffer:
    """Bursts of writes after a rest: the latency rises when the buffer is full.

    Flash that only programs may be faster than the link, and no buffer fills; flash that collects
    as well is not. So the drive is brought to collect first.
    """

    name = "write-buffer"
    title = "Write buffer from bursts after a rest"

    def writes(self, size_bytes: int) -> int:
        """One fill and a half, and the bursts."""
        return round((1 + COLLECTING) * size_bytes) + WRITTEN_BYTES

    def ask(self, bench: Bench) -> Said:
        """The two smallest bursts that wait, if they agree within a quarter."""
        size = bench.size_bytes
        collect(bench)
        steps = bursts(bench, size)
        table = tuple({"burst": n, "buffer_bytes": one} for n, one in enumerate(steps, start=1))
        if not any(steps):
            return Said("cannot tell: no burst was taken at once and then had to wait", table=table)
        taken = agreed(steps)
        if taken is None:
            return Said("cannot tell: bursts do not agree on a buffer", table=table)
        return Said(
            f"write buffer of about {format_size(taken)}", ProbeNumbers(buffer_bytes=taken), table
        )


def bursts(bench: Bench, span: int) -> list[int | None]:
    """What a buffer took of each burst, of a drive that collects; None where nothing shows."""
    steps: list[int | None] = []
    for block, depth in zip(BLOCKS, DEPTHS, strict=True):
        steps = [
            buffer_bytes(
                list(bench.latencies(block, depth, span, BURST_BYTES // block, rest_s=rest_s)),
                block,
                depth,
            )
            for rest_s in RESTS_S
        ]
        if any(steps):
            break
    return steps


def agreed(steps: Sequence[int | None]) -> int | None:
    """The buffer, if the two smallest bursts that had to wait agree on it."""
    # What leaves the buffer unnoticed only adds to a burst, so the smallest are nearest.
    known = sorted(one for one in steps if one is not None)
    if len(known) < 2 or known[1] > AGREE * known[0]:
        return None
    return (known[0] + known[1]) // 2
