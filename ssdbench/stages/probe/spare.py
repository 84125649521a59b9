"""Find the remap unit, the spare area and the effect of TRIM, by random writes.

Source: trimmed space acts as spare area and so reduces write amplification. Frankie, Hughes and
Kreutz-Delgado (ACMSE 2012) add it to the effective over-provisioning.
"""

import numpy as np

from ssdbench.model.inside import ProbeNumbers, Scalar
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Answer, Bench, part
from ssdbench.stages.probe.buffers import BURSTS_BYTES, agreed_bytes, bursts
from ssdbench.stats.inside.probing import (
    BUFFERED_NS,
    CLIFF,
    SPANS,
    Measured,
    Shifted,
    Trimmed,
    Unknown,
    falls_at_once,
    remap_unit,
    spare,
    step_down,
    trim_effect,
)
from ssdbench.units import GIB, KIB, MIB, format_size

REMAP_BLOCKS = tuple(n * KIB for n in (256, 128, 64, 32, 16, 8))
REMAP_SPAN_BYTES = 4 * GIB
REMAP_SHARE = 8  # 1/8 of the drive is used; the free space prevents write amplification
REMAP_LEAST_SPAN_BYTES = 64 * max(REMAP_BLOCKS)
REMAP_EACH_BYTES = 128 * MIB  # several times a usual buffer
REMAP_MOST_BYTES = GIB  # most bytes, after doubling, to fill a larger buffer
REMAP_AGAIN_BYTES = 8 * GIB  # limit of all doublings, which the plan announced
REMAP_DEPTH = 32
REMAP_IN_ORDER = 0.8  # of the sequential rate; if less, the drive merges small blocks
REMAP_SINGLE = 64  # number of single writes after a rest


class RemapUnit:
    """Find the remap unit: a random write of one unit that is not aligned to it costs two units.

    The write buffer is kept full, so that the flash limits the rate.
    """

    name = "remap-unit"
    title = "Remap unit from the cost of writes that are not aligned"
    least_share = 0.1  # it may know its answer early

    def writes(self, size_bytes: int) -> int:
        """Return the bytes that the probe writes: one fill of its span, and random writes."""
        usual = (4 * len(REMAP_BLOCKS) + 1) * REMAP_EACH_BYTES
        return _remap_span(size_bytes) + usual + REMAP_AGAIN_BYTES

    def ask(self, bench: Bench) -> Answer:
        """Compare shifted with aligned writes, from the largest size to one that a shift slows."""
        span = _remap_span(bench.size_bytes)
        if span < REMAP_LEAST_SPAN_BYTES:
            return Answer("cannot tell: the drive is too small for random writes")
        bench.discard(0, bench.size_bytes)  # prevents garbage collection
        bench.fill(span)
        rates: dict[int, Shifted] = {}
        left = REMAP_AGAIN_BYTES
        for block in REMAP_BLOCKS:
            rates[block], left = _shifted(bench, block, span, left)
            if rates[block].slower is not False:
                break
        table = tuple(
            {
                "block_bytes": block,
                "mb_per_s": round(rate.aligned / 1e6, 2),
                "shifted_mb_per_s": round(min(rate.shifted) / 1e6, 2),
            }
            for block, rate in rates.items()
        )
        found = remap_unit(rates)
        if found is None:
            last = min(rates)
            said = (
                f"cannot tell: it may be more than {format_size(last // 2)}"
                if rates[last].slower
                else f"cannot tell: the rate of writes of {format_size(last)} changed during the "
                "probe, or something else than flash limits it"
            )
            return Answer(said, table=table)
        unit, least = found
        if least and rates[min(rates)].aligned < REMAP_IN_ORDER * _in_order(bench, span):
            said = "cannot tell: writes in order are faster than random ones, though no shift costs"
            return Answer(said, table=table)
        text = f"{format_size(unit)} or less" if least else format_size(unit)
        return Answer(
            f"remap unit {text}", ProbeNumbers(remap_unit_bytes=unit, at_most=least), table
        )


