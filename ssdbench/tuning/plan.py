"""Plan all settings of a run from the profile's wishes and the features of this host (pure).

Where a profile names a NUMA node, `drive` means the node that the drive is attached to, so one
profile fits several hosts.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ssdbench.errors import HostLacks, UsageError
from ssdbench.host.topology import NO_TURBO, Interrupt, Topology, cpu_list, cpu_text
from ssdbench.model.inside import BlockSizeFound
from ssdbench.model.profile import (
    BLOCK_SCHEDULERS,
    KEEP,
    Detect,
    Host,
    Idle,
    IrqAffinity,
    Preset,
    Switch,
)
from ssdbench.stats.inside.writesizes import LEAST_FREQUENCY, USUAL_BYTES
from ssdbench.tuning.setting import Backend, Setting, queue_settings

DRIVE = "drive"
LOCAL = "local"


def cpus_of(name: str, wish: str, host: Topology) -> tuple[int, ...]:
    """Return the CPUs of the NUMA nodes in `wish`. Raises HostLacks if a node does not exist."""
    if wish == KEEP:
        return ()
    nodes = _nodes(name, wish, host, sorted(set(host.node_of.values())))
    return tuple(cpu for cpu in host.cpus if host.node_of.get(cpu) in nodes)


def nodes_holding(wish: str, cpus: Collection[int], host: Topology) -> str:
    """Return the NUMA nodes of `cpus` as text for fio; "" if `cpus` lacks a CPU of these nodes.

    fio's option `numa_cpu_nodes` lets fio run on every CPU of a node, even if fio was pinned to one
    CPU (measured: with it, fio 3.33 under `taskset -c 1` runs on CPUs 0 and 1).
    """
    if wish == KEEP:
        return ""
    nodes = {host.node_of[cpu] for cpu in cpus}
    every = {cpu for cpu in host.cpus if host.node_of.get(cpu) in nodes}
    return cpu_text(nodes) if every == set(cpus) else ""


def memory_policy(name: str, wish: str, host: Topology) -> str:
    """Return the memory policy for fio (`bind:0-1`). Raises HostLacks for a missing node."""
    if wish in (KEEP, LOCAL):
        return "" if wish == KEEP else LOCAL
    mode, _, where = wish.partition(":")
    return f"{mode}:{cpu_text(_nodes(name, where, host, host.memory_nodes))}"


def _nodes(name: str, wish: str, host: Topology, there: Collection[int]) -> tuple[int, ...]:
    listed = ", ".join(map(str, there))
    if len(there) < 2:
        raise HostLacks(
            f"{name}: this host has only one NUMA node",
            hint=f"Set `{name}: keep` in the profile.",
        )
    if wish == DRIVE and host.drive_node is None:
        raise HostLacks(
            f"{name}: the kernel does not know the NUMA node of this drive",
            hint=f"Name the node yourself: {listed}.",
        )
    asked = (host.drive_node,) if wish == DRIVE and host.drive_node is not None else cpu_list(wish)
    if missing := [node for node in asked if node not in there]:
        raise HostLacks(
            f"{name}: there is no NUMA node {cpu_text(missing)}", hint=f"There are {listed}."
        )
    return asked


_GOVERNOR = "a changing CPU frequency changes latencies"
_TURBO = "turbo lasts only while the CPU is cool"


def governor_settings(governor: str, host: Topology) -> list[Setting]:
    """Return a setting per CPU frequency policy. Raises HostLacks if the governor is unknown."""
    if governor == KEEP:
        return []
    if not host.policies:
        raise HostLacks(
            f"cannot set the governor {governor}: this host does not scale its CPU frequency",
            hint="Set `governor: keep`.",
        )
    if host.governors and governor not in host.governors:
        raise HostLacks(
            f"this host has no CPU frequency governor {governor}",
            hint=f"It offers {', '.join(host.governors)}.",
        )
    return [
        Setting(Backend.SYSFS, f"{policy}/scaling_governor", governor, _GOVERNOR)
        for policy in host.policies
    ]


def turbo_settings(turbo: Switch, host: Topology) -> list[Setting]:
    """Return the CPU turbo setting. Raises HostLacks if this host cannot switch turbo."""
    if turbo is Switch.KEEP:
        return []
    if not host.turbo:
        raise HostLacks(
            "this host does not let turbo be switched on or off", hint="Set `turbo: keep`."
        )
    on = turbo is Switch.ON
    value = str(int(not on if host.turbo == NO_TURBO else on))
    return [Setting(Backend.SYSFS, host.turbo, value, _TURBO)]


MANAGED = (
    "the kernel does not let anyone move {names} (managed interrupts), so the submitters are "
    "pinned instead of the interrupts"
)
QUEUE_PER_CPU = (
    "{wish} is not possible: the drive has a queue per CPU, so pinning the submitters also moves "
    "the queue and its interrupt"
)
ALREADY_LOCAL = "with a queue per CPU every completion is handled on the CPU that submitted"
_REASONS = {
    IrqAffinity.LOCAL: "completions run on the CPUs that submit",
    IrqAffinity.NEIGHBOUR: "completions run beside the submitters, on a cache that both share",
    IrqAffinity.REMOTE: "completions run on CPUs that share no cache with the submitters",
    IrqAffinity.SPREAD: "completions are spread over all CPUs",
}


@dataclass(frozen=True, slots=True)
class IrqPlan:
    """Hold the interrupt settings, and the CPUs for fio if the interrupts cannot be moved."""

    settings: tuple[Setting, ...] = ()
    submitters: tuple[int, ...] = ()  # empty: as they were
    notes: tuple[str, ...] = ()


def irq_plan(wish: IrqAffinity, submitters: Sequence[int], host: Topology) -> IrqPlan:
    """Plan which CPUs handle the drive's interrupts, relative to the CPUs that submit I/O.

    Figure 3 of Seppanen et al. 2010 compares reads that complete on the submitting CPU, on a CPU
    that shares a cache with it, and on a remote CPU.

    Raises HostLacks if this host has no CPU at the wished distance from the submitters.
    """
    if wish is IrqAffinity.KEEP:
        return IrqPlan()
    if not host.interrupts:
        return IrqPlan(notes=(f"irq_affinity {wish}: the drive has no interrupts of its own",))
    managed = [irq for irq in host.interrupts if irq.managed]
    if managed:
        return _pinned(wish, submitters, managed, host)
    busy = set(submitters or host.cpus)
    wished = _placed(wish, busy, host)
    cpus = [cpu for cpu in host.cpus if cpu in wished]
    if not cpus:
        where = "shares a cache with" if wish is IrqAffinity.NEIGHBOUR else "is remote from"
        raise HostLacks(
            f"irq_affinity {wish} is not possible: no other CPU {where} the submitters on "
            f"{cpu_text(busy)}",
            hint="Pin fio to fewer CPUs with `fio_cpus`, or set `irq_affinity: keep`.",
        )
    return IrqPlan(settings=tuple(_moved(host.interrupts, cpus, wish)))


def _placed(wish: IrqAffinity, base: Collection[int], host: Topology) -> set[int]:
    """Return the CPUs that `wish` allows, such as CPUs that share no cache with the CPUs `base`."""
    near = {cpu for own in base for cpu in host.shares_cache.get(own, frozenset({own}))}
    match wish:
        case IrqAffinity.NEIGHBOUR:
            return near - set(base)
        case IrqAffinity.REMOTE:
            return set(host.cpus) - near
        case IrqAffinity.SPREAD:
            return set(host.cpus)
        case _:
            return set(base)


def _moved(
    interrupts: Sequence[Interrupt], cpus: Sequence[int], wish: IrqAffinity
) -> Iterator[Setting]:
    for place, interrupt in enumerate(interrupts):
        cpu = cpus[place % len(cpus)]
        reason = f"{_REASONS[wish]} ({interrupt.name or 'unnamed'})"
        yield Setting(Backend.IRQ, interrupt.attribute, str(cpu), reason)


def _pinned(
    wish: IrqAffinity, submitters: Sequence[int], managed: Sequence[Interrupt], host: Topology
) -> IrqPlan:
    """Leave managed interrupts on their CPUs; pin the submitters to CPUs that satisfy the wish."""
    names = ", ".join(irq.name for irq in managed)
    note = MANAGED.format(names=names)
    if host.hardware_queues >= len(host.cpus):
        if wish in (IrqAffinity.LOCAL, IrqAffinity.SPREAD):
            return IrqPlan(notes=(note, ALREADY_LOCAL))
        return IrqPlan(notes=(note, QUEUE_PER_CPU.format(wish=wish)))
    handlers = sorted({cpu for irq in managed for cpu in irq.effective})
    cpus = _placed(wish, handlers, host) & set(submitters or host.cpus)
    if not cpus:
        return IrqPlan(
            notes=(note, f"{wish} is not possible: fio may use no CPU that is {wish} to CPU "
                   f"{cpu_text(handlers)}, where the interrupts are handled"),
        )  # fmt: skip
    return IrqPlan(submitters=tuple(sorted(cpus)), notes=(note,))


NO_SCHEDULER = "none"
_HOLD_REASON = "waking from a deep idle state takes longer than many I/Os"
_FIO_MEMORY_REASON = "a buffer on another NUMA node makes each transfer slower"
_OWN_MEMORY_REASON = "its pages must not displace the pages of the submitters"
_BALANCE_REASON = "irqbalance would move interrupts during the run"


@dataclass(frozen=True, slots=True)
class HostPlan:
    """Hold the changes of a run on its host, with reasons, and the wishes that are impossible."""

    settings: tuple[Setting, ...] = ()  # through the settings journal, in this order
    fio_cpus: tuple[int, ...] = ()  # empty: all
    own_cpus: tuple[int, ...] = ()
    fio_nodes: str = ""  # NUMA nodes as fio takes them; empty where its CPUs are not whole nodes
    fio_memory: str = ""  # memory policy as fio and the kernel write it; empty: as it is
    own_memory: str = ""
    hold_idle: bool = False  # /dev/cpu_dma_latency held open at 0
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # wishes without a meaning for this target: "scheduler none"
    preset: str = ""  # the report names it

    @property
    def fio_options(self) -> dict[str, str]:
        """Return the NUMA options that every job file of the run gets."""
        options = {"numa_cpu_nodes": self.fio_nodes, "numa_mem_policy": self.fio_memory}
        return {name: value for name, value in options.items() if value}

    def lines(self) -> list[str]:
        """Return one line of text for each change: the setting, its value and the reason."""
        held = [(row["setting"], row["value"], row["reason"]) for row in self.held()]
        if self.fio_memory:
            held.append(("memory of fio", self.fio_memory, _FIO_MEMORY_REASON))
        return [
            *(f"{setting}: {setting.reason}" for setting in self.settings),
            *(f"{name} = {value}: {reason}" for name, value, reason in held),
        ]

    def held(self) -> tuple[dict[str, str], ...]:
        """Return changes that end with ssdbench's process, so the journal does not hold them."""
        rows = (
            ("/dev/cpu_dma_latency", "0" if self.hold_idle else "", _HOLD_REASON),
            ("CPUs of fio", cpu_text(self.fio_cpus), "submitters stay where they are"),
            ("CPUs of ssdbench", cpu_text(self.own_cpus), "away from the submitters"),
            ("memory of ssdbench", self.own_memory, _OWN_MEMORY_REASON),
            ("preset", self.preset, "the profile asks for it"),
        )
        return tuple(
            {"setting": name, "value": value, "was": "", "drive": "", "reason": reason}
            for name, value, reason in rows
            if value
        )


