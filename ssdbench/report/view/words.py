"""Write numbers, names and stored records as the page shows them."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from ssdbench.model.finding import Severity
from ssdbench.model.point import Estimate, PointResult, Verdict
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import Point, Workload
from ssdbench.report.view.page import Cell, Column, Facts, Table
from ssdbench.units import (
    format_bound,
    format_count,
    format_duration,
    format_figure,
    format_ns,
    format_rate,
    format_size,
    listed,
)

NONE = "–"
DRIVES = "Drives"  # title of a column in the first table
NO_BREAK = "\u00a0"

VERDICT_TONES: dict[Verdict, str] = {
    "VALIDATED": "good",
    "NOT VALIDATED": "bad",
    "MEASURED, NOT PLANNABLE": "warn",
}
SEVERITY_TONES = {Severity.INVALIDATES: "bad", Severity.WARNS: "warn", Severity.NOTES: "note"}
SEVERITY_WORDS = {
    Severity.INVALIDATES: "reason for NOT VALIDATED",
    Severity.WARNS: "warning",
    Severity.NOTES: "note",
}
KIND_WORDS = {
    TargetKind.DRIVE: "a whole drive",
    TargetKind.SIMULATED: "a simulated drive",
    TargetKind.FILE: "a regular file",
    TargetKind.LOOP: "a loop device",
    TargetKind.MAPPED: "a mapped device (dm, md or the like)",
    TargetKind.VIRTUAL: "a virtual disk",
    TargetKind.UNPROVEN: "a disk that may be more than one drive",
}

GLOSSARY = (
    ("IOPS", "Reads or writes that the drive completes in one second."),
    (
        "Lower bound",
        "The rate to plan on. With 95 % confidence, at least 95 of 100 periods of ten minutes have "
        "a mean rate of this bound or more. Single minutes can be slower. If the rate goes up and "
        "down regularly, the periods are longer; if it moves between two levels, this is the bound "
        "of the lower level. The bound holds for this drive, this workload and these conditions, "
        "not for other drives.",
    ),
    ("95 % interval", "The range of the long-run mean, with 95 % confidence. Do not plan on it."),
    ("CV", "Coefficient of variation: the standard deviation of the repeats in percent of "
     "their mean. It says how much the repeats differ."),
    ("Steady state", "The rate no longer changes while the same workload runs on. Before steady "
     "state a drive still has unused spare area, and its rates are too high to plan on."),
    ("Repeat", "One more measurement of the same point. Points are measured in passes, each in a "
     "new random order. The report shows all repeats; none was left out or run again."),
    ("Settle", "The start of each repeat, while the drive adapts to the new workload. It does not "
     "count for the mean. Once the spare area is written, its seconds count for the bound."),
    ("p99.9", "A percentile of latency: 999 of 1,000 I/Os took this time or less. It is computed "
     "from the latencies of all repeats together."),
    ("Drive fill", "As many written bytes as the tested part of the drive can hold."),
    ("QD 32 × 4", "Four jobs, each keeping 32 I/Os in flight."),
    ("≈, too few", "≈ marks an indicative percentile: fewer than 100 independent I/Os were slower. "
     "If fewer than 50 were slower, the percentile is not shown."),
)  # fmt: skip


_QUEUE = re.compile(r"QD ([\d,]+)(?: x (?=[\d,]))?")
_ONE_JOB = re.compile(r"(QD [\d,]+) x 1(?!,?\d)")  # in labels of runs by older versions


def workload_label(workload: Workload) -> str:
    """Format a workload, such as `4 KiB random write, QD 32 × 4`."""
    return times(workload.label())


def times(label: str) -> str:
    """Write `x` as × in a workload's label, and keep its queue depth on one line."""
    text = _QUEUE.sub(
        lambda found: found[0].replace("x", "×").replace(" ", NO_BREAK), _ONE_JOB.sub(r"\1", label)
    )
    return text.replace("poisson", "Poisson")


def several_spans(points: Sequence[Point]) -> bool:
    """Return whether the points use different shares of the drive."""
    return len({point.span_percent for point in points}) > 1


def point_label(point: Point) -> str:
    """Return the label of a point: its workload, after the share of the drive if one was set."""
    label = workload_label(point.workload)
    if point.fill_percent is not None:
        label = f"{point.fill_percent:g} % full: {label}"
    return label if point.span_percent is None else f"{point.span_percent:g} % of drive: {label}"


