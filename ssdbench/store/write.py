"""Adds runs to a store, and makes one part of several."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ssdbench.errors import UsageError
from ssdbench.report.csv import Tidy
from ssdbench.report.database import connection, fetched, heeding, pattern, quoted
from ssdbench.store.parts import Origin, Part, Store, require_whole
from ssdbench.store.tables import TABLES, Added, rows_of

SQL_TYPES = {"str": "VARCHAR", "Int64": "BIGINT", "Float64": "DOUBLE", "boolean": "BOOLEAN"}


@dataclass(frozen=True, slots=True)
class AddedTo:
    """What became of the runs that were given."""

    added: tuple[str, ...]
    there: tuple[str, ...]  # that the store had already, with the same result


def add(store: Store, runs: Sequence[Added]) -> AddedTo:
    """Add runs, a part for each model and month.

    Raises UsageError for a run that the store has with another result, HostLacks.
    """
    given: dict[str, Added] = {}
    for one in runs:
        name = one.run.result.run_id
        if name in given and given[name].result_sha256 != one.result_sha256:
            raise _other_result(name, str(one.run.directory))
        given[name] = one
    with store.writing():
        known = {
            origin.run_id: origin.result_sha256 for part in store.parts() for origin in part.runs()
        }
        for name, one in given.items():
            if known.get(name, one.result_sha256) != one.result_sha256:
                raise _other_result(name, str(one.run.directory))
        new = [one for name, one in given.items() if name not in known]
        by_place: dict[tuple[str, str], list[Added]] = defaultdict(list)
        for one in new:
            by_place[one.model, one.month].append(one)
        for (model, month), some in by_place.items():
            store.write(
                model,
                month,
                [_origin(one) for one in some],
                partial(_tables, some),
            )
    names = tuple(one.run.result.run_id for one in new)
    return AddedTo(names, tuple(name for name in given if name not in names))


def compact(store: Store) -> int:
    """Make one part of all that a model has of a month; returns how many parts went."""
    gone = 0
    with store.writing():
        by_place: dict[tuple[str, str], list[Part]] = defaultdict(list)
        for part in store.parts():
            by_place[part.model, part.month].append(part)
        for (model, month), parts in by_place.items():
            if len(parts) < 2:
                continue
            for part in parts:
                require_whole(part)
            runs = [origin for part in parts for origin in part.runs()]
            store.write(
                model, month, runs, partial(_joined, parts),
                replaces=[part.path.name for part in parts],
            )  # fmt: skip
            gone += len(parts) - 1
    with store.writing():  # removes what was replaced
        return gone


def _origin(one: Added) -> Origin:
    return Origin(
        run_id=one.run.result.run_id,
        result_sha256=one.result_sha256,
        manifest_sha256=one.manifest_sha256,
        method=one.run.result.method,
        signed_by=one.signed_by,
    )


def _tables(runs: Sequence[Added], path: Path) -> None:
    rows = [rows_of(one) for one in runs]
    with connection(threads=1) as database:
        for name, types in TABLES.items():
            made = Tidy([row for one in rows for row in one[name]], types).frame()
            database.execute(f"CREATE TABLE {name} ({_columns(types)})")
            database.register("frame", made)
            database.execute(f"INSERT INTO {name} SELECT * FROM frame")
            _copy(database, f"SELECT * FROM {name}", path / f"{name}.parquet")


@contextmanager
def readable(*parts: Part) -> Iterator[None]:
    """Raise UsageError for tables of parts that are none, whose hashes are right all the same."""
    from duckdb import Error

    try:
        yield
    except Error as error:
        places = ", ".join(str(part.path) for part in parts[:3])
        raise UsageError(
            f"{places}: a table cannot be read: {str(error).splitlines()[0]}",
            hint="Move the part away and add its runs again.",
        ) from error


def _joined(parts: Sequence[Part], path: Path) -> None:
    with connection(threads=1) as database, readable(*parts):
        for name in TABLES:
            file = f"{name}.parquet"
            files = [str(part.path / file) for part in parts if file in part.tables]
            _copy(database, selected(database, name, files), path / file)


def selected(database: Any, name: str, files: Sequence[str]) -> str:
    """A SELECT of a table from some files; a column that they lack is empty, others are left."""
    listed = ", ".join(map(pattern, files))
    reader = f"read_parquet([{listed}], union_by_name=true, hive_partitioning=false)"
    there = {row[0] for row in fetched(database, f"DESCRIBE SELECT * FROM {reader}")}
    shown = ", ".join(
        f'"{column}"' if column in there else f'CAST(NULL AS {SQL_TYPES[kind]}) AS "{column}"'
        for column, kind in TABLES[name].items()
    )
    return f"SELECT {shown} FROM {reader}"


def _copy(database: Any, query: str, path: Path) -> None:
    order = f"COPY ({query}) TO {quoted(str(path))} (FORMAT parquet, COMPRESSION zstd)"
    heeding(database, lambda: database.execute(order))


def _columns(types: dict[str, str]) -> str:
    return ", ".join(f'"{name}" {SQL_TYPES[kind]}' for name, kind in types.items())


def _other_result(name: str, place: str) -> UsageError:
    return UsageError(
        f"{place}: the store has a run {name} with another result",
        hint="One of the two was altered, or two hosts gave the same name; look at both manifests.",
    )