def host_plan(wishes: Host, host: Topology, drive: str) -> HostPlan:
    """Plan the host settings of a run on the drive with the identity `drive`.

    Raises HostLacks, with the possible values, for a wish that this host cannot satisfy; if only
    the preset has this wish, the plan has a note instead.
    """
    notes: list[str] = []
    asked = _with_preset(wishes, host, notes)
    if asked.block is Detect.DETECT:
        if not host.schedulers:  # elsewhere its module, loaded later, may bring it
            require_scheduler(asked.scheduler, host.schedulers)
        asked = asked.model_copy(update={"scheduler": KEEP})
        notes.append(
            f"the scheduler {wishes.scheduler} is set later, and only if the run finds the drive's "
            "block size"
        )
    fio_cpus, own_cpus = _cpus_for("fio", asked, host), _cpus_for("own", asked, host)
    fio_memory = memory_policy("fio_memory", asked.fio_memory, host)
    own_memory = memory_policy("own_memory", asked.own_memory, host)
    if own_memory and not fio_memory:  # else fio would inherit our memory policy
        fio_memory = LOCAL
    if own_cpus and not fio_cpus:  # else fio would inherit our CPUs
        fio_cpus = tuple(cpu for cpu in host.cpus if cpu not in own_cpus) or host.cpus
    try:
        irq = irq_plan(asked.irq_affinity, fio_cpus, host)
    except HostLacks as lacking:
        if wishes.irq_affinity is not IrqAffinity.KEEP:
            raise
        irq = irq_plan(IrqAffinity.KEEP, fio_cpus, host)
        notes.append(f"isolate: {lacking.message}")
    settings = [
        *_balance(asked, host, moves=bool(irq.settings)),
        *governor_settings(asked.governor, host),
        *turbo_settings(asked.turbo, host),
        *queue_plan(asked, host, drive),
        *irq.settings,
    ]
    if asked.idle is Idle.SHALLOW and not host.idle:
        raise HostLacks(
            "this host cannot limit idle states: it has no /dev/cpu_dma_latency",
            hint="Set `idle: keep`.",
        )
    submitters = irq.submitters or fio_cpus
    return HostPlan(
        settings=tuple(settings),
        fio_cpus=submitters,
        fio_nodes=nodes_holding(asked.fio_nodes, submitters, host),
        fio_memory=fio_memory,
        own_memory=own_memory,
        own_cpus=own_cpus,
        hold_idle=asked.idle is Idle.SHALLOW,
        notes=(*notes, *irq.notes),
        preset="" if wishes.preset is Preset.KEEP else wishes.preset.value,
    )


