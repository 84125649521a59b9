"""The table of a stage that compares: medians of its starts, with the least and the most rate."""

from collections.abc import Mapping, Sequence

from ssdbench.model.result import StageResult
from ssdbench.report.view import words
from ssdbench.report.view.page import Cell, Column, Table
from ssdbench.units import format_count

Record = Mapping[str, object]

RECORDS = "medians"
FOLDED = 30  # rows from which the table is closed at first

# Columns that a general rule would call by a name too long, or not at all.
_TITLES = {
    "repeats": "Starts",
    "bw_bytes_per_s": "Throughput",
    "lat_p50_ns": "p50",
    "lat_p99_ns": "p99",
    "cpu_us_per_io": "fio, us per I/O",
    "iops_per_core": "IOPS per core",
    "iops_per_watt": "I/Os per joule",
    "merges_per_io": "Merges per I/O",
    "interrupts_per_io": "IRQs per I/O",
    "in_flight": "In flight",
}
_HINTS = {
    "cpu_us_per_io": "CPU time of fio itself",
    "iops_per_core": "By the CPU time of the whole host but for other programs",
    "in_flight": "Requests in the drive's queue, mean over the window",
}
_RANGE = ("iops_least", "iops_most")
_DISTURBED = "disturbed"
_STARTS = "repeats"
_TWICE = "host_cpu_us_per_io"  # the inverse of what stands beside it; cells.csv has it


def table(stage: StageResult) -> list[Table]:
    """A row for each variant under each workload; none for a stage that compares nothing."""
    stored = stage.data.get(RECORDS)
    if not isinstance(stored, list) or not stored:
        return []
    records: list[Record] = [record for record in stored if isinstance(record, Mapping)]
    starts = {str(record[_STARTS]) for record in records if _STARTS in record}
    ranged = starts != {"1"} and all(name in record for record in records for name in _RANGE)
    every = dict.fromkeys(key for record in records for key in record)
    keys = [key for key in every if _shown(key, records)]
    keys.sort(key=lambda key: key == _DISTURBED)  # last
    columns = [column for key in keys for column in _columns(key, records, ranged=ranged)]
    rows = [[cell for key in keys for cell in _cells(key, r, ranged=ranged)] for r in records]
    caption = _caption(starts) + (", with the least and the most rate" if ranged else "")
    return [Table(caption, columns, rows, fold=caption if len(rows) > FOLDED else "")]


def _caption(starts: set[str]) -> str:
    if starts == {"1"}:
        return "One start each"
    return f"Medians of {next(iter(starts))} starts" if len(starts) == 1 else "Medians"


def _shown(key: str, records: Sequence[Record]) -> bool:
    """Not what a neighbour or the caption has, and no disturbance where there was none."""
    if key == _DISTURBED:
        return any(record.get(key) for record in records)
    if key == _STARTS:
        return len({record.get(key) for record in records}) > 1
    return key not in (*_RANGE, _TWICE)


def _columns(key: str, records: Sequence[Record], *, ranged: bool) -> list[Column]:
    number = all(isinstance(r.get(key, 0), int | float) for r in records)
    own = Column(_TITLES.get(key, words.fact(key, 0)[0]), number, _HINTS.get(key, ""))
    return [own, Column("Least – most", number=True)] if key == "iops" and ranged else [own]


def _cells(key: str, record: Record, *, ranged: bool) -> list[Cell]:
    if key not in record:
        return [Cell(words.NONE)]
    if key == _DISTURBED:
        return [Cell(f"{record[key]} of {record.get(_STARTS, words.NONE)}")]
    own = Cell(words.fact(key, record[key])[1])
    if key != "iops" or not ranged:
        return [own]
    least, most = (format_count(float(str(record[name]))) for name in _RANGE)
    return [own, Cell(f"{least} – {most}")]
