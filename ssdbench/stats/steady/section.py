"""Follow one repeat of one point second by second: settle, perhaps wait, measure, done.

The stage that measures and the judges of whole simulated runs both follow a section with this, so
that what is judged is what a user gets.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from ssdbench.model.point import SteadyVerdict
from ssdbench.stats.bounds.evidence import HORIZON_S
from ssdbench.stats.steady.settle import Settle
from ssdbench.stats.steady.watch import Watch
from ssdbench.stats.steady.window import Needed, Window

LONGEST = 10  # windows for the sake of the buffer, and at least a horizon
BUFFERS_BEFORE = 2.0  # buffers written before a window, since the drive was idle


class Phase(StrEnum):
    """Name what the next second is."""

    SETTLE = "settle"
    MEASURE = "measure"
    DONE = "done"


@dataclass(slots=True)
class Section:
    """Know where one start of the generator is."""

    rule: Settle
    needed: Needed
    chance: Random
    least_bytes: float = 0.0  # that the window writes, for the sake of the drive's buffer
    sized: Callable[[SteadyVerdict], Needed] | None = None  # by this settle phase itself
    phase: Phase = Phase.SETTLE
    settle: SteadyVerdict | None = None
    counts_from_s: float = 0.0  # evidence from here on: past the spare area, and not moving
    from_s: float | None = None  # of the window
    window: Window | None = None
    foreign_ios: int = 0  # in the window: requests on the drive that were not ours
    _watch: Watch = field(init=False)
    _spare_s: float | None = None
    _before_bytes: float = 0.0

    def __post_init__(self) -> None:
        self._watch = Watch(self.rule)

    def push(
        self, t_s: float, rate: float, *, fills: float | None, written: float, spent: bool = False
    ) -> Phase:
        """Take one second; `written` bytes since the start; `spent`: settling may last no longer.

        Answers what the next second is.
        """
        if self.phase is Phase.SETTLE:
            self._settling(t_s, rate, fills, written, spent=spent)
        elif self.phase is Phase.MEASURE:
            self._measuring(t_s, written)
        return self.phase

    def complete(self, length_s: float) -> bool:
        """Tell whether the window was measured to its end, give or take one sample."""
        if self.window is None or self.from_s is None or self.phase is Phase.SETTLE:
            return False
        return self.phase is Phase.DONE or length_s >= self.from_s + self.window.length_s - 1.5

    def state(self) -> str:
        """Say how settling stands, in words."""
        return self._watch.state()

    def _settling(
        self, t_s: float, rate: float, fills: float | None, written: float, *, spent: bool
    ) -> None:
        if self.window is None:
            if self._spare_s is None and (fills is None or fills >= self.rule.spare_fills):
                self._spare_s = t_s if self.rule.spare_fills else 0.0
            if not (self._watch.push(t_s, rate, fills) or spent):
                return
            self.settle = self._watch.verdict()
            self.counts_from_s = t_s
            if self.settle.steady:
                self.counts_from_s = max(self._spare_s or 0.0, self.settle.window_from_s)
            if self.sized is not None:
                self.needed = self.sized(self.settle)
            self.window = self.needed.draw(self.chance)
            self.from_s = t_s + self.window.wait_s
        if self.from_s is not None and t_s >= self.from_s - 1e-6:
            self.from_s, self._before_bytes = t_s, written
            self.phase = Phase.MEASURE

    def _measuring(self, t_s: float, written: float) -> None:
        if self.window is None or self.from_s is None:
            raise RuntimeError("a window is measured after the settle phase")
        counted_s = t_s - self.from_s
        if counted_s < self.window.length_s - 1e-6:
            return
        hidden = written - self._before_bytes < self.least_bytes
        if not hidden or counted_s >= longest_window_s(self.window.length_s):
            self.phase = Phase.DONE


def longest_window_s(length_s: float) -> float:
    """Say how long a window of that length may become until it has seen past the buffer."""
    return max(HORIZON_S, LONGEST * length_s)
