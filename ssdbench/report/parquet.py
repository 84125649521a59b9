"""The tidy table as Parquet, by DuckDB."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ssdbench.model.result import SCHEMA
from ssdbench.report.csv import RESULT_TYPES, Tidy
from ssdbench.report.database import connection, heeding, pattern, quoted

_SQL_TYPES = {"str": "VARCHAR", "Int64": "BIGINT", "Float64": "DOUBLE"}


def parquet_bytes(table: Tidy, *, run_id: str, version: str) -> bytes:
    """The tidy table as Parquet with its types, its schema version and its origin.

    DuckDB reads and writes by name and follows links, so it does that in a directory of our own.
    Raises HostLacks where there is no DuckDB.
    """
    with TemporaryDirectory(prefix="ssdbench-") as directory:
        path = Path(directory) / "table.parquet"
        text = Path(directory) / "table.csv"
        text.write_text(_quoted_rows(table), encoding="utf-8")
        _write(text, path, run_id=run_id, version=version)
        return path.read_bytes()


def _quoted_rows(table: Tidy) -> str:
    """Every value in quotes, as it was; what has no value stands without any."""
    columns = []
    for column in table.columns:
        words = {v: "" if v is None else _in_quotes(v) for v in set(column)}
        columns.append([words[value] for value in column])
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))


def _in_quotes(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def _write(text: Path, path: Path, *, run_id: str, version: str) -> None:
    types = {name: _SQL_TYPES[kind] for name, kind in RESULT_TYPES.items()}
    columns = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in types.items())
    origin = {"schema_version": str(SCHEMA), "tool": f"ssdbench {version}", "run_id": run_id}
    metadata = ", ".join(f"{name}: {quoted(value)}" for name, value in origin.items())
    order = (
        f"COPY (SELECT * FROM read_csv({pattern(str(text))}, columns = {{{columns}}}, "
        "header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"', "
        f"nullstr = '', allow_quoted_nulls = false)) TO {quoted(str(path))} "
        f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{metadata}}})"
    )
    with connection(threads=1) as database:
        heeding(database, lambda: database.execute(order))
