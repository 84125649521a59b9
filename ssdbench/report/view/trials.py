"""Show comparisons of host settings and of file systems: plots, and tables of medians."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ssdbench.model.found import Comparison, FileSystemComparison, Median, ThreadsMedian
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult
from ssdbench.report.plots.points import Dots, DotsFigure, Line, LinesFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Column, ColumnOf, Plot, Plots, Table, table_of
from ssdbench.units import format_count

LEAD = (
    "The same short workloads, run with one host setting after another. Shown are medians; the "
    "table also has the lowest and the highest rate of all repeats. Use them to compare settings, "
    "not to plan."
)
PATH_LEAD = (
    "Median time of a request in each layer. Queue: until it gets a tag. Plug: held back to be "
    "sent together with others. Device: until its interrupt, or until it completes if the device "
    "has no interrupt of its own. The medians of the layers do not add up to the median of the "
    "whole time. Tracing itself costs time, so compare these rates only with each other."
)
LAYERS = ("queue_ns", "plug_ns", "scheduler_ns", "driver_ns", "device_ns", "completion_ns")
APPLICATIONS_LEAD = (
    "Bytes that each program read and wrote, as the program itself reports, and the bytes of fio "
    "with the same mix of requests. Programs use the page cache, so the drive saw other amounts: "
    "cells.csv has those, and the operations per second of each program. Medians; use them to "
    "compare settings, not to plan."
)


class Figure(NamedTuple):
    """One measured quantity whose medians are shown in a plot."""

    quantity: str  # field of a median that is plotted
    title: str
    axis: str
    caption: str = ""
    is_ranged: bool = False  # also draw the lowest and highest rate


@dataclass(frozen=True, slots=True)
class Shown:
    """How one kind of comparison is drawn."""

    more: tuple[Figure, ...] = ()  # figures in addition to the one of IOPS
    in_order: bool = False  # the variants have an order, so draw lines, not rows of dots
    drawn: Callable[[StageResult, Sequence[Median]], Iterator[Block]] | None = None  # special


_IN_FLIGHT = Figure("in_flight", "Requests in the drive's queue", "requests in flight")
_PER_CORE = Figure("iops_per_core", "I/Os per CPU second of the whole host", "IOPS per core")
_PER_WATT = Figure("iops_per_watt", "I/Os per joule of the CPUs", "IOPS per watt")
_LATENCY = Figure("lat_p50_ns", "Median latency", "latency")


def blocks(run: StoredRun, stage: StageResult, found: Comparison) -> Iterator[Block]:
    """Yield the plots and the table of a comparison."""
    found = found.model_copy(update={"medians": tuple(m.spoken() for m in found.medians)})
    yield from figures(stage, found)
    yield from median_table(found.medians)
    facts: list[tuple[str, object]] = [
        ("starts", sum(median.repeats for median in found.medians)),
        ("repeats", found.repeats),
    ]
    if found.file_system:
        facts.append(("file_system", found.file_system))
    if found.programs:
        facts.append(("programs", found.programs))
    facts += [(f"note {number}", note) for number, note in enumerate(found.notes, start=1)]
    yield words.facts("In numbers", facts)


def figures(stage: StageResult, found: Comparison) -> Iterator[Block]:
    """Yield the plots of a comparison; nothing if only one variant was measured."""
    shown = SHOWN[found.kind]
    if shown.drawn is not None:
        yield from shown.drawn(stage, found.medians)
        return
    if len(found.medians) < 2:
        return
    draw = _lines if shown.in_order else _rows
    iops = Figure("iops", stage.title, "IOPS", LEAD, is_ranged=True)
    known = (f for f in shown.more if all(_value(m, f.quantity) for m in found.medians))
    plots = [draw(stage, found.medians, figure) for figure in (iops, *known)]
    yield Plots(plots, wide=not shown.in_order)


def _surface(stage: StageResult, found: Sequence[Median]) -> Iterator[Block]:
    """Yield a plot of throughput over record size per direction; a line is a file size."""
    if len(found) < 2:
        return
    plots = []
    directions = dict.fromkeys(median.workload.rpartition(", ")[0] for median in found)
    for direction in sorted(directions, key=lambda name: (name.endswith("write"), name)):
        own = [
            m.model_copy(update={"workload": f"{m.workload.rpartition(', ')[2]} file"})
            for m in found
            if m.workload.startswith(f"{direction}, ")
        ]
        title = f"{direction.capitalize()} over record size"
        plot = _lines(stage, own, Figure("bw_bytes_per_s", title, "MB/s"))
        name = f"trial-{stage.name}-rate-{direction.replace(' ', '-')}"
        plots.append(replace(plot, name=name))
    yield Plots(plots)


def _applications(stage: StageResult, found: Sequence[Median]) -> Iterator[Block]:
    """Yield a row for each program and scheduler: results of the program, then of fio."""
    if len(found) < 2:
        return
    values: dict[str, list[tuple[str, float]]] = {}
    for median in found:
        program, beside, _ = median.workload.partition(", ")
        what = "fio with the same mix" if beside else "the program"
        values.setdefault(f"{program}, {median.variant}", []).append(
            (what, median.bw_bytes_per_s / 1e6)
        )
    rows = tuple(Dots(label=label, values=tuple(own)) for label, own in values.items())
    drawn = DotsFigure(rows, x_label="MB/s", latency=False)
    alt = _alt(rows, "MB/s", 1)
    plot = Plot(f"trial-{stage.name}-programs", stage.title, APPLICATIONS_LEAD, alt, drawn)
    yield Plots([plot], wide=True)


def _path(stage: StageResult, found: Sequence[Median]) -> Iterator[Block]:
    """Yield a row for each workload and scheduler: the time that a request spends in each layer."""
    rows = tuple(
        Dots(
            label=f"{median.workload}, {median.variant}",
            values=tuple(
                (layer.removesuffix("_ns"), median.more[layer])
                for layer in LAYERS
                if layer in median.more
            ),
        )
        for median in found
        if "device_ns" in median.more
    )
    if rows:
        drawn = DotsFigure(rows)
        plot = Plot(f"path-{stage.name}", stage.title, PATH_LEAD, _alt(rows, "ns", 0), drawn)
        yield Plots([plot], wide=True)


def _alt(rows: Sequence[Dots], unit: str, digits: int) -> str:
    return "; ".join(
        f"{row.label}: "
        + ", ".join(f"{name} {value:.{digits}f} {unit}" for name, value in row.values)
        for row in rows
    )


def _rows(stage: StageResult, found: Sequence[Median], figure: Figure) -> Plot:
    """Return a plot with a row of dots for each variant."""
    variants = dict.fromkeys(median.variant for median in found)
    rows = tuple(
        Dots(
            label=variant,
            values=tuple((m.workload, _height(m, figure)) for m in found if m.variant == variant),
        )
        for variant in variants
    )
    drawn = DotsFigure(rows, x_label=figure.axis, latency=figure.axis == "latency")
    alt = f"{figure.axis} under {', '.join(variants)}."
    return Plot(f"trial-{stage.name}-{figure.quantity}", figure.title, figure.caption, alt, drawn)


def _lines(stage: StageResult, found: Sequence[Median], figure: Figure) -> Plot:
    """Return a plot with a line for each workload; the variants are the values of the x axis."""
    variants = list(dict.fromkeys(median.variant for median in found))
    place = {variant: float(n) for n, variant in enumerate(variants)}
    drawn = LinesFigure(
        lines=tuple(
            _line(
                workload,
                [
                    (place[m.variant], _height(m, figure), m)
                    for m in found
                    if m.workload == workload
                ],
                is_ranged=figure.is_ranged,
            )
            for workload in dict.fromkeys(median.workload for median in found)
        ),
        x_label="",
        y_label=figure.axis,
        ticks=tuple((place[variant], variant) for variant in variants),
        latency=figure.axis == "latency",
    )
    alt = f"{figure.axis} of {len(drawn.lines)} workloads under {', '.join(variants)}."
    return Plot(f"trial-{stage.name}-{figure.quantity}", figure.title, figure.caption, alt, drawn)


def _height(median: Median, figure: Figure) -> float:
    """Return the position of a median on the y axis of a plot of `figure`."""
    value = float(_value(median, figure.quantity) or 0.0)
    return value / 1e6 if figure.axis == "MB/s" else value


def _line(
    label: str, values: Sequence[tuple[float, float, Median]], *, is_ranged: bool = True
) -> Line:
    """Return a line through medians; `values` gives the x of each median, and the median."""
    xs, ys, medians = zip(*sorted(values, key=lambda one: one[0]), strict=True)
    if not is_ranged:
        return Line(label, xs, ys)
    low, high = zip(*((m.iops_least, m.iops_most) for m in medians), strict=True)
    return Line(label, xs, ys, low, high)


SHOWN: Mapping[StageKind, Shown] = {
    StageKind.SCHEDULERS: Shown(),
    StageKind.QUEUE: Shown((_IN_FLIGHT,)),
    StageKind.ENGINES: Shown((_LATENCY,)),
    StageKind.DEPTH: Shown((_IN_FLIGHT,), in_order=True),
    StageKind.INTERRUPTS: Shown((_PER_CORE,)),
    StageKind.LATENCY_PATH: Shown(drawn=_path),
    StageKind.CPU_COST: Shown((_PER_CORE, _PER_WATT)),
    StageKind.SURFACE: Shown(drawn=_surface),
    StageKind.FILE_WRITERS: Shown(in_order=True),
    StageKind.FILE_MIX: Shown(in_order=True),
    StageKind.APPLICATIONS: Shown(drawn=_applications),
}


FOLDED = 30  # tables with more rows are folded


class MedianColumn(NamedTuple):
    """One column of the table of medians; without a title, the quantity's name is the title."""

    quantity: str  # field of a median, or a name in its field `more`
    title: str = ""
    hint: str = ""


