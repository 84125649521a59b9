"""Show purge and preconditioning: the drive's reports, and the rate over written bytes."""

from collections.abc import Iterator
from functools import cache
from itertools import takewhile

import numpy as np

from ssdbench.errors import ProfileError
from ssdbench.model.found import FillDone, PurgeDone, WarmUp
from ssdbench.model.loading import load_profile
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.profile import Fill
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figure import Floats, thinned
from ssdbench.report.plots.series import Level, SeriesFigure
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.page import Block, Plot, Plots, Prose
from ssdbench.units import format_figure, format_rate, format_size


def purge_blocks(run: StoredRun, stage: StageResult, found: PurgeDone) -> Iterator[Block]:
    """Yield the method of the purge, and the drive's reports before and after the purge."""
    items = [("done", found.done)] if found.done else []
    items += [(f"before: {name}", value) for name, value in found.before.items()]
    items += [(f"after: {name}", value) for name, value in found.after.items()]
    if items:
        yield words.facts("In numbers", items)


LEAD = (
    "The whole drive is written before anything is measured. A drive with unwritten flash would be "
    "faster than it is in production."
)


_NAMES = {  # Names on the page for stored counts of a fill
    "planned_bytes": "planned_to_write_bytes",
    "counted_bytes": "counted_as_written_bytes",
    "counter": "counted_by",
    "smart_written_bytes": "written_according_to_the_health_log_bytes",
    "level_percent": "fill_level_percent",
    "filled_bytes": "filled_part_of_the_drive_bytes",
    "fills": "drive_fills_written",
    "ordered_bytes_per_s": "sequential_rate_at_the_end_bytes_per_s",
    "random_bytes_per_s": "random_rate_at_the_end_bytes_per_s",
    "random_block_bytes": "block_of_random_writes_bytes",
    "read_back": "check_of_the_capacity",
    "read_back_bytes": "read_back_and_compared_bytes",
    "read_back_reads": "reads_that_were_compared",
    "wrong_reads": "reads_that_returned_other_data",
}


CAPACITY = {
    "whole": "the whole fill was read back and compared",
    "sampled": "blocks at random places were read back and compared",
    "known": "not read back: a simulated drive has the capacity that it states",
}


def fill_blocks(run: StoredRun, stage: StageResult, found: FillDone) -> Iterator[Block]:
    """Yield the plot and the numbers of a fill."""
    yield Prose(LEAD)
    shown = any(stage is one for one in covered(run.result))
    if not shown and (plot := _fill_plot(run, stage, found)) is not None:
        yield Plots([plot], wide=True)
    counts = found.model_dump(exclude={"kind", "seconds_csv"}, exclude_none=True)
    if found.read_back is not None:
        counts["read_back"] = CAPACITY[found.read_back]
    if not found.random_block_bytes:
        del counts["random_block_bytes"]  # the fill wrote nothing at random
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


FIRST_S = 20  # the first rate is the median of this many seconds
LAST_PART = 20  # the last rate is the median of 1/20 of the seconds


def cliff_blocks(run: StoredRun) -> Iterator[Plots]:
    """Yield a plot of the rate over all bytes that were written before steady state was reached."""
    phases = list(_phases(run))
    if not phases:
        return
    size = max(run.result.target.size_bytes, 1)
    fills = np.cumsum(np.concatenate([seconds.write_bytes for _, seconds in phases])) / size
    rate = np.concatenate([seconds.rate("B/s") for _, seconds in phases]) / 1e6
    if len(fills) < 2 or not 0 < fills[-1] < np.inf:
        return
    yield Plots([_cliff_plot(run, phases, fills, rate)], wide=True)


