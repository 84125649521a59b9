"""Probe with random writes: remap unit, spare area, and TRIM.

Source: trimmed space serves as spare area (Frankie, Hughes and Kreutz-Delgado, ACMSE 2012: the
effective over-provisioning grows by what is trimmed), so writes are amplified less.
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
    Trimmed,
    Unknown,
    falls_at_once,
    remap_unit,
    spare,
    step_down,
    trim_effect,
)
from ssdbench.units import GIB, KIB, MIB, format_size

REMAP_BLOCKS = (4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB)
REMAP_EACH_BYTES = 192 * MIB  # several times what a buffer holds
REMAP_SPAN_BYTES = 4 * GIB
REMAP_DEPTH = 32
REMAP_SINGLE = 64  # writes one at a time, after a rest
REMAP_CHANGED = 0.25  # of the rate of the largest writes, measured before and after the others
REMAP_SHARE = 8  # 1/8 of the drive: small beside the spare area, so writes are not amplified


class RemapUnit:
    """Write at random in several sizes: below the unit the rate in bytes falls with the size."""

    name = "remap-unit"
    title = "Remap unit from the cost of small random writes"

    def writes(self, size_bytes: int) -> int:
        """Return one fill of the span and the random writes."""
        return (
            part(size_bytes // REMAP_SHARE, REMAP_SPAN_BYTES)
            + (len(REMAP_BLOCKS) + 1) * REMAP_EACH_BYTES
        )

    def ask(self, bench: Bench) -> Answer:
        """Write the largest sizes first, so that growing disorder does not favour small ones."""
        span = part(bench.size_bytes // REMAP_SHARE, REMAP_SPAN_BYTES)
        bench.discard(0, bench.size_bytes)  # free space, if supported, so nothing is collected
        bench.fill(span)
        # Without a buffer every write programs a page, so the unit may be that page.
        behind = buffered(bench, span)
        rates: dict[int, float] = {}
        for block in sorted(REMAP_BLOCKS, reverse=True):
            rates[block] = _remap_rate(bench, block, span)
        again = _remap_rate(bench, max(REMAP_BLOCKS), span)
        unit = remap_unit(rates)
        table = tuple(
            {"block_bytes": block, "mb_per_s": round(rates[block] / 1e6, 2)}
            for block in REMAP_BLOCKS
        )
        if abs(again / rates[max(REMAP_BLOCKS)] - 1) > REMAP_CHANGED:
            return Answer(
                "cannot tell: the rate changed meanwhile: a cache, or collection", table=table
            )
        if unit is None:
            return Answer("cannot tell: small writes are limited by something else", table=table)
        least = unit == min(REMAP_BLOCKS) or not behind
        text = f"{format_size(unit)} or less" if least else format_size(unit)
        return Answer(
            f"remap unit {text}", ProbeNumbers(remap_unit_bytes=unit, at_most=least), table
        )


def buffered(bench: Bench, span: int) -> bool:
    """Tell whether single writes after a rest are answered before flash could be programmed."""
    return any(
        float(np.median(bench.latencies(block, 1, span, REMAP_SINGLE))) < BUFFERED_NS
        for block in (4 * KIB, 16 * KIB, 64 * KIB)
    )


def _remap_rate(bench: Bench, block_bytes: int, span_bytes: int) -> float:
    """Return bytes/s of random writes of one size."""
    done = bench.rate(Pattern.RANDOM, block_bytes, 0, REMAP_DEPTH, span_bytes, REMAP_EACH_BYTES)
    return max(done.bytes, 1) / max(done.runtime_s, 1e-9)


SPARE_BLOCK_BYTES = 64 * KIB  # no smaller than usual remap units
SPARE_DEPTH = 32
SPARE_SETTLE, SPARE_PARTS, SPARE_MEASURE = 2.0, 4, 0.25  # times the span
SPARE_FIRST = 128  # parts of the drive, of which the first are measured one by one
SPARE_MOST_FIRST = SPARE_FIRST // 2
SPARE_SLOWED, SPARE_AFTER = 2.0, 10  # times the usual time per byte, in that many parts


class Spare:
    """Write at random to all of the drive, then to less and less of it with the rest trimmed.

    What it takes at full speed is its room; what it gains from more room says whether that is so.
    """

    name = "spare"
    title = "Over-provisioning and write amplification from random writes with more and more room"

    def writes(self, size_bytes: int) -> int:
        """Return a sequential fill, half of one in parts, three for each span, and bursts."""
        fills = (
            1
            + SPARE_MOST_FIRST / SPARE_FIRST
            + sum(SPANS) * (SPARE_SETTLE + SPARE_PARTS * SPARE_MEASURE)
        )
        return round(size_bytes * fills) + BURSTS_BYTES

    def ask(self, bench: Bench) -> Answer:
        """Measure the time per byte in steady state at every span."""
        size = bench.size_bytes
        if not bench.discard(0, size):
            return Answer("cannot tell: the target takes no TRIM, so no room can be given to it")
        ordered = bench.fill(size)
        if falls_at_once(list(ordered)) or step_down(list(ordered)):
            return Answer("cannot tell: writes in order slow down by themselves")
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
            f"{100 * least:.1f} to {100 * most:.1f} % over-provisioning, by which uniform random "
            f"writes are amplified {amplified:.1f} to {at_most:.1f} times",
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
    """Measure the first random writes to a drive that was filled in order, part by part."""
    taken: list[float] = []
    while len(taken) < SPARE_MOST_FIRST:
        taken.append(_seconds_per_byte(bench, size, part_bytes))
        usual = float(np.median(taken[: len(taken) // 2 + 1]))
        if sum(one > SPARE_SLOWED * usual for one in taken) >= SPARE_AFTER:
            break
    return tuple(taken)


def _buffer(bench: Bench, span: int, size: int) -> float | None:
    """Return what a buffer takes while the drive collects, as a share of the drive."""
    taken = agreed_bytes(bursts(bench, span))
    if taken is not None:
        return taken / size
    return None if buffered(bench, span) else 0.0


def _seconds_per_byte(bench: Bench, span: int, total: int | None = None) -> float:
    """Return seconds per byte of random writes to the span."""
    total = total or max(SPARE_BLOCK_BYTES, round(SPARE_MEASURE * span))
    done = bench.rate(Pattern.RANDOM, SPARE_BLOCK_BYTES, 0, SPARE_DEPTH, span, total)
    return done.runtime_s / max(done.bytes, 1)


TRIM_BLOCK_BYTES = 32 * KIB  # as in the probe of the spare area
TRIM_DEPTH = 32
TRIM_KEPT = 0.75  # share of the drive that is written; the rest is trimmed
TRIM_FRESH = 0.02  # of the kept part: before garbage collection begins
TRIM_SETTLE, TRIM_MEASURE = 1.5, 0.25  # times the kept part


class Trim:
    """Write at random to three quarters of a full drive, before and after the rest is trimmed."""

    name = "trim"
    title = "Random writes before and after a TRIM of a quarter"

    def writes(self, size_bytes: int) -> int:
        """Return a sequential fill, and the random writes."""
        return round(
            size_bytes * (1 + TRIM_KEPT * (TRIM_FRESH + 2 * TRIM_SETTLE + 3 * TRIM_MEASURE))
        )

    def ask(self, bench: Bench) -> Answer:
        """Compare the rates; the one before must be stable and slowed by garbage collection."""
        size = bench.size_bytes
        kept = part(round(size * TRIM_KEPT), size)
        bench.fill(size)
        fresh = _trim_rate(bench, kept, TRIM_FRESH)
        _trim_rate(bench, kept, TRIM_SETTLE)
        before = _trim_rate(bench, kept, TRIM_MEASURE), _trim_rate(bench, kept, TRIM_MEASURE)
        if not bench.discard(kept, size - kept):
            return Answer("cannot tell: the target takes no TRIM")
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
    """Return bytes/s of random writes of a share of the kept part."""
    total = max(TRIM_BLOCK_BYTES, round(kept * share))
    done = bench.rate(Pattern.RANDOM, TRIM_BLOCK_BYTES, 0, TRIM_DEPTH, kept, total)
    return done.bytes / max(done.runtime_s, 1e-9)


def _trim_sentence(effect: Trimmed | None, gain: float, fresh: float, before: float) -> str:
    match effect:
        case Trimmed.FASTER:
            return f"TRIM gives room: with a quarter trimmed, random writes go {gain:.1f} x as fast"
        case Trimmed.SAME:
            return f"TRIM of a quarter does nothing for random writes ({gain:.2f} x the rate)"
    if before >= CLIFF * fresh:
        return "cannot tell: collection does not slow random writes, so room cannot help them"
    return f"cannot tell: the rate was still moving, or moved too little ({gain:.2f} x)"
