"""Export stored runs to other programs, with one module for each format.

The format of a single run is a module with `export(run) -> bytes`. A store
(`ssdbench.export.store`) holds many runs, and users query it in SQL (`ssdbench.export.query`).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slow to import
    from ssdbench.report.read import StoredRun

TEXTS = ("openmetrics", "ocptv")  # formats that can be printed


def content(run: "StoredRun", form: str) -> bytes:
    """Return a run in a format. Raises UsageError if the format cannot hold the run."""
    made: bytes = import_module(f"{__name__}.{form}").export(run)
    return made
