"""A drive is as hot as its plan makes it before the first point is measured."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from ssdbench.engine.stage import Context
from ssdbench.host.sensors import Heat
from ssdbench.model.found import WarmUp
from ssdbench.model.profile import Profile
from ssdbench.stages.steady import Steady, is_flat
from ssdbench.suite.points import hottest
from ssdbench.suite.request import Planning
from tests.support.builders import a_target
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun, a_workload


@dataclass(frozen=True)
class WithSensor:
    """A warm-up on a drive whose readings are planted."""

    stage: Steady
    readings: Iterator[float] | None

    def __getattr__(self, name: str) -> object:
        return getattr(self.stage, name)

    def opened(self, context: Context) -> AbstractContextManager[Context]:
        def heat(info: object) -> Heat | None:
            if self.readings is None:
                return None
            return Heat(next(self.readings), None, alarm=False, gentle=True)

        return nullcontext(replace(context, heat=heat))


def warmed(tmp_path: Path, readings: Iterator[float] | None) -> tuple[WarmUp, WearyDrive]:
    run = ARun(tmp_path / "run", WearyDrive(fresh_iops=100))
    most = a_workload(run.drive, read=70, block=65536)
    stage = Steady("01-steady", a_workload(run.drive), heats_with=most)
    run.stages.append(WithSensor(stage, readings))  # type: ignore[arg-type]
    found = run.go().stages[0].found
    assert isinstance(found, WarmUp)
    return found, run.drive


def rising() -> Iterator[float]:
    for minute in range(10_000):
        yield 70 - 30 * 0.85**minute


def test_the_drive_is_heated_until_its_temperature_is_flat(tmp_path: Path) -> None:
    found, drive = warmed(tmp_path, rising())

    assert found.heated is not None
    assert found.heated.flat
    assert 15 * 60 <= found.heated.seconds <= 25 * 60
    assert found.heated.from_c == 40
    assert found.heated.to_c > 68
    assert [start[0].workload.block_bytes for start in drive.starts] == [4096, 65536]


def test_a_temperature_that_never_ends_rising_is_given_up_after_an_hour(tmp_path: Path) -> None:
    found, _ = warmed(tmp_path, (20 + 0.5 * n for n in range(10_000)))

    assert found.heated is not None
    assert not found.heated.flat
    assert found.heated.seconds == 3600


def test_a_drive_without_a_sensor_is_not_heated(tmp_path: Path) -> None:
    found, drive = warmed(tmp_path, None)

    assert found.heated is None
    assert len(drive.starts) == 1


def test_cooling_is_no_rise() -> None:
    assert is_flat([60, 60, 60, 60, 60, 50, 50, 50, 50, 50])
    assert not is_flat([60, 60, 60, 60, 60, 62, 62, 62, 62, 62])
    assert not is_flat([60] * 9)


def test_the_writer_that_moves_most_bytes_comes_from_the_sweeps() -> None:
    sweep = {"block": ["4KiB", "64KiB"], "read": [100, 70, 0]}
    profile = Profile.model_validate({"measure": [{"sweep": sweep}]})
    small = Profile.model_validate({"measure": [{"sweep": {"block": "4KiB", "read": [0, 100]}}]})

    found = hottest(Planning(profile, a_target(), 1 << 30))

    assert found is not None
    assert (found.block_bytes, found.read_percent) == (65536, 70)
    assert hottest(Planning(small, a_target(), 1 << 30)) is None
