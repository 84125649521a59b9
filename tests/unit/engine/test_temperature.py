"""The drive's temperature: read gently, stored, and a reason against a repeat that was too hot."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ssdbench.engine.unitwatch import HeatWatch
from ssdbench.host.sensors import Heat, drive_heat
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.finding import Code


def a_drive(root: Path, place: str, **attributes: str) -> Sysfs:
    directory = root / "sys/block/disk/device" / place
    directory.mkdir(parents=True)
    for name, text in attributes.items():
        (directory / name).write_text(text + "\n")
    return Sysfs(root)


def test_an_nvme_drive_is_read_with_its_own_warning(tmp_path: Path) -> None:
    sysfs = a_drive(
        tmp_path, "hwmon3", name="nvme", temp1_input="41850", temp1_max="79850", temp1_alarm="0"
    )

    assert drive_heat("disk", sysfs) == Heat(41.85, 79.85, alarm=False, gentle=True)


def test_a_sata_drive_is_not_read_while_it_is_measured(tmp_path: Path) -> None:
    sysfs = a_drive(tmp_path, "hwmon/hwmon1", name="drivetemp", temp1_input="30000")

    assert drive_heat("disk", sysfs) == Heat(30, None, alarm=False, gentle=False)
    assert drive_heat("other", sysfs) is None


def watched(heats: list[Heat | None], *, seconds: int = 35) -> tuple[HeatWatch, list[float]]:
    """A watch over a window that settles for 10 s; and when it read."""
    clock, asked = [100.0], list[float]()
    readings: Iterator[Heat | None] = iter(heats)
    last: list[Heat | None] = [None]

    def read() -> Heat | None:
        asked.append(clock[0] - 100)
        last[0] = next(readings, last[0])
        return last[0]

    watch = HeatWatch(read, wall=lambda: clock[0])
    for second in range(1, seconds + 1):
        clock[0] += 1
        watch.look(float(second), "settle" if second < 10 else "measure")
    watch.end(float(seconds))
    return watch, asked


COOL, HOT = Heat(50, 80, alarm=False, gentle=True), Heat(81, 80, alarm=False, gentle=True)


def test_it_is_read_every_ten_seconds_and_stored(tmp_path: Path) -> None:
    watch, asked = watched([COOL, COOL, HOT, COOL])

    watch.write(tmp_path / "temperature.csv")

    assert asked == [0, 10, 20, 30, 35]
    lines = (tmp_path / "temperature.csv").read_text().splitlines()
    assert lines[0] == "t_s,temperature_c,warning_c,phase"
    assert lines[3] == "20,81,80,measure"


def test_a_repeat_above_the_warning_temperature_is_not_valid() -> None:
    (found,) = watched([COOL, COOL, HOT, COOL])[0].findings()

    assert (found.code, found.severity) == (Code.THROTTLED, "invalidates")
    assert "1 of 4 readings (up to 81 °C; its warning is at 80 °C)" in found.message
    assert watched([COOL])[0].findings() == []


def test_heat_before_the_window_does_not_count() -> None:
    assert watched([HOT, COOL])[0].findings() == []


@pytest.mark.parametrize("heat", [Heat(70, None, alarm=True, gentle=True)])
def test_the_drives_own_alarm_is_enough(heat: Heat) -> None:
    assert watched([heat])[0].findings()


def test_a_sensor_that_holds_up_io_is_read_before_and_after_only() -> None:
    rough = Heat(81, 80, alarm=False, gentle=False)
    watch, asked = watched([rough])

    assert asked == [0, 35]
    assert watch.findings()


def test_a_drive_without_a_sensor_is_asked_once(tmp_path: Path) -> None:
    watch, asked = watched([None])

    watch.write(tmp_path / "temperature.csv")

    assert asked == [0]
    assert watch.findings() == []
    assert not (tmp_path / "temperature.csv").exists()
