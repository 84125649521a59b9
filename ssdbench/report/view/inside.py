"""Show the inner structure of a drive: the results of probes and of the search for block sizes."""

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
from ssdbench.units import format_capacity, format_ns, format_size

CANNOT_TELL = "cannot tell"
Format = Callable[[float], str]


def _size(value: float) -> str:
    return format_size(int(value))


# By name of the probe: its name on the page, the field of its main number, how to format this
# number, and its unit.
PROBES: dict[str, tuple[str, str, Format, str]] = {
    "slc-cache": ("SLC cache", "cache_bytes", lambda v: format_capacity(int(v)), "SLC cache"),
    "read-chunk": ("Read chunk", "chunk_bytes", _size, "read chunk"),
    "stripe": ("Stripe", "stripe_bytes", _size, "stripe"),
    "parallelism": ("Parallelism", "reads_at_once", lambda v: f"{v:.1f}", "reads at once"),
    "write-buffer": ("Write buffer", "buffer_bytes", _size, "write buffer"),
    "flush": ("Flushes", "flush_waits_for", str, "(a flush waits for this)"),
    "remap-unit": ("Remap unit", "remap_unit_bytes", _size, "remap unit"),
    "mapping": (
        "Mapping",
        "scattered_over_ordered",
        lambda v: f"{v:.2f}",
        "times the read rate of data that were written in order",
    ),
    "spare": (
        "Over-provisioning",
        "over_provisioning",
        lambda v: f"{100 * v:.1f} %",
        "over-provisioning",
    ),
    "trim": ("TRIM", "trim_effect", str, "after a TRIM"),
    "wake": (
        "Waking",
        "wake_us",
        lambda v: format_ns(1000 * v),
        "longer for a read after idle time",
    ),
}


def of_inside(result: RunResult, found: Sequence[BlockSizeFound | ProbeFound]) -> Headline:
    """Return the headline of probes: the number of a single probe, or how many found an answer."""
    first = found[0]
    probes = [one for one in found if isinstance(one, ProbeFound)]
    told = [
        (PROBES[one.probe][0] if one.probe in PROBES else one.probe, one.answer) for one in probes
    ]
    number, unit = _first(found)
    return Headline(
        label="Inside the drive" + (" (simulated)" if result.target.modelled else ""),
        number=number,
        unit=unit,
        holds_for="",
        meaning=words.sentence(first.answer) if isinstance(first, BlockSizeFound) else "",
        evidence=(*(_of_block(first) if isinstance(first, BlockSizeFound) else []), *told),
        tone="note",
    )


def _first(found: Sequence[BlockSizeFound | ProbeFound]) -> tuple[str, str]:
    first = found[0]
    if isinstance(first, BlockSizeFound):
        size = first.block_bytes
        if size is not None:
            return format_size(size), "or less (block)" if first.at_most else "block"
        if first.write_bytes and first.write_bytes == first.remap_unit_bytes:
            return format_size(first.write_bytes), "smallest write that wastes nothing"
        return first.answer.partition(":")[0], ""
    if len(found) > 1:
        told = sum(not one.answer.startswith(CANNOT_TELL) for one in found)
        return f"{told} of {len(found)}", "answered"
    _, key, reads, of_what = PROBES.get(first.probe, ("", "", str, ""))
    value = getattr(first.numbers, key, None)
    if isinstance(value, str):
        return value, of_what
    if value is not None:
        return reads(value), f"or less ({of_what})" if first.numbers.at_most else of_what
    return first.answer.partition(":")[0], ""


def _of_block(found: BlockSizeFound) -> list[tuple[str, str]]:
    rows = []
    if found.confidence is not None:
        text = f"such an answer was right for {100 * found.confidence:.1f} % of test drives"
        rows.append(("Confidence", text))
    if found.block_bytes is not None:
        rows.append(("Evidence", f"p ≤ {found.p_value}, {found.evidence}"))
    if found.buffer:
        rows.append(("Buffer", found.buffer))
    return rows


def probe_blocks(run: StoredRun, stage: StageResult, found: ProbeFound) -> Iterator[Block]:
    """Yield the measurements of a probe, followed by the probe's answer."""
    if found.measured:
        yield record_table("measured", found.measured)
    said = {"probe": found.probe, "answer": found.answer, **found.numbers.known()}
    yield words.facts("In numbers", said.items())


