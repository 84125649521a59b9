"""Experiments over the host: the same small workloads under one host setting after another.

Every cell (a variant of the host with a workload) is one short start of fio; all cells are run in
several passes, each in an order of its own, so that a drift of drive or host spreads over all.
Settings of a variant go through the settings journal and are put back after its cell. A trial
compares variants with each other: it publishes medians and no number to plan on.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from operator import truediv
from random import Random

from ssdbench.engine.applied import applied
from ssdbench.engine.noise import HostWatch
from ssdbench.engine.progress import Reporter
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import HostLacks, SsdbenchError
from ssdbench.generator.fio.output import Group
from ssdbench.host.counters import disk_counters
from ssdbench.model.finding import Finding
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stages.cells import Began, Cell, kept, medians
from ssdbench.stages.hostload import NO_LOAD, Load, LoadWatch, Probe
from ssdbench.stages.onestart import RAMP_S, Options, common, job_file, on_drive, started
from ssdbench.stages.trialhost import TrialHost
from ssdbench.stats.histogram import Histogram
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Setting

CELL = "cell.json"


@dataclass(frozen=True, slots=True)
class Variant:
    """One state of the host, or one way to submit."""

    name: str
    settings: tuple[Setting, ...] = ()
    options: Options = field(default_factory=dict)  # of fio, over those of the workload
    cpus: tuple[int, ...] = ()  # that fio may use; empty: those of the trial


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


@dataclass(frozen=True)
class Trial:
    """Variants times workloads, several passes."""

    name: str
    kind: StageKind
    title: str
    variants: tuple[Variant, ...]
    workloads: tuple[TrialWorkload, ...]
    span_bytes: int
    repeats: int = 3
    window_s: int = 5
    skipped: tuple[Finding, ...] = ()
    cpus: tuple[int, ...] = ()  # that fio may use; empty: all
    numa: Options = field(default_factory=dict)  # fio's, besides
    notes: tuple[str, ...] = ()  # what could not be had
    probe: Probe | None = None  # what else is measured in each window
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
            notes=(*self.notes, *(f"sets {text}: {r}" for text, r in settings.items())),
        )

    def run(self, context: Context) -> StageResult:
        """Measure what is not measured yet, then compare medians."""
        began = Began.now(context)
        order = self.order(context.seed)
        context.journal.intended(order=[unit for unit, *_ in order])
        cells: list[Cell] = []
        try:
            with self._probing(context):
                cut_short = self._cells(context, order, cells)
        except HostLacks as error:
            cut_short = context.failed(error)
        return self._result(context, began, cells, cut_short)

    def _result(
        self, context: Context, began: Began, cells: Sequence[Cell], cut_short: str
    ) -> StageResult:
        notes = (*self.notes, *(self.probe.lacking() if self.probe else ()))
        return kept(
            self,
            context,
            began,
            cells,
            cut_short=cut_short,
            summary={
                "starts": len(cells),
                "repeats": self.repeats,
                **{f"note {n}": note for n, note in enumerate(notes, start=1)},
            },
            compared=medians(cells, self._names()),
            skipped=self.skipped,
        )

    def _cells(
        self,
        context: Context,
        order: Sequence[tuple[str, Variant, TrialWorkload, int]],
        cells: list[Cell],
    ) -> str:
        """Add one cell after another; why it ended early, or nothing."""
        finished = context.journal.done()
        reporter = Reporter(self.name, emit=context.emit, wall=context.wall)
        host = TrialHost(context)
        for number, (unit, variant, workload, repeat) in enumerate(order):
            if unit in finished:
                cells.append(context.store.load(f"{unit}/{CELL}", Cell))
                continue
            if cut_short := self._must_end(context):
                return cut_short
            reporter.doing(f"{variant.name}, {workload.name}", partial(truediv, number, len(order)))
            try:
                with host.start():
                    cell = self._cell(context, unit, variant, workload, repeat)
            except SsdbenchError as error:
                return context.failed(error)
            context.store.save(f"{unit}/{CELL}", cell)
            context.journal.finished(unit)
            cells.append(cell)
        return ""

    def _probing(self, context: Context) -> AbstractContextManager[None]:
        return nullcontext() if self.probe is None else self.probe.running(self._lease(context))

    def _names(self) -> list[str]:
        """Workloads and variants in their order."""
        return [*(w.name for w in self.workloads), *(v.name for v in self.variants)]

    def _lease(self, context: Context) -> str:
        return f"{context.run_path.resolve().name}-{self.name}"

    def order(self, seed: int) -> list[tuple[str, Variant, TrialWorkload, int]]:
        """All cells, shuffled within each pass."""
        found = []
        for repeat in range(1, self.repeats + 1):
            cells = [(v, w) for v in self.variants for w in self.workloads]
            Random(derived(seed, self.name, "order", repeat)).shuffle(cells)
            found += [
                (f"{slug(v.name)}/{slug(w.name)}/repeat-{repeat:02d}", v, w, repeat)
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
        seed = derived(context.seed, self.name, workload.name, repeat)
        text = self._text(context, variant, workload, seed=seed)
        start = Start(unit, variant, workload, repeat, text, self.window_s)
        with applied(HostPlan(settings=variant.settings), self._lease(context)):
            return measured(context, start, cpus=variant.cpus or self.cpus, probe=self.probe)

    def _text(
        self, context: Context, variant: Variant, workload: TrialWorkload, *, seed: int
    ) -> str:
        return job_text(context.target.node, self, variant, workload, seed=seed)


@dataclass(frozen=True, slots=True)
class Start:
    """One cell to be measured, and fio's job file for it."""

    unit: str
    variant: Variant
    workload: TrialWorkload
    repeat: int
    text: str
    window_s: int


