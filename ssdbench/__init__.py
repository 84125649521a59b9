"""ssdbench, the pessimist's SSD benchmark."""

TYPE_CHECKING = False  # to import typing takes as long as Python's start, before __main__ begins
if TYPE_CHECKING:
    from pathlib import Path

    from ssdbench.report.tables import OpenedRun

__version__ = "2.0.0"


def open_run(path: "str | Path") -> "OpenedRun":
    """A stored run for notebooks: `.result` is typed, `.results` and `.summary` are DataFrames.

    Raises ssdbench.errors.UsageError when the directory has no result that this version reads.
    """
    from pathlib import Path

    from ssdbench.report.tables import opened  # pandas costs half a second

    return opened(Path(path))
