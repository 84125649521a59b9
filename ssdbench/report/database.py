"""DuckDB, which reads long latency logs and writes Parquet; an extra, as it is 70 MB."""

import re
import shlex
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, TypeVar

from ssdbench.errors import HostLacks

T = TypeVar("T")
INSTALL = f"{shlex.quote(sys.executable)} -m pip install 'duckdb>=1.2,<3'"


def is_available() -> bool:
    """Whether it is installed; does not import it, which takes a while."""
    return find_spec("duckdb") is not None


def connection(**config: str | bool | int | float | list[str]) -> Any:
    """A database in memory. Raises HostLacks where there is no DuckDB."""
    if not is_available():
        raise HostLacks(
            "DuckDB, which reads latency logs and writes Parquet, is not installed",
            hint=f"Install it: {INSTALL}",
        )
    import duckdb

    return duckdb.connect(config=config)


def interruptible(database: Any, work: Callable[[], T]) -> T:
    """What work with a database gives; a signal ends it, for which DuckDB does not look."""
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
    """All rows of a query."""
    rows: list[tuple[Any, ...]] = interruptible(
        database, lambda: database.execute(query).fetchall()
    )
    return rows


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def pattern(path: str) -> str:
    """A path for DuckDB's readers, which take * ? and [ in it for patterns, as SQL has it."""
    return quoted(re.sub(r"[*?[]", r"[\g<0>]", path))