def queue_plan(wishes: Host, host: Topology, drive: str) -> list[Setting]:
    """Return the wished settings of the drive's queue. Raises HostLacks if a setting is missing."""
    settings = []
    for setting in queue_settings(wishes.queue(), drive):
        name = setting.attribute.removeprefix("queue/")
        if name == "scheduler":
            if setting.value == NO_SCHEDULER and not host.schedulers:
                continue  # a file, or a device made of others: it never has a scheduler
            require_scheduler(setting.value, host.schedulers)
        elif name not in host.queue:
            raise HostLacks(
                f"this drive has no setting {name}", hint=f"Set `{name}: keep` in the profile."
            )
        elif name == "io_poll":
            _require_polling(setting.value == "1", host)
            continue  # it is so already
        settings.append(setting)
    return settings


_PREFERS = "writes to one block of the drive are sent together"


def preference_settings(scheduler: str, found: BlockSizeFound, drive: str) -> list[Setting]:
    """Return the settings that make a scheduler prefer the block or mapping unit that was found.

    `scheduler` is the name in the profile. The list is empty if the found size is not sure, or if
    the found size is usual and needs no preference.
    """
    size, sure = found.write_bytes, found.confidence or 0.0
    if size is None or size <= USUAL_BYTES or found.at_most or sure < LEAST_FREQUENCY:
        return []
    asked = {
        "scheduler": BLOCK_SCHEDULERS[scheduler],
        "iosched/block_bytes": str(size),
        "iosched/block_phase_bytes": str(found.phase_bytes or 0),
    }
    return [
        Setting(Backend.BLOCK, f"queue/{name}", value, _PREFERS, drive)
        for name, value in asked.items()
    ]


