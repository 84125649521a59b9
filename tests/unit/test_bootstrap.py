"""`./bootstrap` where something is missing: one sentence, the command that helps, and exit 4."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("fio", "nvme", "smartctl", "wipefs", "losetup", "cc", "make", "ps")
OF_THE_SYSTEM = ("awk", "bash", "cat", "cp", "dirname", "env", "mkdir", "readlink", "rm", "sh")
TO_CHECK_A_LOCK = ("sha256sum", "tail")
FAKE_PYTHON = """\
echo "$@" >> "$CALLS"
[ "$1 $2" = "-m venv" ] || exit 0
rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python
"""


@dataclass
class Machine:
    """A clone in a path with a space, and programs that only note that they were called."""

    clone: Path
    programs: Path

    def has(self, name: str, script: str) -> None:
        """A program of this name does what a shell script says."""
        path = self.programs / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def lacks(self, name: str) -> None:
        """There is no program of this name."""
        (self.programs / name).unlink()

    @property
    def calls(self) -> list[str]:
        """What the programs were called with."""
        noted = self.programs / "calls"
        return noted.read_text().splitlines() if noted.exists() else []

    def bootstrap(self, *prefix: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Run `./bootstrap setup`."""
        return subprocess.run(
            [*prefix, str(self.clone / "bootstrap"), "setup"],
            capture_output=True, text=True, check=False, timeout=300,
            env={
                "PATH": str(self.programs), "HOME": str(self.programs), "LANG": "C",
                "CALLS": str(self.programs / "calls"), "PIP_CONFIG_FILE": os.devnull, **environment,
            },
        )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "a clone", tmp_path / "bin")
    made.programs.mkdir()
    (made.clone / "ssdbench/sim/native").mkdir(parents=True)
    for name in ("bootstrap", "pyproject.toml", "hatch_build.py"):
        shutil.copy(ROOT / name, made.clone)
    shutil.copytree(ROOT / "locks", made.clone / "locks")
    for name in (*OF_THE_SYSTEM, *TO_CHECK_A_LOCK):
        (made.programs / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name} here"))
    for name in NEEDED:
        made.has(name, "")
    made.has("ldconfig", "echo libnbd.so.0")
    made.has("id", "echo 1000")
    made.has("python3", FAKE_PYTHON)
    made.has("sudo", 'echo "sudo $@" >> "$CALLS"; "$@"')
    made.has("apt-get", 'echo "apt-get $@" >> "$CALLS"')
    return made


def test_what_is_there_already_is_left_alone(machine: Machine) -> None:
    first, second = machine.bootstrap(), machine.bootstrap()

    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert [call for call in machine.calls if call.startswith("-m venv")] == [
        "-m venv --clear .venv"
    ]
    assert not [call for call in machine.calls if call.startswith(("sudo", "apt-get"))]
    assert "installing" not in second.stderr


def test_it_is_told_how_far_pip_is_and_why_it_failed(machine: Machine) -> None:
    locked = (machine.clone / "locks/dev.txt").read_text()
    of = sum(line[:1].islower() for line in locked.splitlines())
    says = 'case "$*" in *dev.txt*) echo "Collecting a==1"; echo "Installing collected packages: a"'
    machine.has("python3", f"{says};; esac\n{FAKE_PYTHON}")
    fails = 'case "$*" in *dev.txt*) echo "ERROR: planted"; exit 1;; esac'

    well = machine.bootstrap()
    machine.clone = machine.clone.rename(machine.clone.with_name("moved"))
    machine.has("python3", f"{fails}\n{FAKE_PYTHON}")
    ill = machine.bootstrap()

    assert well.returncode == 0
    assert well.stderr.splitlines()[1:3] == [
        f"bootstrap: fetched 1 of {of} Python packages",
        f"bootstrap: unpacking {of} Python packages, which takes up to a minute",
    ]
    assert ill.returncode != 0
    assert ill.stderr.splitlines()[-1] == "bootstrap: ERROR: planted"


