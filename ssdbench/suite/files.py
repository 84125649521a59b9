"""Trials on files of a file system that a profile asks for, after a fill that is proven again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssdbench.engine.stage import AnyStage
from ssdbench.errors import UsageError
from ssdbench.model import asked
from ssdbench.model.kind import StageKind
from ssdbench.model.profile import Profile
from ssdbench.model.target import TargetInfo
from ssdbench.stages import filework
from ssdbench.stages.filetrial import FileTrial
from ssdbench.stages.hostvariants import surface_variants
from ssdbench.stages.onestart import Options
from ssdbench.stages.trial import TrialWorkload, Variant
from ssdbench.suite import filesystems
from ssdbench.units import MIB, format_size

OnFiles = asked.Surface | asked.FileWriters | asked.FileMix


@dataclass(frozen=True, slots=True)
class _Chosen:
    kind: StageKind
    title: str
    variants: Sequence[Variant]
    workloads: tuple[TrialWorkload, ...]
    files: tuple[Options, ...]
    files_bytes: int
    each_bytes: int  # of a file whose workload names no size
    notes: tuple[str, ...] = ()


def stages(
    before: int,
    wanted: OnFiles,
    profile: Profile,
    target: TargetInfo,
    *,
    cpus: tuple[int, ...] = (),
    numa: Mapping[str, str] | None = None,
) -> list[AnyStage]:
    """A fill and the trial. Raises HostLacks for a file system that is lacking, UsageError for a
    target that is no block device or has no room.
    """
    kernel = filesystems.required_device(target)
    name = wanted.type or asked.FileSystemName.EXT4
    system = filesystems.required(name, target)
    chosen = _chosen(wanted, filework.room_on(target.size_bytes))
    found = list(filesystems.prepared(before + 1, system, 100.0, profile))
    found.append(
        FileTrial(
            name=f"{before + len(found) + 1:02d}-{chosen.kind}",
            kind=chosen.kind,
            title=f"{chosen.title} on {system.name}",
            variants=tuple(chosen.variants),
            workloads=chosen.workloads,
            span_bytes=chosen.each_bytes,
            repeats=wanted.repeats,
            window_s=_window_s(wanted),
            cpus=cpus,
            numa=dict(numa or {}),
            notes=chosen.notes,
            system=system,
            kernel_name=kernel,
            files=chosen.files,
            files_bytes=chosen.files_bytes,
        )
    )
    return found


def _window_s(wanted: OnFiles) -> int:
    return max(1, round(wanted.window_s))


def _chosen(wanted: OnFiles, room_bytes: int) -> _Chosen:
    match wanted:
        case asked.Surface():
            return _surface(wanted, room_bytes)
        case asked.FileWriters():
            return _writers(wanted, room_bytes)
        case _:
            return _mix(wanted, room_bytes)


def _surface(wanted: asked.Surface, room_bytes: int) -> _Chosen:
    sizes = filework.fitting(wanted.files_bytes, room_bytes)
    if not sizes or min(sizes) < max(wanted.records_bytes):
        raise UsageError(
            "a surface needs files that the file system has room for, and records no larger than "
            "files",
            hint=f"Set `files` and `records` to fit into {format_size(room_bytes // MIB * MIB)}.",
        )
    left = [size for size in wanted.files_bytes if size not in sizes]
    return _Chosen(
        StageKind.SURFACE,
        "Throughput over file size and record size",
        surface_variants(wanted.records_bytes, buffered=wanted.buffered),
        filework.surface_on_files(sizes),
        filework.surface_files(sizes),
        sum(sizes),
        max(sizes),
        tuple(f"there is no room for a file of {format_size(size)}" for size in left),
    )


def _writers(wanted: asked.FileWriters, room_bytes: int) -> _Chosen:
    most = max(wanted.processes)
    size = min(wanted.file_bytes, room_bytes // most // MIB * MIB)
    _require_room(size, most)
    return _Chosen(
        StageKind.FILE_WRITERS,
        "Several writers, with and without pauses,",
        filework.writer_variants(wanted.processes),
        filework.writer_workloads(
            wanted.block_bytes,
            wanted.delays_s,
            wanted.delayed_percent,
            window_s=_window_s(wanted),
            buffered=wanted.buffered,
        ),
        filework.writer_files(wanted.processes, size),
        most * size,
        size,
    )


def _mix(wanted: asked.FileMix, room_bytes: int) -> _Chosen:
    size = min(wanted.file_bytes, room_bytes // MIB * MIB)
    _require_room(size, 1)
    return _Chosen(
        StageKind.FILE_MIX,
        "Random reads and writes of one file",
        filework.mix_variants(wanted.threads),
        filework.mix_workloads(
            wanted.read_percents, wanted.block_bytes, size, buffered=wanted.buffered
        ),
        filework.mix_files(size),
        size,
        size,
    )


def _require_room(size_bytes: int, files: int) -> None:
    if size_bytes < MIB:
        raise UsageError(
            f"a file system on this drive has no room for {files} file{'s' if files > 1 else ''} "
            "of 1 MiB",
            hint="Choose a larger drive, or fewer processes.",
        )
