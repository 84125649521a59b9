"""What the host reaches without a drive: real fio's null engine."""

import pytest

from ssdbench.generator.fio.dryruns import ceiling_iops
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.units import GIB, MIB

pytestmark = [pytest.mark.host, pytest.mark.alone]


def a_workload(**changes: object) -> Workload:
    fields = {
        "pattern": Pattern.RANDOM,
        "block_bytes": 4096,
        "read_percent": 100,
        "iodepth": 8,
        "range": ActiveRange(offset_bytes=0, length_bytes=4 * GIB),
        **changes,
    }
    return Workload(**fields)  # type: ignore[arg-type]


def test_making_random_content_lowers_what_the_host_can_reach() -> None:
    reads = ceiling_iops(a_workload())
    writes = ceiling_iops(a_workload(block_bytes=MIB, read_percent=0))

    assert reads is not None and writes is not None
    assert reads > 10 * writes > 0


def test_a_mixture_counts_both_directions() -> None:
    mixed = ceiling_iops(a_workload(read_percent=50, numjobs=2), cpus=(0,))

    assert mixed is not None and mixed > 1_000


@pytest.mark.parametrize("pace", [{"rate_iops": 100.0}, {"thinktime_us": 1_000}])
def test_a_paced_workload_has_no_ceiling(pace: dict[str, object]) -> None:
    assert ceiling_iops(a_workload(**pace)) is None
