"""Show whether the drive reached steady state: rate over time, judged window, criteria."""

from collections.abc import Callable, Sequence

import numpy as np

from ssdbench.model.finding import Code
from ssdbench.model.found import WarmUp
from ssdbench.model.point import SteadyVerdict, criterion_value, criterion_words
from ssdbench.model.pts import Pts
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figure import Floats, thinned
from ssdbench.report.plots.series import Band, Level, SteadyFigure, Window
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import page, preparation, words
from ssdbench.report.view.stages import cost
from ssdbench.units import format_change, format_duration, format_figure

MINUTE_S = 60.0
INSIDE = 600  # most points of the judged window in the figure


def worst_minute(
    seconds: Seconds, unit: str, *, start_s: float, end_s: float
) -> tuple[float, float, float] | None:
    """Return start and end in s, and the rate, of the slowest minute; None in a shorter period."""
    to, rate = minutes(seconds, unit, start_s=start_s, end_s=end_s)
    if not len(to):
        return None
    slowest = int(np.argmin(rate))
    return float(to[slowest] - MINUTE_S), float(to[slowest]), float(rate[slowest])


def minutes(seconds: Seconds, unit: str, *, start_s: float, end_s: float) -> tuple[Floats, Floats]:
    """Return end and mean rate of each minute in a period; a minute ends at each second."""
    inside = (seconds.t_s > start_s) & (seconds.t_s <= end_s)
    t, dt = seconds.t_s[inside], seconds.duration_s[inside]
    if not len(t) or t[-1] - (t[0] - dt[0]) < MINUTE_S:
        return np.array([]), np.array([])
    amount = seconds.ios[inside] if unit == "1/s" else seconds.bytes[inside]
    ends = np.concatenate(([t[0] - dt[0]], t))
    total: Floats = np.concatenate(([0.0], np.cumsum(amount)))
    to = ends[ends >= ends[0] + MINUTE_S]
    done = np.interp(to, ends, total) - np.interp(to - MINUTE_S, ends, total)
    return to, done / MINUTE_S


Ends = tuple[float, float]


def paired(verdict: SteadyVerdict) -> Floats:
    """Return the means of pairs of blocks for a pss rule, which judges them; else none."""
    blocks = np.asarray(verdict.window_blocks)
    if "pairs" not in verdict.criteria or len(blocks) % 2:
        return np.array([])
    means: Floats = blocks.reshape(-1, 2).mean(axis=1)
    return means


def band(verdict: SteadyVerdict) -> Band | None:
    """Return the range of rates that a rule allows in its window; None if there is no range."""
    for name, (limit, ends) in _DRAWN.items():
        if name in verdict.criteria and verdict.window_blocks:
            allowed = verdict.criteria[name][1]
            low, high = ends(verdict, allowed)
            return Band(f"{verdict.rule}: {limit.format(words.percent(allowed))}", low, high)
    return None


def fit_words(verdict: SteadyVerdict) -> str:
    """Return the name of the fitted line, with the limit of its slope if the rule has one."""
    if "slope" not in verdict.criteria:
        return "straight-line fit"
    most = words.percent(verdict.criteria["slope"][1])
    return f"straight-line fit ({verdict.rule}: within {most})"


def _apart(values: Sequence[float] | Floats, height: float) -> Ends:
    middle = (float(min(values)) + float(max(values))) / 2
    return middle - height / 2, middle + height / 2


def _around(middle: float, share: float) -> Ends:
    return middle * (1 - share), middle * (1 + share)


# By name of a criterion: the words for its limit, and the ends of the range that it allows. The
# plot shows the first of these criteria that the rule has.
_DRAWN: dict[str, tuple[str, Callable[[SteadyVerdict, float], Ends]]] = {
    "pairs": ("fifths of the window within {}", lambda v, share: _apart(paired(v), share * v.mean)),
    "excursion": ("rounds within {}", lambda v, share: _apart(v.window_blocks, share * v.mean)),
    "difference": (
        "the second section within {} of the first",
        lambda v, share: _around(v.window_blocks[0], share),
    ),
    "drift": (
        "lower level, which may drift by {}",
        lambda v, share: _around(v.lower_mode or v.mean, share),
    ),
    "cv": ("mean ± {} (largest standard deviation)", lambda v, share: _around(v.mean, share)),
}


def section(run: StoredRun) -> page.Section:
    """Return the section about steady state."""
    blocks: list[page.Block] = []
    before = list(preparation.cliff_blocks(run))
    for stage, found in run.result.having(WarmUp):
        if found.verdict is not None:
            blocks += _verdict(run, stage, found, found.verdict)
            blocks.append(page.Fold("Time and bytes of this stage", [cost(stage)]))
    title = "Was the drive in steady state?"
    if not blocks:
        blocks = [page.Prose(_absent(run.result), tone="warn")]
    return page.Section("steady", title, [*blocks[:1], *before, *blocks[1:]])


