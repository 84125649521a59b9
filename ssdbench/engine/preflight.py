"""What a host lacks for a run, and what may disturb one; pure, over facts that others read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ssdbench.model.target import NOT_READ, ZONES, TargetInfo, TargetKind
from ssdbench.units import GIB, format_capacity

LEAST_FREE_BYTES = GIB  # logs and journals of a long run
BUSY_LOAD_PER_CPU = 0.25
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies"})
STEADY_GOVERNORS = frozenset({"performance"})


class Grade(StrEnum):
    """MISSING keeps a run from starting; NOISY makes its numbers worse or less sure.

    ABSENT is what only a profile that names it needs.
    """

    FINE = "fine"
    ABSENT = "absent"
    NOISY = "noisy"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a run needs or wants of the host."""

    name: str
    grade: Grade
    said: str  # what was found
    hint: str = ""


@dataclass(frozen=True, slots=True)
class HostState:
    """What was read of the host."""

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
    """Everything that was looked at, for one target or for any."""
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
            "there" if name in state.fio_engines else "this fio was built without it",
            "" if name in state.fio_engines else "Install the distribution's fio.",
        )
        for name in sorted(wanted)
    ]


def _engines_of_points(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    """Those that a profile may ask for; a simulated drive has its own way in."""
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
        said = f"{target.facts[ZONES]}; sweeps that write in order, and reads, can be measured"
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
    """What lets zones be begun again."""
    return f"`blkzone reset {name}` empties all zones, and erases all of the drive"


def _room(state: HostState) -> Requirement:
    free = state.free_bytes
    if free is None:
        return Requirement("free space", Grade.NOISY, "cannot be known")
    grade = Grade.FINE if free >= LEAST_FREE_BYTES else Grade.MISSING
    hint = "" if grade is Grade.FINE else "Free some, or use --output on another file system."
    return Requirement("free space", grade, f"{format_capacity(free)} here", hint)


def _noise(state: HostState, target: TargetInfo | None) -> list[Requirement]:
    """The simulated drive's clock waits for us, so what disturbs us does not disturb it."""
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
