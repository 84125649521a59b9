"""Application programs that a profile asks for, after a fill of their own that is proven again."""

from collections.abc import Sequence

from ssdbench.engine.stage import AnyStage
from ssdbench.errors import HostLacks, UsageError
from ssdbench.host import command, database
from ssdbench.host.topology import topology
from ssdbench.model.profile import Profile, spec
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.applications import ApplicationTrial, Placed
from ssdbench.stages.files.mount import Place
from ssdbench.stages.files.programs import PROGRAMS, Program, Scale
from ssdbench.stages.host.variants import path_variants
from ssdbench.suite import filesystems
from ssdbench.units import KIB, MIB, format_capacity

_PER_CLIENT = 64 * 1024 * KIB  # that a client of dbench takes, with room for the journal
_SERVER = 112 * MIB  # of an empty cluster of PostgreSQL and its least log
_MEAN_FILE = 8 * KIB  # that Postmark's files take, in whole blocks


def stages(
    before: int,
    wanted: spec.Applications,
    profile: Profile,
    target: TargetInfo,
    placed: Placed,
) -> list[AnyStage]:
    """A fill and the trial. Raises HostLacks for a program or file system that is lacking,
    UsageError for a target that is no block device or too small.
    """
    kernel = filesystems.required_device(target)
    system = filesystems.required(wanted.type, target)
    programs, notes = chosen(wanted)
    _require_room(wanted, programs, target)
    offered = topology(kernel).schedulers
    planned = list(filesystems.prepared(before + 1, system, 100.0, profile))
    planned.append(
        ApplicationTrial.of(
            f"{before + len(planned) + 1:02d}-applications",
            Place(system, kernel),
            programs,
            tuple(path_variants(wanted.schedulers, offered, target.here)),
            Scale(
                threads=wanted.threads,
                window_s=max(1, round(wanted.window_s)),
                files=wanted.files,
                transactions=wanted.transactions,
                data_bytes=wanted.data_bytes,
            ),
            repeats=wanted.repeats,
            placed=placed,
            notes=notes,
        )
    )
    return planned


def chosen(wanted: spec.Applications) -> tuple[tuple[Program, ...], tuple[str, ...]]:
    """Those that are asked for, or else all that are there with a sentence for each other.

    Raises HostLacks with a sentence for each that is lacking.
    """
    names = wanted.programs or tuple(spec.ProgramName)
    programs = tuple(PROGRAMS[name.value] for name in names)
    lacking = {program.name: said for program in programs if (said := _lacking(program))}
    here = tuple(program for program in programs if program.name not in lacking)
    if lacking and (wanted.programs or not here):
        raise HostLacks(
            "; ".join(lacking.values()),
            hint="Install what is missing, or leave it out of `programs`.",
        )
    return here, tuple(lacking.values())


def _lacking(program: Program) -> str:
    """What a program needs and this host has not, in a sentence; empty when all is there."""
    if command.which(program.program) is None:
        return f"{program.program} is not installed (package {program.package})"
    if program.is_served and database.programs() is None:
        return (
            f"{program.name} needs PostgreSQL, which is not installed (package {database.PACKAGE})"
        )
    return ""


def _require_room(
    wanted: spec.Applications, programs: Sequence[Program], target: TargetInfo
) -> None:
    most = max(wanted.data_bytes, wanted.threads * _PER_CLIENT, wanted.files * _MEAN_FILE)
    if any(program.is_served for program in programs):
        most = max(most, wanted.data_bytes + _SERVER)
    needed = most * 5 // 4  # with what the file system itself takes
    if needed > target.size_bytes:
        raise UsageError(
            f"the applications need {format_capacity(needed)}, and {target.name} has "
            f"{format_capacity(target.size_bytes)}",
            hint="Set fewer `threads`, `files` or less `data`.",
        )
