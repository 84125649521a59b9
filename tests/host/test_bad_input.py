"""Bad targets and bad days at the command line: refused, or ended with a sentence and a way on."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ssdbench.host.command import Completed, Process, run, spawn
from ssdbench.target.inspect import inspect
from tests.host.test_run_and_resume import wait_for
from tests.support.devices import LoopDevice, attached_loop, shown_partitions

pytestmark = pytest.mark.host

SSDBENCH = [sys.executable, "-m", "ssdbench"]
PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 3s}
repeats: 1
window: 2s
settle: {window: 2s, flat: 2s, max_time: 3s}
measure: [{sweep: {read: 0, iodepth: 4}}]
"""

SIMULATED = """
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: pss-quick, max_fills: 1}
repeats: 3
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure: [{sweep: {read: 100}}]
"""
SOON_STEADY = SIMULATED.replace(
    "{rule: pss-quick, max_fills: 1}", "{rule: seppanen, max_time: 60s}\nunit: 4KiB"
)


def arguments(place: Path, target: object, *more: str, text: str = PROFILE) -> list[str]:
    profile = place / "p.yaml"
    profile.write_text(text)
    argv = [*SSDBENCH, "run", str(profile), "--output", str(place / "run"), *more]
    return [*argv, "--target", str(target)] if target else argv


def refused(place: Path, target: object, *more: str, code: int = 3) -> str:
    """What is said of a target that must be refused; nothing may have been made."""
    ended = run(arguments(place, target, *more), ok=(code,), timeout_s=120)
    assert "Traceback" not in ended.stderr
    assert "hint: " in ended.stderr
    assert not (place / "run").exists()
    return ended.stderr


@pytest.fixture
def a_file(tmp_path: Path) -> Path:
    """An empty file that may be a target, on a disk."""
    path = tmp_path / "file.img"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    return path


@contextmanager
def mounted(node: Path, directory: Path) -> Iterator[None]:
    run(["mkfs.ext4", "-q", "-F", str(node)])
    directory.mkdir()
    run(["mount", "-o", "ro", str(node), str(directory)])
    try:
        yield
    finally:
        run(["umount", str(directory)])


def test_a_mounted_device_is_refused_with_what_to_do(
    tmp_path: Path, loop_device: LoopDevice
) -> None:
    with mounted(loop_device.node, tmp_path / "mnt"):
        said = refused(tmp_path, loop_device.node, "--overwrite-signatures")

    assert f"mounted on {tmp_path / 'mnt'}" in said
    assert "unmount it" in said


