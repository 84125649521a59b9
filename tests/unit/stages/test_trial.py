"""Experiments over the host: which cells, in which order, and what is made of them."""

import pytest

from ssdbench.errors import HostLacks
from ssdbench.generator.base import Direction, JobOutcome
from ssdbench.model.kind import StageKind
from ssdbench.stages.host.trial import Cell, Trial, TrialWorkload, Turn, Variant, cell_of, medians
from ssdbench.stages.host.variants import engine_variants, queue_variants, scheduler_variants
from ssdbench.stats.histogram import Histogram

READS = TrialWorkload("reads", ({"rw": "randread", "bs": 4096, "numjobs": 2},))
WRITES = TrialWorkload("writes", ({"rw": "write", "bs": 4096},))


def a_trial(*workloads: TrialWorkload) -> Trial:
    return Trial(
        name="03-queue",
        kind=StageKind.QUEUE,
        title="t",
        variants=(Variant("a"), Variant("b")),
        workloads=workloads,
        span_bytes=1 << 20,
    )


def a_cell(iops: float, repeat: int) -> Cell:
    return Cell(
        variant="a", workload="reads", repeat=repeat, iops=iops, bw_bytes_per_s=0,
        lat_p50_ns=1, lat_p99_ns=2, cpu_us_per_io=3, disturbed="x" if repeat == 1 else "",
    )  # fmt: skip


def test_every_pass_holds_every_cell_once_in_an_order_of_its_own() -> None:
    turns = a_trial(READS, WRITES).turns(3, span_bytes=1 << 20)

    assert len({turn.name for turn in turns}) == len(turns) == 12
    passes = [
        [(turn.variant.name, turn.workload.name) for turn in turns if turn.repeat == n]
        for n in (1, 2, 3)
    ]
    assert all(sorted(p) == sorted(passes[0]) for p in passes)
    assert len({tuple(p) for p in passes}) > 1


def test_only_trials_that_write_are_destructive() -> None:
    assert not a_trial(READS).destructive
    assert a_trial(READS, WRITES).destructive


def test_the_cpu_time_of_an_io_is_that_of_all_threads_of_the_variant() -> None:
    variant = Variant("sync", options={"ioengine": "psync", "numjobs": 8})
    read = Direction(ios=1000, bytes=4_096_000, runtime_s=2.0, latency=Histogram.of([5000] * 1000))
    outcome = JobOutcome("cell", read, Direction(), cpu_user_percent=1.0, cpu_system_percent=4.0)

    cell = cell_of(Turn(variant, READS, 1, 0), outcome)

    assert READS.threads(variant) == 8
    assert cell.cpu_us_per_io == pytest.approx(0.05 * 8 * 2.0 / 1000 * 1e6)
    assert (cell.iops, cell.bw_bytes_per_s) == (500, 2_048_000)


def test_medians_keep_the_extremes_and_count_the_disturbed() -> None:
    (found,) = medians([a_cell(10, 1), a_cell(30, 2), a_cell(20, 3)])

    assert (found.iops, found.iops_least, found.iops_most) == (20, 10, 30)
    assert found.disturbed == 1


def test_what_the_host_spent_is_told_by_starts_whose_requests_were_seen() -> None:
    unseen, seen = a_cell(10, 1), a_cell(30, 2).model_copy(update={"iops_per_core": 5e4})

    assert medians([unseen])[0].iops_per_core is None
    assert medians([unseen, seen])[0].iops_per_core == 5e4


def test_an_unknown_scheduler_is_answered_with_those_that_exist() -> None:
    with pytest.raises(HostLacks, match="no scheduler cfq") as refused:
        scheduler_variants(["cfq"], ["none", "bfq"], "d")

    assert "none, bfq" in refused.value.hint


def test_settings_that_a_queue_lacks_are_not_tried() -> None:
    names = [variant.name for variant in queue_variants({"nomerges"}, "d")]

    assert names == ["as it is", "nomerges 0", "nomerges 2"]


def test_engines_that_fio_lacks_are_not_tried() -> None:
    names = [variant.name for variant in engine_variants({"psync"}, 4096)]

    assert names == ["psync threads", "page cache", "page cache hits"]
