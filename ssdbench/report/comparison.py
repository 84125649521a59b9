"""Show a comparison of runs: answers in words, the page, and the CSV."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.report.html import rendered
from ssdbench.report.metrics import published_bound, value_of
from ssdbench.report.plots.points import IntervalsFigure, Line, LinesFigure, Span
from ssdbench.report.tables import POINT_NUMBERS, Row, Tidy, csv_bytes, row_of, types_of
from ssdbench.report.view import capacity, page, words
from ssdbench.report.view.points import BOUND, INTERVAL, MEAN, MINUTE, percentile_columns
from ssdbench.stats.compare import ALPHA, P99, RATE, Compared, Measured, Pair
from ssdbench.stats.planning.runplan import CapacityAnswer
from ssdbench.units import counted, format_change, format_count, format_figure, format_ns

BOUNDS_APART = 1.25  # bounds of equal drives differ by less


def shift_words(pair: Pair) -> str:
    """Format the difference of the later run, such as `+1,266 (+242 %)`."""
    percent = pair.shift_percent
    sign = "+" if pair.found.shift > 0 else ""
    said = f"{sign}{format_count(pair.found.shift)}"
    if percent is None:
        return said
    return f"{said} ({format_change(percent)})"


def shift_interval(pair: Pair) -> str:
    """Format the 95 % interval of the shift in IOPS; a dash if there are too few repeats for it."""
    return words.span(pair.found.shift_low, pair.found.shift_high)


FASTER = "faster in"
FASTER_MEANS = (
    "the share of pairs of repeats, one from each run, in which the run named first is faster; "
    "50 % means no difference"
)


def faster_words(pair: Pair) -> str:
    """Format in what share of pairs of repeats the later run is faster, such as `0 % of pairs`."""
    return f"{100 * pair.found.effect:.0f} % of pairs"


def bounds_words(pair: Pair) -> str:
    """Format both lower bounds, the later run first, such as `900 against 3,600 (-75.0 %)`."""
    first, second = (words.bound(bound) for bound in pair.bounds)
    percent = pair.bound_percent
    said = "" if percent is None else f" ({format_change(percent)})"
    return f"{second} against {first}{said}"


NOT = "NOT VALIDATED"


def much(first: float, second: float, more: str, less: str) -> str:
    """Format by how much the second value differs: `2.1 x faster`, `12 % slower`.

    `more` is the word for a second value that is higher, such as faster; `less` for a lower one.
    """
    word = more if second > first else less
    low, high = sorted((first, second))
    if low <= 0:
        return word
    ratio = high / low
    if ratio >= FACTOR:
        return f"{format_figure(ratio, 2)} x {word}"
    return f"{format_change(100 * (second / first - 1)).lstrip('+-')} {word}"


FACTOR = 1.5  # smaller ratios are shown in percent


Names = Sequence[str]  # of the runs, by their place on the command line


def pair_verdict(pair: Pair, names: Names) -> tuple[str, str]:
    """Return colour and answer for a pair; "faster" and "slower" need two VALIDATED runs."""
    later, earlier = names[pair.second], names[pair.first]
    if pair.p_corrected > ALPHA:
        if (differs := _bounds_apart(pair, names)) is not None:
            return "warn", f"{differs}; the means do not differ clearly"
        apart = pair.found.effect in (0.0, 1.0)  # yet the p-value is not small enough
        if pair.found.unsure:
            alike = "some repeats of one run are at the level of the other run"
            why = alike if pair.found.entangled else "neighbouring repeats are too similar"
            return "warn", f"cannot tell: {why}"
        return "", "too few repeats to tell" if apart else "no difference shown"
    first, second = (value or 0.0 for value in pair.means)
    faster = pair.found.shift > 0
    word = "faster" if faster else "slower"
    if faster == (second > first):
        word = much(first, second, "faster", "slower")
    said = f"{later} is {word} than {earlier}"
    if not pair.validated:
        return "warn", f"{said}, but {NOT}"
    percent = pair.bound_percent
    if percent is not None and percent * pair.found.shift < 0:
        return "warn", f"{said}, but its bound is {'lower' if percent < 0 else 'higher'}"
    return ("good" if faster else "bad"), said


def measured_verdict(one: Measured, names: Names) -> tuple[str, str]:
    """Return colour and answer for a measured rate within a latency limit, or for a p99."""
    later, earlier = names[one.second], names[one.first]
    rate, (first, second) = one.metric == RATE, one.values
    if one.differs is None:
        return "", f"{format_change(100 * (second / first - 1))}, not tested" if first else ""
    if not one.differs:
        return "", "no difference shown"
    better = (second > first) == rate
    said = f"{later} is {much(first, second, 'higher', 'lower')} than {earlier}"
    if not one.validated:
        return "warn", f"{said}, but {NOT}"
    return "good" if better else "bad", said


def answer_lines(results: Sequence[RunResult], found: Compared) -> list[str]:
    """Return the differences of each run from the first, in words: main point, then other points.

    The main point is the one with the lowest bound, the number to plan on. If all runs answer the
    same question, the first lines have the question and its answers.
    """
    drives, names = [], capacity.names(results)
    if asked := _asked(results):
        drives = [capacity.candidates_line(asked), f"question: {asked[0][1].wanted.asked()}"]
        drives += [
            f"{name}: {capacity.answer_line(answer)}"
            for name, (_, answer) in zip(names, asked, strict=True)
        ]
    runs = dict.fromkeys((one.first, one.second) for one in found.every)
    against_first = [pair for pair in runs if pair[0] == 0]
    return [*drives, *(_line(found, *pair, names) for pair in against_first or list(runs)[:1])]


def _asked(results: Sequence[RunResult]) -> capacity.Plans:
    """Return all runs with their answers if all runs answer the same question; else none."""
    asked = [(one, answer) for one in results if (answer := capacity.answer_of(one))]
    same = len({answer.wanted.asked() for _, answer in asked}) == 1
    return asked if same and len(asked) == len(results) else ()


def _line(found: Compared, first: int, second: int, names: Names) -> str:
    """Return the comparison of two runs in one line: main point, p99, rates, number of points."""
    runs = (first, second)
    pairs = [pair for pair in found.pairs if (pair.first, pair.second) == runs]
    rates = [one for one in found.rates if (one.first, one.second) == runs]
    slow = [one for one in found.latencies if (one.first, one.second) == runs]
    parts = []
    if pairs:
        main = min(pairs, key=lambda pair: min(_least(point) for point in pair.points))
        slow = [one for one in slow if one.label == main.label]
        before, after = (words.count(value) for value in main.means)
        said = f"{pair_verdict(main, names)[1]} at {main.label}"
        parts.append(f"{said}: {after} against {before} IOPS")
    parts += [f"{measured_name(one)} {_both(one)}" for one in slow]
    if slow and not pairs:
        parts[-1] += f", at {slow[0].label}"
    parts += [
        f"{measured_name(one)}: {measured_verdict(one, names)[1]}, {_both(one)}" for one in rates
    ]
    if len(pairs) > 1:
        parts.append(_count_words(pairs, names))
    return "; ".join(parts)


def _count_words(pairs: Sequence[Pair], names: Names) -> str:
    """Return at how many points the later run is faster, slower, or not clearly different."""
    clear = [pair for pair in pairs if pair.p_corrected <= ALPHA]
    faster = sum(pair.found.shift > 0 for pair in clear)
    later = names[pairs[0].second]
    return (
        f"of {counted(len(pairs), 'point')}, {later} is faster at {faster:,}, slower at "
        f"{len(clear) - faster:,}, and not clearly different at {len(pairs) - len(clear):,}"
    )


def measured_name(one: Measured) -> str:
    """Return the name of a compared value: `p99 of reads`, or the rate within a latency limit."""
    if one.metric == P99:
        return {"read": "p99 of reads", "write": "p99 of writes"}.get(one.direction, "p99")
    return f"rate within the limit ({one.label})"


def measured_value(value: float, metric: str) -> str:
    """Format a rate in IOPS, or a latency with its unit."""
    return words.count(value) if metric == RATE else format_ns(value)


def _both(one: Measured) -> str:
    first, second = (measured_value(value, one.metric) for value in one.values)
    if one.metric == RATE:
        return f"{second} against {first} IOPS"
    return f"{second} against {first}{' (no difference shown)' * (one.differs is False)}"


def _bounds_apart(pair: Pair, names: Names) -> str | None:
    """Return a sentence if the bounds of two runs differ much, else None."""
    first, second = pair.bounds
    low, high = sorted((first or 0.0, second or 0.0))
    if high <= 0 or high < BOUNDS_APART * low:
        return None
    lower = names[pair.second if (second or 0.0) < (first or 0.0) else pair.first]
    if low <= 0:
        return f"{lower} has no bound to plan on"
    return f"the bound of {lower} is {high / low:.2g} times lower"


MOST_DRAWN = 20  # most points in the figure of intervals
MOST_LINES = 8  # most points with a line over time
LEAST_SERIES = 3  # fewest runs for the section on one drive over time

Shared = tuple[str, tuple[PointResult | None, ...]]  # a point's label, and its result in each run


def _side_by_side(results: Sequence[RunResult], found: Compared) -> Iterator[page.Section]:
    """Yield the sections on bounds, on one drive over time, and on rates and latencies."""
    shared = _shared(results, found)
    yield page.Section(
        "bounds", "Bounds", [_bound_table(results, shared), _interval_plots(results, shared)]
    )
    if _is_series(results):
        yield page.Section("series", "One drive over time", _series(results, shared, found))
    yield page.Section("rates", "Rates and latencies", [_rate_table(results, shared)])


def _shared(results: Sequence[RunResult], found: Compared) -> list[Shared]:
    """Return the points that two or more runs measured, the lowest bound first."""
    points: dict[str, list[PointResult | None]] = {}
    for pair in found.pairs:
        own = points.setdefault(pair.label, [None] * len(results))
        own[pair.first], own[pair.second] = pair.points
    shared = [(label, tuple(own)) for label, own in points.items()]
    return sorted(shared, key=lambda one: min(_least(point) for point in one[1]))


def _least(point: PointResult | None) -> float:
    value = None if point is None else published_bound(point)
    return float("inf") if value is None else value


def _bound_table(results: Sequence[RunResult], shared: Sequence[Shared]) -> page.Table:
    columns: list[page.ColumnOf[Shared]] = [("Point", lambda one: words.times(one[0]))]
    for place, name in enumerate(capacity.names(results)):
        columns.append((page.number(name), partial(_bound_cell, place)))
    columns.append((page.number("Difference of the highest from the lowest"), _apart))
    return page.table_of("Lower bounds of IOPS, the numbers to plan on", shared, columns)


def _apart(one: Shared) -> str:
    known = [value for point in one[1] if point and (value := published_bound(point))]
    return format_change(100 * (max(known) / min(known) - 1)) if len(known) > 1 else words.NONE


def _bound_cell(place: int, one: Shared) -> page.Cell:
    point = one[1][place]
    if point is None:
        return page.Cell(words.NONE, hint="not measured")
    text = words.bound(published_bound(point))
    sound = point.verdict == "VALIDATED"
    return page.Cell(
        text if sound else f"{text} ✗", "strong" if sound else "bad", hint=point.verdict
    )


def _interval_plots(results: Sequence[RunResult], shared: Sequence[Shared]) -> page.Plots:
    """Return a plot of all runs, in percent of the first run's mean of each point."""
    rows = [(words.times(label), _spans(points)) for label, points in shared[:MOST_DRAWN]]
    named = zip(capacity.names(results), results, strict=True)
    names = tuple(f"{name}: {result.run_id}" for name, result in named)
    axis = "IOPS in percent of the first run's mean   (| = lower bound)"
    left = len(shared) - len(rows)
    more = f" {left} further points are in the tables." if left > 0 else ""
    plot = page.Plot(
        name="intervals",
        title="Means with their 95 % intervals, and bounds",
        caption=f"Each point of each run; a mark without a line is a mean without interval.{more}",
        alt=f"Means and bounds of {counted(len(rows), 'point')} in {len(results)} runs; the table "
        "has the numbers.",
        figure=IntervalsFigure(tuple(rows), names, axis),
    )
    return page.Plots([plot], wide=True)