MOST_STRIDES = 2  # strides with a figure; the CSV of every stride is stored in the run
MAX_DOTS = 6000  # most dots in one figure; peaks are always drawn
LEAD = (
    "The drive is written at a fixed stride. If the latency rises at regular distances, the drive "
    "starts a new block there, or empties a buffer. Without a block, writes that are not aligned "
    "show the mapping unit."
)
_FACTS = (
    "answer", "write_bytes", "block_bytes", "phase_bytes", "p_value", "confidence",
    "strides_agreeing", "buffer", "median_latency_ns", "evidence", "asked",
)  # fmt: skip
_TITLES = {  # by field: its name on the page, if it is another one
    "write_bytes": "write_at_least_bytes",
    "phase_bytes": "offset_of_the_first_boundary_bytes",
    "strides_agreeing": "strides_that_agree",
    "evidence": "requests_that_gave_the_answer",
    "asked": "requests_that_were_tried",
}
_WITHOUT_EVIDENCE = ("answer", "block_bytes")
_TABLES = {  # by field: the caption of its table
    "parts": "Each part of the answer",
    "searched": "Range of block sizes that was searched",
    "candidates": "Candidates for the block size",
    "strides": "How clearly each stride shows peaks",
    "smallest_effects": "Smallest slowdown of a block that the search would have found",
}

_FORMS = (
    "Form aligned: the same boundaries explain the peaks at all strides. Form delayed: each stride "
    "may have its own place for the boundaries, because behind a full buffer the peaks come late."
)


def block_size_blocks(run: StoredRun, stage: StageResult, found: BlockSizeFound) -> Iterator[Block]:
    """Yield the block size that was found, followed by its evidence."""
    yield Prose(LEAD)
    if found.answer:
        names = _FACTS if found.evidence else _WITHOUT_EVIDENCE
        told = found.model_copy(update={"buffer": buffer(run.result, found)})
        yield Facts("The answer", list(_answered(told, names)))
    stored = found.model_dump(include=set(_TABLES))
    for name, title in _TABLES.items():
        yield from record_tables({title: stored[name]})
        if name == "candidates" and stored[name]:
            yield Prose(_FORMS)
    drawn = [
        _stored(run, figure, f"figure-{stage.name}-{number}")
        for number, figure in enumerate(_best_figures(found))
    ]
    if plots := [plot for plot in drawn if plot is not None]:
        yield Plots(plots, wide=True)


def _answered(found: BlockSizeFound, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if (value := getattr(found, name)) is not None:
            title, said = words.fact(_TITLES.get(name, name), value)
            yield title, f"{said} or less" if name == "block_bytes" and found.at_most else said


def buffer(result: RunResult, found: BlockSizeFound) -> str:
    """Return what the search found about the buffer, compared with the known buffer size."""
    known, seen = buffer_bytes(result.target, result.stages), found.buffer_bytes
    if not known or seen == known:
        return found.buffer
    size = format_size(known)
    if seen is None:
        return f"{found.buffer}; other measurements or the model give a buffer of {size}"
    return (
        f"not the write buffer, which is {size}: latency rises after every {format_size(seen)}, "
        "for example at the end of a stripe or of a part of the buffer"
    )


def _best_figures(found: BlockSizeFound) -> list[StoredFigure]:
    """Return the plots of those strides in which a block boundary is clearest."""
    scatters = [figure for figure in found.figures if figure.kind != "series"]
    others = [figure for figure in found.figures if figure.kind == "series"]
    if found.block_bytes is None:
        return others[:1]
    return [*scatters[:MOST_STRIDES], *others[:1]]


def _stored(run: StoredRun, figure: StoredFigure, name: str) -> Plot | None:
    """Return a plot of a stored CSV; by default, its first two columns are x and y."""
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
        kept = peaks.copy()  # besides peaks only every n-th value, to keep the page small
        kept[:: -(-len(peaks) // MAX_DOTS)] = True
        drawn = ScatterFigure(
            x[kept] / x_scale, y[kept], peaks[kept], x_axis, y_axis, latency=y_name.endswith("_ns")
        )
    caption = figure.caption
    if peaks.any():
        distance = _distance(x[peaks], x_name)
        caption = f"{caption} {peaks.sum():,} writes have peaks of latency{distance}.".strip()
    return Plot(name, title, caption, f"{title}. {len(x):,} measurements. {caption}", drawn)


def _distance(places: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", name: str) -> str:
    if len(places) < 2:
        return ""
    usual = float(np.median(np.diff(np.sort(places))))
    return f"; the usual distance is {words.fact(name, int(usual))[1]}"


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
