"""Probe what takes writes before flash does: SLC cache, write buffer, and flushes."""

from collections.abc import Sequence

import numpy as np

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import COLLECTING, Answer, Bench, collect, part
from ssdbench.stats.inside.probing import (
    BUFFERED_NS,
    Flush,
    buffer_bytes,
    falls_at_once,
    flush_waits,
    step_down,
)
from ssdbench.units import GIB, KIB, MIB, format_capacity, format_ns, format_size

CACHE_BLOCK_BYTES = 128 * KIB
CACHE_DEPTH = 32


class SlcCache:
    """Find the cache of a drive that first stores one bit per cell.

    It slows down when that is full.
    """

    name = "slc-cache"
    title = "SLC cache from one sequential fill"

    def writes(self, size_bytes: int) -> int:
        """Return one fill of the drive."""
        return size_bytes

    def ask(self, bench: Bench) -> Answer:
        """Fill the drive; only a purged or empty drive shows all of its cache."""
        per_second = bench.write(
            Pattern.SEQUENTIAL, CACHE_BLOCK_BYTES, CACHE_DEPTH, bench.size_bytes, bench.size_bytes
        )
        written = np.cumsum(per_second)
        step = step_down(list(per_second))
        table = tuple(
            {"written_bytes": int(at), "mb_per_s": round(rate / 1e6, 1)}
            for at, rate in zip(written, per_second, strict=True)
        )[:: max(1, len(written) // 200)]
        if falls_at_once(list(per_second)):
            return Answer("cannot tell: the rate falls within the first two seconds", table=table)
        if step is None:
            return Answer(
                "no SLC cache seen: the rate of a sequential fill never falls", table=table
            )
        size, before, after = step
        return Answer(
            f"cache of about {format_capacity(round(size))}: {before / 1e6:.0f} MB/s within it, "
            f"{after / 1e6:.0f} MB/s after (as much as was free when the fill began)",
            ProbeNumbers(
                cache_bytes=round(size), mb_per_s_within=before / 1e6, mb_per_s_after=after / 1e6
            ),
            table,
        )


# Not below usual remap units, as a partial unit waits for a read; smaller ones for small buffers.
BUFFER_BLOCKS = (64 * KIB, 32 * KIB)
BUFFER_DEPTHS = (8, 4)
RESTS_S = (30.0, 60.0, 60.0)  # a buffer that still empties takes more after a longer rest
BURST_BYTES = 256 * MIB
AGREE = 1.25
BURSTS_BYTES = len(BUFFER_BLOCKS) * len(RESTS_S) * BURST_BYTES  # by all bursts together, at most


class WriteBuffer:
    """Find the buffer from bursts of writes after a rest: latency rises when it is full.

    Flash that only programs may be faster than the link, so that no buffer fills; flash that also
    collects garbage is slower. So the drive is brought to collect first.
    """

    name = "write-buffer"
    title = "Write buffer from bursts after a rest"

    def writes(self, size_bytes: int) -> int:
        """Return one fill and a half, and the bursts."""
        return round((1 + COLLECTING) * size_bytes) + BURSTS_BYTES

    def ask(self, bench: Bench) -> Answer:
        """Take the two smallest bursts that waited, if they agree within a quarter."""
        size = bench.size_bytes
        collect(bench)
        steps = bursts(bench, size)
        table = tuple({"burst": n, "buffer_bytes": one} for n, one in enumerate(steps, start=1))
        if not any(steps):
            return Answer(
                "cannot tell: no burst was taken at once and then had to wait", table=table
            )
        taken = agreed_bytes(steps)
        if taken is None:
            return Answer("cannot tell: bursts do not agree on a buffer", table=table)
        return Answer(
            f"write buffer of about {format_size(taken)}", ProbeNumbers(buffer_bytes=taken), table
        )


def bursts(bench: Bench, span: int) -> list[int | None]:
    """Return what a buffer took of each burst while the drive collects; None where unseen."""
    steps: list[int | None] = []
    for block, depth in zip(BUFFER_BLOCKS, BUFFER_DEPTHS, strict=True):
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


def agreed_bytes(steps: Sequence[int | None]) -> int | None:
    """Return the buffer, if the two smallest bursts that had to wait agree on it."""
    # A buffer that empties during a burst makes it longer, so the smallest are nearest.
    known = sorted(one for one in steps if one is not None)
    if len(known) < 2 or known[1] > AGREE * known[0]:
        return None
    return (known[0] + known[1]) // 2


FLUSH_BLOCK_BYTES = 32 * KIB  # no smaller than usual remap units
FLUSH_WRITES = (1, 4, 16, 64)  # before each flush
FLUSHES = 64  # of each; the median of them counts
FLUSH_SPAN_BYTES = 2 * GIB
MEDIAN = 0.5


class Flushes:
    """Write one at a time, with a flush after every 1, 4, 16 and 64 writes.

    Flash that is as fast as the writes has little left to do when a flush comes; flash that also
    collects garbage has. So a drive that cannot tell is brought to collect.
    """

    name = "flush"
    title = "Flushes behind one and behind many writes"

    def writes(self, size_bytes: int) -> int:
        """Return one fill, one and a half more if the first cannot tell, and the writes."""
        once = sum(FLUSH_WRITES) * FLUSHES * FLUSH_BLOCK_BYTES
        return part(size_bytes, FLUSH_SPAN_BYTES) + round((1 + COLLECTING) * size_bytes) + 2 * once

    def ask(self, bench: Bench) -> Answer:
        """Ask while nothing is collected, and if needed again while something is."""
        span = part(bench.size_bytes, FLUSH_SPAN_BYTES)
        bench.fill(span)
        said = _flush_costs(bench, span)
        if said.numbers.flush_waits_for or said.numbers.write_us is None:
            return said
        collect(bench)
        again = _flush_costs(bench, bench.size_bytes)
        return again if again.numbers.flush_waits_for else said


def _flush_costs(bench: Bench, span_bytes: int) -> Answer:
    """Measure few writes per flush first, so that a full buffer does not affect the next count."""
    write_ns: dict[int, float] = {}
    flush_ns: dict[int, float] = {}
    for count in FLUSH_WRITES:
        wrote, flushed = bench.flushes(FLUSH_BLOCK_BYTES, span_bytes, count * FLUSHES, every=count)
        if not flushed.ios:
            return Answer("cannot tell: the target does no flushes")
        write_ns[count] = wrote.latency.percentile_ns(MEDIAN)
        flush_ns[count] = flushed.latency.percentile_ns(MEDIAN)
    table = tuple(
        {"writes": n, "write_us": write_ns[n] / 1000, "flush_us": flush_ns[n] / 1000}
        for n in FLUSH_WRITES
    )
    waits = flush_waits(write_ns[1], flush_ns)
    one, many = format_ns(flush_ns[FLUSH_WRITES[0]]), format_ns(flush_ns[FLUSH_WRITES[-1]])
    numbers = ProbeNumbers(
        flush_waits_for=waits,
        write_us=write_ns[1] / 1000,
        flush_us_after_1=flush_ns[1] / 1000,
        flush_us_after_64=flush_ns[64] / 1000,
    )
    block = format_size(FLUSH_BLOCK_BYTES)
    cost = f"{one} behind one write of {block}, {many} behind {FLUSH_WRITES[-1]}"
    return Answer(_flush_sentence(waits, write_ns[1], cost), numbers, table)


def _flush_sentence(waits: Flush | None, write_ns: float, cost: str) -> str:
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