def _spans(points: Sequence[PointResult | None]) -> tuple[Span | None, ...]:
    found = [point.estimate("iops") if point else None for point in points]
    whole = next((one.value for one in found if one and one.value), 1.0)

    def percent(value: float | None) -> float | None:
        return None if value is None else 100 * value / whole

    return tuple(
        Span(
            100 * one.value / whole,
            percent(one.ci_low),
            percent(one.ci_high),
            percent(published_bound(point)) if point else None,
        )
        if one
        else None
        for one, point in zip(found, points, strict=True)
    )


def _rate_table(results: Sequence[RunResult], shared: Sequence[Shared]) -> page.Table:
    items = [
        (label, place, point)
        for label, points in shared
        for place, point in enumerate(points)
        if point is not None
    ]
    run_names = _run_names(results)
    columns: list[page.ColumnOf[tuple[str, int, PointResult]]] = [
        ("Point", lambda one: words.times(one[0])),
        ("Run", lambda one: run_names[one[1]]),
    ]
    shown = [BOUND, MEAN, INTERVAL, *percentile_columns(50.0, 99.0, 99.9), MINUTE]
    columns += [(column, partial(_of_point, show)) for column, show in shown]
    columns.append(("Verdict", lambda one: words.verdict_cell(one[2].verdict)))
    return page.table_of("Every point of every run", items, columns)


