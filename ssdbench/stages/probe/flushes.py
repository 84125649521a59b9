"""What a flush costs, and whether it waits for what the write buffer holds."""

from ssdbench.model.inside import ProbeNumbers
from ssdbench.stages.probe.bench import COLLECTING, Bench, Said, collect, part
from ssdbench.stats.inside.probing import BUFFERED_NS, Flush, flush_waits
from ssdbench.units import GIB, KIB, format_ns, format_size

BLOCK_BYTES = 32 * KIB  # no smaller than usual remap units
WRITES = (1, 4, 16, 64)  # before each flush
FLUSHES = 64  # of each; the median of them counts
SPAN_BYTES = 2 * GIB
MEDIAN = 0.5


class Flushes:
    """Writes one at a time, with a flush behind every 1, 4, 16 and 64 of them.

    Flash that is as fast as the writes has little left to do when a flush comes, however many were
    written; flash that collects as well has. So a drive that cannot tell is brought to collect.
    """

    name = "flush"
    title = "Flushes behind one and behind many writes"

    def writes(self, size_bytes: int) -> int:
        """One fill, and one and a half where the first cannot tell, and the writes."""
        once = sum(WRITES) * FLUSHES * BLOCK_BYTES
        return part(size_bytes, SPAN_BYTES) + round((1 + COLLECTING) * size_bytes) + 2 * once

    def ask(self, bench: Bench) -> Said:
        """While nothing is collected, and if need be while something is."""
        span = part(bench.size_bytes, SPAN_BYTES)
        bench.fill(span)
        said = _asked(bench, span)
        if said.numbers.flush_waits_for or said.numbers.write_us is None:
            return said
        collect(bench)
        again = _asked(bench, bench.size_bytes)
        return again if again.numbers.flush_waits_for else said


def _asked(bench: Bench, span_bytes: int) -> Said:
    """Few writes first, so that a full buffer does not reach into the next count."""
    write_ns: dict[int, float] = {}
    flush_ns: dict[int, float] = {}
    for count in WRITES:
        wrote, flushed = bench.flushes(BLOCK_BYTES, span_bytes, count * FLUSHES, every=count)
        if not flushed.ios:
            return Said("cannot tell: the target does no flushes")
        write_ns[count] = wrote.latency.percentile_ns(MEDIAN)
        flush_ns[count] = flushed.latency.percentile_ns(MEDIAN)
    table = tuple(
        {"writes": n, "write_us": write_ns[n] / 1000, "flush_us": flush_ns[n] / 1000}
        for n in WRITES
    )
    waits = flush_waits(write_ns[1], flush_ns)
    one, many = format_ns(flush_ns[WRITES[0]]), format_ns(flush_ns[WRITES[-1]])
    numbers = ProbeNumbers(
        flush_waits_for=waits,
        write_us=write_ns[1] / 1000,
        flush_us_after_1=flush_ns[1] / 1000,
        flush_us_after_64=flush_ns[64] / 1000,
    )
    cost = f"{one} behind one write of {format_size(BLOCK_BYTES)}, {many} behind {WRITES[-1]}"
    return Said(_sentence(waits, write_ns[1], cost), numbers, table)


def _sentence(waits: Flush | None, write_ns: float, cost: str) -> str:
    match waits:
        case Flush.BUFFER:
            return f"a flush waits for what the buffer holds: {cost}"
        case Flush.NOTHING:
            return (
                f"a flush waits for no flash ({cost}): the buffer is protected, or flushes are "
                "ignored, which cannot be told apart from outside"
            )
    if write_ns >= BUFFERED_NS:
        return f"cannot tell: writes are slow themselves; a flush takes {cost}"
    return f"cannot tell: flushes are slow, however much was written: {cost}"
