"""The orchestrator's side of the control page, against a library that a thread plays."""

import ctypes
import mmap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssdbench.errors import HostLacks
from ssdbench.sim import library, virtualtime
from ssdbench.sim.virtualtime import VirtualClock

_NEW, RUNNING, HELD, ENDED, FAILED = range(5)


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[VirtualClock]:
    with VirtualClock.create(tmp_path / "page", state=tmp_path / "drive.ssdb") as clock:
        yield clock
        clock.stop()  # lets a played library end


class PlayedLibrary(threading.Thread):
    """Does in the page what the library does in fio: a hundred reads a second, up to an end."""

    def __init__(self, clock: VirtualClock, *, seconds: int, message: str = "") -> None:
        super().__init__(daemon=True)
        with clock.path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)
        self.page = virtualtime._Page.from_buffer(self.memory)
        self.go = ctypes.c_uint32.from_buffer(self.memory, virtualtime._Page.go.offset)
        self.event = ctypes.c_uint32.from_buffer(self.memory, virtualtime._Page.event.offset)
        self.seconds = seconds
        self.message = message
        self.stopped_at: int | None = None

    def run(self) -> None:
        page = self.page
        page.state = RUNNING
        while page.seconds < self.seconds and self.stopped_at is None:
            self.hold()
            if self.stopped_at is None:
                self.close_second()
        if self.message:
            page.message = self.message.encode()
        self.tell(FAILED if self.message else ENDED)

    def hold(self) -> None:
        page = self.page
        if page.seconds >= page.hold_at_s:
            self.tell(HELD)
        while page.seconds >= page.hold_at_s and page.stop_at_s > page.seconds:
            virtualtime.futex_wait(self.go, self.go.value, timeout_s=0.01)
        if page.stop_at_s <= page.seconds:
            self.stopped_at = page.seconds
        page.state = RUNNING

    def close_second(self) -> None:
        sample = self.page.ring[self.page.samples % 4096]
        self.page.seconds += 1
        sample.end_ns = self.page.seconds * 10**9
        sample.duration_ns = 10**9
        sample.ios[0] = 100 + self.page.seconds
        self.page.samples += 1

    def tell(self, state: int) -> None:
        self.page.state = state
        self.event.value += 1
        virtualtime.futex_wake(self.event)


def test_both_sides_agree_on_the_page() -> None:
    page, sample = virtualtime._Page, virtualtime.VtSample
    loaded = ctypes.CDLL(str(library.native_file("libssdb_virtualtime.so")))
    theirs = list((ctypes.c_uint64 * 13).in_dll(loaded, "ssdb_vt_layout"))

    assert theirs == [
        virtualtime._VERSION,
        ctypes.sizeof(page),
        ctypes.sizeof(sample),
        page.state.offset,
        page.go.offset,
        page.event.offset,
        page.hold_at_s.offset,
        page.samples.offset,
        page.first_io_ns.offset,
        page.message.offset,
        page.ring.offset,
        sample.latency_max_ns.offset,
        sample.inflight_ns.offset,
    ]


def test_time_moves_exactly_as_far_as_it_is_let(clock: VirtualClock) -> None:
    PlayedLibrary(clock, seconds=1000).start()

    first = clock.advance(3, alive=lambda: True)
    second = clock.advance(1, alive=lambda: True)

    assert [s.end_ns for s in first] == [10**9, 2 * 10**9, 3 * 10**9]
    assert [s.ios[0] for s in second] == [104]
    assert clock._page.seconds == 4


def test_the_rest_comes_when_fio_ends(clock: VirtualClock) -> None:
    PlayedLibrary(clock, seconds=5).start()

    assert len(clock.advance(3, alive=lambda: True)) == 3
    assert len(clock.advance(10, alive=lambda: True)) == 2
    assert clock.advance(10, alive=lambda: True) == []


def test_a_stop_ends_the_jobs_at_this_second(clock: VirtualClock) -> None:
    library = PlayedLibrary(clock, seconds=1000)
    library.start()
    clock.advance(7, alive=lambda: True)

    clock.stop()
    rest = clock.advance(100, alive=lambda: True)

    assert library.stopped_at == 7
    assert rest == []


def test_more_seconds_than_the_page_holds_are_fetched_in_parts(clock: VirtualClock) -> None:
    PlayedLibrary(clock, seconds=20_000).start()

    samples = clock.advance(10_000, alive=lambda: True)

    assert [s.end_ns for s in samples] == [n * 10**9 for n in range(1, 10_001)]


def test_a_process_that_died_silently_is_noticed(clock: VirtualClock) -> None:
    clock._page.state = RUNNING

    assert clock.advance(1, alive=lambda: False) == []


def test_why_the_library_gave_up_is_told(clock: VirtualClock) -> None:
    PlayedLibrary(clock, seconds=2, message="the state is torn").start()

    assert len(clock.advance(5, alive=lambda: True)) == 2
    assert clock.message == "the state is torn"


def test_fio_is_told_where_everything_is(tmp_path: Path) -> None:
    page, state = tmp_path / "page", tmp_path / "s"
    with VirtualClock.create(page, state=state, realtime=True, state_fd=7) as clock:
        environment = clock.environment()

    assert environment["LD_PRELOAD"].endswith("libssdb_virtualtime.so")
    assert environment["SSDB_VT_STATE"] == str(state)
    assert environment["SSDB_VT_STATE_FD"] == "7"
    assert environment["SSDB_VT_CLOCK"] == "real"


def test_one_page_has_one_orchestrator(tmp_path: Path, clock: VirtualClock) -> None:
    with pytest.raises(HostLacks, match="page"):
        VirtualClock.create(clock.path, state=tmp_path / "drive.ssdb")


def test_a_missing_library_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "BIN", tmp_path)

    with pytest.raises(HostLacks) as caught:
        library.native_file("ssdb-nbd")

    assert "make -C ssdbench/sim/native" in caught.value.hint


def test_a_clock_is_closed_while_the_error_that_ended_it_is_still_told(tmp_path: Path) -> None:
    # The error's traceback keeps the frames that looked into the page, and what they held.
    def broken() -> bool:
        raise HostLacks("fio is gone")

    clock = VirtualClock.create(tmp_path / "page", state=tmp_path / "drive.ssdb")
    try:
        clock.advance(1, alive=broken)
    except HostLacks as error:
        clock.close()
        assert error.__traceback__

        VirtualClock.create(tmp_path / "page", state=tmp_path / "drive.ssdb").close()


def test_a_clock_is_closed_while_somebody_still_looks_at_a_sample(tmp_path: Path) -> None:
    clock = VirtualClock.create(tmp_path / "page", state=tmp_path / "drive.ssdb")
    sample = clock._page.ring[0]

    clock.close()

    assert sample.end_ns == 0
