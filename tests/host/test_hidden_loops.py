"""Loop devices that no path leads to: over another node, or attached in another mount namespace."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssdbench.errors import TargetRefused
from ssdbench.host.command import run
from ssdbench.model.target import Consent
from ssdbench.target import guard
from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice, attached_loop


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[LoopDevice]:
    with attached_loop(tmp_path / "drive.img") as device:
        yield device


@contextmanager
def above(source: Path) -> Iterator[Path]:
    """A loop device over a node or file."""
    node = Path(run(["losetup", "--find", "--show", str(source)]).stdout.strip())
    try:
        yield node
    finally:
        run(["losetup", "--detach", str(node)])


@contextmanager
def attached_elsewhere(image: Path, place: Path) -> Iterator[Path]:
    """A loop device over an image, by a path that is seen in one other mount namespace only."""
    inside = place / "inside"
    inside.mkdir()
    source, there = shlex.quote(str(image.parent)), shlex.quote(str(inside))
    name = shlex.quote(image.name)
    script = (
        f"mount --bind {source} {there} && losetup --find --show {there}/{name} && read _; exit 0"
    )
    argv = ["unshare", "--mount", "sh", "-c", script]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        node = Path(shell.stdout.readline().strip())
        try:
            yield node
        finally:
            shell.communicate("\n")
            run(["losetup", "--detach", str(node)])


@contextmanager
def mounted(node: Path, place: Path) -> Iterator[str]:
    run(["mkfs.ext4", "-q", "-F", str(node)])
    point = place / "mounted"
    point.mkdir()
    run(["mount", str(node), str(point)])
    try:
        yield f"is mounted on {point}"
    finally:
        run(["umount", str(point)])


def refused(target: Path) -> str:
    with pytest.raises(TargetRefused) as refusal:
        guard.check(inspect(str(target)), Consent(overwrite=True))
    return str(refusal.value)


def test_a_file_system_above_another_node_of_the_drive_is_seen(
    drive: LoopDevice, tmp_path: Path
) -> None:
    node = tmp_path / "another node"
    os.mknod(node, 0o60600, drive.node.stat().st_rdev)
    with above(node) as top, mounted(top, tmp_path) as said:
        reasons = refused(drive.node)

    assert said.removeprefix("is ") in reasons
    assert f"in use by {top}" in reasons


def test_a_file_system_on_an_image_that_was_attached_elsewhere_is_seen(
    drive: LoopDevice, tmp_path: Path
) -> None:
    with attached_elsewhere(drive.backing, tmp_path) as other, mounted(other, tmp_path) as said:
        by_device, by_file = refused(drive.node), refused(drive.backing)

    assert said.removeprefix("is ") in by_device
    assert f"in use by {other}" in by_device
    assert f"the loop device {other} uses it" in by_file