def _absent(result: RunResult) -> str:
    if result.interrupted:
        return "The run was interrupted before steady state could be judged."
    if result.having(Pts):
        return (
            "Only the PTS rule was used; the header of each test has its result. Five similar "
            "rounds do not prove steady state, so it is not known whether any rate of this run "
            "lasts."
        )
    return "This run did not check steady state, so it is not known whether its rates last."


def _verdict(
    run: StoredRun, stage: StageResult, found: WarmUp, verdict: SteadyVerdict
) -> Sequence[page.Block]:
    seconds, unit = run.seconds(found.seconds_csv), found.unit
    name = f"{stage.name}-0"
    blocks: list[page.Block] = [_answer(stage, verdict, unit)]
    judged = verdict.window_to_s > verdict.window_from_s  # else the write cliff has the rate
    if judged and seconds is not None and len(seconds.t_s) > 1:
        blocks.append(page.Plots([_run_up(verdict, seconds, unit, name)], wide=True))
    evidence: list[page.Block] = [_facts(stage, found, verdict)]
    if verdict.criteria:
        columns: list[page.ColumnOf[tuple[str, tuple[float, float]]]] = [
            ("Criterion", lambda one: criterion_words(one[0])),
            (page.number("Measured"), _measured),
            (page.number("Limit"), lambda one: criterion_value(one[0], one[1][1])),
        ]
        caption = f"What the rule “{verdict.rule}” requires"
        evidence.append(page.table_of(caption, verdict.criteria.items(), columns))
    if found.other_rules and verdict.mean:
        evidence.append(_others(found.other_rules, verdict, unit))
    return [*blocks, page.Fold("Evidence: the criteria, other rules", evidence)]


def _answer(stage: StageResult, verdict: SteadyVerdict, unit: str) -> page.Prose:
    watched = format_duration(verdict.window_to_s - verdict.window_from_s).removesuffix(" 00 s")
    if not verdict.steady:
        return page.Prose(
            f"No, by the rule “{verdict.rule}”. {words.sentence(verdict.reason)} The rate was "
            f"still changing, with a mean of {words.quantity(verdict.mean, unit)}; the drive may "
            "hold less in the long run.",
            tone="bad",
        )
    seen = (
        f"over the last {watched} {_moved(verdict)}, "
        f"after {format_figure(verdict.volume_fills, 2)} {verdict.fills_are} of the test workload"
    )
    if any(finding.code is Code.QUICK_RULE for finding in stage.findings):
        return page.Prose(
            f"Only by the rule “{verdict.rule}”, which often calls a drive steady too early: "
            f"{seen}. Do not plan on it.",
            tone="warn",
        )
    return page.Prose(
        f"Yes, by the rule “{verdict.rule}”: {seen}. The lower bound is "
        f"{words.quantity(verdict.lower_bound, unit)}.",
        tone="good",
    )


def _moved(verdict: SteadyVerdict) -> str:
    if verdict.lower_mode is None:
        return "the rate did not drift or jump more than the rule allows"
    often = "regularly" if verdict.shape == "periodic" else "back and forth"
    return f"the rate moved {often} between two levels, and neither level drifted"


def _others(others: Sequence[SteadyVerdict], verdict: SteadyVerdict, unit: str) -> page.Table:
    """Return when other steady-state rules would have stopped, and the rates they would report."""

    def difference(other: SteadyVerdict) -> page.Cell:
        off = 100 * (other.lower_bound / verdict.mean - 1)
        return page.Cell(format_change(off), "bad" if off > TOO_HIGH else "")

    columns: list[page.ColumnOf[SteadyVerdict]] = [
        ("Rule", lambda other: other.rule),
        (
            page.number("Satisfied after"),
            lambda o: format_duration(o.checked_s) if o.steady else "not within this time",
        ),
        (
            page.number(others[0].fills_are.capitalize()),
            lambda other: f"{other.volume_fills:.2f}" if other.steady else words.NONE,
        ),
        (
            page.number("Rate that the rule gives"),
            lambda other: words.quantity(other.lower_bound if other.steady else None, unit),
        ),
        (
            page.number("Difference from the mean above"),
            lambda other: difference(other) if other.steady else words.NONE,
        ),
    ]
    return page.table_of("What other rules say about the same seconds", others, columns)


