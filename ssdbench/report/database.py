"""Use DuckDB to read latency logs and to write Parquet. DuckDB is optional, because it is large."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, TypeVar

from ssdbench.errors import HostLacks, how_to_install

T = TypeVar("T")
INSTALL = how_to_install("duckdb>=1.2,<3")


def is_available() -> bool:
    """Return whether DuckDB is installed, without importing it."""
    return find_spec("duckdb") is not None


def connection(**config: str | bool | int | float | list[str]) -> Any:
    """Open a database in memory. Raises HostLacks if DuckDB is not installed."""
    if not is_available():
        raise HostLacks(
            "DuckDB, which reads latency logs and writes Parquet, is not installed",
            hint=f"Install it: {INSTALL}",
        )
    import duckdb

    return duckdb.connect(config=config)


def interruptible(database: Any, work: Callable[[], T]) -> T:
    """Run `work` in a second thread, so that a signal such as Ctrl-C can interrupt DuckDB."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work)
        try:
            return future.result()
        except BaseException:
            while not future.done():
                database.interrupt()
                time.sleep(0.02)
            raise


def fetch_all(database: Any, query: str) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    rows: list[tuple[Any, ...]]
    rows = interruptible(database, lambda: database.execute(query).fetchall())
    return rows


def quoted(text: str) -> str:
    """Quote a text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def pattern(path: str) -> str:
    """Quote a path as an SQL string; escape * ? and [, which DuckDB would use as a pattern."""
    return quoted(re.sub(r"[*?[]", r"[\g<0>]", path))
