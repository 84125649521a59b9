"""Make the page that follows a run: its state, the rate so far, and the report so far.

The page is cheap to write again. Its largest part, the report so far, is rendered once per finished
measurement; only the state is rendered each time. Figures are drawn in the finished report only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from ssdbench import __version__, foreign
from ssdbench.engine.events import Event, FindingRaised, Progress, RunStarted, StageStarted
from ssdbench.model.finding import Code, Finding
from ssdbench.model.result import RunResult
from ssdbench.report.html import environment, policy
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.findings import all_findings, grouped
from ssdbench.report.view.page import Block, Findings, Fold, Page, Plots
from ssdbench.stats.planning.runplan import USUAL_BLOCK_BYTES
from ssdbench.units import format_count, format_duration, format_figure, format_rate

__all__ = ["STATE", "Course", "Curve", "all_findings", "frame", "so_far", "state"]
STATE = Markup("<!-- the state of the run -->")  # its place in the page
MOST_SAMPLES = 600  # of a curve; beyond, neighbours share a sample with their lowest and highest
WIDTH, HEIGHT = 960, 200  # of a curve in the page
LEFT_OUT = ("findings", "words", "plan", "targets")  # told above, or need all of the results


@dataclass(slots=True)
class Curve:
    """The rate of one stage over the time of the run, with few samples.

    A sample is the time in seconds, lowest and highest IOPS, lowest and highest bytes per second.
    """

    title: str
    samples: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, event: Progress) -> None:
        """Add the rate of a second, if the event has one."""
        if event.rate_iops:
            rates = event.rate_iops, event.rate_iops, event.rate_bytes_per_s, event.rate_bytes_per_s
            self.samples.append((event.ran_s, *rates))
        if len(self.samples) > MOST_SAMPLES:
            pairs = zip(self.samples[::2], self.samples[1::2], strict=False)
            self.samples = [
                (a[0], min(a[1], b[1]), max(a[2], b[2]), min(a[3], b[3]), max(a[4], b[4]))
                for a, b in pairs
            ]

    def drawn(self, clock: str) -> dict[str, str]:
        """Return the outline of the curve for SVG, and the words on its axes."""
        ios, size = (sum(sample[place] for sample in self.samples) for place in (2, 4))
        unit, at = ("B/s", 3) if size > 4 * USUAL_BLOCK_BYTES * ios else ("1/s", 1)
        first, last = self.samples[0][0], self.samples[-1][0]
        top = max(sample[at + 1] for sample in self.samples)
        across = WIDTH / (last - first or 1.0)
        ends = [(sample, at + 1) for sample in self.samples]
        ends += [(sample, at) for sample in reversed(self.samples)]
        outline = [
            f"{(s[0] - first) * across:.1f},{HEIGHT * (1 - s[rate] / top):.1f}" for s, rate in ends
        ]
        return {
            "title": self.title,
            "outline": " ".join(outline),
            "top": words.quantity(top, unit),
            "length": f"{format_duration(last - first)} on {clock}",
        }


@dataclass(slots=True)
class Course:
    """The course of a run, from its events."""

    run: RunStarted
    stage: StageStarted | None = None
    progress: Progress | None = None
    curves: list[Curve] = field(default_factory=list)  # of each stage so far
    found: dict[tuple[object, ...], Finding] = field(default_factory=dict)

    @property
    def clock(self) -> str:
        """Name the clock of the drive's times."""
        return "the simulated drive's clock" if self.run.target.simulated else "this host's clock"

    def see(self, event: Event) -> None:
        """Take what an event says."""
        match event:
            case StageStarted():
                self.stage, self.progress = event, None
                self.curves.append(Curve(event.title))
            case Progress():
                self.progress = event
                if self.curves:
                    self.curves[-1].add(event)
            case FindingRaised(finding=finding):
                self.add([finding])

    def add(self, found: Sequence[Finding]) -> None:
        """Add findings that are not known yet; that the run has not ended is no finding here."""
        for finding in found:
            key = finding.code, finding.point, finding.repeat, finding.message
            if finding.code is not Code.CUT_SHORT:
                self.found.setdefault(key, finding)

    def facts(self, *, running: bool) -> Iterator[tuple[str, str]]:
        """Yield names and values: stage, work, and the time left if `running`, with its clock."""
        stage, now = self.stage, self.progress
        if stage is not None:
            yield "Stage", f"{stage.number} of {stage.of}: {stage.title}"
        elif now is None:
            yield "Stage", "the first has not begun"
        if now is not None:
            share = "" if now.fraction is None else f"{100 * now.fraction:.0f} % of the stage: "
            yield "Work", share + now.text
            yield (
                "Rate of the newest second",
                (f"{format_count(now.rate_iops)} IOPS, {format_rate(now.rate_bytes_per_s)}"),
            )
            yield "Time of the run so far", f"{format_duration(now.ran_s)} on {self.clock}"
            if now.written_fills:
                yield "Written", f"{format_figure(now.written_fills)} drive fills"
        if running:
            yield from self._left()

    def _left(self) -> Iterator[tuple[str, str]]:
        stage, now = self.stage, self.progress
        if now and now.left_s is not None:
            yield "Left in this stage", f"{format_duration(now.left_s)} on this host's clock"
        elif stage and stage.seconds[1]:
            yield "This stage takes", f"{_range(stage.seconds)} on {self.clock}"
        ends = (now and now.ends_after_s) or (stage and stage.ends_after_s)
        if ends:
            low, high = (max(0.0, end - (now.ran_s if now else 0.0)) for end in ends)
            yield "Left in the run", f"{_range((low, high))} on {self.clock}, at the rates so far"
        else:
            yield "Left in the run", "known after the first measurement"

    def findings(self) -> Findings | None:
        """Return all findings so far, the most serious first; None if there are none."""
        order = list(words.SEVERITY_TONES)
        ranked = sorted(self.found.values(), key=lambda finding: order.index(finding.severity))
        return grouped(ranked) if ranked else None