def _of_point(
    show: Callable[[PointResult], page.Cell | str], one: tuple[str, int, PointResult]
) -> page.Cell | str:
    return show(one[2])


def _run_names(results: Sequence[RunResult]) -> list[str]:
    """Return the names of the runs, with "(simulated)" if other runs measured real drives."""
    mixed = len({result.target.modelled for result in results}) > 1
    named = zip(capacity.names(results), results, strict=True)
    return [f"{name}{' (simulated)' * (mixed and one.target.modelled)}" for name, one in named]


def _is_series(results: Sequence[RunResult]) -> bool:
    """Return whether all runs measured the same drive and are given in order of time."""
    began = [result.started_at for result in results]
    same = len({result.target.id for result in results}) == 1
    return same and len(results) >= LEAST_SERIES and began == sorted(began)


def _series(
    results: Sequence[RunResult], shared: Sequence[Shared], found: Compared
) -> list[page.Prose | page.Table | page.Plots]:
    updates = {
        place: (before.target.firmware, after.target.firmware)
        for place, (before, after) in enumerate(zip(results, results[1:], strict=False), start=1)
        if before.target.firmware != after.target.firmware
    }
    names = capacity.names(results)
    told = [
        f"before run {names[place]} the firmware changed from {old or 'none'} to {new or 'none'}"
        for place, (old, new) in updates.items()
    ]
    changed = words.sentence("; ".join(told)) if told else "The firmware stayed the same."
    ticks = tuple(
        (float(n), f"{names[n]}: {result.target.firmware}".rstrip(": "))
        for n, result in enumerate(results)
    )
    lines = []
    for label, points in shared[:MOST_LINES]:
        known = [(float(n), published_bound(p)) for n, p in enumerate(points) if p is not None]
        if drawn := [(x, y) for x, y in known if y]:
            lines.append(
                Line(words.times(label), tuple(x for x, _ in drawn), tuple(y for _, y in drawn))
            )
    plot = page.Plot(
        name="series",
        title="Lower bounds, run by run",
        caption="The runs in order of time, with their firmware.",
        alt=f"Lower bounds of {counted(len(lines), 'point')} over {len(results)} runs; the table "
        "has them.",
        figure=LinesFigure(
            tuple(lines),
            "run: firmware",
            "IOPS",
            ticks,
            log_y=True,
            marks=tuple((place - 0.5, "firmware") for place in updates),
        ),
    )
    figures = [page.Plots([plot])] if lines else []
    return [page.Prose(changed, tone="warn" if told else ""), *figures, _changes(found, names)]


