"""When the effects of the point before are over, and a repeat's measurement may begin.

A drive in steady state is put under another workload: what the last one left (free blocks, full
buffers, a different mix of victims) lasts until about its spare area was written once more. So
settling ends by bytes and by time that are known beforehand, and goes on only while the rate
plainly rises or falls (Kendall 1975, on ten blocks of the newest half). It never waits for a quiet
stretch: a drive that stalls now and then would be measured between its stalls.
"""

from dataclasses import dataclass

from ssdbench.stats.evidence import lower_limit
from ssdbench.stats.pss import BLOCKS
from ssdbench.stats.series import History
from ssdbench.stats.trend import trend
from ssdbench.stats.watch import Criterion, Look

WINDOW_S = 60.0
MOVES = 0.02  # of the median, along the Theil-Sen line over the newest half
MOVES_P = 0.01


@dataclass(frozen=True, slots=True)
class Settle:
    """At least `window_s`, after `spare_fills` were written, and no trend in the newest half."""

    spare_fills: float = 0.0  # spare area / active range; 0 for read points
    name: str = "settle"
    validates: bool = True
    window_s: float = WINDOW_S
    step_s: float = 10.0
    hold: int = 1

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
        found = trend(blocks)
        moves = abs(found.change) if found.p <= MOVES_P else 0.0
        return Look(
            from_s=at_s - window_s,
            to_s=at_s,
            blocks=blocks,
            criteria=(Criterion("moves", moves, MOVES),),
            lower_bound=lower_limit(blocks),
        )
