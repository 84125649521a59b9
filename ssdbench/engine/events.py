"""Define the events of a run, which the command line shows to the user."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssdbench.generator.base import Second
from ssdbench.model.finding import Finding
from ssdbench.model.found import Found
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.target import TargetInfo


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Tell that the run directory exists and the first stage is about to begin."""

    run_id: str
    directory: Path
    target: TargetInfo
    stages: tuple[str, ...]  # titles, in order
    resumed: bool = False
    question: str = ""  # the planner's question that the run answers, if the profile has one


@dataclass(frozen=True, slots=True)
class StageStarted:
    """Tell that a stage begins; `number` counts from 1 to `of`."""

    stage: str  # "02-steady"
    title: str
    number: int
    of: int
    seconds: tuple[float, float] = (0.0, 0.0)  # estimate on the target's clock, low and high
    ends_after_s: tuple[float, float] | None = None  # range of the run's end; None while unknown
    wait_s: tuple[float, float] | None = None  # real time left for a simulated drive
    likely_after_s: tuple[float, float] | None = None  # the likely part of `ends_after_s`


@dataclass(frozen=True, slots=True)
class Progress:
    """Tell how much of a stage is done; this event is sent about every EVERY_S seconds."""

    stage: str
    fraction: float | None  # 0 to 1; None while unknown
    left_s: float | None  # seconds of wall time left in this stage, None while unknown
    text: str  # its work, for example "4 KiB random write, QD 32 x 4, repeat 2 of 10"
    rate_bytes_per_s: float = 0.0
    rate_iops: float = 0.0
    written_fills: float | None = None  # bytes that the run wrote, divided by the drive's size
    ran_s: float = 0.0  # time of the run so far, on the target's clock
    ends_after_s: tuple[float, float] | None = None  # range of the run's end; None while unknown
    wait_s: tuple[float, float] | None = None  # real time left for a simulated drive
    simulated: bool = False  # the drive has its own clock


@dataclass(frozen=True, slots=True)
class FindingRaised:
    """Tell the user about a finding."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class UnitFinished:
    """Tell that a unit is stored and the drive is idle, so other work on the host does no harm."""

    stage: str
    unit: str


@dataclass(frozen=True, slots=True)
class StageFinished:
    """Tell that a stage ended and its result is stored; `reused` if it ended before a resume."""

    result: StageResult
    reused: bool = False


@dataclass(frozen=True, slots=True)
class RunFinished:
    """Tell that the run ended and result.json is written."""

    result: RunResult
    directory: Path


Event = (
    RunStarted
    | StageStarted
    | Progress
    | FindingRaised
    | UnitFinished
    | StageFinished
    | RunFinished
)


@dataclass(frozen=True, slots=True)
class AtWork:
    """Describe the progress of a stage: its finished units, and the time in the current unit."""

    done: Sequence[Any] = ()
    since_s: float = 0.0  # on the target's clock


NOT_BEGUN = AtWork()
EVERY_S = 0.5  # seconds of wall time between two Progress events
Range = tuple[float, float]
# End of the run on the drive's clock; real time left of the run, and of the stage.
Foreseen = tuple[Range | None, Range | None, Range | None]
UNFORESEEN: Foreseen = (None, None, None)
LEAST_FRACTION = 0.01  # no time left is estimated before this share is done


class Reporter:
    """Turn the seconds of a stage into Progress events."""

    def __init__(
        self,
        stage: str,
        *,
        emit: Callable[[Event], None],
        wall: Callable[[], float],
        written_fills: Callable[[], float | None] = lambda: None,
        ran_s: Callable[[], float] = lambda: 0.0,
        foreseen: Callable[[Found | None, AtWork], Foreseen] = lambda seen, at_work: UNFORESEEN,
        simulated: bool = False,
    ) -> None:
        """Set the callbacks; `foreseen` estimates the run's end and the real time left."""
        self._stage = stage
        self._emit = emit
        self._wall = wall
        self._written_fills = written_fills
        self._ran_s = ran_s
        self._foreseen = foreseen
        self._simulated = simulated
        self._began = self._sent = wall()
        self._fraction: Callable[[], float | None] = lambda: None
        self._text = ""
        self._state: Callable[[], str] = lambda: ""
        self._seen: Callable[[], Found | None] = lambda: None
        self._moved = self._began, 0.0  # when the finished share last changed, and the share
        self._done: Sequence[Any] = ()
        self._step_began_s = ran_s()

    def doing(
        self, text: str, fraction: Callable[[], float | None], *, done: Sequence[Any] = ()
    ) -> None:
        """Set the text of the current step; `fraction` returns the share of the stage that is done.

        `done` has the finished units of the stage.
        """
        self._text = text
        self._done, self._step_began_s = tuple(done), self._ran_s()
        self._fraction = fraction
        self._state = lambda: ""
        self._seen = lambda: None

    def being(self, state: Callable[[], str]) -> None:
        """Set the function that returns the step's state, such as `settling, 0 of 60 s`."""
        self._state = state

    def seeing(self, found: Callable[[], Found | None]) -> None:
        """Set the function that returns the stage's measured rates, to estimate the run's end."""
        self._seen = found

    def saw(self, second: Second) -> None:
        """Handle one measured second: send a Progress event if EVERY_S has passed."""
        now = self._wall()
        if now - self._sent < EVERY_S:
            return
        self._sent = now
        fraction = self._fraction()
        if fraction is not None:
            fraction = min(max(fraction, 0.0), 1.0)
        duration_s = max(second.duration_s, 1e-9)
        ran_s, left_s = self._ran_s(), self._left_s(fraction, now)
        at_work = AtWork(self._done, ran_s - self._step_began_s)
        ends_after_s, wait_s, of_stage_s = self._foreseen(self._seen(), at_work)
        low_s, high_s = of_stage_s or (0.0, math.inf)
        self._emit(
            Progress(
                stage=self._stage,
                fraction=fraction,
                # Repeats do not last equally long, so the share done can lead to a wrong time.
                left_s=None if left_s is None or not low_s <= left_s <= high_s else left_s,
                text=", ".join(part for part in (self._text, self._state()) if part),
                rate_bytes_per_s=second.bytes / duration_s,
                rate_iops=second.ios / duration_s,
                written_fills=self._written_fills(),
                ran_s=ran_s,
                ends_after_s=ends_after_s,
                wait_s=wait_s,
                simulated=self._simulated,
            )
        )

    def _left_s(self, fraction: float | None, now: float) -> float | None:
        """Estimate the seconds left in the stage from its finished share; None while unknown."""
        if fraction is None or fraction < LEAST_FRACTION:
            return None
        if fraction != self._moved[1]:
            self._moved = now, fraction
        moved_at, share = self._moved
        left_s = (moved_at - self._began) * (1 - share) / share - (now - moved_at)
        return left_s if left_s > 0 else None  # None: this step is slower than those before
