"""ssdbench, the pessimist's SSD benchmark."""

TYPE_CHECKING = False  # importing `typing` would double the start time of the command
if TYPE_CHECKING:
    from pathlib import Path

    from ssdbench.report.tables import OpenedRun

__version__ = "2.0.0"


def open_run(path: "str | Path") -> "OpenedRun":
    """Open a stored run in a notebook: `.result` is typed, `.results`, `.summary` are DataFrames.

    Raises ssdbench.errors.UsageError if the directory has no result that this version can read.
    """
    from pathlib import Path

    from ssdbench.report.tables import opened  # pandas costs half a second

    return opened(Path(path))
