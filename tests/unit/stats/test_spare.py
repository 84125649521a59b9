"""The spare area is a range that holds, whatever way a drive collects."""

import pytest

from benchmarks.hidden_flash import CoreBench, Flash
from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.sim.spec import parse
from ssdbench.stages.probe.remap import RemapUnit
from ssdbench.stages.probe.spare import Spare
from ssdbench.stats.spare import SPANS, Found, Measured, Unknown, spare
from ssdbench.units import KIB

GREEDY, FIFO, AMONG_TEN = 0, 1, 2


def flash(**changed: int) -> Flash:
    params = dict(parse("sim:x25m-g2-160,capacity=512MiB").params) | {
        "op_ppm": 95_000, "channels": 4, "map_unit_bytes": 4096, "wbuf_bytes": 1 << 20,
        "program_unit_bytes": 8192, "read_unit_bytes": 8192, "erase_block_bytes": 128 * KIB,
        "t_prog_ns": 900_000, "t_read_ns": 150_000, "t_erase_ns": 3_000_000, "gc_paced": 0,
        "link_mbps": 600,
    }  # fmt: skip
    return Flash(params | changed)


def asked(drive: Flash) -> tuple[ProbeNumbers, CoreBench]:
    bench = CoreBench(drive)
    bench.fill(bench.size_bytes)
    bench.write(Pattern.RANDOM, 32 * KIB, 32, bench.size_bytes, bench.size_bytes // 2)
    return Spare().ask(bench).numbers, bench


def amplified(bench: CoreBench) -> float:
    """What random writes to the whole drive really are, in steady state."""
    size = bench.size_bytes
    bench.fill(size)
    bench.write(Pattern.RANDOM, 64 * KIB, 32, size, 2 * size)
    before = bench.drive.counters()
    bench.write(Pattern.RANDOM, 64 * KIB, 32, size, size // 2)
    after = bench.drive.counters()
    nand, host = (after[n] - before[n] for n in ("nand_write_units", "host_write_units"))
    return nand / host


@pytest.mark.parametrize("policy", [GREEDY, FIFO, AMONG_TEN])
@pytest.mark.parametrize("op_ppm", [95_000, 250_000])
def test_ranges_hold_for_every_way_of_collecting(policy: int, op_ppm: int) -> None:
    said, bench = asked(flash(gc_policy=policy, op_ppm=op_ppm))

    assert said.over_provisioning_least is not None
    assert said.over_provisioning_most is not None
    assert said.over_provisioning_least <= op_ppm / 1e6 <= said.over_provisioning_most
    assert said.over_provisioning_most < 4 * said.over_provisioning_least
    assert said.write_amplification_least is not None
    assert said.write_amplification_most is not None
    assert said.write_amplification_least <= amplified(bench) <= said.write_amplification_most


def test_a_rate_that_room_does_not_change_tells_nothing() -> None:
    even = tuple((1e-8, 1.01e-8, 1e-8, 0.99e-8) for _ in SPANS)

    said = spare(Measured(even, (0.1, 0.2, 0.3), (5e7, 5e7, 5e7), 1e8))

    assert isinstance(said, Unknown)


def test_a_cache_that_takes_random_writes_is_not_taken_for_room() -> None:
    slower = ((9e-8,) * 4, (4e-8,) * 4, (3e-8,) * 4)
    fast = Measured(slower, (0.1, 0.12, 0.13), (9e8, 5e7, 5e7), 1e8)
    plain = Measured(slower, (0.1, 0.2, 0.3), (1e8, 1e8, 1e8), 1e8)

    assert isinstance(spare(fast), Unknown)
    assert isinstance(spare(plain), Found)


def test_without_a_buffer_a_page_is_not_taken_for_the_remap_unit() -> None:
    said = RemapUnit().ask(CoreBench(flash(wbuf_bytes=0, op_ppm=250_000))).numbers

    assert said.remap_unit_bytes == 8 * KIB
    assert said.at_most
