"""Over-provisioning and write amplification, from how the rate grows with room that is given.

Source: trimmed space serves as spare area (Frankie, Hughes and Kreutz-Delgado, ACMSE 2012).
"""

import numpy as np

from ssdbench.model.inside import ProbeNumbers, Scalar
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stages.probe.buffer import WRITTEN_BYTES, agreed, bursts
from ssdbench.stages.probe.remap import buffered
from ssdbench.stats.inside.probing import falls_at_once, step_down
from ssdbench.stats.inside.spare import SPANS, Measured, Unknown, spare
from ssdbench.units import KIB

BLOCK_BYTES = 64 * KIB  # no smaller than usual remap units
DEPTH = 32
SETTLE, PARTS, MEASURE = 2.0, 4, 0.25  # times the span
FIRST = 128  # parts of the drive, of which the first are measured one by one
MOST_FIRST = FIRST // 2
SLOWED, AFTER = 2.0, 10  # times the usual time per byte, and parts that are still looked at


class Spare:
    """Random writes to all of the drive, then to less and less of it with the rest trimmed.

    What it takes at full speed is its room; what it gains from more room says whether that is so.
    """

    name = "spare"
    title = "Over-provisioning and write amplification from random writes with more and more room"

    def writes(self, size_bytes: int) -> int:
        """A fill in order, half of one in parts, three for each span, and bursts."""
        fills = 1 + MOST_FIRST / FIRST + sum(SPANS) * (SETTLE + PARTS * MEASURE)
        return round(size_bytes * fills) + WRITTEN_BYTES

    def ask(self, bench: Bench) -> Said:
        """Time per byte in steady state at every span."""
        size = bench.size_bytes
        if not bench.discard(0, size):
            return Said("cannot tell: the target takes no TRIM, so no room can be given to it")
        ordered = bench.fill(size)
        if falls_at_once(list(ordered)) or step_down(list(ordered)):
            return Said("cannot tell: writes in order slow down by themselves")
        part_bytes = max(1, size // FIRST // BLOCK_BYTES) * BLOCK_BYTES
        first = _first(bench, size, part_bytes)
        seconds: list[tuple[float, ...]] = []
        before = size
        for span in (part(round(share * size), size) for share in SPANS):
            if span < before:
                bench.discard(span, before - span)
            bench.write(Pattern.RANDOM, BLOCK_BYTES, DEPTH, span, round(SETTLE * span))
            seconds.append(tuple(_seconds_per_byte(bench, span) for _ in range(PARTS)))
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
                    (share, SETTLE + 1, float(np.mean(one)))
                    for share, one in zip(SPANS, seconds, strict=True)
                ),
            )
        )
        if isinstance(found, Unknown):
            return Said(f"cannot tell: {found.why}", table=table)
        (least, most), (amplified, at_most) = found.over_provisioning, found.amplification
        return Said(
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
    """The first random writes to a drive that was filled in order, part by part."""
    taken: list[float] = []
    while len(taken) < MOST_FIRST:
        taken.append(_seconds_per_byte(bench, size, part_bytes))
        usual = float(np.median(taken[: len(taken) // 2 + 1]))
        if sum(one > SLOWED * usual for one in taken) >= AFTER:
            break
    return tuple(taken)


def _buffer(bench: Bench, span: int, size: int) -> float | None:
    """What a buffer takes while the drive collects, as a share of the drive."""
    taken = agreed(bursts(bench, span))
    if taken is not None:
        return taken / size
    return None if buffered(bench, span) else 0.0


def _seconds_per_byte(bench: Bench, span: int, total: int | None = None) -> float:
    """Of random writes of so many bytes to the span, or of a part of it."""
    total = total or max(BLOCK_BYTES, round(MEASURE * span))
    done = bench.rate(Pattern.RANDOM, BLOCK_BYTES, 0, DEPTH, span, total)
    return done.runtime_s / max(done.bytes, 1)