_RATES = (MedianColumn("bw_bytes_per_s", "Throughput"), MedianColumn("lat_p50_ns", "p50"))
# `host_cpu_us_per_io` is left out, because it is the inverse of IOPS per core; cells.csv has it.
_COSTS = (
    MedianColumn("lat_p99_ns", "p99"),
    MedianColumn("cpu_us_per_io", "fio, us per I/O", "CPU time of fio itself"),
    MedianColumn("iops_per_core", "IOPS per core", "CPU time of the host without other programs"),
    MedianColumn("iops_per_watt", "I/Os per joule"),
    MedianColumn("merges_per_io", "Merges per I/O"),
    MedianColumn("interrupts_per_io", "IRQs per I/O"),
    MedianColumn("in_flight", "In flight", "mean number of requests in the drive's queue"),
)
BY_THREADS = tuple(map(MedianColumn, ("file_system", "state", "threads", "direction")))


def median_table(medians: Sequence[Median], more: Sequence[MedianColumn] = ()) -> Iterator[Table]:
    """Yield a table with a row for each workload and variant; no table if there are no medians."""
    if not medians:
        return
    starts = {median.repeats for median in medians}
    before = [MedianColumn("workload"), MedianColumn("variant")]
    before += [MedianColumn("repeats", "Starts")] if len(starts) > 1 else []
    own = [MedianColumn(name) for name in dict.fromkeys(n for m in medians for n in m.more)]
    after = [
        c for c in (*_RATES, *own, *_COSTS) if any(_value(m, c[0]) is not None for m in medians)
    ]
    columns = [_column(column, medians) for column in (*before, MedianColumn("iops"))]
    if starts != {1}:
        columns.append((Column("Least – most", number=True), _range))
    columns += [_column(column, medians) for column in (*after, *more)]
    if any(median.disturbed for median in medians):
        disturbed = Column("Disturbed", number=True)
        columns.append((disturbed, lambda m: f"{m.disturbed} of {m.repeats}"))
    ranged = "" if starts == {1} else ", with the least and the most rate"
    caption = _caption(starts) + ranged
    fold = caption if len(medians) > FOLDED else ""
    yield table_of(caption, medians, columns, fold=fold)