def test_a_clone_that_was_moved_gets_its_environment_anew(machine: Machine) -> None:
    machine.bootstrap()
    machine.clone = machine.clone.rename(machine.clone.with_name("moved"))

    assert machine.bootstrap().returncode == 0
    assert len([call for call in machine.calls if call.startswith("-m venv")]) == 2


@pytest.mark.parametrize("sudo", ["none", "exit 1"])
def test_a_user_without_the_right_to_sudo_is_told_what_root_must_run(
    machine: Machine, sudo: str
) -> None:
    machine.lacks("fio")
    if sudo == "none":
        machine.lacks("sudo")
    else:
        machine.has("sudo", sudo)

    said = machine.bootstrap()

    assert said.returncode == 4
    assert said.stderr.splitlines()[-1] == (
        "bootstrap: packages are missing that only root may install; have this run as root: "
        "apt-get install --no-install-recommends fio"
    )
    assert not [call for call in machine.calls if call.startswith(("sudo", "apt-get"))]


def test_packages_that_cannot_be_fetched_are_named(machine: Machine) -> None:
    machine.lacks("fio")
    machine.has("apt-get", "echo 'E: Unable to fetch some archives' >&2; exit 100")

    said = machine.bootstrap()

    assert said.returncode == 4
    assert "Unable to fetch" in said.stderr
    last = said.stderr.splitlines()[-1]
    assert last.endswith("once there is: apt-get install --no-install-recommends fio")


def test_a_clone_that_cannot_be_written_says_how_to_get_one_that_can(machine: Machine) -> None:
    machine.clone.chmod(0o555)
    # root may write everywhere, unless it gives that up
    prefix = ("setpriv", "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    program = shutil.which(prefix[0]) if prefix else None

    said = machine.bootstrap(*([program, *prefix[1:]] if program else []))

    machine.clone.chmod(0o755)
    assert said.returncode == 4
    quoted = str(machine.clone).replace(" ", "\\ ")
    assert said.stderr == (
        f"bootstrap: {machine.clone}/. cannot be written; make a copy that is yours: "
        f"cp -r {quoted} ~/ssdbench && ~/ssdbench/bootstrap setup\n"
    )
    assert not (machine.clone / ".venv").exists()


@pytest.fixture
def dead_index() -> Iterator[tuple[str, list[int]]]:
    """An index that ends every connection, and how often it was asked."""
    asked: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                asked.append(1)
                peer.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple", asked
        server.shutdown(socket.SHUT_RDWR)


def test_without_a_network_the_first_failure_is_the_last(
    machine: Machine, dead_index: tuple[str, list[int]]
) -> None:
    index, asked = dead_index
    machine.has("python3", f'exec {sys.executable} "$@"')

    said = machine.bootstrap(PIP_INDEX_URL=index)

    assert said.returncode == 4
    assert said.stderr.splitlines()[-1].startswith("bootstrap: Python packages could not be")
    assert "PIP_NO_INDEX=1 PIP_FIND_LINKS=wheels ./bootstrap setup" in said.stderr
    assert len(asked) <= 2


def test_the_simulated_drive_is_built_in_a_path_with_a_space(tmp_path: Path) -> None:
    native = tmp_path / "a clone/ssdbench/sim/native"
    sources = shutil.ignore_patterns("build", "tests")
    shutil.copytree(ROOT / "ssdbench/sim/native", native, ignore=sources)
    shutil.copytree(ROOT / "kmod/ftl", tmp_path / "a clone/kmod/ftl", ignore=sources)

    made = subprocess.run(
        ["make", "-s", "-C", str(native), "CFLAGS=-O0"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert (made.returncode, made.stderr) == (0, "")
    assert {path.name for path in (native.parent / "bin").iterdir()} == {
        "libssdb_drive.so", "libssdb_virtualtime.so", "ssdb-nbd", "ssdb-ublk"
    }  # fmt: skip
