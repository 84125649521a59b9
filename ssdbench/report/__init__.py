"""Renders stored runs to files; measures nothing, and gives the same files each time."""

from collections.abc import Collection
from pathlib import Path

from ssdbench.model.result import RunResult


def render(
    run_dir: Path, result: RunResult | None = None, points: Collection[str] = ()
) -> list[Path]:
    """Write report.html and the tables (docs/tables.md) into a run directory.

    Everything comes from result.json and the bulk files beside it; a run that was interrupted, or
    that lacks bulk files, gets the report of what there is. Returns the paths, report.html first.
    `result` stands for result.json where a run has none yet; the points named by `points` get
    figures, whatever they are. Raises UsageError when there is no readable result.json or no such
    point, OSError when a file cannot be written.
    """
    from ssdbench.report.write import write_report  # matplotlib costs half a second

    return write_report(run_dir, result, points)
