"""A stored run as tidy tables: one row per point, repeat and metric, and one row per point.

Both tables say in every row whether the target was simulated, and why a number is not validated.
"""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pandas as pd

from ssdbench.foreign import cell
from ssdbench.model.estimate import Estimate
from ssdbench.model.finding import Finding, Severity
from ssdbench.model.found import WarmUp
from ssdbench.model.result import SCHEMA, PointResult, Repeat, RunResult, StageResult, SteadyVerdict
from ssdbench.model.rundirectory import STAGES
from ssdbench.model.workload import Workload
from ssdbench.report.label import simulated_label
from ssdbench.report.metrics import direction, percentiles_of, published_bound, whole

RESULT_TYPES = {
    "run_id": "str",
    "target": "str",
    "simulated": "str",
    "stage": "str",
    "kind": "str",
    "point": "str",
    "pattern": "str",
    "block_bytes": "Int64",
    "read_percent": "Int64",
    "iodepth": "Int64",
    "numjobs": "Int64",
    "offset_bytes": "Int64",
    "span_bytes": "Int64",
    "span_percent": "Float64",
    "repeat": "str",
    "direction": "str",
    "metric": "str",
    "value": "Float64",
    "unit": "str",
    "ci_low": "Float64",
    "ci_high": "Float64",
    "bound": "Float64",
    "n": "Int64",
    "method": "str",
    "status": "str",
    "verdict": "str",
    "reasons": "str",
    "artifacts": "str",
}

SUMMARY_DECIMALS = 3  # the summary is for people; results.csv keeps every digit
SUMMARY_PERCENTILES = {50.0: "lat_p50_ns", 99.0: "lat_p99_ns", 99.9: "lat_p99_9_ns"}
_SQL_TYPES = {"str": "VARCHAR", "Int64": "BIGINT", "Float64": "DOUBLE"}

Row = dict[str, object]


def reasons(findings: Sequence[Finding]) -> str:
    """What keeps a number from being validated, as `code: sentence`, joined by `; `."""
    invalidating = [f for f in findings if f.severity is Severity.INVALIDATES]
    return "; ".join(dict.fromkeys(f"{f.code}: {f.message}" for f in invalidating))


def point_findings(point: PointResult) -> tuple[Finding, ...]:
    """What was found about a point and about each of its repeats."""
    return point.findings + tuple(f for repeat in point.repeats for f in repeat.findings)


def variation_percent(point: PointResult) -> float | None:
    """Coefficient of variation of the repeats' IOPS, or None for fewer than two repeats."""
    values = [repeat.iops for repeat in point.repeats]
    if len(values) < 2 or (mean := statistics.fmean(values)) <= 0:
        return None
    return 100 * statistics.stdev(values) / mean


def results_frame(result: RunResult) -> pd.DataFrame:
    """The tidy table; columns and types are fixed, so that files of many runs can be joined."""
    rows = [row for stage in result.stages for row in _stage_rows(result, stage)]
    return pd.DataFrame(rows, columns=list(RESULT_TYPES)).astype(RESULT_TYPES)


