"""DuckDB, which reads long latency logs and writes Parquet; an extra, as it is 70 MB."""

import re
import shlex
import sys
from importlib.util import find_spec
from typing import Any

from ssdbench.errors import HostLacks

INSTALL = f"{shlex.quote(sys.executable)} -m pip install 'duckdb>=1.2,<3'"


def available() -> bool:
    """Whether it is installed; does not import it, which takes a while."""
    return find_spec("duckdb") is not None


def connection(**config: str | bool | int | float | list[str]) -> Any:
    """A database in memory. Raises HostLacks where there is no DuckDB."""
    if not available():
        raise HostLacks(
            "DuckDB, which reads latency logs and writes Parquet, is not installed",
            hint=f"Install it: {INSTALL}",
        )
    import duckdb

    return duckdb.connect(config=config)


def quoted(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def pattern(path: str) -> str:
    """A path for DuckDB's readers, which take * ? and [ in it for patterns, as SQL has it."""
    return quoted(re.sub(r"[*?[]", r"[\g<0>]", path))