def _facts(stage: StageResult, found: WarmUp, verdict: SteadyVerdict) -> page.Facts:
    unit = found.unit
    return page.Facts(
        "",
        [
            ("Lower bound", words.quantity(verdict.lower_bound, unit) if verdict.steady
             else "none, because the rate was not steady"),
            ("Mean of the window", words.quantity(verdict.mean, unit)),
            (criterion_words("slope"), format_change(drift_percent(verdict))),
            ("Window", f"{format_duration(verdict.window_from_s)} to "
                       f"{format_duration(verdict.window_to_s)} after the start"),
            ("Length of the warm-up", format_duration(max(verdict.checked_s, stage.duration_s))),
            *(
                [("How the rate moves", f"{verdict.shape}; the mean of its lower level is "
                  f"{words.quantity(verdict.lower_mode, unit)}")]
                if verdict.lower_mode is not None
                else []
            ),
            ("Written by the workload",
             f"{format_figure(verdict.volume_fills)} {verdict.fills_are}"),
            *([("How fills were counted", found.mapping.says())] if found.mapping else []),
            ("Workload", words.times(found.label or stage.title)),
        ],
    )  # fmt: skip


def drift_percent(verdict: SteadyVerdict) -> float:
    """Return by how many percent the fitted line changes from the first block to the last."""
    blocks = max(1, len(verdict.window_blocks))
    length_s = (verdict.window_to_s - verdict.window_from_s) * (1 - 1 / blocks)
    return 100 * verdict.slope_per_s * length_s / verdict.mean if verdict.mean else 0.0


TOO_HIGH = 5  # percent above the rate that the drive held later


def _measured(criterion: tuple[str, tuple[float, float]]) -> page.Cell:
    name, (measured, allowed) = criterion
    return page.Cell(criterion_value(name, measured), "" if measured <= allowed else "bad")


def _window(
    verdict: SteadyVerdict, axis: words.TimeUnit, divisor: float, mean_words: str
) -> Window:
    length = verdict.window_to_s - verdict.window_from_s
    found = band(verdict)
    return Window(
        start=verdict.window_from_s / axis.seconds,
        end=verdict.window_to_s / axis.seconds,
        mean=verdict.mean / divisor,
        fit_start=verdict.intercept / divisor,
        fit_end=(verdict.intercept + verdict.slope_per_s * length) / divisor,
        fit_words=fit_words(verdict),
        band=found and Band(found.words, found.low / divisor, found.high / divisor),
        mean_words=mean_words,
    )


def _run_up(verdict: SteadyVerdict, seconds: Seconds, unit: str, name: str) -> page.Plot:
    axis = words.time_unit(float(seconds.t_s[-1]))
    divisor, label = words.scaled(unit)
    start_s, end_s = verdict.window_from_s, verdict.window_to_s
    first, last = np.searchsorted(seconds.t_s, (start_s, end_s), side="right")
    inside = seconds.between(int(first), int(last)) if last > first else seconds
    window = _window(verdict, axis, divisor, preparation.rates(verdict.mean, unit, inside))
    worst = worst_minute(seconds, unit, start_s=start_s, end_s=end_s)
    to, minute = minutes(seconds, unit, start_s=start_s, end_s=end_s)
    levels: list[Level] = []
    if verdict.steady:
        bound = preparation.rates(verdict.lower_bound, unit, inside)
        levels.append(
            Level("lower bound", verdict.lower_bound / divisor, bound, window.start, window.end)
        )
    slowest = ""
    if worst is not None:
        place = (worst[0] / axis.seconds, worst[1] / axis.seconds)
        told = preparation.rates(worst[2], unit, inside)
        levels.append(Level("worst minute", worst[2] / divisor, told, *place))
        slowest = f"; the rate of its slowest minute was {words.quantity(worst[2], unit)}"
    blocks, pairs = (np.asarray(verdict.window_blocks), paired(verdict))
    ends = [np.linspace(window.start, window.end, len(one) + 1) for one in (blocks, pairs)]
    middles = (ends[0][:-1] + ends[0][1:]) / 2
    mean = words.quantity(verdict.mean, unit)
    return page.Plot(
        name=f"steady-{name}",
        title="Rate from the first second of the test workload",
        caption="Left: the range from the slowest to the fastest second of each part. Right: the "
        "judged window on a scale of its own, which need not start at zero. Shaded on the right: "
        "the range that the rule allows.",
        alt=f"Rate over time; the judged window has a mean of {mean}{slowest}.",
        figure=SteadyFigure(
            trace=thinned(seconds.t_s / axis.seconds, seconds.rate(unit) / divisor),
            minutes=thinned(to / axis.seconds, minute / divisor, bins=INSIDE),
            blocks=tuple(zip(middles.tolist(), (blocks / divisor).tolist(), strict=True)),
            pairs=tuple(
                zip(
                    ends[1][:-1].tolist(),
                    ends[1][1:].tolist(),
                    (pairs / divisor).tolist(),
                    strict=True,
                )
            ),
            window=window,
            levels=tuple(levels),
            x_label=f"{axis.name} since the test workload started",
            y_label=label,
        ),
    )
