"""One section per stage: what it did, what it measured, what it drew."""

from collections.abc import Iterator, Mapping
from typing import assert_never

import numpy as np

from ssdbench.model.found import FillDone, Points, PurgeDone, Untyped, WarmUp
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.rates import RateFound
from ssdbench.model.result import StageResult
from ssdbench.report.figures import ScatterFigure, SeriesFigure, thinned
from ssdbench.report.read import StoredRun
from ssdbench.report.view import (
    filesystems,
    fill,
    medians,
    pointstage,
    pts,
    purge,
    rates,
    trials,
    words,
)
from ssdbench.report.view.page import Block, Facts, Plot, Plots, Prose, Section
from ssdbench.report.view.records import tables
from ssdbench.units import format_capacity, format_duration

MAX_DOTS = 6000  # of a scatter; peaks are always kept

_TOLD = {*pts.TOLD, medians.RECORDS}  # lists that have tables of their own

LEADS = {
    StageKind.PTS: "PTS-style: means over five rounds that look alike, in the order of the "
    "standard. No bounds, and no numbers to plan on. What was not checked against the standard's "
    "text is in docs/pts.md.",
    StageKind.BLOCKSIZE: "Writes at a fixed stride; where their latency jumps regularly, the drive "
    "begins a new block, or empties a buffer.",
}


def sections(run: StoredRun) -> Iterator[Section]:
    """All stages but warm-ups that were judged, whose whole content has a section of its own."""
    for stage in sorted(run.result.stages, key=lambda s: KINDS[s.kind].page_order):
        if stage.verdict is None:
            yield Section(f"stage-{stage.name}", stage.title, list(_blocks(run, stage)))


def _blocks(run: StoredRun, stage: StageResult) -> Iterator[Block]:
    if not stage.complete:
        yield Prose("This stage was not finished; what it measured until then is kept.", tone="bad")
    match stage.found:
        case PurgeDone() as found:
            yield from purge.blocks(found)
        case FillDone() as found:
            yield from fill.blocks(run, stage, found)
        case WarmUp():
            pass  # the section on steady state has it
        case Points() as found:
            yield from pointstage.blocks(run, stage, found)
        case RateFound() as found:
            yield from rates.blocks(stage, found)
        case Untyped():
            yield from _untyped(run, stage)
        case never:  # mypy refuses a kind that was left out above
            assert_never(never)
    yield cost(stage)


def _untyped(run: StoredRun, stage: StageResult) -> Iterator[Block]:
    if stage.kind in LEADS:
        yield Prose(LEADS[stage.kind])
    if stage.kind is StageKind.BLOCKSIZE and stage.summary:
        yield _summary(stage)
    yield from filesystems.figure(stage, run.result.stages)
    yield from trials.figure(stage)
    if stage.kind is StageKind.PTS:
        yield from pts.blocks(run.result, stage)
    yield from medians.table(stage)
    yield from tables({n: v for n, v in stage.data.items() if n not in _TOLD})
    drawn = [plot for plot in _figures(run, stage) if plot is not None]
    if drawn:
        yield Plots(drawn, wide=True)
    if stage.kind is not StageKind.BLOCKSIZE and stage.summary:
        yield _summary(stage)


def _summary(stage: StageResult) -> Facts:
    caption = "The answer" if stage.kind is StageKind.BLOCKSIZE else "In numbers"
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


def _figures(run: StoredRun, stage: StageResult) -> Iterator[Plot | None]:
    for number, figure in enumerate(stage.figures):
        name = f"figure-{stage.name}-{number}"
        if figure.get("kind") in ("scatter", "series") and "csv" in figure:
            yield _stored(run, figure, name)


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
