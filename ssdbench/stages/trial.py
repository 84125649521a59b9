"""Experiments over the host: the same small workloads under one host setting after another.

Every cell (a variant of the host with a workload) is one short start of fio; all cells are run in
several passes, each in an order of its own, so that a drift of drive or host spreads over all.
Settings of a variant go through the settings journal and are put back after its cell. A trial
compares variants with each other: it publishes medians and no number to plan on.
"""

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from ssdbench.engine.applied import applied
from ssdbench.engine.journal import utc_now
from ssdbench.engine.noise import HostWatch
from ssdbench.engine.progress import Reporter
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import CommandFailed, SsdbenchError
from ssdbench.generator.fio.jobfile import filename
from ssdbench.generator.fio.output import Group, parse
from ssdbench.host.command import spawn
from ssdbench.host.files import write_atomic
from ssdbench.model.base import Model
from ssdbench.model.finding import Code, Finding, Severity
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stats.histogram import Histogram
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Setting

Options = Mapping[str, str | int]
RAMP_S = 1  # of each start, not counted
GRACE_S = 60.0
CELL = "cell.json"
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Variant:
    """One state of the host, or one way to submit."""

    name: str
    settings: tuple[Setting, ...] = ()
    options: Options = field(default_factory=dict)  # of fio, over those of the workload


@dataclass(frozen=True, slots=True)
class TrialWorkload:
    """What fio does: one section, or several at the same time."""

    name: str
    sections: tuple[Options, ...]

    def threads(self, variant: Variant) -> int:
        """Threads over all sections, as the variant has them."""
        return sum(int({**s, **variant.options}.get("numjobs", 1)) for s in self.sections)

    @property
    def writes(self) -> bool:
        """Whether some section writes."""
        return any(str(s["rw"]).removeprefix("rand") != "read" for s in self.sections)