def _require_polling(wanted: bool, host: Topology) -> None:
    """Raise HostLacks unless the drive polls as the run wants, because polling cannot be changed.

    Since Linux 5.16 the kernel ignores or refuses a write to `io_poll` (block/blk-sysfs.c,
    queue_poll_store).
    """
    if wanted != host.polls:
        state = "has polled queues" if host.polls else "has no polled queues"
        raise HostLacks(
            f"io_poll cannot be {int(wanted)}: this drive {state}",
            hint="Its driver makes them at boot (nvme.poll_queues=N, virtio_blk.poll_queues=N); "
            "set `io_poll: keep`.",
        )


def require_scheduler(name: str, offered: Sequence[str]) -> None:
    """Raise HostLacks, with the existing schedulers, for a scheduler that is not offered."""
    if name not in offered:
        choices = ", ".join(offered) or "no scheduler"
        raise HostLacks(f"this drive has no scheduler {name}", hint=f"It offers {choices}.")


def _with_preset(wishes: Host, host: Topology, notes: list[str]) -> Host:
    """Add each setting of the preset `isolate` that the profile does not set and the host has."""
    if wishes.preset is Preset.KEEP:
        return wishes
    preset: dict[str, object] = {}
    for name, value, able, lacking in _isolating(host):
        placed = getattr(wishes, name.replace("cpus", "nodes")) != KEEP
        if getattr(wishes, name) not in (KEEP, ()) or placed:
            continue  # the profile's own setting overrides it
        if able:
            preset[name] = value
        else:
            notes.append(f"isolate: {name} stays as it is: {lacking}")
    return wishes.model_copy(update=preset)