def _caption(starts: set[int]) -> str:
    if starts == {1}:
        return "One measurement each"
    return f"Medians of {next(iter(starts))} measurements" if len(starts) == 1 else "Medians"


def _value(median: Median, quantity: str) -> float | str | None:
    value: float | str | None = getattr(median, quantity, median.more.get(quantity))
    return value


def _column(column: MedianColumn, medians: Sequence[Median]) -> ColumnOf[Median]:
    quantity, title, hint = column
    number = not any(isinstance(_value(median, quantity), str) for median in medians)

    def show(median: Median) -> str:
        value = _value(median, quantity)
        return words.NONE if value is None else words.fact(quantity, value)[1]

    return Column(title or words.fact(quantity, 0)[0], number, hint), show


def _range(median: Median) -> str:
    return f"{format_count(median.iops_least)} – {format_count(median.iops_most)}"


MAX_LINES = 6
FILE_SYSTEMS_LEAD = (
    "Random I/O of 4 KiB in one file. The drive was filled again before each file system was made, "
    "and nothing was discarded. Aged: the free space was filled with small files, and every second "
    "file was deleted. Medians; use them to compare file systems."
)


def file_system_blocks(
    run: StoredRun, stage: StageResult, found: FileSystemComparison
) -> Iterator[Block]:
    """Yield the table of one file system; after the last file system, also the plots of all."""
    tried = run.result.having(FileSystemComparison)
    if stage is tried[-1][0]:
        yield from file_system_figures(
            stage, [median for _, one in tried for median in one.medians]
        )
    yield from median_table(found.medians, BY_THREADS)
    facts = [("file_system", found.file_system), ("made_with", found.made_with)]
    facts.append(("measured", found.measured))
    facts += [(f"note_{number}", note) for number, note in enumerate(found.notes, start=1)]
    yield words.facts("In numbers", facts)


