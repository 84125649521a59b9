"""Over-provisioning and write amplification, from how the rate grows with room that is given.

Source: trimmed space serves as spare area (Frankie, Hughes and Kreutz-Delgado, ACMSE 2012).
"""

import numpy as np

from ssdbench.model.inside import ProbeNumbers, Scalar
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.probing import falls_at_once, step_down
from ssdbench.stats.spare import SPANS, Measured, Unknown, spare
from ssdbench.units import KIB

BLOCK_BYTES = 64 * KIB  # no smaller than usual remap units
DEPTH = 32
SETTLE, PARTS, MEASURE = 2.0, 4, 0.25  # times the span


class Spare:
    """Random writes to all of the drive, then to less and less of it with the rest trimmed.

    Where collection begins depends on how a drive collects; how much faster it becomes with more
    room hardly does.
    """

    name = "spare"
    title = "Over-provisioning and write amplification from the gain of trimmed room"

    def writes(self, size_bytes: int) -> int:
        """A fill in order and three in random order for each span."""
        return round(size_bytes * (1 + sum(SPANS) * (SETTLE + PARTS * MEASURE)))

    def ask(self, bench: Bench) -> Said:
        """Time per byte in steady state at every span."""
        size = bench.size_bytes
        if not bench.discard(0, size):
            return Said("cannot tell: the target takes no TRIM, so no room can be given to it")
        ordered = bench.fill(size)
        if falls_at_once(list(ordered)) or step_down(list(ordered)):
            return Said("cannot tell: writes in order slow down by themselves")
        seconds: list[tuple[float, ...]] = []
        begun = np.zeros(0)
        before = size
        for span in (part(round(share * size), size) for share in SPANS):
            if span < before:
                bench.discard(span, before - span)
            settled = bench.write(Pattern.RANDOM, BLOCK_BYTES, DEPTH, span, round(SETTLE * span))
            begun = begun if len(begun) else settled
            seconds.append(tuple(_seconds_per_byte(bench, span) for _ in range(PARTS)))
            before = span
        found = spare(
            Measured(
                seconds_per_byte=tuple(seconds),
                written_share=tuple(np.cumsum(begun) / size),
                bytes_per_s=tuple(begun),
                ordered_bytes_per_s=float(np.median(ordered)) if len(ordered) else 0.0,
            )
        )
        table: tuple[dict[str, Scalar], ...] = tuple(
            {"span": share, "mb_per_s": round(1e-6 / max(float(np.mean(one)), 1e-18), 2)}
            for share, one in zip(SPANS, seconds, strict=True)
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


def _seconds_per_byte(bench: Bench, span: int) -> float:
    """Of random writes of a part of the span."""
    total = max(BLOCK_BYTES, round(MEASURE * span))
    done = bench.rate(Pattern.RANDOM, BLOCK_BYTES, 0, DEPTH, span, total)
    return done.runtime_s / max(done.bytes, 1)
