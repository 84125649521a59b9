"""Application programs on a file system on the drive, and fio's equivalents beside them.

Figures 24 to 27 of Dunn (2009): each program under one scheduler after another, in several passes
of an order of their own. The programs go through the page cache as they do in use, so what they
count and what reaches the drive are different numbers, and both are kept.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from operator import truediv
from pathlib import Path
from random import Random
from shutil import rmtree

from ssdbench.engine.applied import applied
from ssdbench.engine.noise import HostWatch
from ssdbench.engine.progress import Reporter
from ssdbench.engine.seeds import derived
from ssdbench.engine.stage import Context, Lasting, RateHint, StagePlan
from ssdbench.errors import CommandFailed, SsdbenchError
from ssdbench.generator.fio.placement import POLICY
from ssdbench.host import command, database
from ssdbench.host.counters import CounterFile, DiskStat, disk_counters
from ssdbench.host.files import make_directory
from ssdbench.host.filesystems import FileSystem
from ssdbench.host.numa import Policy
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stages.cells import Began, Cell, kept, medians
from ssdbench.stages.filemount import Place, mounted
from ssdbench.stages.hostload import LoadWatch
from ssdbench.stages.onestart import GRACE_S, RAMP_S, Options, common, job_file
from ssdbench.stages.programs import COMMANDS, SERVER, Program, Scale
from ssdbench.stages.trial import (
    Start,
    TrialWorkload,
    Variant,
    measured,
    placed,
    slug,
)
from ssdbench.stages.trialhost import TrialHost
from ssdbench.tuning.mounting import PRESENT
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting

REACHABLE = Path("/run/ssdbench")  # a database's user may not get to a run directory
EQUIVALENT = ", fio's equivalent"
LONGEST_S = 3600.0  # of a program that ends when its work is done
_PREPARE_S = 1800.0


@dataclass(frozen=True, slots=True)
class _Turn:
    """One start: a program or what fio does in its place, under one scheduler."""

    program: Program
    by_fio: bool
    variant: Variant
    repeat: int

    @property
    def workload(self) -> str:
        return self.program.name + (EQUIVALENT if self.by_fio else "")

    @property
    def unit(self) -> str:
        return f"{slug(self.variant.name)}/{slug(self.workload)}/repeat-{self.repeat:02d}"


@dataclass(frozen=True, slots=True)
class ApplicationTrial:
    """Programs by scheduler on one file system."""

    name: str
    system: FileSystem
    kernel_name: str
    programs: tuple[Program, ...]
    variants: tuple[Variant, ...]
    scale: Scale
    repeats: int = 3
    cpus: tuple[int, ...] = ()
    numa: Options = field(default_factory=dict)  # of fio; the programs take its memory policy
    notes: tuple[str, ...] = ()
    kind: StageKind = StageKind.APPLICATIONS
    destructive: bool = True
    lasting: Lasting = Lasting.RESULTS

    @property
    def title(self) -> str:
        """The file system that they run on."""
        return f"Application programs on {self.system.name}"

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Its starts; a program that ends when its work is done has no certain time."""
        starts = self.repeats * len(self.variants) * 2 * len(self.programs)
        seconds = float(starts * (self.scale.window_s + RAMP_S))
        fast = hint.sequential_bytes_per_s[1]
        most = int(seconds * fast) + starts * self.scale.data_bytes
        return StagePlan(
            name=self.name,
            kind=self.kind,
            title=self.title,
            destructive=True,
            jobs=(
                f"{self.system.program} {' '.join(self.system.options)} without a discard; the "
                "claim is given up meanwhile",
                *(
                    f"{self.repeats} x {p.name} ({p.title}) and fio's equivalent under each of "
                    f"{', '.join(variant.name for variant in self.variants)}"
                    for p in self.programs
                ),
            ),
            seconds=(seconds, 6 * seconds),
            bytes_written=(0, most),
            fills=(0.0, most / target.size_bytes),
            notes=(
                *self.notes,
                *(f"sets {one}: {one.reason}" for v in self.variants for one in v.settings),
            ),
        )

    def run(self, context: Context) -> StageResult:
        """Make it, mount it, run one after another, unmount."""
        began = Began.now(context)
        cells: list[Cell] = []
        notes = list(self.notes)
        try:
            place = Place(self.system, self.kernel_name, below=REACHABLE)
            with mounted(context, place, self.name, notes) as directory:
                cut_short = self._measure(context, directory, cells)
        except SsdbenchError as error:
            cut_short = context.failed(error)
        return kept(
            self,
            context,
            began,
            cells,
            cut_short=cut_short,
            summary={
                "file_system": self.system.name,
                "programs": ", ".join(program.name for program in self.programs),
                **{f"note_{n}": note for n, note in enumerate(notes, start=1)},
            },
            compared=medians(cells, self._names()),
        )

    def _names(self) -> list[str]:
        found = [name for p in self.programs for name in (p.name, p.name + EQUIVALENT)]
        return [*found, *(variant.name for variant in self.variants)]

    def turns(self, seed: int) -> Iterator[_Turn]:
        """All starts, shuffled within each pass."""
        for repeat in range(1, self.repeats + 1):
            found = [
                _Turn(program, by_fio, variant, repeat)
                for variant in self.variants
                for program in self.programs
                for by_fio in (False, True)
            ]
            Random(derived(seed, self.name, "order", repeat)).shuffle(found)
            yield from found

    def _measure(self, context: Context, place: Path, cells: list[Cell]) -> str:
        """Add one cell after another; why it ended early, or nothing."""
        reporter = Reporter(self.name, emit=context.emit, wall=context.wall)
        host = TrialHost(context)
        turns = list(self.turns(context.seed))
        lease = f"{context.run_path.resolve().name}-{self.name}"
        for count, turn in enumerate(turns):
            if (signal_number := context.interrupted()) is not None:
                return f"the run was interrupted by signal {signal_number}"
            if cut_short := context.meter.exceeded():
                return cut_short
            reporter.doing(
                f"{turn.variant.name}, {turn.workload}", partial(truediv, count, len(turns))
            )
            work = place / "work"
            make_directory(work)
            with applied(HostPlan(settings=turn.variant.settings), lease):
                one = self._by_fio if turn.by_fio else self._by_itself
                with host.start():
                    cell = one(context, turn, work)
            rmtree(work)
            context.store.save(f"{turn.unit}/cell.json", cell)
            cells.append(cell)
        return ""

    def _by_fio(self, context: Context, turn: _Turn, work: Path) -> Cell:
        seed = derived(context.seed, self.name, turn.program.name, turn.repeat)
        window_s, size = self.scale.window_s, self.scale.data_bytes
        shared = {**common(span_bytes=size, window_s=window_s, seed=seed), "ioengine": "psync"}
        shared |= placed(self.numa, turn.variant.cpus)
        sections = turn.program.equivalent(self.scale)
        if any("nrfiles" in section for section in sections):
            del shared["size"]
        text = job_file({**shared, "directory": str(work), "fallocate": "none"}, sections)
        workload = TrialWorkload(turn.workload, sections)
        start = Start(turn.unit, turn.variant, workload, turn.repeat, text, window_s)
        return measured(context, start, cpus=turn.variant.cpus or self.cpus)

    def _prepare(self, program: Program, directory: Path, work: Path, server: str) -> None:
        """All that comes before the measurement, and is on the drive when it begins."""
        if arguments := program.prepare(self.scale):
            _ended(_argv(program, arguments, server), directory, work, (), _PREPARE_S)
        if text := program.commands(self.scale):
            (work / COMMANDS).write_text(text)
        if server:
            database.checkpoint(Path(server))

    def _by_itself(self, context: Context, turn: _Turn, work: Path) -> Cell:
        """Run the program; its bytes are those that reached the drive, its rate its own."""
        program, scale = turn.program, self.scale
        directory = context.store.fresh_directory(turn.unit)
        context.journal.begun(turn.unit)
        cpus = turn.variant.cpus or self.cpus
        # What is started inherits the policy, the database's server among it.
        memory = Policy.of(str(self.numa.get(POLICY, "")))
        with memory, disk_counters(context.target.major_minor) as disk:
            load = LoadWatch(disk, context.activity, RAMP_S, scale.window_s)
            with _served(program, work, directory, scale, cpus) as server:
                self._prepare(program, directory, work, server)
                argv = _argv(program, program.arguments(scale), server)
                stat = DiskStat.parse(disk.read())
                watch = HostWatch(simulated=False, read=context.activity)
                longest_s = scale.window_s + GRACE_S if program.is_timed else LONGEST_S
                said, seconds = _ended(argv, directory, work, cpus, longest_s, load)
                disturbed = "; ".join(finding.message for finding in watch.findings())
            read, written = _moved(stat, disk, work)
        try:
            figures = dict(program.figures(said, scale, seconds))
        except ValueError as error:
            raise CommandFailed(argv, 0, str(error)) from error
        context.meter.add(seconds=seconds, bytes_read=read, bytes_written=written)
        return Cell(
            variant=turn.variant.name,
            workload=turn.workload,
            repeat=turn.repeat,
            iops=figures.pop("operations_per_s"),
            bw_bytes_per_s=figures.pop("bytes_per_s", (read + written) / seconds),
            bytes_read=read,
            bytes_written=written,
            disturbed=disturbed,
            host_cpu_us_per_io=load.load.host_cpu_us_per_io,
            in_flight=load.load.in_flight,
            in_flight_p95=load.load.in_flight_p95,
            more={"seconds": seconds, **figures},
        )


