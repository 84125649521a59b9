"""Stored runs in forms for other programs: one module for each form.

A form of a single run is a module with `export(run) -> bytes` and a name in EXPORTS. The store
(`ssdbench.export.store`) takes many runs and is asked in SQL (`ssdbench.export.query`).
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.host.files import write_atomic

if TYPE_CHECKING:  # numpy takes a while
    from ssdbench.report.read import StoredRun


@dataclass(frozen=True, slots=True)
class Export:
    """A form that a stored run can be given in."""

    name: str  # of its module
    is_text: bool = True  # can be printed

    def content(self, run: "StoredRun") -> bytes:
        """Return a run in this form. Raises UsageError for a run that it cannot hold."""
        made: bytes = import_module(f"{__name__}.{self.name}").export(run)
        return made

    def write(self, run: "StoredRun", path: Path) -> None:
        """Write a run to a file, whole or not at all. Raises UsageError, HostLacks."""
        write_atomic(path, self.content(run))


EXPORTS = {
    one.name: one
    for one in (Export("openmetrics"), Export("ocptv"), Export("donation", is_text=False))
}