def measured(
    context: Context, start: Start, *, cpus: Sequence[int] = (), probe: Probe | None = None
) -> Cell:
    """Run one start with the host as it is now. Raises CommandFailed with fio's last words."""
    directory = context.store.fresh_directory(start.unit)
    context.journal.begun(start.unit)
    with disk_counters(context.target.major_minor) as disk:
        load = LoadWatch(disk, context.activity, RAMP_S, start.window_s, probe)
        watch = HostWatch(simulated=False, read=context.activity)
        seconds = start.window_s + RAMP_S
        group = started(directory, start.text, seconds=seconds, cpus=cpus, meanwhile=load)
        disturbed = "; ".join(finding.message for finding in watch.findings())
    more = probe.figures() if probe is not None else {}
    cell = cell_of(start.variant, start.workload, start.repeat, group, disturbed, load.load, more)
    context.meter.add(seconds=seconds, bytes_read=cell.bytes_read, bytes_written=cell.bytes_written)
    return cell


def job_text(
    node: str, trial: Trial, variant: Variant, workload: TrialWorkload, *, seed: int
) -> str:
    """fio's job file of one cell: all sections at the same time, reported together."""
    shared = common(span_bytes=trial.span_bytes, window_s=trial.window_s, seed=seed)
    return job_file(
        {**on_drive(node), **shared, **placed(trial.numa, variant.cpus)},
        [{**section, **variant.options} for section in workload.sections],
    )


def placed(numa: Options, cpus: Sequence[int]) -> Options:
    """NUMA settings of the run; a variant that chooses its CPUs itself keeps the memory's only."""
    return {name: value for name, value in numa.items() if not cpus or name != "numa_cpu_nodes"}


def cell_of(
    variant: Variant,
    workload: TrialWorkload,
    repeat: int,
    group: Group,
    disturbed: str,
    load: Load = NO_LOAD,
    more: dict[str, float] | None = None,
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
        host_cpu_us_per_io=load.host_cpu_us_per_io,
        iops_per_core=load.iops_per_core,
        iops_per_watt=load.iops_per_watt,
        merges_per_io=_per_io(load.merges_per_s, load),
        interrupts_per_io=_per_io(load.interrupts_per_s, load),
        switches_per_io=_per_io(load.switches_per_s, load),
        in_flight=load.in_flight,
        in_flight_p95=load.in_flight_p95,
        more=more or {},
    )


def _per_io(rate_per_s: float, load: Load) -> float:
    return rate_per_s / load.ios_per_s if load.ios_per_s > 0 else 0.0


def slug(name: str) -> str:
    """A name of a directory for the name of a variant or workload."""
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name)
