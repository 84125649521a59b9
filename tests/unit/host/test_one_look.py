"""A list of many devices asks the host each thing once, and finds what a look at one finds."""

import mmap
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssdbench.errors import CommandFailed, SsdbenchError
from ssdbench.host import command, usage
from ssdbench.host.procfs import OneLookProcfs, Opener, Procfs, Wanted
from ssdbench.host.sysfs import OneLook, Sysfs, node_of

HOLD = "import mmap,sys;f=open(sys.argv[1],'r+b');m=mmap.mmap(f.fileno(),0);f.close();"
HOLD += "g=open(sys.argv[2]);print('held',flush=True);sys.stdin.read()"


def test_an_attribute_is_read_once_and_a_missing_one_is_missed_once(tmp_path: Path) -> None:
    look, live = OneLook(tmp_path), Sysfs(tmp_path)
    (tmp_path / "size").write_text("8\n")
    assert (look.number("/size"), look.known("/ro"), look.names("/")) == (8, None, ["size"])

    (tmp_path / "size").write_text("9\n")
    (tmp_path / "ro").write_text("1\n")

    assert (look.number("/size"), look.known("/ro"), look.names("/")) == (8, None, ["size"])
    assert (live.number("/size"), live.known("/ro"), live.names("/")) == (9, "1", ["ro", "size"])


def test_a_question_that_failed_fails_again_without_being_asked(tmp_path: Path) -> None:
    asked = []

    def ask() -> str:
        asked.append(1)
        raise PermissionError(13, "Permission denied")

    look = OneLook(tmp_path)
    for _ in range(3):
        with pytest.raises(PermissionError):
            look.once("loops", ask)

    assert len(asked) == 1


def test_openers_of_one_look_are_those_of_a_look_at_each_file(tmp_path: Path) -> None:
    mapped, opened, idle = (tmp_path / name for name in ("mapped", "opened", "idle"))
    for file in (mapped, opened, idle):
        file.write_bytes(bytes(mmap.PAGESIZE))
    argv = [sys.executable, "-c", HOLD, str(mapped), str(opened)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        look = OneLookProcfs()
        found = {}
        for file in (mapped, opened, idle):
            status = file.stat()
            wanted = Wanted(inodes=frozenset({(status.st_dev, status.st_ino)}))
            found[file] = look.openers(wanted)
            assert found[file] == Procfs().openers(wanted)
        process.communicate()

    holder = Opener(process.pid, Path(sys.executable).name[:15], of_file=True)
    assert found == {mapped: [holder], opened: [holder], idle: []}


def answering(held: dict[str, str], broken: set[str], started: list[int]) -> object:
    """A wipefs that knows what devices hold, and fails at all when one cannot be opened."""

    def run(argv: Sequence[str], **options: object) -> command.Completed:
        names = [Path(node).name for node in argv[3:]]
        started.append(len(names))
        if bad := broken & set(names):
            raise CommandFailed(argv, 1, f"probing of {sorted(bad)[0]} failed")
        found = [f'{{"device": "{n}", "type": "{held[n]}"}}' for n in names if n in held]
        return command.Completed(f'{{"signatures": [{", ".join(found)}]}}', "", 0)

    return run


def test_500_devices_are_asked_what_they_hold_by_five_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(command, "run", answering({"d7": "ext4"}, set(), started))
    nodes = [tmp_path / f"d{number}" for number in range(500)]
    for node in nodes:
        node.touch()

    found = usage.signatures_of(nodes)

    assert started == [100] * 5
    assert {node.name: types for node, types in found.items() if types} == {"d7": ["ext4"]}
    assert len(found) == 500


def test_a_device_that_cannot_be_asked_does_not_hide_what_the_others_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(command, "run", answering({"d7": "ext4"}, {"d3"}, started))
    nodes = [tmp_path / f"d{number}" for number in range(100)]
    for node in nodes[:-1]:
        node.touch()

    found = usage.signatures_of(nodes)

    assert isinstance(found[nodes[3]], SsdbenchError)
    assert isinstance(found[nodes[99]], OSError)  # it is not there: no program is asked
    assert found[nodes[7]] == ["ext4"]
    assert len(started) < 20
    assert sum(isinstance(types, list) for types in found.values()) == 98


def test_a_device_in_a_directory_of_its_own_has_a_node_there() -> None:
    assert node_of("etherd!e1.0") == "/dev/etherd/e1.0"
    assert node_of("cciss!c0d0") == "/dev/cciss/c0d0"
    assert node_of("sda") == "/dev/sda"
