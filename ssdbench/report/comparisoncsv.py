"""A comparison as a table: one row for each point and pair of runs."""

from collections.abc import Sequence

from ssdbench.model.result import PointResult, RunResult
from ssdbench.report.csv import SUMMARY_PERCENTILES, Row, Tidy, csv_bytes
from ssdbench.report.difference import verdict
from ssdbench.report.metrics import percentiles_of, published_bound
from ssdbench.stats.runcompare import Compared

SIDES = ("", "against_")
_OF_SIDE = {
    "run_id": "str",
    "firmware": "str",
    "verdict": "str",
    "iops_bound": "Float64",
    "iops": "Float64",
    "iops_ci_low": "Float64",
    "iops_ci_high": "Float64",
    "lat_p50_ns": "Float64",
    "lat_p99_ns": "Float64",
    "lat_p99_9_ns": "Float64",
}
COMPARISON_TYPES = {
    "workload": "str",
    **{f"{side}{name}": kind for side in SIDES for name, kind in _OF_SIDE.items()},
    "bound_change_percent": "Float64",
    "shift_iops": "Float64",
    "shift_low_iops": "Float64",
    "shift_high_iops": "Float64",
    "effect": "Float64",
    "p_holm": "Float64",
    "answer": "str",
}


def comparison_csv(results: Sequence[RunResult], found: Compared) -> bytes:
    """The file that `compare --csv` writes."""
    rows: list[Row] = []
    for pair in found.pairs:
        first, second = pair.points
        rows.append(
            {
                "workload": pair.label,
                **_side("", results[pair.second], second),
                **_side("against_", results[pair.first], first),
                "bound_change_percent": pair.bound_percent,
                "shift_iops": pair.found.shift,
                "shift_low_iops": pair.found.shift_low,
                "shift_high_iops": pair.found.shift_high,
                "effect": pair.found.effect,
                "p_holm": pair.p_corrected,
                "answer": verdict(pair)[1],
            }
        )
    return csv_bytes(Tidy(rows, COMPARISON_TYPES))


def _side(prefix: str, result: RunResult, point: PointResult) -> Row:
    iops, latency = point.estimate("iops"), percentiles_of(point.estimates)
    row: Row = {
        "run_id": result.run_id,
        "firmware": result.target.firmware,
        "verdict": point.verdict,
        "iops_bound": published_bound(point),
        "iops": iops.value if iops else None,
        "iops_ci_low": iops.ci_low if iops else None,
        "iops_ci_high": iops.ci_high if iops else None,
    }
    for share, name in SUMMARY_PERCENTILES.items():
        one = latency.get(share)
        row[name] = one.value if one and one.status != "suppressed" else None
    return {f"{prefix}{name}": value for name, value in row.items()}
