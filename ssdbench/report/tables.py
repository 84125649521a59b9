"""Make the tables of a stored run: results, summary, artifacts and targets.

Every row says whether the target was simulated, and why a number is not VALIDATED.
"""

import csv
import io
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ssdbench.foreign import cell
from ssdbench.model.finding import Finding, Severity
from ssdbench.model.found import FillDone, Points, WarmUp
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.point import Estimate, PointResult, Repeat
from ssdbench.model.rates import LoadFound, RateFound
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.rundirectory import STAGES
from ssdbench.model.workload import Workload
from ssdbench.report.metrics import (
    MOVING,
    direction,
    percentiles_of,
    published_bound,
    value_of,
    whole,
)
from ssdbench.report.read import StoredRun
from ssdbench.report.view import words
from ssdbench.report.view.capacity import answer_line, answer_of, names_of
from ssdbench.report.view.words import simulated_label
from ssdbench.stats.bounds.point import without_bound
from ssdbench.stats.planning.capacity import Limit
from ssdbench.stats.planning.runplan import CapacityAnswer

if TYPE_CHECKING:
    import pandas as pd


T = TypeVar("T")
Row = dict[str, object]
Columns = Mapping[str, tuple[str, Callable[[T], object]]]  # by name: type, and value of an item


def types_of(columns: Columns[T]) -> dict[str, str]:
    """Return the types of columns by name."""
    return {name: kind for name, (kind, _) in columns.items()}


def row_of(columns: Columns[T], item: T) -> Row:
    """Return the row of an item."""
    return {name: value(item) for name, (_, value) in columns.items()}


def reasons(findings: Sequence[Finding]) -> str:
    """Format why a number is not VALIDATED, as `code: sentence`, joined by `; `."""
    invalidating = [f for f in findings if f.severity is Severity.INVALIDATES]
    return "; ".join(dict.fromkeys(f"{f.code}: {f.message}" for f in invalidating))


def point_findings(point: PointResult) -> tuple[Finding, ...]:
    """Return the findings about a point and about each of its repeats."""
    return point.findings + tuple(f for repeat in point.repeats for f in repeat.findings)


def variation_percent(point: PointResult) -> float | None:
    """Return the coefficient of variation of the repeats' IOPS, or None for a single repeat."""
    values = [repeat.iops for repeat in point.repeats]
    if len(values) < 2 or (mean := statistics.fmean(values)) <= 0:
        return None
    return 100 * statistics.stdev(values) / mean


def _value(metric: str, point: PointResult) -> float | None:
    return value_of(point, metric)


def _interval_end(name: str, point: PointResult) -> object:
    return getattr(point.estimate("iops"), name, None)


def _basis(name: str, point: PointResult) -> float | None:
    found: float | None = getattr(point.basis, name, None)
    return found


def _worst(name: str, point: PointResult) -> float | None:
    # Runs of older versions do not have this estimate.
    known = [value for r in point.repeats if (value := getattr(r, name)) is not None]
    return value_of(point, name) if point.estimate(name) else min(known, default=None)


def _latency(share: float, point: PointResult) -> float | None:
    one = percentiles_of(point.estimates).get(share)
    return one.value if one and one.status != "suppressed" else None


def percent(share: float | None) -> float | None:
    """Return a share in percent; None if it is not known."""
    return None if share is None else 100 * share


