"""A stored run as tables: one row per point, repeat and metric, and one row per point.

Every row says whether the target was simulated, and why a number is not validated.
"""

import csv
import io
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssdbench.foreign import cell
from ssdbench.model.finding import Finding, Severity
from ssdbench.model.found import WarmUp
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.point import Estimate, PointResult, Repeat, SteadyVerdict
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.rundirectory import STAGES
from ssdbench.model.workload import Workload
from ssdbench.report.metrics import MOVING, direction, percentiles_of, published_bound, whole
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.capacity import demanded
from ssdbench.report.view.words import simulated_label
from ssdbench.stats.bounds.point import without_bound
from ssdbench.stats.planning.runplan import capacity_answer

if TYPE_CHECKING:
    import pandas as pd


# Both tables begin with these, under one name and one type; docs/tables.md says what each means.
SHARED_TYPES = {
    "run_id": "str",
    "target": "str",
    "simulated": "str",
    "stage": "str",
    "stage_kind": "str",
    "point": "str",
    "workload": "str",
    "access_pattern": "str",
    "block_bytes": "Int64",
    "read_percent": "Int64",
    "iodepth": "Int64",
    "numjobs": "Int64",
    "offset_bytes": "Int64",
    "span_bytes": "Int64",
    "span_percent": "Float64",
    "verdict": "str",
    "reasons": "str",
}
RESULT_TYPES = SHARED_TYPES | {
    "stream": "str",
    "repeat_number": "Int64",
    "direction": "str",
    "metric": "str",
    "metric_value": "Float64",
    "unit": "str",
    "answer": "str",
    "ci_low": "Float64",
    "ci_high": "Float64",
    "bound": "Float64",
    "samples": "Int64",
    "computed_by": "str",
    "status": "str",
}
SUMMARY_TYPES = SHARED_TYPES | {
    "iops_bound": "Float64",
    "iops": "Float64",
    "iops_ci_low": "Float64",
    "iops_ci_high": "Float64",
    "repeats": "Int64",
    "cv_percent": "Float64",
    "worst_minute_iops": "Float64",
    "worst_second_iops": "Float64",
    "lat_p50_ns": "Float64",
    "lat_p99_ns": "Float64",
    "lat_p99_9_ns": "Float64",
    "longest_wave_s": "Float64",
    "unseen_drift_per_fill_percent": "Float64",
    "unseen_drift_per_day_percent": "Float64",
}
ARTIFACT_TYPES = {
    "run_id": "str",
    "stage": "str",
    "point": "str",
    "repeat_number": "Int64",
    "metric": "str",
    "artifact_path": "str",
}

TARGET_TYPES = {
    "run_id": "str",
    "target": "str",
    "simulated": "str",
    "asked": "str",
    "stage": "str",
    "workload": "str",
    "metric": "str",
    "direction": "str",
    "wanted": "Float64",
    "load": "str",
    "pessimistic": "Float64",
    "middle": "Float64",
    "unit": "str",
    "outcome": "str",
    "why": "str",
    "datasheet": "Float64",
    "datasheet_conditions": "str",
    "datasheet_source": "str",
    "worse_because": "str",
}

SUMMARY_DECIMALS = 3  # the summary is for people; results.csv keeps every digit
SUMMARY_PERCENTILES = {50.0: "lat_p50_ns", 99.0: "lat_p99_ns", 99.9: "lat_p99_9_ns"}

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


@dataclass(frozen=True)
class Tidy:
    """Rows with the columns and types of a table, in their order."""

    rows: Sequence[Row]
    types: Mapping[str, str]

    def frame(self) -> "pd.DataFrame":
        """For a notebook; the report does without pandas, whose import is a tenth of its time."""
        import pandas as pd

        columns = {name: [row.get(name) for row in self.rows] for name in self.types}
        return pd.DataFrame(columns, columns=list(self.types)).astype(dict(self.types))

    @cached_property
    def columns(self) -> Sequence[Sequence[str | None]]:
        """Each column as text, None where there is no value; each value is said only once."""
        found = []
        for name, kind in self.types.items():
            values = [row.get(name) for row in self.rows]
            said = _SAID[kind]
            words = {v: None if v is None or v != v else said(v) for v in set(values)}
            found.append([words[value] for value in values])
        return found


_SAID: Mapping[str, Callable[[Any], str]] = {
    "str": str,
    "Int64": lambda value: str(int(value)),
    "Float64": lambda value: repr(float(value)),
}


def results_table(result: RunResult) -> Tidy:
    """The tidy table; columns and types are fixed, so that files of many runs can be joined.

    What is suppressed has a row and no value.
    """
    rows = [row for stage in result.stages for row in _stage_rows(result, stage)]
    return Tidy([*rows, *_capacity_rows(result)], RESULT_TYPES)


