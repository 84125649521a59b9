"""Apply a steady-state rule to samples during a run or, in the same way, to a stored series.

The cost of one check does not depend on the number of samples: a day of one-second samples is
judged in a fraction of a second of CPU time.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ssdbench.model.point import SteadyVerdict, criterion_value, criterion_words
from ssdbench.stats.series import Floats, History, Series


@dataclass(frozen=True, slots=True)
class Criterion:
    """Hold one limit of a rule: the measured value and the largest allowed value."""

    name: str
    measured: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Tell whether the measured value is within this limit."""
        return self.measured <= self.allowed

    def words(self) -> str:
        """Return the criterion in words as reports do, such as `variation of the blocks (CV)`."""
        words = criterion_words(self.name)
        return f"{words[:1].lower()}{words[1:]}"

    def sentence(self) -> str:
        """Return value and limit in words, such as `variation of the blocks 5.2 % (limit 4 %)`."""
        measured = criterion_value(self.name, self.measured)
        return f"{self.words()} {measured} (limit {criterion_value(self.name, self.allowed)})"


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Hold the result of one check by a rule. `early` is set if the rule cannot decide yet."""

    early: str = ""  # the missing condition of the rule
    from_s: float = 0.0
    to_s: float = 0.0
    blocks: Floats = field(default_factory=lambda: np.zeros(0))
    criteria: tuple[Criterion, ...] = ()
    lower_bound: float = 0.0
    shape: str = "flat"
    lower_mode: float | None = None

    @property
    def holds(self) -> bool:
        """Tell whether all criteria held at this check."""
        return not self.early and all(criterion.holds for criterion in self.criteria)


class WindowRule(Protocol):
    """Define a rule that checks the newest window of a series every `step_s` seconds.

    The rule is satisfied when all criteria held at `hold` checks in a row.
    `ssdbench.stats.steady.rules` lists all rules.
    """

    @property
    def name(self) -> str: ...
    @property
    def validates(self) -> bool: ...
    @property
    def step_s(self) -> float: ...
    @property
    def hold(self) -> int: ...

    @property
    def min_window_s(self) -> float:
        """Return the shortest window of writes, in seconds, that the rule can judge."""
        ...

    def look(self, history: History, at_s: float) -> Look:
        """Judge the history from its start up to `at_s`."""
        ...


class Watch:
    """Apply a rule to samples as they arrive. Once the rule is satisfied, the verdict is final."""

    def __init__(self, rule: WindowRule, *, unit_bytes: int = 0) -> None:
        self._rule = rule
        self._history = History(unit_bytes=unit_bytes)
        self._next_s = rule.step_s
        self._streak = 0
        self._look = rule.look(self._history, 0.0)
        self._at_s = 0.0

    @classmethod
    def over(cls, rule: WindowRule, series: Series) -> "Watch":
        """Return a watch that has checked all samples of a stored series."""
        watch = cls(rule)
        watch._history = History.of(series)
        watch._advance()
        return watch

    def push(self, t_s: float, rate: float, written_fills: float | None = None) -> bool:
        """Add one sample of the rate. The result is True once the rule is satisfied."""
        self._history.push(t_s, rate, written_fills)
        self._advance()
        return self.steady

    @property
    def steady(self) -> bool:
        """Tell whether the rule has been satisfied."""
        return self._streak >= self._rule.hold

    def _advance(self) -> None:
        while self._next_s <= self._history.end_s and not self.steady:
            self._at_s = self._next_s
            self._next_s += self._rule.step_s
            self._look = self._rule.look(self._history, self._at_s)
            self._streak = self._streak + 1 if self._look.holds else 0

    def verdict(self) -> SteadyVerdict:
        """Return the verdict at the last check, with its evidence."""
        look = self._look
        slope_per_s, intercept = straight_line(look)
        return SteadyVerdict(
            rule=self._rule.name,
            steady=self.steady,
            checked_s=self._at_s,
            volume_fills=self._history.fills_at(self._at_s),
            unit_bytes=self._history.unit_bytes,
            window_from_s=look.from_s,
            window_to_s=look.to_s,
            window_blocks=tuple(look.blocks.tolist()),
            mean=float(look.blocks.mean()) if len(look.blocks) else 0.0,
            lower_bound=look.lower_bound,
            slope_per_s=slope_per_s,
            intercept=intercept,
            criteria={c.name: (c.measured, c.allowed) for c in look.criteria},
            reason="" if self.steady else self._reason(),
            shape=look.shape,
            lower_mode=look.lower_mode,
        )

    def state(self) -> str:
        """Describe the progress to a user who waits for the verdict, such as `0 of 60 s`."""
        look = self._look
        if self.steady or look.early:
            return look.early or "steady"
        window = f"in the newest {look.to_s - look.from_s:.0f} s"
        if broken := [criterion.words() for criterion in look.criteria if not criterion.holds]:
            return f"not steady yet: {', '.join(broken)} over the limit {window}"
        return f"within all limits {window}, at {self._streak} of {self._rule.hold} checks in a row"

    def _reason(self) -> str:
        if self._look.early:
            return self._look.early
        broken = [c for c in self._look.criteria if not c.holds]
        if broken:
            return "; ".join(criterion.sentence() for criterion in broken)
        return f"all limits hold, but only at {self._streak} of {self._rule.hold} checks in a row"


def straight_line(look: Look) -> tuple[float, float]:
    """Fit a line to the parts' rates by least squares; return slope per second and first value."""
    count = len(look.blocks)
    if count < 2:
        return 0.0, float(look.blocks.mean()) if count else 0.0
    middle_s = (np.arange(count) + 0.5) * (look.to_s - look.from_s) / count
    slope, intercept = np.polyfit(middle_s, look.blocks, 1)
    return float(slope), float(intercept)
