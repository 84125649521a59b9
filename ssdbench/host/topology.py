"""Read the CPUs of the host, the caches that they share, and the interrupts of a drive."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ssdbench.host.sysfs import Sysfs, device_of, queues_of

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
NO_TURBO = f"{CPU}/intel_pstate/no_turbo"  # 1 = off
BOOST = f"{CPU}/cpufreq/boost"  # 0 = off
LATENCY_NODE = "/dev/cpu_dma_latency"

# Interrupts that the kernel spreads over the CPUs itself (IRQD_AFFINITY_MANAGED): queues of NVMe,
# virtio-blk and virtio-scsi. Writing their affinity fails with EPERM or EIO. Only debugfs shows the
# flag, so these interrupts are recognized by the names that drivers give them.
_MANAGED = re.compile(r"nvme\d+q[1-9]\d*$|virtio\d+-(req\.\d+|request)$")


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One interrupt of the drive or of its controller."""

    number: int
    name: str
    cpus: tuple[int, ...]  # CPUs that may handle it
    effective: tuple[int, ...]  # CPUs that really handle it

    @property
    def managed(self) -> bool:
        """Return whether the kernel places this interrupt itself and refuses to move it."""
        return _MANAGED.search(self.name) is not None

    @property
    def attribute(self) -> str:
        """Return the path of the file that sets which CPUs handle the interrupt."""
        return f"/proc/irq/{self.number}/smp_affinity_list"


@dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs of the host, and the interrupts of one drive."""

    cpus: tuple[int, ...]
    shares_cache: Mapping[int, frozenset[int]] = field(default_factory=dict)  # last level
    node_of: Mapping[int, int] = field(default_factory=dict)
    memory_nodes: tuple[int, ...] = (0,)  # NUMA nodes that have memory
    governors: tuple[str, ...] = ()  # offered by every CPU; empty without frequency scaling
    policies: tuple[str, ...] = ()  # directories of the frequency policies
    frequencies_khz: tuple[int, ...] = ()  # every policy can be limited to each; ascending
    turbo: str = ""  # file that switches turbo, NO_TURBO or BOOST; empty without turbo
    idle: bool = False  # whether idle states can be limited
    irqbalance: bool = False  # whether irqbalance is running
    interrupts: tuple[Interrupt, ...] = ()
    hardware_queues: int = 1
    drive_node: int | None = None  # NUMA node of the drive
    schedulers: tuple[str, ...] = ()
    queue: frozenset[str] = frozenset()  # names of the files in the drive's queue/
    polls: bool = False  # whether the drive has polled queues


def topology(kernel_name: str = "", sysfs: Sysfs | None = None) -> Topology:
    """Read the CPUs of the host, and the drive with that name below /sys/block, if any."""
    sysfs = sysfs or Sysfs()
    queues = queues_of(kernel_name, sysfs) if kernel_name else []
    cpus = cpu_list(sysfs.find(f"{CPU}/online") or "0")
    policies = tuple(
        f"{CPU}/cpufreq/{name}"
        for name in sysfs.names(f"{CPU}/cpufreq")
        if re.fullmatch(r"policy\d+", name)
    )
    processes = (name for name in sysfs.names("/proc") if name.isdigit())
    running = {(sysfs.find(f"/proc/{pid}/comm") or "").strip() for pid in processes}
    offered = [
        set((sysfs.find(f"{policy}/scaling_available_governors") or "").split())
        for policy in policies
    ]
    return Topology(
        cpus=cpus,
        shares_cache={cpu: _sharing(sysfs, cpu) for cpu in cpus},
        node_of=_nodes(sysfs, cpus),
        memory_nodes=cpu_list(sysfs.find(f"{NODE}/has_memory") or "") or (0,),
        governors=tuple(sorted(set.intersection(*offered))) if offered else (),
        frequencies_khz=_frequencies(sysfs, policies),
        policies=policies,
        turbo=next((name for name in (NO_TURBO, BOOST) if sysfs.exists(name)), ""),
        idle=sysfs.exists(LATENCY_NODE),
        irqbalance="irqbalance" in running,
        interrupts=_interrupts(sysfs, kernel_name) if kernel_name else (),
        hardware_queues=max([1, *(len(sysfs.names(f"/sys/block/{name}/mq")) for name in queues)]),
        drive_node=_drive_node(sysfs, kernel_name),
        schedulers=_schedulers(sysfs, queues),
        queue=frozenset(n for name in queues for n in sysfs.names(f"/sys/block/{name}/queue")),
        polls=bool(queues)
        and all(sysfs.number(f"/sys/block/{name}/queue/io_poll") == 1 for name in queues),
    )


def cpu_list(text: str) -> tuple[int, ...]:
    """Parse a list of CPUs such as `0-2,5`. Raises ValueError for any other text."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def cpu_text(cpus: Iterable[int]) -> str:
    """Return the shortest text for a list of CPUs, in the kernel's form, such as `0-2,5`."""
    runs: list[tuple[int, int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _sharing(sysfs: Sysfs, cpu: int) -> frozenset[int]:
    """Return the CPUs that share the last-level cache with `cpu`, including `cpu` itself."""
    base = f"{CPU}/cpu{cpu}/cache"
    levels = []
    for name in sysfs.names(base):
        level = sysfs.number(f"{base}/{name}/level")
        if level is not None:
            shared = sysfs.find(f"{base}/{name}/shared_cpu_list") or str(cpu)
            levels.append((level, frozenset(cpu_list(shared))))
    return max(levels, key=lambda found: found[0])[1] if levels else frozenset({cpu})


def _nodes(sysfs: Sysfs, cpus: tuple[int, ...]) -> dict[int, int]:
    node_of = dict.fromkeys(cpus, 0)
    for name in sysfs.names(NODE):
        if re.fullmatch(r"node\d+", name):
            text = sysfs.find(f"{NODE}/{name}/cpulist") or ""
            node_of |= dict.fromkeys(cpu_list(text), int(name[4:]))
    return node_of


def _frequencies(sysfs: Sysfs, policies: tuple[str, ...]) -> tuple[int, ...]:
    """Return the CPU frequencies in kHz of all policies: the driver's steps, or the two limits."""
    offered = []
    for policy in policies:
        steps = (sysfs.find(f"{policy}/scaling_available_frequencies") or "").split()
        ends = [sysfs.number(f"{policy}/cpuinfo_{end}_freq") for end in ("min", "max")]
        offered.append({int(step) for step in steps} or {end for end in ends if end})
    return tuple(sorted(set.intersection(*offered))) if offered else ()


def _interrupts(sysfs: Sysfs, kernel_name: str) -> tuple[Interrupt, ...]:
    """Return the interrupts of the first device above the drive that has any: its controller."""
    device = sysfs.path(device_of(kernel_name, sysfs))
    if not device.exists():
        return ()
    place = device.resolve()
    root = sysfs.path("/sys/devices").resolve()
    while root in place.parents:
        if numbers := _vectors(place):
            return tuple(_interrupt(sysfs, number) for number in numbers)
        place = place.parent
    return ()


def _vectors(device: Path) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in (device / "msi_irqs").iterdir())
    except OSError:
        pass
    try:
        number = int((device / "irq").read_text())
    except (OSError, ValueError):
        return []
    return [number] if number > 0 else []


def _interrupt(sysfs: Sysfs, number: int) -> Interrupt:
    base = f"/proc/irq/{number}"
    names = [name for name in sysfs.names(base) if sysfs.path(f"{base}/{name}").is_dir()]
    cpus = cpu_list(sysfs.find(f"{base}/smp_affinity_list") or "")
    effective = cpu_list(sysfs.find(f"{base}/effective_affinity_list") or "")
    return Interrupt(number, ", ".join(names), cpus, effective or cpus)


def _drive_node(sysfs: Sysfs, kernel_name: str) -> int | None:
    device = device_of(kernel_name, sysfs)
    for place in ("numa_node", "device/numa_node"):
        node = sysfs.number(f"{device}/{place}") if kernel_name else None
        if node is not None and node >= 0:
            return node
    return None


def _schedulers(sysfs: Sysfs, queues: Sequence[str]) -> tuple[str, ...]:
    """Return the I/O schedulers that all given queues offer."""
    texts = [sysfs.find(f"/sys/block/{name}/queue/scheduler") or "" for name in queues]
    offered = [text.replace("[", "").replace("]", "").split() for text in texts]
    return tuple(n for n in offered[0] if all(n in o for o in offered)) if offered else ()
