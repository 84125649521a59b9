"""Readable test data: a stored run with planted numbers, as the engine leaves it on disk."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ssdbench.engine.manifest import Manifest
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.point import Estimate, PointResult, Repeat, SteadyVerdict, Verdict
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import ActiveRange, Pattern, Point, Workload
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.series import Floats, Series

CAPACITY_BYTES = 160_000_000_000
SUSTAINED_WRITE_IOPS = 6_000.0  # planted: 4 KiB random write, whole drive, any queue depth
REPEAT_SPREAD = (0.0, 0.6, -0.8, 1.1, -0.3, 0.9, -1.2, 0.2, -0.5, 0.4)  # percent of the mean
TOLERANCE_FACTOR = 2.911  # normal 95/95, ten repeats


def a_target(kind: TargetKind = TargetKind.SIMULATED, **changes: Any) -> TargetInfo:
    """The simulated drive of the demo, or the same drive as another kind of target."""
    simulated = kind is TargetKind.SIMULATED
    values: dict[str, Any] = {
        "kind": kind,
        "name": "sim:x25m-g2-160" if simulated else "/dev/loop7",
        "node": "sim/state.ssdb" if simulated else "/dev/loop7",
        "id": "sim-x25m-g2-160-7" if simulated else "file-1234",
        "size_bytes": CAPACITY_BYTES,
        "physical_block_bytes": 4096,
        "model": "Intel X25-M G2 160 GB",
        "serial": "CVPO0001",
        "firmware": "02M3",
        "facts": {"interface": "SATA 3 Gbit/s", "spare area": "7.4 %", "write cache": "on"},
        "simulated": simulated,
        "sim_model": "x25m-g2-160" if simulated else "",
        "sim_seed": 7 if simulated else None,
    }
    return TargetInfo(**values | changes)


def a_workload(**changes: Any) -> Workload:
    """4 KiB random write over the whole drive, 32 deep, 4 jobs."""
    values: dict[str, Any] = {
        "pattern": Pattern.RANDOM,
        "block_bytes": 4096,
        "read_percent": 0,
        "iodepth": 32,
        "numjobs": 4,
        "range": ActiveRange(offset_bytes=0, length_bytes=CAPACITY_BYTES),
    }
    return Workload(**values | changes)


def stage_result(kind: str, found: dict[str, Any] | None = None, **head: Any) -> StageResult:
    """A stage that found something, with a head that no test looks at where it is not given."""
    values: dict[str, Any] = {
        "name": f"03-{kind}",
        "title": "",
        "started_at": "2026-11-21T02:30:00+00:00",
        "duration_s": 1.0,
        "wall_s": 1.0,
        "found": {"kind": kind, **(found or {})},
    }
    return StageResult.model_validate(values | head)


def with_found(stage: StageResult, **changes: Any) -> StageResult:
    """A stage that found something else; other names are those of its head."""
    head = {name: changes.pop(name) for name in list(changes) if name in StageResult.model_fields}
    found = stage.found.model_copy(update=changes)
    return stage.model_copy(update={**head, "found": found})


def planted_iops(workload: Workload, span_percent: float | None = None) -> float:
    """What the builders plant for a workload: write cost dominates, smaller spans are faster."""
    queue = min(workload.iodepth * workload.numjobs, 10)
    read = 3_500.0 * queue * (4096 / max(workload.block_bytes, 4096)) ** 0.6
    write = SUSTAINED_WRITE_IOPS * 4096 / max(workload.block_bytes, 4096)
    write *= (100 / (span_percent or 100)) ** 0.55
    write *= 0.35 if workload.block_bytes < 4096 else 1.0
    share = workload.read_percent / 100
    return float(1 / (share / read + (1 - share) / write))


def a_manifest(**changes: Any) -> Manifest:
    """The manifest of a run on a simulated drive."""
    fields: dict[str, Any] = {
        "run_id": "run", "title": "a test", "created_at": "2026-01-01T00:00:00.000+00:00",
        "ssdbench_version": "1.0.0", "versions": {}, "profile_name": "p.yaml",
        "profile_text": "title: T\n", "target": a_target(), "seed": 1,
    }  # fmt: skip
    fields |= changes
    digest = sha256(fields["profile_text"].encode()).hexdigest()
    return Manifest(profile_sha256=digest, **fields)


def a_finding(code: Code = Code.CV_TOO_HIGH, **changes: Any) -> Finding:
    """A finding that invalidates."""
    values: dict[str, Any] = {
        "code": code,
        "severity": Severity.INVALIDATES,
        "message": "The repeats differ by 6.3 %, more than 4 %.",
        "advice": "Look for other work on the host; more repeats do not mend a disturbed one.",
    }
    return Finding(**values | changes)


def a_verdict(*, steady: bool = True, mean: float = 24.6e6, until_s: float = 7200) -> SteadyVerdict:
    """The verdict of `pss` on the series that `a_run` stores, in bytes per second."""
    blocks = tuple(
        mean * (1 + 0.006 * x) for x in (1, -1, 0.5, -0.4, 0.2, -0.8, 0.9, -0.3, 0.1, -0.2)
    )
    start = until_s / 2
    return SteadyVerdict(
        rule="pss",
        steady=steady,
        checked_s=until_s,
        volume_fills=2.6,
        window_from_s=start,
        window_to_s=until_s,
        window_blocks=blocks,
        mean=mean,
        lower_bound=mean * 0.93,
        slope_per_s=-mean * 0.004 / start,
        intercept=mean * 1.002,
        criteria={
            "halves": (0.0021 if steady else 0.031, 0.01),
            "cv": (0.0064, 0.04),
            "pairs": (0.011, 0.10),
            "slope": (0.004, 0.05),
            "newest_minute": (-0.002, 0.02),
        },
        reason="" if steady else "The halves of the window differ by 3.1 %, more than 1 %.",
    )


@dataclass
class StoredRunBuilder:
    """Puts a run on disk, stage by stage; `write` ends it with result.json."""

    directory: Path
    target: TargetInfo = field(default_factory=a_target)
    seed: int = 7
    repeats: int = 10
    measure_s: int = 60
    stages: list[StageResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def precondition(self) -> "StoredRunBuilder":
        """Two sequential fills and a random one."""
        fast, slow = np.full(2600, 98e6), 98e6 * (0.25 + 0.75 * np.exp(-np.arange(3000) / 400))
        rate = np.concatenate([fast, slow]) * (1 + 0.02 * self.rng.standard_normal(5600))
        self._seconds(self._name("precondition"), rate, block_bytes=131072, phase="fill")
        return self._stage(
            "precondition",
            "Fill the whole drive",
            {"seconds_csv": (f"stages/{self._name('precondition')}/seconds.csv",)},
            bytes_written=3 * CAPACITY_BYTES,
        )

    def steady(self, *, steady: bool = True, seconds: int = 7200) -> "StoredRunBuilder":
        """Fresh burst, cliff, and a plateau with garbage-collection waves."""
        t = np.arange(1, seconds + 1)
        rate = 24.6e6 * (1 + 3.2 * np.exp(-t / 500) + 0.04 * np.sin(t / 40))
        rate *= 1 + 0.02 * self.rng.standard_normal(seconds)
        rate[5000:5060] *= 0.95  # the worst minute
        self._seconds(self._name("steady"), rate, block_bytes=4096, phase="warmup")
        return self._stage(
            "steady",
            "Warm up to steady state",
            {
                "label": a_workload().label(),
                "verdict": a_verdict(steady=steady),
                "seconds_csv": f"stages/{self._name('steady')}/seconds.csv",
            },
        )

    def sweep(
        self,
        *,
        blocks: tuple[int, ...] = (512, 4096, 8192, 16384),
        reads: tuple[int, ...] = (100, 70, 0),
        depths: tuple[int, ...] = (1, 32),
        noisy: tuple[str, ...] = (),
    ) -> "StoredRunBuilder":
        """Block size x read share x queue depth; points named in `noisy` fail the CV gate."""
        name = self._name("sweep")
        points = []
        for depth in depths:
            for read in reads:
                for block in blocks:
                    workload = a_workload(block_bytes=block, read_percent=read, iodepth=depth)
                    identity = f"b{block}-r{read}-qd{depth}"
                    point = Point(id=identity, sweep=name, workload=workload)
                    points.append(self._point(name, point, noisy=identity in noisy))
        return self._stage("sweep", "Block size, read share and queue depth", {"points": points})

    def span(self, spans: tuple[float, ...] = (5, 25, 50, 100)) -> "StoredRunBuilder":
        """4 KiB random writes to a growing part of the drive."""
        name = self._name("span")
        points = []
        for span in spans:
            length = int(CAPACITY_BYTES * span / 100)
            workload = a_workload(range=ActiveRange(offset_bytes=0, length_bytes=length))
            point = Point(id=f"span{span:g}", sweep=name, workload=workload, span_percent=span)
            points.append(self._point(name, point))
        return self._stage("span", "LBA span", {"points": points})

    def blocksize(self) -> "StoredRunBuilder":
        """Strided writes with a latency peak at every 1024 KiB."""
        name = self._name("blocksize")
        offset = np.arange(4096) * 32 * 1024
        peak = offset % (1024 * 1024) == 0
        latency = np.where(peak, 900_000, 85_000) * (1 + 0.08 * self.rng.standard_normal(4096))
        rows = zip(offset, latency, peak, strict=True)
        lines = [f"{o},{x:.0f},{int(p)}" for o, x, p in rows]
        relative = f"stages/{name}/stride-32k.csv"
        self._text(relative, "\n".join(["offset_bytes,latency_ns,peak", *lines]) + "\n")
        figure = {
            "kind": "scatter",
            "csv": relative,
            "title": "Latency of each 4 KiB write at a stride of 32 KiB",
            "x": "offset_bytes",
            "y": "latency_ns",
            "peaks": "peak",
        }
        found = {"block_bytes": 1048576, "p_value": 0.0025, "answer": "1 MiB block"}
        return self._stage("blocksize", "Block size", {**found, "figures": (figure,)})

    def probe(self, name: str, answer: str, **numbers: Any) -> "StoredRunBuilder":
        """One question to the drive, and what it answered."""
        return self._stage("probe", name, {"probe": name, "answer": answer, "numbers": numbers})

    def rate(self, rate_iops: float | None = 8_000.0, **changes: Any) -> "StoredRunBuilder":
        """Five searches for a rate within 10 ms at p99."""
        found = {"percentile": "p99", "limit_ns": 1e7, "block_bytes": 4096, "read_percent": 70,
                 "rate_iops": rate_iops, "searches": 5, "confidence": 0.969,
                 "workload": "4 KiB random 70/30 read/write"}  # fmt: skip
        return self._stage("rate", "Rate within a limit", found, **changes)

    def write(self, *, verdict: Verdict = "VALIDATED", **changes: Any) -> RunResult:
        """Store result.json and return what it holds."""
        values: dict[str, Any] = {
            "run_id": "20261121-023000-demo",
            "title": "Random-write capacity of a database drive",
            "ssdbench_version": "0.1.0",
            "started_at": "2026-11-21T02:30:00+00:00",
            "finished_at": "2026-11-21T02:31:02+00:00",
            "target": self.target,
            "profile_text": "title: Random-write capacity of a database drive\nrepeats: 10\n",
            "seed": self.seed,
            "verdict": verdict,
            "findings": (),
            "stages": tuple(self.stages),
            "host": {"kernel": "6.18.0", "cpu": "AMD EPYC 7B13, 2 cores", "fio": "fio-3.33"},
            "settings": (
                {"attribute": "queue/scheduler", "before": "mq-deadline", "value": "none",
                 "reason": "The scheduler would reorder what is measured."},
            ),
            "bytes_written": 5 * CAPACITY_BYTES,
        }  # fmt: skip
        result = RunResult(**values | changes)
        self._text("result.json", result.model_dump_json(indent=1))
        return result

    def _name(self, kind: str) -> str:
        return f"{len(self.stages) + 1:02d}-{kind}"

    def _stage(
        self, kind: str, title: str, found: dict[str, Any], **changes: Any
    ) -> "StoredRunBuilder":
        head = {"name": self._name(kind), "title": title, "duration_s": 7200.0, "wall_s": 12.0}
        self.stages.append(stage_result(kind, found, **head | changes))
        return self

    def _point(self, stage: str, point: Point, *, noisy: bool = False) -> PointResult:
        mean = planted_iops(point.workload, point.span_percent)
        turn = sum(point.id.encode())  # so that points do not look alike
        factor = 6.0 if noisy else 0.5 + turn % 5 / 4
        rates = [
            mean * (1 + factor * REPEAT_SPREAD[(i + turn) % len(REPEAT_SPREAD)] / 100)
            for i in range(self.repeats)
        ]
        repeats = tuple(self._repeat(stage, point, i, rate) for i, rate in enumerate(rates))
        finding = a_finding(point=point.id, stage=stage)
        return PointResult(
            point=point,
            repeats=repeats,
            estimates=_estimates(point.workload, rates),
            verdict="NOT VALIDATED" if noisy else self._good(),
            findings=(finding,) if noisy else (),
        )

    def _good(self) -> Verdict:
        return "VALIDATED" if self.target.kind.plannable else "MEASURED, NOT PLANNABLE"

    def _repeat(self, stage: str, point: Point, index: int, rate: float) -> Repeat:
        workload, place = point.workload, f"stages/{stage}/{point.id}/repeat-{index + 1:02d}"
        series = np.full(2 * self.measure_s, rate)
        series[: self.measure_s] *= 1 + 0.5 * np.exp(-np.arange(self.measure_s) / 15)
        series *= 1 + 0.01 * self.rng.standard_normal(len(series))
        self._seconds(
            place.removeprefix("stages/"),
            series * workload.block_bytes,
            block_bytes=workload.block_bytes,
            phase="measure",
            settle_s=self.measure_s,
            read_percent=workload.read_percent,
        )
        latency = workload.iodepth * workload.numjobs / rate * 1e9
        counts = {
            name: Histogram.of((latency * self.rng.lognormal(-0.1, 0.4, 4000)).astype(int)).counts
            for name, share in (
                ("read", workload.read_percent),
                ("write", 100 - workload.read_percent),
            )
            if share
        }
        empty = Histogram.empty().counts
        np.savez_compressed(
            self.directory / place / "histograms.npz",
            read=counts.get("read", empty),
            write=counts.get("write", empty),
        )
        return Repeat(
            repeat=index + 1,
            pass_order=index % 7,
            sequence=index * 24,
            seed=1000 + index,
            settle_s=float(self.measure_s),
            settle=None,
            measure_from_s=float(self.measure_s),
            measure_to_s=2.0 * self.measure_s,
            iops=rate,
            bw_bytes_per_s=rate * workload.block_bytes,
            worst_second_iops=rate * 0.96,
            worst_minute_iops=rate * 0.995,
            artifacts=place,
        )

    def _seconds(
        self,
        place: str,
        rate: "np.ndarray[Any, np.dtype[np.float64]]",
        *,
        block_bytes: int,
        phase: str,
        settle_s: int = 0,
        read_percent: int = 0,
    ) -> None:
        lines = ["t_s,duration_s,read_ios,write_ios,read_bytes,write_bytes,phase"]
        for i, value in enumerate(rate):
            ios = round(value / block_bytes)
            reads = ios * read_percent // 100
            name = "settle" if i < settle_s else phase
            writes = ios - reads
            volumes = f"{reads * block_bytes},{writes * block_bytes}"
            lines.append(f"{i + 1},1,{reads},{writes},{volumes},{name}")
        self._text(f"stages/{place}/seconds.csv", "\n".join(lines) + "\n")

    def _text(self, relative: str, text: str) -> None:
        path = self.directory / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _estimates(workload: Workload, rates: list[float]) -> tuple[Estimate, ...]:
    mean = float(np.mean(rates))
    spread = float(np.std(rates, ddof=1)) if len(rates) > 1 else 0.0
    half = 2.262 * spread / max(len(rates), 1) ** 0.5
    bound = min(mean - TOLERANCE_FACTOR * spread, 0.995 * min(rates))
    latency = workload.iodepth * workload.numjobs / mean * 1e9
    n = len(rates)
    found = [
        Estimate(metric="iops", unit="1/s", value=mean, ci_low=mean - half, ci_high=mean + half,
                 bound=bound, n=n, method=f"t on {n} repeats; bound: tolerance 95/95"),
        Estimate(metric="bw_bytes_per_s", unit="B/s", value=mean * workload.block_bytes, n=n,
                 method=f"t on {n} repeats"),
        Estimate(metric="lat_mean_ns", unit="ns", value=latency, n=n, method=f"t on {n} repeats"),
    ]  # fmt: skip
    for name, factor, status in (
        ("p50", 0.9, "published"),
        ("p99", 2.3, "published"),
        ("p99_9", 3.1, "indicative"),
        ("p99_99", 4.5, "suppressed"),
    ):
        metric, method = f"lat_{name}_ns", "merged histograms, n_eff 40 000"
        found.append(
            Estimate(metric=metric, unit="ns", value=latency * factor, bound=latency * factor * 1.1,
                     n=40_000, method=method, status=status)
        )  # fmt: skip
    return tuple(found)


def a_full_run(directory: Path, **changes: Any) -> RunResult:
    """Every kind of stage there is, ten repeats per point."""
    builder = StoredRunBuilder(directory)
    builder.precondition().steady().sweep().span().blocksize()
    simulated = Finding(code=Code.SIMULATED, severity=Severity.NOTES,
                        message="The target is a simulated drive.")  # fmt: skip
    return builder.write(**{"findings": (simulated,)} | changes)


def a_small_run(directory: Path, **changes: Any) -> RunResult:
    """Three points and three short repeats: enough for most tests, and quick."""
    builder = StoredRunBuilder(directory, repeats=3, measure_s=20)
    builder.steady().sweep(blocks=(4096,), reads=(100, 70, 0), depths=(32,))
    return builder.write(**changes)


def series_of(
    rate: Sequence[float] | Floats, *, bytes_per_fill: float | None = None, unit: str = "B/s"
) -> Series:
    """Return a series from rates of consecutive seconds."""
    rates = np.asarray(rate, dtype=np.float64)
    fills = None if bytes_per_fill is None else np.cumsum(rates) / bytes_per_fill
    return Series(np.arange(1, len(rates) + 1, dtype=np.float64), rates, fills, unit)
