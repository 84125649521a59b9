"""Test that the range of the spare area holds for every way to collect garbage."""

import pytest

from benchmarks.hidden_flash import CoreBench
from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.sim.core import Drive
from ssdbench.sim.library import Params
from ssdbench.sim.spec import parse
from ssdbench.stages.probe.spare import RemapUnit, Spare
from ssdbench.stats.inside.probing import Found, Measured, Unknown, spare
from ssdbench.units import KIB

GREEDY, FIFO, AMONG_TEN = 0, 1, 2


def flash(**changed: int) -> Drive:
    params = dict(parse("sim:x25m-g2-160,capacity=512MiB").params) | {
        "op_ppm": 95_000, "channels": 4, "map_unit_bytes": 4096, "wbuf_bytes": 1 << 20,
        "program_unit_bytes": 8192, "read_unit_bytes": 8192, "erase_block_bytes": 128 * KIB,
        "t_prog_ns": 900_000, "t_read_ns": 150_000, "t_erase_ns": 3_000_000, "gc_paced": 0,
        "link_mbps": 600,
    }  # fmt: skip
    return Drive.in_memory(Params(params | changed))


def asked(drive: Drive) -> tuple[ProbeNumbers, CoreBench]:
    bench = CoreBench(drive)
    bench.fill(bench.size_bytes)
    bench.write(Pattern.RANDOM, 32 * KIB, 32, bench.size_bytes, bench.size_bytes // 2)
    return Spare().ask(bench).numbers, bench


@pytest.mark.parametrize("policy", [GREEDY, FIFO, AMONG_TEN])
@pytest.mark.parametrize("op_ppm", [95_000, 250_000])
def test_ranges_hold_for_every_way_of_collecting(policy: int, op_ppm: int) -> None:
    said, bench = asked(flash(gc_policy=policy, op_ppm=op_ppm))

    assert said.over_provisioning_least is not None
    assert said.over_provisioning_most is not None
    assert said.over_provisioning_least <= op_ppm / 1e6 <= said.over_provisioning_most
    widest = 4 if policy == AMONG_TEN else 1.4
    assert said.over_provisioning_most < widest * said.over_provisioning_least
    assert said.write_amplification_least is not None
    assert said.write_amplification_most is not None
    assert said.write_amplification_least <= bench.amplification() <= said.write_amplification_most


@pytest.mark.parametrize("wbuf_bytes", [0, 16 << 20])
def test_what_a_buffer_holds_is_no_spare_area(wbuf_bytes: int) -> None:
    said, _ = asked(flash(gc_policy=GREEDY, wbuf_bytes=wbuf_bytes))

    assert said.over_provisioning_least is not None
    assert said.over_provisioning_most is not None
    assert said.over_provisioning_least <= 0.095 <= said.over_provisioning_most
    assert said.over_provisioning_most < 1.6 * said.over_provisioning_least


def measured(
    times_ns: tuple[float, float, float],
    first_ns: tuple[float, ...],
    *,
    buffer: float | None = 0.0,
) -> Measured:
    """Return the times of a drive that writes 100 MB/s in order."""
    return Measured(
        tuple((1e-9 * one,) * 4 for one in times_ns),
        tuple(1e-9 * one for one in first_ns),
        1 / 128,
        buffer,
        1e8,
    )


def test_a_rate_that_room_does_not_change_tells_nothing() -> None:
    assert isinstance(spare(measured((14, 14, 14), (10,) * 40)), Unknown)


def test_a_cache_that_takes_random_writes_is_not_taken_for_room() -> None:
    gradual = (10, 12, 14, 18, 22, 30, 36, 50, 60, 70, 80, 88, 90, 90, 90, 90)

    assert isinstance(spare(measured((90, 40, 28), (1,) * 8 + gradual)), Unknown)
    assert isinstance(spare(measured((90, 40, 28), gradual)), Found)


def test_room_is_what_was_taken_at_full_speed_less_the_buffer() -> None:
    at_once = (10.0,) * 16 + (90.0,) * 12

    plain = spare(measured((70, 33, 24), at_once))
    buffered = spare(measured((70, 33, 24), at_once, buffer=0.03))

    assert isinstance(plain, Found)
    assert plain.over_provisioning == pytest.approx((0.122, 0.148), abs=0.001)
    assert isinstance(buffered, Found)
    assert buffered.over_provisioning[1] == pytest.approx(0.148 - 0.03 / 1.25, abs=0.001)


def test_two_ways_that_contradict_each_other_are_no_answer() -> None:
    soon = (10.0,) * 5 + (90.0,) * 12

    said = spare(measured((70, 45, 30), soon))

    assert isinstance(said, Unknown)
    assert "do not agree" in said.why


def test_without_a_buffer_a_page_is_not_taken_for_the_remap_unit() -> None:
    said = RemapUnit().ask(CoreBench(flash(wbuf_bytes=0, op_ppm=250_000))).numbers

    assert said.remap_unit_bytes == 4 * KIB
    assert said.at_most