def summary_table(result: RunResult) -> Tidy:
    """One row per point, in the order in which the run stored them."""
    rows = [_summary_row(result, stage, point) for stage in result.stages for point in stage.points]
    return Tidy([_rounded(row) for row in rows], SUMMARY_TYPES)


def _rounded(row: Row) -> Row:
    return {
        name: round(value, SUMMARY_DECIMALS) if isinstance(value, float) else value
        for name, value in row.items()
    }


def artifacts_table(result: RunResult) -> Tidy:
    """One row per number of `results_table` and file or directory from which it was computed."""
    own = {"run_id": result.run_id}
    rows = [own | row for stage in result.stages for row in _artifacts(stage)]
    return Tidy(rows, ARTIFACT_TYPES)


def targets_table(result: RunResult) -> Tidy:
    """One row per number of each target of the profile."""
    rows: list[Row] = [
        _of_run(result)
        | one.model_dump(exclude={"target", "seen", "worse_because"})
        | {"asked": one.target, "pessimistic": one.seen}
        | {"worse_because": "; ".join(one.worse_because)}
        for one in result.accepted
    ]
    return Tidy(rows, TARGET_TYPES)


def csv_bytes(table: Tidy) -> bytes:
    """A table as CSV, with Unix line ends and an empty cell for "there is none"."""
    shown = []
    for kind, column in zip(table.types.values(), table.columns, strict=True):
        words = {None: ""} | {value: value for value in set(column) if value is not None}
        if kind == "str":  # rows repeat most of them
            words |= {value: cell(value) for value in words if value is not None}
        shown.append([words[value] for value in column])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.types)
    writer.writerows(zip(*shown, strict=True))
    return text.getvalue().encode()


def _stage_rows(result: RunResult, stage: StageResult) -> Iterator[Row]:
    common = _of_run(result) | {"stage": stage.name, "stage_kind": str(stage.kind)}
    common |= {"verdict": result.verdict}
    found = stage.found
    if isinstance(found, WarmUp) and found.verdict is not None:
        yield common | _steady_row(found.unit, found.verdict)
    yield from (common | row for row in _answers(stage))
    for point in stage.points:
        about = common | _workload_columns(point)
        workload = point.point.workload
        for estimate in point.estimates:
            yield about | _estimate_columns(estimate, point)
        for stream in point.streams:
            for estimate in stream.estimates:
                yield about | _estimate_columns(estimate, point) | {"stream": stream.name}
        for repeat in point.repeats:
            yield from (about | row for row in _repeat_rows(repeat, workload))


def _answers(stage: StageResult) -> Iterator[Row]:
    """Of a stage whose answer is no point."""
    match stage.found:
        case RateFound() as found:
            yield from _rate_rows(stage, found)
        case LoadFound() as found:
            yield from _load_rows(stage, found)
        case ReplayFound() as found:
            yield from _replay_rows(stage, found)
        case BlockSizeFound() as found:
            yield from _block_rows(stage, found)
        case ProbeFound() as found:
            yield from _probe_rows(stage, found)


def _of_run(result: RunResult) -> Row:
    return {
        "run_id": result.run_id,
        "target": result.target.name,
        "simulated": simulated_label(result.target) or "no",
    }


