"""When the effects of the point before are over, and a repeat's measurement may begin.

A drive in steady state is put under another workload: what the last one left (free blocks, full
buffers, a different mix of victims) lasts until about its spare area was written once more.
After that the newest half of the phase must be flat. The limits are wider than those of the
long warm-up, because the phase is short and its noise larger; what slips through shows in the
repeats, whose order is random and tested for a trend.
"""

from dataclasses import dataclass

from ssdbench.stats.pss import BLOCKS, sustained_lower, window_criteria
from ssdbench.stats.series import History
from ssdbench.stats.watch import Look

WINDOW_S = 60.0
MAX_HALVES = 0.02
MAX_CV = 0.15  # blocks of 6 s, so noise and not only change


@dataclass(frozen=True, slots=True)
class Settle:
    """The newest half, at least a minute, is flat after `spare_fills` were written."""

    spare_fills: float = 0.0  # spare area / active range; 0 for read points
    name: str = "settle"
    validates: bool = True
    window_s: float = WINDOW_S
    step_s: float = 10.0
    hold: int = 2

    @property
    def min_window_s(self) -> float:
        """As the profile has it."""
        return self.window_s

    def look(self, history: History, at_s: float) -> Look:
        """Judge the newest half of the phase."""
        if history.writes and (fills := history.fills_at(at_s)) < self.spare_fills:
            return Look(
                early=f"{fills:.3f} of {self.spare_fills:.3f} fills (the spare area) written"
            )
        window_s = max(self.window_s, at_s / 2)
        if at_s < window_s:
            return Look(early=f"{at_s:.0f} s of at least {window_s:.0f} s seen")
        blocks = history.blocks(at_s - window_s, at_s, BLOCKS)
        criteria = window_criteria(blocks, halves=MAX_HALVES, cv=MAX_CV)
        return Look(
            from_s=at_s - window_s,
            to_s=at_s,
            blocks=blocks,
            criteria=tuple(c for c in criteria if c.name in ("halves", "cv", "slope")),
            lower_bound=sustained_lower(history, at_s - window_s, at_s, blocks),
        )
