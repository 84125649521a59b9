"""Experiments over the host as figures: a row per variant, or a line over those in order."""

from collections.abc import Iterator, Mapping, Sequence

from ssdbench.model.result import StageResult
from ssdbench.report.figures import Dots, DotsFigure, Line, LinesFigure
from ssdbench.report.view import filesystems
from ssdbench.report.view.page import Block, Plot, Plots

Record = Mapping[str, object]

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

# What else a kind of trial is about, besides IOPS: record, title, words of its axis.
_MORE: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "cpu_cost": (
        ("iops_per_core", "I/Os per CPU second of the whole host", "IOPS per core"),
        ("iops_per_watt", "I/Os per joule of the CPUs", "IOPS per watt"),
    ),
    "queue": (("in_flight", "Requests in the drive's queue", "requests in flight"),),
    "depth": (("in_flight", "Requests in the drive's queue", "requests in flight"),),
    "interrupts": (("iops_per_core", "I/Os per CPU second of the whole host", "IOPS per core"),),
    "engines": (("lat_p50_ns", "Median latency", "latency"),),
    "page_cache": (("lat_p50_ns", "Median latency", "latency"),),
}

SURFACE = "surface"
APPLICATIONS = "applications"
APPLICATIONS_LEAD = (
    "Bytes that each program read and wrote by its own account, and those of fio with the same mix "
    "of requests. Programs go through the page cache, so this is not what reached the drive: that, "
    "and each program's own operations per second, are in cells.csv. Medians; they compare "
    "settings and are no numbers to plan on."
)
_ORDERED = ("depth", "file_writers", "file_mix")  # kinds whose variants have an order


def figure(stage: StageResult) -> list[Block]:
    """What a trial compares; empty for a stage that is no trial."""
    medians = stage.data.get("medians")
    if not isinstance(medians, list) or not medians or stage.kind == filesystems.KIND:
        return []
    if any("device_ns" in record for record in medians):
        return [Plots([_path(stage, medians)], wide=True)]
    if len(medians) < 2:
        return []
    if stage.kind == SURFACE:
        return [Plots(list(_surface(stage, medians)))]
    if stage.kind == APPLICATIONS:
        return [Plots([_applications(stage, medians)], wide=True)]
    draw = _lines if stage.kind in _ORDERED else _rows
    plots = [draw(stage, medians, "iops", stage.title, "IOPS", LEAD)]
    for name, title, axis in _MORE.get(stage.kind, ()):
        if all(record.get(name) for record in medians):
            plots.append(draw(stage, medians, name, title, axis, ""))
    return [Plots(plots, wide=stage.kind not in _ORDERED)]


def _surface(stage: StageResult, medians: Sequence[Record]) -> Iterator[Plot]:
    """One plot per direction: throughput over record size, a line per file size."""
    directions = dict.fromkeys(str(r["workload"]).rpartition(", ")[0] for r in medians)
    for direction in sorted(directions, key=lambda words: (words.endswith("write"), words)):
        own: list[Record] = [
            {
                **record,
                "workload": f"{str(record['workload']).rpartition(', ')[2]} file",
                "rate": _number(record, "bw_bytes_per_s") / 1e6,
            }
            for record in medians
            if str(record["workload"]).startswith(f"{direction}, ")
        ]
        title = f"{direction.capitalize()} over record size"
        yield _lines(stage, own, "rate", title, "MB/s", "", direction)


def _applications(stage: StageResult, medians: Sequence[Record]) -> Plot:
    """A row per program and scheduler: the program, and fio in its place."""
    found: dict[str, list[tuple[str, float]]] = {}
    for record in medians:
        program, beside, _ = str(record["workload"]).partition(", ")
        label = f"{program}, {record['variant']}"
        what = "fio with the same mix" if beside else "the program"
        found.setdefault(label, []).append((what, _number(record, "bw_bytes_per_s") / 1e6))
    rows = tuple(Dots(label=label, values=tuple(values)) for label, values in found.items())
    alt = "; ".join(
        f"{row.label}: " + ", ".join(f"{name} {value:.1f} MB/s" for name, value in row.values)
        for row in rows
    )
    drawn = DotsFigure(rows, x_label="MB/s", latency=False)
    return Plot(f"trial-{stage.name}-programs", stage.title, APPLICATIONS_LEAD, alt, drawn)


def _rows(
    stage: StageResult, medians: Sequence[Record], name: str, title: str, axis: str, caption: str
) -> Plot:
    """A row per variant: they have no order that a line could follow."""
    variants = dict.fromkeys(str(record["variant"]) for record in medians)
    rows = tuple(
        Dots(
            label=variant,
            values=tuple(
                (str(r["workload"]), _number(r, name)) for r in medians if r["variant"] == variant
            ),
        )
        for variant in variants
    )
    drawn = DotsFigure(rows, x_label=axis, latency=name.endswith("_ns"))
    alt = f"{axis} under {', '.join(variants)}."
    return Plot(f"trial-{stage.name}-{name}", title, caption, alt, drawn)


def _lines(
    stage: StageResult,
    medians: Sequence[Record],
    name: str,
    title: str,
    axis: str,
    caption: str,
    part: str = "",
) -> Plot:
    variants = list(dict.fromkeys(str(record["variant"]) for record in medians))
    place = {variant: float(n) for n, variant in enumerate(variants)}
    drawn = LinesFigure(
        lines=tuple(_line_of_each(medians, name, place)),
        x_label="",
        y_label=axis,
        ticks=tuple((place[variant], variant) for variant in variants),
        latency=name.endswith("_ns"),
    )
    alt = f"{axis} of {len(drawn.lines)} workloads under {', '.join(variants)}."
    suffix = f"{name}-{part}".strip("-").replace(" ", "-")
    return Plot(f"trial-{stage.name}-{suffix}", title, caption, alt, drawn)


def _line_of_each(
    medians: Sequence[Record], name: str, place: Mapping[str, float]
) -> Iterator[Line]:
    for workload in dict.fromkeys(str(record["workload"]) for record in medians):
        own = sorted(
            (r for r in medians if r["workload"] == workload),
            key=lambda r: place[str(r["variant"])],
        )
        ranged = name == "iops"
        yield Line(
            label=workload,
            x=tuple(place[str(r["variant"])] for r in own),
            y=tuple(_number(r, name) for r in own),
            low=tuple(_number(r, "iops_least") for r in own) if ranged else (),
            high=tuple(_number(r, "iops_most") for r in own) if ranged else (),
        )


def _path(stage: StageResult, medians: Sequence[Record]) -> Plot:
    rows = tuple(
        Dots(
            label=f"{record['workload']}, {record['variant']}",
            values=tuple(
                (layer.removesuffix("_ns"), _number(record, layer))
                for layer in LAYERS
                if layer in record
            ),
        )
        for record in medians
        if "device_ns" in record
    )
    alt = "; ".join(
        f"{row.label}: " + ", ".join(f"{name} {value:.0f} ns" for name, value in row.values)
        for row in rows
    )
    return Plot(f"path-{stage.name}", stage.title, PATH_LEAD, alt, DotsFigure(rows))


def _number(record: Record, name: str) -> float:
    return float(str(record[name]))
