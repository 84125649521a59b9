"""Query a store in SQL, with access only to its tables, and check a store for damage."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import getsizeof
from typing import Any

from ssdbench.errors import UsageError
from ssdbench.export.store import (
    SQL_TYPES,
    TABLES,
    Origin,
    Part,
    Store,
    readable,
    require_whole,
    selected,
)
from ssdbench.report.database import connection, fetch_all, interruptible, pattern, quoted
from ssdbench.units import counted, format_size

# A query uses at most about 900 MB: private memory, for which this is the limit, and about 70 MB of
# shared pages.
MOST_MEMORY_BYTES = 750 << 20
MEMORY = "500MB"  # limit for DuckDB, which uses more than it counts
# Limit for the rows of an answer in memory; printing them as a table or JSON needs several times as
# much.
MOST_ANSWER_BYTES = 24 << 20
ROWS_AT_ONCE = 1000
REFERENCE_BYTES = 8
TOO_LARGE = "Ask for less: fewer columns, LIMIT, or an aggregate such as count(*)."


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows that a query returned, the version of the method of these rows, and notes."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    method: int | None  # None if the store is empty
    notes: tuple[str, ...]


def ask(store: Store, sql: str, *, method: int | None = None, threads: int = 2) -> Answer:
    """Answer one SELECT over the views drives, points, repeats and findings.

    The views have the rows of one version of the method: the version `method`, or else the newest.
    Before the query, the SHA-256 of every file is compared with the stored one. Raises UsageError,
    HostLacks.
    """
    parts = store.parts()
    for part in parts:
        require_whole(part)
    methods = sorted({method for part in parts for method in part.methods})
    if method is not None and method not in methods:
        told = ", ".join(map(str, methods)) or "none"
        raise UsageError(f"the store has no run of method {method} (it has: {told})")
    chosen = method if method is not None else (methods[-1] if methods else None)
    opened = connection(memory_limit=MEMORY, threads=threads)
    from duckdb import Error, OutOfMemoryException  # installed: `connection` imported it

    try:
        with opened as database:
            _require_a_question(sql)
            _views(database, parts, chosen)
            _lock(database, parts)
            columns, rows = interruptible(database, lambda: _answered(database, sql))
    except (MemoryError, OutOfMemoryException) as error:
        raise UsageError("the query needs more than 900 MB of memory", hint=TOO_LARGE) from error
    except Error as error:
        raise UsageError(
            f"the query failed: {str(error).splitlines()[0]}",
            hint="docs/store.md has the views and their columns.",
        ) from error
    return Answer(columns, rows, chosen, tuple(_notes(store, parts, methods, chosen)))


def check(store: Store, signer: Callable[[Path], str] | None = None) -> list[str]:
    """Return a sentence for each problem of a store; empty if the store has no problem.

    `signer` checks the signature of a file: it returns who signed, or raises UsageError.
    """
    wrong = [f"{path} is incomplete and is ignored" for path in store.drafts()]
    seen: dict[str, str] = {}
    for part in store.parts():
        runs: tuple[Origin, ...] = ()
        try:
            require_whole(part)
            runs = part.runs()
            wrong += _rows_without_run(part, runs)
            if signer is not None:
                signer(part.about)
        except UsageError as error:
            wrong.append(error.message)
        for origin in runs:
            if origin.run_id in seen:
                wrong.append(f"{part.path}: run {origin.run_id} is also in {seen[origin.run_id]}")
            seen[origin.run_id] = str(part.path)
    return wrong


def _rows_without_run(part: Part, runs: Sequence[Origin]) -> list[str]:
    """Return a sentence for each row whose run is not in `runs`, and for each run without a row."""
    known = {(origin.run_id, origin.result_sha256) for origin in runs}
    wrong = []
    with connection(threads=1) as database:
        for file in part.tables:
            path = pattern(str(part.path / file))
            query = f"SELECT DISTINCT run_id, result_sha256 FROM read_parquet({path})"
            with readable(part):
                found = set(fetch_all(database, query))
            wrong += [
                f"{part.path / file}: has rows of {run}, which is not a run of this part"
                for run, _ in found - known
            ]
            if file == "drives.parquet":
                wrong += [f"{part.path / file}: has no row of {run}" for run, _ in known - found]
    return wrong


def _require_a_question(sql: str) -> None:
    """Raise UsageError unless `sql` is exactly one SELECT statement."""
    import duckdb

    found = duckdb.extract_statements(sql)
    if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
        raise UsageError(
            "a query must be one SELECT",
            hint="Views: drives, points, repeats, findings (docs/store.md).",
        )


def _answered(database: Any, sql: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    found = database.execute(sql)
    rows: list[tuple[Any, ...]] = []
    length = 0
    while new := found.fetchmany(ROWS_AT_ONCE):
        length += sum(_bytes_of(cell) for row in new for cell in row)
        if length > MOST_ANSWER_BYTES:
            raise UsageError(
                f"the answer is larger than {format_size(MOST_ANSWER_BYTES)}", hint=TOO_LARGE
            )
        rows += new
    return tuple(str(one[0]) for one in found.description), tuple(rows)


def _bytes_of(cell: object) -> int:
    """Return the memory that a cell uses, in bytes; for a nested cell, of its text."""
    nested = isinstance(cell, list | tuple | dict)
    return getsizeof(str(cell) if nested else cell) + REFERENCE_BYTES


def _views(database: Any, parts: Sequence[Part], method: int | None) -> None:
    """Create the views with the rows of one method; older parts get NULL for columns they lack."""
    for name, types in TABLES.items():
        columns = ", ".join(f'"{column}" {SQL_TYPES[kind]}' for column, kind in types.items())
        database.execute(f"CREATE TABLE _no_{name} ({columns})")
        files = _files(parts, name)
        if not files or method is None:
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM _no_{name}")
            continue
        query = f"{selected(database, name, files)} WHERE method = {int(method)}"
        database.execute(f"CREATE VIEW {name} AS {query}")


def _lock(database: Any, parts: Sequence[Part]) -> None:
    """Let the database open only the store's tables from now on; SQL cannot undo this."""
    files = [path for name in TABLES for path in _files(parts, name)]
    allowed = [*map(quoted, files), *map(pattern, files)]  # as opened, and as searched for
    database.execute(f"SET allowed_paths = [{', '.join(allowed)}]")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")


def _files(parts: Sequence[Part], name: str) -> list[str]:
    file = f"{name}.parquet"
    return [str((part.path / file).absolute()) for part in parts if file in part.tables]


def _notes(
    store: Store, parts: Sequence[Part], methods: Sequence[int], chosen: int | None
) -> list[str]:
    notes = [f"{path} is incomplete and is ignored" for path in store.drafts()]
    others = [method for method in methods if method != chosen]
    if others:
        left = sum(part.methods.get(method, 0) for part in parts for method in others)
        told = ", ".join(map(str, others))
        runs = counted(left, "run")
        notes.append(f"left out: {runs} of method {told}; use --method to query them")
    return notes
