"""Export a run or a fleet as OpenMetrics, for the textfile collector of Prometheus' node exporter.

Latency is a summary and all other metrics are gauges, so that readers of the older Prometheus text
format can also read the file. A number that the run suppresses has no sample, because a sample of 0
would be wrong. The start time of a run is one of its labels, so that two runs of one drive never
have the same labels.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

from ssdbench.engine.events import Progress
from ssdbench.foreign import plain
from ssdbench.model.point import PointResult
from ssdbench.model.rates import RateFound
from ssdbench.model.result import RunResult
from ssdbench.report.metrics import percentile, published_bound
from ssdbench.report.read import StoredRun
from ssdbench.units import NS_PER_S, parse_moment

Labels = Mapping[str, str]


@dataclass(slots=True)
class Family:
    """One metric: name (with its unit at the end), help text, and samples."""

    name: str
    told: str
    unit: str = ""
    kind: str = "gauge"
    _samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, labels: Labels, value: float, suffix: str = "") -> None:
        """Add a sample; `suffix` is _sum or _count for those two samples of a summary."""
        self._samples.append((suffix, labels, value))

    def lines(self) -> Iterator[str]:
        """Yield the text lines of this metric; no lines if it has no samples."""
        if not self._samples:
            return
        yield f"# TYPE {self.name} {self.kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {_escaped(self.told)}"
        for suffix, labels, value in self._samples:
            text = ",".join(f'{name}="{_escaped(label)}"' for name, label in labels.items())
            number = "NaN" if isnan(value) else repr(value)
            yield f"{self.name}{suffix}{{{text}}} {number}"


@dataclass(frozen=True, slots=True)
class FleetDrive:
    """A drive of a fleet, with labels that no other drive has."""

    labels: Labels
    stage: str
    values: Mapping[str, float | None]  # by name in FLEET_METRICS; None: unknown


# By the name of the value: the end of the metric's name, its help text and its unit.
RUN_METRICS = {
    "fraction": ("progress_ratio", "Part of the current stage that is done", "ratio"),
    "left_s": ("stage_left_seconds", "Time left in the current stage", "seconds"),
    "rate_iops": ("current_iops", "IOPS at present, not a result", ""),
}
FLEET_METRICS = {
    **RUN_METRICS,
    "findings": ("findings", "Number of findings so far", ""),
    "exit_code": ("exit_code", "Exit code of the run: 0 when it is VALIDATED", ""),
    "heard": ("heard_timestamp_seconds", "When the control host last heard of the run", "seconds"),
}


def export(run: StoredRun, progress: Progress | None = None) -> bytes:
    """Return the metrics file of a run; give `progress` only while the run is in progress."""
    return _text(_families(run.result, progress))


def export_fleet(drives: Sequence[FleetDrive], stages: Sequence[str]) -> bytes:
    """Return the metrics file of a fleet; `stages` lists all stages that a drive can be in."""
    stage = Family("ssdbench_fleet_drive_stage", "1 for the stage that the drive is in, else 0")
    for one in drives:
        for name in stages:
            stage.add({**one.labels, "stage": name}, float(one.stage == name))
    values = [(one.labels, one.values) for one in drives]
    return _text((stage, *_gauges("ssdbench_fleet_drive", FLEET_METRICS, values)))


def _gauges(
    prefix: str,
    metrics: Mapping[str, tuple[str, str, str]],
    values: Sequence[tuple[Labels, Mapping[str, float | None]]],
) -> Iterator[Family]:
    for key, (name, told, unit) in metrics.items():
        family = Family(f"{prefix}_{name}", told, unit)
        for labels, known in values:
            if (value := known.get(key)) is not None:
                family.add(labels, float(value))
        yield family


def _text(families: Iterable[Family]) -> bytes:
    lines = [line for family in families for line in family.lines()]
    return ("\n".join([*lines, "# EOF"]) + "\n").encode()


def _families(result: RunResult, progress: Progress | None) -> Iterator[Family]:
    drive = {
        "target": result.target.name,
        "model": result.target.model,
        "serial": result.target.serial,
        "firmware": result.target.firmware,
        "simulated": "yes" if result.target.modelled else "no",
        "run_id": result.run_id,
        "started": result.started_at,
    }
    ended = parse_moment(result.finished_at).timestamp() if result.finished_at else None
    now = {name: getattr(progress, name, None) for name in RUN_METRICS}
    metrics = {
        "validated": ("validated", "1 when the run is VALIDATED, else 0", ""),
        "at_work": ("at_work", "1 while the run is measuring, else 0", ""),
        "ended": ("finished_timestamp_seconds", "When the run ended", "seconds"),
        "written": ("written_bytes", "Bytes that the run wrote", "bytes"),
        **RUN_METRICS,
    }
    values = {
        "validated": result.verdict == "VALIDATED",
        "at_work": progress is not None,
        "ended": None if progress else ended,
        "written": result.bytes_written,
        **now,
    }
    yield from _gauges("ssdbench_run", metrics, [(drive, values)])
    yield from _of_points([({**drive, **_point_labels(point)}, point) for point in result.points])
    highest = Family(
        "ssdbench_rate_within_limit_iops", "Highest offered rate within the latency limit"
    )
    sound = Family(
        "ssdbench_rate_validated", "1 when the rate within the limit is VALIDATED, else 0"
    )
    for stage, found in result.having(RateFound):
        labels = {**drive, "stage": stage.name, "limit": found.limit}
        if found.rate_iops is not None:
            highest.add(labels, found.rate_iops)
        sound.add(labels, float(not stage.why_not))
    yield from (highest, sound)


def _point_labels(point: PointResult) -> dict[str, str]:
    workload = point.point.workload
    return {
        "point": point.point.id,
        "workload": point.point.label(),
        "block_bytes": str(workload.block_bytes),
        "read_percent": str(workload.read_percent),
        "iodepth": str(workload.iodepth),
        "numjobs": str(workload.numjobs),
    }


def _of_points(points: Iterable[tuple[dict[str, str], PointResult]]) -> Iterator[Family]:
    sound = Family("ssdbench_point_validated", "1 when the point is VALIDATED, else 0")
    bound = Family("ssdbench_iops_lower_bound", "Lower bound of IOPS: the rate to plan on")
    mean = Family("ssdbench_iops_mean", "Mean IOPS over the repeats")
    minute = Family("ssdbench_iops_worst_minute", "Slowest minute of all evidence, in IOPS")
    latency = Family(
        "ssdbench_latency_seconds",
        "Latency by direction: percentiles, mean times I/Os, I/Os",
        "seconds",
        "summary",
    )
    for labels, point in points:
        sound.add(labels, float(point.verdict == "VALIDATED"))
        if (lowest := published_bound(point)) is not None:
            bound.add(labels, lowest)
        for family, metric in ((mean, "iops"), (minute, "worst_minute_iops")):
            if (estimate := point.estimate(metric)) is not None:
                family.add(labels, estimate.value)
        _add_latency(latency, labels, point)
    yield from (sound, bound, mean, minute, latency)


def _add_latency(latency: Family, labels: Labels, point: PointResult) -> None:
    """Add latency summaries of reads and writes; a sum is NaN where the mean is unknown."""
    shares = [(percentile(one.metric), one) for one in point.estimates]
    for direction in dict.fromkeys(one.direction for share, one in shares if share is not None):
        where = {**labels, "direction": direction}
        mean_ns, ios = nan, 0
        for share, one in shares:
            if one.direction != direction:
                continue
            if one.metric == "lat_mean_ns":
                mean_ns = one.value
            elif share is not None:
                ios = max(ios, one.n)
                if one.status != "suppressed":
                    latency.add({**where, "quantile": f"{share / 100:.7g}"}, one.value / NS_PER_S)
        latency.add(where, ios * mean_ns / NS_PER_S, "_sum")
        latency.add(where, float(ios), "_count")


def _escaped(text: str) -> str:
    return plain(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
