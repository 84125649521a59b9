"""Seconds from the kernel's counters: on time, ours alone, and ended when fio hangs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.generator.base import Second
from ssdbench.generator.fio.sampling import (
    STARTS_WITHIN_S,
    STOP_GRACE_S,
    DeviceMeter,
    FileMeter,
    KernelFeed,
    Reading,
    one_block,
)
from ssdbench.host.counters import CounterFile
from tests.unit.generator.jobs import a_job, a_sequential


class Script:
    """A process and a clock: time passes while someone waits for the process to end."""

    def __init__(self, *, ends_at: float) -> None:
        self.now = 100.0
        self.ends_at = 100.0 + ends_at
        self.heeds_from = 0.0
        self.signals: list[str] = []

    def heeds(self) -> bool:
        return self.now >= self.heeds_from

    def clock(self) -> float:
        return self.now

    def ended(self, within_s: float) -> bool:
        wake = self.now + max(within_s, 0.0)
        self.now = max(self.now, min(wake, self.ends_at))
        return self.now >= self.ends_at

    def send(self, _: int) -> None:
        self.signals.append("stop" if self.heeds() else "died of it")

    def terminate(self, _: float) -> int:
        self.signals.append("kill")
        self.ends_at = self.now
        return -9


class Flow:
    """A meter of a drive that does `rate` I/Os a second from the first I/O on."""

    def __init__(self, script: Script, *, rate: Callable[[float], float], begins: float) -> None:
        self._script = script
        self._done = rate
        self._begins = 100.0 + begins
        self.closed = False

    def read(self) -> Reading:
        ios = int(self._done(max(0.0, self._script.now - self._begins)))
        return Reading(write_ios=ios, write_bytes=ios * 4096)

    def close(self) -> None:
        self.closed = True


def a_feed(script: Script, flow: Flow, *, stall_s: float = 120.0) -> KernelFeed:
    return KernelFeed(
        script,  # type: ignore[arg-type]
        flow,
        stall_s=stall_s,
        heeds_stop=script.heeds,
        clock=script.clock,
    )


def test_seconds_count_from_the_first_io_and_end_with_the_rest() -> None:
    script = Script(ends_at=3.7)
    flow = Flow(script, rate=lambda t: 1000 * t, begins=0.3)

    feed = a_feed(script, flow)
    seconds = list(feed.seconds())

    assert [round(s.t_s, 1) for s in seconds] == [1.0, 2.0, 3.0, 3.4]
    assert [s.write_ios for s in seconds[1:3]] == [1000, 1000]
    assert sum(s.write_ios for s in seconds) == 3400
    assert feed.origin_s == pytest.approx(100.3, abs=0.011)
    assert flow.closed


def test_a_late_judge_gets_a_longer_second_and_the_next_on_time() -> None:
    script = Script(ends_at=20.0)
    feed = a_feed(script, Flow(script, rate=lambda t: 1000 * t, begins=0.0))
    seconds: list[Second] = []
    for second in feed.seconds():
        seconds.append(second)
        if len(seconds) == 2:
            script.now += 2.5
        if len(seconds) == 4:
            break

    assert [round(s.duration_s, 1) for s in seconds] == [1.0, 1.0, 3.0, 1.0]


def test_a_start_without_io_gives_no_second() -> None:
    script = Script(ends_at=0.5)

    assert list(a_feed(script, Flow(script, rate=lambda _: 0, begins=0)).seconds()) == []


def test_fio_is_killed_when_no_io_finishes_any_more() -> None:
    script = Script(ends_at=1e6)
    feed = a_feed(script, Flow(script, rate=lambda t: min(t, 5) * 100, begins=0), stall_s=30)

    seconds = list(feed.seconds())

    assert script.signals == ["kill"]
    assert feed.hung_s is not None
    assert 30 < feed.hung_s < 32
    assert len(seconds) < 40


def test_fio_that_does_not_heed_a_stop_is_killed_after_a_grace() -> None:
    script = Script(ends_at=1e6)
    feed = a_feed(script, Flow(script, rate=lambda t: 1000 * t, begins=0))
    for second in feed.seconds():
        if second.t_s > 2:
            feed.stop()

    assert script.signals == ["stop", "kill"]
    assert script.now - 100 == pytest.approx(3 + STOP_GRACE_S, abs=2)
    assert feed.hung_s is None


def test_a_fio_that_has_not_started_its_jobs_is_stopped_once_it_has() -> None:
    script = Script(ends_at=5.0)
    script.heeds_from = 101.5
    feed = a_feed(script, Flow(script, rate=lambda t: 1000 * t, begins=0))

    feed.stop()

    assert script.signals == ["stop"]
    assert script.now == pytest.approx(101.5, abs=0.02)


@pytest.mark.parametrize(("ends_at", "waited_s"), [(0.5, 0.5), (1e6, STARTS_WITHIN_S)])
def test_a_fio_that_never_starts_its_jobs_is_not_waited_for_for_ever(
    ends_at: float, waited_s: float
) -> None:
    script = Script(ends_at=ends_at)
    script.heeds_from = 1e9
    feed = a_feed(script, Flow(script, rate=lambda _: 0, begins=0))

    feed.stop()

    assert script.now - 100 == pytest.approx(waited_s, abs=0.02)


def device_files(root: Path, *, stat: tuple[int, int, int, int], ours: tuple[int, int]) -> None:
    """Device: reads, read bytes, writes, written bytes; ours: read and written bytes."""
    disk, process = root / "sys/dev/block/7:0", root / "proc/42"
    for directory in (disk, process):
        directory.mkdir(parents=True, exist_ok=True)
    reads, read_bytes, writes, write_bytes = stat
    (disk / "stat").write_text(
        f"{reads} 0 {read_bytes // 512} 0 {writes} 0 {write_bytes // 512} 0 0 10 10\n"
    )
    (process / "io").write_text(f"read_bytes: {ours[0]}\nwrite_bytes: {ours[1]}\n")


def test_what_the_device_did_beyond_ours_was_not_ours(tmp_path: Path) -> None:
    device_files(tmp_path, stat=(5, 5 * 4096, 0, 0), ours=(0, 0))
    meter = DeviceMeter("7:0", 42, block_bytes=4096, root=tmp_path)
    meter.read()

    device_files(tmp_path, stat=(25, 25 * 4096, 100, 100 * 4096), ours=(0, 110 * 4096))
    reading = meter.read()

    assert (reading.read_ios, reading.write_ios, reading.foreign_ios) == (0, 100, 20)


def test_what_fio_reads_elsewhere_hides_no_reader_from_jobs_that_only_write(tmp_path: Path) -> None:
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(0, 0))
    meter = DeviceMeter("7:0", 42, block_bytes=4096, root=tmp_path, reads=False)
    meter.read()

    libraries = 12 * 4096  # from the system's disk
    device_files(tmp_path, stat=(20, 20 * 4096, 9, 9 * 4096), ours=(libraries, 9 * 4096))

    assert meter.read().foreign_ios == 20


def test_ios_in_flight_are_not_taken_for_someone_elses(tmp_path: Path) -> None:
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(0, 0))
    meter = DeviceMeter("7:0", 42, block_bytes=4096, root=tmp_path)
    meter.read()

    device_files(tmp_path, stat=(0, 0, 90, 90 * 4096), ours=(0, 100 * 4096))
    assert meter.read().foreign_ios == 0
    device_files(tmp_path, stat=(0, 0, 100, 100 * 4096), ours=(0, 100 * 4096))
    assert meter.read().foreign_ios == 0


def test_split_ios_are_counted_by_their_block(tmp_path: Path) -> None:
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(0, 0))
    meter = DeviceMeter("7:0", 42, block_bytes=2**21, root=tmp_path)
    meter.read()

    device_files(tmp_path, stat=(0, 0, 20, 10 * 2**21), ours=(0, 10 * 2**21))

    assert meter.read().write_ios == 10


def test_a_device_that_vanished_leaves_the_last_reading(tmp_path: Path) -> None:
    device_files(tmp_path, stat=(0, 0, 10, 10 * 4096), ours=(0, 0))
    meter = DeviceMeter("7:0", 42, block_bytes=4096, root=tmp_path)
    before = meter.read()

    (tmp_path / "sys/dev/block/7:0/stat").write_text("")

    assert meter.read() == before


def test_on_a_file_fios_own_bytes_are_counted_from_the_start_of_its_jobs(tmp_path: Path) -> None:
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(4096, 0))
    meter = FileMeter(42, block_bytes=4096, root=tmp_path)
    status = tmp_path / "proc/42/status"
    status.write_text("Name:\tfio\nSigCgt:\t0000000100000000\n")
    assert meter.read() == Reading()
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(4096, 8192))
    assert meter.read() == Reading()

    status.write_text("Name:\tfio\nSigCgt:\t0000000100004202\n")
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(3 * 4096, 8192))

    assert meter.read() == Reading(read_ios=2, read_bytes=8192)


def test_on_a_file_the_last_reading_stands_when_an_ended_fio_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an ended process did may be read by root alone."""
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(0, 0))
    (tmp_path / "proc/42/status").write_text("Name:\tfio\nSigCgt:\t0000000100004202\n")
    meter = FileMeter(42, block_bytes=4096, root=tmp_path)
    device_files(tmp_path, stat=(0, 0, 0, 0), ours=(0, 8192))
    last = meter.read()

    def refused(_: CounterFile) -> str:
        raise PermissionError

    monkeypatch.setattr(CounterFile, "read", refused)

    assert meter.read() == last == Reading(write_ios=2, write_bytes=8192)


def test_jobs_of_one_block_size_are_known_as_such() -> None:
    assert one_block([a_job(), a_job(numjobs=4)]) == 4096
    assert one_block([a_job(), a_sequential()]) is None
    assert one_block([a_job(block_split=((512, 50), (4096, 50)))]) is None
