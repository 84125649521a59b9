"""The inner structure of a drive on the page: answers of probes and of the block size search."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ssdbench.model.inside import BlockSizeFound, ProbeFound, StoredFigure
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figure import thinned
from ssdbench.report.plots.points import ScatterFigure
from ssdbench.report.plots.series import SeriesFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Facts, Headline, Plot, Plots, Prose
from ssdbench.report.view.words import record_table, record_tables
from ssdbench.stats.inside.writecache import buffer_bytes
from ssdbench.units import format_capacity, format_size

CANNOT_TELL = "cannot tell"
Shown = tuple[str, Callable[[float], str], str]  # name of the number, how it reads, of what

PROBE_NUMBERS: dict[str, Shown] = {
    "slc-cache": ("cache_bytes", lambda v: format_capacity(int(v)), "SLC cache"),
    "read-chunk": ("chunk_bytes", lambda v: format_size(int(v)), "read chunk"),
    "stripe": ("stripe_bytes", lambda v: format_size(int(v)), "stripe"),
    "parallelism": ("reads_at_once", lambda v: f"{v:.1f}", "reads at once"),
    "write-buffer": ("buffer_bytes", lambda v: format_size(int(v)), "write buffer"),
    "remap-unit": ("remap_unit_bytes", lambda v: format_size(int(v)), "remap unit"),
    "spare": ("over_provisioning", lambda v: f"{100 * v:.1f} %", "over-provisioning"),
    "flush": ("flush_waits_for", str, "is what a flush waits for"),
    "mapping": (
        "scattered_over_ordered",
        lambda v: f"{v:.2f}",
        "times the rate, scattered",
    ),
    "trim": ("trim_effect", str, "after a TRIM"),
}
PROBE_NAMES = {
    "slc-cache": "SLC cache",
    "read-chunk": "Read chunk",
    "stripe": "Stripe",
    "parallelism": "Parallelism",
    "write-buffer": "Write buffer",
    "flush": "Flushes",
    "remap-unit": "Remap unit",
    "mapping": "Mapping",
    "spare": "Over-provisioning",
    "trim": "TRIM",
}


def of_inside(result: RunResult, found: Sequence[BlockSizeFound | ProbeFound]) -> Headline:
    """Return the headline of a run of probes: the answer of one, or how many were answered."""
    first = found[0]
    probes = [one for one in found if isinstance(one, ProbeFound)]
    told = [(PROBE_NAMES.get(one.probe, one.probe), one.answer) for one in probes]
    number, unit = _first(found)
    return Headline(
        label="Inside the drive" + (" (simulated)" if result.target.simulated else ""),
        number=number,
        unit=unit,
        holds_for="",
        meaning="This run looked into the drive; it measured no rate that one could plan on.",
        evidence=(*(_of_block(first) if isinstance(first, BlockSizeFound) else []), *told),
        tone="note",
    )


def _first(found: Sequence[BlockSizeFound | ProbeFound]) -> tuple[str, str]:
    first = found[0]
    if isinstance(first, BlockSizeFound):
        size = first.block_bytes
        if size is None:
            return first.answer, ""
        return format_size(size), "or less, block" if first.at_most else "block"
    if len(found) > 1:
        told = sum(not one.answer.startswith(CANNOT_TELL) for one in found)
        return f"{told} of {len(found)}", "answered"
    key, reads, of_what = PROBE_NUMBERS.get(first.probe, ("", str, ""))
    value = getattr(first.numbers, key, None)
    if isinstance(value, str):
        return value, of_what
    if value is not None:
        return reads(value), f"or less, {of_what}" if first.numbers.at_most else of_what
    return first.answer.partition(":")[0], ""


def _of_block(found: BlockSizeFound) -> list[tuple[str, str]]:
    """Return the evidence of a block size."""
    rows = []
    if found.block_bytes is not None:
        if found.confidence is not None:
            text = f"such an answer is right on {100 * found.confidence:.1f} % of hidden drives"
            rows.append(("Confidence", text))
        rows.append(("Evidence", f"p ≤ {found.p_value}, {found.evidence}"))
    if found.buffer:
        rows.append(("Buffer", found.buffer))
    return rows


def probe_blocks(run: StoredRun, stage: StageResult, found: ProbeFound) -> Iterator[Block]:
    """Yield what a probe measured, then its answer."""
    if found.measured:
        yield record_table("measured", found.measured)
    said = {"probe": found.probe, "answer": found.answer, **found.numbers.known()}
    yield Facts("In numbers", [words.fact(name, value) for name, value in said.items()])


MOST_STRIDES = 2  # with a figure each; the CSV of each stride is among the files
MAX_DOTS = 6000  # of a scatter; peaks are always kept
LEAD = (
    "Writes at a fixed stride; where their latency jumps regularly, the drive begins a new block, "
    "or empties a buffer."
)
_FACTS = (
    "answer", "block_bytes", "phase_bytes", "p_value", "confidence", "strides_agreeing",
    "buffer", "median_latency_ns", "evidence", "asked",
)  # fmt: skip
_WITHOUT_EVIDENCE = ("answer", "block_bytes")
_TABLES = ("searched", "candidates", "strides", "smallest_effects")


def block_size_blocks(run: StoredRun, stage: StageResult, found: BlockSizeFound) -> Iterator[Block]:
    """Yield the block size found, then its evidence."""
    yield Prose(LEAD)
    if found.answer:
        names = _FACTS if found.evidence else _WITHOUT_EVIDENCE
        told = found.model_copy(update={"buffer": buffer(run.result, found)})
        yield Facts("The answer", list(_answered(told, names)))
    yield from record_tables(found.model_dump(include=set(_TABLES)))
    drawn = [
        _stored(run, figure, f"figure-{stage.name}-{number}")
        for number, figure in enumerate(_best_figures(found))
    ]
    if plots := [plot for plot in drawn if plot is not None]:
        yield Plots(plots, wide=True)


def _answered(found: BlockSizeFound, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if (value := getattr(found, name)) is not None:
            title, said = words.fact(name, value)
            yield title, f"{said} or less" if name == "block_bytes" and found.at_most else said


def buffer(result: RunResult, found: BlockSizeFound) -> str:
    """Return what the search says of the buffer, compared with the buffer that is known."""
    known, seen = buffer_bytes(result.target, result.stages), found.buffer_bytes
    if not known or seen == known:
        return found.buffer
    size = format_size(known)
    if seen is None:
        return f"{found.buffer}; the drive's is {size}, as is known otherwise"
    return (
        f"not the write buffer, which is {size}: writes peak after every {format_size(seen)}, as "
        "at the end of a stripe or of a part of the buffer"
    )


def _best_figures(found: BlockSizeFound) -> list[StoredFigure]:
    """Return the figures of the strides that show a boundary best; none where none was found."""
    scatters = [figure for figure in found.figures if figure.kind != "series"]
    others = [figure for figure in found.figures if figure.kind == "series"]
    if found.block_bytes is None:
        return others[:1]
    return [*scatters[:MOST_STRIDES], *others[:1]]


def _stored(run: StoredRun, figure: StoredFigure, name: str) -> Plot | None:
    """Return a figure of a CSV that a stage names; x and y are its first columns by default."""
    table = run.table(figure.csv)
    if table is None or len(table) < 2:
        return None
    columns = list(table)
    x_name, y_name = figure.x or columns[0], figure.y or columns[1]
    if x_name not in table or y_name not in table:
        run.missing.append(f"{figure.csv} (has no column {x_name} or {y_name})")
        return None
    x, y = table[x_name], table[y_name]
    sound = np.isfinite(x) & np.isfinite(y)
    if sound.sum() < 2:
        return None
    raised = table.get(figure.peaks)
    peaks = np.zeros(len(x), dtype=np.bool_) if raised is None else raised > 0
    x, y, peaks = x[sound], y[sound], peaks[sound]
    title = figure.title or name
    x_axis, x_scale = _axis(x_name)
    y_axis, _ = _axis(y_name)
    if figure.kind == "series":
        trace = thinned(x / x_scale, y)
        drawn: ScatterFigure | SeriesFigure = SeriesFigure(trace, x_axis, y_axis)
    else:
        kept = _drawn_dots(peaks)
        drawn = ScatterFigure(
            x[kept] / x_scale, y[kept], peaks[kept], x_axis, y_axis, latency=y_name.endswith("_ns")
        )
    caption = figure.caption
    if peaks.any():
        distance = _distance(x[peaks], x_name)
        caption = f"{caption} {peaks.sum():,} writes stand out{distance}.".strip()
    return Plot(name, title, caption, f"{title}. {len(x):,} measurements. {caption}", drawn)


def _drawn_dots(
    peaks: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]",
) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
    """Select all peaks and every n-th other value, so that a page stays small."""
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
