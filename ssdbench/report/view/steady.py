"""Steady state on the page: the whole series, the window that was judged, each criterion."""

from collections.abc import Callable, Sequence

import numpy as np

from ssdbench.model.finding import Code
from ssdbench.model.found import WarmUp
from ssdbench.model.point import SteadyVerdict, criterion_value, criterion_words
from ssdbench.model.pts import Pts
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figure import Floats, thinned
from ssdbench.report.plots.series import Band, SeriesFigure, Window, WindowFigure
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import preparation, words
from ssdbench.report.view.page import (
    Block,
    Cell,
    Column,
    Facts,
    Fold,
    Plot,
    Plots,
    Prose,
    Section,
    Table,
    numbers,
)
from ssdbench.report.view.stages import cost
from ssdbench.units import format_change, format_duration, format_figure

MINUTE_S = 60.0


def worst_minute(
    seconds: Seconds, unit: str, *, start_s: float, end_s: float
) -> tuple[float, float, float] | None:
    """Return start, end and rate of the slowest 60 s between two times, or None if shorter."""
    inside = (seconds.t_s > start_s) & (seconds.t_s <= end_s)
    t, dt = seconds.t_s[inside], seconds.duration_s[inside]
    if not len(t) or t[-1] - (t[0] - dt[0]) < MINUTE_S:
        return None
    amount = seconds.ios[inside] if unit == "1/s" else seconds.bytes[inside]
    ends = np.concatenate(([t[0] - dt[0]], t))
    total: Floats = np.concatenate(([0.0], np.cumsum(amount)))
    to = ends[ends >= ends[0] + MINUTE_S]
    done = np.interp(to, ends, total) - np.interp(to - MINUTE_S, ends, total)
    slowest = int(np.argmin(done))
    return float(to[slowest] - MINUTE_S), float(to[slowest]), float(done[slowest] / MINUTE_S)


Ends = tuple[float, float]


def paired(verdict: SteadyVerdict) -> Floats:
    """Return means of two blocks each, which the pss rules judge; empty for other rules."""
    blocks = np.asarray(verdict.window_blocks)
    if "pairs" not in verdict.criteria or len(blocks) % 2:
        return np.array([])
    means: Floats = blocks.reshape(-1, 2).mean(axis=1)
    return means


def band(verdict: SteadyVerdict) -> Band | None:
    """Return the band that a rule allows its window; None where it has no such limit."""
    for name, (limit, ends) in _DRAWN.items():
        if name in verdict.criteria and verdict.window_blocks:
            allowed = verdict.criteria[name][1]
            low, high = ends(verdict, allowed)
            return Band(f"{verdict.rule}: {limit.format(_percent(allowed))}", low, high)
    return None


def fit_words(verdict: SteadyVerdict) -> str:
    """Return the name of the fitted line, with the rule's limit on it if there is one."""
    if "slope" not in verdict.criteria:
        return "straight-line fit"
    return f"straight-line fit ({verdict.rule}: within {_percent(verdict.criteria['slope'][1])})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _apart(values: Sequence[float] | Floats, height: float) -> Ends:
    middle = (float(min(values)) + float(max(values))) / 2
    return middle - height / 2, middle + height / 2


def _around(middle: float, share: float) -> Ends:
    return middle * (1 - share), middle * (1 + share)