def _answered(stage: StageResult, metric: str, value: object, unit: str, how: str) -> Row:
    """A row of a stage whose answer is no point; a number, or a word."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "metric": metric,
        "metric_value": value if number else None,
        "unit": unit if number else None,
        "answer": None if number or value is None else str(value),
        "computed_by": how,
        "status": "suppressed" if value is None else "published",
        "reasons": reasons(stage.findings),
    }


def _rate_rows(stage: StageResult, found: RateFound) -> Iterator[Row]:
    about: Row = {
        "workload": found.workload,
        "access_pattern": found.pattern,
        "block_bytes": found.block_bytes,
        "read_percent": found.read_percent,
        "samples": found.searches,
        "verdict": "NOT VALIDATED" if stage.why_not else "VALIDATED",
    }
    how = words.mark_unvalidated(f"open-loop searches, {found.limit}", stage.why_not)
    for metric, value in (
        ("rate_within_limit_iops", found.rate_iops),
        ("rate_highest_search_iops", found.highest_iops),
        ("rate_knee_iops", found.knee_iops),
    ):
        yield about | _answered(stage, metric, value, "1/s", how)
    if found.clients:
        yield about | _answered(stage, "rate_clients", found.clients, "1", "that shared the rate")
    yield about | _answered(stage, "rate_limit_ns", found.limit_ns, "ns", "as asked")


def _load_rows(stage: StageResult, found: LoadFound) -> Iterator[Row]:
    about: Row = {
        "workload": found.workload,
        "access_pattern": found.pattern,
        "block_bytes": found.block_bytes,
        "read_percent": found.read_percent,
        "verdict": found.verdict,
        "reasons": reasons(stage.findings),
    }
    for estimate in found.estimates:
        told = _estimate(estimate)
        how = words.mark_unvalidated(f"at {found.label}, {estimate.method}", stage.why_not)
        yield about | told | {"direction": estimate.direction, "computed_by": how}
    yield about | _answered(stage, "load_offered_iops", found.offered_iops, "1/s", "as offered")
    yield about | _answered(stage, "rate_clients", found.clients, "1", "that shared the rate")


def _replay_rows(stage: StageResult, found: ReplayFound) -> Iterator[Row]:
    about: Row = {
        "workload": f"replay of {found.name}, {found.loop} loop",
        "verdict": found.verdict,
        "reasons": reasons(stage.findings),
    }
    for estimate in found.estimates:
        yield about | _estimate(estimate) | {"direction": estimate.direction}


def _block_rows(stage: StageResult, found: BlockSizeFound) -> Iterator[Row]:
    how = found.evidence or "strided writes"
    yield _answered(stage, "block_answer", found.answer or None, "", how)
    yield _answered(stage, "block_found_bytes", found.block_bytes, "B", how)
    yield _answered(stage, "write_buffer_bytes", found.buffer_bytes, "B", how)
    yield _answered(stage, "write_buffer_least_bytes", found.buffer_least_bytes, "B", how)
    yield _answered(stage, "write_buffer_most_bytes", found.buffer_most_bytes, "B", how)
    yield _answered(stage, "block_confidence", found.confidence, "1", how)


def _probe_rows(stage: StageResult, found: ProbeFound) -> Iterator[Row]:
    how = f"probe {found.probe}"
    yield _answered(stage, "probe_answer", found.answer or None, "", how)
    for name, value in found.numbers.known().items():
        yield _answered(stage, f"probe_{name}", value, _unit_of(name), how)


def _unit_of(name: str) -> str:
    """The unit that the name of a probe's number ends with, or begins with."""
    for part, unit in (("_bytes", "B"), ("mb_per_s", "MB/s"), ("_us", "us"), ("_percent", "%")):
        if part in name:
            return unit
    return "1"


def _capacity_rows(result: RunResult) -> Iterator[Row]:
    """The plan for the profile's demand, where it names one."""
    if (wanted := demanded(result)) is None:
        return
    found = capacity_answer(result, wanted)
    made, wear = found.plan, found.plan.wear if found.plan else None
    common = _of_run(result) | {"stage_kind": "capacity"}
    common |= _workload_columns(found.point) if found.point else {}
    why = "; ".join((*found.reasons, *found.incomplete))
    word = "VALIDATED" if found.validated else "NOT VALIDATED" if found.reasons else "INCOMPLETE"
    for metric, value, unit in (
        ("capacity_demand_iops", wanted.demand_iops, "1/s"),
        ("capacity_load_iops", made and made.load_iops, "1/s"),
        ("capacity_bound_iops", made and made.bound_iops, "1/s"),
        ("capacity_utilisation_percent", wanted.utilisation_percent, "%"),
        ("capacity_reserve_drives", wanted.failure_reserve, "1"),
        ("capacity_drives", made and made.drives, "1"),
        ("capacity_life_years", wear and wear.life_years, "a"),
        ("capacity_drive_writes_per_day", wear and wear.dwpd_used, "1/d"),
    ):
        yield common | {
            "metric": metric,
            "metric_value": value,
            "unit": unit,
            "computed_by": "plan of the profile",
            "status": "suppressed" if value is None else "published",
            "verdict": word,
            "reasons": why,
        }


def _artifacts(stage: StageResult) -> Iterator[Row]:
    here: Row = {"stage": stage.name}
    if isinstance(stage.found, WarmUp) and stage.found.verdict is not None:
        yield here | {"metric": "steady_rate", "artifact_path": f"{STAGES}/{stage.name}"}
    for point in stage.points:
        about = here | {"point": point.point.id}
        for estimate in point.estimates:
            for path in estimate.artifacts:
                yield about | {"metric": estimate.metric, "artifact_path": path}
        for repeat in point.repeats:
            yield about | {"repeat_number": repeat.repeat, "artifact_path": repeat.artifacts}


def _steady_row(unit: str, verdict: SteadyVerdict) -> Row:
    return {
        "direction": "total",
        "metric": "steady_rate",
        "metric_value": verdict.mean if verdict.steady else None,
        "bound": verdict.lower_bound if verdict.steady else None,
        "unit": unit,
        "samples": len(verdict.window_blocks),
        "computed_by": f"steady-state rule {verdict.rule}",
        "status": "published" if verdict.steady else "suppressed",
        "verdict": "STEADY" if verdict.steady else "NOT STEADY",
        "reasons": verdict.reason,
    }


