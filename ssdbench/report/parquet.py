"""The tidy table as Parquet, by DuckDB."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from ssdbench.model.result import SCHEMA
from ssdbench.report.csv import RESULT_TYPES
from ssdbench.report.database import connection, quoted

_SQL_TYPES = {"str": "VARCHAR", "Int64": "BIGINT", "Float64": "DOUBLE"}


def parquet_bytes(frame: pd.DataFrame, *, run_id: str, version: str) -> bytes:
    """The tidy table as Parquet with its types, its schema version and its origin.

    DuckDB writes by name and follows links, so it does that in a directory of our own. Raises
    HostLacks where there is no DuckDB.
    """
    with TemporaryDirectory(prefix="ssdbench-") as directory:
        path = Path(directory) / "table.parquet"
        _write(frame, path, run_id=run_id, version=version)
        return path.read_bytes()


def _write(frame: pd.DataFrame, path: Path, *, run_id: str, version: str) -> None:
    columns = ", ".join(f'"{name}" {_SQL_TYPES[kind]}' for name, kind in RESULT_TYPES.items())
    origin = {"schema_version": str(SCHEMA), "tool": f"ssdbench {version}", "run_id": run_id}
    metadata = ", ".join(f"{name}: {quoted(value)}" for name, value in origin.items())
    with connection(threads=1) as database:
        database.execute(f"CREATE TABLE results ({columns})")
        database.register("frame", frame)
        database.execute("INSERT INTO results SELECT * FROM frame")
        database.execute(
            f"COPY results TO {quoted(str(path))} "
            f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{metadata}}})"
        )
