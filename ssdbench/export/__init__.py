"""Export stored runs to other programs, with one module for each format.

The format of a single run is a module with `export(run) -> bytes` and an entry in EXPORTS. A store
(`ssdbench.export.store`) holds many runs, and users query it in SQL (`ssdbench.export.query`).
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ssdbench.host.files import write_atomic

if TYPE_CHECKING:  # slow to import
    from ssdbench.report.read import StoredRun


@dataclass(frozen=True, slots=True)
class Export:
    """A format for a stored run."""

    name: str  # name of the format; its module has the same name
    is_text: bool = True  # the format can be printed

    def content(self, run: "StoredRun") -> bytes:
        """Return a run in this format. Raises UsageError if the format cannot hold the run."""
        made: bytes = import_module(f"{__name__}.{self.name}").export(run)
        return made

    def write(self, run: "StoredRun", path: Path) -> None:
        """Write a run to a file; after an error there is no file. Raises UsageError, HostLacks."""
        write_atomic(path, self.content(run))


EXPORTS = {
    one.name: one
    for one in (Export("openmetrics"), Export("ocptv"), Export("donation", is_text=False))
}