def _last(rate: Floats, part: int) -> float:
    """Return the median of the last 1/`part` of a rate's samples."""
    return float(np.median(rate[-max(len(rate) // part, 1) :]))


def _phases(run: StoredRun) -> Iterator[tuple[str, Seconds]]:
    """Yield the name and the seconds of each step of the fills, then of the first warm-up."""
    for stage in covered(run.result):
        names, ends = _steps(run.result, stage)
        done = 0.0
        for file in _files(stage):
            seconds = run.seconds(file)
            if seconds is None or len(seconds.t_s) < 2:
                continue
            written = done + np.cumsum(seconds.write_bytes)
            inner = ends[:-1]
            after = np.searchsorted(written, inner) + 1  # it includes the second of the end
            cuts = [0, *np.where(inner <= done, 0, after).tolist(), len(written)]
            done = float(written[-1])
            for name, first, last in zip(names, cuts[:-1], cuts[1:], strict=True):
                if first < last:
                    yield name, seconds.between(first, last)


def _steps(result: RunResult, stage: StageResult) -> tuple[list[str], Floats]:
    """Return the names of a stage's steps, and how many bytes were written when each step ended."""
    match stage.found:
        case FillDone(filled_bytes=size, planned_bytes=planned) if size:
            steps = fills_of(result.profile_text)
            ends = np.cumsum([float(size * step.fill) for step in steps])
            if len(ends) and ends[-1] == planned:
                return [_step_name(step) for step in steps], ends
        case WarmUp(label=label) if label:
            return [f"warm-up, {words.times(label)}"], np.array([np.inf])
    return [stage.title], np.array([np.inf])


@cache
def fills_of(profile_text: str) -> tuple[Fill, ...]:
    """Return the fills of a stored profile; none if this version cannot read the profile."""
    try:
        return tuple(load_profile(profile_text, "the stored profile").precondition)
    except ProfileError:
        return ()


def _step_name(step: Fill) -> str:
    several = "fill" if step.fill == 1 else f"fill × {step.fill}"
    return f"{step.pattern} {several}, {format_size(step.block_bytes)}"


def covered(result: RunResult) -> list[StageResult]:
    """Return the stages before the measurements: purges, fills, and the warm-up after them."""
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
    run: StoredRun, phases: list[tuple[str, Seconds]], fills: Floats, rate: Floats
) -> Plot:
    marks: list[tuple[float, str]] = []
    begun = 0
    for name, seconds in phases:
        usual = float(np.median(seconds.rate("B/s")))
        marks.append(
            (float(fills[begun - 1]) if begun else 0.0, f"{name}\n{rates(usual, 'B/s', seconds)}")
        )
        begun += len(seconds.t_s)
    first, last = _last(rate[:FIRST_S], 1), _last(rate, LAST_PART)
    told = f"{format_rate(first * 1e6)} at first, {format_rate(last * 1e6)} at the end"
    warm = covered(run.result)[-1].found
    levels: tuple[Level, ...] = ()
    if isinstance(warm, WarmUp) and warm.verdict and warm.verdict.mean:
        at = (
            begun
            - len(phases[-1][1].t_s)
            + np.searchsorted(phases[-1][1].t_s, warm.verdict.window_from_s)
        )
        window = float(fills[min(int(at), len(fills) - 1)])
        levels = levels_of(warm.verdict, warm.unit, phases[-1][1], window, float(fills[-1]))
    if levels:  # the steady level is the rate of the warm-up
        marks[-1] = marks[-1][0], phases[-1][0]
    return Plot(
        name="cliff",
        title="Write cliff: throughput over bytes written",
        caption=f"Over {format_figure(fills[-1])} drive fills: {told}. The line covers the range "
        "from the slowest to the fastest second of each part. The rate below the name of a phase "
        "is its median.",
        alt=f"Write throughput over {format_figure(fills[-1])} drive fills: {told}.",
        figure=SeriesFigure(
            thinned(fills, rate), "drive fills written", "MB/s", tuple(marks), levels, log=True
        ),
    )


def rates(rate: float, unit: str, seconds: Seconds) -> str:
    """Format a rate in IOPS and bytes per second; `seconds` give the mean size of an I/O."""
    size = float(seconds.bytes.sum() / max(seconds.ios.sum(), 1)) or 1.0
    iops, throughput = (rate, rate * size) if unit == "1/s" else (rate / size, rate)
    return f"{words.quantity(iops, '1/s')}, {words.quantity(throughput, 'B/s')}"


def levels_of(
    verdict: SteadyVerdict, unit: str, seconds: Seconds, window: float, end: float
) -> tuple[Level, ...]:
    """Return the judged window's mean and its lower bound in MB/s; nothing if not steady."""
    size = float(seconds.bytes.sum() / max(seconds.ios.sum(), 1))
    factor = size / 1e6 if unit == "1/s" else 1e-6
    if not verdict.steady:
        return ()
    named = [("steady level", verdict.mean, window), ("lower bound", verdict.lower_bound, 0.0)]
    return tuple(
        Level(name, rate * factor, rates(rate, unit, seconds), start, end)
        for name, rate, start in named
    )