_RUN: Columns[RunResult] = {
    "run_id": ("str", lambda result: result.run_id),
    "target": ("str", lambda result: result.target.name),
    "simulated": ("str", lambda result: simulated_label(result.target) or "no"),
}
_STAGE: Columns[StageResult] = {
    "stage": ("str", lambda stage: stage.name),
    "stage_kind": ("str", lambda stage: str(stage.kind)),
}
_POINT: Columns[PointResult] = {
    "point": ("str", lambda point: point.point.id),
    "workload": ("str", lambda point: point.point.workload.label()),
    "access_pattern": ("str", lambda point: str(point.point.workload.pattern)),
    "block_bytes": ("Int64", lambda point: point.point.workload.block_bytes),
    "read_percent": ("Int64", lambda point: point.point.workload.read_percent),
    "iodepth": ("Int64", lambda point: point.point.workload.iodepth),
    "numjobs": ("Int64", lambda point: point.point.workload.numjobs),
    "offset_bytes": ("Int64", lambda point: point.point.workload.range.offset_bytes),
    "span_bytes": ("Int64", lambda point: point.point.workload.range.length_bytes),
    "span_percent": ("Float64", lambda point: point.point.span_percent),
    "fill_percent": ("Float64", lambda point: point.point.fill_percent),
    "verdict": ("str", lambda point: point.verdict),
    "reasons": ("str", lambda point: reasons(point_findings(point))),
}
_SUMMARY: Columns[PointResult] = {
    "iops_bound": ("Float64", published_bound),
    "iops": ("Float64", partial(_value, "iops")),
    "iops_ci_low": ("Float64", partial(_interval_end, "ci_low")),
    "iops_ci_high": ("Float64", partial(_interval_end, "ci_high")),
    "repeats": ("Int64", lambda point: len(point.repeats)),
    "cv_percent": ("Float64", variation_percent),
    "worst_minute_iops": ("Float64", partial(_worst, "worst_minute_iops")),
    "worst_second_iops": ("Float64", partial(_worst, "worst_second_iops")),
    "lat_p50_ns": ("Float64", partial(_latency, 50.0)),
    "lat_p99_ns": ("Float64", partial(_latency, 99.0)),
    "lat_p99_9_ns": ("Float64", partial(_latency, 99.9)),
    "watts": ("Float64", partial(_value, "watts")),
    "iops_per_watt": ("Float64", partial(_value, "iops_per_watt")),
    "joules_per_gb": ("Float64", partial(_value, "joules_per_gb")),
    "host_watts": ("Float64", partial(_value, "host_watts")),
    "longest_wave_s": ("Float64", partial(_basis, "longest_wave_s")),
    "unseen_drift_per_fill_percent": (
        "Float64",
        lambda point: percent(_basis("unseen_drift_per_fill", point)),
    ),
    "unseen_drift_per_day_percent": (
        "Float64",
        lambda point: percent(_basis("unseen_drift_per_day", point)),
    ),
}
# The numbers of a point that the table of a comparison has, too.
POINT_NUMBERS = {
    name: column
    for name, column in _SUMMARY.items()
    if name.startswith(("iops", "lat_")) and name != "iops_per_watt"
}

# The first columns of the tables results and summary; docs/tables.md explains all columns.
SHARED_TYPES = types_of(_RUN) | types_of(_STAGE) | types_of(_POINT)
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
SUMMARY_TYPES = SHARED_TYPES | types_of(_SUMMARY)
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

_DIRECTIONS = ("read", "write", "total")
PLAN_TYPES = {
    "candidate": "str",
    "run_id": "str",
    "target": "str",
    "simulated": "str",
    "drives": "str",
    "decided_by": "str",
    **{f"{limit}_headroom_percent": "Float64" for limit in Limit},
    "planned_iops": "Float64",
    "bound_iops": "Float64",
    "load_iops": "Float64",
    "missed_drives": "Int64",
    "kept_load_iops": "Float64",
    "missed_load_iops": "Float64",
    **{f"lat_p99_{way}_limit_ns": "Float64" for way in _DIRECTIONS[:2]},
    **{f"lat_p99_{way}_{of}": "Float64" for way in _DIRECTIONS for of in ("ns", "upper_ns")},
    "price": "Float64",
    "price_per_tb": "Float64",
    "power_w": "Float64",
    "life_years": "Float64",
    "needed_life_years": "Float64",
    "verdict": "str",
    "reasons": "str",
    "answer": "str",
    "question": "str",
}

SUMMARY_DECIMALS = 3  # summary.csv is for people; results.csv has all digits


@dataclass(frozen=True)
class Tidy:
    """A table: its rows, and the names and types of its columns in order."""

    rows: Sequence[Row]
    types: Mapping[str, str]

    def frame(self) -> "pd.DataFrame":
        """Return the table as a pandas frame, for notebooks; importing pandas takes long."""
        import pandas as pd

        columns = {name: [row.get(name) for row in self.rows] for name in self.types}
        return pd.DataFrame(columns, columns=list(self.types)).astype(dict(self.types))

    @cached_property
    def columns(self) -> Sequence[Sequence[str | None]]:
        """Return each column as text, with None for a missing value."""
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
    """Return one row per point, repeat and metric.

    All runs have the same columns and types, so that their tables can be joined. A suppressed
    number also has a row, but without a value.
    """
    rows = [row for stage in result.stages for row in _stage_rows(result, stage)]
    if (idle := result.idle_watts) is not None:
        about = {"stage_kind": "idle", "direction": "total", "verdict": result.verdict}
        rows.append(row_of(_RUN, result) | about | _estimate(idle))
    return Tidy([*rows, *_capacity_rows(result)], RESULT_TYPES)


