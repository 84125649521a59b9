"""Experiments over the host: the same small workloads under one host setting after another.

Every cell (a variant of the host with a workload) is one short start of fio; all cells are run in
several passes, each in an order of its own, so that a drift of drive or host spreads over all.
Settings of a variant go through the settings journal and are put back after its cell. A trial
compares variants with each other: it publishes medians and no number to plan on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from random import Random

from ssdbench.engine.fiorun import together
from ssdbench.engine.hostactivity import HostWatch, TrialHost
from ssdbench.engine.hostsettings import applied
from ssdbench.engine.stage import (
    Concluded,
    Context,
    Ended,
    PlainStage,
    RateHint,
    StagePlan,
    Unit,
    derived_seed,
)
from ssdbench.engine.units import own_findings
from ssdbench.generator.base import JobOutcome
from ssdbench.generator.fio.jobfile import Options
from ssdbench.generator.fio.sections import Together
from ssdbench.host.counters import disk_counters
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.model.finding import Finding
from ssdbench.model.findings.host import StartsDisturbed
from ssdbench.model.found import ComparedKind, Comparison, FileSystemComparison, Median
from ssdbench.model.kind import StageKind
from ssdbench.model.rundirectory import CELLS, HOST_SERIES
from ssdbench.model.target import TargetInfo
from ssdbench.stages.host.cells import Cell, Step, cells_csv, cells_of, medians
from ssdbench.stages.host.load import NO_LOAD, Load, LoadWatch, Probe
from ssdbench.stats.histogram import Histogram
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Setting

RAMP_S = 1  # of each start, not counted
GRACE_S = 60.0  # until fio has reported

Compared = Comparison | FileSystemComparison


@dataclass(frozen=True, slots=True)
class Variant:
    """One state of the host, or one way to submit."""

    name: str
    settings: tuple[Setting, ...] = ()
    options: Options = field(default_factory=dict)  # of fio, over those of the workload
    cpus: tuple[int, ...] = ()  # that fio may use; empty: those of the run


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


@dataclass(frozen=True, slots=True)
class Turn:
    """One cell to be measured."""

    variant: Variant
    workload: TrialWorkload
    repeat: int
    span_bytes: int  # of each file, or of the drive; 0: as its sections say

    @property
    def name(self) -> str:
        """Name in the journal and directory below the stage's."""
        return f"{slug(self.variant.name)}/{slug(self.workload.name)}/repeat-{self.repeat:02d}"


@dataclass(frozen=True, slots=True)
class Build:
    """A step that leaves something on the drive for the cells after it."""

    done: Callable[[Context], Step | None]  # None when the run must end before


Work = Turn | Build


@dataclass(frozen=True, kw_only=True)
class Experiment(PlainStage, ABC):
    """Variants times workloads, several passes."""

    name: str
    kind: StageKind
    title: str
    variants: tuple[Variant, ...]
    workloads: tuple[TrialWorkload, ...]
    span_bytes: int = 0
    repeats: int = 3
    window_s: int = 5
    notes: tuple[str, ...] = ()  # what could not be had
    probe: Probe | None = None  # what else is measured in each window
    options: Options = field(default_factory=dict)  # of fio in all cells
    record = Step
    units_are = "starts"

    @property
    def destructive(self) -> bool:
        """Whether some workload writes."""
        return any(workload.writes for workload in self.workloads)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Every cell once per pass."""
        seconds = float(self.starts * (self.window_s + RAMP_S))
        written = seconds * hint.sequential_bytes_per_s[1] if self.destructive else 0
        settings = {str(s): s.reason for v in self.variants for s in v.settings}
        return StagePlan.of(
            self,
            target,
            jobs=[
                f"{self.repeats} x {workload.name} under each of "
                f"{', '.join(variant.name for variant in self.variants)}"
                for workload in self.workloads
            ],
            seconds=(seconds, seconds + self.starts),
            bytes_written=(0, written),
            notes=(*self.notes, *(f"sets {text}: {r}" for text, r in settings.items())),
        )

    @property
    def starts(self) -> int:
        """Cells over all passes."""
        return self.repeats * len(self.variants) * len(self.workloads)

    @property
    def steps(self) -> int:
        """Units: the cells, and what is built for them."""
        return self.starts

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        """With the probe at work, and a series of the host beside all starts."""
        with ExitStack() as held:
            if self.probe is not None:
                held.enter_context(self.probe.running(lease(context, self.name)))
                context.notes.extend(self.probe.lacking())
            series = TrialHost(context.store.path / HOST_SERIES, context.activity)
            yield replace(context, trial_host=series)

    def units(self, context: Context, done: Sequence[Step]) -> Iterator[Unit[Work]]:
        """All cells, pass by pass."""
        turns = self.turns(context.seed, span_bytes=self.span_bytes)
        yield from self.measuring(turns, context, done)

    def turns(
        self, seed: int, *, span_bytes: int, variants: Sequence[Variant] = (), about: str = "order"
    ) -> list[Turn]:
        """All cells of some variants, or of all, shuffled within each pass."""
        found: list[Turn] = []
        for repeat in range(1, self.repeats + 1):
            own = [
                Turn(v, w, repeat, span_bytes)
                for v in variants or self.variants
                for w in self.workloads
            ]
            Random(derived_seed(seed, self.name, about, repeat)).shuffle(own)
            found += own
        return found

    def measuring(
        self, turns: Sequence[Turn], context: Context, done: Sequence[Step]
    ) -> Iterator[Unit[Work]]:
        """Cells as units."""
        ahead = context.hint.sequential_bytes_per_s[1] * (self.window_s + RAMP_S)
        for turn in turns:
            yield Unit(
                turn.name,
                turn,
                doing=f"{turn.variant.name}, {turn.workload.name}",
                number=len(done),
                of=self.steps,
                ahead_bytes=int(ahead) if turn.workload.writes else 0,
                repeat=turn.repeat,
            )

    def measure(self, context: Context, unit: Unit[Work]) -> Step | None:
        """One start, with the host as its variant has it; or a step that builds."""
        if isinstance(unit.work, Build):
            return unit.work.done(context)
        host = context.trial_host
        settings = HostPlan(settings=unit.work.variant.settings)
        with applied(settings, lease(context, self.name)), host.start() if host else nullcontext():
            cell = self.cell(context, unit.work)
        return None if cell is None else Step(cell=cell)

    def cell(self, context: Context, turn: Turn) -> Cell | None:
        """Run fio with the host as it is now; None when the run must end."""
        seed = derived_seed(context.seed, self.name, turn.workload.name, turn.repeat)
        sections = [{**section, **turn.variant.options} for section in turn.workload.sections]
        sized: Options = {"size": turn.span_bytes} if turn.span_bytes else {}
        work = window(sections, {**sized, **self.options}, window_s=self.window_s, seed=seed)
        with disk_counters(context.target.major_minor) as disk:
            load = LoadWatch(disk, context.activity, RAMP_S, self.window_s, self.probe)
            watch = HostWatch(simulated=False, read=context.activity)
            outcome = together(context, work, cpus=turn.variant.cpus, look=load)
            disturbed = "; ".join(finding.message for finding in watch.findings())
        if outcome is None:
            return None
        more = self.probe.figures() if self.probe is not None else {}
        return cell_of(turn, outcome, disturbed, load.load, more)

    def conclude(
        self, context: Context, done: Sequence[Step], ended: Ended[Step]
    ) -> Concluded[Compared]:
        """Medians of all cells, which are kept in a file."""
        cells = cells_of(done)
        path = context.store.path / CELLS
        make_directory(path.parent)  # a stage that failed before its first start has none
        write_atomic(path, cells_csv(cells))
        names = [*(w.name for w in self.workloads), *(v.name for v in self.variants)]
        notes = (*self.notes, *context.notes)
        found = self.found(medians(cells, names), notes, context.store.relative(path))
        return Concluded(found, (*own_findings(done, ended), *_disturbed(cells)))

    @abstractmethod
    def found(self, compared: Sequence[Median], notes: tuple[str, ...], cells_csv: str) -> Compared:
        """What the stage's result holds."""


