"""Decide when effects of the previous point are over and a repeat's measurement may begin.

When a steady drive gets another workload, effects of the previous workload (free blocks, full
buffers, another choice of blocks to clean) last until about the amount of its spare area was
written. So settling lasts for a number of bytes and a time that are fixed in advance, and continues
after them only while the rate clearly rises or falls (Kendall 1975; the second half of the time so
far is cut into ten equal parts). Settling never waits for a quiet time, because then a drive that
stalls now and then would be measured between its stalls.

If a repeat has the rate of the earlier repeats of its point from its start on, a third of the time
is enough: its mean must be within 2 % of the earlier rate, with a standard error of at most 2 %. If
the rate varies more, half of the time is enough with a standard error of at most 3 %.

Once per point the settle phase is long: the load runs for 30 minutes or more without a break, until
the rate is flat over the last two thirds of this time. Some drives slow down only after minutes of
one load (heat, reads that disturb neighbouring cells, a reserve that is used up), and a window of a
minute would end before this.
"""

from dataclasses import dataclass

import numpy as np

from ssdbench.stats.bounds.evidence import MINUTE_S, Role, Stretch, lower_limit
from ssdbench.stats.bounds.sustained import levels_of
from ssdbench.stats.series import Floats, History, Series, Step, largest_step, trend
from ssdbench.stats.steady.pss import BLOCKS
from ssdbench.stats.steady.watch import Criterion, Look

WINDOW_S = 60.0
MOVES = 0.02  # of the median, along the Theil-Sen line over the newest half
MOVES_P = 0.01
ERRORS = 3.0  # standard errors, beyond which a mean is another
# Shares of the settle time that are enough if the rate is known and is the same again, and the
# largest standard error of the mean that shows this.
SOON = ((1 / 3, MOVES), (1 / 2, 0.03))
LEAST_SOON_S = 20.0  # shortest of these times; a second is the shortest sample
LEAST_BEFORE_S = 90.0  # shortest steady part of a settle phase that counts as evidence
UNBROKEN_S = 1800.0  # of one load without a break, before it is known to last
FLAT_SHARE = 2 / 3  # of that time, at its end, which must be flat


@dataclass(frozen=True, slots=True)
class Settle:
    """Wait for `window_s` and for `spare_fills` of writes, then until the newest half is flat.

    With `unbroken_s`, wait at least this long, until the newest two thirds have no trend and no
    step. `level_iops` is the rate of the unbroken repeat; if the rate of this repeat differs, this
    repeat must also be unbroken. If it has this rate from its start on, a third of `window_s` may
    be enough. Seconds before `from_s` are ignored, because this load took so long to settle in an
    earlier repeat.
    """

    spare_fills: float = 0.0  # spare area / active range; 0 for read points
    name: str = "settle"
    validates: bool = True
    window_s: float = WINDOW_S
    unbroken_s: float = 0.0
    from_s: float = 0.0
    level_iops: float | None = None
    short_if_known: bool = True  # a load at its known rate settles for a shorter time
    step_s: float = 10.0
    hold: int = 1

    @property
    def min_window_s(self) -> float:
        """Return the shortest settle time that the profile allows."""
        return self.window_s

    def look(self, history: History, at_s: float) -> Look:
        """Judge the newest half of the phase, or the newest two thirds of an unbroken phase."""
        if history.writes and (fills := history.fills_at(at_s)) < self.spare_fills:
            return Look(
                early=f"{fills:.3f} of {self.spare_fills:.3f} fills (the spare area) written"
            )
        least_s = self.from_s + self.window_s
        if at_s < least_s and not self._is_back(history, at_s):
            return Look(early=f"{at_s:.0f} of {least_s:.0f} s")
        window_s = min(max(self.window_s, at_s / 2), at_s - self.from_s)
        blocks = history.blocks(at_s - window_s, at_s, BLOCKS)
        unbroken_s = self.unbroken_s
        if self.level_iops is not None and is_elsewhere(blocks, self.level_iops):
            unbroken_s = UNBROKEN_S
        if at_s < unbroken_s:
            return Look(early=f"{at_s:.0f} of {unbroken_s:.0f} s without a break")
        if unbroken_s:
            window_s = min(max(self.window_s, FLAT_SHARE * at_s), at_s - self.from_s)
            blocks = history.blocks(at_s - window_s, at_s, BLOCKS)
        moves = _moves(blocks)
        if unbroken_s:
            step = _step(history, at_s - window_s, at_s)
            moves = max(moves, abs(step.change) if step else 0.0)
        elif self.level_iops is not None:
            moves = max(moves, _carried(history, at_s - window_s, at_s, self.level_iops))
        return Look(
            from_s=at_s - window_s,
            to_s=at_s,
            blocks=blocks,
            criteria=(Criterion("moves", moves, MOVES),),
            lower_bound=lower_limit(blocks),
        )

    def _is_back(self, history: History, at_s: float) -> bool:
        """Tell whether the load had its known rate for a third or half of the settle time.

        A load that settled late in an earlier repeat needs the full settle time.
        """
        if not self.short_if_known or self.level_iops is None or self.unbroken_s or self.from_s:
            return False
        errors = [most for share, most in SOON if at_s >= _share_s(self.window_s, share)]
        if not errors:
            return False
        blocks = history.blocks(0.0, at_s, BLOCKS)
        apart = abs(float(blocks.mean()) / self.level_iops - 1)
        error = float(blocks.std(ddof=1)) / len(blocks) ** 0.5 / self.level_iops
        return apart <= MOVES and error <= max(errors)


