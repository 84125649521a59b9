"""Records of one form as a table, whatever they are about."""

from collections.abc import Iterator, Mapping, Sequence

from ssdbench.report.view import words
from ssdbench.report.view.page import Cell, Column, Table

MAX_ROWS = 500
FOLDED_FROM = 30  # rows


def table(name: str, records: Sequence[Mapping[str, object]]) -> Table:
    """A row for each record, a column for each name in any of them."""
    keys = list(dict.fromkeys(key for record in records for key in record))
    columns = [Column(words.fact(key, 0)[0], number=_counted(key, records)) for key in keys]
    rows = [_row(record, keys) for record in records[:MAX_ROWS]]
    more = f" (first {MAX_ROWS} of {len(records)})" if len(records) > MAX_ROWS else ""
    title = words.fact(name, "")[0] + more
    return Table(title, columns, rows, fold=title if len(rows) > FOLDED_FROM else "")


def tables(data: Mapping[str, object]) -> Iterator[Table]:
    """Every list of records among values, as a table."""
    for name, value in data.items():
        if isinstance(value, list | tuple) and value and all(isinstance(v, dict) for v in value):
            yield table(name, value)


def _counted(key: str, records: Sequence[Mapping[str, object]]) -> bool:
    """Whether all that is known of it are numbers, which stand flush right with their units."""
    known = [record[key] for record in records if record.get(key) is not None]
    return bool(known) and all(type(value) in (int, float) for value in known)


def _row(record: Mapping[str, object], keys: Sequence[str]) -> list[Cell]:
    return [Cell(words.fact(key, record[key])[1] if key in record else words.NONE) for key in keys]