def _remap_span(size_bytes: int) -> int:
    return part(size_bytes // REMAP_SHARE, REMAP_SPAN_BYTES)


def _in_order(bench: Bench, span: int) -> float:
    block = min(REMAP_BLOCKS)
    done = bench.rate(Pattern.SEQUENTIAL, block, 0, REMAP_DEPTH, span, REMAP_EACH_BYTES)
    return done.bytes / max(done.runtime_s, 1e-9)


def _shifted(bench: Bench, block: int, span: int, left: int) -> tuple[Shifted, int]:
    """Measure shifted and aligned writes of one size; double the bytes until the result is clear.

    After the first measurement, at most `left` more bytes may be written. The function returns the
    rates, and how many of the `left` bytes remain.
    """
    offsets = (0, block // 2, 0, block // 2)  # writes at the first offset fill the buffer
    total = REMAP_EACH_BYTES
    while True:
        _, before, aligned, after = bench.random_writes(block, REMAP_DEPTH, span, total, offsets)
        said, total = Shifted(aligned, (before, after)), 2 * total
        again = len(offsets) * total
        if said.slower is not None or total > REMAP_MOST_BYTES or again > left:
            return said, left
        left -= again


def buffered(bench: Bench, span: int) -> bool:
    """Tell whether single writes after idle time end faster than flash can be programmed."""
    return any(
        float(np.median(bench.latencies(block, 1, span, REMAP_SINGLE))) < BUFFERED_NS
        for block in (4 * KIB, 16 * KIB, 64 * KIB)
    )


SPARE_BLOCK_BYTES = 64 * KIB  # at least a usual remap unit
SPARE_DEPTH = 32
# For each span: bytes written before the measurement (in spans), number of measured parts, and
# bytes of each part (in spans).
SPARE_SETTLE, SPARE_PARTS, SPARE_MEASURE = 2.0, 4, 0.25
SPARE_FIRST = 128  # the first random writes are measured in parts of 1/128 of the drive
SPARE_MOST_FIRST = SPARE_FIRST // 2
SPARE_SLOWED, SPARE_AFTER = 2.0, 10  # stop after 10 parts that took twice the median


class Spare:
    """Find the over-provisioning: write at random to the whole drive, then to smaller spans.

    The bytes that the drive accepts at full speed show its spare area. Before each smaller span,
    everything outside this span is trimmed, which adds a known amount of free space. The gain in
    speed from this space confirms the result.
    """

    name = "spare"
    title = "Over-provisioning and write amplification from random writes with more free space"
    least_share = 0.1  # it may know its answer early

    def writes(self, size_bytes: int) -> int:
        """Return the bytes that the probe writes: all fills, and the bursts."""
        fills = (
            1
            + SPARE_MOST_FIRST / SPARE_FIRST
            + sum(SPANS) * (SPARE_SETTLE + SPARE_PARTS * SPARE_MEASURE)
        )
        return round(size_bytes * fills) + BURSTS_BYTES

    def ask(self, bench: Bench) -> Answer:
        """Measure the first random writes in parts, then the steady time per byte at each span."""
        size = bench.size_bytes
        if not bench.discard(0, size):
            return Answer("cannot tell: the target has no TRIM, which gives it free space")
        ordered = bench.fill(size)
        if falls_at_once(list(ordered)) or step_down(list(ordered)):
            return Answer("cannot tell: even sequential writes slow down")
        part_bytes = max(1, size // SPARE_FIRST // SPARE_BLOCK_BYTES) * SPARE_BLOCK_BYTES
        first = _first(bench, size, part_bytes)
        seconds: list[tuple[float, ...]] = []
        before = size
        for span in (part(round(share * size), size) for share in SPANS):
            if span < before:
                bench.discard(span, before - span)
            bench.write(
                Pattern.RANDOM, SPARE_BLOCK_BYTES, SPARE_DEPTH, span, round(SPARE_SETTLE * span)
            )
            seconds.append(tuple(_seconds_per_byte(bench, span) for _ in range(SPARE_PARTS)))
            before = span
        found = spare(
            Measured(
                seconds_per_byte=tuple(seconds),
                first_s_per_byte=first,
                part=part_bytes / size,
                buffer=_buffer(bench, before, size),
                ordered_bytes_per_s=float(np.median(ordered)) if len(ordered) else 0.0,
            )
        )
        table: tuple[dict[str, Scalar], ...] = tuple(
            {"span": share, "written": written, "mb_per_s": round(1e-6 / max(took, 1e-18), 2)}
            for share, written, took in (
                *((1.0, round((n + 1) * part_bytes / size, 4), one) for n, one in enumerate(first)),
                *(
                    (share, SPARE_SETTLE + 1, float(np.mean(one)))
                    for share, one in zip(SPANS, seconds, strict=True)
                ),
            )
        )
        if isinstance(found, Unknown):
            return Answer(f"cannot tell: {found.why}", table=table)
        (least, most), (amplified, at_most) = found.over_provisioning, found.amplification
        return Answer(
            f"{100 * least:.1f} to {100 * most:.1f} % over-provisioning, so uniform random writes "
            f"are amplified {amplified:.1f} to {at_most:.1f} times",
            ProbeNumbers(
                over_provisioning=(least + most) / 2,
                over_provisioning_least=least,
                over_provisioning_most=most,
                write_amplification_least=amplified,
                write_amplification_most=at_most,
            ),
            table,
        )


def _first(bench: Bench, size: int, part_bytes: int) -> tuple[float, ...]:
    """Return, for each part, the seconds per byte of the first random writes after a fill."""
    taken: list[float] = []
    while len(taken) < SPARE_MOST_FIRST:
        taken.append(_seconds_per_byte(bench, size, part_bytes))
        usual = float(np.median(taken[: len(taken) // 2 + 1]))
        if sum(one > SPARE_SLOWED * usual for one in taken) >= SPARE_AFTER:
            break
    return tuple(taken)


def _buffer(bench: Bench, span: int, size: int) -> float | None:
    """Return the write buffer's share of the drive's size; None for a buffer of unknown size."""
    taken = agreed_bytes(bursts(bench, span))
    if taken is not None:
        return taken / size
    return None if buffered(bench, span) else 0.0


def _seconds_per_byte(bench: Bench, span: int, total: int | None = None) -> float:
    total = total or max(SPARE_BLOCK_BYTES, round(SPARE_MEASURE * span))
    done = bench.rate(Pattern.RANDOM, SPARE_BLOCK_BYTES, 0, SPARE_DEPTH, span, total)
    return done.runtime_s / max(done.bytes, 1)


TRIM_BLOCK_BYTES = 32 * KIB
TRIM_DEPTH = 32
TRIM_KEPT = 0.75  # share of the drive that is written; the last quarter is trimmed
# Bytes written / kept part: before garbage collection, to settle, and to measure.
TRIM_FRESH, TRIM_SETTLE, TRIM_MEASURE = 0.02, 1.5, 0.25


class Trim:
    """Compare random writes to 3/4 of a drive before and after a TRIM of the last quarter."""

    name = "trim"
    title = "Random writes before and after a TRIM of a quarter"
    least_share = 0.6  # a target without TRIM is written only until the drive refuses it

    def writes(self, size_bytes: int) -> int:
        """Return the bytes that the probe writes: a sequential fill and the random writes."""
        return round(
            size_bytes * (1 + TRIM_KEPT * (TRIM_FRESH + 2 * TRIM_SETTLE + 3 * TRIM_MEASURE))
        )

    def ask(self, bench: Bench) -> Answer:
        """Compare rates; before the TRIM, the rate must be steady, with garbage collection."""
        size = bench.size_bytes
        kept = part(round(size * TRIM_KEPT), size)
        bench.fill(size)
        fresh = _trim_rate(bench, kept, TRIM_FRESH)
        _trim_rate(bench, kept, TRIM_SETTLE)
        before = _trim_rate(bench, kept, TRIM_MEASURE), _trim_rate(bench, kept, TRIM_MEASURE)
        if not bench.discard(kept, size - kept):
            return Answer("cannot tell: the target does not support TRIM")
        _trim_rate(bench, kept, TRIM_SETTLE)
        after = _trim_rate(bench, kept, TRIM_MEASURE)
        table: tuple[dict[str, Scalar], ...] = tuple(
            {"when": when, "mb_per_s": round(rate / 1e6, 2)}
            for when, rate in zip(
                ("fresh", "before TRIM", "just before TRIM", "after TRIM"),
                (fresh, *before, after),
                strict=True,
            )
        )
        effect, gain = trim_effect(fresh, before, after)
        numbers = ProbeNumbers(trim_effect=effect, rate_after_over_before=gain)
        return Answer(_trim_sentence(effect, gain, fresh, before[1]), numbers, table)


def _trim_rate(bench: Bench, kept: int, share: float) -> float:
    """Write at random to the part of the drive that stays untrimmed; return bytes per second.

    `kept` is the size of this part in bytes. `share` says how much to write, as a multiple of
    `kept`.
    """
    total = max(TRIM_BLOCK_BYTES, round(kept * share))
    done = bench.rate(Pattern.RANDOM, TRIM_BLOCK_BYTES, 0, TRIM_DEPTH, kept, total)
    return done.bytes / max(done.runtime_s, 1e-9)


def _trim_sentence(effect: Trimmed | None, gain: float, fresh: float, before: float) -> str:
    match effect:
        case Trimmed.FASTER:
            return f"TRIM helps: with a quarter trimmed, random writes are {gain:.1f} x as fast"
        case Trimmed.SAME:
            return f"a TRIM of a quarter does not change random writes ({gain:.2f} x the rate)"
    if before >= CLIFF * fresh:
        return "cannot tell: garbage collection does not slow random writes, so TRIM cannot help"
    return f"cannot tell: the rate was not yet steady, or changed too little ({gain:.2f} x)"
