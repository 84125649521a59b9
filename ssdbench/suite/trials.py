"""Make the stages that compare host settings, file systems, file workloads and programs.

Each stage on a file system comes after a stage that fills the drive.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from ssdbench.engine.hostsettings import host_backends
from ssdbench.engine.stage import AnyStage
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.fio.driver import installed
from ssdbench.host import blktrace, command, database
from ssdbench.host.activity import activity
from ssdbench.host.filesystems import FILE_SYSTEMS, FileSystem
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import Topology, cpu_text, topology
from ssdbench.model.found import ComparedKind
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.profile import Fill, Profile, Purge, spec
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files import trial as on_files
from ssdbench.stages.files.applications import EQUIVALENT, ApplicationTrial
from ssdbench.stages.files.filesystem import FileSystemTrial
from ssdbench.stages.files.mount import Place
from ssdbench.stages.files.programs import PROGRAMS, Program, Scale
from ssdbench.stages.files.trial import Files, FileTrial
from ssdbench.stages.host import variants
from ssdbench.stages.host.blocktrace import BlockTrace
from ssdbench.stages.host.trial import Trial, TrialWorkload, Variant
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.purge import Purge as PurgeStage
from ssdbench.suite.request import Planning
from ssdbench.target.inspect import kernel_name
from ssdbench.tuning.setting import Backend
from ssdbench.units import KIB, MIB, format_capacity, format_size


def host_trial(name: str, wanted: spec.OnDrive, planning: Planning) -> Trial:
    """Make the stage that compares settings of the host, for one item of the profile.

    Raises UsageError if the target is not a block device, and HostLacks if this kernel lacks a
    named scheduler.
    """
    kernel = _required_device(planning.target, f"{name} compares settings of the host")
    here = _Here(planning.target, topology(kernel), planning.level_bytes)
    chosen = _chosen(wanted, here)
    return Trial(
        name=name,
        kind=chosen.kind,
        title=KINDS[chosen.kind].title,
        variants=tuple(chosen.variants),
        workloads=chosen.workloads,
        span_bytes=here.span_bytes,
        repeats=wanted.repeats,
        window_s=_window_s(wanted),
        notes=chosen.notes,
        probe=chosen.probe,
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Hold the variants and workloads of one kind of trial, and the files that the trial uses."""

    kind: ComparedKind
    variants: Sequence[Variant]
    workloads: tuple[TrialWorkload, ...]
    notes: tuple[str, ...] = ()
    files: tuple[Files, ...] = ()
    probe: BlockTrace | None = None


@dataclass(frozen=True, slots=True)
class _Here:
    """Hold the host and the drive on which a trial runs."""

    target: TargetInfo
    host: Topology
    span_bytes: int


def _chosen(wanted: spec.OnDrive, here: _Here) -> _Chosen:
    match wanted:
        case spec.Schedulers():
            compared = variants.scheduler_variants(
                wanted.schedulers, here.host.schedulers, here.target.here
            )
            return _Chosen(StageKind.SCHEDULERS, compared, variants.SCHEDULER_WORKLOADS)
        case spec.QueueSettings():
            compared = variants.queue_variants(here.host.queue, here.target.here)
            return _Chosen(StageKind.QUEUE, compared, variants.QUEUE_WORKLOADS)
        case spec.Depth():
            queue = sorted(here.host.queue)
            compared = variants.depth_variants(wanted.depths, queue, here.target.here)
            return _Chosen(StageKind.DEPTH, compared, variants.DEPTH_WORKLOADS)
        case spec.Interrupts():
            return _interrupts(wanted, here)
        case spec.LatencyPath():
            return _latency_path(wanted, here)
        case spec.Surface():
            return _surface(wanted, here)
        case spec.CpuCost():
            speeds, notes = variants.frequency_variants(here.host, here.target.here)
            if activity().energy_j is None:
                notes.append("this host does not report the power of its CPUs")
            workloads = variants.COST_WORKLOADS
            return _Chosen(StageKind.CPU_COST, speeds, workloads, tuple(notes))
        case spec.Engines():
            (_, built), polls = installed(), here.host.polls
            hits = min(variants.HIT_BYTES, here.span_bytes)
            compared = variants.engine_variants(built, hits, polls=polls)
            notes_of = () if polls else (variants.NO_POLLING,)
            return _Chosen(StageKind.ENGINES, compared, (variants.RANDOM_READS,), notes_of)
        case unknown:  # mypy refuses a kind of trial without a case above
            assert_never(unknown)


