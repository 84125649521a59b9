"""Plan which CPUs handle the drive's interrupts, relative to the CPUs that submit I/O (pure).

Figure 3 of Seppanen et al. (2010) compares reads that complete on the submitting CPU, on a CPU that
shares a cache with it, and on a remote CPU.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ssdbench.errors import HostLacks
from ssdbench.host.topology import Interrupt, Topology, cpu_text
from ssdbench.model.profile import IrqAffinity
from ssdbench.tuning.setting import Backend, Setting

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
    """Hold interrupt settings, and the CPUs for fio where the interrupts cannot be moved."""

    settings: tuple[Setting, ...] = ()
    submitters: tuple[int, ...] = ()  # empty: as they were
    notes: tuple[str, ...] = ()


def irq_plan(wish: IrqAffinity, submitters: Sequence[int], host: Topology) -> IrqPlan:
    """Plan where interrupts are handled.

    Raises HostLacks where this host's CPUs do not allow it.
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
    """Return the CPUs at the wished distance from the CPUs `base`."""
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
    """Leave managed interrupts where they are, and pin the submitters where the wish comes true."""
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
