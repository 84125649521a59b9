"""Find the SLC cache and the write buffer of a drive, and whether a flush waits for flash."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import COLLECTING, Answer, Bench, collect, part
from ssdbench.stats.inside.probing import (
    BUFFERED_NS,
    Flush,
    buffer_bytes,
    falls_at_once,
    fast_writes,
    flush_waits,
    step_down,
)
from ssdbench.units import (
    GIB,
    KIB,
    MIB,
    format_capacity,
    format_duration,
    format_ns,
    format_size,
)

CACHE_BLOCK_BYTES = 128 * KIB
CACHE_DEPTH = 32
FIRST_PART = 0.5  # of the drive is written before the first rest, the others share what is left


@dataclass(frozen=True)
class SlcCache:
    """Find the size of the SLC cache: the bytes after which a sequential fill gets slower.

    With `rests_s` the fill has parts. Before each part except the first, the drive idles for one of
    these times. The number of fast writes after a rest shows how much of the cache is free again.
    """

    rests_s: tuple[float, ...] = ()
    name = "slc-cache"
    title = "SLC cache from one sequential fill"

    @property
    def least_share(self) -> float:
        """Return the share of a fill that is always written; with rests this is half."""
        return FIRST_PART if self.rests_s else 1.0

    def writes(self, size_bytes: int) -> int:
        """Return the bytes that the probe writes: one fill of the drive."""
        return size_bytes

    def ask(self, bench: Bench) -> Answer:
        """Fill the drive and search for a step down of the rate; the drive must be empty before."""
        first = round(bench.size_bytes * (FIRST_PART if self.rests_s else 1)) // MIB * MIB
        per_second = bench.write(
            Pattern.SEQUENTIAL, CACHE_BLOCK_BYTES, CACHE_DEPTH, bench.size_bytes, first
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
            said = "no SLC cache seen: the rate of a sequential fill never falls"
            return Answer(said, table=table)
        size, before, after = step
        numbers = ProbeNumbers(
            cache_bytes=round(size), mb_per_s_within=before / 1e6, mb_per_s_after=after / 1e6
        )
        found = (
            f"cache of about {format_capacity(round(size))}: {before / 1e6:.0f} MB/s within it, "
            f"{after / 1e6:.0f} MB/s after it (the part that was free when the fill began)"
        )
        if not self.rests_s:
            return Answer(found, numbers, table)
        back: dict[float, int] = {}
        part_bytes = (bench.size_bytes - first) // len(self.rests_s) // MIB * MIB
        for number, rest_s in enumerate(self.rests_s):
            waited_ns = bench.latencies(
                CACHE_BLOCK_BYTES, CACHE_DEPTH, bench.size_bytes, part_bytes // CACHE_BLOCK_BYTES,
                rest_s=rest_s, pattern=Pattern.SEQUENTIAL, quiet_iops=1.0,
                offset=first + number * part_bytes,
            )  # fmt: skip
            fast = fast_writes(list(waited_ns), CACHE_DEPTH, after / CACHE_BLOCK_BYTES)
            back[rest_s] = fast * CACHE_BLOCK_BYTES
        most = part_bytes - CACHE_DEPTH * CACHE_BLOCK_BYTES  # from here on the whole part was fast
        said = ", ".join(
            f"{'at least ' if own >= most else ''}{format_capacity(own)} after "
            f"{format_duration(rest_s)}"
            for rest_s, own in back.items()
        )
        rows = tuple(
            {"rest_s": rest_s, "recovered_bytes": own, "at_least": own >= most}
            for rest_s, own in back.items()
        )
        return Answer(
            f"{found}; this much of a full cache is free again after idle time: {said}",
            numbers.model_copy(update=rows[-1]),
            (*rows, *table),
        )


# Blocks are at least as large as a usual remap unit, because a smaller write needs a read first. 32
# KiB is for small buffers.
BUFFER_BLOCKS = (64 * KIB, 32 * KIB)
BUFFER_DEPTHS = (8, 4)
RESTS_S = (30.0, 60.0, 60.0)  # pause before each burst, to empty the buffer
BURST_BYTES = 256 * MIB
AGREE = 1.25  # two bursts agree if they differ by at most this factor
BURSTS_BYTES = len(BUFFER_BLOCKS) * len(RESTS_S) * BURST_BYTES  # most bytes of all bursts


class WriteBuffer:
    """Find the size of the write buffer: the bytes of a burst after which latency rises.

    The drive is first brought to garbage collection, which slows its flash. Otherwise flash may be
    faster than the link, and the buffer would never get full.
    """

    name = "write-buffer"
    title = "Write buffer from bursts after idle time"
    least_share = 0.1  # on a small drive most are bursts, of which some may be left out

    def writes(self, size_bytes: int) -> int:
        """Return the bytes that the probe writes: one and a half fills, and all bursts."""
        return round((1 + COLLECTING) * size_bytes) + BURSTS_BYTES

    def ask(self, bench: Bench) -> Answer:
        """Measure bursts; return the buffer's size if the two smallest results agree."""
        size = bench.size_bytes
        collect(bench)
        steps = bursts(bench, size)
        table = tuple({"burst": n, "buffer_bytes": one} for n, one in enumerate(steps, start=1))
        if not any(steps):
            said = "cannot tell: no burst was fast at first and then had to wait"
            return Answer(said, table=table)
        taken = agreed_bytes(steps)
        if taken is None:
            return Answer("cannot tell: the bursts show different sizes of a buffer", table=table)
        return Answer(
            f"write buffer of about {format_size(taken)}", ProbeNumbers(buffer_bytes=taken), table
        )


