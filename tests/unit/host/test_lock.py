"""One run per host and per target."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssdbench.errors import HostLacks, TargetRefused
from ssdbench.host import command
from ssdbench.host.lock import Lock, host_lock, target_lock, waiting


def test_a_second_run_on_the_host_is_told_who_has_it(tmp_path: Path) -> None:
    with (
        host_lock(tmp_path),
        pytest.raises(HostLacks, match=r"another ssdbench run \(process [0-9]+\)"),
        host_lock(tmp_path),
    ):
        pass


def test_a_lock_is_free_again_after_its_end(tmp_path: Path) -> None:
    with host_lock(tmp_path):
        pass

    with host_lock(tmp_path) as lock:
        assert lock.holder()


def test_two_targets_may_be_held_at_once_and_one_not_twice(tmp_path: Path) -> None:
    with (
        target_lock("eui.1/a", tmp_path),
        target_lock("eui.2", tmp_path),
        pytest.raises(TargetRefused, match="another ssdbench run"),
        target_lock("eui.1/a", tmp_path),
    ):
        pass


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "host.lock").symlink_to(tmp_path / "victim")

    with pytest.raises(HostLacks, match="symbolic link"), host_lock(tmp_path):
        pass

    assert (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("taken", [host_lock, lambda place: waiting(place / "host.lock")])
@pytest.mark.parametrize(
    ("mode", "owner", "said"),
    [(0o666, 0, "other users can write"), (0o600, 65534, "belongs to another user")],
)
def test_a_lock_that_another_user_owns_or_can_write_is_refused(
    tmp_path: Path, taken: Callable[[Path], Any], mode: int, owner: int, said: str
) -> None:
    (path := tmp_path / "host.lock").touch()
    path.chmod(mode)
    if owner:
        if os.geteuid() != 0:
            pytest.skip("only root can give a file to another user")
        os.chown(path, owner, owner)

    with pytest.raises(HostLacks, match=said), taken(tmp_path):
        pass


def test_no_lock_of_a_target_stays_and_none_names_it(tmp_path: Path) -> None:
    (tmp_path / "target-file__home_me_d.img.lock").touch()  # as a version before this one left it
    (tmp_path / "target-killed.lock").touch(0o600)

    with target_lock("file:/home/me/d.img", tmp_path), target_lock("eui.1", tmp_path):
        held = sorted(path.name for path in tmp_path.iterdir())

    assert len(held) == 2 and not any("home" in name or "eui" in name for name in held)
    assert list(tmp_path.iterdir()) == []


_CONTENDER = """
import sys, time
from pathlib import Path
from ssdbench.errors import HostLacks
from ssdbench.host.lock import host_lock

place, entered = Path(sys.argv[1]), 0
end = time.monotonic() + 60
while entered < 300 and time.monotonic() < end:
    try:
        with host_lock(place):
            (place / "inside").touch(exist_ok=False)
            entered += 1
            (place / "inside").unlink()
    except HostLacks:
        continue
print(entered)
"""


def test_a_lock_that_is_removed_at_its_end_lets_no_two_in(tmp_path: Path) -> None:
    """Processes that take and remove one lock as fast as they can; each is alone inside."""
    argv = [sys.executable, "-c", _CONTENDER, str(tmp_path)]
    racing = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    assert [int(one.communicate()[0] or 0) for one in racing] == [300] * 4
    assert list(tmp_path.iterdir()) == []


def test_a_lock_whose_file_was_removed_before_it_was_locked_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, path = fcntl.flock, tmp_path / "host.lock"
    first = Lock(path, HostLacks)
    first.__enter__()

    def ends_meanwhile(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        first.__exit__()
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", ends_meanwhile)
    with host_lock(tmp_path), pytest.raises(HostLacks, match="another ssdbench"):
        host_lock(tmp_path).__enter__()


def test_a_waiting_lock_lets_one_at_a_time_through(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    order: list[str] = []

    def second() -> None:
        with waiting(path):
            order.append("second")

    thread = threading.Thread(target=second)
    with waiting(path):
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(120)

    assert order == ["first", "second"]


def test_who_waits_for_a_lock_is_told_and_who_does_not_is_not(tmp_path: Path) -> None:
    path, told = tmp_path / "x.lock", []

    def second() -> None:
        with waiting(path, lambda: told.append("second")):
            pass

    with waiting(path, lambda: told.append("first")):
        thread = threading.Thread(target=second)
        thread.start()
        while not told:
            time.sleep(0.01)
    thread.join(120)

    assert told == ["second"]


def test_what_a_killed_holder_left_at_work_is_waited_for(tmp_path: Path) -> None:
    """An apt-get or make of a killed process writes on; the next one must not write beside it."""
    path, pids = tmp_path / "x.lock", tmp_path / "pid"
    script = f"echo $$ > {pids}.new; mv {pids}.new {pids}; exec sleep 600"
    holder = subprocess.Popen(
        [sys.executable, "-c",
         "from pathlib import Path\nfrom ssdbench.host.lock import waiting\n"
         "from ssdbench.host import command\n"
         f"with waiting(Path({str(path)!r})):\n"
         f"    command.run(['sh', '-c', {script!r}])"],
    )  # fmt: skip
    while not pids.exists():
        time.sleep(0.01)
    holder.kill()
    holder.wait()
    left = int(pids.read_text())

    with waiting(path, lambda: os.kill(left, signal.SIGKILL)):
        ended = not Path(f"/proc/{left}/cwd").exists()

    assert ended


def test_a_program_that_outlives_a_block_does_not_keep_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with waiting(path):
        command.run(["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $! > " + str(tmp_path / "pid")])

    try:
        with waiting(path, lambda: pytest.fail("somebody still has it")):
            pass
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
