"""Words for numbers, names and records, for readers who are no statisticians."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ssdbench.model.finding import Severity
from ssdbench.model.point import Estimate, Verdict
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import Point, Workload
from ssdbench.report.view.page import Cell, Column, Table
from ssdbench.units import (
    format_bound,
    format_count,
    format_duration,
    format_ns,
    format_rate,
    format_size,
)

NONE = "–"
NO_BREAK = "\u00a0"

VERDICT_TONES: dict[Verdict, str] = {
    "VALIDATED": "good",
    "NOT VALIDATED": "bad",
    "MEASURED, NOT PLANNABLE": "warn",
}
SEVERITY_TONES = {Severity.INVALIDATES: "bad", Severity.WARNS: "warn", Severity.NOTES: "note"}
SEVERITY_WORDS = {
    Severity.INVALIDATES: "keeps it from being validated",
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
    TargetKind.UNPROVEN: "a disk that does not show that it is one drive",
}

GLOSSARY = (
    ("IOPS", "Reads or writes that the drive completes in one second."),
    (
        "Lower bound",
        "The rate to plan on. Computed so that, with 95 % confidence, the mean rate reaches it in "
        "at least 95 out of 100 stretches of ten minutes (longer where the rate has a rhythm); "
        "single minutes can be slower. Where the rate moves between two levels, it is that of the "
        "lower one. It speaks of this drive, this workload and these conditions, not of other "
        "drives.",
    ),
    ("95 % interval", "Where the long-run mean lies, with 95 % confidence. No bound for planning."),
    ("CV", "How much the repeats differ: their standard deviation in percent of their mean."),
    ("Steady state", "The rate no longer changes while the same work goes on. Before that, a drive "
     "lives on spare area that it will not have again; such rates are too good to plan on."),
    ("Repeat", "A separate measurement of the same point, in another, freshly shuffled pass over "
     "all points. Every repeat that was run is shown; none was dropped or run again."),
    ("Settle", "The start of each repeat, in which the drive gets used to the new work. Not part "
     "of the window; once the spare area is written, its seconds count for the bound."),
    ("p99.9", "999 of 1,000 I/Os were at least this fast. Latencies of all repeats are merged "
     "before a percentile is taken."),
    ("Drive fill", "As many bytes as the part of the drive under test holds, written once."),
    ("QD 32 × 4", "Four jobs, each keeping 32 I/Os in flight."),
    ("Indicative, suppressed", "A percentile with fewer than 100 independent slower I/Os behind it "
     "is marked ≈; with fewer than 50 it is not printed."),
)  # fmt: skip


_QUEUE = re.compile(r"QD ([\d,]+) x ([\d,]+)")


def workload_label(workload: Workload) -> str:
    """`4 KiB random write, QD 32 × 4`."""
    return times(workload.label())


def times(label: str) -> str:
    """A workload's label with a proper sign, and a queue that stays on one line."""
    told = _QUEUE.sub(lambda found: f"QD {found[1]} × {found[2]}".replace(" ", NO_BREAK), label)
    return told.replace("poisson", "Poisson")


def several_spans(points: Sequence[Point]) -> bool:
    """Whether points differ in the share of the drive that they touch."""
    return len({point.span_percent for point in points}) > 1


def point_label(point: Point) -> str:
    """A workload, and the share of the drive where it is not the whole."""
    label = workload_label(point.workload)
    return label if point.span_percent is None else f"{point.span_percent:g} % of drive: {label}"


def how_often(least: int, most: int) -> str:
    """`once`, `twice`, `10 times`, `3 to 10 times`."""
    if least != most:
        return f"{least} to {most} times"
    return {0: "never", 1: "once", 2: "twice"}.get(most, f"{most} times")


def count(value: float | None) -> str:
    """A rate or count, or a dash."""
    return NONE if value is None or not math.isfinite(value) else format_count(value)


def bound(value: float | None) -> str:
    """A lower bound, rounded down everywhere alike, or a dash."""
    return NONE if value is None or not math.isfinite(value) else format_bound(value)


def quantity(value: float | None, unit: str) -> str:
    """A value in the words of its unit."""
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
        case _:
            return f"{format_count(value)} {unit}".strip()


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """A unit for a time axis."""

    seconds: float
    name: str


def time_unit(length_s: float) -> TimeUnit:
    """The unit in which a length of time has a readable number of ticks."""
    if length_s > 3 * 3600:
        return TimeUnit(3600.0, "hours")
    if length_s > 300:
        return TimeUnit(60.0, "minutes")
    return TimeUnit(1.0, "seconds")


def scaled(unit: str) -> tuple[float, str]:
    """The divisor and the axis label of a rate."""
    return (1e6, "MB/s") if unit == "B/s" else (1.0, "IOPS")