def summary_table(result: RunResult) -> Tidy:
    """Return one row per point, in the order of the stored run."""
    rows = [
        row_of(_RUN, result)
        | row_of(_STAGE, stage)
        | row_of(_POINT, point)
        | row_of(_SUMMARY, point)
        for stage in result.stages
        for point in stage.points
    ]
    for row in rows:
        row |= {k: round(v, SUMMARY_DECIMALS) for k, v in row.items() if isinstance(v, float)}
    return Tidy(rows, SUMMARY_TYPES)


def artifacts_table(result: RunResult) -> Tidy:
    """Return a row for each number, with the files or directories from which it was computed."""
    own = {"run_id": result.run_id}
    rows = [own | row for stage in result.stages for row in _artifacts(stage)]
    return Tidy(rows, ARTIFACT_TYPES)


def targets_table(result: RunResult) -> Tidy:
    """Return a row for each number that the profile requires of the drive (its targets)."""
    rows: list[Row] = [
        row_of(_RUN, result)
        | one.model_dump(exclude={"target", "seen", "worse_because"})
        | {"asked": one.target, "pessimistic": one.seen}
        | {"worse_because": "; ".join(one.worse_because)}
        for one in result.accepted
    ]
    return Tidy(rows, TARGET_TYPES)


def csv_bytes(table: Tidy) -> bytes:
    """Return a table as CSV bytes; a missing value is an empty cell, and each line ends with LF."""
    shown = []
    for kind, column in zip(table.types.values(), table.columns, strict=True):
        words = {None: ""} | {value: value for value in set(column) if value is not None}
        if kind == "str":  # convert each text once, as most of them repeat
            words |= {value: cell(value) for value in words if value is not None}
        shown.append([words[value] for value in column])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.types)
    writer.writerows(zip(*shown, strict=True))
    return text.getvalue().encode()


def _stage_rows(result: RunResult, stage: StageResult) -> Iterator[Row]:
    common = row_of(_RUN, result) | row_of(_STAGE, stage) | {"verdict": result.verdict}
    if (answers := _ANSWERS.get(type(stage.found))) is not None:
        yield from (common | row for row in answers(stage, stage.found))
    for point in stage.points:
        about = common | row_of(_POINT, point)
        for estimate in point.estimates:
            yield about | _estimate_columns(estimate, point)
        for stream in point.streams:
            for estimate in stream.estimates:
                yield about | _estimate_columns(estimate, point) | {"stream": stream.name}
        for repeat in point.repeats:
            yield from (about | row for row in _repeat_rows(repeat, point.point.workload))


def _number(metric: str, value: object, unit: str, how: str) -> Row:
    """Return the cells of one number, by column; without a value, its status is `suppressed`."""
    status = "suppressed" if value is None else "published"
    return {
        "metric": metric, "metric_value": value, "unit": unit, "computed_by": how,
        "status": status,
    }  # fmt: skip


def _answered(stage: StageResult, metric: str, value: object, unit: str, how: str) -> Row:
    """Return a row for the answer of a stage without points; the answer is a number or a word."""
    row = _number(metric, value, unit, how) | {"reasons": reasons(stage.findings)}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return row
    return row | {
        "metric_value": None,
        "unit": None,
        "answer": None if value is None else str(value),
    }


def _fill_rows(stage: StageResult, found: FillDone) -> Iterator[Row]:
    if found.read_back is None:
        return
    how = "simulation" if found.read_back == "known" else "reads after the fill"
    yield _answered(stage, "capacity_proof", found.read_back, "", how)
    for metric, value, unit in (
        ("read_back_bytes", found.read_back_bytes, "B"),
        ("read_back_reads", found.read_back_reads, "1"),
        ("wrong_reads", found.wrong_reads, "1"),
    ):
        if value is not None:
            yield _answered(stage, metric, value, unit, how)


def _warm_up_rows(stage: StageResult, found: WarmUp) -> Iterator[Row]:
    if (verdict := found.verdict) is None:
        return
    rate = verdict.mean if verdict.steady else None
    how = f"steady-state rule {verdict.rule}"
    yield _number("steady_rate", rate, found.unit, how) | {
        "direction": "total",
        "bound": verdict.lower_bound if verdict.steady else None,
        "samples": len(verdict.window_blocks),
        "verdict": "STEADY" if verdict.steady else "NOT STEADY",
        "reasons": verdict.reason,
    }


def _offered(found: RateFound | LoadFound) -> Row:
    return {
        "workload": found.workload,
        "access_pattern": found.pattern,
        "block_bytes": found.block_bytes,
        "read_percent": found.read_percent,
    }


