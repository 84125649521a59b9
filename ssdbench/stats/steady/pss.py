"""Define the pessimist's steady-state rules (pss): the rate is flat in the last half of the run.

    halves  the two halves of the window differ by at most 1 % (Seppanen et al. 2010, V.C)
    cv      the ten parts of the window vary by at most 4 % (coefficient of variation, Heger 2011)
    pairs   the five pairs of parts range over at most 10 % (half of the SNIA PTS limit)
    slope   the fitted line rises or falls by at most 5 % (half of the SNIA PTS limit)
    newest  the newest minute is at most 2 % below all others: a drop may begin there

These five limits (halves, cv, pairs, slope, newest) must hold at five checks in a row. A rate that
keeps moving between two levels exceeds these limits; such a rate is steady if it was on both levels
often enough and neither level drifts. For a rate with two levels, the result is the lower level.
The bound is not above the worst minute of the last three quarters of the run. docs/steady-state.md
says what the rules cannot see, and how often they are wrong.
"""

from dataclasses import dataclass

import numpy as np

from ssdbench.stats.bounds.levels import MIN_GAP, MIN_VISITS, two_levels
from ssdbench.stats.series import Floats, History, slope_of
from ssdbench.stats.steady.watch import Criterion, Look
from ssdbench.units import fills_noun

BLOCKS = 10
MAX_HALVES = 0.01  # Seppanen et al. 2010: 20 s after 20 s (III.A), runs within 1 % (V.C)
MAX_CV = 0.04  # Heger 2011
MAX_PAIRS = 0.10  # half of PTS' 20 %
MAX_SLOPE = 0.05  # half of PTS' 10 %
HOLD = 5
STEP_S = 60.0
MAX_LEVEL_DRIFT = 0.02
MAX_VISITS_PER_STEP = 0.25  # a visit lasts at least four steps on average; faster is noise
MAX_NEWEST = 0.02  # below the worst minute before it
MIN_WINDOW_S = 2700.0  # three times the longest known period of garbage collection (15 min)
MEMORY = 0.75  # share of the run, at its end, in which the worst minute counts
_TOLERANCE = 2.911  # tolerance_factor(BLOCKS), 95 % of parts with 95 % confidence


def window_criteria(blocks: Floats, *, halves: float = MAX_HALVES) -> tuple[Criterion, ...]:
    """Return the limits of pss for the mean rates of a window's parts, with the measured values."""
    mean = float(blocks.mean()) or np.inf
    half = len(blocks) // 2
    pairs = blocks.reshape(half, 2).mean(axis=1)
    return (
        Criterion("halves", abs(float(blocks[:half].mean() - blocks[half:].mean())) / mean, halves),
        Criterion("cv", float(blocks.std(ddof=1)) / mean, MAX_CV),
        Criterion("pairs", float(np.ptp(pairs)) / mean, MAX_PAIRS),
        Criterion("slope", abs(slope_of(blocks)) * (len(blocks) - 1) / mean, MAX_SLOPE),
    )


def newest_minute(history: History, from_s: float, at_s: float) -> Criterion:
    """Return by how much the newest minute is below the slowest other minute, with its limit."""
    minutes = history.steps(from_s, at_s, STEP_S)
    below = 1 - float(minutes[-1]) / (float(minutes[:-1].min()) or np.inf)
    return Criterion("newest_minute", max(0.0, below), MAX_NEWEST)


def sustained_lower(history: History, from_s: float, to_s: float, blocks: Floats) -> float:
    """Return the tolerance bound of the parts or the worst minute, whichever is lower."""
    bound = float(blocks.mean() - _TOLERANCE * blocks.std(ddof=1))
    worst_minute = float(history.steps(from_s, to_s, min(60.0, to_s - from_s)).min())
    return max(0.0, min(bound, worst_minute))


@dataclass(frozen=True, slots=True)
class Pss:
    """Judge the newest half of the run, after a minimum of drive fills if the workload writes."""

    name: str
    validates: bool
    min_fills: float
    min_window_s: float = MIN_WINDOW_S
    min_read_window_s: float = 600.0
    max_halves: float = MAX_HALVES
    step_s: float = STEP_S
    hold: int = HOLD

    def look(self, history: History, at_s: float) -> Look:
        """Judge the history up to `at_s`: the rate must be flat, or move between two levels."""
        flat = self._flat(history, at_s)
        if flat.early or flat.holds:
            return flat
        return self._between_levels(history, at_s) or flat

    def _between_levels(self, history: History, at_s: float) -> Look | None:
        from_s = history.time_at_fills(self.min_fills / 2) if history.writes else at_s / 4
        if at_s - from_s < max(MIN_WINDOW_S, at_s / 2):
            return None
        steps = history.steps(from_s, at_s, STEP_S)
        levels = two_levels(steps)
        if levels is None or levels.gap < MIN_GAP:
            return None
        fewest_visits = min(levels.visits_low, levels.visits_high)
        criteria = (
            Criterion("drift", abs(levels.drift), MAX_LEVEL_DRIFT),
            newest_minute(history, from_s, at_s),
            Criterion(
                "visits_per_step",
                (levels.visits_low + levels.visits_high) / len(levels.low),
                MAX_VISITS_PER_STEP,
            ),
            Criterion("missing_visits", max(0, MIN_VISITS - fewest_visits), 0),
        )
        if not all(c.holds for c in criteria):
            return None
        return Look(
            from_s=at_s - STEP_S * len(steps),
            to_s=at_s,
            blocks=steps,
            criteria=criteria,
            lower_bound=float(min(steps[levels.low].min(), levels.lower)),
            shape="periodic" if levels.regular else "bistable",
            lower_mode=levels.lower,
        )

    def _flat(self, history: History, at_s: float) -> Look:
        if history.writes and (fills := history.fills_at(at_s)) < self.min_fills:
            noun = fills_noun(history.unit_bytes)
            return Look(early=f"{fills:.2f} of {self.min_fills:g} {noun} written")
        shortest_s = self.min_window_s if history.writes else self.min_read_window_s
        window_s = max(shortest_s, at_s / 2)
        if at_s < window_s:
            return Look(early=f"{at_s:.0f} of {window_s:.0f} s")
        from_s = at_s - window_s
        blocks = history.blocks(from_s, at_s, BLOCKS)
        if not blocks.any():
            return Look(early="no I/O completed in the window")
        return Look(
            from_s=from_s,
            to_s=at_s,
            blocks=blocks,
            criteria=(
                *window_criteria(blocks, halves=self.max_halves),
                newest_minute(history, from_s, at_s),
            ),
            lower_bound=min(
                sustained_lower(history, from_s, at_s, blocks),
                sustained_lower(history, at_s * (1 - MEMORY), at_s, blocks),
            ),
        )


PSS_RULES = (
    Pss("pss", validates=True, min_fills=2.0),
    Pss("pss-quick", validates=False, min_fills=1.0, min_window_s=600.0, max_halves=0.02),
    Pss("pss-paranoid", validates=True, min_fills=3.0),
)
