"""How far a stage is, told about once a second of wall time."""

from collections.abc import Callable

from ssdbench.engine.events import Event, Progress
from ssdbench.generator.base import Second

EVERY_S = 0.5  # of wall time between two events
LEAST_FRACTION = 0.01  # below it, the time left is a guess that nobody should read


class Reporter:
    """Turns the seconds of a stage into Progress events."""

    def __init__(
        self, stage: str, *, emit: Callable[[Event], None], wall: Callable[[], float]
    ) -> None:
        self._stage = stage
        self._emit = emit
        self._wall = wall
        self._began = self._told = wall()
        self._fraction: Callable[[], float | None] = lambda: None
        self._text = ""

    def doing(self, text: str, fraction: Callable[[], float | None]) -> None:
        """From now on the stage does `text`; `fraction` is asked when an event is due."""
        self._text = text
        self._fraction = fraction

    def saw(self, second: Second) -> None:
        """A second of the target's clock passed."""
        now = self._wall()
        if now - self._told < EVERY_S:
            return
        self._told = now
        fraction = self._fraction()
        if fraction is not None:
            fraction = min(max(fraction, 0.0), 1.0)
        duration_s = max(second.duration_s, 1e-9)
        self._emit(
            Progress(
                stage=self._stage,
                fraction=fraction,
                left_s=self._left_s(fraction, now),
                text=self._text,
                rate_bytes_per_s=second.bytes / duration_s,
                rate_iops=second.ios / duration_s,
            )
        )

    def _left_s(self, fraction: float | None, now: float) -> float | None:
        if fraction is None or fraction < LEAST_FRACTION:
            return None
        return (now - self._began) * (1 - fraction) / fraction
