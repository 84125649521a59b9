"""The drive's own count of bytes to flash: how coarse it is, and when it may be believed.

OCP's Physical Media Units Written is a number of bytes, but drives bring it up to date at their
leisure: a P5520 once a minute, in steps of 95 GiB. Two readings of it may be wrong by a step
each. So the step is learned from all readings of a run, and both ends wait, on an idle drive, until
a tick that was due has passed.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ssdbench.model.result import FlashWritten

STILL_S = 65.0  # a counter that is brought up to date once a minute has then had its tick
LONGEST_S = 200.0  # background work may move it for ever
LOOK_S = 5.0
LEAST_VALUES = 4  # different ones, before a step is believed


@dataclass
class FlashCounter:
    """Readings of one drive's counters, in the order of a run."""

    seen: list[int] = field(default_factory=list)  # bytes to flash
    sleep: Callable[[float], None] = time.sleep

    def note(self, reading: FlashWritten | None) -> FlashWritten | None:
        """Keep a reading, so that the step is learned; gives it back."""
        if reading is not None:
            self.seen.append(reading.media_bytes)
        return reading

    def still(
        self,
        read: Callable[[], FlashWritten | None],
        hurried: Callable[[], bool] = lambda: False,
    ) -> FlashWritten | None:
        """A reading after the counter has stood still, with the step as far as it is known.

        Within LONGEST_S; one that moved on is as coarse as its last moves, and of one that was
        `hurried` no step is known.
        """
        reading = self.note(read())
        since_s = passed_s = 0.0
        moved = 0
        while reading is not None and since_s < STILL_S and passed_s < LONGEST_S:
            if hurried():
                return reading
            self.sleep(LOOK_S)
            passed_s += LOOK_S
            again = self.note(read())
            if again is None or again.media_bytes == reading.media_bytes:
                since_s += LOOK_S
                continue
            moved, since_s = abs(again.media_bytes - reading.media_bytes), 0.0
            reading = again
        if reading is None:
            return None
        step = learned_step(self.seen)
        if step is not None and since_s < STILL_S:
            step = max(step, moved)
        return reading.model_copy(update={"media_step_bytes": step})


def learned_step(values: Sequence[int]) -> int | None:
    """What all differences are multiples of; None before enough different values were seen."""
    distinct = sorted(set(values))
    if len(distinct) < LEAST_VALUES:
        return None
    return math.gcd(*(b - a for a, b in zip(distinct, distinct[1:], strict=False)))