def file_system_figures(stage: StageResult, medians: Sequence[ThreadsMedian]) -> Iterator[Block]:
    """Yield a plot for each state of the file system and each direction."""
    plots = []
    for state in dict.fromkeys(median.state for median in medians):
        for direction in ("read", "write"):
            own = [m for m in medians if (m.state, m.direction) == (state, direction)]
            plots += list(_thread_plots(stage, own, f"{direction}, {state}"))
    if plots:
        yield Plots(plots)


def _thread_plots(
    stage: StageResult, medians: Sequence[ThreadsMedian], what: str
) -> Iterator[Plot]:
    """Yield plots with at most MAX_LINES lines each, so that a reader can distinguish the lines."""
    threads = sorted({median.threads for median in medians})
    every = tuple(
        _line(system, [(float(m.threads), m.iops, m) for m in medians if m.file_system == system])
        for system in dict.fromkeys(median.file_system for median in medians)
    )
    for first in range(0, len(every), MAX_LINES):
        lines = every[first : first + MAX_LINES]
        drawn = LinesFigure(
            lines=lines,
            x_label="threads",
            y_label="IOPS",
            ticks=tuple((float(count), str(count)) for count in threads),
            log_x=len(threads) > 1,
        )
        names = ", ".join(line.label for line in lines)
        title = f"File systems: random {what}"
        place = "".join(c if c.isalnum() else "-" for c in f"{what}-{first}")
        caption = FILE_SYSTEMS_LEAD if what.startswith("read, fresh") and not first else ""
        yield Plot(f"filesystems-{stage.name}-{place}", title, caption, f"{title}: {names}.", drawn)
