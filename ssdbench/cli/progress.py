"""Show the events of a run: as lines, or with a progress bar on a terminal."""

import time
from collections.abc import Callable, Iterable
from typing import Self

from ssdbench.cli.output import folded, tell
from ssdbench.engine.events import (
    Event,
    FindingRaised,
    Progress,
    RunFinished,
    RunStarted,
    StageFinished,
    StageStarted,
)
from ssdbench.foreign import lines, plain
from ssdbench.model.finding import Finding, Severity
from ssdbench.units import format_count, format_duration, format_figure, format_rate, ranged

LINE_EVERY_S = 30.0
ROOMY = 72  # least columns of a terminal for a bar
SHARE = 11  # width of `[2/4]  50 %`

_WORDS = {
    Severity.INVALIDATES: "not valid",
    Severity.WARNS: "warning",
    Severity.NOTES: "note",
}


def event_display(*, moving: bool) -> "ProgressLines":
    """Return a display of events: with a progress bar if `moving`, else only lines."""
    return ProgressBar() if moving else ProgressLines()


class ProgressLines:
    """Print one line per event, and the progress every 30 s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told = clock()
        self._findings: set[Finding] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return

    def show(self, event: Event) -> None:
        """Print the line for an event, if the event has one."""
        text = self.text(event)
        if text:
            self.line(text)

    def line(self, text: str) -> None:
        """Print a line."""
        self._told = self._clock()
        tell(text)

    def text(self, event: Event) -> str:
        """Return the line for an event; empty if the event needs no line now."""
        match event:
            case Progress():
                return "" if self._clock() - self._told < LINE_EVERY_S else f"  {said(event)}"
            case FindingRaised(finding=finding):
                if finding in self._findings:
                    return ""
                self._findings.add(finding)
                return f"  {finding_line(finding)}"
            case _:
                return headline(event)


class ProgressBar(ProgressLines):
    """Show a progress bar with lines above it. Only this class imports `rich` (slow)."""

    def __init__(self) -> None:
        from rich.console import Console, RenderableType  # takes 120 ms; only for a terminal
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as OneLine
        from rich.table import Column
        from rich.text import Text

        class Bar(OneLine):
            """A bar with a line of text below it."""

            below = ""

            def get_renderables(self) -> Iterable[RenderableType]:
                yield from super().get_renderables()
                if self.below:
                    yield Text(self.below, no_wrap=True, overflow="ellipsis")

        super().__init__()
        self._stage = ""
        console = Console(stderr=True, highlight=False)
        share = Column(no_wrap=True, min_width=SHARE)  # the text after it is shortened first
        text = Column(no_wrap=True, overflow="ellipsis")
        self._bar = Bar(
            TextColumn("{task.fields[share]}", markup=False, table_column=share),
            *([BarColumn(bar_width=12)] if console.width >= ROOMY else []),
            TextColumn("{task.description}", markup=False, table_column=text),
            console=console,
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", total=1.0, share="", visible=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._bar.stop()
        except OSError:
            return  # the terminal was closed, but the run continues

    def show(self, event: Event) -> None:
        """Update the bar, or print a line above it."""
        try:
            self._show(event)
        except OSError:
            return

    def _show(self, event: Event) -> None:
        if isinstance(event, Progress):
            share = "" if event.fraction is None else f"{100 * event.fraction:3.0f} %"
            self._bar.update(
                self._task,
                completed=event.fraction or 0.0,
                total=None if event.fraction is None else 1.0,  # None: a bar of unknown length
                description=plain(_rest(event)),
                share=f"{self._stage}{share}",
                visible=True,
            )
            self._bar.below = plain(_waiting(event))
            return
        if isinstance(event, StageStarted):
            self._stage = f"[{event.number}/{event.of}] "
        if isinstance(event, StageStarted | StageFinished | RunFinished):
            self._bar.update(self._task, visible=False, completed=0.0)
            self._bar.below = ""
        super().show(event)

    def line(self, text: str) -> None:
        """Print a line above the bar."""
        try:
            width = self._bar.console.width
            text = "\n".join(folded(line, width) for line in lines(text).split("\n"))
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        except OSError:
            return


def said(event: Progress) -> str:
    """Return the progress as a line: `43 %, 5 min 20 s left: warm-up, 51,758 IOPS, 212 MB/s`.

    A simulated drive has its own clock, so the waiting time on the host's clock is on a second
    line.
    """
    share = [] if event.fraction is None else [f"{100 * event.fraction:.0f} %"]
    return "\n  ".join(filter(None, (", ".join([*share, _rest(event)]), _waiting(event))))


def _rest(event: Progress) -> str:
    parts = [event.text] if event.text else []
    if event.rate_iops:
        parts += [f"{format_count(event.rate_iops)} IOPS", format_rate(event.rate_bytes_per_s)]
    if event.written_fills:
        parts.append(f"{format_figure(event.written_fills)} fills written")
    left = "" if event.left_s is None else f"{format_duration(event.left_s)} left: "
    ends = (
        f"; the run takes {ranged(format_duration, event.ends_after_s)}"
        if event.ends_after_s
        else ""
    )
    if event.simulated:
        return ", ".join(parts) + (f"{ends} of the drive's time" if ends else "")
    return left + ", ".join(parts) + ends


def _waiting(event: Progress) -> str:
    """Return the waiting time on the host's clock; empty for a real drive, which has this clock."""
    if not event.simulated:
        return ""
    stage = [] if event.left_s is None else [f"{format_duration(event.left_s)} left of this stage"]
    run = [f"{ranged(format_duration, event.wait_s)} left of the run"] if event.wait_s else []
    return f"host's time: {', '.join([*stage, *run])}" if stage or run else ""


def headline(event: Event) -> str:
    """Return the line for the start or end of a run or stage; empty for other events."""
    match event:
        case RunStarted():
            word = "resumed" if event.resumed else "started"
            simulated = " (simulated)" if event.target.modelled else ""
            asked = f"\nquestion: {event.question}" if event.question else ""
            return f"{word} on {event.target.name}{simulated}: {event.directory}{asked}"
        case StageStarted():
            told = (
                f", drive's time: {ranged(format_duration, event.seconds)}"
                if event.seconds[1]
                else ""
            )
            if event.ends_after_s and event.likely_after_s:
                most = format_duration(event.ends_after_s[1])
                likely = ranged(format_duration, event.likely_after_s)
                told += f"\n  the whole run: likely {likely}, at most {most}"
            if event.wait_s:
                told += f"\n  host's time until the end: {ranged(format_duration, event.wait_s)}"
            return f"[{event.number}/{event.of}] {event.title}{told}"
        case StageFinished(result=result, reused=reused):
            if reused:
                return "  already done; not repeated"
            end = "done" if result.complete else "cut short"
            took = format_duration(result.wall_s)
            own = format_duration(result.duration_s)
            if own == took:
                return f"  {end} in {took}"
            return f"  {end}, drive's time: {own}\n  host's time: {took}"
        case _:
            return ""


def finding_line(finding: Finding) -> str:
    """Return a finding in one line, followed by its advice."""
    where = f"{finding.point}: " if finding.point else ""
    advice = f" ({finding.advice})" if finding.advice else ""
    return f"{_WORDS[finding.severity]}: {where}{finding.message}{advice}"
