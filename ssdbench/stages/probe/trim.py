"""What TRIM does: whether random writes are faster when a quarter of the drive holds nothing.

Source: trimmed space serves as spare area (Frankie, Hughes and Kreutz-Delgado, ACMSE 2012: the
effective over-provisioning grows by what is trimmed), so writes are amplified less.
"""

from ssdbench.model.inside import ProbeNumbers, Scalar
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.inside.probing import CLIFF, Trimmed, trim_effect
from ssdbench.units import KIB

BLOCK_BYTES = 32 * KIB  # as the probe of the spare area
DEPTH = 32
KEPT = 0.75  # of the drive is written to; the rest is trimmed
FRESH = 0.02  # of what is kept: before collection begins
SETTLE, MEASURE = 1.5, 0.25  # times what is kept


class Trim:
    """Random writes to three quarters of a full drive, before and after the rest is trimmed."""

    name = "trim"
    title = "Random writes before and after a TRIM of a quarter"

    def writes(self, size_bytes: int) -> int:
        """A fill in order, and the random writes."""
        return round(size_bytes * (1 + KEPT * (FRESH + 2 * SETTLE + 3 * MEASURE)))

    def ask(self, bench: Bench) -> Said:
        """The rate before must hold still, and collection must have slowed it."""
        size = bench.size_bytes
        kept = part(round(size * KEPT), size)
        bench.fill(size)
        fresh = _rate(bench, kept, FRESH)
        _rate(bench, kept, SETTLE)
        before = _rate(bench, kept, MEASURE), _rate(bench, kept, MEASURE)
        if not bench.discard(kept, size - kept):
            return Said("cannot tell: the target takes no TRIM")
        _rate(bench, kept, SETTLE)
        after = _rate(bench, kept, MEASURE)
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
        return Said(_sentence(effect, gain, fresh, before[1]), numbers, table)


def _rate(bench: Bench, kept: int, share: float) -> float:
    """Bytes/s of random writes of so much of what is kept."""
    total = max(BLOCK_BYTES, round(kept * share))
    done = bench.rate(Pattern.RANDOM, BLOCK_BYTES, 0, DEPTH, kept, total)
    return done.bytes / max(done.runtime_s, 1e-9)


def _sentence(effect: Trimmed | None, gain: float, fresh: float, before: float) -> str:
    match effect:
        case Trimmed.FASTER:
            return f"TRIM gives room: with a quarter trimmed, random writes go {gain:.1f} x as fast"
        case Trimmed.SAME:
            return f"TRIM of a quarter does nothing for random writes ({gain:.2f} x the rate)"
    if before >= CLIFF * fresh:
        return "cannot tell: collection does not slow random writes, so room cannot help them"
    return f"cannot tell: the rate was still moving, or moved too little ({gain:.2f} x)"