def _changes(found: Compared, names: Names) -> page.Prose | page.Table:
    """Return a table of the points that changed from one run to the next."""
    changed: list[tuple[Pair, page.Cell]] = []
    for pair in sorted(found.pairs, key=lambda pair: pair.second):
        tone, said = pair_verdict(pair, names)
        if pair.second == pair.first + 1 and tone:
            changed.append((pair, page.Cell(said, tone)))
    if not changed:
        return page.Prose("The tests below show no change of any point from one run to the next.")
    columns: list[page.ColumnOf[tuple[Pair, page.Cell]]] = [
        ("Runs", lambda one: _runs_of(one[0], names)),
        ("Point", lambda one: words.times(one[0].label)),
        ("Bound", lambda one: bounds_words(one[0])),
        ("Answer", lambda one: one[1]),
    ]
    return page.table_of(
        "Points that changed from one run to the next, or may have", changed, columns
    )


def runs_of(one: Pair | Measured, names: Names) -> str:
    """Return the names of the two runs of a row, such as `B against A`."""
    return f"{names[one.second]} against {names[one.first]}"


def _runs_of(one: Pair | Measured, names: Names) -> str:
    """Return short names of the two runs of a row so that a browser keeps them on one line."""
    said = runs_of(one, names)
    return said.replace(" ", words.NO_BREAK) if len(said) <= ONE_LINE else said


