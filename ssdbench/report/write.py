"""Writes the files of a report; each appears complete or not at all."""

from collections.abc import Collection
from pathlib import Path

from ssdbench.errors import UsageError
from ssdbench.foreign import brief, write_whole
from ssdbench.model import rundirectory
from ssdbench.model.result import RunResult
from ssdbench.report import csv, database, parquet
from ssdbench.report.html import render_page
from ssdbench.report.read import StoredRun
from ssdbench.report.view.build import page

MOST_NAMED = 100  # characters of a wrong name that are shown


def write_report(
    run_dir: Path, result: RunResult | None = None, points: Collection[str] = ()
) -> list[Path]:
    """See `ssdbench.report.render`."""
    run = StoredRun(run_dir, result) if result else StoredRun.open(run_dir)
    result = run.result
    run.asked = frozenset(points)
    if unknown := sorted(run.asked - {point.point.id for point in result.points}):
        raise UsageError(
            f"{run_dir} has no point {brief(unknown[0], MOST_NAMED)}",
            hint="summary.csv lists the points of a run.",
        )
    table = csv.results_table(result)

    version = result.ssdbench_version
    summary = csv.csv_bytes(csv.summary_table(result))
    artifacts = csv.csv_bytes(csv.artifacts_table(result))
    tables = [
        _replaced(run_dir / rundirectory.RESULTS_CSV, csv.csv_bytes(table)),
        _replaced(run_dir / rundirectory.SUMMARY_CSV, summary),
        _replaced(run_dir / rundirectory.ARTIFACTS_CSV, artifacts),
    ]
    targets = run_dir / rundirectory.TARGETS_CSV
    if result.accepted:
        tables.append(_replaced(targets, csv.csv_bytes(csv.targets_table(result))))
    else:
        targets.unlink(missing_ok=True)
    typed = run_dir / rundirectory.RESULTS_PARQUET
    if database.available():
        data = parquet.parquet_bytes(table, run_id=result.run_id, version=version)
        tables.append(_replaced(typed, data))
    else:
        typed.unlink(missing_ok=True)  # of an earlier report: it may say something else
    # The page comes last: it links to the tables, and names only files that are there.
    html = _replaced(run_dir / rundirectory.REPORT, render_page(page(run)).encode())
    return [html, *tables]


def _replaced(path: Path, data: bytes) -> Path:
    write_whole(path, data)
    return path
