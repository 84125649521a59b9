"""What a start costs its host, from two readings with planted differences."""

from dataclasses import replace

import pytest

from ssdbench.host.activity import Activity
from ssdbench.host.counters import DiskStat
from ssdbench.stages.host.cost import cost_between

BEFORE = Activity(
    at_s=10.0,
    cpus=2,
    stolen_s=0.0,
    others_s={"cron": 1.0},
    context_switches=0,
    interrupts=0,
    running=1,
    busy_s=5.0,
    energy_j=100.0,
)
AFTER = replace(
    BEFORE,
    at_s=12.0,
    others_s={"cron": 1.5},
    context_switches=4000,
    interrupts=6000,
    busy_s=6.5,
    energy_j=150.0,
)
EMPTY = DiskStat(0, 0, 0, 0, 0)
DONE = replace(EMPTY, read_ios=1500, write_ios=500, merges=200, queue_ms=8000)


def test_cpu_time_of_other_programs_is_taken_off() -> None:
    found = cost_between((BEFORE, AFTER), (EMPTY, DONE), [])

    assert found.ios_per_s == 1000
    assert found.busy_cpus == pytest.approx(0.5)  # 1.5 s busy, of which cron took 0.5
    assert found.iops_per_core == pytest.approx(2000)
    assert found.host_cpu_us_per_io == pytest.approx(500)


@pytest.mark.parametrize("own_s", [0.0, 1e-9, 0.04])
def test_cpu_time_too_short_to_be_counted_is_not_known(own_s: float) -> None:
    after = replace(AFTER, others_s={"cron": 2.5 - own_s})

    found = cost_between((BEFORE, after), (EMPTY, DONE), [])

    assert (found.iops_per_core, found.host_cpu_us_per_io) == (0.0, 0.0)


def test_energy_is_per_joule_and_a_meter_that_wrapped_tells_nothing() -> None:
    wrapped = replace(AFTER, energy_j=3.0)

    assert cost_between((BEFORE, AFTER), (EMPTY, DONE), []).iops_per_watt == pytest.approx(40)
    assert cost_between((BEFORE, wrapped), (EMPTY, DONE), []).iops_per_watt is None
    assert (
        cost_between((replace(BEFORE, energy_j=None), AFTER), (EMPTY, DONE), []).iops_per_watt
        is None
    )


def test_occupancy_is_the_kernels_mean_and_the_samples_extremes() -> None:
    found = cost_between((BEFORE, AFTER), (EMPTY, DONE), [1, 2, 3, 4, 20])

    assert (found.in_flight, found.in_flight_p95) == (4.0, 4.0)


def test_rates_are_per_second_of_the_window() -> None:
    found = cost_between((BEFORE, AFTER), (EMPTY, DONE), [])

    assert (found.merges_per_s, found.interrupts_per_s, found.switches_per_s) == (100, 3000, 2000)