def interval(estimate: Estimate) -> str:
    """The two-sided 95 % interval, without its unit."""
    if estimate.ci_low is None or estimate.ci_high is None:
        return NONE
    return f"{count(estimate.ci_low)} to {count(estimate.ci_high)}"


def verdict_cell(verdict: Verdict) -> Cell:
    """A verdict in its colour; the word alone says it as well."""
    return Cell(verdict, VERDICT_TONES[verdict])


def latency_cell(estimate: Estimate | None) -> Cell:
    """A latency with the mark of how far it can be trusted."""
    if estimate is None:
        return Cell(NONE)
    if estimate.at_least:
        return Cell(f"above {format_ns(estimate.value)}", "muted", hint="its upper end is unknown")
    if estimate.status == "suppressed":
        return Cell("too few", "muted", hint="fewer than 50 independent I/Os lie beyond it")
    mark = "≈ " if estimate.status == "indicative" else ""
    return Cell(mark + format_ns(estimate.value), "muted" if mark else "")


def link(relative: str) -> str:
    """A link to a file of the run, or nothing for a path that leads out of it."""
    if not relative or relative.startswith("/") or ".." in relative.split("/"):
        return ""
    return quote(relative)


_SUFFIXES: dict[str, Callable[[float], str]] = {  # the first that fits
    "_bytes_per_s": format_rate,
    "_bytes": lambda size: format_size(int(size)),
    "_s": format_duration,
    "_ns": format_ns,
    "_us": lambda time: format_ns(1000 * time),
}
_RATE = re.compile(r"^(?P<what>bytes|mb|\w+)_per_s(?:_(?P<when>\w+))?$")
_SHARE_OF = re.compile(r"_for_\d+_percent$")


def fact(name: str, value: object) -> tuple[str, str]:
    """`block_bytes: 4096` as `block: 4 KiB`."""
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
    """`mb_per_s: 105` as `Rate: 105 MB/s`, `queries_per_s: 12` as `Queries per second: 12`."""
    match what:
        case "bytes":
            return _title(when or "rate"), format_rate(value)
        case "mb":
            return _title(f"rate_{when}" if when else "rate"), f"{value:.4g} MB/s"
    return _title(f"{what}_per_second" + (f"_{when}" if when else "")), plain(value)


def plain(value: object) -> str:
    """Any JSON value in words."""
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
    """A message with a capital letter and a full stop."""
    text = text.strip()
    if not text:
        return ""
    first = text.split(maxsplit=1)[0]
    start = text[:1].upper() if first.isalpha() else text[:1]  # not of sim:NAME or /dev/NAME
    return start + text[1:] + ("" if text[-1] in ".!?" else ".")


def mark_unvalidated(text: str, why_not: str) -> str:
    """`text`, and in the same sentence that it is not VALIDATED, where something says so."""
    return f"not validated ({why_not}): {text}" if why_not else text


def moment(iso: str | None) -> str:
    """`2026-11-21 02:30:00 UTC` of an ISO 8601 time."""
    if not iso:
        return NONE
    text = iso.replace("T", " ").removesuffix("Z").removesuffix("+00:00")
    return f"{text.split('.')[0]} UTC"


def simulated_label(target: TargetInfo) -> str:
    """`SIMULATED: x25m-g2-160, seed 7`; empty for a target that is real."""
    if not target.simulated:
        return ""
    model = target.sim_model or target.model or target.name
    seed = "unknown" if target.sim_seed is None else str(target.sim_seed)
    return f"SIMULATED: {model}, seed {seed}"


MAX_ROWS = 500
FOLDED_FROM = 30  # rows


def record_table(name: str, records: Sequence[Mapping[str, object]]) -> Table:
    """A row for each record, a column for each name in any of them."""
    keys = list(dict.fromkeys(key for record in records for key in record))
    columns = [Column(fact(key, 0)[0], number=_all_numbers(key, records)) for key in keys]
    rows = [_record_row(record, keys) for record in records[:MAX_ROWS]]
    more = f" (first {MAX_ROWS} of {len(records)})" if len(records) > MAX_ROWS else ""
    title = fact(name, "")[0] + more
    return Table(title, columns, rows, fold=title if len(rows) > FOLDED_FROM else "")


def record_tables(data: Mapping[str, object]) -> Iterator[Table]:
    """Every list of records among values, as a table."""
    for name, value in data.items():
        if isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value):
            yield record_table(name, value)


def _all_numbers(key: str, records: Sequence[Mapping[str, object]]) -> bool:
    """Whether all that is known of it are numbers, which stand flush right with their units."""
    known = [record[key] for record in records if record.get(key) is not None]
    return bool(known) and all(type(value) in (int, float) for value in known)


def _record_row(record: Mapping[str, object], keys: Sequence[str]) -> list[Cell]:
    return [Cell(fact(key, record[key])[1] if key in record else NONE) for key in keys]
