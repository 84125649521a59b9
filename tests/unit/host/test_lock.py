"""One run per host and per target."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssdbench.errors import HostLacks, TargetRefused
from ssdbench.host.lock import host_lock, target_lock, waiting


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