def _isolating(host: Topology) -> Iterator[tuple[str, object, bool, str]]:
    """Yield the settings of `isolate`: name, value, whether it is possible here, and why not."""
    fixed = "performance" in host.governors
    yield "governor", "performance", fixed, "this host does not offer the governor performance"
    yield "turbo", Switch.OFF, bool(host.turbo), "turbo cannot be switched here"
    yield "idle", Idle.SHALLOW, host.idle, "there is no /dev/cpu_dma_latency"
    yield "irq_affinity", IrqAffinity.LOCAL, bool(host.interrupts), "the drive has no interrupts"
    near = tuple(c for c in host.cpus if host.node_of.get(c) == host.drive_node) or host.cpus
    workers = tuple(cpu for cpu in near if cpu != host.cpus[0])
    yield "own_cpus", host.cpus[:1], bool(workers), "there is only one CPU"
    yield "fio_cpus", workers, bool(workers), "there is only one CPU"


def _cpus_for(who: str, wishes: Host, host: Topology) -> tuple[int, ...]:
    """Return the numbers of the CPUs for "fio", or for ssdbench's "own" processes.

    Raises HostLacks if no CPU is both in the profile's list and on the profile's NUMA nodes.
    """
    listed = _cpus(f"{who}_cpus", wishes, host)
    of_nodes = cpus_of(f"{who}_nodes", getattr(wishes, f"{who}_nodes"), host)
    if not listed or not of_nodes:
        return listed or of_nodes
    both = tuple(cpu for cpu in listed if cpu in of_nodes)
    if not both:
        raise HostLacks(
            f"{who}_cpus: CPU {cpu_text(listed)} is on none of the nodes of {who}_nodes",
            hint=f"These have the CPUs {cpu_text(of_nodes)}.",
        )
    return both


def _cpus(name: str, wishes: Host, host: Topology) -> tuple[int, ...]:
    wanted: tuple[int, ...] = getattr(wishes, name)
    missing = [cpu for cpu in wanted if cpu not in host.cpus]
    if missing:
        raise HostLacks(
            f"{name}: there is no CPU {cpu_text(missing)}", hint=f"Online: {cpu_text(host.cpus)}."
        )
    return wanted