def _workload_columns(point: PointResult) -> Row:
    workload = point.point.workload
    return {
        "point": point.point.id,
        "workload": workload.label(),
        "access_pattern": str(workload.pattern),
        "block_bytes": workload.block_bytes,
        "read_percent": workload.read_percent,
        "iodepth": workload.iodepth,
        "numjobs": workload.numjobs,
        "offset_bytes": workload.range.offset_bytes,
        "span_bytes": workload.range.length_bytes,
        "span_percent": point.point.span_percent,
        "verdict": point.verdict,
        "reasons": reasons(point_findings(point)),
    }


def _estimate_columns(estimate: Estimate, point: PointResult) -> Row:
    told = without_bound(estimate, MOVING) if point.unsteady else estimate
    return {"direction": direction(estimate, point.point.workload)} | _estimate(told)


def _estimate(estimate: Estimate) -> Row:
    hidden = estimate.status == "suppressed"
    return {
        "metric": estimate.metric,
        "metric_value": None if hidden else estimate.value,
        "unit": estimate.unit,
        "ci_low": None if hidden else estimate.ci_low,
        "ci_high": None if hidden else estimate.ci_high,
        "bound": None if hidden else estimate.bound,
        "samples": estimate.n,
        "computed_by": estimate.method,
        "status": estimate.status,
    }


def _repeat_rows(repeat: Repeat, workload: Workload) -> Iterator[Row]:
    metrics = [
        ("iops", repeat.iops, "1/s", "one repeat"),
        ("bw_bytes_per_s", repeat.bw_bytes_per_s, "B/s", "one repeat"),
        ("worst_minute_iops", repeat.worst_minute_iops, "1/s", "one repeat"),
        ("worst_second_iops", repeat.worst_second_iops, "1/s", "one repeat"),
    ]
    if repeat.zone_resets is not None:
        metrics.append(("zone_resets", repeat.zone_resets, "1", "fio's count, settling included"))
    for metric, value, unit, how in metrics:
        yield {
            "repeat_number": repeat.repeat,
            "direction": whole(workload),
            "metric": metric,
            "metric_value": value,
            "unit": unit,
            "samples": 1,
            "computed_by": how,
            "status": "published",
        }


def _worst(point: PointResult, metric: str, of_repeats: list[float | None]) -> float | None:
    """Over all evidence; where a result is older than that, over the repeats."""
    if (estimate := point.estimate(metric)) is not None:
        return estimate.value
    return min((one for one in of_repeats if one is not None), default=None)


def _summary_row(result: RunResult, stage: StageResult, point: PointResult) -> Row:
    iops = point.estimate("iops")
    variation = variation_percent(point)
    row = _of_run(result) | {"stage": stage.name, "stage_kind": str(stage.kind)}
    row |= _workload_columns(point) | {
        "iops_bound": published_bound(point),
        "iops": iops.value if iops else None,
        "iops_ci_low": iops.ci_low if iops else None,
        "iops_ci_high": iops.ci_high if iops else None,
        "repeats": len(point.repeats),
        "cv_percent": None if variation is None else round(variation, 3),
        "worst_minute_iops": _worst(
            point, "worst_minute_iops", [r.worst_minute_iops for r in point.repeats]
        ),
        "worst_second_iops": _worst(
            point, "worst_second_iops", [r.worst_second_iops for r in point.repeats]
        ),
    }
    percentiles = percentiles_of(point.estimates)
    for share, name in SUMMARY_PERCENTILES.items():
        estimate = percentiles.get(share)
        row[name] = estimate.value if estimate and estimate.status != "suppressed" else None
    return row | _slow_changes(point)


def _slow_changes(point: PointResult) -> Row:
    """What the run could not have seen."""
    basis = point.basis
    fill, day = (basis.unseen_drift_per_fill, basis.unseen_drift_per_day) if basis else (None, None)
    return {
        "longest_wave_s": basis.longest_wave_s if basis else None,
        "unseen_drift_per_fill_percent": None if fill is None else 100 * fill,
        "unseen_drift_per_day_percent": None if day is None else 100 * day,
    }


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """What a run holds; docs/tables.md describes the columns of its tables."""

    directory: Path
    result: RunResult

    @property
    def results(self) -> "pd.DataFrame":
        """One row per point, repeat and metric, as in results.csv."""
        return results_table(self.result).frame()

    @property
    def summary(self) -> "pd.DataFrame":
        """One row per point, as in summary.csv."""
        return summary_table(self.result).frame()

    @property
    def artifacts(self) -> "pd.DataFrame":
        """The files behind each number, as in artifacts.csv."""
        return artifacts_table(self.result).frame()


def opened(path: Path) -> OpenedRun:
    """Open a run directory. Raises UsageError when it has no result that this version reads."""
    return OpenedRun(path, StoredRun.open(path).result)
