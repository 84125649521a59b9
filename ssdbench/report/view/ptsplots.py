"""The plots of a PTS-style test of rounds: convergence, windows, block sizes, demand."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ssdbench.model.result import StageResult
from ssdbench.report.figures import ColumnsFigure, Line, LinesFigure, Window, WindowFigure
from ssdbench.report.view.page import Plot
from ssdbench.stats.ptsrounds import RoundWindow, round_window
from ssdbench.units import format_count, format_size

Record = Mapping[str, object]
MAX_LINES = 8


def plots(stage: StageResult) -> Iterator[Plot]:
    """Everything that can be drawn from the rounds of a test."""
    rounds = records(stage, "rounds")
    if rounds:
        yield from _convergences(stage, rounds)
        for place, header in enumerate(records(stage, "steady_state")):
            yield _window(stage, rounds, str(header["tracking"]), place)
    means = records(stage, "means_over_the_window")
    cells = [m for m in means if not str(m["cell"]).startswith("pre-write")]
    if len({(m["threads"], m["queue"]) for m in cells}) > 1:
        yield _demand_variation(stage, cells)
        yield _over_outstanding(stage, cells, "iops", "IOPS")
        yield _over_outstanding(
            stage, cells, "throughput_bytes_per_s", "throughput [MB/s]", scale=1e-6
        )
        if any(number(m, "mean_ns") > 0 for m in cells):
            yield _demand_intensity(stage, cells)
        if used := [m for m in cells if "cpu_percent" in m]:
            yield _demand_cpu(stage, used)
    elif len({m["block_bytes"] for m in means}) > 1:
        yield _by_block(stage, means)
        yield _columns(stage, means, "iops", "IOPS")
        if "latency" in str(stage.summary.get("test")):
            yield _columns(stage, means, "mean_ns", "mean latency [ms]", scale=1e-6)
            yield _columns(stage, means, "max_ns", "highest latency [ms]", scale=1e-6)


def records(stage: StageResult, name: str) -> list[Record]:
    """The records of a stage's data under a name; none when there are none."""
    found = stage.data.get(name)
    return [r for r in found if isinstance(r, Mapping)] if isinstance(found, list) else []


def number(record: Record, name: str) -> float:
    """A number of a record."""
    return float(str(record[name]))


def _convergences(stage: StageResult, rounds: Sequence[Record]) -> Iterator[Plot]:
    """Over the rounds: cells with most writes; throughput both ways; latency mean and highest."""
    test = str(stage.summary.get("test"))
    if "throughput" in test:
        yield _convergence(stage, rounds, "throughput_bytes_per_s", "throughput [MB/s]", scale=1e-6)
    elif "latency" in test:
        yield _convergence(stage, rounds, "mean_ns", "mean latency")
        yield _convergence(stage, rounds, "max_ns", "highest latency")
    elif pre := [r for r in rounds if str(r["cell"]).startswith("pre-write")]:
        yield _convergence(stage, [r for r in rounds if r not in pre], "iops", "IOPS")
        yield _pre_writes(stage, pre)
    else:
        yield _convergence(stage, rounds, "iops", "IOPS")


def _convergence(
    stage: StageResult, rounds: Sequence[Record], metric: str, label: str, *, scale: float = 1.0
) -> Plot:
    both = metric.startswith("throughput")
    least = min(number(r, "read_percent") for r in rounds)
    cells = list(
        dict.fromkeys(str(r["cell"]) for r in rounds if both or r["read_percent"] == least)
    )
    lines = tuple(
        Line(
            label=cell,
            x=tuple(number(r, "round") for r in rounds if r["cell"] == cell),
            y=tuple(number(r, metric) * scale for r in rounds if r["cell"] == cell),
        )
        for cell in cells[:MAX_LINES]
    )
    last = int(max(number(r, "round") for r in rounds))
    what = "Each cell" if both else "Each cell with the largest share of writes"
    return Plot(
        name=f"convergence-{stage.name}-{metric.replace('_', '-')}",
        title=f"Steady-state convergence, {label.partition(' [')[0]}",
        caption=f"{what}, round by round.",
        alt=f"{label} of {len(lines)} cells over {last} rounds.",
        figure=LinesFigure(
            lines,
            "round",
            label,
            tuple((float(n), str(n)) for n in range(1, last + 1)),
            log_y=not both,
            latency=metric.endswith("_ns"),
        ),
    )


