"""A fill of the drive on the page: its rate over what was written, and who counted it."""

from collections.abc import Iterator

import numpy as np

from ssdbench.model.found import FillDone
from ssdbench.model.result import StageResult
from ssdbench.report.figures import SeriesFigure, thinned
from ssdbench.report.read import StoredRun
from ssdbench.report.view import cliff, words
from ssdbench.report.view.page import Block, Facts, Plot, Plots, Prose
from ssdbench.units import format_rate

LEAD = (
    "Before anything is measured, the whole drive is written, so that no fresh flash makes it look "
    "faster than it will be."
)


def blocks(run: StoredRun, stage: StageResult, found: FillDone) -> Iterator[Block]:
    """Lead, figure, and the counts."""
    yield Prose(LEAD)
    shown = any(stage is one for one in cliff.covered(run.result))
    if not shown and (plot := _plot(run, stage, found)) is not None:
        yield Plots([plot], wide=True)
    counts = found.model_dump(exclude={"kind", "seconds_csv"}, exclude_none=True)
    if found.planned_bytes:
        yield Facts("In numbers", [words.fact(name, value) for name, value in counts.items()])


def _plot(run: StoredRun, stage: StageResult, found: FillDone) -> Plot | None:
    seconds = run.seconds(found.seconds_csv[0]) if found.seconds_csv else None
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
