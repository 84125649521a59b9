"""The power of a drive: planted in recorded pages and in a meter's file, and found within 1 %."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ssdbench.engine import claimedsession
from ssdbench.engine import power as metering
from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.engine.power import Meter, PowerWatch, idle_watts, mean_watts, reading_of
from ssdbench.errors import UsageError
from ssdbench.model.finding import Code
from ssdbench.model.point import HostDuring, PowerDuring
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.profile.accept import Target
from ssdbench.report.tables import results_table, summary_table
from ssdbench.stats.bounds.point import judge_point
from ssdbench.stats.planning.acceptance import with_accepted
from ssdbench.stats.planning.runplan import power_of
from ssdbench.target.nvme import HEALTH_LOG, energy_wh, facts, interval_watts, power_histogram
from tests.support.builders import a_small_run
from tests.support.fakes import WearyDrive
from tests.unit.stats.test_point import PLANNABLE, a_point, a_repeat, steady_windows

NOW_S = 1_764_288_000.0


def a_health_page(watts: float, *, scale: int = 2, energy: int = 1234) -> bytes:
    """The health log of NVM Express 2.3: 232 to 239 watt-hours, 240 to 243 value and scale."""
    page = bytearray(512)
    page[1:3] = (315).to_bytes(2, "little")
    page[232:240] = energy.to_bytes(8, "little")
    value = round(watts / {1: 0.0001, 2: 0.01}.get(scale, 1.0))
    page[240:244] = (value | scale << 16).to_bytes(4, "little")
    return bytes(page)


def a_power_log(bins: dict[float, int]) -> bytes:
    """Log 25h with a histogram: thresholds in units of 0.01 W and seconds."""
    page = bytearray(4096)
    seconds = sum(bins.values())
    page[8:12] = seconds.to_bytes(4, "little")
    page[12:14] = len(bins).to_bytes(2, "little")
    page[24:26] = (8).to_bytes(2, "little")
    page[40:44] = (850 | 2 << 16).to_bytes(4, "little")
    page[44:48] = (1225 | 2 << 16).to_bytes(4, "little")
    for n, (power, count) in enumerate(bins.items()):
        at = 64 + 8 * n
        page[at : at + 4] = count.to_bytes(4, "little")
        page[at + 4 : at + 8] = (round(100 * power) | 2 << 16).to_bytes(4, "little")
    return bytes(page)


def test_pages_of_nvme_2_3_tell_power_and_energy_and_others_tell_nothing() -> None:
    page = a_health_page(8.25)

    assert interval_watts(page) == pytest.approx(8.25)
    assert interval_watts(a_health_page(0.0421, scale=1)) == pytest.approx(0.0421)
    assert energy_wh(page) == 1234
    told = facts({"nvme smart log": page, "nvme power measurement log": a_power_log({8: 90, 9: 7})})
    assert told["power of the last second"] == "8.25 W"
    assert told["energy ever used"] == "1,234 Wh"
    assert told["power measured"] == "97 s, mean 8.5 W, most 12.25 W"
    assert power_histogram(a_power_log({8: 90, 9: 7})) == {8.0: 90, 9.0: 7}
    for silent in (a_health_page(0, energy=0), a_health_page(9, scale=0), b"\xff" * 512, b""):
        assert interval_watts(silent) is None
    assert energy_wh(a_health_page(5, energy=0)) is None
    assert "energy ever used" not in facts({"nvme smart log": a_health_page(5, energy=0)})


class Pages:
    """A drive whose recorded pages are played back by a clock that the test moves."""

    def __init__(self, power: Callable[[float], float | None]) -> None:
        self.power, self.now_s, self.asked = power, 0.0, 0

    def log_page(self, log: int, size: int) -> bytes:
        """The health log, with the mean of the last second."""
        assert (log, size) == (HEALTH_LOG, 512)
        self.asked += 1
        parts = [self.power(self.now_s - 1 + n / 50) for n in range(50)]
        return a_health_page(float(np.mean([p for p in parts if p is not None] or [0])))


@pytest.fixture
def a_session(monkeypatch: pytest.MonkeyPatch) -> Callable[[Pages], ClaimedSession]:
    def made(pages: Pages) -> ClaimedSession:
        @contextmanager
        def opened(node: Path) -> Iterator[Pages]:
            yield pages

        monkeypatch.setattr(claimedsession, "opened", opened)
        info = WearyDrive().info.model_copy(update={"node": "/dev/nvme7n1"})
        return ClaimedSession(info, None)  # type: ignore[arg-type]

    return made


def watched(
    pages: Pages, session: ClaimedSession, *, seconds: int = 120, meter: Meter | None = None
) -> PowerWatch:
    """One repeat: a minute that settles, then a window."""
    watch = PowerWatch(
        session.drive_watts, meter, wall=lambda: pages.now_s, clock=lambda: NOW_S + pages.now_s
    )
    for second in range(60 + seconds):
        pages.now_s += 1
        watch.look("measure" if second >= 60 else "settle")
    watch.end()
    return watch


def waves(t_s: float) -> float:
    """Between 6 and 11 W, with a mean of 8.5 W over whole minutes."""
    return 8.5 + 2.5 * math.sin(2 * math.pi * t_s / 37)


def test_watts_of_ten_repeats_are_within_a_percent_of_the_pages(
    a_session: Callable[[Pages], ClaimedSession],
) -> None:
    pages = Pages(waves)
    session = a_session(pages)
    windows = steady_windows()
    powers = [watched(pages, session, seconds=222).during() for _ in windows]
    repeats = [
        a_repeat(n, m).model_copy(update={"power": power, "host": HostDuring(watts=40.0 + n)})
        for n, (m, power) in enumerate(zip(windows, powers, strict=True), 1)
    ]

    result = judge_point(a_point(), repeats, windows, PLANNABLE)

    watts, per_watt, per_gb, host = (
        result.estimate(name) for name in ("watts", "iops_per_watt", "joules_per_gb", "host_watts")
    )
    assert watts and per_watt and per_gb and host
    assert watts.value == pytest.approx(8.5, rel=0.01)
    assert watts.ci_low is not None and watts.ci_high is not None and watts.bound is not None
    assert watts.ci_low <= 8.5 <= watts.ci_high < watts.bound
    assert per_watt.value == pytest.approx(30_000 / 8.5, rel=0.01)
    assert per_gb.value == pytest.approx(1e9 * 8.5 / (30_000 * 4096), rel=0.01)
    bound = result.estimate("iops")
    assert bound and bound.bound and per_watt.bound
    assert per_watt.bound <= bound.bound / watts.value
    assert host.value == pytest.approx(45.5)
    assert "power by the drive" in watts.method


def test_a_drive_that_tells_no_power_is_asked_once_and_has_no_number(
    a_session: Callable[[Pages], ClaimedSession], tmp_path: Path
) -> None:
    pages = Pages(lambda t_s: None)
    session = a_session(pages)

    found = [watched(pages, session) for _ in range(3)]

    assert pages.asked == 1
    assert [watch.during() for watch in found] == [None] * 3
    found[0].write(tmp_path / "power.csv")
    assert not (tmp_path / "power.csv").exists()
    windows = steady_windows()
    plain = judge_point(a_point(), [a_repeat(1, windows[0])], windows[:1], PLANNABLE)
    assert plain.estimate("watts") is None
    assert plain.estimate("iops_per_watt") is None


def a_file(path: Path, *, every_s: float, until_s: float, silent: range = range(0)) -> Meter:
    lines = ["time,watts\n"]
    for n in range(int((until_s + 30) / every_s)):
        t_s = n * every_s
        if int(t_s) not in silent:
            lines.append(f"{NOW_S + t_s:.3f},{waves(t_s):.4f}\n")
    path.write_text("".join(lines))
    return Meter(path)


def test_a_meter_counts_before_the_drive_and_is_within_a_percent(
    a_session: Callable[[Pages], ClaimedSession], tmp_path: Path
) -> None:
    pages = Pages(lambda t_s: 3.0)  # the drive's own number is wrong
    meter = a_file(tmp_path / "power.csv", every_s=0.5, until_s=300)

    watch = watched(pages, a_session(pages), seconds=222, meter=meter)

    power = watch.during()
    assert power is not None
    assert power.source == "meter"
    truth = float(np.mean([waves(60 + n / 100) for n in range(22_200)]))
    assert power.watts == pytest.approx(truth, rel=0.001)
    assert watch.findings() == []
    assert pages.asked == 0
    watch.write(tmp_path / "stored.csv")
    stored = (tmp_path / "stored.csv").read_text().splitlines()
    assert stored[0] == "time_s,watts,source"
    assert len(stored) == 1 + power.readings


def test_a_silent_meter_gives_a_finding_and_no_watts(
    a_session: Callable[[Pages], ClaimedSession], tmp_path: Path
) -> None:
    meter = a_file(tmp_path / "p.csv", every_s=1, until_s=300, silent=range(100, 130))

    watch = watched(Pages(waves), a_session(Pages(waves)), meter=meter)

    assert watch.during() is None
    (finding,) = watch.findings()
    assert finding.code is Code.POWER_GAP
    assert "30 s" in finding.message or "31 s" in finding.message


_LOGGED = "2025-11-28 00:00:00,123"


def test_lines_of_a_meter_may_have_both_kinds_of_time() -> None:
    assert reading_of("1764288000.5,8.25") == (NOW_S + 0.5, 8.25)
    assert reading_of("2025-11-28T00:00:00+00:00; 8.25") == (NOW_S, 8.25)
    assert reading_of("2025-11-28T00:00:00,500+00:00;8.25\r") == (NOW_S + 0.5, 8.25)
    for bad in ("", "time,watts", "1764288000", "1,-3", "1,nan", "nan,3", "1,1e9", "x,1"):
        assert reading_of(bad) is None
    # Commas of decimals, or of the milliseconds in Python's logs, which would be read as watts.
    for comma in ("1764288000,5;8,25", "1764288000;8,25", "1764288000,8,25", f"{_LOGGED},8.25"):
        assert reading_of(comma) is None
    assert mean_watts([(0, 2.0), (10, 4.0)], 0, 10) == pytest.approx(3.0)


def test_a_line_that_is_not_finished_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text(f"{NOW_S},5\n{NOW_S + 1},1")
    meter = Meter(path)

    assert meter.between(NOW_S, NOW_S + 9) == [(NOW_S, 5.0)]
    with path.open("a") as file:
        file.write(f"2.5\n{NOW_S + 2},6\n")
    assert meter.between(NOW_S, NOW_S + 9)[1:] == [(NOW_S + 1, 12.5), (NOW_S + 2, 6.0)]


def test_a_file_that_is_missing_for_a_moment_or_begins_again_ends_no_run(tmp_path: Path) -> None:
    today, link = tmp_path / "today.csv", tmp_path / "power.csv"
    today.write_text(f"time,watts\n{NOW_S},5\n{NOW_S + 1},5\n")
    link.symlink_to(today)
    meter = Meter(link)
    meter.require_running(NOW_S + 1)

    today.unlink()
    watch = watched(Pages(waves), ClaimedSession(WearyDrive().info, None), meter=meter)  # type: ignore[arg-type]
    assert watch.during() is None
    assert [finding.code for finding in watch.findings()] == [Code.POWER_GAP]
    today.write_text(f"{NOW_S + 2},6\n")
    assert meter.between(NOW_S + 2, NOW_S + 3) == [(NOW_S + 1, 5.0), (NOW_S + 2, 6.0)]


def test_of_a_long_file_only_the_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metering, "LAST_BYTES", 1000)
    meter = a_file(tmp_path / "p.csv", every_s=1, until_s=3600)

    found = meter.between(NOW_S, NOW_S + 3700)

    assert 10 < len(found) < 100
    assert found[-1][0] == NOW_S + 3629


def test_a_clock_that_is_set_back_in_a_window_gives_no_watts(tmp_path: Path) -> None:
    now_s = iter([*(NOW_S + 100 + n for n in range(90)), NOW_S + 50])
    meter = a_file(tmp_path / "p.csv", every_s=1, until_s=300)
    watch = PowerWatch(lambda: None, meter, wall=lambda: 0.0, clock=lambda: next(now_s))
    for _ in range(90):
        watch.look("measure")

    watch.end()

    assert watch.during() is None
    assert [finding.code for finding in watch.findings()] == [Code.POWER_GAP]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "cannot be read"),
        ("", "has no reading"),
        ("time,watts\nnoon,much\n", "'noon,much'"),
        (f"{NOW_S - 3600},5\n", "3,600 s ago"),
        (f"{NOW_S * 1000},5\n", "s ago by this clock"),
    ],
)
def test_a_meter_that_does_not_run_is_refused_before_the_run(
    tmp_path: Path, text: str | None, why: str
) -> None:
    path = tmp_path / "power.csv"
    if text is not None:
        path.write_text(text)

    with pytest.raises(UsageError, match=why) as refused:
        Meter(path).require_running(NOW_S)
    assert "watts" in refused.value.hint


def test_idle_watts_come_before_the_first_request(tmp_path: Path) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    told = iter([9.0, 2.0, 2.1, 1.9, 2.0, 2.0])
    idle = idle_watts(lambda: next(told), None, sleep=sleep)
    assert idle is not None
    assert idle.value == pytest.approx(2.0)
    assert clock == [50.0]
    assert idle_watts(lambda: None, None, sleep=sleep) is None
    assert idle_watts(lambda: 2.0, None, sleep=sleep, hurried=lambda: True) is None
    clock[0] = 0.0
    meter = a_file(tmp_path / "p.csv", every_s=0.5, until_s=60)
    by_meter = idle_watts(lambda: None, meter, sleep=sleep, clock=lambda: NOW_S + clock[0])
    truth = float(np.mean([waves(n / 100) for n in range(5_000)]))
    assert by_meter is not None
    assert by_meter.value == pytest.approx(truth, rel=0.01)
    assert idle.method.endswith("power by the drive")
    assert by_meter.method == "mean, t on 5 repeats of 10 s, power by the meter"
    clock[0] = 58.0
    silent = a_file(tmp_path / "silent.csv", every_s=0.5, until_s=30)
    assert idle_watts(lambda: None, silent, sleep=sleep, clock=lambda: NOW_S + clock[0]) is None


def test_targets_of_watts_are_judged_only_by_measured_power(tmp_path: Path) -> None:
    windows = steady_windows()
    repeats = [
        a_repeat(n, m).model_copy(
            update={"power": PowerDuring(source="meter", watts=8 + 0.01 * n, readings=60)}
        )
        for n, m in enumerate(windows, 1)
    ]
    told = judge_point(a_point(), repeats, windows, PLANNABLE)
    silent = judge_point(
        a_point(), [a_repeat(n, m) for n, m in enumerate(windows, 1)], windows, PLANNABLE
    )
    run = a_small_run(tmp_path)
    place = next(n for n, stage in enumerate(run.stages) if stage.points)

    def outcomes(point: object, **limits: float) -> list[tuple[str, str]]:
        stage = run.stages[place]
        found = stage.found.model_copy(update={"points": (point,)})
        stages = list(run.stages)
        stages[place] = stage.model_copy(update={"found": found})
        result = run.model_copy(update={"stages": tuple(stages)})
        rows = with_accepted(result, [Target.model_validate(limits)]).accepted
        return [(row.outcome, row.why) for row in rows]

    assert outcomes(told, watts=8.5)[0][0] == "pass"
    assert outcomes(told, watts=7.0)[0][0] == "fail"
    assert outcomes(told, iops_per_watt=3_000)[0][0] == "pass"
    assert outcomes(told, iops_per_watt=4_000)[0][0] == "fail"
    (row,) = outcomes(silent, watts=8.5)
    assert row == ("cannot tell", "neither the drive nor a meter told the power")
    unsure = told.model_copy(update={"verdict": "NOT VALIDATED"})
    assert outcomes(unsure, watts=100.0)[0][0] == "cannot tell"

    typed = CapacityPlan.model_validate({"power_w": 5})
    assert power_of(typed, silent) == (5, "as given; not measured")
    assert power_of(typed, told)[1].startswith("as given; measured: 8.")
    measured_w, source = power_of(CapacityPlan(), told)
    assert measured_w is not None and measured_w > 8.05
    assert source.startswith("the upper limit; measured: 8.")
    assert "power by the meter" in source
    assert power_of(CapacityPlan(), silent) == (None, "")
    (first,) = (one for one in told.estimates if one.metric == "watts")
    alone = told.model_copy(update={"estimates": (first.model_copy(update={"bound": None}),)})
    assert power_of(CapacityPlan(), alone)[1].startswith("too few repeats for an upper limit")

    stage = run.stages[place]
    stages = list(run.stages)
    found = stage.found.model_copy(update={"points": (told, silent)})
    stages[place] = stage.model_copy(update={"found": found})
    shown = run.model_copy(update={"stages": tuple(stages)})
    rows = summary_table(shown).rows
    assert rows[0]["watts"] == pytest.approx(8.055)
    assert rows[1]["watts"] is None
    metrics = [row["metric"] for row in results_table(shown).rows if row.get("metric") == "watts"]
    assert len(metrics) == 11  # the point and its repeats; nothing for the silent one
