"""Run application programs, and fio jobs that imitate them, on a file system on the drive.

Figures 24 to 27 of Dunn (2009): each program runs under one scheduler after another, in several
shuffled passes. The programs use the page cache, as in real use. So the bytes that a program counts
differ from the bytes that reach the drive; both numbers are stored.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from ssdbench.engine.fiorun import ProgramWatch, RunMustEnd
from ssdbench.engine.hostactivity import HostWatch
from ssdbench.engine.hostsettings import applied
from ssdbench.engine.stage import Context, RateHint, StagePlan
from ssdbench.errors import CommandFailed
from ssdbench.foreign import write_whole
from ssdbench.host import command, database
from ssdbench.host.counters import DiskCounters, DiskStat, disk_counters
from ssdbench.host.files import make_directory
from ssdbench.host.placement import memory_policy
from ssdbench.model.found import Comparison, Median
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.mount import REACHABLE, where
from ssdbench.stages.files.programs import COMMANDS, SERVER, Program, Scale
from ssdbench.stages.files.trial import FileTrial
from ssdbench.stages.host.cost import HostCostWatch
from ssdbench.stages.host.trial import GRACE_S, RAMP_S, Cell, Turn
from ssdbench.tuning.mounting import PRESENT
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting

EQUIVALENT = ", fio's equivalent"
LONGEST_S = 3600.0  # longest run of a program that ends by itself
_PREPARE_S = 1800.0


@dataclass(frozen=True, kw_only=True)
class ApplicationTrial(FileTrial):
    """Compare I/O schedulers on one file system, by application programs and similar fio jobs."""

    programs: tuple[Program, ...]
    scale: Scale
    cpus: tuple[int, ...] = ()  # of the programs, not of fio; empty: all CPUs
    memory: str = ""  # NUMA memory policy of the programs

    def laid_bytes(self, target: TargetInfo) -> int:
        """Return the bytes of all files that are written before the programs are measured."""
        return self.starts * self.scale.data_bytes

    def plan(self, target: TargetInfo, hint: RateHint) -> StagePlan:
        """Plan all runs of programs; a program that ends by itself takes an uncertain time."""
        whole = super().plan(target, hint)
        jobs = (
            f"{self.repeats} x {p.name} ({p.title}) and fio's equivalent under each of "
            f"{', '.join(variant.name for variant in self.variants)}"
            for p in self.programs
        )
        least = whole.seconds[0]
        return replace(whole, jobs=(self.place.planned, *jobs), seconds=(least, 6 * least))

    def cell(self, context: Context, turn: Turn) -> Cell | None:
        """Run a program, or the fio job that imitates it, in an empty directory."""
        work = where(context) / "work"
        if work.exists():
            rmtree(work)  # left by an interrupted run of this cell
        make_directory(work)
        program = next((p for p in self.programs if p.name == turn.workload.name), None)
        if program is None:
            cell = super().cell(replace(context, mounted=work), turn)
        else:
            try:
                cell = self._by_itself(context, turn, program, work)
            except RunMustEnd as why:
                context.unit.cut_short = str(why)
                return None
        rmtree(work)
        return cell

    def found(self, compared: Sequence[Median]) -> Comparison:
        """Return the stage's result: the medians of all cells and the names of the programs."""
        names = tuple(program.name for program in self.programs)
        return super().found(compared).model_copy(update={"programs": names})

    def _prepare(self, context: Context, program: Program, work: Path, server: str) -> None:
        """Write the files that a program needs, before the program is measured."""
        if arguments := program.prepare(self.scale):
            argv = _argv(program, arguments, server)
            _ended(context, argv, work, (), _PREPARE_S)
        if text := program.commands(self.scale):
            write_whole(work / COMMANDS, text.encode())
        if server:
            database.checkpoint(Path(server))

    def _by_itself(self, context: Context, turn: Turn, program: Program, work: Path) -> Cell:
        """Run a program; take its rate from its report, its bytes from the drive's counters."""
        scale, cpus = self.scale, turn.variant.cpus or self.cpus
        # All programs that are started, including the database server, inherit the memory policy.
        memory = memory_policy(self.memory)
        with memory, disk_counters(context.target.major_minor) as disk:
            cost = HostCostWatch(disk, context.activity, RAMP_S, scale.window_s)
            with _served(program, work, context.directory(), scale, cpus) as server:
                self._prepare(context, program, work, server)
                argv = _argv(program, program.arguments(scale), server)
                stat = disk.read()
                watch = HostWatch(context.activity)
                longest_s = scale.window_s + GRACE_S if program.is_timed else LONGEST_S
                said, seconds = _ended(context, argv, work, cpus, longest_s, cost)
                disturbed = "; ".join(finding.message for finding in watch.findings())
            read, written = _moved(stat, disk, work)
        context.recent.forget()
        context.meter.add(seconds=seconds, bytes_read=read, bytes_written=written)
        try:
            figures = dict(program.figures(said, scale, seconds))
        except ValueError as error:
            raise CommandFailed(argv, 0, str(error)) from error
        return Cell(
            variant=turn.variant.name,
            workload=turn.workload.name,
            repeat=turn.repeat,
            iops=figures.pop("operations_per_s"),
            bw_bytes_per_s=figures.pop("bytes_per_s", (read + written) / seconds),
            bytes_read=read,
            bytes_written=written,
            disturbed=disturbed,
            host_cpu_us_per_io=cost.cost.host_cpu_us_per_io,
            in_flight=cost.cost.in_flight,
            in_flight_p95=cost.cost.in_flight_p95,
            more={"seconds": seconds, **figures},
        )


