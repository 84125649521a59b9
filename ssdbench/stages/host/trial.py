"""Compare variants of the host: run short workloads under one variant after another.

A variant is a set of host settings or fio options. A cell is one short run of fio: one workload
under one variant. All cells are repeated in several passes; each pass has another random order, so
that a slow change of drive or host affects all variants alike. The old value of each setting is
stored in the settings journal before a cell changes it, and restored after the cell. A trial
publishes medians of its cells, but no bound for capacity planning.
"""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median

from ssdbench.engine.fiorun import run_sections
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
from ssdbench.generator.fio.driver import Sections
from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.counters import disk_counters
from ssdbench.host.files import make_directory, write_atomic
from ssdbench.model.base import Model
from ssdbench.model.findings.host import StartsDisturbed
from ssdbench.model.found import (
    ComparedKind,
    Comparison,
    FileSystemComparison,
    Median,
    workload_words,
)
from ssdbench.model.kind import StageKind
from ssdbench.model.point import UnitRecord
from ssdbench.model.rundirectory import CELLS, HOST_SERIES
from ssdbench.model.target import TargetInfo
from ssdbench.stages.host.blocktrace import BlockTrace
from ssdbench.stages.host.cost import NO_COST, HostCost, HostCostWatch
from ssdbench.stats.histogram import Histogram
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Setting


class Cell(Model):
    """Record the numbers of one cell: one workload under one variant."""

    variant: str
    workload: str
    repeat: int
    iops: float
    bw_bytes_per_s: float
    lat_p50_ns: float | None = None  # None if the program does not report it
    lat_p99_ns: float | None = None
    cpu_us_per_io: float = 0.0  # CPU use of fio's own threads
    bytes_read: int = 0
    bytes_written: int = 0
    disturbed: str = ""
    host_cpu_us_per_io: float = 0.0  # CPU time including kernel threads and interrupts
    iops_per_core: float = 0.0  # I/Os per second of CPU time of the whole host
    iops_per_watt: float | None = None  # energy of the CPU packages; None if unknown
    merges_per_io: float = 0.0
    interrupts_per_io: float = 0.0
    switches_per_io: float = 0.0
    in_flight: float = 0.0  # mean occupancy of the drive's queue
    in_flight_p95: float = 0.0
    more: dict[str, float] = {}  # of a block trace or program; names with units


class Step(UnitRecord):
    """Record a finished unit of a trial: a cell, or a step that wrote data for later cells."""

    cell: Cell | None = None
    file_bytes: int = 0  # size of the file that was written for later cells


def medians(cells: Sequence[Cell], order: Sequence[str] = ()) -> list[Median]:
    """Return the medians over all repeats of each workload and variant, sorted by `order`."""
    place = {name: n for n, name in enumerate(order)}
    by_cell: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_cell.setdefault((cell.workload, cell.variant), []).append(cell)
    return [
        _median(workload, variant, found)
        for (workload, variant), found in sorted(
            by_cell.items(), key=lambda item: [(place.get(name, 0), name) for name in item[0]]
        )
    ]


def _median(workload: str, variant: str, found: Sequence[Cell]) -> Median:
    def of(figure: str, digits: int | None = None, cells: Sequence[Cell] = found) -> float | None:
        known = [value for cell in cells if (value := getattr(cell, figure)) is not None]
        return round(median(known), digits) if known else None

    own = Median(
        workload=workload,
        variant=variant,
        repeats=len(found),
        iops=round(median(c.iops for c in found), 1),
        iops_least=round(min(c.iops for c in found), 1),
        iops_most=round(max(c.iops for c in found), 1),
        bw_bytes_per_s=round(median(c.bw_bytes_per_s for c in found)),
        disturbed=sum(bool(c.disturbed) for c in found),
    )
    # A block trace or a program uses CPU time itself, so the host's figures would be wrong.
    if names := dict.fromkeys(name for cell in found for name in cell.more):
        more = {n: median(c.more[n] for c in found if n in c.more) for n in names}
        rounded = {n: round(value, 2) for n, value in more.items()}
        return own.model_copy(update={"lat_p50_ns": of("lat_p50_ns"), "more": rounded})
    figures = {name: of(name) for name in ("lat_p50_ns", "lat_p99_ns")}
    figures["cpu_us_per_io"] = of("cpu_us_per_io", 2)
    # A cell that did no I/O in its window has no figures of the host.
    if seen := [c for c in found if c.iops_per_core > 0]:
        metered = all(c.iops_per_watt is not None for c in seen)
        figures |= {name: of(name, 2, seen) for name in _OF_HOST}
        figures["iops_per_core"] = of("iops_per_core", cells=seen)
        figures["iops_per_watt"] = of("iops_per_watt", 1, seen) if metered else None
    return own.model_copy(update=figures)


_OF_HOST = ("host_cpu_us_per_io", "merges_per_io", "interrupts_per_io", "in_flight")