def _balance(wishes: Host, host: Topology, *, moves: bool) -> Iterator[Setting]:
    """Yield the setting that stops irqbalance, if interrupts are moved or for `isolate`."""
    if host.irqbalance and (moves or wishes.preset is Preset.ISOLATE):
        yield Setting(Backend.SERVICE, "irqbalance", "inactive", _BALANCE_REASON)


# Feature identifiers of NVM Express 2.0, 5.27.1.
POWER_STATE, WRITE_CACHE, COALESCING = "0x02", "0x06", "0x08"
_CACHE = "data in a volatile cache is not on flash yet"
_POWER = "a drive in a power-saving state answers late"
_COALESCE = "coalesced interrupts delay completions"


def drive_settings(wishes: Host, bus: str, drive: str) -> list[Setting]:
    """Return settings inside a drive; `bus` names its bus.

    Raises HostLacks if the drive lacks a wished setting.
    """
    return [
        *_write_cache(wishes.write_cache, bus, drive),
        *_features(wishes, bus, drive),
        *_monitor(wishes.latency_monitor, bus, drive),
    ]


MONITOR, MONITOR_ON = "latency monitor", "5,20,100,500"
# The counters start again after 7 days; the drive stores times of the slowest requests of all
# buckets.
_MONITOR_ENDS, _MONITOR_KEEPS, _MONITOR_WINDOW = 0x7E0, 0xFFF, 0xA  # nvme-cli's own defaults
_MONITOR = "the drive counts its slow requests, so that slow requests of the host are known"


def _monitor(wish: str, bus: str, drive: str) -> Iterator[Setting]:
    """Yield the setting of the latency monitor.

    Raises HostLacks or UsageError if it is impossible.
    """
    if wish == KEEP:
        return
    if bus != "nvme":
        raise HostLacks(
            "only NVMe drives have a latency monitor", hint="Set `latency_monitor: keep`."
        )
    begins_ms = [int(part) for part in (MONITOR_ON if wish == "on" else wish).split(",")]
    if begins_ms != sorted({*begins_ms}) or any(ms % 5 or not 5 <= ms <= 1280 for ms in begins_ms):
        raise UsageError(
            f"the latency monitor cannot count from {wish} ms",
            hint="Give four rising multiples of 5 up to 1280, such as 5,20,100,500.",
        )
    steps = [ms // 5 - 1 for ms in begins_ms]
    told = (_MONITOR_ENDS, *steps, _MONITOR_KEEPS, _MONITOR_WINDOW, 0, 1)
    value = ",".join(str(number) for number in told)
    yield Setting(Backend.LATENCY_MONITOR, MONITOR, value, _MONITOR, drive)


def _write_cache(wish: Switch, bus: str, drive: str) -> Iterator[Setting]:
    if wish is Switch.KEEP:
        return
    on = wish is Switch.ON
    kernels_word = "write back" if on else "write through"
    match bus:
        case "nvme":
            yield Setting(Backend.NVME_FEATURE, WRITE_CACHE, str(int(on)), _CACHE, drive)
        case "ata" | "scsi":
            yield Setting(Backend.WRITE_CACHE, "cache_type", kernels_word, _CACHE, drive)
        case "virtio":
            yield Setting(Backend.BLOCK, "cache_type", kernels_word, _CACHE, drive)
        case _:
            raise HostLacks(
                "this target has no write cache that can be switched",
                hint="Set `write_cache: keep`.",
            )


def _features(wishes: Host, bus: str, drive: str) -> Iterator[Setting]:
    wanted = (
        ("power_state", wishes.power_state, POWER_STATE, _POWER),
        ("irq_coalescing", wishes.irq_coalescing, COALESCING, _COALESCE),
    )
    for name, value, feature, reason in wanted:
        if value == KEEP:
            continue
        if bus != "nvme":
            raise HostLacks(f"{name} is a setting of NVMe drives", hint=f"Set `{name}: keep`.")
        yield Setting(Backend.NVME_FEATURE, feature, value, reason, drive)
