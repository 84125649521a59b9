"""`ssdbench drives` on a host of many devices: questions grow with their number, not its square."""

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ssdbench.cli import drives
from ssdbench.host import command, sysfs
from tests.support.devices import attached_loop

pytestmark = pytest.mark.alone  # it makes and removes hundreds of loop devices

MIB = 1 << 20
LOOP_CTL_REMOVE = 0x4C81  # <linux/loop.h>


@contextmanager
def many(directory: Path, number: int) -> Iterator[list[str]]:
    """Loop devices over one file, so that each is in use by all others."""
    with ExitStack() as stack:
        first = stack.enter_context(attached_loop(directory / "disk.img", size_bytes=MIB))
        nodes = [str(first.node)]
        for _ in range(number - 1):
            argv = ["losetup", "--find", "--show", str(first.backing)]
            node = command.run(argv).stdout.strip()
            stack.callback(command.run, ["losetup", "--detach", node])
            nodes.append(node)
        yield nodes


@pytest.fixture(autouse=True)
def as_many_afterwards() -> Iterator[None]:
    """The kernel keeps the nodes of detached loop devices until it is told to drop them."""
    before = set(sysfs.Sysfs().names("/sys/block"))
    yield
    with Path("/dev/loop-control").open("rb") as control:
        for name in set(sysfs.Sysfs().names("/sys/block")) - before:
            with suppress(OSError):  # somebody else has taken it
                fcntl.ioctl(control, LOOP_CTL_REMOVE, int(name.removeprefix("loop")))


def listed(monkeypatch: pytest.MonkeyPatch, root: Path, number: int) -> tuple[Any, int, int]:
    """What is told, how many programs were started, and how often /sys was asked for a value."""
    started, asked = [], []
    run, read = command.run, sysfs.Sysfs.read

    def counted(argv: Sequence[str], **options: Any) -> command.Completed:
        started.append(argv[0])
        return run(argv, **options)

    def counted_read(self: sysfs.Sysfs, attribute: str) -> str:
        asked.append(attribute)
        return read(self, attribute)

    with many(root, number) as nodes, monkeypatch.context() as patch:
        patch.setattr(command, "run", counted)
        patch.setattr(sysfs.Sysfs, "read", counted_read)
        told = CliRunner().invoke(drives.drives, ["--json"], catch_exceptions=False)
        devices = {d["target"]: d for d in json.loads(told.stdout)["devices"]}
        return {node: devices[node] for node in nodes}, len(started), len(asked)


def test_programs_and_questions_grow_with_the_devices_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few, programs_of_few, asked_of_few = listed(monkeypatch, tmp_path, 20)
    all_of_them, programs, asked = listed(monkeypatch, tmp_path, 200)

    assert len(few) == 20
    assert len(all_of_them) == 200
    assert all(len(device["reasons"]) >= 199 for device in all_of_them.values())
    assert programs <= programs_of_few + 2  # each is asked about a hundred devices
    assert asked < 10 * asked_of_few + 1000