def _pairs(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _apart(paired(verdict), allowed * verdict.mean)


def _rounds(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _apart(verdict.window_blocks, allowed * verdict.mean)


def _sections(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _around(verdict.window_blocks[0], allowed)


def _levels(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _around(verdict.lower_mode or verdict.mean, allowed)


def _deviation(verdict: SteadyVerdict, allowed: float) -> Ends:
    return _around(verdict.mean, allowed)


# By the name of the criterion, the one that is drawn first: what it says of its limit, its ends.
_DRAWN: dict[str, tuple[str, Callable[[SteadyVerdict, float], Ends]]] = {
    "pairs": ("pairs of blocks within {}", _pairs),
    "excursion": ("rounds within {}", _rounds),
    "difference": ("the second section within {} of the first", _sections),
    "drift": ("the lower level may drift by {}", _levels),
    "cv": ("mean and {}, the largest standard deviation", _deviation),
}


def section(run: StoredRun) -> Section:
    """Return the section on the steady-state verdicts of all stages."""
    blocks: list[Block] = []
    before = list(preparation.cliff_blocks(run))
    for stage, found in run.result.having(WarmUp):
        if found.verdict is not None:
            blocks += _verdict(run, stage, found, found.verdict)
            blocks.append(Fold("What it took", [cost(stage)]))
    title = "Was the drive in steady state?"
    if not blocks:
        blocks = [Prose(_absent(run.result), tone="warn")]
    return Section("steady", title, [*blocks[:1], *before, *blocks[1:]])


def _absent(result: RunResult) -> str:
    if result.interrupted:
        return "The run was interrupted before steady state could be judged."
    if result.having(Pts):
        return (
            "Only by the PTS rule, whose word stands in the header of each test: five rounds that "
            "look alike are no proof, and no rate of this run is known to last."
        )
    return "No stage of this run judged steady state, so no rate in it is known to last."


def _verdict(
    run: StoredRun, stage: StageResult, found: WarmUp, verdict: SteadyVerdict
) -> Sequence[Block]:
    seconds, unit = run.seconds(found.seconds_csv), found.unit
    name = f"{stage.name}-0"
    blocks: list[Block] = [_answer(stage, verdict, unit)]
    if seconds is not None and len(seconds.t_s) > 1:
        blocks.append(Plots([_whole(verdict, seconds, unit, name)], wide=True))
    evidence: list[Block] = [_facts(stage, found, verdict)]
    if verdict.criteria:
        evidence.append(_criteria(verdict))
    if verdict.window_blocks:
        evidence.append(Plots([_window_plot(verdict, unit, name)]))
    if found.other_rules and verdict.mean:
        evidence.append(_others(found.other_rules, verdict, unit))
    return [*blocks, Fold("The evidence: each criterion, the window, other rules", evidence)]


def _answer(stage: StageResult, verdict: SteadyVerdict, unit: str) -> Prose:
    watched = format_duration(verdict.window_to_s - verdict.window_from_s).removesuffix(" 00 s")
    if not verdict.steady:
        return Prose(
            f"No, by the rule “{verdict.rule}”. {words.sentence(verdict.reason)} Rates of this run "
            "are at most what the drive can hold, not what it will hold: at most "
            f"{words.quantity(verdict.mean, unit)}, not steady.",
            tone="bad",
        )
    seen = (
        f"over the last {watched} {_moved(verdict)}, "
        f"after {format_figure(verdict.volume_fills, 2)} drive fills of the test workload"
    )
    if any(finding.code is Code.QUICK_RULE for finding in stage.findings):
        return Prose(
            f"Only by the rule “{verdict.rule}”, which calls drives steady too early to plan on: "
            f"{seen}.",
            tone="warn",
        )
    return Prose(
        f"Yes, by the rule “{verdict.rule}”: {seen}. Its lower bound is "
        f"{words.quantity(verdict.lower_bound, unit)}.",
        tone="good",
    )


def _moved(verdict: SteadyVerdict) -> str:
    if verdict.lower_mode is None:
        return "the rate neither drifted nor jumped more than the rule allows"
    often = "regularly" if verdict.shape == "periodic" else "back and forth"
    return f"the rate moved {often} between two levels that both came back and did not drift"


def _others(others: Sequence[SteadyVerdict], verdict: SteadyVerdict, unit: str) -> Table:
    """Return when each rule was first satisfied, and what it would have published."""
    columns = [
        Column("Rule"),
        *numbers("Satisfied after", "Drive fills", "Would publish", "Against the mean above"),
    ]
    rows = [_other(other, verdict, unit) for other in others]
    return Table("What other rules say of the same seconds", columns, rows)


def _other(other: SteadyVerdict, verdict: SteadyVerdict, unit: str) -> list[Cell]:
    if not other.steady:
        unseen = "not before this ended"
        return [Cell(other.rule), Cell(unseen), *(Cell(words.NONE) for _ in range(3))]
    off = 100 * (other.lower_bound / verdict.mean - 1)
    return [
        Cell(other.rule),
        Cell(format_duration(other.checked_s)),
        Cell(f"{other.volume_fills:.2f}"),
        Cell(words.quantity(other.lower_bound, unit)),
        Cell(format_change(off), "bad" if off > TOO_HIGH else ""),
    ]


def _facts(stage: StageResult, found: WarmUp, verdict: SteadyVerdict) -> Facts:
    unit = found.unit
    length = verdict.window_to_s - verdict.window_from_s
    drift = 100 * verdict.slope_per_s * length / verdict.mean if verdict.mean else 0.0
    return Facts(
        "",
        [
            ("Lower bound", _bound(verdict, unit)),
            ("Mean of the window", words.quantity(verdict.mean, unit)),
            ("Drift over the window", f"{format_change(drift)} (straight-line fit)"),
            ("Window", f"{format_duration(verdict.window_from_s)} to "
                       f"{format_duration(verdict.window_to_s)} after the start"),
            ("Watched in all", format_duration(max(verdict.checked_s, stage.duration_s))),
            *_shape(verdict, unit),
            ("Written by the workload", f"{format_figure(verdict.volume_fills)} drive fills"),
            ("Workload", words.times(found.label or stage.title)),
        ],
    )  # fmt: skip


def _shape(verdict: SteadyVerdict, unit: str) -> list[tuple[str, str]]:
    if verdict.lower_mode is None:
        return []
    told = f"{verdict.shape}: its lower level is {words.quantity(verdict.lower_mode, unit)}"
    return [("How it moves", told)]


def _bound(verdict: SteadyVerdict, unit: str) -> str:
    return words.quantity(verdict.lower_bound, unit) if verdict.steady else "none, as not steady"


TOO_HIGH = 5  # percent above what the drive held later


def _criteria(verdict: SteadyVerdict) -> Table:
    rows = [
        [
            Cell(criterion_words(name)),
            Cell(criterion_value(name, measured), "" if measured <= allowed else "bad"),
            Cell(criterion_value(name, allowed)),
        ]
        for name, (measured, allowed) in verdict.criteria.items()
    ]
    columns = [Column("Criterion"), Column("Measured", number=True), Column("Limit", number=True)]
    return Table(f"What the rule “{verdict.rule}” asks for", columns, rows)


def _window(verdict: SteadyVerdict, axis: words.TimeUnit, divisor: float) -> Window:
    length = verdict.window_to_s - verdict.window_from_s
    found = band(verdict)
    return Window(
        start=verdict.window_from_s / axis.seconds,
        end=verdict.window_to_s / axis.seconds,
        mean=verdict.mean / divisor,
        bound=verdict.lower_bound / divisor if verdict.steady else None,
        fit_start=verdict.intercept / divisor,
        fit_end=(verdict.intercept + verdict.slope_per_s * length) / divisor,
        fit_words=fit_words(verdict),
        band=found and Band(found.words, found.low / divisor, found.high / divisor),
    )


def _whole(verdict: SteadyVerdict, seconds: Seconds, unit: str, name: str) -> Plot:
    axis = words.time_unit(float(seconds.t_s[-1]))
    divisor, label = words.scaled(unit)
    worst = worst_minute(seconds, unit, start_s=verdict.window_from_s, end_s=verdict.window_to_s)
    place = None
    if worst is not None:
        place = (worst[0] / axis.seconds, worst[1] / axis.seconds, worst[2] / divisor)
    slowest = (
        "" if worst is None else f"; its slowest minute ran at {words.quantity(worst[2], unit)}"
    )
    mean = words.quantity(verdict.mean, unit)
    return Plot(
        name=f"steady-{name}",
        title="The whole run-up, from the first second",
        caption="At each place the line reaches from the slowest to the fastest second. Shaded: "
        f"the window that was judged, with mean {mean}{slowest}.",
        alt=f"Rate over time; the judged window has a mean of {mean}{slowest}.",
        figure=SeriesFigure(
            trace=thinned(seconds.t_s / axis.seconds, seconds.rate(unit) / divisor),
            x_label=f"{axis.name} since the test workload started",
            y_label=label,
            window=_window(verdict, axis, divisor),
            worst=place,
        ),
    )


def _window_plot(verdict: SteadyVerdict, unit: str, name: str) -> Plot:
    axis = words.time_unit(verdict.window_to_s)
    divisor, label = words.scaled(unit)
    blocks = verdict.window_blocks
    ends = verdict.window_from_s / axis.seconds, verdict.window_to_s / axis.seconds
    edges = np.linspace(*ends, len(blocks) + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    low, high = (words.quantity(f(blocks), unit) for f in (min, max))
    window, pairs = _window(verdict, axis, divisor), paired(verdict) / divisor
    apart = np.linspace(*ends, len(pairs) + 1).tolist()
    shaded = f" Shaded: what a rule allows ({window.band.words})." if window.band else ""
    return Plot(
        name=f"window-{name}",
        title="The measurement window",
        caption=f"The window in {len(blocks)} equal blocks, between {low} and {high}.{shaded}",
        alt=f"Block means of the window lie between {low} and {high}.",
        figure=WindowFigure(
            x=tuple(float(x) for x in middles),
            blocks=tuple(block / divisor for block in blocks),
            window=window,
            x_label=f"{axis.name} since the test workload started",
            y_label=label,
            pairs=tuple(zip(apart[:-1], apart[1:], pairs.tolist(), strict=True)),
        ),
    )
