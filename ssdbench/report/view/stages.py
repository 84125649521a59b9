"""One section per stage: what it did, what it measured, what it drew."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ssdbench.model.result import StageResult
from ssdbench.report.figures import ScatterFigure, SeriesFigure, thinned
from ssdbench.report.read import StoredRun
from ssdbench.report.view import (
    filesystems,
    medians,
    pointplots,
    points,
    pts,
    rates,
    repeats,
    stretch,
    trials,
    words,
)
from ssdbench.report.view.page import Block, Cell, Column, Facts, Plot, Plots, Prose, Section, Table
from ssdbench.units import format_capacity, format_duration, format_rate

MAX_DOTS = 6000  # of a scatter; peaks are always kept
MAX_ROWS = 500

# What a reader wants to see first; other kinds follow in the order in which they were run.
_FIRST = ("plan", "rate", "sweep", "span", "blocksize")

_TOLD = {*pts.TOLD, medians.RECORDS}  # lists that have tables of their own

LEADS = {
    "pts": "PTS-style: means over five rounds that look alike, in the order of the standard. No "
    "bounds, and no numbers to plan on. What was not checked against the standard's text is in "
    "docs/pts.md.",
    "plan": "From the lower bound, never from the mean.",
    "blocksize": "Writes at a fixed stride; where their latency jumps regularly, the drive begins "
    "a new block, or empties a buffer.",
    "precondition": "Before anything is measured, the whole drive is written, so that no fresh "
    "flash makes it look faster than it will be.",
    "span": "How the rate depends on how much of the drive is used, from small to the whole.",
}


def sections(run: StoredRun) -> Iterator[Section]:
    """All stages but those whose whole content is the steady-state verdict."""
    order = {kind: place for place, kind in enumerate(_FIRST)}
    stages = sorted(run.result.stages, key=lambda s: order.get(s.kind, len(order)))
    for stage in stages:
        if stage.steady and not stage.points:
            continue
        yield Section(f"stage-{stage.name}", stage.title, list(_blocks(run, stage)))


def _blocks(run: StoredRun, stage: StageResult) -> Iterator[Block]:
    if not stage.complete:
        yield Prose("This stage was not finished; what it measured until then is kept.", tone="bad")
    if stage.kind in LEADS:
        yield Prose(LEADS[stage.kind])
    if stage.kind in ("plan", "blocksize") and stage.summary:
        yield _summary(stage)
    if stage.points:
        yield from points.overview(stage.points)
        yield from pointplots.rates(stage)
        yield points.rates(stage.points)
        yield from pointplots.latencies(run, stage)
        latencies = points.latencies(stage.points)
        if latencies is not None:
            yield latencies
        yield from repeats.blocks(run, stage)
    yield from filesystems.figure(stage, run.result.stages)
    yield from trials.figure(stage)
    yield from rates.blocks(stage)
    if stage.kind == "pts":
        yield from pts.blocks(run.result, stage)
    if stage.kind != "rate":  # its steps have a table of their own
        yield from medians.table(stage)
        yield from _tables({n: v for n, v in stage.data.items() if n not in _TOLD})
    drawn = [plot for plot in _figures(run, stage) if plot is not None]
    if drawn:
        yield Plots(drawn, wide=True)
    if stage.kind not in ("plan", "blocksize") and stage.summary:
        yield _summary(stage)
    yield cost(stage)


def _summary(stage: StageResult) -> Facts:
    caption = "The answer" if stage.kind in ("plan", "blocksize") else "In numbers"
    return Facts(caption, [words.fact(name, value) for name, value in stage.summary.items()])


def cost(stage: StageResult) -> Facts:
    """When a stage ran, how long, and how much it moved."""
    items = [
        ("Stage", stage.name),
        ("Started", words.moment(stage.started_at)),
        ("Took, on the drive's clock", format_duration(stage.duration_s)),
        ("Took, on the wall clock", format_duration(stage.wall_s)),
    ]
    if stage.bytes_written:
        items.append(("Written", format_capacity(stage.bytes_written)))
    if stage.bytes_read:
        items.append(("Read", format_capacity(stage.bytes_read)))
    return Facts("What it took", items)


def _tables(data: Mapping[str, object]) -> Iterator[Table]:
    """Every list of records in a stage's data, as a table."""
    for name, value in data.items():
        if not isinstance(value, list) or not value:
            continue
        records = [record for record in value if isinstance(record, dict)]
        if len(records) != len(value):
            continue
        keys = list(dict.fromkeys(key for record in records for key in record))
        columns = [Column(words.fact(key, 0)[0]) for key in keys]
        rows = [_record(record, keys) for record in records[:MAX_ROWS]]
        more = f" (first {MAX_ROWS} of {len(records)})" if len(records) > MAX_ROWS else ""
        title = words.fact(name, "")[0] + more
        yield Table(title, columns, rows, fold=title if len(rows) > 30 else "")


