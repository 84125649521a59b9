"""Write the page that follows a run into the run directory, for `--page`.

The process that carries out the run writes the page as long as the file exists, so `attach --page`
only has to create the file. Two rules keep the cost low. Rendering each of the two parts of the
page may take at most 1/2,000 of the time. The larger part, which is the report of the results so
far, is rendered only between two measurements.
"""

import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench import foreign
from ssdbench.cli.background import unended_result
from ssdbench.cli.output import tell
from ssdbench.engine.events import Event, FindingRaised, RunStarted, StageFinished, UnitFinished
from ssdbench.errors import Interrupted
from ssdbench.foreign import write_whole
from ssdbench.model.rundirectory import LIVE, REPORT

if TYPE_CHECKING:
    from ssdbench.report.live import Course

EVERY_S = 10.0  # shortest time between two versions of the page
COST_TIMES = 2000  # a part is rendered again after at least this many times the CPU time it took


def ask(directory: Path) -> None:
    """Create the page of a run, which the process of the run then updates, and print its path.

    If the file cannot be created, the reason is printed and nothing changes.
    """
    path = directory / LIVE
    try:
        if not path.exists():
            again = f'<meta http-equiv="refresh" content="{EVERY_S:.0f}">'
            _note(path, "The run writes this page within a minute.", again)
        tell(f"live page: {path}")
    except OSError as error:
        _tell_without(error)


def _note(path: Path, said: str, more: str = "") -> None:
    """Write a page that has only one sentence; `more` is markup for its <head>."""
    page = (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>ssdbench run</title>'
        f"<style>:root {{ color-scheme: light dark; font-family: sans-serif }}</style>{more}"
        f"<p>{escape(said)}</p></html>\n"
    )
    write_whole(path, foreign.page(page).encode())


def _tell_without(error: Exception) -> None:
    tell(f"no live page: {error}; the run itself goes on")


class LivePage:
    """Receive the events of one run, and write its page if the file of the page exists."""

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
        self._early: list[FindingRaised] = []  # findings before the run starts
        self._frame = ""
        self._every_s = EVERY_S
        self._state_at = self._report_at = 0.0

    def see(self, event: Event) -> None:
        """Process an event; write the page if it is due. An error here never ends the run."""
        if isinstance(event, RunStarted):
            from ssdbench.report.live import Course  # the report needs it later anyway

            self._course = Course(event)
            for one in self._early:
                self._course.see(one)
            if self._wanted:
                ask(self._directory)
        elif self._course is None and isinstance(event, FindingRaised):
            self._early.append(event)
        if self._course is not None:
            self._course.see(event)
            between = isinstance(event, RunStarted | UnitFinished | StageFinished)
            self._guarded(lambda course: self._follow(course, between=between))

    def end(self, said: str = "") -> None:
        """Write the last version of the page: the report, or the sentence `said` if the run failed.

        A page that is open in a browser becomes the report when the browser reloads it. The page
        does not redirect to report.html, because headless Chromium then sometimes waits forever.
        """
        path = self._directory / LIVE
        if said:
            self._guarded(lambda course: _note(path, said))
        else:
            self._guarded(lambda course: write_whole(path, (self._directory / REPORT).read_bytes()))

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
        # Making the first page also loads modules, which the report needs later anyway.
        now, times = self._clock(), COST_TIMES if self._frame else 0
        if between and now >= self._report_at:
            self._report_at = now + times * self._cost_s(lambda: self._read(course))
            self._state_at = now
        if now >= self._state_at:
            cost_s = self._cost_s(lambda: self._write(course))
            self._every_s = max(EVERY_S, times * cost_s)
            self._state_at = now + self._every_s

    def _cost_s(self, work: Callable[[], None]) -> float:
        begun_s = self._cpu()
        work()
        return self._cpu() - begun_s

    def _read(self, course: "Course") -> None:
        """Read the results so far, and render the larger part of the page."""
        from ssdbench.report import live, read, write  # takes half a second: matplotlib

        if (result := unended_result(self._directory)) is not None:
            page = write.page(read.StoredRun(self._directory, result))
            self._frame = live.frame(course, page, every_s=self._every_s)
            course.take(result)

    def _write(self, course: "Course") -> None:
        from ssdbench.report import live

        self._frame = self._frame or live.frame(course, None, every_s=self._every_s)
        page = self._frame.replace(live.STATE, live.state(course, every_s=self._every_s), 1)
        write_whole(self._directory / LIVE, page.encode())
