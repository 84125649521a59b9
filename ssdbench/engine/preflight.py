"""Check what a run needs of host and drive, and what may disturb it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

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

LEAST_FREE_BYTES = GIB  # logs and journals of a long run
BUSY_LOAD_PER_CPU = 0.25
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies"})
STEADY_GOVERNORS = frozenset({"performance"})


class Grade(StrEnum):
    """Grade a requirement: MISSING stops a run, NOISY makes its numbers worse or less sure.

    ABSENT: only a profile that names it needs it.
    """

    FINE = "fine"
    ABSENT = "absent"
    NOISY = "noisy"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Requirement:
    """Hold one thing that a run needs of the host."""

    name: str
    grade: Grade
    said: str  # what was found
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HostState:
    """Hold what was read of the host."""

    facts: Mapping[str, str]  # of ssdbench.host.facts
    root: bool
    free_bytes: int | None  # where runs are kept
    programs: Mapping[str, str | None]  # name -> path
    fio: str | None  # "3.33"; None when missing
    fio_engines: frozenset[str] = frozenset()
    fio_oldest: str = ""
    fio_fault: str = ""  # why fio cannot be used, if it cannot
    lacks: Mapping[str, str] = field(default_factory=dict)  # of an engine of points; "" = nothing
    zones_lacking: str = ""  # why a drive in zones cannot be filled now, if it cannot
    simulation_fault: str = ""  # why drives cannot be simulated, if they cannot


def requirements(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    """List everything that was checked, for one target or for any."""
    return [
        _fio(state),
        *_engines(state, target),
        *_engines_of_points(state, target),
        *_programs(state),
        _rights(state, target),
        *_simulation(state, target),
        *_zones(state, target),
        _room(state),
        *_noise(state, target),
    ]


def _fio(state: HostState) -> Requirement:
    if state.fio_fault:
        hint = f"Install fio {state.fio_oldest} or newer: apt-get install fio"
        return Requirement("fio", Grade.MISSING, state.fio_fault, hint)
    return Requirement("fio", Grade.FINE, state.fio or "")


def _engines(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    if state.fio_fault:
        return []
    wanted = {"libaio", "nbd"}
    if target is not None:
        wanted = {"nbd"} if target.simulated else {"libaio"}
    return [
        Requirement(
            f"fio engine {name}",
            Grade.FINE if name in state.fio_engines else Grade.MISSING,
            "available" if name in state.fio_engines else "this fio was built without it",
            "" if name in state.fio_engines else "Install the distribution's fio.",
        )
        for name in sorted(wanted)
    ]


def _engines_of_points(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    """Check the engines that a profile may name; a simulated drive has its own."""
    if target is not None and target.simulated:
        return []
    fine = "can be used" if target is not None else "can be used where the drive offers it"
    return [
        Requirement(f"engine: {name}", Grade.ABSENT if why else Grade.FINE, why or fine)
        for name, why in state.lacks.items()
    ]


def _programs(state: HostState) -> list[Requirement]:
    return [
        Requirement(
            name,
            Grade.FINE if path else Grade.MISSING,
            path or "not installed",
            "" if path else f"Install the package that holds {name}.",
        )
        for name, path in state.programs.items()
    ]


def _rights(state: HostState, target: TargetInfo | None) -> Requirement:
    if state.root:
        return Requirement("root", Grade.FINE, "yes")
    devices = target is None or target.kind not in (TargetKind.SIMULATED, TargetKind.FILE)
    needed = target is not None and devices
    return Requirement(
        "root",
        Grade.MISSING if needed else Grade.NOISY if devices else Grade.FINE,
        "no: files and simulated drives only" if devices else "not needed for this target",
        "Run as root to measure block devices." if devices else "",
    )


def _simulation(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    if target is not None and not target.simulated:
        return []
    if state.simulation_fault:
        return [Requirement("simulated drive", Grade.MISSING, state.simulation_fault)]
    return [Requirement("simulated drive", Grade.FINE, "works")]


def _zones(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    if target is None or ZONES not in target.facts:
        return []
    if state.zones_lacking:
        said = f"{target.facts[ZONES]}; {state.zones_lacking}"
        return [Requirement("zones", Grade.MISSING, said, reset_hint(target.name))]
    if target.zone_bytes:
        said = f"{target.facts[ZONES]}; sequential writes and reads can be measured"
        return [Requirement("zones", Grade.FINE, said)]
    if target.facts[ZONES].startswith(NOT_READ):
        return [
            Requirement(
                "zones",
                Grade.MISSING,
                target.facts[ZONES],
                "Run as root, or look into the kernel's log.",
            )
        ]
    said = (
        f"{target.facts[ZONES]}; only zones that are all alike and written in order can be measured"
    )
    return [Requirement("zones", Grade.MISSING, said, "Take another drive.")]


def reset_hint(name: str) -> str:
    """Return the hint that says how to empty the zones of a drive."""
    return f"`blkzone reset {name}` empties all zones, and erases all of the drive"


def _room(state: HostState) -> Requirement:
    free = state.free_bytes
    if free is None:
        return Requirement("free space", Grade.NOISY, "not known")
    grade = Grade.FINE if free >= LEAST_FREE_BYTES else Grade.MISSING
    hint = "" if grade is Grade.FINE else "Free some, or use --output on another file system."
    return Requirement("free space", grade, f"{format_capacity(free)} here", hint)


def _noise(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    """Check what may disturb a run; a simulated drive keeps its own time, so nothing does."""
    if target is not None and target.simulated:
        return []
    facts = state.facts
    noise = [_clock(facts), _governor(facts), _load(facts), _swap(facts)]
    if "virtualization" in facts:
        hint = "Numbers of a guest are those of its share of the host: not plannable."
        noise.append(Requirement("virtualization", Grade.NOISY, facts["virtualization"], hint))
    return [requirement for requirement in noise if requirement is not None]


def _clock(facts: Mapping[str, str]) -> Requirement | None:
    clock = facts.get("clock source")
    if clock is None:
        return None
    if clock in SLOW_CLOCKS:
        hint = "Reading it costs microseconds per I/O; boot with clocksource=tsc."
        return Requirement("clock source", Grade.NOISY, clock, hint)
    return Requirement("clock source", Grade.FINE, clock)


def _governor(facts: Mapping[str, str]) -> Requirement | None:
    governor = facts.get("governor")
    if governor is None:
        return None
    if set(governor.split(", ")) <= STEADY_GOVERNORS:
        return Requirement("governor", Grade.FINE, governor)
    hint = "Latencies will vary with the CPU's frequency: cpupower frequency-set -g performance"
    return Requirement("governor", Grade.NOISY, governor, hint)


def _load(facts: Mapping[str, str]) -> Requirement | None:
    if "load" not in facts:
        return None
    load, cpus = float(facts["load"]), max(1, int(facts.get("CPUs", "1")))
    said = f"{load:g} on {cpus} CPUs"
    if load > BUSY_LOAD_PER_CPU * cpus:
        return Requirement("other work", Grade.NOISY, said, "End it, or wait until it is done.")
    return Requirement("other work", Grade.FINE, said)


def _swap(facts: Mapping[str, str]) -> Requirement | None:
    used = facts.get("swap used")
    if used is None:
        return None
    grade = Grade.FINE if used.startswith("0 MiB") else Grade.NOISY
    hint = "" if grade is Grade.FINE else "Swapping uses drives and time: swapoff -a, if you can."
    return Requirement("swap", grade, used, hint)


COUNTS_ZONES = (3, 36)  # the first fio that respects the limit of open zones
PAGE_BYTES = 4 * KIB  # a buffer's pages may all lie apart


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """Hold which engines fio, kernel and drive support."""

    fio_engines: frozenset[str]
    refused: str = ""  # why io_uring is, if it is
    commands: bool = True  # io_uring supports driver commands
    polls: bool = True  # the drive has poll queues
    generic: bool = True  # the namespace has a generic node
    most_command_bytes: int | None = None  # of one NVMe command; None where it is not known


def engine_support(info: TargetInfo | None = None) -> EngineSupport:
    """Find what is supported here, and by a drive if one is named. Raises HostLacks without fio."""
    _, engines = installed()
    found = EngineSupport(engines, iouring.unusable(), iouring.takes_commands())
    if info is None:
        return found
    kernel = kernel_name(info)
    return EngineSupport(
        engines,
        found.refused,
        found.commands,
        polls=bool(kernel) and topology(kernel).polls,
        generic=bool(kernel) and generic_node(kernel) is not None,
        most_command_bytes=_most_command_bytes(kernel) if kernel else None,
    )


def engine_lack(
    engine: IoEngine, info: TargetInfo | None, found: EngineSupport, *, block_bytes: int = 0
) -> str:
    """Return why an engine cannot be used with requests of this size; empty if it can."""
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
            f"{name} takes {format_size(most)} at most with one command, and "
            f"requests of {format_size(block_bytes)} are not split past the block layer"
        )
    return ""


def require_engines(profile: Profile, info: TargetInfo) -> None:
    """Raise HostLacks unless all points can be measured here, with the profile's LBA format."""
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
    """Return why the first fill of a zoned drive would fail; empty if it would not."""
    if info is None or not info.facts.get(ZONES, "").endswith(USED_UP):
        return ""
    (major, minor), _ = installed()
    if (major, minor) >= COUNTS_ZONES:
        return ""
    return f"fio {major}.{minor} does not count them, so the first fill would fail"


def require_zones(info: TargetInfo) -> None:
    """Raise HostLacks for a zoned drive whose first fill would fail."""
    if why := zones_lacking(info):
        said = f"{info.name} has {info.facts[ZONES]}; {why}"
        raise HostLacks(said, hint=reset_hint(info.name))


def engine_obstacles(info: TargetInfo | None) -> dict[str, str]:
    """Return for each optional engine why it cannot be used; empty text where it can."""
    try:
        found = engine_support(info)
    except HostLacks:  # no fio, which is reported on its own
        return {}
    return {
        engine.value: engine_lack(engine, info, found)
        for engine in IoEngine
        if engine is not IoEngine.LIBAIO
    }


def _most_command_bytes(kernel: str) -> int | None:
    """Return the largest request of one NVMe command, if each page takes its own segment."""
    queue, sysfs = f"/sys/block/{kernel}/queue", Sysfs()
    limits = [
        sysfs.number(f"{queue}/{attribute}") for attribute in ("max_hw_sectors_kb", "max_segments")
    ]
    sizes = [limit * unit for limit, unit in zip(limits, (KIB, PAGE_BYTES), strict=True) if limit]
    return min(sizes, default=None)
