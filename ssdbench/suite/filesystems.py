"""File systems that a profile asks for: each after a fill of its own that is proven again."""

from collections.abc import Iterator

from ssdbench.engine.stage import AnyStage
from ssdbench.errors import HostLacks, UsageError
from ssdbench.host.filesystems import FILE_SYSTEMS, FileSystem
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.profile import Fill, Profile, Purge, spec
from ssdbench.model.target import TargetInfo
from ssdbench.stages.files.filesystem import FileSystemTrial
from ssdbench.stages.files.mount import Place
from ssdbench.stages.precondition import Precondition
from ssdbench.stages.purge import Purge as PurgeStage
from ssdbench.target.inspect import kernel_name
from ssdbench.units import format_capacity


def stages(
    before: int,
    wanted: spec.FileSystems,
    profile: Profile,
    target: TargetInfo,
) -> list[AnyStage]:
    """A fill and a trial for every file system and part; before a part, everything is discarded.

    Raises UsageError for what is no block device, HostLacks for a file system that is named and
    that this host or drive cannot have, with every reason.
    """
    kernel = required_device(target)
    planned: list[AnyStage] = []
    notes = left_out(wanted, target)
    for system in chosen(wanted, target):
        for part in wanted.parts_percent:
            number = before + len(planned) + 1
            planned += prepared(number, system, part, profile)
            planned.append(
                FileSystemTrial.of(
                    f"{before + len(planned) + 1:02d}-{system.name}",
                    Place(system, kernel, part),
                    wanted.threads,
                    file_percent=wanted.file_percent,
                    aging=wanted.aging,
                    buffered=wanted.buffered,
                    repeats=wanted.repeats,
                    window_s=max(1, round(wanted.window_s)),
                    notes=notes,
                )
            )
    return planned


def required_device(target: TargetInfo) -> str:
    """The kernel's name of it. Raises UsageError for what is no block device."""
    kernel = kernel_name(target)
    if target.simulated or not kernel:
        raise UsageError(
            f"file systems need a block device, and {target.name} is not one",
            hint="Name a whole drive or a loop device, or leave the stage out.",
        )
    return kernel


def chosen(wanted: spec.FileSystems, target: TargetInfo) -> tuple[FileSystem, ...]:
    """Those named, or all that can be had. Raises HostLacks with a sentence for each lacking."""
    least = min(wanted.parts_percent) / 100 * target.size_bytes
    names = [name.value for name in wanted.types] or list(FILE_SYSTEMS)
    lacking = {name: _lacking(FILE_SYSTEMS[name], least) for name in names}
    if any(lacking[name.value] for name in wanted.types) or all(lacking.values()):
        raise HostLacks(
            "; ".join(reason for reason in lacking.values() if reason),
            hint="Install what is missing, or leave it out of `types`; a guest of `ssdbench lab` "
            "has another kernel.",
        )
    return tuple(FILE_SYSTEMS[name] for name, reason in lacking.items() if not reason)


def left_out(wanted: spec.FileSystems, target: TargetInfo) -> tuple[str, ...]:
    """Why file systems that were not named are not compared, a sentence each."""
    if wanted.types:
        return ()
    least = min(wanted.parts_percent) / 100 * target.size_bytes
    reasons = (_lacking(system, least) for system in FILE_SYSTEMS.values())
    return tuple(reason for reason in reasons if reason)


def _lacking(system: FileSystem, room_bytes: float) -> str:
    if reason := system.lacking(Sysfs()):
        return reason
    if room_bytes < system.least_bytes:
        return f"{system.name} needs at least {format_capacity(system.least_bytes)}"
    return ""


def required(name: spec.FileSystemName, target: TargetInfo) -> FileSystem:
    """One file system. Raises HostLacks with a sentence when it cannot be had."""
    return chosen(spec.FileSystems(types=(name,)), target)[0]


def prepared(number: int, system: FileSystem, part: float, profile: Profile) -> Iterator[AnyStage]:
    """What comes before a file system: the whole drive filled again, or a part of it alone."""
    if part < 100:
        method = Purge.DISCARD if profile.purge is Purge.NONE else profile.purge
        yield PurgeStage(f"{number:02d}-purge", method)
        number += 1
    title = f"Fill the drive again, before {system.name}"
    name = f"{number:02d}-precondition"
    once = (Fill(fill=1),)
    yield Precondition(name, once, part, profile.content, title, for_experiment=True, again=True)
