"""Plan where the drive's interrupts are handled, relative to the CPUs that submit (pure).

Figure 3 of Seppanen et al. (2010) is about this: the same reads, retired on the
submitting CPU, on one that shares a cache with it, or on a remote one.
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
    """Settings, and the CPUs that fio must be pinned to instead where interrupts cannot move."""

    settings: tuple[Setting, ...] = ()
    submitters: tuple[int, ...] = ()  # empty: as they were
    notes: tuple[str, ...] = ()


def irq_plan(wish: IrqAffinity, submitters: Sequence[int], host: Topology) -> IrqPlan:
    """Where the interrupts go. Raises HostLacks for what this host's CPUs do not allow."""
    if wish is IrqAffinity.KEEP:
        return IrqPlan()
    if not host.interrupts:
        return IrqPlan(notes=(f"irq_affinity {wish}: the drive has no interrupts of its own",))
    movable = [irq for irq in host.interrupts if not irq.managed]
    managed = [irq for irq in host.interrupts if irq.managed]
    if managed:
        return _pinned(wish, submitters, managed, host)
    cpus = handling(wish, submitters, host)
    return IrqPlan(settings=tuple(_moved(movable, cpus, wish)))


def handling(wish: IrqAffinity, submitters: Sequence[int], host: Topology) -> tuple[int, ...]:
    """The CPUs that should handle interrupts. Raises HostLacks when there are none such."""
    busy = set(submitters or host.cpus)
    near = {cpu for own in busy for cpu in host.shares_cache.get(own, frozenset({own}))}
    match wish:
        case IrqAffinity.NEIGHBOUR:
            cpus: Collection[int] = near - busy
        case IrqAffinity.REMOTE:
            cpus = set(host.cpus) - near
        case IrqAffinity.SPREAD:
            cpus = host.cpus
        case _:
            cpus = busy
    chosen = tuple(cpu for cpu in host.cpus if cpu in cpus)
    if not chosen:
        where = "shares a cache with" if wish is IrqAffinity.NEIGHBOUR else "is remote from"
        raise HostLacks(
            f"irq_affinity {wish} is not possible: no other CPU {where} the submitters on "
            f"{cpu_text(busy)}",
            hint="Pin fio to fewer CPUs with `fio_cpus`, or set `irq_affinity: keep`.",
        )
    return chosen


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
    """Managed interrupts stay; the submitters move to where the wish holds, if it can."""
    names = ", ".join(irq.name for irq in managed)
    note = MANAGED.format(names=names)
    if host.hardware_queues >= len(host.cpus):
        if wish in (IrqAffinity.LOCAL, IrqAffinity.SPREAD):
            return IrqPlan(notes=(note, ALREADY_LOCAL))
        return IrqPlan(notes=(note, QUEUE_PER_CPU.format(wish=wish)))
    handlers = sorted({cpu for irq in managed for cpu in irq.effective})
    allowed = set(submitters or host.cpus)
    near = {c for own in handlers for c in host.shares_cache.get(own, frozenset({own}))}
    cpus = {
        IrqAffinity.LOCAL: set(handlers),
        IrqAffinity.NEIGHBOUR: near - set(handlers),
        IrqAffinity.REMOTE: set(host.cpus) - near,
        IrqAffinity.SPREAD: set(host.cpus),
    }[wish] & allowed
    if not cpus:
        return IrqPlan(
            notes=(note, f"{wish} is not possible: no CPU for the submitters is so placed to "
                   f"{cpu_text(handlers)}, where the interrupts are handled"),
        )  # fmt: skip
    return IrqPlan(submitters=tuple(sorted(cpus)), notes=(note,))