def _interrupts(wanted: spec.Interrupts, here: _Here) -> _Chosen:
    missing = [cpu for cpu in wanted.submitters if cpu not in here.host.cpus]
    if missing:
        raise HostLacks(
            f"submitters: there is no CPU {cpu_text(missing)}",
            hint=f"CPUs of this host: {cpu_text(here.host.cpus)}.",
        )
    placed, notes = variants.interrupt_variants(
        here.host,
        here.target.here,
        submitters=wanted.submitters,
        coalescing=_coalesces(here.target),
    )
    workloads = variants.INTERRUPT_WORKLOADS
    return _Chosen(StageKind.INTERRUPTS, placed, workloads, notes)


def _coalesces(target: TargetInfo) -> bool:
    """Tell whether the drive has a setting that coalesces interrupts."""
    if not kernel_name(target).startswith("nvme"):
        return False
    backend = host_backends(Sysfs())[Backend.NVME_FEATURE]
    try:
        backend.read(variants.COALESCING, target.here)
    except (HostLacks, OSError):
        return False
    return True


def _latency_path(wanted: spec.LatencyPath, here: _Here) -> _Chosen:
    if wanted.btt and (reason := blktrace.missing()):
        raise HostLacks(reason, hint="Install it, or leave `btt` out: tracepoints need no program.")
    drive, interrupts = here.target, here.host.interrupts
    return _Chosen(
        StageKind.LATENCY_PATH,
        variants.path_variants(wanted.schedulers, here.host.schedulers, drive.here),
        variants.PATH_WORKLOADS,
        probe=BlockTrace(drive, kernel_name(drive), interrupts, btt=wanted.btt),
    )


def _surface(wanted: spec.Surface, here: _Here) -> _Chosen:
    workloads = variants.surface_workloads(wanted.files_bytes, here.span_bytes)
    if not workloads or min(wanted.files_bytes) < max(wanted.records_bytes):
        raise UsageError(
            "of `surface`, at least one of `files` must fit on the drive, and none of `records` "
            "(the sizes of one request) may be larger than the smallest of `files`",
            hint="Set smaller `files` or `records`.",
        )
    left_out = [size for size in wanted.files_bytes if size > here.span_bytes]
    return _Chosen(
        StageKind.SURFACE,
        variants.surface_variants(wanted.records_bytes, buffered=wanted.buffered),
        workloads,
        notes=tuple(f"{format_size(size)} does not fit on the drive" for size in left_out),
    )


def file_system_trials(before: int, wanted: spec.FileSystems, planning: Planning) -> list[AnyStage]:
    """Make a fill and a trial for each file system and each size of its partition.

    Raises UsageError if the target is not a block device, and HostLacks with all reasons if a named
    file system does not work on this host or drive.
    """
    kernel = _required_device(planning.target)
    planned: list[AnyStage] = []
    systems, notes = chosen(wanted, planning.target)
    for system in systems:
        for part in wanted.parts_percent:
            number = before + len(planned) + 1
            planned += prepared(number, system, part, planning.profile)
            name = f"{before + len(planned) + 1:02d}-{system.name}"
            planned.append(FileSystemTrial.of(name, Place(system, kernel, part), wanted, notes))
    return planned


