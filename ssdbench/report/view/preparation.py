"""Show purge and preconditioning: the drive's answers, and the rate over written bytes."""

from collections.abc import Iterator
from itertools import takewhile

import numpy as np

from ssdbench.model.found import FillDone, PurgeDone, WarmUp
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figure import Floats, Trace, thinned
from ssdbench.report.plots.series import CliffFigure, SeriesFigure
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Plot, Plots, Prose
from ssdbench.units import format_figure, format_rate


def purge_blocks(run: StoredRun, stage: StageResult, found: PurgeDone) -> Iterator[Block]:
    """Yield the method of the purge, and the drive's answers before and after."""
    items = [("done", found.done)] if found.done else []
    items += [(f"before: {name}", value) for name, value in found.before.items()]
    items += [(f"after: {name}", value) for name, value in found.after.items()]
    if items:
        yield words.facts("In numbers", items)


LEAD = (
    "The whole drive is written before anything is measured. A drive with unwritten flash would be "
    "faster than it is in production."
)


_NAMES = {  # of the stored counts of a fill, on the page
    "planned_bytes": "planned_to_write_bytes",
    "counted_bytes": "counted_as_written_bytes",
    "counter": "counted_by",
    "smart_written_bytes": "written_by_the_health_log_bytes",
    "level_percent": "fill_level_percent",
    "filled_bytes": "filled_part_of_the_drive_bytes",
    "fills": "drive_fills_written",
    "ordered_bytes_per_s": "sequential_rate_at_the_end_bytes_per_s",
    "random_bytes_per_s": "random_rate_at_the_end_bytes_per_s",
    "random_block_bytes": "block_of_random_writes_bytes",
}


def fill_blocks(run: StoredRun, stage: StageResult, found: FillDone) -> Iterator[Block]:
    """Yield the figure and the numbers of a fill."""
    yield Prose(LEAD)
    shown = any(stage is one for one in covered(run.result))
    if not shown and (plot := _fill_plot(run, stage, found)) is not None:
        yield Plots([plot], wide=True)
    counts = found.model_dump(exclude={"kind", "seconds_csv"}, exclude_none=True)
    if found.planned_bytes:
        yield words.facts("In numbers", ((_NAMES[name], value) for name, value in counts.items()))


def _fill_plot(run: StoredRun, stage: StageResult, found: FillDone) -> Plot | None:
    seconds = run.seconds(found.seconds_csv[0]) if found.seconds_csv else None
    if seconds is None or len(seconds.t_s) < 2:
        return None
    size = max(run.result.target.size_bytes, 1)
    fills = np.cumsum(seconds.write_bytes) / size
    rate = seconds.rate("B/s")
    low, last = float(rate.min()), _last(rate, LAST_PART)
    whole = [float(n) for n in range(1, int(fills[-1] * 1.0001) + 1)]
    return Plot(
        name=f"fill-{stage.name}",
        title="Throughput while filling",
        caption=f"Over {fills[-1]:.2f} drive fills. The line covers the range from the slowest to "
        f"the fastest second of each part. Slowest second {format_rate(low)}, at the end "
        f"{format_rate(last)}.",
        alt=f"Write throughput over {fills[-1]:.2f} drive fills, at the end {format_rate(last)}.",
        figure=SeriesFigure(
            trace=thinned(fills, rate / 1e6),
            x_label="drive fills written",
            y_label="MB/s",
            marks=tuple((n, f"fill {n:.0f}") for n in whole if n < fills[-1] * 0.995),
        ),
    )


LEAST_FILLS = 1e-4  # start of the logarithmic axis
FIRST_S = 20  # the first rate is the median of so many seconds
LAST_PART = 20  # the last rate is the median of the last twentieth


def cliff_blocks(run: StoredRun) -> Iterator[Plots]:
    """Yield a figure of the rate over all bytes written before steady state."""
    parts = list(_parts(run))
    if not parts:
        return
    size = max(run.result.target.size_bytes, 1)
    fills = np.cumsum(np.concatenate([seconds.write_bytes for _, seconds in parts])) / size
    rate = np.concatenate([seconds.rate("B/s") for _, seconds in parts]) / 1e6
    if len(fills) < 2 or not 0 < fills[-1] < np.inf:
        return
    first, last = _last(rate[:FIRST_S], 1), _last(rate, LAST_PART)
    yield Plots([_cliff_plot(parts, fills, rate, first, last)], wide=True)


def _last(rate: Floats, part: int) -> float:
    """Return the median of the last part of a series, such as its last twentieth."""
    return float(np.median(rate[-max(len(rate) // part, 1) :]))


def _parts(run: StoredRun) -> Iterator[tuple[str, Seconds]]:
    """Yield title and seconds of the fills and of the first warm-up, in order."""
    for stage in covered(run.result):
        for name in _files(stage):
            seconds = run.seconds(name)
            if seconds is not None and len(seconds.t_s) > 1:
                yield stage.title, seconds


def covered(result: RunResult) -> list[StageResult]:
    """Return the first stages of a run: purges, fills, and the warm-up after them."""
    preparing = takewhile(lambda s: isinstance(s.found, FillDone | PurgeDone), result.stages)
    first = list(preparing)
    following = result.stages[len(first) : len(first) + 1]
    return [*first, *(stage for stage in following if isinstance(stage.found, WarmUp))]


def _files(stage: StageResult) -> tuple[str, ...]:
    match stage.found:
        case FillDone(seconds_csv=names):
            return names
        case WarmUp(seconds_csv=name) if name:
            return (name,)
        case _:
            return ()


def _cliff_plot(
    parts: list[tuple[str, Seconds]], fills: Floats, rate: Floats, first: float, last: float
) -> Plot:
    marks: list[tuple[float, str]] = []
    begun = 0
    for title, seconds in parts:
        if not marks or marks[-1][1] != title:
            marks.append((float(fills[begun - 1]) if begun else 0.0, title))
        begun += len(seconds.t_s)
    told = f"{format_rate(first * 1e6)} at first, {format_rate(last * 1e6)} at the end"
    return Plot(
        name="cliff",
        title="Write cliff: throughput over bytes written",
        caption=f"Over {format_figure(fills[-1])} drive fills: {told}. The line covers the range "
        "from the slowest to the fastest second of each part. At each mark the workload changes, "
        "and the rate with it.",
        alt=f"Write throughput over {format_figure(fills[-1])} drive fills: {told}.",
        figure=CliffFigure(
            thinned(fills, rate), _on_log(fills, rate), tuple(marks), "drive fills written", "MB/s"
        ),
    )


def _on_log(fills: Floats, rate: Floats) -> Trace:
    """Thin the series in equal parts of a logarithmic axis."""
    seen = fills >= min(LEAST_FILLS, float(fills[-1]) / 2)
    trace = thinned(np.log10(fills[seen]), rate[seen])
    low = trace.low
    return Trace(10**trace.x, low, low if trace.high is low else trace.high)