class Cell(Model):
    """One measured start."""

    variant: str
    workload: str
    repeat: int
    iops: float
    bw_bytes_per_s: float
    lat_p50_ns: float
    lat_p99_ns: float
    cpu_us_per_io: float  # of fio's threads, user and system
    bytes_read: int = 0
    bytes_written: int = 0
    disturbed: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """Variants times workloads, several passes."""

    name: str
    kind: str
    title: str
    variants: tuple[Variant, ...]
    workloads: tuple[TrialWorkload, ...]
    span_bytes: int
    repeats: int = 3
    window_s: int = 5
    skipped: tuple[Finding, ...] = ()
    cpus: tuple[int, ...] = ()  # that fio may use; empty: all
    lasting: Lasting = Lasting.RESULTS

    @property
    def destructive(self) -> bool:
        """Whether some workload writes."""
        return any(workload.writes for workload in self.workloads)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Every cell once per pass."""
        count = self.repeats * len(self.variants) * len(self.workloads)
        seconds = float(count * (self.window_s + RAMP_S))
        fast = hint.sequential_bytes_per_s[1]
        written = int(seconds * fast) if self.destructive else 0
        settings = {str(s): s.reason for v in self.variants for s in v.settings}
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=self.destructive,
            jobs=tuple(
                f"{self.repeats} x {workload.name} under each of "
                f"{', '.join(variant.name for variant in self.variants)}"
                for workload in self.workloads
            ),
            seconds=(seconds, seconds + count),
            bytes_written=(0, written),
            fills=(0.0, written / target.size_bytes),
            notes=tuple(f"sets {text}: {reason}" for text, reason in settings.items()),
        )

    def run(self, context: Context) -> StageResult:
        """Measure what is not measured yet, then compare medians."""
        started_at, wall, before = utc_now(), time.monotonic(), context.meter.seconds
        order = self.order(context.seed)
        context.journal.intended(order=[unit for unit, *_ in order])
        finished = context.journal.done()
        reporter = Reporter(self.name, emit=context.emit, wall=context.wall)
        cells: list[Cell] = []
        cut_short = ""
        for number, (unit, variant, workload, repeat) in enumerate(order):
            if unit in finished:
                cells.append(context.store.load(f"{unit}/{CELL}", Cell))
                continue
            cut_short = self._must_end(context)
            if cut_short:
                break
            reporter.doing(f"{variant.name}, {workload.name}", lambda n=number: n / len(order))  # type: ignore[misc]
            try:
                cell = self._cell(context, unit, variant, workload, repeat)
            except SsdbenchError as error:
                cut_short = context.failed(error)
                break
            context.store.save(f"{unit}/{CELL}", cell)
            context.journal.finished(unit)
            cells.append(cell)
        return self._result(context, cells, cut_short, started_at, wall, before)

    def order(self, seed: int) -> list[tuple[str, Variant, TrialWorkload, int]]:
        """All cells, shuffled within each pass."""
        found = []
        for repeat in range(1, self.repeats + 1):
            cells = [(v, w) for v in self.variants for w in self.workloads]
            Random(derived(seed, self.name, "order", repeat)).shuffle(cells)
            found += [
                (f"{_slug(v.name)}/{_slug(w.name)}/repeat-{repeat:02d}", v, w, repeat)
                for v, w in cells
            ]
        return found

    def _must_end(self, context: Context) -> str:
        if (number := context.interrupted()) is not None:
            return f"the run was interrupted by signal {number}"
        ahead = context.hint.sequential_bytes_per_s[1] * (self.window_s + RAMP_S)
        return context.meter.exceeded(ahead_bytes=int(ahead) if self.destructive else 0) or ""

    def _cell(
        self,
        context: Context,
        unit: str,
        variant: Variant,
        workload: TrialWorkload,
        repeat: int,
    ) -> Cell:
        directory = context.store.fresh_directory(unit)
        context.journal.begun(unit)
        seed = derived(context.seed, self.name, workload.name, repeat)
        text = job_text(context.target.node, self, variant, workload, seed=seed)
        lease = f"{context.run_path.resolve().name}-{self.name}"
        with applied(HostPlan(settings=variant.settings), lease):
            watch = HostWatch(simulated=False, read=context.activity)
            group = _fio(directory, text, seconds=self.window_s + RAMP_S, cpus=self.cpus)
            disturbed = "; ".join(finding.message for finding in watch.findings())
        cell = cell_of(variant, workload, repeat, group, disturbed)
        context.meter.add(
            seconds=self.window_s + RAMP_S,
            bytes_read=cell.bytes_read,
            bytes_written=cell.bytes_written,
        )
        return cell

    def _result(
        self,
        context: Context,
        cells: Sequence[Cell],
        cut_short: str,
        started_at: str,
        wall: float,
        before_s: float,
    ) -> StageResult:
        path = context.store.path / "cells.csv"
        write_atomic(path, cells_csv(cells))
        result = StageResult(
            name=self.name,
            kind=self.kind,
            title=self.title,
            started_at=started_at,
            duration_s=context.meter.seconds - before_s,
            wall_s=time.monotonic() - wall,
            bytes_read=sum(cell.bytes_read for cell in cells),
            bytes_written=sum(cell.bytes_written for cell in cells),
            summary={"starts": len(cells), "repeats": self.repeats},
            findings=(*self.skipped, *_findings(self.name, cells, cut_short)),
            figures=({"kind": "trial", "csv": context.store.relative(path), "title": self.title},),
            data={"medians": medians(cells)},
            complete=not cut_short,
        )
        if result.complete:
            context.store.save("stage.json", result)
        return result


def job_text(
    node: str, trial: Trial, variant: Variant, workload: TrialWorkload, *, seed: int
) -> str:
    """fio's job file of one cell: all sections at the same time, reported together."""
    everywhere: dict[str, str | int] = {
        "filename": filename(node),
        "ioengine": "libaio",
        "direct": 1,
        "thread": 1,
        "group_reporting": 1,
        "allow_file_create": 0,
        "randrepeat": 0,
        "randseed": seed % (1 << 31) + 1,
        "norandommap": 1,
        "refill_buffers": 1,
        "lat_percentiles": 1,
        "exitall_on_error": 1,
        "disk_util": 0,
        "offset": 0,
        "size": trial.span_bytes,
        "time_based": 1,
        "ramp_time": f"{RAMP_S}s",
        "runtime": f"{trial.window_s}s",
    }
    lines = ["[global]", *(f"{name}={value}" for name, value in everywhere.items())]
    for number, section in enumerate(workload.sections):
        lines += [f"[part{number}]"]
        lines += [f"{name}={value}" for name, value in {**section, **variant.options}.items()]
    return "\n".join(lines) + "\n"


