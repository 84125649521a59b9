"""When each stage ran, and what it cost the drive."""

from collections.abc import Iterator

from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.figures import Stretch, TimelineFigure
from ssdbench.report.view import stretch
from ssdbench.report.view.page import Plot, Plots
from ssdbench.units import counted, format_capacity, format_duration, format_figure

MOST = 40  # stages of a figure


def blocks(result: RunResult) -> Iterator[Plots]:
    """A row for each stage; none for a run of less than two."""
    stages = result.stages[:MOST]
    length = sum(stage.duration_s for stage in stages)
    if len(stages) < 2 or not 0 < length < float("inf"):
        return
    clock = stretch.clock(length)
    written = sum(stage.bytes_written for stage in result.stages)
    told = (
        f"{counted(len(stages), 'stage')} in {format_duration(length)}, "
        f"{format_capacity(written)} written"
    )
    yield Plots(
        [
            Plot(
                name="timeline",
                title="What was done when",
                caption=f"{told}. Fills are bytes written over the capacity, the least that the "
                "flash was worn by.",
                alt=f"{told}.",
                figure=TimelineFigure(
                    tuple(_stretches(result, stages, clock.seconds)),
                    f"{clock.name} on the drive's clock",
                ),
            )
        ],
        wide=True,
    )


def _stretches(
    result: RunResult, stages: tuple[StageResult, ...], unit_s: float
) -> Iterator[Stretch]:
    begun = 0.0
    for stage in stages:
        end = begun + stage.duration_s
        fills = stage.bytes_written / max(result.target.size_bytes, 1)
        wrote = (
            f", {format_capacity(stage.bytes_written)} = {format_figure(fills, 2)} fills written"
        )
        words = format_duration(stage.duration_s) + (wrote if stage.bytes_written else "")
        yield Stretch(stage.title, begun / unit_s, end / unit_s, words)
        begun = end
