"""Write the page that follows a run into the run directory, for `--page`.

The process of the run writes the page as long as the file exists, so `attach --page` only makes the
file. Two rules keep the cost low: each of the two parts of the page may take 1/2,000 of the time,
and the larger part, the report so far, is rendered only between two measurements.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.cli.background import unended_result
from ssdbench.cli.eventlog import Reader
from ssdbench.cli.output import tell
from ssdbench.engine.events import Event, RunStarted, StageFinished, UnitFinished
from ssdbench.errors import Interrupted, SsdbenchError
from ssdbench.foreign import write_whole
from ssdbench.model.rundirectory import LIVE, REPORT

if TYPE_CHECKING:
    from ssdbench.report.live import Course
    from ssdbench.report.view.page import Page

EVERY_S = 10.0  # the shortest time between two pages
COST_TIMES = 2000  # at least this many times the CPU time of a part, until it is rendered again
WAITING = (
    '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="10">'
    "<title>Live</title><p>The run writes this page within a minute, if it is still running.\n"
)

DIED = (
    "The process of the run died. Finished measurements are kept; to continue the run: "
    "`ssdbench resume {}`."
)


def ask(directory: Path) -> None:
    """Make the page of a run, which the process of the run then writes, and tell its path.

    If it cannot be made, tells why and changes nothing.
    """
    path = directory / LIVE
    try:
        if not path.exists():
            write_whole(path, WAITING.encode())
        tell(f"live page: {path}")
    except OSError as error:
        _tell_without(error)


def _tell_without(error: Exception) -> None:
    tell(f"no live page: {error}; the run itself goes on")


class LivePage:
    """Follow the events of one run, and write its page if there is one."""

    def __init__(
        self,
        directory: Path,
        *,
        wanted: bool = False,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._directory, self._wanted = directory, wanted
        self._clock, self._cpu = clock, cpu
        self._course: Course | None = None  # None before the run starts, and after a fault
        self._page: Page | None = None
        self._frame = ""
        self._every_s = EVERY_S
        self._state_at = self._report_at = 0.0

    def see(self, event: Event) -> None:
        """Follow an event; write the page if its time has come. A fault here never ends the run."""
        if isinstance(event, RunStarted):
            from ssdbench.report.live import Course  # the report at the end needs it anyway

            self._course = Course(event)
            if self._wanted:
                ask(self._directory)
        if self._course is not None:
            self._course.see(event)
            between = isinstance(event, RunStarted | UnitFinished | StageFinished)
            self._guarded(lambda course: self._follow(course, between=between))

    def end(self, word: str, told: str = "") -> None:
        """Write the last page. It leads to the report, unless `told` says why the run has none."""
        self._guarded(lambda course: self._write(course, word, told))

    def _guarded(self, work: "Callable[[Course], None]") -> None:
        try:
            if self._course is not None and (self._directory / LIVE).exists():
                work(self._course)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of the page must not end the run
            self._course = None
            _tell_without(error)

    def _follow(self, course: "Course", *, between: bool) -> None:
        # What is made first also loads modules, which the report at the end needs anyway.
        now, first_report, first_state = self._clock(), self._page is None, not self._frame
        if between and now >= self._report_at:
            cost_s = self._cost_s(lambda: self._read(course))
            self._report_at = now + (0.0 if first_report else COST_TIMES * cost_s)
            self._state_at = now
        if now >= self._state_at:
            cost_s = self._cost_s(lambda: self._write(course))
            self._every_s = max(EVERY_S, 0.0 if first_state else COST_TIMES * cost_s)
            self._state_at = now + self._every_s

    def _cost_s(self, work: Callable[[], None]) -> float:
        begun_s = self._cpu()
        work()
        return self._cpu() - begun_s

    def _read(self, course: "Course") -> None:
        """Read the results so far, and render the larger part of the page."""
        from ssdbench.report import live

        if (result := unended_result(self._directory)) is not None:
            self._page = live.so_far(self._directory, result)
            self._frame = live.frame(course.run, self._page, every_s=self._every_s)
            course.add(live.all_findings(result))

    def _write(self, course: "Course", end: str = "", told: str = "") -> None:
        from ssdbench.report import live

        every_s = 0.0 if end else self._every_s
        if end or not self._frame:
            forward = REPORT if end and not told else ""
            self._frame = live.frame(course.run, self._page, every_s=every_s, forward=forward)
        state = live.state(course, every_s=every_s, word=end or "RUNNING", told=told)
        write_whole(self._directory / LIVE, self._frame.replace(live.STATE, state, 1).encode())


def tell_died(directory: Path) -> None:
    """Write into the page of a run, if there is one, that the process of the run died."""
    try:
        result = unended_result(directory) if (directory / LIVE).exists() else None
    except SsdbenchError as error:
        _tell_without(error)
        return
    if result is None:
        return
    page = LivePage(directory)
    page.see(RunStarted(result.run_id, directory, result.target, ()))
    if progress := Reader(directory).progress():
        page.see(progress)
    page.end("STOPPED", DIED.format(directory))
