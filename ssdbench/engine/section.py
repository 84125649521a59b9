"""The door of stages that still have a loop of their own; it goes with the last of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ssdbench.engine.fiorun import ALIVE_EVERY_S, FioRun
from ssdbench.engine.progress import Reporter
from ssdbench.engine.stage import Context, UnitAtWork
from ssdbench.generator.base import Job

__all__ = ["ALIVE_EVERY_S", "Section"]


class Section(FioRun):
    """A start of the generator in a directory of the caller's."""

    def __init__(
        self,
        context: Context,
        jobs: Sequence[Job],
        *,
        directory: Path,
        unit: str,
        phase: str,
        reporter: Reporter,
        step_s: int = 1,
    ) -> None:
        self._unit = UnitAtWork(unit, directory)
        self._reporter = reporter
        own = replace(context, unit=self._unit, reporter=reporter)
        super().__init__(own, jobs, phase=phase, step_s=step_s)

    @property
    def cut_short(self) -> str:
        """Why it ended early, or nothing."""
        return self._unit.cut_short

    def doing(self, text: str, fraction: Callable[[], float | None]) -> None:
        """What progress events say from now on."""
        self._reporter.doing(text, fraction)

    def being(self, state: Callable[[], str]) -> None:
        """How it stands, for progress events; see Reporter.being."""
        self._reporter.being(state)
