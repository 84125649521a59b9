"""A run on a drive whose log pages are built byte by byte, through the code that asks real ones.

No emulated drive has OCP's log C0h, so its pages come from here: the health log as in NVM Express
2.0, 5.16.1.3, and C0h as in OCP's Datacenter NVMe SSD specification 2.0, 4.8.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from ssdbench.engine import claimedsession
from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.engine.drivelogs import STILL_S, FlashCounter
from ssdbench.engine.unitwatch import ThrottleWatch
from ssdbench.errors import DeviceError
from ssdbench.generator.base import Job, Running
from ssdbench.model.finding import Code
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.result import FlashWritten, RunResult
from ssdbench.report import render
from ssdbench.stats.planning.runplan import capacity_answer
from ssdbench.target.nvme import HEALTH_LOG, OCP_GUID, OCP_LOG
from tests.support.fakes import WearyDrive, WearyRunning
from tests.support.runs import ARun

GB = 10**9
MAGNIFIED = 1000  # the fake drive is small: its pages count a thousand times as much


def a_page(**fields: tuple[int, int, int]) -> bytes:
    """512 bytes; each field is (offset, size, value), little-endian."""
    page = bytearray(512)
    for at, size, value in fields.values():
        page[at : at + size] = value.to_bytes(size, "little")
    return bytes(page)


@dataclass
class Logged(WearyDrive):
    """A fake drive whose logs are read as those of an NVMe drive are."""

    amplifies: float = 2.5
    ocp: bool = True
    hot_from_start: int | None = None  # from which start of the generator on it throttles
    asked: int = 0  # for OCP's log
    at_work: bool = False
    step_bytes: int = 1  # what its count of flash moves in
    tick_s: float = 0.0  # how long after the last write it is brought up to date
    shown: int = 0  # at the last tick
    rested_s: float = 0.0

    def rest(self, seconds: float) -> None:
        """What waiting does."""
        self.rested_s += seconds

    def media(self) -> int:
        """The truth."""
        return round(self.amplifies * (self.written_bytes + 7 * GB) * MAGNIFIED)

    def told(self) -> int:
        """Its count of flash, by the last tick and in whole steps."""
        if self.rested_s >= self.tick_s:
            self.shown = self.media()
        return self.shown // self.step_bytes * self.step_bytes

    def session(self) -> ClaimedSession:
        """The real session; its claim is never needed to read a log."""
        if not hasattr(self, "_session"):
            info = self.info.model_copy(update={"node": "/dev/nvme7n1"})
            self._session = ClaimedSession(info, None)  # type: ignore[arg-type]
        return self._session

    def flash_written(self, *, hurried: Callable[[], bool] = lambda: False) -> FlashWritten | None:
        return self.session().flash_written(hurried=hurried)

    def throttle_counters(self) -> Mapping[str, int]:
        return self.session().throttle_counters()

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        artifacts.mkdir(parents=True, exist_ok=True)
        self.starts.append(list(jobs))
        self.shown, self.rested_s = self.media(), 0.0  # it ticks as it writes, and lags at the end
        self.at_work = True
        return AtWork(self, jobs)

    def log_page(self, log: int, size: int) -> bytes:
        """What the drive answers; an admin command within a window would be part of it."""
        assert not self.at_work
        written = (self.written_bytes + 7 * GB) * MAGNIFIED
        hot = self.hot_from_start is not None and len(self.starts) >= self.hot_from_start
        if log == HEALTH_LOG:
            return a_page(
                data_units_written=(48, 16, written // 512_000),
                warning_minutes=(192, 4, 3),
                transitions=(216, 4, 5 + (len(self.starts) if hot else 0)),
            )
        assert log == OCP_LOG
        self.asked += 1
        if not self.ocp:
            raise DeviceError("the drive refused a log page: invalid log page")
        media = self.told()
        guid = int.from_bytes(OCP_GUID, "little")
        return a_page(media=(0, 16, media), events=(96, 1, 9), guid=(496, 16, guid))


class AtWork(WearyRunning):
    """Says when it is over."""

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._drive.at_work = False  # type: ignore[attr-defined]


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Logged:
    found = Logged()

    @contextmanager
    def opened(node: Path) -> Iterator[Logged]:
        assert node.name == "nvme7n1"
        yield found

    monkeypatch.setattr(claimedsession, "opened", opened)
    counter = partial(FlashCounter, sleep=found.rest)
    monkeypatch.setattr(claimedsession, "FlashCounter", counter)
    return found


def a_run(tmp_path: Path, drive: Logged) -> tuple[ARun, RunResult]:
    run = ARun(tmp_path / "run", drive).precondition().sweep(repeats=2)
    return run, run.go()


def test_the_amplification_reaches_result_report_and_plan(tmp_path: Path, drive: Logged) -> None:
    run, result = a_run(tmp_path, drive)

    written = result.flash_written
    assert written is not None
    assert written.host_bytes == pytest.approx(MAGNIFIED * drive.written_bytes, rel=0.001)
    assert written.amplification == pytest.approx(2.5, rel=0.001)
    page = next(file for file in render(run.path) if file.name == "report.html").read_text()
    assert "Write amplification 2.5" in page
    plan = capacity_answer(result, CapacityPlan(demand_iops=1000.0))
    assert plan.waf == pytest.approx(2.5, rel=0.001)


def test_both_ends_wait_for_the_tick_of_a_counter_that_lags(tmp_path: Path, drive: Logged) -> None:
    drive.tick_s = 60.0

    _, result = a_run(tmp_path, drive)

    written = result.flash_written
    assert written is not None
    assert written.amplification == pytest.approx(2.5, rel=0.001)


def test_a_counter_of_coarse_steps_gives_an_interval_that_holds_the_truth(
    tmp_path: Path, drive: Logged
) -> None:
    drive.step_bytes = 10 * GB

    run, result = a_run(tmp_path, drive)

    written = result.flash_written
    assert written is not None
    assert written.media_step_bytes == 10 * GB
    least, most = written.amplification_range
    assert least < 2.5 < most < 2.8
    page = next(file for file in render(run.path) if file.name == "report.html").read_text()
    assert "the log counts in steps of 10 GB" in page


def test_a_counter_that_is_too_coarse_for_the_run_tells_nothing(
    tmp_path: Path, drive: Logged
) -> None:
    """A P5520 counts in 95 GiB: after a short run it would tell many times the truth, or none."""
    drive.step_bytes = 2000 * GB

    _, result = a_run(tmp_path, drive)

    assert result.flash_written is None


def test_a_user_who_interrupts_does_not_wait_for_a_counter(
    tmp_path: Path, drive: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ARun(tmp_path / "run", drive).precondition().sweep(repeats=2)
    waits: list[float] = []
    monkeypatch.setattr(drive.session()._flash, "sleep", waits.append)

    result = run.interrupted_in("02-sweep").go()

    assert result.interrupted
    assert result.flash_written is None  # a reading that nobody waited for is worth nothing
    assert sum(waits) == STILL_S  # at the start alone


def test_a_drive_without_ocps_log_tells_no_amplification(tmp_path: Path, drive: Logged) -> None:
    drive.ocp = False

    _, result = a_run(tmp_path, drive)

    assert result.flash_written is None
    assert drive.asked == 1  # each refusal is an entry in the drive's error log


def test_a_repeat_in_which_the_drive_counted_throttling_is_not_valid(
    tmp_path: Path, drive: Logged
) -> None:
    drive.hot_from_start = 4  # one fill, then repeats 2, 3, 4, ... of the generator

    _, result = a_run(tmp_path, drive)

    repeats = [repeat for point in result.stages[1].points for repeat in point.repeats]
    hot = {r.sequence for r in repeats for f in r.findings if f.code is Code.THROTTLED}
    assert hot == {2, 3}
    told = [f for p in result.stages[1].points for f in p.findings if f.code is Code.THROTTLED]
    assert all(f.severity == "invalidates" for f in told)
    assert "transitions to thermal management 1" in told[0].message


@pytest.mark.parametrize(
    ("before", "after", "hot"),
    [
        ({"a": 3}, {"a": 3}, False),
        ({"a": 3}, {"a": 4}, True),
        ({"a": 3}, {"a": 0}, False),  # another log: it was reset, or the drive is another one
        ({"a": 3}, {}, False),  # it does not answer any more
        ({}, {"a": 9}, False),  # it did not answer before
    ],
)
def test_only_a_counter_that_rose_means_throttling(
    before: dict[str, int], after: dict[str, int], hot: bool
) -> None:
    answers = iter([before, after])

    assert bool(ThrottleWatch(lambda: next(answers)).findings()) == hot


def test_errors_that_the_drive_counts_itself_are_a_warning() -> None:
    answers = iter([{"OCP XOR recoveries": 3, "a": 1}, {"OCP XOR recoveries": 5, "a": 2}])

    hot, errors = ThrottleWatch(lambda: next(answers)).findings()

    assert (hot.code, errors.code) == (Code.THROTTLED, Code.IO_ERRORS)
    assert errors.severity == "warns"
    assert errors.message == (
        "the drive itself counted errors during the repeat: 2 OCP XOR recoveries"
    )