def summary_frame(result: RunResult) -> pd.DataFrame:
    """One row per point, in the order in which the run stored them."""
    rows = [_summary_row(result, stage, point) for stage in result.stages for point in stage.points]
    columns = list(_summary_columns())
    return pd.DataFrame(rows, columns=columns).round(SUMMARY_DECIMALS)


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV, with Unix line ends and an empty cell for "there is none"."""
    shown = frame.copy()
    for name in shown.columns:
        if not pd.api.types.is_numeric_dtype(shown[name]):
            shown[name] = [cell(v) if isinstance(v, str) else v for v in shown[name]]
    return shown.to_csv(index=False, lineterminator="\n").encode()


def parquet_bytes(frame: pd.DataFrame, *, run_id: str, version: str) -> bytes:
    """The tidy table as Parquet with its types, its schema version and its origin.

    DuckDB writes by name and follows links, so it does that in a directory of our own.
    """
    with TemporaryDirectory(prefix="ssdbench-") as directory:
        path = Path(directory) / "table.parquet"
        _write_parquet(frame, path, run_id=run_id, version=version)
        return path.read_bytes()


def _write_parquet(frame: pd.DataFrame, path: Path, *, run_id: str, version: str) -> None:
    columns = ", ".join(f'"{name}" {_SQL_TYPES[kind]}' for name, kind in RESULT_TYPES.items())
    origin = {"schema_version": str(SCHEMA), "tool": f"ssdbench {version}", "run_id": run_id}
    metadata = ", ".join(f"{name}: {_quoted(value)}" for name, value in origin.items())
    with duckdb.connect(config={"threads": 1}) as database:
        database.execute(f"CREATE TABLE results ({columns})")
        database.register("frame", frame)
        database.execute("INSERT INTO results SELECT * FROM frame")
        database.execute(
            f"COPY results TO {_quoted(str(path))} "
            f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{metadata}}})"
        )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _stage_rows(result: RunResult, stage: StageResult) -> Iterator[Row]:
    common: Row = {
        "run_id": result.run_id,
        "target": result.target.name,
        "simulated": simulated_label(result.target) or "no",
        "stage": stage.name,
        "kind": stage.kind,
    }
    if isinstance(stage.found, WarmUp) and stage.found.verdict is not None:
        yield common | _steady_row(stage.name, stage.found.unit, stage.found.verdict)
    for point in stage.points:
        about = common | _workload_columns(point)
        about |= {"verdict": point.verdict, "reasons": reasons(point_findings(point))}
        workload = point.point.workload
        for estimate in point.estimates:
            yield about | _estimate_columns(estimate, workload)
        for repeat in point.repeats:
            yield from (about | row for row in _repeat_rows(repeat, workload))


def _steady_row(stage: str, unit: str, verdict: SteadyVerdict) -> Row:
    return {
        "repeat": "all",
        "direction": "total",
        "metric": "steady_rate",
        "value": verdict.mean,
        "bound": verdict.lower_bound if verdict.steady else None,
        "unit": unit,
        "n": len(verdict.window_blocks),
        "method": f"steady-state rule {verdict.rule}",
        "status": "published" if verdict.steady else "suppressed",
        "verdict": "STEADY" if verdict.steady else "NOT STEADY",
        "reasons": verdict.reason,
        "artifacts": f"{STAGES}/{stage}",
    }


def _workload_columns(point: PointResult) -> Row:
    workload = point.point.workload
    return {
        "point": point.point.id,
        "pattern": str(workload.pattern),
        "block_bytes": workload.block_bytes,
        "read_percent": workload.read_percent,
        "iodepth": workload.iodepth,
        "numjobs": workload.numjobs,
        "offset_bytes": workload.range.offset_bytes,
        "span_bytes": workload.range.length_bytes,
        "span_percent": point.point.span_percent,
    }


def _estimate_columns(estimate: Estimate, workload: Workload) -> Row:
    return {
        "repeat": "all",
        "direction": direction(estimate, workload),
        "metric": estimate.metric,
        "value": estimate.value,
        "unit": estimate.unit,
        "ci_low": estimate.ci_low,
        "ci_high": estimate.ci_high,
        "bound": estimate.bound,
        "n": estimate.n,
        "method": estimate.method,
        "status": estimate.status,
        "artifacts": " ".join(estimate.artifacts),
    }


def _repeat_rows(repeat: Repeat, workload: Workload) -> Iterator[Row]:
    metrics = (
        ("iops", repeat.iops, "1/s"),
        ("bw_bytes_per_s", repeat.bw_bytes_per_s, "B/s"),
        ("worst_minute_iops", repeat.worst_minute_iops, "1/s"),
        ("worst_second_iops", repeat.worst_second_iops, "1/s"),
    )
    for metric, value, unit in metrics:
        yield {
            "repeat": str(repeat.repeat),
            "direction": whole(workload),
            "metric": metric,
            "value": value,
            "unit": unit,
            "n": 1,
            "method": "one repeat",
            "status": "published",
            "artifacts": repeat.artifacts,
        }


def _summary_columns() -> Iterator[str]:
    yield from ("run_id", "target", "simulated", "stage", "point", "workload", "span_percent")
    yield from ("verdict", "iops_bound", "iops", "iops_ci_low", "iops_ci_high", "repeats")
    yield from ("cv_percent", "worst_minute_iops", "worst_second_iops")
    yield from SUMMARY_PERCENTILES.values()
    yield "reasons"


def _summary_row(result: RunResult, stage: StageResult, point: PointResult) -> Row:
    iops = point.estimate("iops")
    variation = variation_percent(point)
    row: Row = {
        "run_id": result.run_id,
        "target": result.target.name,
        "simulated": simulated_label(result.target) or "no",
        "stage": stage.name,
        "point": point.point.id,
        "workload": point.point.workload.label(),
        "span_percent": point.point.span_percent,
        "verdict": point.verdict,
        "iops_bound": published_bound(point),
        "iops": iops.value if iops else None,
        "iops_ci_low": iops.ci_low if iops else None,
        "iops_ci_high": iops.ci_high if iops else None,
        "repeats": len(point.repeats),
        "cv_percent": None if variation is None else round(variation, 3),
        "worst_minute_iops": min((r.worst_minute_iops for r in point.repeats), default=None),
        "worst_second_iops": min((r.worst_second_iops for r in point.repeats), default=None),
        "reasons": reasons(point_findings(point)),
    }
    percentiles = percentiles_of(point.estimates)
    for share, name in SUMMARY_PERCENTILES.items():
        estimate = percentiles.get(share)
        row[name] = estimate.value if estimate and estimate.status != "suppressed" else None
    return row