@contextmanager
def _served(
    program: Program, work: Path, logs: Path, scale: Scale, cpus: Sequence[int]
) -> Iterator[str]:
    """The database that a program works on, stopped after it; nothing for one that needs none.

    The directory of its socket is journalled: `restore` removes it after a crash.
    """
    if not program.is_served:
        yield ""
        return
    lease = f"{work.parent.name}-socket"
    sockets = REACHABLE / f"socket-{sha256(lease.encode()).hexdigest()[:12]}"
    made = Setting(Backend.DIRECTORY, str(sockets), PRESENT, "the database's socket lies there")
    with (
        applied(HostPlan(settings=(made,)), lease),
        database.serving(work, logs, sockets, data_bytes=scale.data_bytes, cpus=cpus),
    ):
        yield str(sockets)


def _argv(program: Program, arguments: Sequence[str], server: str) -> list[str]:
    return [program.program, *(text.replace(SERVER, server) for text in arguments)]


def _moved(before: DiskStat, disk: CounterFile, place: Path) -> tuple[int, int]:
    """Bytes that the drive read and wrote since, with all that is still to be written."""
    command.run(["sync", "-f", str(place)], timeout_s=_PREPARE_S)
    now = DiskStat.parse(disk.read())
    return now.read_bytes - before.read_bytes, now.write_bytes - before.write_bytes


def _ended(
    argv: Sequence[str],
    directory: Path,
    work: Path,
    cpus: Sequence[int],
    longest_s: float,
    meanwhile: LoadWatch | None = None,
) -> tuple[str, float]:
    """What a program said, and its seconds. Raises CommandFailed with its last words."""
    (directory / "command").write_text(" ".join(argv) + "\n")
    began = time.monotonic()
    out, err = directory / "stdout", directory / "stderr"
    process = command.spawn(argv, stdout=out, stderr=err, cwd=work, cpus=cpus)
    try:
        if meanwhile is not None:
            meanwhile(process)
    except BaseException:
        process.kill()
        raise
    status = process.wait(longest_s)
    if status is None:
        status = process.kill()
    seconds = time.monotonic() - began
    said = out.read_text(errors="replace")
    if status != 0:
        raise CommandFailed(argv, status, said + err.read_text(errors="replace"))
    return said, seconds
