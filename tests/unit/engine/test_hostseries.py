"""The host while a repeat is measured, from readings of a made-up host."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ssdbench.engine.hostactivity import HostSeries
from ssdbench.host.activity import Activity
from ssdbench.model.finding import Code, Severity

QUIET = Activity(
    at_s=0.0,
    cpus=2,
    stolen_s=0.0,
    others_s={"sshd": 1.0},
    context_switches=0,
    interrupts=0,
    running=1,
    frequency_khz=3_000_000,
    temperature_c=40.0,
    interrupts_per_cpu=(0, 0),
)


def later(n: int, **changed: object) -> Activity:
    """The n-th reading, 10 s after the one before: 100 switches, 50 and 20 interrupts a second."""
    usual = replace(
        QUIET, at_s=10.0 * n, context_switches=1000 * n, interrupts_per_cpu=(500 * n, 200 * n)
    )
    return replace(usual, **changed)  # type: ignore[arg-type]


def watched(readings: Sequence[Activity], *, foreign_ios: int = 0) -> HostSeries:
    """20 s of settling and 30 s of measuring, read every 10 s."""
    left = iter(readings)
    now = [0.0]
    series = HostSeries(simulated=False, read=lambda: next(left), wall=lambda: now[0])
    for second in range(1, 51):
        now[0] = float(second)
        is_counted = second >= 20
        series.look(second, "measure" if is_counted else "settle", foreign_ios * is_counted)
    return series


def test_every_ten_seconds_are_stored_with_their_phase(tmp_path: Path) -> None:
    series = watched([later(n) for n in range(6)], foreign_ios=1)

    series.write(tmp_path / "host.csv")

    lines = (tmp_path / "host.csv").read_text().splitlines()
    assert lines[0].endswith("foreign_ios,interrupts_per_s_cpu0,interrupts_per_s_cpu1")
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["10", "settle"], ["20", "settle"], ["30", "measure"], ["40", "measure"], ["50", "measure"],
    ]  # fmt: skip
    assert lines[3] == "30,measure,3000,40,0.00,0.000,100,10,50,20"


def test_a_quiet_host_is_summed_up_and_disturbs_nothing() -> None:
    series = watched([later(n) for n in range(6)])

    during = series.during()

    assert series.findings() == []
    assert during is not None
    assert (during.switches_per_s, during.interrupts_per_s) == (100.0, (50.0, 20.0))
    assert (during.frequency_mhz_least, during.temperature_c_most) == (3000.0, 40.0)


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ({"frequency_khz": 2_000_000}, "frequency fell by 33 %"),
        ({"temperature_c": 70.0}, "30 °C hotter"),
    ],
)
def test_a_dip_that_is_over_at_the_end_still_disturbs(
    planted: dict[str, object], words: str
) -> None:
    readings = [later(n) for n in range(6)]
    readings[3] = later(3, **planted)

    found = watched(readings).findings()

    assert [(f.code, f.severity) for f in found] == [(Code.DISTURBED, Severity.INVALIDATES)]
    assert words in found[0].message


@pytest.mark.parametrize(
    ("stopped_at", "phase", "told"), [(30, "measure", True), (5, "settle", False)]
)
def test_a_run_that_was_stopped_while_it_measured_is_disturbed(
    stopped_at: int, phase: str, told: bool
) -> None:
    left = iter([later(n) for n in range(9)])
    now = [0.0]
    series = HostSeries(simulated=False, read=lambda: next(left), wall=lambda: now[0])
    for second in range(1, 51):
        now[0] += 6.0 if second == stopped_at else 1.0
        series.look(now[0], "measure" if second >= 20 else "settle")

    found = [finding.message for finding in series.findings()]

    assert found == ["ssdbench was stopped or got no CPU for 6 s (limit 3 s)"] * told, phase


def test_what_happened_while_it_settled_disturbs_nothing() -> None:
    readings = [later(n, stolen_s=5.0 if n else 0.0) for n in range(6)]

    assert watched(readings).findings() == []


def test_a_simulated_drive_is_left_alone(tmp_path: Path) -> None:
    def never() -> Activity:
        raise AssertionError("the host was read")

    series = HostSeries(simulated=True, read=never)
    series.look(1.0, "measure")
    series.end(2.0)
    series.write(tmp_path / "host.csv")

    assert series.during() is None
    assert not (tmp_path / "host.csv").exists()


def test_a_trial_tells_measured_from_between_and_knows_no_other_io(tmp_path: Path) -> None:
    left = iter([later(n) for n in range(4)])
    series = HostSeries(simulated=False, counts_foreign=False, read=lambda: next(left))
    for t_s, phase in ((10.04, "between"), (20.0, "measure"), (30.5, "measure")):
        series.mark(t_s, phase)

    series.write(tmp_path / "host.csv")

    rows = [line.split(",") for line in (tmp_path / "host.csv").read_text().splitlines()[1:]]
    assert [row[:2] for row in rows] == [["10", "between"], ["20", "measure"], ["30.5", "measure"]]
    assert {row[7] for row in rows} == {""}
