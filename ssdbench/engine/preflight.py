"""Check that host and drive have everything that a run needs, and find possible disturbances."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from ssdbench.errors import HostLacks
from ssdbench.generator.fio.driver import installed
from ssdbench.generator.fio.jobfile import ENGINE_OPTIONS
from ssdbench.host import iouring
from ssdbench.host.nvme import generic_node
from ssdbench.host.sysfs import Sysfs
from ssdbench.host.topology import topology
from ssdbench.model.fitting import engine_obstacle
from ssdbench.model.profile import Profile, spec
from ssdbench.model.target import NOT_READ, USED_UP, ZONES, TargetInfo, TargetKind
from ssdbench.model.workload import IoEngine
from ssdbench.target.inspect import kernel_name
from ssdbench.units import GIB, KIB, format_capacity, format_size

LEAST_FREE_BYTES = GIB  # for logs and journals of a long run
BUSY_LOAD_PER_CPU = 0.25
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies"})
STEADY_GOVERNORS = frozenset({"performance"})


class Grade(StrEnum):
    """Say how serious a failed check is.

    MISSING: no run can start. NOISY: a run can start, but its results are less reliable. ABSENT:
    only a run whose profile names the missing thing cannot start.
    """

    FINE = "fine"
    ABSENT = "absent"
    NOISY = "noisy"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Requirement:
    """Hold the result of one check of the host."""

    name: str
    grade: Grade
    said: str  # the result of the check
    hint: str = ""

    @classmethod
    def of(cls, name: str, said: str, fine: bool, otherwise: Grade, hint: str) -> Self:
        """Return a check's result: FINE if `fine`, else the grade `otherwise` and a hint."""
        return cls(name, Grade.FINE, said) if fine else cls(name, otherwise, said, hint)


@dataclass(frozen=True, slots=True)
class HostState:
    """Hold the facts about a host that are checked."""

    facts: Mapping[str, str]  # as ssdbench.host.facts returns them
    root: bool
    free_bytes: int | None  # of the file system that stores runs
    programs: Mapping[str, str | None]  # path of each program; None if it is missing
    fio: str | None  # "3.33"; None when missing
    fio_engines: frozenset[str] = frozenset()
    fio_oldest: str = ""
    fio_fault: str = ""  # why fio cannot be used, if it cannot
    lacks: Mapping[str, str] = field(default_factory=dict)  # engine: why it cannot be used, or ""
    zones_lacking: str = ""  # why a zoned drive cannot be filled now, if it cannot
    simulation_fault: str = ""  # why drives cannot be simulated, if they cannot