def cell_of(
    variant: Variant, workload: TrialWorkload, repeat: int, group: Group, disturbed: str
) -> Cell:
    """The figures of one start."""
    read, write = group.outcome.read, group.outcome.write
    ios, moved = read.ios + write.ios, read.bytes + write.bytes
    runtime_s = max(read.runtime_s, write.runtime_s, 1e-9)
    latency = Histogram.merged([read.latency, write.latency])
    busy = group.outcome.cpu_user_percent + group.outcome.cpu_system_percent
    return Cell(
        variant=variant.name,
        workload=workload.name,
        repeat=repeat,
        iops=ios / runtime_s,
        bw_bytes_per_s=moved / runtime_s,
        lat_p50_ns=latency.percentile_ns(0.5) if latency.n else 0.0,
        lat_p99_ns=latency.percentile_ns(0.99) if latency.n else 0.0,
        cpu_us_per_io=busy * 1e4 * workload.threads(variant) * runtime_s / max(ios, 1),
        bytes_read=read.bytes,
        bytes_written=write.bytes,
        disturbed=disturbed,
    )


def medians(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """One record per workload and variant, over its repeats."""
    by_cell: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_cell.setdefault((cell.workload, cell.variant), []).append(cell)
    return [
        {
            "workload": workload,
            "variant": variant,
            "repeats": len(found),
            "iops": round(median(c.iops for c in found), 1),
            "iops_least": round(min(c.iops for c in found), 1),
            "iops_most": round(max(c.iops for c in found), 1),
            "lat_p50_ns": round(median(c.lat_p50_ns for c in found)),
            "lat_p99_ns": round(median(c.lat_p99_ns for c in found)),
            "cpu_us_per_io": round(median(c.cpu_us_per_io for c in found), 2),
            "disturbed": sum(bool(c.disturbed) for c in found),
        }
        for (workload, variant), found in sorted(by_cell.items())
    ]


def cells_csv(cells: Sequence[Cell]) -> str:
    """Every cell, one line each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Cell.model_fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(cell.model_dump() for cell in cells)
    return text.getvalue()


def _fio(directory: Path, text: str, *, seconds: float, cpus: tuple[int, ...]) -> Group:
    (directory / "job.fio").write_text(text)
    argv = ["fio", "--eta=never", "--output-format=json+", "--output=fio.json", "job.fio"]
    (directory / "command").write_text(" ".join(argv) + "\n")
    process = spawn(
        argv, stdout=directory / "stdout", stderr=directory / "stderr", cwd=directory, cpus=cpus
    )
    status = process.wait(seconds + GRACE_S)
    if status is None:
        status = process.kill()
    (directory / "status").write_text(f"{status}\n")
    said = (directory / "stdout").read_text() + (directory / "stderr").read_text()
    try:
        group = parse((directory / "fio.json").read_text(), ["cell"]).groups[0]
    except (OSError, ValueError) as error:
        raise CommandFailed(argv, status, said or str(error)) from error
    if status != 0 or group.error:
        raise CommandFailed(argv, status, said)
    return group


def _findings(stage: str, cells: Sequence[Cell], cut_short: str) -> list[Finding]:
    found = []
    disturbed = [cell for cell in cells if cell.disturbed]
    if disturbed:
        found.append(
            Finding(
                code=Code.DISTURBED,
                severity=Severity.WARNS,
                message=f"{len(disturbed)} of {len(cells)} starts were disturbed, such as: "
                f"{disturbed[0].disturbed}",
                advice="The medians may still compare; end other work to be sure.",
                stage=stage,
            )
        )
    if cut_short:
        found.append(
            Finding(
                code=Code.CUT_SHORT,
                severity=Severity.INVALIDATES,
                message=f"{len(cells)} starts were measured: {cut_short}",
                advice="Go on with `ssdbench resume`.",
                stage=stage,
            )
        )
    return found


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name)
