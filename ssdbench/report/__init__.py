"""Render stored runs as files; a run always gives the same files."""

from collections.abc import Collection
from pathlib import Path

from ssdbench.model.result import RunResult


def render(
    run_dir: Path, result: RunResult | None = None, points: Collection[str] = ()
) -> list[Path]:
    """Write report.html and the tables (docs/tables.md) into a run directory.

    The report is made from result.json and the other files of the run. An interrupted run, or a run
    without some files, gets a report of the existing files. Give `result` if the run has no
    result.json yet. Points named in `points` get plots in any case. Returns the paths,
    report.html first. Raises UsageError if result.json cannot be read or a point does not exist,
    and OSError if a file cannot be written.
    """
    from ssdbench.report.write import write_report  # matplotlib costs half a second

    return write_report(run_dir, result, points)