@dataclass(frozen=True, kw_only=True)
class Trial(Experiment):
    """An experiment on the bare drive."""

    kind: ComparedKind

    def found(
        self, compared: Sequence[Median], notes: tuple[str, ...], cells_csv: str
    ) -> Comparison:
        """Medians of all variants."""
        return Comparison(
            kind=self.kind,
            medians=tuple(compared),
            repeats=self.repeats,
            notes=notes,
            cells_csv=cells_csv,
        )


def window(sections: Sequence[Options], options: Options, *, window_s: int, seed: int) -> Together:
    """Sections that all work for a time, after a ramp that is not counted."""
    shared: Options = {
        "randseed": seed % (1 << 31) + 1,
        "norandommap": 1,
        "refill_buffers": 1,
        "time_based": 1,
        "ramp_time": f"{RAMP_S}s",
        "runtime": f"{window_s}s",
        **options,
    }
    return Together(
        sections, window_s + RAMP_S + GRACE_S, shared, runtime_s=window_s, name="the start"
    )


def lease(context: Context, stage: str) -> str:
    """What settings are journalled under while a stage is at work."""
    return f"{context.run_path.resolve().name}-{stage}"


def cell_of(
    turn: Turn,
    outcome: JobOutcome,
    disturbed: str = "",
    load: Load = NO_LOAD,
    more: dict[str, float] | None = None,
) -> Cell:
    """The figures of one start."""
    read, write = outcome.read, outcome.write
    ios, moved = read.ios + write.ios, read.bytes + write.bytes
    runtime_s = max(read.runtime_s, write.runtime_s, 1e-9)
    latency = Histogram.merged([read.latency, write.latency])
    busy = outcome.cpu_user_percent + outcome.cpu_system_percent
    threads = turn.workload.threads(turn.variant)
    return Cell(
        variant=turn.variant.name,
        workload=turn.workload.name,
        repeat=turn.repeat,
        iops=ios / runtime_s,
        bw_bytes_per_s=moved / runtime_s,
        lat_p50_ns=latency.percentile_ns(0.5),
        lat_p99_ns=latency.percentile_ns(0.99),
        cpu_us_per_io=busy * 1e4 * threads * runtime_s / ios,
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


def slug(name: str) -> str:
    """A name of a directory for the name of a variant or workload."""
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name)


def _per_io(rate_per_s: float, load: Load) -> float:
    return rate_per_s / load.ios_per_s if load.ios_per_s > 0 else 0.0


def _disturbed(cells: Sequence[Cell]) -> list[Finding]:
    """That starts were disturbed."""
    disturbed = [cell.disturbed for cell in cells if cell.disturbed]
    if not disturbed:
        return []
    return [StartsDisturbed(len(disturbed), len(cells), disturbed[0]).finding()]