ONE_LINE = 16  # most characters that a narrow column keeps on one line


def render_comparison(results: Sequence[RunResult], found: Compared) -> str:
    """Return the page as HTML."""
    sheet = page.Sheet(
        tool="compare",
        kind="Comparison",
        title=_title(results),
        simulated=words.simulated_labels(result.target for result in results),
        sections=[
            page.Section("answer", "Answer", _answer(results, found)),
            page.Section("runs", "The runs", [*_mixed(results), _run_table(results)]),
            *_side_by_side(results, found),
            page.Section(
                "tests", "Do they differ?", [*_explained(found), _pair_table(results, found)]
            ),
        ],
    )
    return rendered(sheet)


def _answer(results: Sequence[RunResult], found: Compared) -> list[page.Block]:
    """Return the answer in words, a table of all comparisons, and the things left out."""
    several = len(results) > 2
    tone = "" if all(one.validated for one in found.every) else "warn"
    first, *lines = [
        page.Prose(words.sentence(words.times(line)), tone=tone)
        for line in answer_lines(results, found)
    ]
    names = capacity.names(results)
    blocks: list[page.Block] = [first, _named(results)]
    if asked := _asked(results):
        blocks[0] = replace(first, tone=_tone(asked))
        lines = lines[1:]  # the first is the question
        blocks.insert(1, page.Prose(f"Question: {asked[0][1].wanted.asked()}."))
        blocks += capacity.answer_blocks(asked, names)
    blocks += lines
    later, earlier = ("later run", "earlier run") if several else (names[1], names[0])
    columns: list[page.ColumnOf[AnswerRow]] = [
        ("What", lambda row: words.times(row.label)),
        *([("Runs", lambda row: row.runs)] if several else []),
        ("Answer", lambda row: page.Cell(row.answer, row.tone)),
        (page.number(earlier), lambda row: row.first),
        (page.number(later), lambda row: row.second),
    ]
    blocks.append(page.table_of("What was compared", answer_table(found, names), columns))
    if found.left_out:
        blocks.append(page.Prose("Not compared: " + "; ".join(found.left_out) + ".", tone="warn"))
    return blocks


def _tone(plans: capacity.Plans) -> str:
    """Return the colour of several answers: bad if one is not safe, good if one can be bought."""
    tones = {capacity.TONES[capacity.standing(answer)] for _, answer in plans}
    return next(tone for tone in ("bad", "good", "note") if tone in tones)


def _named(results: Sequence[RunResult]) -> page.Prose:
    """Return a paragraph that says which run each name stands for."""
    runs = (
        f"{name}: {result.target.name}, run {result.run_id}"
        for name, result in zip(capacity.names(results), results, strict=True)
    )
    return page.Prose(f"{'; '.join(runs)}.")


class AnswerRow(NamedTuple):
    """One row of the answer: the compared quantity, the answer, both numbers with their unit."""

    label: str
    runs: str
    answer: str
    tone: str
    second: str
    first: str