def requirements(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    """Check whether a host can run tests on a target, or on any target if `target` is None."""
    simulated = target is not None and target.simulated
    checks = [*_fio(state, target)]
    if not simulated:
        fine = "can be used" if target is not None else "can be used where the drive offers it"
        checks += [
            Requirement(f"engine: {name}", Grade.ABSENT if why else Grade.FINE, why or fine)
            for name, why in state.lacks.items()
        ]
    for name, path in state.programs.items():
        hint = f"Install the package that holds {name}."
        said = path or "not installed"
        checks.append(Requirement.of(name, said, bool(path), Grade.MISSING, hint))
    checks.append(_rights(state, target))
    if target is None or simulated:
        fault = state.simulation_fault
        said = fault or "works"
        checks.append(Requirement.of("simulated drive", said, not fault, Grade.MISSING, ""))
    checks += _zones(state, target)
    checks.append(_room(state))
    return [*checks, *([] if simulated else _noise(state.facts))]


def _fio(state: HostState, target: TargetInfo | None) -> Iterator[Requirement]:
    fault, hint = state.fio_fault, f"Install fio {state.fio_oldest} or newer: apt-get install fio"
    yield Requirement.of("fio", fault or state.fio or "", not fault, Grade.MISSING, hint)
    wanted = ["libaio", "nbd"]
    if target is not None:
        wanted = ["nbd"] if target.simulated else ["libaio"]
    for name in [] if fault else wanted:
        there = name in state.fio_engines
        said = "available" if there else "this fio was built without it"
        hint = "Install the distribution's fio."
        yield Requirement.of(f"fio engine {name}", said, there, Grade.MISSING, hint)


def _rights(state: HostState, target: TargetInfo | None) -> Requirement:
    if state.root:
        return Requirement("root", Grade.FINE, "yes")
    if target is not None and target.kind in (TargetKind.SIMULATED, TargetKind.FILE):
        return Requirement("root", Grade.FINE, "not needed for this target")
    return Requirement(
        "root",
        Grade.NOISY if target is None else Grade.MISSING,
        "no: files and simulated drives only",
        "Run as root to measure block devices.",
    )


def _zones(state: HostState, target: TargetInfo | None) -> Iterator[Requirement]:
    zones = "" if target is None else target.facts.get(ZONES, "")
    if target is None or not zones:
        return
    if state.zones_lacking:
        said, hint = f"{zones}; {state.zones_lacking}", reset_hint(target.name)
    elif target.zone_bytes:
        said, hint = f"{zones}; sequential writes and reads can be measured", ""
    elif zones.startswith(NOT_READ):
        said, hint = zones, "Run as root, or look into the kernel's log."
    else:
        said = f"{zones}; only zones that are all alike and written in order can be measured"
        hint = "Take another drive."
    yield Requirement.of("zones", said, not hint, Grade.MISSING, hint)


def reset_hint(name: str) -> str:
    """Return the hint that says how to empty the zones of a drive."""
    return f"`blkzone reset {name}` empties all zones, and erases all of the drive"


def _room(state: HostState) -> Requirement:
    free = state.free_bytes
    if free is None:
        return Requirement("free space", Grade.NOISY, "not known")
    said, hint = (
        f"{format_capacity(free)} here",
        "Free space, or use --output on another file system.",
    )
    return Requirement.of("free space", said, free >= LEAST_FREE_BYTES, Grade.MISSING, hint)


def _noise(facts: Mapping[str, str]) -> Iterator[Requirement]:
    """Find facts of a host that may disturb a run on a real drive."""
    if (clock := facts.get("clock source")) is not None:
        hint = "Reading it costs microseconds per I/O; boot with clocksource=tsc."
        fine = clock not in SLOW_CLOCKS
        yield Requirement.of("clock source", clock, fine, Grade.NOISY, hint)
    if (governor := facts.get("governor")) is not None:
        hint = "Latencies will vary with the CPU's frequency: cpupower frequency-set -g performance"
        fine = set(governor.split(", ")) <= STEADY_GOVERNORS
        yield Requirement.of("governor", governor, fine, Grade.NOISY, hint)
    if "load" in facts:
        load, cpus = float(facts["load"]), max(1, int(facts.get("CPUs", "1")))
        said, fine = f"{load:g} on {cpus} CPUs", load <= BUSY_LOAD_PER_CPU * cpus
        hint = "End the other work, or wait until it is done."
        yield Requirement.of("other work", said, fine, Grade.NOISY, hint)
    if (swapped := facts.get("swap used")) is not None:
        hint = "Swapping slows the host and uses drives: swapoff -a, if you can."
        yield Requirement.of("swap", swapped, swapped.startswith("0 MiB"), Grade.NOISY, hint)
    if (guest := facts.get("virtualization")) is not None:
        hint = "A guest has only a share of its host, so its numbers are not plannable."
        yield Requirement("virtualization", Grade.NOISY, guest, hint)


COUNTS_ZONES = (3, 36)  # version of the first fio that respects the limit of open zones
PAGE_BYTES = 4 * KIB  # a segment may be as small as one page, if a buffer's pages are scattered


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """What fio, kernel and drive support, from which the usable fio engines follow."""

    fio_engines: frozenset[str]
    refused: str = ""  # why io_uring cannot be used, if it cannot
    commands: bool = True  # io_uring supports driver commands
    polls: bool = True  # the drive has poll queues
    generic: bool = True  # the namespace has a generic node
    most_command_bytes: int | None = None  # largest NVMe command; None if unknown


def engine_support(info: TargetInfo | None = None) -> EngineSupport:
    """Find which engines the host and `info`'s drive support.

    Raises HostLacks if fio is missing.
    """
    _, engines = installed()
    found = EngineSupport(engines, iouring.unusable(), iouring.takes_commands())
    if info is None:
        return found
    kernel = kernel_name(info)
    return replace(
        found,
        polls=bool(kernel) and topology(kernel).polls,
        generic=bool(kernel) and generic_node(kernel) is not None,
        most_command_bytes=_most_command_bytes(kernel) if kernel else None,
    )


def engine_lack(
    engine: IoEngine, info: TargetInfo | None, found: EngineSupport, *, block_bytes: int = 0
) -> str:
    """Return why an engine cannot be used for requests of `block_bytes`; "" if usable."""
    if engine is IoEngine.LIBAIO:
        return ""
    if info is not None and (why := engine_obstacle(engine, info)):
        return why
    fio = str(ENGINE_OPTIONS[engine]["ioengine"])
    if fio not in found.fio_engines:
        return f"this fio was built without its {fio} engine"
    if found.refused:
        return found.refused
    name = "the drive" if info is None else info.name
    if engine is IoEngine.IO_URING_POLLED and not found.polls:
        return f"{name} has no poll queues; an NVMe drive gets them by nvme.poll_queues=N at boot"
    if engine is not IoEngine.IO_URING_CMD:
        return ""
    if not found.commands:
        return "this kernel's io_uring cannot send NVMe commands (Linux 5.19 and newer can)"
    if not found.generic:
        return f"{name} has no generic node: there is no /dev/ng… for it"
    most = found.most_command_bytes
    if most is not None and block_bytes > most:
        return (
            f"{name} accepts at most {format_size(most)} per command, and without the block layer "
            f"requests of {format_size(block_bytes)} are not split"
        )
    return ""


def require_engines(profile: Profile, info: TargetInfo) -> None:
    """Raise HostLacks if a sweep of the profile asks for an engine that cannot be used here."""
    info = info.formatted(profile.lba_format)
    wanted = {
        (engine, max(measure.stage.block_bytes))
        for measure in profile.measure
        if isinstance(measure.stage, spec.Sweep)
        for engine in measure.stage.engine
        if engine is not IoEngine.LIBAIO
    }
    if not wanted:
        return
    found = engine_support(info)
    for engine, block_bytes in sorted(wanted):
        if why := engine_lack(engine, info, found, block_bytes=block_bytes):
            raise HostLacks(
                f"`engine: {engine}` cannot be used: {why}",
                hint="Leave it out of the profile; `ssdbench check TARGET` lists all engines.",
            )


def zones_lacking(info: TargetInfo | None) -> str:
    """Return why the first fill of a zoned drive would fail; "" if the fill can succeed."""
    if info is None or not info.facts.get(ZONES, "").endswith(USED_UP):
        return ""
    (major, minor), _ = installed()
    if (major, minor) >= COUNTS_ZONES:
        return ""
    return f"fio {major}.{minor} does not count open zones, so the first fill would fail"


def require_zones(info: TargetInfo) -> None:
    """Raise HostLacks if the first fill of a zoned drive would fail."""
    if why := zones_lacking(info):
        said = f"{info.name} has {info.facts[ZONES]}; {why}"
        raise HostLacks(said, hint=reset_hint(info.name))


def engine_obstacles(info: TargetInfo | None) -> dict[str, str]:
    """Return, for each optional engine, why it cannot be used; "" for a usable engine."""
    try:
        found = engine_support(info)
    except HostLacks:  # fio is missing; another check reports that
        return {}
    return {
        engine.value: engine_lack(engine, info, found)
        for engine in IoEngine
        if engine is not IoEngine.LIBAIO
    }


def _most_command_bytes(kernel: str) -> int | None:
    """Return the bytes that each NVMe command can transfer, even with one segment per page."""
    queue, sysfs = f"/sys/block/{kernel}/queue", Sysfs()
    limits = [
        sysfs.number(f"{queue}/{attribute}") for attribute in ("max_hw_sectors_kb", "max_segments")
    ]
    sizes = [limit * unit for limit, unit in zip(limits, (KIB, PAGE_BYTES), strict=True) if limit]
    return min(sizes, default=None)