def _record(record: Mapping[str, object], keys: Sequence[str]) -> list[Cell]:
    return [Cell(words.fact(key, record[key])[1] if key in record else words.NONE) for key in keys]


def _figures(run: StoredRun, stage: StageResult) -> Iterator[Plot | None]:
    if stage.steady:
        return  # drawn where steady state is judged
    if stage.kind == "precondition":
        yield _fill(run, stage)
        return
    for number, figure in enumerate(stage.figures):
        name = f"figure-{stage.name}-{number}"
        if figure.get("kind") in ("scatter", "series") and "csv" in figure:
            yield _stored(run, figure, name)


def _fill(run: StoredRun, stage: StageResult) -> Plot | None:
    seconds = stretch.stage_seconds(run, stage)
    if seconds is None or len(seconds.t_s) < 2:
        return None
    size = max(run.result.target.size_bytes, 1)
    fills = np.cumsum(seconds.write_bytes) / size
    rate = seconds.rate("B/s")
    low, last = float(rate.min()), float(np.median(rate[-max(len(rate) // 20, 1) :]))
    whole = [float(n) for n in range(1, int(fills[-1] * 1.0001) + 1)]
    return Plot(
        name=f"fill-{stage.name}",
        title="Throughput while filling",
        caption=f"Over {fills[-1]:.2f} drive fills; each bin from its slowest to its fastest "
        f"second. Slowest second {format_rate(low)}, towards the end {format_rate(last)}.",
        alt=f"Write throughput over {fills[-1]:.2f} drive fills, at the end {format_rate(last)}.",
        figure=SeriesFigure(
            trace=thinned(fills, rate / 1e6),
            x_label="drive fills written",
            y_label="MB/s",
            marks=tuple((n, f"fill {n:.0f}") for n in whole if n < fills[-1] * 0.995),
        ),
    )


def _stored(run: StoredRun, figure: Mapping[str, str], name: str) -> Plot | None:
    """A figure from a CSV that a stage named; x and y are its first columns unless named too."""
    table = run.table(figure["csv"])
    if table is None or len(table) < 2:
        return None
    columns = list(table)
    x_name, y_name = figure.get("x", columns[0]), figure.get("y", columns[1])
    if x_name not in table or y_name not in table:
        run.missing.append(f"{figure['csv']} (has no column {x_name} or {y_name})")
        return None
    x, y = table[x_name], table[y_name]
    sound = np.isfinite(x) & np.isfinite(y)
    if sound.sum() < 2:
        return None
    raised = table.get(figure.get("peaks", ""))
    peaks = np.zeros(len(x), dtype=np.bool_) if raised is None else raised > 0
    x, y, peaks = x[sound], y[sound], peaks[sound]
    title = figure.get("title", name)
    x_axis, x_scale = _axis(x_name)
    y_axis, _ = _axis(y_name)
    if figure["kind"] == "series":
        trace = thinned(x / x_scale, y)
        drawn: ScatterFigure | SeriesFigure = SeriesFigure(trace, x_axis, y_axis)
    else:
        kept = _kept(peaks)
        drawn = ScatterFigure(
            x[kept] / x_scale, y[kept], peaks[kept], x_axis, y_axis, latency=y_name.endswith("_ns")
        )
    caption = figure.get("caption", "")
    if peaks.any():
        distance = _distance(x[peaks], x_name)
        caption = f"{caption} {peaks.sum():,} writes stand out{distance}.".strip()
    return Plot(name, title, caption, f"{title}. {len(x):,} measurements. {caption}", drawn)


def _kept(
    peaks: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]",
) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """All peaks, and every n-th of the rest, so that a page stays small."""
    step = max(1, -(-len(peaks) // MAX_DOTS))
    kept = peaks.copy()
    kept[::step] = True
    return kept


def _distance(places: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", name: str) -> str:
    if len(places) < 2:
        return ""
    usual = float(np.median(np.diff(np.sort(places))))
    return f", usually {words.fact(name, int(usual))[1]} apart"


def _axis(name: str) -> tuple[str, float]:
    title = words.fact(name, "")[0].lower()
    if name == "mb_per_s":
        return "MB/s", 1.0
    if name == "stride_bytes":
        return "stride [KiB]", float(1 << 10)
    if name.endswith("_bytes"):
        return f"{title.removesuffix(' bytes')} [MiB]", float(1 << 20)
    if name.endswith("_ns"):
        return title.removesuffix(" ns"), 1.0
    return title, 1.0
