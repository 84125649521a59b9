"""Make the page that follows a run in progress: its state, curves of rates, results so far."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.resources import files

from markupsafe import Markup

from ssdbench import __version__, foreign
from ssdbench.engine.events import Event, FindingRaised, Progress, RunStarted, StageStarted
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import RunResult
from ssdbench.report.html import environment, policy
from ssdbench.report.view import words
from ssdbench.report.view.findings import all_findings, grouped
from ssdbench.report.view.page import Findings, Page
from ssdbench.stats.planning.runplan import USUAL_BLOCK_BYTES
from ssdbench.units import format_count, format_duration, format_rate, ranged

STATE = Markup("<!-- the state of the run -->")  # replaced by the state
MOST_SAMPLES = 600  # of a curve; if there are more, two neighbours become one, with both extremes
WIDTH, HEIGHT = 960, 200  # of a curve in the page
LEFT_OUT = ("findings", "words", "plan", "targets")  # sections that need a complete run


@dataclass(slots=True)
class Curve:
    """The rate of one stage over the time of the run, stored in at most MOST_SAMPLES samples."""

    title: str
    samples: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, now: Progress) -> None:
        """Add the rate of the last second, unless there was no I/O in it."""
        if now.rate_iops:
            self.samples.append((now.ran_s, *[now.rate_iops] * 2, *[now.rate_bytes_per_s] * 2))
        if len(self.samples) > MOST_SAMPLES:
            self.samples = [
                (a[0], min(a[1], b[1]), max(a[2], b[2]), min(a[3], b[3]), max(a[4], b[4]))
                for a, b in zip(self.samples[::2], self.samples[1::2], strict=False)
            ]

    def drawn(self) -> dict[str, str]:
        """Return the curve's outline for SVG, with its title, highest rate and length as text."""
        ios, size = (sum(sample[place] for sample in self.samples) for place in (2, 4))
        unit, at = ("B/s", 3) if size > 4 * USUAL_BLOCK_BYTES * ios else ("1/s", 1)
        length_s = self.samples[-1][0] - (first_s := self.samples[0][0])
        top = max(sample[at + 1] for sample in self.samples)
        ends = [(sample[0], sample[at + 1]) for sample in self.samples]
        ends += [(sample[0], sample[at]) for sample in reversed(self.samples)]
        outline = [
            f"{WIDTH * (t_s - first_s) / (length_s or 1):.1f},{HEIGHT * (1 - rate / top):.1f}"
            for t_s, rate in ends
        ]
        length, highest = format_duration(length_s), words.quantity(top, unit)
        return {"title": self.title, "outline": " ".join(outline), "top": highest, "length": length}


@dataclass(slots=True)
class Course:
    """The state and progress of a run, collected from its events."""

    run: RunStarted
    stage: StageStarted | None = None
    progress: Progress | None = None
    curves: list[Curve] = field(default_factory=list)  # one for each stage so far
    found: dict[tuple[object, ...], Finding] = field(default_factory=dict)

    @property
    def clock(self) -> str:
        """Return the name of the clock that measures the drive's times."""
        return "the simulated drive's clock" if self.run.target.simulated else "this host's clock"

    def see(self, event: Event) -> None:
        """Update the course of the run from an event."""
        match event:
            case StageStarted():
                self.stage, self.progress = event, None
                self.curves.append(Curve(event.title))
            case Progress():
                self.progress = event
                self.curves[-1].add(event)
            case FindingRaised(finding=finding):
                self.add([finding])

    def take(self, result: RunResult) -> None:
        """Add findings of finished stages only, because those of a stage in progress may vanish."""
        done = tuple(stage for stage in result.stages if stage.complete)
        self.add(all_findings(result.model_copy(update={"stages": done, "findings": ()})))

    def add(self, found: Iterable[Finding]) -> None:
        """Add new findings, except CUT_SHORT: a run in progress always looks interrupted."""
        for one in found:
            if one.code is not Code.CUT_SHORT:
                self.found.setdefault((one.code, one.point, one.repeat, one.message), one)

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield names and values of the state: stage, work, rate, and times with their clock."""
        if (stage := self.stage) is None:
            return
        yield "Stage", f"{stage.number} of {stage.of}: {stage.title}"
        now, ends, wait, ran_s = self.progress, stage.ends_after_s, stage.wait_s, 0.0
        if now is None or now.left_s is None:
            yield "This stage takes", f"{ranged(format_duration, stage.seconds)} on {self.clock}"
        if now is not None:
            ends, wait, ran_s = now.ends_after_s or ends, now.wait_s or wait, now.ran_s
            share = "" if now.fraction is None else f"{100 * now.fraction:.0f} % of the stage: "
            yield "Work", share + now.text
            rates = f"{format_count(now.rate_iops)} IOPS, {format_rate(now.rate_bytes_per_s)}"
            yield "Rate of the newest second", rates
            yield "Time of the run so far", f"{format_duration(now.ran_s)} on {self.clock}"
            if now.left_s is not None:
                yield "Left in this stage", f"{format_duration(now.left_s)} on this host's clock"
        if ends is None:
            yield "Left in the run", "known after the first measurement"
            return
        low, high = (max(0.0, end - ran_s) for end in ends)
        yield (
            "Left in the run",
            f"{ranged(format_duration, (low, high))} on {self.clock}, at the rates so far",
        )
        if wait is not None:
            yield "Time to wait", f"{ranged(format_duration, wait)} on this host's clock"

    def findings(self) -> Findings | None:
        """Return all findings so far, the most serious first; None if there is no finding."""
        order = list(Severity)
        ranked = sorted(self.found.values(), key=lambda one: order.index(one.severity))
        return grouped(ranked) if ranked else None


def frame(course: Course, report: Page | None, *, every_s: float) -> str:
    """Render the page with a placeholder (STATE) for the state, which the browser reloads.

    `report` is the report of the results so far. The report's plots are left out, because they are
    slow to draw. The number of drives to buy is also left out, because an incomplete run is not
    enough for that decision.
    """
    if report is not None and (table := report.workloads) is not None:
        kept = [at for at, one in enumerate(table.columns) if one.title != words.DRIVES]
        columns = [table.columns[at] for at in kept]
        rows = [[row[at] for at in kept] for row in table.rows]
        report = replace(report, workloads=replace(table, columns=columns, rows=rows))
    own = files("ssdbench.report")
    style, script = (Markup((own / name).read_text("utf-8")) for name in ("style.css", "live.js"))
    return _rendered(
        "live.html.j2", course, report=report, every_s=every_s, style=style, script=script,
        policy=policy(script), state=STATE, version=__version__, placed=None, left_out=LEFT_OUT,
    )  # fmt: skip


def state(course: Course, *, every_s: float) -> str:
    """Render the state of a run in progress, with the current time."""
    now = datetime.now(UTC)
    curves = [curve.drawn() for curve in course.curves if len(curve.samples) > 1]
    return _rendered(
        "state.html.j2", course, every_s=every_s, curves=curves, width=WIDTH,
        height=HEIGHT, written_ms=round(now.timestamp() * 1000), at=words.moment(now.isoformat()),
    )  # fmt: skip


def _rendered(template: str, course: Course, **values: object) -> str:
    page = {"simulated": words.simulated_label(course.run.target)}
    made = environment().get_template(template).render(course=course, page=page, **values)
    return foreign.page(made)