def _pre_writes(stage: StageResult, rounds: Sequence[Record]) -> Plot:
    """The writes before each round's cells."""
    drawn = _convergence(stage, rounds, "iops", "IOPS")
    return replace(
        drawn,
        name=f"pre-writes-{stage.name}",
        title="Writes before each round",
        caption="IOPS of the pre-writes, round by round.",
    )


# What a tracking variable is called on an axis, and what makes its numbers fit there.
AXES = {
    "iops": ("IOPS", 1.0),
    "throughput bytes per s": ("throughput [MB/s]", 1e-6),
    "mean ns": ("mean latency [ms]", 1e-6),
    "max ns": ("highest latency [ms]", 1e-6),
}


def tracked(tracking: str) -> tuple[str, str, str, float]:
    """Cell, metric as recorded, words for an axis and a factor, of a header's tracking variable."""
    cell, _, metric = tracking.rpartition(", ")
    label, scale = AXES.get(metric, (metric, 1.0))
    return cell, metric.replace(" ", "_"), label, scale


def _window(stage: StageResult, rounds: Sequence[Record], tracking: str, place: int) -> Plot:
    cell, name, label, scale = tracked(tracking)
    counted = [r for r in rounds if r["cell"] == cell and r.get("counted", True)]
    window = round_window(
        [number(r, name) * scale for r in counted], [int(number(r, "round")) for r in counted]
    )
    first, last = window.rounds[0], window.rounds[-1]
    unit = label.partition("[")[2].rstrip("]") or label
    allowed = format_count(window.allowed_slope_excursion)
    return Plot(
        name=f"window-{stage.name}-{place}",
        title=f"Measurement window: {cell}, {label.partition(' [')[0]}",
        caption=f"Rounds {first} to {last}; fit {window.fit}, correlation "
        f"{window.correlation:+.3f}; in {unit}: data excursion {format_count(window.excursion)} of "
        f"{format_count(window.allowed_excursion)} allowed, slope excursion "
        f"{format_count(window.slope_excursion)} of {allowed} allowed.",
        alt=f"{cell}, {label}, in rounds {first} to {last}, "
        f"average {format_count(window.average)}.",
        figure=WindowFigure(
            x=tuple(float(n) for n in window.rounds),
            blocks=window.values,
            window=drawn(window),
            x_label="round",
            y_label=label,
            rounds=True,
        ),
    )


def drawn(window: RoundWindow) -> Window:
    """The window with its average and the ends of its fit."""
    first, last = window.rounds[0], window.rounds[-1]
    fits = [window.intercept + window.slope * x for x in (first, last)]
    return Window(float(first), float(last), window.average, None, fits[0], fits[1])