def _range(seconds: tuple[float, float]) -> str:
    low, high = map(format_duration, seconds)
    return low if low == high else f"{low} to {high}"


def so_far(directory: Path, result: RunResult) -> Page:
    """Return the report of an unfinished run, without figures. Reads files of the run."""
    from ssdbench.report.write import page  # matplotlib costs half a second

    whole = page(StoredRun(directory, result))
    kept = [replace(one, blocks=_plain(one.blocks)) for one in whole.sections]
    return replace(whole, sections=[one for one in kept if one.blocks and one.id not in LEFT_OUT])


def _plain(blocks: Sequence[Block]) -> list[Block]:
    kept: list[Block] = []
    for block in blocks:
        if isinstance(block, Fold):
            block = replace(block, blocks=_plain(block.blocks))
            kept += [block] if block.blocks else []
        elif not isinstance(block, Plots):
            kept.append(block)
    return kept


def frame(run: RunStarted, report: Page | None, *, every_s: float, forward: str = "") -> str:
    """Render the page with a place for its state (`STATE`).

    `report` is the report so far, if it was made. The browser loads the page again after `every_s`,
    or never if that is 0; with `forward` it opens that file instead, at once.
    """
    own = files("ssdbench.report")
    style, script = (Markup((own / name).read_text("utf-8")) for name in ("style.css", "live.js"))
    simulated = words.simulated_label(run.target)
    return foreign.page(
        environment()
        .get_template("live.html.j2")
        .render(page=report or {"simulated": simulated}, run=run, style=style, script=script,
                policy=policy(script), state=STATE, every_s=every_s, forward=forward,
                simulated=simulated, version=__version__)
    )  # fmt: skip


def state(course: Course, *, every_s: float, word: str = "RUNNING", told: str = "") -> str:
    """Render the state; `told` is a sentence that explains `word`."""
    now = datetime.now(UTC)
    curves = [curve.drawn(course.clock) for curve in course.curves if curve.samples]
    return foreign.page(
        environment()
        .get_template("state.html.j2")
        .render(course=course, every_s=every_s, word=word, told=told, curves=curves,
                written_ms=round(now.timestamp() * 1000), at=words.moment(now.isoformat()),
                width=WIDTH, height=HEIGHT, page={"simulated": ""})
    )  # fmt: skip