def soonest_s(window_s: float) -> float:
    """Return the least settle time of a load at a known rate; `window_s` is the usual time."""
    return _share_s(window_s, SOON[0][0])


def _share_s(window_s: float, share: float) -> float:
    return min(window_s, max(LEAST_SOON_S, share * window_s))


def _moves(blocks: Floats) -> float:
    """Return the size of a clear rise or fall, as a share of the rate; 0 without one."""
    found = trend(blocks)
    return abs(found.change) if found.p <= MOVES_P else 0.0


def is_elsewhere(blocks: Floats, level: float) -> bool:
    """Tell whether the mean rate of the parts differs clearly, and by over 2 %, from `level`."""
    mean = float(blocks.mean())
    error = float(blocks.std(ddof=1)) / len(blocks) ** 0.5
    return bool(abs(mean - level) > max(MOVES * level, ERRORS * error))


def _step(history: History, from_s: float, to_s: float) -> Step | None:
    """Find the clearest step between minutes; None if it is small or may be due to chance.

    The result is also None if the rate keeps returning to two levels, because levels are judged
    over the whole point.
    """
    minutes = history.steps(from_s, to_s, MINUTE_S)
    found = largest_step(minutes)
    if found is None or found.p > MOVES_P or abs(found.change) <= MOVES:
        return None
    ends_s = np.cumsum(np.full(len(minutes), MINUTE_S))
    levels = levels_of([Stretch(Role.REPEAT, Series(ends_s, minutes, unit="1/s"))])
    return None if levels else found


def _carried(history: History, from_s: float, to_s: float, level: float) -> float:
    """Return the size of a step to `level`, which ends the previous load's effect; 0 if none."""
    minutes = history.steps(from_s, to_s, MINUTE_S)
    found = largest_step(minutes)
    if found is None or found.p > MOVES_P or abs(found.change) <= MOVES:
        return 0.0
    since = minutes[found.place + 1 :]  # without the minute that the step may lie in
    return abs(found.change) if len(since) > 1 and not is_elsewhere(since, level) else 0.0


def settled_after_s(history: History, usual_s: float, flat_from_s: float) -> float:
    """Return the second at which a load's rate last changed: the time of its last clear step.

    The result is 0 if the step was before `usual_s`, and is never more than `flat_from_s`.
    """
    at_s = usual_s
    while at_s < flat_from_s and (found := _step(history, at_s, history.end_s)) is not None:
        at_s = history.end_s - MINUTE_S * (found.of - found.place - 1)
    return min(at_s, flat_from_s) if at_s > usual_s else 0.0