def _by_block(stage: StageResult, means: Sequence[Record]) -> Plot:
    sizes = sorted({int(number(m, "block_bytes")) for m in means})
    lines = []
    for read in dict.fromkeys(int(number(m, "read_percent")) for m in means):
        own = sorted((m for m in means if m["read_percent"] == read), key=_block)
        lines.append(
            Line(
                f"{read}/{100 - read}",
                tuple(_block(m) for m in own),
                tuple(number(m, "iops") for m in own),
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
    return number(record, "block_bytes")


def _columns(
    stage: StageResult, means: Sequence[Record], metric: str, label: str, *, scale: float = 1.0
) -> Plot:
    sizes = sorted({int(number(m, "block_bytes")) for m in means})
    mixes = sorted({int(number(m, "read_percent")) for m in means})
    found = {(m["block_bytes"], m["read_percent"]): number(m, metric) * scale for m in means}
    return Plot(
        name=f"columns-{stage.name}-{metric.replace('_', '-')}",
        title=f"{label[:1].upper()}{label[1:]} over block size and mix",
        caption="As the standard draws it; the table has the numbers.",
        alt=f"{label} for {len(sizes)} block sizes and {len(mixes)} mixes.",
        figure=ColumnsFigure(
            tuple(format_size(size) for size in sizes),
            tuple(f"{read}/{100 - read}" for read in mixes),
            tuple(tuple(found.get((size, read), 0.0) for size in sizes) for read in mixes),
            "block size",
            "reads/writes",
            label,
        ),
    )


def _by_threads(cells: Sequence[Record], x: str, y: str) -> tuple[Line, ...]:
    threads = sorted({int(number(m, "threads")) for m in cells}, reverse=True)
    lines = []
    for count in threads[:MAX_LINES]:
        own = sorted((m for m in cells if m["threads"] == count), key=lambda m: number(m, "queue"))
        lines.append(
            Line(
                f"{count} threads" if count > 1 else "1 thread",
                tuple(number(m, x) for m in own),
                tuple(number(m, y) for m in own),
            )
        )
    return tuple(lines)


def _demand_cpu(stage: StageResult, cells: Sequence[Record]) -> Plot:
    queues = sorted({number(m, "queue") for m in cells})
    lines = _by_threads(cells, "queue", "cpu_percent")
    return Plot(
        name=f"demand-cpu-{stage.name}",
        title="CPU use of the generator",
        caption="User and system time of its busiest thread; means over the window. At 90 % the "
        "host is measured, not the drive.",
        alt=f"CPU use with {len(lines)} numbers of threads over {len(queues)} queue depths.",
        figure=LinesFigure(
            lines, "outstanding requests per thread", "% of a core",
            tuple((queue, f"{queue:g}") for queue in queues), log_x=True,
        ),
    )  # fmt: skip


def _over_outstanding(
    stage: StageResult, cells: Sequence[Record], metric: str, label: str, *, scale: float = 1.0
) -> Plot:
    """Over threads times queue: cells of the same product lie above each other."""
    own = sorted(cells, key=_outstanding)
    line = Line(
        "",
        tuple(_outstanding(m) for m in own),
        tuple(number(m, metric) * scale for m in own),
    )
    most = int(max(line.x))
    ticks = tuple((float(2**n), str(2**n)) for n in range(most.bit_length()) if 2**n <= most)
    name = label.partition(" [")[0]
    return Plot(
        name=f"outstanding-{stage.name}-{metric.replace('_', '-')}",
        title=f"{name[:1].upper()}{name[1:]} over all outstanding requests",
        caption="Threads times requests of each; means over the window. Several pairs have the "
        "same product.",
        alt=f"{label} of {len(own)} cells over up to {most} outstanding requests.",
        figure=LinesFigure((line,), "outstanding requests", label, ticks, log_x=True),
    )


def _outstanding(record: Record) -> float:
    return number(record, "threads") * number(record, "queue")


def _demand_variation(stage: StageResult, cells: Sequence[Record]) -> Plot:
    queues = sorted({number(m, "queue") for m in cells})
    lines = _by_threads(cells, "queue", "iops")
    return Plot(
        name=f"demand-variation-{stage.name}",
        title="Demand variation",
        caption="IOPS over the outstanding requests of each thread; means over the window.",
        alt=f"IOPS of {len(lines)} numbers of threads over {len(queues)} queue depths.",
        figure=LinesFigure(
            lines, "outstanding requests per thread", "IOPS",
            tuple((queue, f"{queue:g}") for queue in queues), log_x=True,
        ),
    )  # fmt: skip


def _demand_intensity(stage: StageResult, cells: Sequence[Record]) -> Plot:
    cells = [m for m in cells if number(m, "mean_ns") > 0]
    lines = _by_threads(cells, "iops", "mean_ns")
    most = max(number(m, "iops") for m in cells)
    return Plot(
        name=f"demand-intensity-{stage.name}",
        title="Demand intensity",
        caption="Mean response over the rate; where a curve turns up, more requests only wait.",
        alt=f"Mean response over IOPS for {len(lines)} numbers of threads.",
        figure=LinesFigure(
            lines, "IOPS", "mean response", round_ticks(0.0, most), log_y=True, latency=True
        ),
    )


def round_ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    """At most seven places on an axis, in steps of 1, 2 or 5 times a power of ten."""
    rough = max(high - low, 1e-9) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(n * power for n in (1, 2, 5, 10) if n * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple((n * step, format_count(n * step)) for n in range(first, last + 1))