def test_a_device_without_its_directory_is_told_where_it_is(
    tmp_path: Path, make_loop: Callable[..., LoopDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    node = make_loop().node

    assert f"hint: the device is {node}\n" in refused(tmp_path, node.name, code=2)


def test_a_partition_is_refused(tmp_path: Path, loop_device: LoopDevice) -> None:
    run(["sfdisk", "-q", str(loop_device.node)], input=b",,L\n")
    with shown_partitions(loop_device.node):
        said = refused(tmp_path, f"{loop_device.node}p1")

    assert "partition" in said


def test_a_file_with_foreign_content_is_refused_and_kept(tmp_path: Path, a_file: Path) -> None:
    a_file.write_bytes(b"letters" + bytes(1 << 20))

    assert "data that ssdbench did not write" in refused(tmp_path, a_file)
    assert a_file.read_bytes() == b"letters" + bytes(1 << 20)


def test_a_file_with_two_names_is_refused(tmp_path: Path, a_file: Path) -> None:
    (tmp_path / "other.img").hardlink_to(a_file)

    assert "2 names (hard links)" in refused(tmp_path, a_file)


def test_an_open_file_is_refused_with_who_has_it(
    tmp_path: Path, a_file: Path, holder: Callable[[Path], int]
) -> None:
    assert f"process {holder(a_file)} (sleep) has it open" in refused(tmp_path, a_file)


def test_a_swap_file_is_refused(tmp_path: Path, a_file: Path) -> None:
    a_file.write_bytes(bytes(16 << 20))
    a_file.chmod(0o600)
    run(["mkswap", str(a_file)])
    run(["swapon", str(a_file)])
    try:
        assert f"{a_file}: the kernel swaps to it" in refused(tmp_path, a_file)
    finally:
        run(["swapoff", str(a_file)])


def test_a_file_that_leaves_less_than_a_tenth_free_is_refused(tmp_path: Path) -> None:
    room = os.statvfs(tmp_path)
    path = tmp_path / "large.img"
    with path.open("wb") as file:
        file.truncate(int(room.f_bavail * room.f_frsize * 0.99) >> 20 << 20)

    said = refused(tmp_path, path)

    assert "10 % must stay" in said
    assert path.stat().st_blocks == 0


def started(place: Path, target: Path, *more: str) -> Process:
    argv = arguments(place, target, *more, text=PROFILE.replace("window: 2s", "window: 60s"))
    return spawn(argv, stdout=place / "out", stderr=place / "err")


def test_two_runs_disturb_each_other_neither_on_a_drive_nor_on_a_host(
    tmp_path: Path, loop_device: LoopDevice
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    consent = "--destroy", inspect(str(loop_device.node)).id
    first = started(tmp_path / "one", loop_device.node, *consent)
    wait_for(tmp_path / "one" / "run", "02-steady")
    try:
        assert str(first.pid) in refused(tmp_path / "two", loop_device.node, *consent)
        with attached_loop(tmp_path / "other.img") as other:
            consent = "--destroy", inspect(str(other.node)).id
            said = refused(tmp_path / "two", other.node, *consent, code=4)
            assert f"another ssdbench run (process {first.pid}) is at work on this host" in said
    finally:
        first.send(signal.SIGTERM)
        assert first.wait(120) == 143


def test_a_device_that_shrinks_under_a_run_is_lost_and_the_run_says_so(
    tmp_path: Path, loop_device: LoopDevice
) -> None:
    consent = "--destroy", inspect(str(loop_device.node)).id
    process = started(tmp_path, loop_device.node, *consent)
    wait_for(tmp_path / "run", "02-steady")

    with loop_device.backing.open("r+b") as file:
        file.truncate(loop_device.size_bytes // 2)
    run(["losetup", "--set-capacity", str(loop_device.node)])

    assert process.wait(120) == 5
    said = (tmp_path / "err").read_text()
    assert str(loop_device.node) in said
    assert "Traceback" not in said
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["stages"][0]["complete"]
    assert (tmp_path / "run" / "report.html").exists()


def resumed(place: Path) -> Completed:
    return run([*SSDBENCH, "resume", str(place / "run")], ok=(0, 1, 2, 4), timeout_s=120)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)])
    try:
        yield place
    finally:
        run(["umount", str(place)])


def test_a_full_disk_is_named_and_the_run_goes_on_once_there_is_room(small: Path) -> None:
    ended = run(arguments(small, "", text=SIMULATED), ok=(4,), timeout_s=120)
    assert f"{small}/run" in ended.stderr
    assert f"free some space on {small}" in ended.stderr
    assert "Traceback" not in ended.stderr

    run(["mount", "-o", "remount,size=200m", str(small)])
    went_on = resumed(small)
    assert (small / "run" / "report.html").exists(), went_on.stderr


def test_a_disk_without_room_for_the_simulated_drive_is_named_before_anything_is_made(
    small: Path,
) -> None:
    large = SIMULATED.replace("256MiB", "2GiB")
    argvs = (
        arguments(small, "", text=large),
        [*SSDBENCH, "sim", "create", "sim:x25m-g2-160,capacity=2GiB", str(small / "a.ssdb")],
        [*SSDBENCH, "sim", "serve", "sim:x25m-g2-160,capacity=2GiB", "--socket", str(small / "s")],
    )
    for argv in argvs:
        said = run(argv, ok=(4,), timeout_s=120).stderr
        assert f"but its file system on {small} has only" in said
        assert said.count("\n") == 2  # a sentence and a hint

    assert [path.name for path in small.iterdir()] == ["p.yaml"]


def test_a_simulated_drive_on_a_disk_that_fills_up_under_it_ends_with_a_sentence(
    tmp_path: Path,
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(small)])
    try:
        process = spawn(
            arguments(small, "", text=SIMULATED.replace("256MiB", "2GiB")),
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
        )
        wait_for(small / "run", "01-precondition")
        with (small / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        assert process.wait(120) == 4
    finally:
        run(["umount", str(small)])

    said = (tmp_path / "err").read_text()
    assert str(small) in said
    assert "resume" in said
    assert "signal" not in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run that was killed while it measured."""
    place = tmp_path_factory.mktemp("killed")
    process = spawn(
        arguments(place, "", text=SOON_STEADY), stdout=place / "out", stderr=place / "err"
    )
    wait_for(place / "run", "03-sweep")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return place


def test_a_journal_cut_in_its_middle_is_named_with_its_line(killed: Path, tmp_path: Path) -> None:
    run(["cp", "-a", str(killed / "run"), str(tmp_path)])
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0], lines[1][:20], *lines[2:]]) + "\n")

    ended = resumed(tmp_path)

    assert ended.status == 2
    assert f"{journal}:2" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_journal_that_lost_its_last_line_is_resumed(killed: Path, tmp_path: Path) -> None:
    run(["cp", "-a", str(killed / "run"), str(tmp_path)])
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])

    ended = resumed(tmp_path)

    assert ended.status in (0, 1)
    assert (tmp_path / "run" / "report.html").exists()


def test_an_empty_journal_is_no_run_to_go_on_with(killed: Path, tmp_path: Path) -> None:
    run(["cp", "-a", str(killed / "run"), str(tmp_path)])
    (tmp_path / "run" / "journal.jsonl").write_bytes(b"")

    ended = resumed(tmp_path)

    assert ended.status == 2
    assert "Traceback" not in ended.stderr
    assert "hint: " in ended.stderr
