"""No look at a host while a window of its run counts: planted windows, and those of whole runs."""

import fcntl
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from ssdbench.engine.fiorun import LOCK_AHEAD_S
from ssdbench.engine.hostlock import HostLock
from ssdbench.errors import HostLacks
from ssdbench.fleet import hostscripts
from ssdbench.fleet.drive import Patience, State, measure
from ssdbench.fleet.transport import LocalTransport, ScriptResult
from ssdbench.foreign import write_whole
from ssdbench.generator.base import Second
from ssdbench.host.lock import Lock
from ssdbench.model.point import Repeat
from ssdbench.model.rundirectory import GATE, ROOM
from ssdbench.stages.measuring import Measuring
from ssdbench.stages.points import PointStage
from tests.support.fakes import WearyDrive
from tests.support.runs import ARun, a_point
from tests.unit.fleet.test_plan import JOB

WINDOW_S, PAUSE_S = 0.15, 0.02


def tell(directory: Path, text: str) -> None:
    write_whole(directory / "progress.json", json.dumps({"text": text}).encode())


@contextmanager
def windows(directory: Path) -> Iterator[list[int]]:
    """A run of windows with hardly a pause between them; what is read of it tells which it was."""
    counted, begun, over = [0], Event(), Event()

    def run() -> None:
        lock = HostLock(directory)
        while not over.is_set():
            with lock.held_while(True):
                tell(directory, "window")
                begun.set()
                over.wait(WINDOW_S)
                counted[0] += 1
                tell(directory, "pause")
            time.sleep(PAUSE_S)

    thread = Thread(target=run)
    thread.start()
    begun.wait()
    try:
        yield counted
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("shut", [True, False])
def test_a_look_waits_for_the_end_of_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shut: bool
) -> None:
    monkeypatch.setattr(hostscripts, "STAY_S", 0)
    if not shut:
        monkeypatch.setattr(HostLock, "take", lambda self, wait_s=0.0: True)
    job = replace(JOB, runs=str(tmp_path), name="run")
    (tmp_path / "run").mkdir()
    with windows(tmp_path / "run") as counted:
        seen = [hostscripts.look(job, LocalTransport(), 0.13).progress["text"] for _ in range(8)]
        assert (seen == ["pause"] * 8) is shut
        assert counted[0] >= 4


def test_the_next_call_comes_in_before_the_last_look_has_let_go_of_the_door(tmp_path: Path) -> None:
    job = replace(JOB, runs=str(tmp_path), name="run")
    (tmp_path / "run").mkdir()
    lock = HostLock(tmp_path / "run")
    lock.take()
    lock.release()
    hostscripts.look(job, LocalTransport())
    with (tmp_path / "run" / ROOM).open() as held, pytest.raises(BlockingIOError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.timed
def test_nobody_inside_keeps_a_run_waiting_for_long(tmp_path: Path) -> None:
    lock = HostLock(tmp_path)
    assert lock.take()
    lock.release()
    with (tmp_path / ROOM).open() as held, (tmp_path / GATE).open() as gate:
        fcntl.flock(held, fcntl.LOCK_SH)
        began = time.monotonic()
        assert not lock.take(wait_s=0.2)
        assert time.monotonic() - began < 2
        with pytest.raises(BlockingIOError):  # but nobody else comes in any more
            fcntl.flock(gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert lock.take(wait_s=0.0)
    modes = {(tmp_path / name).stat().st_mode & 0o777 for name in (GATE, ROOM)}
    assert modes == {0o600}


def test_many_who_look_all_the_time_do_not_keep_a_door_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostscripts, "STAY_S", 0.3)
    job = replace(JOB, runs=str(tmp_path), name="run")
    (tmp_path / "run").mkdir()
    over, seen = Event(), []

    def look() -> None:
        while not over.is_set():
            seen.append(hostscripts.look(job, LocalTransport()).progress.get("text"))

    with windows(tmp_path / "run") as counted, ThreadPoolExecutor(3) as threads:
        looking = [threads.submit(look) for _ in range(3)]
        time.sleep(3)
        over.set()
    assert all(one.exception() is None for one in looking)
    assert len(seen) > 5 and set(seen) == {"pause"}
    assert counted[0] > 3


def test_the_time_between_two_looks_passes_on_the_host_after_one_login() -> None:
    asked: list[float | None] = []

    class Host:
        def call(
            self, address: str, script: str, *, idle_s: float | None = None, **how: object
        ) -> ScriptResult:
            if "--attach-or-start" in script:
                return ScriptResult(b"{}", "", 0)
            asked.append(idle_s)
            assert f"\nsleep {idle_s:.3f}\n" in script
            process = {"pid": 7, "started_ticks": 70, "boot_id": "b"}
            stat = "7 (python) S " + "0 " * 18 + "70"
            alive = f"=== boot\nb\n=== process\n{json.dumps(process)}\n=== stat\n{stat}\n"
            over = '=== boot\nb\n=== ended\n{"exit_code": 0}\n'
            return ScriptResult((alive if len(asked) < 4 else over).encode(), "", 0)

    slept: list[float] = []
    told: list[State] = []
    measure(JOB, Host(), Patience(300, 600, slept.append), told.append)

    assert (asked, slept) == ([0.0, 300, 300, 300], [])


@pytest.mark.parametrize("settles_s", [60, 6])
def test_the_door_of_a_whole_run_is_shut_whenever_a_window_counts(
    tmp_path: Path, settles_s: float
) -> None:
    run = ARun(tmp_path / "run", WearyDrive())
    run.precondition().steady().sweep()
    points = a_point(run.drive, "w"), a_point(run.drive, "r", read=100)
    how = Measuring(measure_s=60, write_window_s=settles_s, flat_s=settles_s)
    run.stages[-1] = PointStage("03-sweep", (points,), 3, how)
    seen: dict[int, list[tuple[float, bool]]] = defaultdict(list)

    def look(drive: WearyDrive, second: Second) -> None:
        path = run.path / GATE
        is_open = True
        if path.exists():
            with path.open() as held:
                try:
                    fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    is_open = False
        seen[len(drive.starts)].append((second.t_s, is_open))

    run.drive.on_second = look
    run.go()

    units = (run.path / "stages" / "03-sweep").glob("*/*/unit.json")
    repeats = sorted(
        (Repeat.model_validate_json(unit.read_text()) for unit in units), key=lambda r: r.sequence
    )
    fill, warm_up, *starts = seen.values()
    assert all(is_open for _, is_open in (*fill, *warm_up))
    assert len(starts) == len(repeats) == 6
    for repeat, seconds in zip(repeats, starts, strict=True):
        window = [is_open for t_s, is_open in seconds if t_s > repeat.measure_from_s]
        assert window and not any(window)
        settling = [is_open for t_s, is_open in seconds if t_s < settles_s - LOCK_AHEAD_S]
        assert all(settling)  # anybody may look
    with Lock(run.path / ROOM, HostLacks):  # it is open at the end
        pass


def test_a_released_lock_keeps_no_file_open(tmp_path: Path) -> None:
    def held() -> list[str]:
        links = list(Path("/proc/self/fd").iterdir())
        files = [str(link.readlink()) for link in links if link.is_symlink()]
        return [file for file in files if file.startswith(f"{tmp_path}/")]

    lock = HostLock(tmp_path)

    for _ in range(2):
        assert lock.take()
        assert len(held()) == 2
        lock.release()
        assert held() == []
