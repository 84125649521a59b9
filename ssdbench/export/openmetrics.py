"""Export a run as OpenMetrics, for the textfile collector of Prometheus' node exporter.

All metrics are gauges, so that the older text format can be read too. A suppressed number is left
out; it does not mean zero.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ssdbench.foreign import plain
from ssdbench.model.point import PointResult
from ssdbench.model.rates import RateFound
from ssdbench.model.result import RunResult
from ssdbench.report.metrics import percentile, published_bound
from ssdbench.report.read import StoredRun
from ssdbench.units import NS_PER_S, parse_moment


@dataclass(slots=True)
class Family:
    """One metric: name (with its unit at the end), help text, and samples."""

    name: str
    told: str
    unit: str = ""
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the lines of this metric; nothing if it has no samples."""
        if not self.samples:
            return
        yield f"# TYPE {self.name} gauge"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {_escaped(self.told)}"
        for labels, value in self.samples:
            text = ",".join(f'{name}="{_escaped(label)}"' for name, label in labels.items())
            yield f"{self.name}{{{text}}} {value!r}"


def export(run: StoredRun) -> bytes:
    """Return the run as the text of a metrics file."""
    lines = [line for family in _families(run.result) for line in family.lines()]
    return ("\n".join([*lines, "# EOF"]) + "\n").encode()


def _families(result: RunResult) -> Iterator[Family]:
    drive = {
        "target": result.target.name,
        "model": result.target.model,
        "serial": result.target.serial,
        "firmware": result.target.firmware,
        "simulated": "yes" if result.target.simulated else "no",
        "run_id": result.run_id,
    }
    valid = float(result.verdict == "VALIDATED")
    yield Family(
        "ssdbench_run_validated", "1 when the run is VALIDATED, else 0", "", [(drive, valid)]
    )
    if result.finished_at:
        ended = parse_moment(result.finished_at).timestamp()
        name = "ssdbench_run_finished_timestamp_seconds"
        yield Family(name, "When the run ended", "seconds", [(drive, ended)])
    written = float(result.bytes_written)
    yield Family(
        "ssdbench_run_written_bytes", "Bytes that the run wrote", "bytes", [(drive, written)]
    )
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
            highest.samples.append((labels, found.rate_iops))
        sound.samples.append((labels, float(not stage.why_not)))
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
    latency = Family("ssdbench_latency_seconds", "Percentiles of latency by direction", "seconds")
    for labels, point in points:
        sound.samples.append((labels, float(point.verdict == "VALIDATED")))
        if (lowest := published_bound(point)) is not None:
            bound.samples.append((labels, lowest))
        for family, metric in ((mean, "iops"), (minute, "worst_minute_iops")):
            if (estimate := point.estimate(metric)) is not None:
                family.samples.append((labels, estimate.value))
        for one in point.estimates:
            share = percentile(one.metric)
            if share is None or one.status == "suppressed":
                continue
            where = {"quantile": f"{share / 100:.7g}", "direction": one.direction}
            latency.samples.append(({**labels, **where}, one.value / NS_PER_S))
    yield from (sound, bound, mean, minute, latency)


def _escaped(text: str) -> str:
    return plain(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
