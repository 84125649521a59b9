"""Experiments over the host: which cells, in which order, and what is made of them."""

import pytest

from ssdbench.errors import HostLacks
from ssdbench.model.kind import StageKind
from ssdbench.stages.cells import Cell, medians
from ssdbench.stages.hostvariants import engine_variants, queue_variants, scheduler_variants
from ssdbench.stages.trial import Trial, TrialWorkload, Variant, job_text

READS = TrialWorkload("reads", ({"rw": "randread", "bs": 4096, "numjobs": 2},))
WRITES = TrialWorkload("writes", ({"rw": "write", "bs": 4096},))


def a_trial(*workloads: TrialWorkload) -> Trial:
    return Trial("03-queue", StageKind.QUEUE, "t", (Variant("a"), Variant("b")), workloads, 1 << 20)


def a_cell(iops: float, repeat: int) -> Cell:
    return Cell(
        variant="a", workload="reads", repeat=repeat, iops=iops, bw_bytes_per_s=0,
        lat_p50_ns=1, lat_p99_ns=2, cpu_us_per_io=3, disturbed="x" if repeat == 1 else "",
    )  # fmt: skip


def test_every_pass_holds_every_cell_once_in_an_order_of_its_own() -> None:
    order = a_trial(READS, WRITES).order(seed=3)

    assert len({unit for unit, *_ in order}) == len(order) == 12
    passes = [[(v.name, w.name) for _, v, w, r in order if r == n] for n in (1, 2, 3)]
    assert all(sorted(p) == sorted(passes[0]) for p in passes)
    assert len({tuple(p) for p in passes}) > 1


def test_only_trials_that_write_are_destructive() -> None:
    assert not a_trial(READS).destructive
    assert a_trial(READS, WRITES).destructive


def test_a_variant_goes_before_the_workload_in_the_job_file() -> None:
    variant = Variant("sync", options={"ioengine": "psync", "numjobs": 8})

    text = job_text("/dev/loop7", a_trial(READS), variant, READS, seed=1)

    assert "numjobs=8" in text.split("[part0]")[1]
    assert "numjobs=2" not in text
    assert READS.threads(variant) == 8


def test_medians_keep_the_extremes_and_count_the_disturbed() -> None:
    (record,) = medians([a_cell(10, 1), a_cell(30, 2), a_cell(20, 3)])

    assert (record["iops"], record["iops_least"], record["iops_most"]) == (20, 10, 30)
    assert record["disturbed"] == 1


def test_what_the_host_spent_is_told_by_starts_whose_requests_were_seen() -> None:
    unseen, seen = a_cell(10, 1), a_cell(30, 2).model_copy(update={"iops_per_core": 5e4})

    assert "iops_per_core" not in medians([unseen])[0]
    assert medians([unseen, seen])[0]["iops_per_core"] == 5e4


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