def cells_csv(cells: Sequence[Cell]) -> str:
    """Return the numbers of all cells as CSV, one line for each cell."""
    more = sorted({name for cell in cells for name in cell.more})
    columns = [name for name in Cell.model_fields if name != "more"]
    text = io.StringIO()
    writer = csv.DictWriter(text, [*columns, *more], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**cell.model_dump(exclude={"more"}), **cell.more} for cell in cells)
    return text.getvalue()


RAMP_S = 1  # at the start of each cell; its I/O is not counted
GRACE_S = 60.0  # longest wait until fio has written its report

Compared = Comparison | FileSystemComparison


@dataclass(frozen=True, slots=True)
class Variant:
    """Describe one variant: settings of the host, options of fio, or CPUs that submit I/O."""

    name: str
    settings: tuple[Setting, ...] = ()
    options: Options = field(default_factory=dict)  # options of fio; they override the workload's
    cpus: tuple[int, ...] = ()  # CPUs on which fio runs; empty: the run's CPUs


@dataclass(frozen=True, slots=True)
class TrialWorkload:
    """Describe the I/O of a cell: one fio section, or several at the same time."""

    name: str
    sections: tuple[Options, ...]

    def threads(self, variant: Variant) -> int:
        """Return the number of fio threads of this workload under a variant."""
        return sum(int({**s, **variant.options}.get("numjobs", 1)) for s in self.sections)

    @property
    def writes(self) -> bool:
        """Tell whether any fio section of this workload writes."""
        return any(str(s["rw"]).removeprefix("rand") != "read" for s in self.sections)


@dataclass(frozen=True, slots=True)
class Turn:
    """Describe one cell that will be measured: a workload and a variant."""

    variant: Variant
    workload: TrialWorkload
    repeat: int
    span_bytes: int  # size of each file or of the drive's used part; 0: as in fio's sections

    @property
    def name(self) -> str:
        """Return the name of the cell's unit, which is also the name of its directory."""
        return f"{slug(self.variant.name)}/{slug(self.workload.name)}/repeat-{self.repeat:02d}"


Build = Callable[[Context], Step | None]  # writes data for later cells; None: the run must end
Work = Turn | Build


