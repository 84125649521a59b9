"""Disturbed repeats, from readings of a made-up host."""

from dataclasses import replace

import pytest

from ssdbench.engine.hostactivity import HostWatch, activity_between, disturbed
from ssdbench.host.activity import Activity, ProcessTime, others
from ssdbench.model.finding import Code, Severity

START = Activity(
    at_s=0.0,
    cpus=4,
    stolen_s=1.0,
    others_s={"sshd": 5.0},
    context_switches=1000,
    interrupts=500,
    running=1,
    frequency_khz=3_000_000,
    temperature_c=40.0,
    throttle_events=0,
)
QUIET = replace(START, at_s=10.0, context_switches=3000, interrupts=1500)


def test_a_quiet_host_disturbs_nothing() -> None:
    seen = activity_between(START, QUIET)

    assert disturbed(seen) == []
    assert seen.switches_per_s == 200.0


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (replace(QUIET, stolen_s=1.8), "took 2.0 % of the CPU time (limit 1 %)"),
        (replace(QUIET, others_s={"sshd": 5.0, "cc1": 5.0}), "(mostly cc1) kept 0.50 CPUs"),
        (replace(QUIET, frequency_khz=2_700_000), "frequency fell by 10 %"),
        (replace(QUIET, temperature_c=60.0), "20 °C hotter"),
        (replace(QUIET, throttle_events=3), "throttled 3 times"),
    ],
)
def test_each_disturbance_is_named_with_its_limit(after: Activity, words: str) -> None:
    found = disturbed(activity_between(START, after))

    assert len(found) == 1
    assert words in found[0].message
    assert "limit" in found[0].message


def test_the_numbers_of_a_disturbance_are_stored_with_their_limits() -> None:
    (found,) = disturbed(activity_between(START, replace(QUIET, stolen_s=1.8, throttle_events=3)))

    assert found.message.count(";") == 1
    assert found.numbers["stolen_percent"] == pytest.approx(2.0)
    assert found.numbers["stolen_limit_percent"] == 1
    assert found.numbers["throttle_events"] == 3
    assert found.numbers["other_cpus"] == 0


def test_just_below_the_limits_is_not_disturbed() -> None:
    after = replace(QUIET, stolen_s=1.39, others_s={"sshd": 7.4}, frequency_khz=2_860_000)

    assert disturbed(activity_between(START, after)) == []


def test_a_disturbed_repeat_is_kept_from_being_validated() -> None:
    readings = iter([START, replace(QUIET, stolen_s=9.0)])

    found = HostWatch(lambda: next(readings)).findings()

    assert [(f.code, f.severity) for f in found] == [(Code.DISTURBED, Severity.INVALIDATES)]


def test_our_own_programs_and_kernel_threads_are_not_others() -> None:
    table = [
        ProcessTime(1, 0, "init", 1.0),
        ProcessTime(2, 0, "kthreadd", 2.0),
        ProcessTime(9, 2, "kworker/u4:1", 4.0),
        ProcessTime(50, 1, "ssdbench", 8.0),
        ProcessTime(51, 50, "fio", 16.0),
        ProcessTime(60, 1, "cc1", 32.0),
    ]

    assert others(table, own=50) == {"init": 1.0, "cc1": 32.0}
