"""Application programs that a profile asks for, after a fill of their own that is proven again."""

from collections.abc import Mapping

from ssdbench.engine.stage import Stage
from ssdbench.errors import HostLacks, UsageError
from ssdbench.host import command
from ssdbench.host.topology import topology
from ssdbench.model import asked
from ssdbench.model.profile import Profile
from ssdbench.model.target import TargetInfo
from ssdbench.stages.applications import ApplicationTrial
from ssdbench.stages.hostvariants import path_variants
from ssdbench.stages.programs import PROGRAMS, Program, Scale
from ssdbench.suite import filesystems
from ssdbench.units import KIB, format_capacity

NO_DATABASE = (
    "sysbench's OLTP needs a database server, which ssdbench neither starts nor sets up; its file "
    "test makes the same pages random"
)
_PER_CLIENT = 64 * 1024 * KIB  # that a client of dbench takes, with room for the journal
_MEAN_FILE = 8 * KIB  # that Postmark's files take, in whole blocks


def stages(
    before: int,
    wanted: asked.Applications,
    profile: Profile,
    target: TargetInfo,
    *,
    cpus: tuple[int, ...] = (),
    numa: Mapping[str, str] | None = None,
) -> list[Stage]:
    """A fill and the trial. Raises HostLacks for a program or file system that is lacking,
    UsageError for a target that is no block device or too small.
    """
    kernel = filesystems.required_device(target)
    system = filesystems.required(wanted.type, target)
    programs = chosen(wanted)
    _require_room(wanted, target)
    offered = topology(kernel).schedulers
    found = list(filesystems.prepared(before + 1, system, 100.0, profile))
    found.append(
        ApplicationTrial(
            name=f"{before + len(found) + 1:02d}-applications",
            system=system,
            kernel_name=kernel,
            programs=programs,
            variants=tuple(path_variants(wanted.schedulers, offered, target.id)),
            scale=Scale(
                threads=wanted.threads,
                window_s=max(1, round(wanted.window_s)),
                files=wanted.files,
                transactions=wanted.transactions,
                data_bytes=wanted.data_bytes,
            ),
            repeats=wanted.repeats,
            cpus=cpus,
            numa=dict(numa or {}),
            notes=(NO_DATABASE,) if asked.ProgramName.SYSBENCH in wanted.programs else (),
        )
    )
    return found


def chosen(wanted: asked.Applications) -> tuple[Program, ...]:
    """Those that are asked for. Raises HostLacks with a sentence for each that is lacking."""
    programs = tuple(PROGRAMS[name.value] for name in wanted.programs)
    lacking = [program for program in programs if command.which(program.name) is None]
    if lacking:
        raise HostLacks(
            "; ".join(f"{p.name} is not installed (package {p.package})" for p in lacking),
            hint="Install what is missing, or leave it out of `programs`.",
        )
    return programs


def _require_room(wanted: asked.Applications, target: TargetInfo) -> None:
    needed = (
        max(wanted.data_bytes, wanted.threads * _PER_CLIENT, wanted.files * _MEAN_FILE) * 5 // 4
    )  # with what the file system itself takes
    if needed > target.size_bytes:
        raise UsageError(
            f"the applications need {format_capacity(needed)}, and {target.name} has "
            f"{format_capacity(target.size_bytes)}",
            hint="Set fewer `threads`, `files` or less `data`.",
        )
