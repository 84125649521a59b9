"""Where the drive's interrupts are handled, as variants of a trial (pure).

Figures 3 and 6 of Seppanen et al. (2010): the same reads, retired on the submitting
CPU, beside it, far from it, or spread over all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ssdbench.errors import HostLacks
from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.topology import Topology, cpu_text
from ssdbench.model.profile import IrqAffinity
from ssdbench.stages.host.trial import TrialWorkload, Variant
from ssdbench.tuning.irq import irq_plan
from ssdbench.tuning.setting import Backend, Setting
from ssdbench.units import KIB

_TRIED = "the experiment compares it"
_BALANCE = "irqbalance would move interrupts meanwhile"
COALESCING = "0x08"  # NVMe base specification: threshold - 1 in bits 7:0, time / 100 us in 15:8
_COALESCED = (("off", 0x0000), ("4 or 100 us", 0x0103), ("16 or 200 us", 0x020F))


@dataclass(frozen=True, slots=True)
class Placements:
    """What can be compared here, and what cannot, with the reason."""

    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = ()


def interrupt_variants(
    host: Topology, drive: str, *, submitters: Sequence[int] = (), coalescing: bool = False
) -> Placements:
    """Placements of interrupts, then rq_affinity, then coalescing.

    The submitters are one CPU unless told otherwise, so that there are CPUs beside and far from
    it. `coalescing`: whether the drive lets its interrupts be coalesced.
    """
    cpus = tuple(submitters) or host.cpus[:1]
    notes: list[str] = []
    variants = [Variant(f"as it is, from CPUs {cpu_text(cpus)}", cpus=cpus)]
    variants += _placed(host, cpus, notes)
    if not any(variant.settings for variant in variants):
        variants += _moved_submitters(host, cpus, [variant.cpus for variant in variants])
    variants += _completions(host, drive, cpus)
    if coalescing:
        variants += [
            Variant(
                f"coalescing {words}",
                (Setting(Backend.NVME_FEATURE, COALESCING, str(value), _TRIED, drive),),
                cpus=cpus,
            )
            for words, value in _COALESCED
        ]
    else:
        notes.append("the drive does not let its interrupts be coalesced")
    return Placements(tuple(variants), tuple(dict.fromkeys(notes)))


def _placed(host: Topology, cpus: tuple[int, ...], notes: list[str]) -> Iterator[Variant]:
    """Where interrupts can go, or the submitters instead where the kernel keeps them."""
    if not host.interrupts:
        notes.append("the drive has no interrupts of its own: the submitters move instead")
        return
    balance = (Setting(Backend.SERVICE, "irqbalance", "inactive", _BALANCE),)
    for wish in (
        IrqAffinity.LOCAL,
        IrqAffinity.NEIGHBOUR,
        IrqAffinity.REMOTE,
        IrqAffinity.SPREAD,
    ):
        try:
            plan = irq_plan(wish, cpus, host)
            managed = any(irq.managed for irq in host.interrupts)
            if managed:  # then the submitters move, and may be anywhere
                plan = irq_plan(wish, (), host)
        except HostLacks as lacking:
            notes.append(lacking.message)
            continue
        notes += plan.notes
        if plan.settings:
            settings = (*(balance if host.irqbalance else ()), *plan.settings)
            yield Variant(f"interrupts {wish}", settings, cpus=cpus)
        elif plan.submitters:
            name = f"{wish}: submitters on CPUs {cpu_text(plan.submitters)}"
            yield Variant(name, cpus=plan.submitters)


def _moved_submitters(
    host: Topology, cpus: tuple[int, ...], known: Sequence[tuple[int, ...]]
) -> Iterator[Variant]:
    """With nothing of the drive to move, the submitters are: one CPU, another, all."""
    for other in dict.fromkeys((host.cpus[-1:], host.cpus)):
        if other != cpus and other not in known:
            yield Variant(f"from CPUs {cpu_text(other)}", cpus=other)


def _completions(host: Topology, drive: str, cpus: tuple[int, ...]) -> Iterator[Variant]:
    if "rq_affinity" not in host.queue:
        return
    for value, words in (("0", "anywhere"), ("1", "near"), ("2", "on the submitter")):
        setting = Setting(Backend.BLOCK, "queue/rq_affinity", value, _TRIED, drive)
        yield Variant(f"rq_affinity {value}, {words}", (setting,), cpus=cpus)


def interrupt_workloads() -> tuple[TrialWorkload, ...]:
    """Small random reads of many threads, whose rate is the completions'."""
    read: Options = {"rw": "randread", "bs": 4 * KIB}
    return (
        TrialWorkload("4 KiB random read, 8 jobs", ({**read, "iodepth": 8, "numjobs": 8},)),
        TrialWorkload("4 KiB random read, depth 1", ({**read, "iodepth": 1},)),
    )


def depth_variants(depths: Sequence[int], offered: Sequence[str], drive: str) -> list[Variant]:
    """One variant per depth, and the deepest again without merging."""
    variants = [Variant(f"{depth}", (), _batched(depth)) for depth in depths]
    if "nomerges" in offered and depths:
        setting = Setting(Backend.BLOCK, "queue/nomerges", "2", _TRIED, drive)
        variants.append(Variant(f"{max(depths)}, no merging", (setting,), _batched(max(depths))))
    return variants


def depth_workloads() -> tuple[TrialWorkload, ...]:
    """Reads and writes that cannot be merged, and writes that can."""
    return tuple(
        TrialWorkload(f"4 KiB {words}", ({"rw": rw, "bs": 4 * KIB},))
        for words, rw in (
            ("random read", "randread"),
            ("random write", "randwrite"),
            ("sequential write", "write"),
        )
    )


def _batched(depth: int) -> Options:
    """Half of the queue is submitted at once: without batches there is nothing to merge."""
    half = max(1, depth // 2)
    return {"iodepth": depth, "iodepth_batch_submit": half, "iodepth_batch_complete_min": half}
