"""The kernel's counters win over a generator that counts too much; limits of writes hold."""

import numpy as np
import pytest

from ssdbench.engine.fiorun import capped, require_moved
from ssdbench.errors import HostLacks
from ssdbench.generator.base import Job
from tests.support.builders import a_workload

READS, WRITES = (4096.0,), (65_536.0,)  # one size each
CHANCE = (4096.0, 1_048_576.0, 14_540.8)  # 99 % of the one, 1 % of the other


@pytest.mark.parametrize("factor", [1.1, 1.25, 2.0, 10.0])
def test_a_generator_that_lies_by_a_constant_factor_is_not_believed(factor: float) -> None:
    moved = np.full(60, 1000 * 4096.0 + 500 * 65_536.0)
    told = [(round(60_000 * factor), READS), (round(30_000 * factor), WRITES)]

    with pytest.raises(HostLacks, match="2.06 GiB on /dev/x, so fio.s report is wrong"):
        require_moved(told, moved, node="/dev/x")


@pytest.mark.parametrize("factor", [1.0, 1.04, 0.5])
def test_what_the_kernel_saw_as_well_or_more_of_is_believed(factor: float) -> None:
    moved = np.full(60, 1000 * 4096.0)

    require_moved([(round(60_000 * factor), READS)], moved, node="/dev/x")


def test_sizes_that_chance_drew_are_no_lie_and_seconds_may_lie_apart() -> None:
    draw = np.random.default_rng(7)
    for _ in range(200):
        drawn = draw.choice([4096.0, 1_048_576.0], 300, p=[0.99, 0.01])
        require_moved([(300, CHANCE)], drawn.reshape(3, 100).sum(axis=1), node="/dev/x")
    require_moved([(3000, READS)], np.array([1000 * 4096.0] * 2), node="/dev/x")


def test_nothing_is_compared_where_the_kernel_counts_nothing() -> None:
    require_moved([(1000, READS)], np.zeros(5), node="/dev/x")
    require_moved([], np.zeros(0), node="/dev/x")


@pytest.mark.parametrize("may", [100, 25, 3])
def test_jobs_that_follow_each_other_never_write_more_than_is_left_together(may: int) -> None:
    block = (writes := a_workload(read_percent=0)).block_bytes * writes.numjobs
    jobs = [Job(f"fill-{n}", writes, seed=n, total_bytes=20 * block) for n in range(3)]
    reads = Job("read", a_workload(read_percent=100), seed=9, total_bytes=99 * block)

    *cut, last = capped([*jobs, reads], may * block)

    assert sum(job.total_bytes or 0 for job in cut) == min(may, 60) * block
    assert min(job.total_bytes or 0 for job in cut) >= block
    assert last == reads
