"""Placements of interrupts on hosts of several shapes."""

from ssdbench.host.topology import Interrupt, Topology
from ssdbench.stages.host.variants import depth_variants, interrupt_variants

ALL = (0, 1, 2, 3)
CACHES = {0: frozenset({0, 1}), 1: frozenset({0, 1}), 2: frozenset({2, 3}), 3: frozenset({2, 3})}
QUEUE = frozenset({"rq_affinity", "nomerges"})


def a_host(*interrupts: Interrupt, queues: int = 1, irqbalance: bool = False) -> Topology:
    return Topology(
        cpus=ALL, shares_cache=CACHES, interrupts=interrupts, hardware_queues=queues, queue=QUEUE,
        irqbalance=irqbalance,
    )  # fmt: skip


def test_an_interrupt_that_can_move_goes_to_every_place() -> None:
    variants, notes = interrupt_variants(a_host(Interrupt(24, "ahci", ALL, (0,))), "d")

    assert "irqbalance is not running, so it is not compared" in notes
    placed = {v.name: [s.value for s in v.settings] for v in variants if "interrupts" in v.name}
    assert placed == {
        "interrupts local": ["0"],
        "interrupts neighbour": ["1"],
        "interrupts remote": ["2"],
        "interrupts spread": ["0"],
    }
    assert {variant.cpus for variant in variants} == {(0,)}


def test_where_the_kernel_keeps_interrupts_the_submitters_move() -> None:
    managed = Interrupt(30, "nvme0q1", ALL, (0,))

    variants, notes = interrupt_variants(a_host(managed), "d")

    moved = {v.name: v.cpus for v in variants if "submitters on" in v.name}
    assert moved == {
        "local: submitters on CPUs 0": (0,),
        "neighbour: submitters on CPUs 1": (1,),
        "remote: submitters on CPUs 2-3": (2, 3),
        "spread: submitters on CPUs 0-3": ALL,
    }
    assert any("managed interrupts" in note for note in notes)


def test_a_queue_per_cpu_allows_neither_neighbour_nor_remote_and_says_so() -> None:
    managed = tuple(Interrupt(30 + n, f"nvme0q{n + 1}", (n,), (n,)) for n in ALL)

    variants, notes = interrupt_variants(a_host(*managed, queues=4), "d")

    assert not any("remote" in variant.name for variant in variants)
    assert any(note.startswith("remote is not possible") for note in notes)


def test_a_drive_without_interrupts_compares_submitters_and_completions() -> None:
    variants, notes = interrupt_variants(a_host(), "d", coalescing=True)

    names = [variant.name for variant in variants]
    assert names[:3] == ["as it is, from CPUs 0", "from CPUs 3", "from CPUs 0-3"]
    assert "rq_affinity 2, on the submitter" in names
    assert "coalescing off" in names
    (note,) = notes
    assert note == "the drive has no interrupts of its own, so the submitters move instead"


def test_interrupts_are_compared_as_irqbalance_moves_them_and_with_irqbalance_stopped() -> None:
    host = a_host(Interrupt(24, "ahci", ALL, (0,)), irqbalance=True)

    variants, notes = interrupt_variants(host, "d")

    stopped = {
        v.name: [s.value for s in v.settings if s.attribute == "irqbalance"] for v in variants[:4]
    }
    assert stopped == {
        "as it is, irqbalance running, from CPUs 0": [],
        "irqbalance stopped": ["inactive"],
        "interrupts local": ["inactive"],
        "interrupts neighbour": ["inactive"],
    }
    assert not any("irqbalance" in note for note in notes)


def test_the_deepest_queue_is_also_tried_without_merging() -> None:
    found = depth_variants((1, 16), ["nomerges"], "d")

    assert [variant.name for variant in found] == ["1", "16", "16, no merging"]
    assert found[1].options["iodepth_batch_submit"] == 8