def bursts(bench: Bench, span: int) -> list[int | None]:
    """Return the bytes of each burst before its writes waited; None for a burst without waits."""
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
    """Return the buffer's size in bytes if the two smallest results agree, else None."""
    # A buffer that is written to flash during a burst looks larger, so the smallest results count.
    known = sorted(one for one in steps if one is not None)
    if len(known) < 2 or known[1] > AGREE * known[0]:
        return None
    return (known[0] + known[1]) // 2


FLUSH_BLOCK_BYTES = 32 * KIB  # at least a usual remap unit
FLUSH_WRITES = (1, 4, 16, 64)  # writes before each flush
FLUSHES = 64  # flushes for each number of writes; the median counts
FLUSH_SPAN_BYTES = 2 * GIB
MEDIAN = 0.5


class Flushes:
    """Find whether a flush command waits for flash: flush after each 1, 4, 16 and 64 writes.

    If flash is as fast as the writes, the buffer stays empty, so the result shows nothing. Then the
    measurement is repeated while the drive collects garbage.
    """

    name = "flush"
    title = "Flushes after one and after many writes"
    least_share = 0.001  # the second measurement writes the whole drive

    def writes(self, size_bytes: int) -> int:
        """Return the bytes of the fills, plus twice the bytes of the writes between flushes."""
        once = sum(FLUSH_WRITES) * FLUSHES * FLUSH_BLOCK_BYTES
        return part(size_bytes, FLUSH_SPAN_BYTES) + round((1 + COLLECTING) * size_bytes) + 2 * once

    def ask(self, bench: Bench) -> Answer:
        """Measure before garbage collection; without an answer, measure again during collection."""
        span = part(bench.size_bytes, FLUSH_SPAN_BYTES)
        bench.fill(span)
        said = _flush_costs(bench, span)
        if said.numbers.flush_waits_for or said.numbers.write_us is None:
            return said
        collect(bench)
        again = _flush_costs(bench, bench.size_bytes)
        return again if again.numbers.flush_waits_for else said


def _flush_costs(bench: Bench, span_bytes: int) -> Answer:
    """Measure flushes, first after few writes, because many writes would fill the buffer."""
    write_ns: dict[int, float] = {}
    flush_ns: dict[int, float] = {}
    for count in FLUSH_WRITES:
        wrote, flushed = bench.flushes(FLUSH_BLOCK_BYTES, span_bytes, count * FLUSHES, every=count)
        if not flushed.ios:
            return Answer("cannot tell: the target does not support flushes")
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
    cost = f"{one} after one write of {block}, {many} after {FLUSH_WRITES[-1]}"
    return Answer(_flush_sentence(waits, write_ns[1], cost), numbers, table)


def _flush_sentence(waits: Flush | None, write_ns: float, cost: str) -> str:
    match waits:
        case Flush.BUFFER:
            return f"a flush waits until the buffer is written to flash: {cost}"
        case Flush.NOTHING:
            return (
                f"a flush does not wait for flash ({cost}): the buffer is protected, or the drive "
                "ignores flushes; a test from outside cannot show which"
            )
    if write_ns >= BUFFERED_NS:
        return f"cannot tell: even writes are slow; a flush takes {cost}"
    return f"cannot tell: flushes are slow after any number of writes: {cost}"