@dataclass(frozen=True, kw_only=True)
class Experiment(PlainStage, ABC):
    """Measure each workload under each variant, in several passes."""

    name: str
    kind: StageKind
    title: str
    variants: tuple[Variant, ...]
    workloads: tuple[TrialWorkload, ...]
    span_bytes: int = 0
    repeats: int = 3
    window_s: int = 5
    notes: tuple[str, ...] = ()  # about things that are not available
    probe: BlockTrace | None = None  # records tracepoints in the window of each cell
    options: Options = field(default_factory=dict)  # fio options of all cells
    record = Step
    units_are = "starts"

    @property
    def destructive(self) -> bool:
        """Tell whether any workload of the experiment writes."""
        return any(workload.writes for workload in self.workloads)

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan time and bytes of all cells in all passes."""
        seconds = float(self.starts * (self.window_s + RAMP_S))
        written = seconds * hint.sequential_bytes_per_s[1] if self.destructive else 0
        settings = {str(s): s.reason for v in self.variants for s in v.settings}
        return StagePlan.of(
            self,
            target,
            jobs=[
                f"{self.repeats} x {workload_words(workload.name)} under each of "
                f"{', '.join(variant.name for variant in self.variants)}"
                for workload in self.workloads
            ],
            seconds=(seconds, seconds + self.starts),
            bytes_written=(0, written),
            notes=(*self.notes, *(f"sets {text}: {r}" for text, r in settings.items())),
        )

    @property
    def starts(self) -> int:
        """Return the number of cells in all passes."""
        return self.repeats * len(self.variants) * len(self.workloads)

    @property
    def steps(self) -> int:
        """Return the number of units: cells, and steps that write data for cells."""
        return self.starts

    @contextmanager
    def opened(self, context: Context) -> Iterator[Context]:
        """Record the host during all cells; also trace the block layer if the trial wants this."""
        with ExitStack() as held:
            if self.probe is not None:
                held.enter_context(self.probe.running(lease(context, self.name)))
                context.notes.extend(self.probe.lacking)
            series = TrialHost(context.store.path / HOST_SERIES, context.activity)
            yield replace(context, trial_host=series)

    def units(self, context: Context, done: Sequence[Step]) -> Iterator[Unit[Work]]:
        """Yield all cells as units, pass by pass."""
        turns = self.turns(context.seed, span_bytes=self.span_bytes)
        yield from self.measuring(turns, context, done)

    def turns(
        self, seed: int, *, span_bytes: int, variants: Sequence[Variant] = (), about: str = "order"
    ) -> list[Turn]:
        """Return the cells of `variants`, or of all variants, with a random order for each pass."""
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
        """Yield the cells as units of the stage."""
        ahead = context.hint.sequential_bytes_per_s[1] * (self.window_s + RAMP_S)
        for turn in turns:
            yield Unit(
                turn.name,
                turn,
                doing=f"{turn.variant.name}, {workload_words(turn.workload.name)}",
                number=len(done),
                of=self.steps,
                ahead_bytes=int(ahead) if turn.workload.writes else 0,
                repeat=turn.repeat,
            )

    def measure(self, context: Context, unit: Unit[Work]) -> Step | None:
        """Run one cell under the settings of its variant, or run a step that writes data."""
        if not isinstance(unit.work, Turn):
            return unit.work(context)
        host = context.trial_host
        settings = HostPlan(settings=unit.work.variant.settings)
        with applied(settings, lease(context, self.name)), host.start() if host else nullcontext():
            cell = self.cell(context, unit.work)
        return None if cell is None else Step(cell=cell)

    def cell(self, context: Context, turn: Turn) -> Cell | None:
        """Run fio for a cell, after its settings are set; None if the run must end."""
        seed = derived_seed(context.seed, self.name, turn.workload.name, turn.repeat)
        sections = [{**section, **turn.variant.options} for section in turn.workload.sections]
        sized: Options = {"size": turn.span_bytes} if turn.span_bytes else {}
        work = window(sections, {**sized, **self.options}, window_s=self.window_s, seed=seed)
        with disk_counters(context.target.major_minor) as disk:
            cost = HostCostWatch(disk, context.activity, RAMP_S, self.window_s, self.probe)
            watch = HostWatch(context.activity)
            outcome = run_sections(context, work, cpus=turn.variant.cpus, look=cost)
            disturbed = "; ".join(finding.message for finding in watch.findings())
        if outcome is None:
            return None
        more = self.probe.figures if self.probe is not None else {}
        return cell_of(turn, outcome, disturbed, cost.cost, more)

    def conclude(
        self, context: Context, done: Sequence[Step], ended: Ended[Step]
    ) -> Concluded[Compared]:
        """Return the medians of all cells, and store the cells as CSV."""
        cells = [step.cell for step in done if step.cell is not None]
        path = context.store.path / CELLS
        make_directory(path.parent)  # no file if the stage failed before its first cell
        write_atomic(path, cells_csv(cells))
        names = [*(w.name for w in self.workloads), *(v.name for v in self.variants)]
        update = {
            "notes": (*self.notes, *context.notes),
            "cells_csv": context.store.relative(path),
        }
        found = self.found(medians(cells, names)).model_copy(update=update)
        findings = [*own_findings(done, ended)]
        if disturbed := [cell.disturbed for cell in cells if cell.disturbed]:
            findings.append(StartsDisturbed(len(disturbed), len(cells), disturbed[0]).finding())
        return Concluded(found, tuple(findings))

    @abstractmethod
    def found(self, compared: Sequence[Median]) -> Compared:
        """Make the result of the stage from the medians."""


@dataclass(frozen=True, kw_only=True)
class Trial(Experiment):
    """Compare variants on the drive itself, without a file system."""

    kind: ComparedKind

    def found(self, compared: Sequence[Median]) -> Comparison:
        """Return the stage's result, with the medians of all cells."""
        return Comparison(kind=self.kind, medians=tuple(compared), repeats=self.repeats)


def window(sections: Sequence[Options], options: Options, *, window_s: int, seed: int) -> Sections:
    """Return fio sections that run for `window_s` seconds after an uncounted ramp."""
    shared: Options = {
        "randseed": seed % (1 << 31) + 1,
        "norandommap": 1,
        "refill_buffers": 1,
        "time_based": 1,
        "ramp_time": f"{RAMP_S}s",
        "runtime": f"{window_s}s",
        **options,
    }
    return Sections(
        sections, window_s + RAMP_S + GRACE_S, shared, runtime_s=window_s, name="the start"
    )


def lease(context: Context, stage: str) -> str:
    """Return the name under which the settings journal stores a stage's settings."""
    return f"{context.run_path.resolve().name}-{stage}"


def cell_of(
    turn: Turn,
    outcome: JobOutcome,
    disturbed: str = "",
    cost: HostCost = NO_COST,
    more: dict[str, float] | None = None,
) -> Cell:
    """Return the numbers of one run of fio as a cell."""
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
        host_cpu_us_per_io=cost.host_cpu_us_per_io,
        iops_per_core=cost.iops_per_core,
        iops_per_watt=cost.iops_per_watt,
        merges_per_io=_per_io(cost.merges_per_s, cost),
        interrupts_per_io=_per_io(cost.interrupts_per_s, cost),
        switches_per_io=_per_io(cost.switches_per_s, cost),
        in_flight=cost.in_flight,
        in_flight_p95=cost.in_flight_p95,
        more=more or {},
    )


def slug(name: str) -> str:
    """Turn the name of a variant or workload into a name for a directory."""
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name)


def _per_io(rate_per_s: float, cost: HostCost) -> float:
    return rate_per_s / cost.ios_per_s if cost.ios_per_s > 0 else 0.0