def answer_table(found: Compared, names: Names) -> list[AnswerRow]:
    """Return a row for each comparison: points first, then rates within a limit, then p99s."""
    rows = []
    for pair in found.pairs:
        tone, said = pair_verdict(pair, names)
        first, second = (words.count(value) for value in pair.means)
        label = f"{_short(pair.label)}, IOPS"
        rows.append(AnswerRow(label, runs_of(pair, names), said, tone, second, first))
    for one in (*found.rates, *found.latencies):
        tone, said = measured_verdict(one, names)
        first, second = (measured_value(value, one.metric) for value in one.values)
        name = "IOPS" if one.metric == RATE else measured_name(one)
        label = f"{_short(one.label)}, {name}"
        rows.append(AnswerRow(label, runs_of(one, names), said, tone, second, first))
    return rows


def _short(label: str) -> str:
    """Return a workload's name without "read/write", which its share of reads already says."""
    return label.replace(" read/write", "")


def render_plans(plans: Sequence[tuple[RunResult, CapacityAnswer]]) -> str:
    """Return the page of `capacity`: the answer, then the calculation for each candidate."""
    results = [result for result, _ in plans]
    names = capacity.names(results)
    found: list[page.Section] = []
    if len(plans) > 1:
        lead = page.Prose(words.sentence(capacity.candidates_line(plans)), tone=_tone(plans))
        rest = [
            *_mixed(results),
            page.Prose(f"Question: {plans[0][1].wanted.asked()}."),
            _named(results),
            *capacity.answer_blocks(plans, names),
        ]
        found.append(page.Section("answer", "Answer", [lead, *rest]))
    found += [
        page.Section(
            f"plan-{words.letter(place)}",
            f"{name}: {result.target.name}",
            [capacity.lead(answer), *capacity.blocks(result, answer)],
        )
        for place, (name, (result, answer)) in enumerate(zip(names, plans, strict=True))
    ]
    return rendered(
        page.Sheet(
            tool="capacity",
            kind="Capacity plan",
            title=_title(results),
            simulated=words.simulated_labels(result.target for result in results),
            sections=found,
        )
    )


def _title(results: Sequence[RunResult]) -> str:
    """Return a title with the names of the drives, or of the runs if two drives have one name."""
    names = capacity.names(results)
    lettered = names == [words.letter(place) for place in range(len(names))]
    return " against ".join([result.run_id for result in results] if lettered else names)


def _mixed(results: Iterable[RunResult]) -> list[page.Block]:
    """Return a warning if real and simulated drives are compared."""
    labels = dict.fromkeys(words.simulated_label(result.target) for result in results)
    simulated = [label for label in labels if label]
    if not simulated or all(labels):
        return []
    told = "Some drives are simulated and some are real; a model says nothing about real hardware"
    return [page.Prose(f"{told}. {'; '.join(simulated)}.", tone="bad")]


def _run_table(results: Sequence[RunResult]) -> page.Table:
    names = capacity.names(results)
    columns: list[page.ColumnOf[tuple[int, RunResult]]] = [
        ("Run", lambda one: f"{names[one[0]]}: {one[1].run_id}"),
        ("Started", lambda one: words.moment(one[1].started_at)),
        (
            "Target",
            lambda one: page.Cell(
                one[1].target.name + " (simulated)" * one[1].target.modelled, "name"
            ),
        ),
        ("Model", lambda one: one[1].target.model or words.NONE),
        ("Firmware", lambda one: one[1].target.firmware or words.NONE),
        ("Verdict", lambda one: words.verdict_cell(one[1].verdict)),
    ]
    caption = "The runs, in the order of the command line"
    return page.table_of(caption, enumerate(results), columns)


def _explained(found: Compared) -> list[page.Block]:
    unsure = sum(pair.found.unsure for pair in found.pairs)
    told = (
        "Each point is tested twice: by an exact Mann-Whitney test of its repeats, and by a test "
        "of its means that allows for similar neighbouring repeats. The larger p-value counts, "
        f"after Holm's correction for {counted(len(found.pairs), 'comparison')}. “X against Y” "
        "means how run X differs from run Y. Shift: the median of all differences in IOPS "
        "(Hodges-Lehmann) with its 95 % interval, in percent of the mean of run Y. Bound: how the "
        f"number to plan on differs. “{FASTER.capitalize()}”: {FASTER_MEANS}. The answers hold "
        "for these drives at the time of the runs, not for other drives of the same models."
    )
    if unsure:
        told += (
            f" {unsure} of {len(found.pairs)} comparisons are not certain: the difference would be "
            "clear for independent repeats, but neighbouring repeats are too similar."
        )
    return [page.Prose(told)]