def _rate_rows(stage: StageResult, found: RateFound) -> Iterator[Row]:
    verdict = "NOT VALIDATED" if stage.why_not else "VALIDATED"
    about = _offered(found) | {"samples": found.searches, "verdict": verdict}
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
    about = _offered(found) | {"verdict": found.verdict, "reasons": reasons(stage.findings)}
    for estimate in found.estimates:
        how = words.mark_unvalidated(f"at {found.label}, {estimate.method}", stage.why_not)
        own = {"direction": estimate.direction, "computed_by": how}
        yield about | _estimate(estimate) | own
    yield about | _answered(stage, "load_offered_iops", found.offered_iops, "1/s", "as offered")
    yield about | _answered(stage, "rate_clients", found.clients, "1", "that shared the rate")


def _interference_rows(stage: StageResult, found: Points) -> Iterator[Row]:
    for curve in found.interference:
        how = f"largest write load with {curve.percentile} of reads within {curve.limit_ns:g} ns"
        about = {"workload": curve.readers, "direction": "write", "verdict": curve.verdict}
        for metric, value in (
            ("interference_kept_iops", curve.kept_iops),
            ("interference_likely_iops", curve.likely_iops),
            ("interference_failed_iops", curve.failed_iops),
        ):
            yield about | _answered(stage, metric, value, "1/s", how)


def _replay_rows(stage: StageResult, found: ReplayFound) -> Iterator[Row]:
    about: Row = {
        "workload": f"replay of {found.name}, {found.loop} loop",
        "verdict": found.verdict,
        "reasons": reasons(stage.findings),
    }
    for estimate in found.estimates:
        yield about | _estimate(estimate) | {"direction": estimate.direction}


def _block_rows(stage: StageResult, found: BlockSizeFound) -> Iterator[Row]:
    for metric, value, unit in (
        ("block_answer", found.answer or None, ""),
        ("write_at_least_bytes", found.write_bytes, "B"),
        ("block_found_bytes", found.block_bytes, "B"),
        ("write_buffer_bytes", found.buffer_bytes, "B"),
        ("write_buffer_least_bytes", found.buffer_least_bytes, "B"),
        ("write_buffer_most_bytes", found.buffer_most_bytes, "B"),
        ("block_confidence", found.confidence, "1"),
    ):
        yield _answered(stage, metric, value, unit, found.evidence or "strided writes")


def _probe_rows(stage: StageResult, found: ProbeFound) -> Iterator[Row]:
    how = f"probe {found.probe}"
    yield _answered(stage, "probe_answer", found.answer or None, "", how)
    for name, value in found.numbers.known().items():
        yield _answered(stage, f"probe_{name}", value, _unit_of(name), how)


_ANSWERS: Mapping[type, Callable[[StageResult, Any], Iterator[Row]]] = {
    FillDone: _fill_rows,
    WarmUp: _warm_up_rows,
    RateFound: _rate_rows,
    LoadFound: _load_rows,
    Points: _interference_rows,
    ReplayFound: _replay_rows,
    BlockSizeFound: _block_rows,
    ProbeFound: _probe_rows,
}


def _unit_of(name: str) -> str:
    """Return the unit of a probe's number, found by a part of its name such as `_bytes`."""
    units = {"_bytes": "B", "mb_per_s": "MB/s", "_us": "us", "_percent": "%"}
    units |= {"_watts": "W", "_joules": "J", "_after_s": "s"}
    for part, unit in units.items():
        if part in name:
            return unit
    return "1"


def _capacity_rows(result: RunResult) -> Iterator[Row]:
    """Yield the rows of the capacity plan; no rows if the profile states no demand."""
    if (found := answer_of(result)) is None:
        return
    wanted = found.wanted
    made, wear = found.plan, found.plan.wear if found.plan else None
    common = row_of(_RUN, result) | {"stage_kind": "capacity"}
    common |= row_of(_POINT, found.point) if found.point else {}
    common |= {"verdict": found.verdict, "reasons": _why(found)}
    how = "plan of the profile"
    for metric, value, unit in (
        ("capacity_demand_iops", wanted.demand_iops, "1/s"),
        ("capacity_load_iops", made and made.load_iops, "1/s"),
        ("capacity_bound_iops", made and made.bound_iops, "1/s"),
        ("capacity_utilisation_percent", wanted.utilisation_percent, "%"),
        ("capacity_reserve_drives", wanted.failure_reserve, "1"),
        ("capacity_life_years", wear and wear.life_years, "a"),
        ("capacity_drive_writes_per_day", wear and wear.dwpd_used, "1/d"),
        ("capacity_planned_iops", made and made.planned_iops, "1/s"),
        ("capacity_price", made and made.cost, "1"),
    ):
        yield common | _number(metric, value, unit, how)
    power = made and made.power_w
    yield common | _number("capacity_power_w", power, "W", found.power_source or how)
    # A number of drives that is not validated appears only in `answer`, which also has its verdict.
    drives = made.drives if made and not found.reasons else None
    yield common | _number("capacity_drives", drives, "1", how) | {"answer": answer_line(found)}
    for need in made.needs if made else ():
        metric = f"capacity_{need.limit}_headroom_percent"
        yield common | _number(metric, percent(need.headroom), "%", how)
    for metric, value in (
        ("capacity_kept_load_iops", found.kept_load_iops),
        ("capacity_missed_load_iops", found.missed_load_iops),
    ):
        if value is not None:
            yield common | _number(metric, value, "1/s", "offered to one drive")
    for one in found.latencies:
        at = words.mark_unvalidated(f"{one.stage}, at {one.measured_iops:.0f} IOPS", one.why_not)
        number = _number("capacity_p99_ns", one.p99_ns, "ns", at)
        yield common | number | {"direction": one.direction, "bound": one.upper_ns}


