"""Trials on files of a file system that a profile asks for, after a fill that is proven again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from ssdbench.engine.stage import AnyStage
from ssdbench.errors import UsageError
from ssdbench.model.found import ComparedKind
from ssdbench.model.kind import KINDS, StageKind
from ssdbench.model.profile import Profile, spec
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files import variants
from ssdbench.stages.files.mount import Place
from ssdbench.stages.files.trial import NO_HINT, Files, FileTrial
from ssdbench.stages.host.trial import TrialWorkload, Variant
from ssdbench.stages.host.variants import surface_variants
from ssdbench.suite import filesystems
from ssdbench.units import MIB, format_size


@dataclass(frozen=True, slots=True)
class _Chosen:
    kind: ComparedKind
    variants: Sequence[Variant]
    workloads: tuple[TrialWorkload, ...]
    files: tuple[Files, ...]
    notes: tuple[str, ...] = ()


def stages(
    before: int, wanted: spec.OnFiles, profile: Profile, target: TargetInfo
) -> list[AnyStage]:
    """A fill and the trial. Raises HostLacks for a file system that is lacking, UsageError for a
    target that is no block device or has no room.
    """
    kernel = filesystems.required_device(target)
    name = wanted.type or spec.FileSystemName.EXT4
    system = filesystems.required(name, target)
    chosen = _chosen(wanted, variants.room_on(target.size_bytes))
    planned = list(filesystems.prepared(before + 1, system, 100.0, profile))
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
            options=NO_HINT,
            place=Place(system, kernel),
            files=chosen.files,
        )
    )
    return planned


def _window_s(wanted: spec.OnFiles) -> int:
    return max(1, round(wanted.window_s))


def _chosen(wanted: spec.OnFiles, room_bytes: int) -> _Chosen:
    match wanted:
        case spec.Surface():
            return _surface(wanted, room_bytes)
        case spec.FileWriters():
            return _writers(wanted, room_bytes)
        case spec.FileMix():
            return _mix(wanted, room_bytes)
        case unknown:  # mypy refuses a trial that was left out above
            assert_never(unknown)


def _surface(wanted: spec.Surface, room_bytes: int) -> _Chosen:
    sizes = variants.fitting(wanted.files_bytes, room_bytes)
    if not sizes or min(sizes) < max(wanted.records_bytes):
        raise UsageError(
            "a surface needs files that the file system has room for, and records no larger than "
            "files",
            hint=f"Set `files` and `records` to fit into {format_size(room_bytes // MIB * MIB)}.",
        )
    left = [size for size in wanted.files_bytes if size not in sizes]
    return _Chosen(
        StageKind.SURFACE,
        surface_variants(wanted.records_bytes, buffered=wanted.buffered),
        variants.surface_on_files(sizes),
        variants.surface_files(sizes),
        tuple(f"there is no room for a file of {format_size(size)}" for size in left),
    )


def _writers(wanted: spec.FileWriters, room_bytes: int) -> _Chosen:
    most = max(wanted.processes)
    size = min(wanted.file_bytes, room_bytes // most // MIB * MIB)
    _require_room(size, most)
    return _Chosen(
        StageKind.FILE_WRITERS,
        variants.writer_variants(wanted.processes),
        variants.writer_workloads(
            wanted.block_bytes,
            wanted.delays_s,
            wanted.delayed_percent,
            window_s=_window_s(wanted),
            buffered=wanted.buffered,
        ),
        variants.writer_files(wanted.processes, size),
    )


def _mix(wanted: spec.FileMix, room_bytes: int) -> _Chosen:
    size = min(wanted.file_bytes, room_bytes // MIB * MIB)
    _require_room(size, 1)
    return _Chosen(
        StageKind.FILE_MIX,
        variants.mix_variants(wanted.threads),
        variants.mix_workloads(
            wanted.read_percents, wanted.block_bytes, size, buffered=wanted.buffered
        ),
        variants.mix_files(size),
    )


def _require_room(size_bytes: int, files: int) -> None:
    if size_bytes < MIB:
        raise UsageError(
            f"a file system on this drive has no room for {files} file{'s' if files > 1 else ''} "
            "of 1 MiB",
            hint="Choose a larger drive, or fewer processes.",
        )
