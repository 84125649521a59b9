"""The plots of a PTS-style test: convergence of the writes, windows, rates over block sizes."""

from collections.abc import Iterator, Mapping, Sequence

from ssdbench.model.result import StageResult
from ssdbench.report.figures import Line, LinesFigure, Window, WindowFigure
from ssdbench.report.view.page import Plot
from ssdbench.stats.ptsrounds import RoundWindow, round_window
from ssdbench.units import format_count, format_size

Record = Mapping[str, object]
MAX_LINES = 8


def plots(stage: StageResult) -> Iterator[Plot]:
    """Everything that can be drawn from the rounds of a test."""
    rounds = _records(stage, "rounds")
    if not rounds:
        return
    yield _convergence(stage, rounds)
    for number, header in enumerate(_records(stage, "steady_state")):
        yield _window(stage, rounds, str(header["tracking"]), number)
    means = _records(stage, "means_over_the_window")
    if len({m["block_bytes"] for m in means}) > 1:
        yield _by_block(stage, means)


def _records(stage: StageResult, name: str) -> list[Record]:
    found = stage.data.get(name)
    return [r for r in found if isinstance(r, Mapping)] if isinstance(found, list) else []


def _number(record: Record, name: str) -> float:
    return float(str(record[name]))


def _convergence(stage: StageResult, rounds: Sequence[Record]) -> Plot:
    """IOPS of the cells with most writes, over the rounds, as the standard draws it."""
    least = min(_number(r, "read_percent") for r in rounds)
    cells = list(dict.fromkeys(str(r["cell"]) for r in rounds if r["read_percent"] == least))
    lines = tuple(
        Line(
            label=cell,
            x=tuple(_number(r, "round") for r in rounds if r["cell"] == cell),
            y=tuple(_number(r, "iops") for r in rounds if r["cell"] == cell),
        )
        for cell in cells[:MAX_LINES]
    )
    last = int(max(_number(r, "round") for r in rounds))
    return Plot(
        name=f"convergence-{stage.name}",
        title="Steady-state convergence",
        caption="Each cell with the largest share of writes, round by round.",
        alt=f"IOPS of {len(lines)} cells over {last} rounds.",
        figure=LinesFigure(
            lines,
            "round",
            "IOPS",
            tuple((float(n), str(n)) for n in range(1, last + 1)),
            log_y=True,
        ),
    )


def _window(stage: StageResult, rounds: Sequence[Record], tracking: str, number: int) -> Plot:
    cell, _, metric = tracking.rpartition(", ")
    name = metric.replace(" ", "_")
    window = round_window([_number(r, name) for r in rounds if r["cell"] == cell])
    first, last = window.rounds[0], window.rounds[-1]
    allowed = format_count(window.allowed_slope_excursion)
    return Plot(
        name=f"window-{stage.name}-{number}",
        title=f"Measurement window: {tracking}",
        caption=f"Rounds {first} to {last}; fit {window.fit}, correlation "
        f"{window.correlation:+.3f}; data excursion {format_count(window.excursion)} of "
        f"{format_count(window.allowed_excursion)} allowed, slope excursion "
        f"{format_count(window.slope_excursion)} of {allowed} allowed.",
        alt=f"{tracking} in rounds {first} to {last}, average {format_count(window.average)}.",
        figure=WindowFigure(
            x=tuple(float(n) for n in window.rounds),
            blocks=window.values,
            window=_drawn(window),
            x_label="round",
            y_label=metric,
        ),
    )


def _drawn(window: RoundWindow) -> Window:
    first, last = window.rounds[0], window.rounds[-1]
    fits = [window.intercept + window.slope * x for x in (first, last)]
    return Window(float(first), float(last), window.average, None, fits[0], fits[1])


def _by_block(stage: StageResult, means: Sequence[Record]) -> Plot:
    sizes = sorted({int(_number(m, "block_bytes")) for m in means})
    lines = []
    for read in dict.fromkeys(int(_number(m, "read_percent")) for m in means):
        own = sorted((m for m in means if m["read_percent"] == read), key=_block)
        lines.append(
            Line(
                f"{read}/{100 - read}",
                tuple(_block(m) for m in own),
                tuple(_number(m, "iops") for m in own),
            )
        )
    return Plot(
        name=f"blocks-{stage.name}",
        title="IOPS over block size",
        caption="Means over the measurement window, one line per mix of reads and writes; "
        "no bounds.",
        alt=f"IOPS of {len(lines)} mixes over {len(sizes)} block sizes.",
        figure=LinesFigure(
            tuple(lines[:MAX_LINES]),
            "block size",
            "IOPS",
            tuple((float(size), format_size(size)) for size in sizes),
            log_x=True,
            log_y=True,
        ),
    )


def _block(record: Record) -> float:
    return _number(record, "block_bytes")