def _why(found: CapacityAnswer) -> str:
    return "; ".join((*found.reasons, *found.incomplete))


def plans_table(plans: Sequence[tuple[RunResult, CapacityAnswer]]) -> Tidy:
    """Return the table that `capacity` writes: a row for each run, in the command line's order."""
    rows: list[Row] = []
    for name, (result, found) in zip(names_of(plans), plans, strict=True):
        made, latencies = found.plan, {one.direction: one for one in found.latencies}
        headroom = {need.limit: need.headroom for need in made.needs} if made else {}
        rows.append(
            row_of(_RUN, result)
            | {
                "candidate": name,
                "drives": made and words.marked(f"{made.drives}", found.verdict),
                "missed_drives": found.missed_drives,
                "bound_iops": made and made.bound_iops,
                "kept_load_iops": found.kept_load_iops,
                "missed_load_iops": found.missed_load_iops,
                "load_iops": found.wanted.load_iops,
                "needed_life_years": found.wanted.warranty_years,
                "decided_by": made and str(made.decided_by),
                "planned_iops": made and made.planned_iops,
                "price": made and made.cost,
                "price_per_tb": made and made.cost_per_tb,
                "power_w": made and made.power_w,
                "life_years": made.wear.life_years if made and made.wear else None,
                "verdict": found.verdict,
                "reasons": _why(found),
                "answer": answer_line(found),
                "question": found.wanted.asked(),
            }
            | {f"{limit}_headroom_percent": percent(headroom.get(limit)) for limit in Limit}
            | {
                f"lat_p99_{way}_{name}": value
                for way, one in latencies.items()
                for name, value in (("ns", one.p99_ns), ("upper_ns", one.upper_ns))
            }
            | {
                f"lat_p99_{way}_limit_ns": 1e9 * limit_s
                for way, limit_s in found.wanted.limits_s.items()
            }
        )
    return Tidy(rows, PLAN_TYPES)


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
    if repeat.power is not None:
        metrics.append(
            ("watts", repeat.power.watts, "W", f"one repeat, by the {repeat.power.source}")
        )
    if (slow := repeat.slow) is not None:
        how = f"one repeat, {slow.begins_ms[0]} ms or longer, by fio and the drive's monitor"
        metrics.append(("slow_requests_of_drive", sum(slow.of_drive), "1", how))
        metrics.append(("slow_requests_of_host", sum(slow.of_host), "1", how))
    if repeat.zone_resets is not None:
        metrics.append(("zone_resets", repeat.zone_resets, "1", "fio's count, settling included"))
    about: Row = {"repeat_number": repeat.repeat, "direction": whole(workload), "samples": 1}
    yield from (about | _number(*metric) for metric in metrics)


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run with its tables as pandas frames; docs/tables.md explains the columns."""

    directory: Path
    result: RunResult

    @property
    def results(self) -> "pd.DataFrame":
        """Return one row per point, repeat and metric, as in results.csv."""
        return results_table(self.result).frame()

    @property
    def summary(self) -> "pd.DataFrame":
        """Return one row per point, as in summary.csv."""
        return summary_table(self.result).frame()

    @property
    def artifacts(self) -> "pd.DataFrame":
        """Return the files from which each number was computed, as in artifacts.csv."""
        return artifacts_table(self.result).frame()


def opened(path: Path) -> OpenedRun:
    """Open a run directory. Raises UsageError for a result that cannot be read."""
    return OpenedRun(path, StoredRun.open(path).result)