def _required_device(target: TargetInfo, why: str = "file systems need a block device") -> str:
    """Return the target's kernel name. Raises UsageError if the target is not a block device."""
    kernel = kernel_name(target)
    if target.simulated or not kernel:
        raise UsageError(
            f"{why}, but {target.name} is not a block device",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    return kernel


def chosen(
    wanted: spec.FileSystems, target: TargetInfo
) -> tuple[tuple[FileSystem, ...], tuple[str, ...]]:
    """Return the named file systems, or all that work here, and a note on each unusable one.

    Raises HostLacks if a named file system does not work here.
    """
    least = min(wanted.parts_percent) / 100 * target.size_bytes
    names = [name.value for name in wanted.types] or list(FILE_SYSTEMS)
    lacking = {name: _lacking(FILE_SYSTEMS[name], least) for name in names}
    if any(lacking[name.value] for name in wanted.types) or all(lacking.values()):
        raise HostLacks(
            "; ".join(reason for reason in lacking.values() if reason),
            hint="Install what is missing, or leave it out of `types`; a guest of `ssdbench lab` "
            "has another kernel.",
        )
    works = tuple(FILE_SYSTEMS[name] for name, reason in lacking.items() if not reason)
    return works, tuple(reason for reason in lacking.values() if reason)


def _lacking(system: FileSystem, room_bytes: float) -> str:
    if reason := system.lacking(Sysfs()):
        return reason
    if room_bytes < system.least_bytes:
        return f"{system.name} needs at least {format_capacity(system.least_bytes)}"
    return ""


def required(name: spec.FileSystemName, target: TargetInfo) -> FileSystem:
    """Return the file system `name`. Raises HostLacks if this host cannot use the file system."""
    (system,), _ = chosen(spec.FileSystems(types=(name,)), target)
    return system


def prepared(number: int, system: FileSystem, part: float, profile: Profile) -> Iterator[AnyStage]:
    """Yield the stages before a file system: a purge if it gets a part of the drive, and a fill."""
    if part < 100:
        method = Purge.DISCARD if profile.purge is Purge.NONE else profile.purge
        yield PurgeStage(f"{number:02d}-purge", method)
        number += 1
    title = f"Fill the drive again, before {system.name}"
    name = f"{number:02d}-precondition"
    once = (Fill(fill=1),)
    yield Precondition(name, once, part, profile.content, title, for_experiment=True, again=True)


def file_trials(before: int, wanted: spec.OnFiles, planning: Planning) -> list[AnyStage]:
    """Make the stages of a trial on files: a fill, then the trial.

    Raises HostLacks if the file system does not work here, and UsageError if the target is not a
    block device or is too small.
    """
    kernel = _required_device(planning.target)
    name = wanted.type or spec.FileSystemName.EXT4
    system = required(name, planning.target)
    chosen = _chosen_trial(wanted, on_files.room_on(planning.target.size_bytes))
    planned = list(prepared(before + 1, system, 100.0, planning.profile))
    planned.append(
        FileTrial(
            name=f"{before + len(planned) + 1:02d}-{chosen.kind}",
            kind=chosen.kind,
            title=f"{KINDS[chosen.kind].title} on {system.name}",
            variants=tuple(chosen.variants),
            workloads=chosen.workloads,
            span_bytes=max(files.size_bytes for files in chosen.files),
            repeats=wanted.repeats,
            window_s=_window_s(wanted),
            notes=chosen.notes,
            options=on_files.NO_HINT,
            place=Place(system, kernel),
            files=chosen.files,
        )
    )
    return planned


def _window_s(wanted: spec.OnDrive | spec.OnFiles | spec.Applications) -> int:
    return max(1, round(wanted.window_s))


def _chosen_trial(wanted: spec.OnFiles, room_bytes: int) -> _Chosen:
    match wanted:
        case spec.Surface():
            return _surface_on_files(wanted, room_bytes)
        case spec.FileWriters():
            return _writers(wanted, room_bytes)
        case spec.FileMix():
            return _mix(wanted, room_bytes)
        case unknown:  # mypy refuses a kind of trial without a case above
            assert_never(unknown)


def _surface_on_files(wanted: spec.Surface, room_bytes: int) -> _Chosen:
    sizes = on_files.fitting(wanted.files_bytes, room_bytes)
    if not sizes or min(sizes) < max(wanted.records_bytes):
        raise UsageError(
            "of `surface`, at least one of `files` must fit on the file system, and none of "
            "`records` (the sizes of one request) may be larger than the smallest of these files",
            hint=f"Set `files` and `records` to fit into {format_size(room_bytes // MIB * MIB)}.",
        )
    left = [size for size in wanted.files_bytes if size not in sizes]
    return _Chosen(
        StageKind.SURFACE,
        variants.surface_variants(wanted.records_bytes, buffered=wanted.buffered),
        on_files.surface_on_files(sizes),
        notes=tuple(f"there is no room for a file of {format_size(size)}" for size in left),
        files=on_files.surface_files(sizes),
    )


def _writers(wanted: spec.FileWriters, room_bytes: int) -> _Chosen:
    most = max(wanted.processes)
    size = min(wanted.file_bytes, room_bytes // most // MIB * MIB)
    _require_room(size, most)
    return _Chosen(
        StageKind.FILE_WRITERS,
        on_files.job_variants(wanted.processes, "process", "processes"),
        on_files.writer_workloads(
            wanted.block_bytes,
            wanted.delays_s,
            wanted.delayed_percent,
            window_s=_window_s(wanted),
            buffered=wanted.buffered,
        ),
        files=(Files(size, {}, most),),  # one for each process, with fio's names
    )


def _mix(wanted: spec.FileMix, room_bytes: int) -> _Chosen:
    size = min(wanted.file_bytes, room_bytes // MIB * MIB)
    _require_room(size, 1)
    return _Chosen(
        StageKind.FILE_MIX,
        on_files.job_variants(wanted.threads, "thread", "threads"),
        on_files.mix_workloads(
            wanted.read_percents, wanted.block_bytes, size, buffered=wanted.buffered
        ),
        files=(Files(size, {"filename": on_files.MIXED_FILE}),),
    )


def _require_room(size_bytes: int, files: int) -> None:
    if size_bytes < MIB:
        raise UsageError(
            f"a file system on this drive has no room for {files} file{'s' if files > 1 else ''} "
            "of 1 MiB",
            hint="Choose a larger drive, or fewer processes.",
        )


_PER_CLIENT = 64 * MIB  # for each client of dbench, with the journal
_SERVER = 112 * MIB  # for an empty cluster of PostgreSQL and its smallest log
_MEAN_FILE = 8 * KIB  # for each file of Postmark, in whole blocks


def application_trials(
    before: int, wanted: spec.Applications, planning: Planning, cpus: tuple[int, ...], memory: str
) -> list[AnyStage]:
    """Make the stages of a trial with programs: a fill, then the trial.

    The programs run on `cpus` (all CPUs if it is empty) with the NUMA memory policy `memory`; fio
    does not. Raises HostLacks if a program or file system is missing, and UsageError if the target
    is not a block device or is too small.
    """
    kernel = _required_device(planning.target)
    system = required(wanted.type, planning.target)
    programs, notes = chosen_programs(wanted)
    _require_program_room(wanted, programs, planning.target)
    offered = topology(kernel).schedulers
    scale = Scale(
        threads=wanted.threads,
        window_s=_window_s(wanted),
        files=wanted.files,
        transactions=wanted.transactions,
        data_bytes=wanted.data_bytes,
    )
    planned = list(prepared(before + 1, system, 100.0, planning.profile))
    planned.append(
        ApplicationTrial(
            name=f"{before + len(planned) + 1:02d}-applications",
            kind=StageKind.APPLICATIONS,
            title=f"Application programs on {system.name}",
            variants=tuple(
                variants.path_variants(wanted.schedulers, offered, planning.target.here)
            ),
            workloads=tuple(
                TrialWorkload(program.name + words, program.equivalent(scale))
                for program in programs
                for words in ("", EQUIVALENT)
            ),
            repeats=wanted.repeats,
            window_s=scale.window_s,
            notes=notes,
            options={"ioengine": "psync"},
            place=Place(system, kernel),
            programs=programs,
            scale=scale,
            cpus=cpus,
            memory=memory,
        )
    )
    return planned


def chosen_programs(wanted: spec.Applications) -> tuple[tuple[Program, ...], tuple[str, ...]]:
    """Return the named programs, or all installed ones, and a sentence on each missing program.

    Raises HostLacks with a sentence about each named program that is missing.
    """
    names = wanted.programs or tuple(spec.ProgramName)
    programs = tuple(PROGRAMS[name.value] for name in names)
    lacking = {program.name: said for program in programs if (said := _program_lacking(program))}
    here = tuple(program for program in programs if program.name not in lacking)
    if lacking and (wanted.programs or not here):
        raise HostLacks(
            "; ".join(lacking.values()),
            hint="Install what is missing, or leave it out of `programs`.",
        )
    return here, tuple(lacking.values())


def _program_lacking(program: Program) -> str:
    """Return a sentence about what this host lacks to run a program; "" if it can run."""
    if command.which(program.program) is None:
        return f"{program.program} is not installed (package {program.package})"
    if program.is_served and database.programs() is None:
        return (
            f"{program.name} needs PostgreSQL, which is not installed (package {database.PACKAGE})"
        )
    return ""


def _require_program_room(
    wanted: spec.Applications, programs: Sequence[Program], target: TargetInfo
) -> None:
    most = max(wanted.data_bytes, wanted.threads * _PER_CLIENT, wanted.files * _MEAN_FILE)
    if any(program.is_served for program in programs):
        most = max(most, wanted.data_bytes + _SERVER)
    needed = most * 5 // 4  # with the data of the file system itself
    if needed > target.size_bytes:
        raise UsageError(
            f"the applications need {format_capacity(needed)}, but {target.name} has "
            f"only {format_capacity(target.size_bytes)}",
            hint="Set fewer `threads`, `files` or less `data`.",
        )
