"""Render stored runs as files; rendering a run again gives identical files."""

from collections.abc import Collection
from pathlib import Path

from ssdbench.model.result import RunResult


def render(
    run_dir: Path, result: RunResult | None = None, points: Collection[str] = ()
) -> list[Path]:
    """Write report.html and the tables (docs/tables.md) into a run directory.

    The report is made from result.json and the other files of the run. If a run was interrupted or
    lacks files, the report shows the files that exist. Give `result` if the run has no result.json
    yet. The points named in `points` get plots even if they would not be chosen for plots. Returns
    the paths, report.html first. Raises UsageError if result.json cannot be read or a point does
    not exist, and OSError if a file cannot be written.
    """
    from ssdbench.report.write import write_report  # takes half a second: matplotlib

    return write_report(run_dir, result, points)
