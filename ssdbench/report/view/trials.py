"""Comparisons on the page: host settings and file systems, as figures and tables of medians."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from ssdbench.model.found import Comparison, FileSystemComparison, Median, ThreadsMedian
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult
from ssdbench.report.plots.points import Dots, DotsFigure, Line, LinesFigure
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Cell, Column, Facts, Plot, Plots, Table
from ssdbench.units import format_count

LEAD = (
    "The same short workloads under one host setting after another; medians, with the least and "
    "the most of all repeats in the table. They compare settings and are no numbers to plan on."
)
PATH_LEAD = (
    "Median time of a request in each layer: queue (until it has a place), plug (held back to be "
    "sent with others), scheduler, driver, device (until its interrupt, or until it is completed "
    "where the device has no interrupt of its own) and completion. Medians of parts do not add up "
    "to the median of the whole. Tracing itself costs time, so rates of these starts are compared "
    "with each other only."
)
LAYERS = ("queue_ns", "plug_ns", "scheduler_ns", "driver_ns", "device_ns", "completion_ns")
APPLICATIONS_LEAD = (
    "Bytes that each program read and wrote by its own account, and those of fio with the same mix "
    "of requests. Programs go through the page cache, so this is not what reached the drive: that, "
    "and each program's own operations per second, are in cells.csv. Medians; they compare "
    "settings and are no numbers to plan on."
)


@dataclass(frozen=True, slots=True)
class Figure:
    """What is drawn of every median."""

    name: str  # of the plot, after the stage's
    of: Callable[[Median], float | None]
    title: str
    axis: str
    caption: str = ""
    is_latency: bool = False
    is_ranged: bool = False  # with the least and the most


Drawn = Callable[[StageResult, Sequence[Median]], Iterator[Block]]


@dataclass(frozen=True, slots=True)
class Shown:
    """How a kind of trial is drawn, and what it is about besides IOPS."""

    more: tuple[Figure, ...] = ()
    in_order: bool = False  # its variants follow one another: lines instead of rows
    drawn: Drawn | None = None  # in a way of its own


_IN_FLIGHT = Figure(
    "in_flight", lambda m: m.in_flight, "Requests in the drive's queue", "requests in flight"
)
_PER_CORE = Figure(
    "iops_per_core",
    lambda m: m.iops_per_core,
    "I/Os per CPU second of the whole host",
    "IOPS per core",
)
_PER_WATT = Figure(
    "iops_per_watt", lambda m: m.iops_per_watt, "I/Os per joule of the CPUs", "IOPS per watt"
)
_LATENCY = Figure(
    "lat_p50_ns", lambda m: m.lat_p50_ns, "Median latency", "latency", is_latency=True
)


def blocks(run: StoredRun, stage: StageResult, found: Comparison) -> Iterator[Block]:
    """Yield the figures and the table of a comparison."""
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
    yield Facts("In numbers", [words.fact(name, value) for name, value in facts])


def figures(stage: StageResult, found: Comparison) -> Iterator[Block]:
    """Yield the figures of a comparison; none for a single variant."""
    shown = SHOWN[found.kind]
    if shown.drawn is not None:
        yield from shown.drawn(stage, found.medians)
        return
    if len(found.medians) < 2:
        return
    draw = _lines if shown.in_order else _rows
    iops = Figure("iops", lambda m: m.iops, stage.title, "IOPS", LEAD, is_ranged=True)
    told = (f for f in shown.more if all(f.of(median) for median in found.medians))
    plots = [draw(stage, found.medians, figure) for figure in (iops, *told)]
    yield Plots(plots, wide=not shown.in_order)


def _surface(stage: StageResult, found: Sequence[Median]) -> Iterator[Block]:
    """One plot per direction: throughput over record size, a line per file size."""
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
        name = f"rate-{direction.replace(' ', '-')}"
        plots.append(_lines(stage, own, Figure(name, _mb_per_s, title, "MB/s")))
    yield Plots(plots)


def _applications(stage: StageResult, found: Sequence[Median]) -> Iterator[Block]:
    """A row per program and scheduler: the program, and fio in its place."""
    if len(found) < 2:
        return
    values: dict[str, list[tuple[str, float]]] = {}
    for median in found:
        program, beside, _ = median.workload.partition(", ")
        what = "fio with the same mix" if beside else "the program"
        values.setdefault(f"{program}, {median.variant}", []).append((what, _mb_per_s(median)))
    rows = tuple(Dots(label=label, values=tuple(own)) for label, own in values.items())
    drawn = DotsFigure(rows, x_label="MB/s", latency=False)
    alt = _alt(rows, "MB/s", 1)
    plot = Plot(f"trial-{stage.name}-programs", stage.title, APPLICATIONS_LEAD, alt, drawn)
    yield Plots([plot], wide=True)


def _path(stage: StageResult, found: Sequence[Median]) -> Iterator[Block]:
    """A row per workload and scheduler: the layers of its requests."""
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
    """A row per variant: they have no order that a line could follow."""
    variants = dict.fromkeys(median.variant for median in found)
    rows = tuple(
        Dots(
            label=variant,
            values=tuple(
                (m.workload, value)
                for m in found
                if m.variant == variant and (value := figure.of(m)) is not None
            ),
        )
        for variant in variants
    )
    drawn = DotsFigure(rows, x_label=figure.axis, latency=figure.is_latency)
    alt = f"{figure.axis} under {', '.join(variants)}."
    return Plot(f"trial-{stage.name}-{figure.name}", figure.title, figure.caption, alt, drawn)


def _lines(stage: StageResult, found: Sequence[Median], figure: Figure) -> Plot:
    """A line per workload over the variants."""
    variants = list(dict.fromkeys(median.variant for median in found))
    place = {variant: float(n) for n, variant in enumerate(variants)}
    drawn = LinesFigure(
        lines=tuple(_line_of_each(found, figure, place)),
        x_label="",
        y_label=figure.axis,
        ticks=tuple((place[variant], variant) for variant in variants),
        latency=figure.is_latency,
    )
    alt = f"{figure.axis} of {len(drawn.lines)} workloads under {', '.join(variants)}."
    return Plot(f"trial-{stage.name}-{figure.name}", figure.title, figure.caption, alt, drawn)


def _line_of_each(
    found: Sequence[Median], figure: Figure, place: Mapping[str, float]
) -> Iterator[Line]:
    for workload in dict.fromkeys(median.workload for median in found):
        own = sorted((m for m in found if m.workload == workload), key=lambda m: place[m.variant])
        yield Line(
            label=workload,
            x=tuple(place[m.variant] for m in own),
            y=tuple(figure.of(m) or 0.0 for m in own),
            low=tuple(m.iops_least for m in own) if figure.is_ranged else (),
            high=tuple(m.iops_most for m in own) if figure.is_ranged else (),
        )


def _mb_per_s(median: Median) -> float:
    return median.bw_bytes_per_s / 1e6


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


FOLDED = 30  # rows from which the table is closed at first

M = TypeVar("M", bound=Median)
M_contra = TypeVar("M_contra", bound=Median, contravariant=True)


@dataclass(frozen=True, slots=True)
class MedianColumn(Generic[M_contra]):
    """One column; `name` tells its unit, and its title where that has none of its own."""

    name: str
    of: Callable[[M_contra], float | str | None]
    title: str = ""
    hint: str = ""


_WORKLOAD: MedianColumn[Median] = MedianColumn("workload", lambda m: m.workload)
_VARIANT: MedianColumn[Median] = MedianColumn("variant", lambda m: m.variant)
_STARTS: MedianColumn[Median] = MedianColumn("repeats", lambda m: m.repeats, "Starts")
_IOPS: MedianColumn[Median] = MedianColumn("iops", lambda m: m.iops)
_RATES: tuple[MedianColumn[Median], ...] = (
    MedianColumn("bw_bytes_per_s", lambda m: m.bw_bytes_per_s, "Throughput"),
    MedianColumn("lat_p50_ns", lambda m: m.lat_p50_ns, "p50"),
)
# Not `host_cpu_us_per_io`, which is the inverse of IOPS per core; cells.csv has it.
_COSTS: tuple[MedianColumn[Median], ...] = (
    MedianColumn("lat_p99_ns", lambda m: m.lat_p99_ns, "p99"),
    MedianColumn(
        "cpu_us_per_io", lambda m: m.cpu_us_per_io, "fio, us per I/O", "CPU time of fio itself"
    ),
    MedianColumn(
        "iops_per_core",
        lambda m: m.iops_per_core,
        "IOPS per core",
        "By the CPU time of the whole host but for other programs",
    ),
    MedianColumn("iops_per_watt", lambda m: m.iops_per_watt, "I/Os per joule"),
    MedianColumn("merges_per_io", lambda m: m.merges_per_io, "Merges per I/O"),
    MedianColumn("interrupts_per_io", lambda m: m.interrupts_per_io, "IRQs per I/O"),
    MedianColumn(
        "in_flight",
        lambda m: m.in_flight,
        "In flight",
        "Requests in the drive's queue, mean over the window",
    ),
)
BY_THREADS: tuple[MedianColumn[ThreadsMedian], ...] = (
    MedianColumn("file_system", lambda m: m.file_system),
    MedianColumn("state", lambda m: m.state),
    MedianColumn("threads", lambda m: m.threads),
    MedianColumn("direction", lambda m: m.direction),
)


def median_table(medians: Sequence[M], more: Sequence[MedianColumn[M]] = ()) -> Iterator[Table]:
    """A row for each variant under each workload; none for a stage that compares nothing."""
    if not medians:
        return
    starts = {median.repeats for median in medians}
    ranged = starts != {1}
    before: list[MedianColumn[M]] = [_WORKLOAD, _VARIANT]
    before += [_STARTS] if len(starts) > 1 else []
    before.append(_IOPS)
    after: list[MedianColumn[M]] = [*_known([*_RATES, *_told(medians), *_COSTS], medians), *more]
    is_disturbed = any(median.disturbed for median in medians)
    columns = [
        *(_column(figure, medians) for figure in before),
        *([Column("Least – most", number=True)] if ranged else []),
        *(_column(figure, medians) for figure in after),
        *([Column("Disturbed", number=True)] if is_disturbed else []),
    ]
    rows = [
        [
            *(_cell(figure, median) for figure in before),
            *([_range(median)] if ranged else []),
            *(_cell(figure, median) for figure in after),
            *([Cell(f"{median.disturbed} of {median.repeats}")] if is_disturbed else []),
        ]
        for median in medians
    ]
    caption = _caption(starts) + (", with the least and the most rate" if ranged else "")
    yield Table(caption, columns, rows, fold=caption if len(rows) > FOLDED else "")


def _caption(starts: set[int]) -> str:
    if starts == {1}:
        return "One start each"
    return f"Medians of {next(iter(starts))} starts" if len(starts) == 1 else "Medians"


def _told(medians: Sequence[Median]) -> Iterator[MedianColumn[Median]]:
    """What a probe or a program told, by its own names."""
    for name in dict.fromkeys(name for median in medians for name in median.more):
        yield MedianColumn(name, partial(_more, name))


def _more(name: str, median: Median) -> float | None:
    return median.more.get(name)


def _known(
    figures: Sequence[MedianColumn[Median]], medians: Sequence[Median]
) -> list[MedianColumn[Median]]:
    return [f for f in figures if any(f.of(median) is not None for median in medians)]


def _column(figure: MedianColumn[M], medians: Sequence[M]) -> Column:
    number = not any(isinstance(figure.of(median), str) for median in medians)
    title = figure.title or words.fact(figure.name, 0)[0]
    return Column(title, number, figure.hint)


def _cell(figure: MedianColumn[M], median: M) -> Cell:
    value = figure.of(median)
    return Cell(words.NONE if value is None else words.fact(figure.name, value)[1])


def _range(median: Median) -> Cell:
    return Cell(f"{format_count(median.iops_least)} – {format_count(median.iops_most)}")


MAX_LINES = 6
FILE_SYSTEMS_LEAD = (
    "4 KiB at random in one file, each file system on a drive that was filled again before it was "
    "made, without a discard. Aged: after its free space was filled with small files and every "
    "other of them deleted. Medians, to compare with each other."
)


def file_system_blocks(
    run: StoredRun, stage: StageResult, found: FileSystemComparison
) -> Iterator[Block]:
    """The figures, in the section of the last file system; the table of this one."""
    tried = run.result.having(FileSystemComparison)
    if stage is tried[-1][0]:
        yield from file_system_figures(
            stage, [median for _, one in tried for median in one.medians]
        )
    yield from median_table(found.medians, BY_THREADS)
    facts = [("file_system", found.file_system), ("made_with", found.made_with)]
    facts.append(("measured", found.measured))
    facts += [(f"note_{number}", note) for number, note in enumerate(found.notes, start=1)]
    yield Facts("In numbers", [words.fact(name, value) for name, value in facts])


def file_system_figures(stage: StageResult, medians: Sequence[ThreadsMedian]) -> Iterator[Block]:
    """One figure for each state and direction."""
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
    """As many as can be told apart by colour, dash and mark."""
    threads = sorted({median.threads for median in medians})
    every = tuple(_thread_lines(medians))
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


def _thread_lines(medians: Sequence[ThreadsMedian]) -> Iterator[Line]:
    for system in dict.fromkeys(median.file_system for median in medians):
        own = sorted((m for m in medians if m.file_system == system), key=lambda m: m.threads)
        yield Line(
            label=system,
            x=tuple(float(m.threads) for m in own),
            y=tuple(m.iops for m in own),
            low=tuple(m.iops_least for m in own),
            high=tuple(m.iops_most for m in own),
        )