def letter(place: int) -> str:
    """Return the name of a run by its place on the command line, from 0: A, B … Z, AA."""
    return (letter(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def how_often(least: int, most: int) -> str:
    """Format how often something happened, such as `once`, `10 times` or `3 to 10 times`."""
    if least != most:
        return f"{least} to {most} times"
    return {0: "never", 1: "once", 2: "twice"}.get(most, f"{most} times")


def percent(share: float) -> str:
    """Format a share, such as `12.5 %`."""
    return f"{100 * share:.3g} %"


def count(value: float | None) -> str:
    """Format a rate or a count; a dash if the value is missing."""
    return NONE if value is None or not math.isfinite(value) else format_count(value)


def bound(value: float | None) -> str:
    """Format a lower bound, rounded down; a dash if it is missing."""
    return NONE if value is None or not math.isfinite(value) else format_bound(value)


def quantity(value: float | None, unit: str) -> str:
    """Format a value with its unit; a dash if it is missing."""
    if value is None or not math.isfinite(value):
        return NONE
    match unit:
        case "ns":
            return format_ns(value)
        case "B/s":
            return format_rate(value)
        case "1/s":
            return f"{format_count(value)} IOPS"
        case "s":
            return format_duration(value)
        case "W" | "J/GB":
            return f"{format_figure(value)} {unit}"
        case "1/J":
            return f"{format_count(value)} IOPS/W"
        case _:
            return f"{format_count(value)} {unit}".strip()


class TimeUnit(NamedTuple):
    """The unit of a time axis, and its length in seconds."""

    seconds: float
    name: str


def time_unit(length_s: float) -> TimeUnit:
    """Choose hours, minutes or seconds for an axis of this length."""
    if length_s > 3 * 3600:
        return TimeUnit(3600.0, "hours")
    return TimeUnit(60.0, "minutes") if length_s > 300 else TimeUnit(1.0, "seconds")


def scaled(unit: str) -> tuple[float, str]:
    """Return the number by which an axis divides its rates, and the unit of the axis."""
    return (1e6, "MB/s") if unit == "B/s" else (1.0, "IOPS")


def interval(estimate: Estimate | None) -> str:
    """Format the two-sided 95 % interval without its unit; a dash if it is missing."""
    return span(estimate.ci_low, estimate.ci_high) if estimate else NONE


def watts(estimate: Estimate | None) -> str:
    """Format a power or an energy with its 95 % interval; a dash if it is missing."""
    if estimate is None:
        return NONE
    ends = (estimate.ci_low, estimate.ci_high)
    said = "" if None in ends else f" ({' to '.join(format_figure(end or 0.0) for end in ends)})"
    return f"{quantity(estimate.value, estimate.unit)}{said}"


def told_by(point: PointResult) -> str:
    """Return the source of a point's power values, such as `meter`; empty without power values."""
    sources = dict.fromkeys(r.power.source for r in point.repeats if r.power is not None)
    return ", ".join({"meter": "meter", "drive": "drive's health log"}[one] for one in sources)


def span(low: float | None, high: float | None) -> str:
    """Format a range of counts, such as `419.3 to 457.7`; a dash if one end is missing."""
    return NONE if low is None or high is None else f"{count(low)} to {count(high)}"


def verdict_cell(verdict: Verdict) -> Cell:
    """Return a table cell with a verdict, in the verdict's colour."""
    return Cell(verdict, VERDICT_TONES[verdict])


def latency_cell(estimate: Estimate | None) -> Cell:
    """Return a cell with a latency; the sign `≈` means that few I/Os support the percentile."""
    if estimate is None:
        return Cell(NONE)
    if estimate.at_least:
        return Cell(f"above {format_ns(estimate.value)}", "muted", hint="upper limit unknown")
    if estimate.status == "suppressed":
        return Cell("too few", "muted", hint="fewer than 50 independent I/Os were slower")
    mark = "≈ " if estimate.status == "indicative" else ""
    return Cell(mark + format_ns(estimate.value), "muted" if mark else "")


def link(relative: str) -> str:
    """Return a link to a file of the run; empty if the path would leave the run directory."""
    if not relative or relative.startswith("/") or ".." in relative.split("/"):
        return ""
    return quote(relative)


_SUFFIXES: dict[str, Callable[[float], str]] = {  # the first match counts
    "_bytes_per_s": format_rate,
    "_bytes": lambda size: format_size(int(size)),
    "_s": format_duration,
    "_ns": format_ns,
    "_us": lambda time: format_ns(1000 * time),
}
_RATE = re.compile(r"^(?P<what>bytes|mb|\w+)_per_s(?:_(?P<when>\w+))?$")
_SHARE_OF = re.compile(r"_for_\d+_percent$")


def fact(name: str, value: object) -> tuple[str, str]:
    """Format a stored name and its value; `block_bytes`, 4096 become `Block`, `4 KiB`."""
    if value is None:
        return _title(name.removesuffix("_bytes").removesuffix("_ns")), NONE
    if not isinstance(value, int | float) or isinstance(value, bool) or _SHARE_OF.search(name):
        return _title(name), plain(value)
    rate = _RATE.match(name)
    if rate and not name.endswith("_bytes_per_s"):
        return _rate(rate["what"], rate["when"], value)
    for suffix, words in _SUFFIXES.items():
        if name.endswith(suffix):
            return _title(name.removesuffix(suffix)), words(value)
    if name.endswith("_percent"):
        return _title(name.removesuffix("_percent")), f"{value:.4g} %"
    return _title(name), plain(value)


def _rate(what: str, when: str | None, value: float) -> tuple[str, str]:
    """Format a rate; `mb_per_s`, 105 become `Rate`, `105 MB/s`."""
    match what:
        case "bytes":
            return _title(when or "rate"), format_rate(value)
        case "mb":
            return _title(f"rate_{when}" if when else "rate"), f"{value:.4g} MB/s"
    return _title(f"{what}_per_second" + (f"_{when}" if when else "")), plain(value)


def plain(value: object) -> str:
    """Format a JSON value of any type."""
    match value:
        case None:
            return NONE
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}" if abs(value) >= 10_000 else str(value)
        case float():
            return format_count(value)
        case list() | tuple():
            return ", ".join(plain(item) for item in value)
        case dict():
            return ", ".join(f"{key}: {plain(item)}" for key, item in value.items())
        case _:
            return str(value)


def _title(name: str) -> str:
    words = name.replace("_", " ").strip()
    for short in ("iops", "lba", "qd", "cv", "waf", "dwpd", "cpu"):
        words = " ".join(short.upper() if word == short else word for word in words.split(" "))
    return words if words.startswith("fio") else words[:1].upper() + words[1:]


def sentence(text: str) -> str:
    """Make a message a sentence: with a capital first letter and a full stop at the end."""
    text = text.strip()
    if not text:
        return ""
    first = text.split(maxsplit=1)[0]
    start = text[:1].upper() if first.isalpha() else text[:1]  # keep sim:NAME or /dev/NAME
    return start + text[1:] + ("" if text[-1] in ".!?" else ".")


def mark_unvalidated(text: str, why_not: str) -> str:
    """Put "not validated" and the reason before a text; without a reason, change nothing."""
    return f"not validated ({why_not}): {text}" if why_not else text


def marked(text: str, verdict: str) -> str:
    """Return a number of drives, followed by its verdict unless the verdict is VALIDATED."""
    return text if verdict == "VALIDATED" else f"{text} {verdict}"


def in_detail(text: str, verdict: str) -> str:
    """Return a number for a table of details, followed by NOT VALIDATED if it is not validated."""
    return text if verdict == "INCOMPLETE" else marked(text, verdict)


def moment(iso: str | None) -> str:
    """Format an ISO 8601 time as `2026-11-21 02:30:00 UTC`; a dash if it is missing."""
    if not iso:
        return NONE
    text = iso.replace("T", " ").removesuffix("Z").removesuffix("+00:00")
    return f"{text.split('.')[0]} UTC"


def simulated_label(target: TargetInfo) -> str:
    """Return a text such as `SIMULATED: x25m-g2-160, seed 7`; empty for a real drive."""
    if not target.modelled:
        return ""
    if target.simulated_by:
        return f"SIMULATED: {target.name}, by {target.simulated_by.replace('`', '')}"
    model = target.sim_model or target.model or target.name
    seed = "unknown" if target.sim_seed is None else str(target.sim_seed)
    named = any(part.startswith("seed=") for part in model.split(","))
    return f"SIMULATED: {model}" if named else f"SIMULATED: {model}, seed {seed}"


def simulated_labels(targets: Iterable[TargetInfo]) -> str:
    """Return one label for several simulated drives, a common seed once; empty if one is real."""
    labels = tuple(dict.fromkeys(map(simulated_label, targets)))
    if not all(labels):
        return ""
    drives = [label.removeprefix("SIMULATED: ").rpartition(", seed ") for label in labels]
    names, seeds = [drive for drive, _, _ in drives], {seed for _, _, seed in drives}
    if all(names) and len(seeds) == 1:
        return f"SIMULATED: {listed(names)}, seed {seeds.pop()}"
    return f"SIMULATED: {listed([label.removeprefix('SIMULATED: ') for label in labels])}"


MAX_ROWS = 500
FOLDED_FROM = 30  # rows from which a table is folded


def facts(caption: str, values: Iterable[tuple[str, object]]) -> Facts:
    """Return stored names and values as a list of facts."""
    return Facts(caption, [fact(name, value) for name, value in values])


def record_table(name: str, records: Sequence[Mapping[str, object]]) -> Table:
    """Return a table with a row for each record and a column for each name."""
    keys = list(dict.fromkeys(key for record in records for key in record))
    columns = [Column(fact(key, 0)[0], number=_all_numbers(key, records)) for key in keys]
    rows = [
        [Cell(fact(key, record[key])[1] if key in record else NONE) for key in keys]
        for record in records[:MAX_ROWS]
    ]
    more = f" (first {MAX_ROWS} of {len(records)})" if len(records) > MAX_ROWS else ""
    title = fact(name, "")[0] + more
    return Table(title, columns, rows, fold=title if len(rows) > FOLDED_FROM else "")


def record_tables(data: Mapping[str, object]) -> Iterator[Table]:
    """Yield a table for each value that is a list of records."""
    for name, value in data.items():
        if isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value):
            yield record_table(name, value)


def _all_numbers(key: str, records: Sequence[Mapping[str, object]]) -> bool:
    known = [record[key] for record in records if record.get(key) is not None]
    return bool(known) and all(type(value) in (int, float) for value in known)