def _pair_table(results: Sequence[RunResult], found: Compared) -> page.Table:
    names, run_names = capacity.names(results), _run_names(results)

    def verdict(pair: Pair) -> page.Cell:
        tone, answer = pair_verdict(pair, names)
        return page.Cell(answer, tone)

    columns: list[page.ColumnOf[Pair]] = [
        ("Point", lambda pair: words.times(pair.label)),
        ("Runs", lambda pair: _runs_of(pair, run_names)),
        ("Answer", verdict),
        (page.number("Bound"), bounds_words),
        (page.number("IOPS"), lambda pair: words.count(value_of(pair.points[1], "iops"))),
        (page.number("against"), lambda pair: words.count(value_of(pair.points[0], "iops"))),
        (page.number("Shift"), shift_words),
        (page.number("95 % interval"), shift_interval),
        (page.number(FASTER.capitalize()), faster_words),
        (page.number("p, Holm"), lambda pair: f"{pair.p_corrected:.2g}"),
    ]
    return page.table_of("Point by point", found.pairs, columns)


SIDES = ("", "against_")
_OF_SIDE = {"run_id": "str", "firmware": "str", "verdict": "str"} | types_of(POINT_NUMBERS)
_OF_PAIR: dict[str, tuple[str, Callable[[Pair, Names], object]]] = {
    "bound_change_percent": ("Float64", lambda pair, _: pair.bound_percent),
    "shift_iops": ("Float64", lambda pair, _: pair.found.shift),
    "shift_low_iops": ("Float64", lambda pair, _: pair.found.shift_low),
    "shift_high_iops": ("Float64", lambda pair, _: pair.found.shift_high),
    "effect": ("Float64", lambda pair, _: pair.found.effect),
    "p_holm": ("Float64", lambda pair, _: pair.p_corrected),
    "answer": ("str", lambda pair, names: pair_verdict(pair, names)[1]),
    "metric": ("str", lambda _pair, _: "iops"),
    "direction": ("str", lambda _pair, _: "total"),
    "metric_value": ("Float64", lambda pair, _: pair.means[1]),
    "against_metric_value": ("Float64", lambda pair, _: pair.means[0]),
}
COMPARISON_TYPES = {
    "workload": "str",
    **{f"{side}{name}": kind for side in SIDES for name, kind in _OF_SIDE.items()},
    **{name: kind for name, (kind, _) in _OF_PAIR.items()},
}


def comparison_csv(results: Sequence[RunResult], found: Compared) -> bytes:
    """Return the content of the CSV file that `compare --csv` writes."""
    names = capacity.names(results)
    rows = [
        {
            "workload": pair.label,
            **_csv_side("", results[pair.second], pair.points[1]),
            **_csv_side("against_", results[pair.first], pair.points[0]),
            **{name: value(pair, names) for name, (_, value) in _OF_PAIR.items()},
        }
        for pair in found.pairs
    ]
    rows += [_csv_measured(results, one) for one in (*found.rates, *found.latencies)]
    return csv_bytes(Tidy(rows, COMPARISON_TYPES))


def _csv_measured(results: Sequence[RunResult], one: Measured) -> Row:
    """Return the CSV row of a rate within a latency limit, or of a p99."""
    row: Row = {
        "workload": one.label,
        "p_holm": one.p_corrected,
        "answer": measured_verdict(one, capacity.names(results))[1],
        "metric": one.metric,
        "direction": one.direction,
        "metric_value": one.values[1],
        "against_metric_value": one.values[0],
    }
    for side, place in zip(SIDES, (one.second, one.first), strict=True):
        result = results[place]
        row |= {
            f"{side}run_id": result.run_id,
            f"{side}firmware": result.target.firmware,
            f"{side}verdict": "VALIDATED" if one.validated else NOT,
        }
    return row


def _csv_side(prefix: str, result: RunResult, point: PointResult) -> Row:
    row = {"run_id": result.run_id, "firmware": result.target.firmware, "verdict": point.verdict}
    return {
        f"{prefix}{name}": value for name, value in (row | row_of(POINT_NUMBERS, point)).items()
    }
