"""Writes the files of a report; each appears complete or not at all."""

from collections.abc import Callable
from pathlib import Path

from ssdbench.model import rundirectory
from ssdbench.model.result import RunResult
from ssdbench.report import csv
from ssdbench.report.html import render_page
from ssdbench.report.read import StoredRun
from ssdbench.report.view.build import page


def write_report(run_dir: Path, result: RunResult | None = None) -> list[Path]:
    """See `ssdbench.report.render`."""
    run = StoredRun(run_dir, result) if result else StoredRun.open(run_dir)
    result = run.result
    frame = csv.results_frame(result)

    def parquet(path: Path) -> None:
        csv.write_parquet(frame, path, run_id=result.run_id, version=result.ssdbench_version)

    summary = csv.csv_bytes(csv.summary_frame(result))
    tables = [
        _replaced(run_dir / rundirectory.RESULTS_CSV, _content(csv.csv_bytes(frame))),
        _replaced(run_dir / rundirectory.SUMMARY_CSV, _content(summary)),
        _replaced(run_dir / rundirectory.RESULTS_PARQUET, parquet),
    ]
    # The page comes last: it links to the tables, and names only files that are there.
    html = _replaced(run_dir / rundirectory.REPORT, _content(render_page(page(run)).encode()))
    return [html, *tables]


def _content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _replaced(path: Path, fill: Callable[[Path], object]) -> Path:
    draft = path.with_name(f".{path.name}.draft")
    try:
        fill(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path