@contextmanager
def _served(
    program: Program, work: Path, logs: Path, scale: Scale, cpus: Sequence[int]
) -> Iterator[str]:
    """Run a program's database server during a `with` block; yield its socket's directory.

    The settings journal lists this directory, so `restore` removes it after a crash.
    """
    if not program.is_served:
        yield ""
        return
    lease = f"{work.parent.name}-socket"
    sockets = REACHABLE / f"socket-{sha256(lease.encode()).hexdigest()[:12]}"
    made = Setting(
        Backend.DIRECTORY, str(sockets), PRESENT, "needed for the socket of the database"
    )
    with (
        applied(HostPlan(settings=(made,)), lease),
        database.serving(work, logs, sockets, data_bytes=scale.data_bytes, cpus=cpus),
    ):
        yield str(sockets)


def _argv(program: Program, arguments: Sequence[str], server: str) -> list[str]:
    return [program.program, *(text.replace(SERVER, server) for text in arguments)]


def _moved(before: DiskStat, disk: DiskCounters, place: Path) -> tuple[int, int]:
    """Flush all writes to the drive; return the bytes it read and wrote since `before`."""
    command.run(["sync", "-f", str(place)], timeout_s=_PREPARE_S)
    now = disk.read()
    return now.read_bytes - before.read_bytes, now.write_bytes - before.write_bytes


def _ended(
    context: Context,
    argv: Sequence[str],
    work: Path,
    cpus: Sequence[int],
    longest_s: float,
    meanwhile: HostCostWatch | None = None,
) -> tuple[str, float]:
    """Run a program until it ends; return its output and its running time in seconds.

    Raises CommandFailed with the output if the program fails, RunMustEnd if the run must end.
    """
    directory, watch = context.directory(), ProgramWatch(context)
    write_whole(directory / "command", " ".join(argv).encode() + b"\n")
    began = time.monotonic()
    out, err = directory / "stdout", directory / "stderr"
    process = command.spawn(argv, stdout=out, stderr=err, cwd=work, cpus=cpus)
    try:
        if meanwhile is not None:
            meanwhile(process, watch)
        is_late = not watch.ended(process, longest_s)
    except BaseException:
        process.kill()
        raise
    status = process.kill() if is_late else process.wait()
    seconds = time.monotonic() - began
    said = out.read_text(errors="replace")
    if status != 0:
        raise CommandFailed(argv, status or 0, said + err.read_text(errors="replace"))
    return said, seconds
