"""The table of a stage that compares: medians of its starts, with the least and the most rate."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from ssdbench.model.found import Median, ThreadsMedian
from ssdbench.report.view import words
from ssdbench.report.view.page import Cell, Column, Table
from ssdbench.units import format_count

FOLDED = 30  # rows from which the table is closed at first

M = TypeVar("M", bound=Median)
M_contra = TypeVar("M_contra", bound=Median, contravariant=True)


@dataclass(frozen=True, slots=True)
class Figure(Generic[M_contra]):
    """One column; `name` tells its unit, and its title where that has none of its own."""

    name: str
    of: Callable[[M_contra], float | str | None]
    title: str = ""
    hint: str = ""


_WORKLOAD: Figure[Median] = Figure("workload", lambda m: m.workload)
_VARIANT: Figure[Median] = Figure("variant", lambda m: m.variant)
_STARTS: Figure[Median] = Figure("repeats", lambda m: m.repeats, "Starts")
_IOPS: Figure[Median] = Figure("iops", lambda m: m.iops)
_RATES: tuple[Figure[Median], ...] = (
    Figure("bw_bytes_per_s", lambda m: m.bw_bytes_per_s, "Throughput"),
    Figure("lat_p50_ns", lambda m: m.lat_p50_ns, "p50"),
)
# Not `host_cpu_us_per_io`, which is the inverse of IOPS per core; cells.csv has it.
_COSTS: tuple[Figure[Median], ...] = (
    Figure("lat_p99_ns", lambda m: m.lat_p99_ns, "p99"),
    Figure("cpu_us_per_io", lambda m: m.cpu_us_per_io, "fio, us per I/O", "CPU time of fio itself"),
    Figure(
        "iops_per_core",
        lambda m: m.iops_per_core,
        "IOPS per core",
        "By the CPU time of the whole host but for other programs",
    ),
    Figure("iops_per_watt", lambda m: m.iops_per_watt, "I/Os per joule"),
    Figure("merges_per_io", lambda m: m.merges_per_io, "Merges per I/O"),
    Figure("interrupts_per_io", lambda m: m.interrupts_per_io, "IRQs per I/O"),
    Figure(
        "in_flight",
        lambda m: m.in_flight,
        "In flight",
        "Requests in the drive's queue, mean over the window",
    ),
)
BY_THREADS: tuple[Figure[ThreadsMedian], ...] = (
    Figure("file_system", lambda m: m.file_system),
    Figure("state", lambda m: m.state),
    Figure("threads", lambda m: m.threads),
    Figure("direction", lambda m: m.direction),
)


def table(medians: Sequence[M], more: Sequence[Figure[M]] = ()) -> Iterator[Table]:
    """A row for each variant under each workload; none for a stage that compares nothing."""
    if not medians:
        return
    starts = {median.repeats for median in medians}
    ranged = starts != {1}
    before: list[Figure[M]] = [_WORKLOAD, _VARIANT]
    before += [_STARTS] if len(starts) > 1 else []
    before.append(_IOPS)
    after: list[Figure[M]] = [*_known([*_RATES, *_told(medians), *_COSTS], medians), *more]
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


def _told(medians: Sequence[Median]) -> Iterator[Figure[Median]]:
    """What a probe or a program told, by its own names."""
    for name in dict.fromkeys(name for median in medians for name in median.more):
        yield Figure(name, partial(_more, name))


def _more(name: str, median: Median) -> float | None:
    return median.more.get(name)


def _known(figures: Sequence[Figure[Median]], medians: Sequence[Median]) -> list[Figure[Median]]:
    return [f for f in figures if any(f.of(median) is not None for median in medians)]


def _column(figure: Figure[M], medians: Sequence[M]) -> Column:
    number = not any(isinstance(figure.of(median), str) for median in medians)
    title = figure.title or words.fact(figure.name, 0)[0]
    return Column(title, number, figure.hint)


def _cell(figure: Figure[M], median: M) -> Cell:
    value = figure.of(median)
    return Cell(words.NONE if value is None else words.fact(figure.name, value)[1])


def _range(median: Median) -> Cell:
    return Cell(f"{format_count(median.iops_least)} – {format_count(median.iops_most)}")
