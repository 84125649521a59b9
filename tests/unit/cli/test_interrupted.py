"""Ctrl-C, SIGTERM and a closed terminal, while a program works for a command."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ssdbench.cli.signals import signals_end_command
from tests.support.moments import MOMENTS, at_line

RELEASE = "1.2.3-none"
ENDINGS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """Variables for a command whose files all lie below `tmp_path`, and programs in its `bin`."""
    for name in ("bin", "tmp"):
        (tmp_path / name).mkdir()
    return {
        **os.environ,
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "TMPDIR": f"{tmp_path}/tmp",
        "SSDBENCH_KMOD_DIR": f"{tmp_path}/kmod",
        "SSDBENCH_LAB_CACHE": f"{tmp_path}/lab",
        "SSDBENCH_LAB_ARCHIVE": "http://127.0.0.1:9",
    }


@pytest.fixture
def as_the_kernel_would() -> Iterator[None]:
    """What ends a process, where nothing of ours heeds it, ends the test's part as well."""
    numbers = [number for number, _ in ENDINGS]
    before = {number: signal.signal(number, lambda n, _: sys.exit(128 + n)) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def at_work(pid_file: Path) -> str:
    """A script that writes down its program's id, and then waits for it."""
    return f"sleep 300 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"


def gone(pid_file: Path) -> bool:
    """Whether a program ends within five seconds; one that nobody has waited for has ended."""
    state = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if state.read_text().split(") ")[1].startswith("Z"):
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def interrupt(number: int, status: int, place: Mapping[str, str], begun: Path, *argv: str) -> None:
    """Send a signal to a command when a program of its is at work: it ends in one word.

    Ctrl-C comes to the whole process group, as from a terminal.
    """
    with subprocess.Popen(
        ["env", "--default-signal", sys.executable, "-m", "ssdbench", *argv],
        env=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not begun.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        while process.poll() is None:  # as somebody does who is impatient
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
            time.sleep(0.01)
        _, said = process.communicate(timeout=30)
    assert process.returncode == status, said
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "interrupted"


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_a_download_that_is_interrupted_ends_with_its_programs(
    number: int, status: int, place: dict[str, str], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    for needed in ("unshare", "depmod", "modprobe", "make", "gcc", "strip", "dpkg-deb"):
        program(tmp_path / "bin" / needed, "exit 0")
    program(tmp_path / "bin" / "apt-get", at_work(pid))

    interrupt(number, status, place, pid, "lab", "run", "--", "true")

    assert list((tmp_path / "tmp").iterdir()) == []
    assert gone(pid)


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_a_build_that_is_interrupted_leaves_what_was_built_before(
    number: int, status: int, place: dict[str, str], tmp_path: Path
) -> None:
    pid, headers = tmp_path / "pid", tmp_path / "headers"
    built = tmp_path / "kmod" / RELEASE / "flash" / "ssdb_flash.ko"
    (headers / "include/generated").mkdir(parents=True)
    (headers / "include/generated/utsrelease.h").write_text(f'#define UTS_RELEASE "{RELEASE}"\n')
    built.parent.mkdir(parents=True)
    built.write_text("whole")
    (headers / "Makefile").write_text(
        f"modules:\n\techo half > $(M)/flash/ssdb_flash.ko\n\t{at_work(pid).replace('$', '$$')}\n"
    )

    interrupt(number, status, place, pid, "kmod", "build", "--headers", str(headers))

    assert list((tmp_path / "tmp").iterdir()) == []
    assert gone(pid)
    assert built.read_text() == "whole"
    assert [path.name for path in (tmp_path / "kmod").iterdir() if path.is_dir()] == [RELEASE]


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_hosts_that_do_not_answer_are_waited_for_no_longer(
    number: int, status: int, place: dict[str, str], tmp_path: Path
) -> None:
    fleet, begun, pids = tmp_path / "fleet.yaml", tmp_path / "begun", tmp_path / "pids"
    pids.mkdir()
    hosts = range(100, 140)  # more than are asked at once
    fleet.write_text(
        "title: silent\nprofile: pessimistic\ndrives: [{model: 'SSD*'}]\n"
        f"hosts: [{{name: 'h[{hosts[0]}-{hosts[-1]}]', rack: r}}]\n"
    )
    program(tmp_path / "bin" / "ssh", f"touch {begun}; {at_work(pids / '$$')}")

    began_s = time.monotonic()
    interrupt(number, status, place, begun, "fleet", "plan", str(fleet))

    assert time.monotonic() - began_s < 60, "each ssh works for 300 s"
    assert all(gone(pid) for pid in pids.iterdir() if pid.suffix != ".new")


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_threads_that_see_to_drives_end_with_their_programs(
    number: int, status: int, place: dict[str, str], tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    program(tmp_path / "bin" / "cat", at_work(pid))  # of the script that begins a run

    interrupt(
        number, status, place, pid,
        "fleet", "run", "--local", "3", "--output", str(tmp_path / "fleet"),
    )  # fmt: skip

    assert list((tmp_path / "tmp").iterdir()) == []
    assert gone(pid)


SSDBENCH = str(Path(sys.executable).with_name("ssdbench"))
AT_A_PROMPT = """
import click
from ssdbench.cli import main
main._invoke = lambda *_: click.prompt("its name", err=True)
main.main(["none"])
"""


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_a_prompt_ends_by_the_signal_that_came(number: int, status: int) -> None:
    with subprocess.Popen(
        ["env", "--default-signal", sys.executable, "-c", AT_A_PROMPT],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        asked = process.stderr.read(len("its name"))
        while Path(f"/proc/{process.pid}/stat").read_text().split(") ")[1][0] != "S":
            time.sleep(0.01)  # Python looks for signals before it reads and after
        process.send_signal(number)
        said = process.stderr.read()

    assert (asked, process.returncode) == (b"its name", status), said


IN_A_QUERY = """
import sys
from pathlib import Path
from ssdbench.cli import main
from ssdbench.export import query, store
def asked(*_):
    made = query._views
    query._views = lambda *words: print("begun", flush=True) or made(*words)
    query.ask(store.Store(Path(sys.argv[1])), "SELECT count(*) FROM range(1000000000000) "
            "WHERE range % 7 = 3")
main._invoke = asked
main.main(["none"])
"""


@pytest.mark.parametrize(("number", "status"), ENDINGS)
def test_a_long_query_ends_by_the_signal_that_came(
    number: int, status: int, tmp_path: Path
) -> None:
    with subprocess.Popen(
        ["env", "--default-signal", sys.executable, "-c", IN_A_QUERY, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        begun = process.stdout.readline()
        time.sleep(1)  # until it is at work
        process.send_signal(number)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()

    assert (begun, said, process.returncode) == (b"begun\n", b"interrupted\n", status)


def test_a_signal_leaves_no_traceback_from_the_first_moment_to_the_last(
    as_the_kernel_would: None,
) -> None:
    for moment in MOMENTS:
        try:
            with (
                at_line("heeded", moment, lambda: signal.raise_signal(signal.SIGTERM)),
                signals_end_command(),
            ):
                time.monotonic()
        except SystemExit as ended:
            assert ended.code == 143


@pytest.mark.parametrize("module", ["click", "typing"])
@pytest.mark.parametrize("program", [[sys.executable, "-m", "ssdbench"], [SSDBENCH]])
def test_a_signal_while_modules_are_imported_leaves_no_traceback(
    program: list[str], module: str, tmp_path: Path
) -> None:
    (tmp_path / f"{module}.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")

    done = subprocess.run(
        ["env", "--default-signal", f"PYTHONPATH={tmp_path}", *program, "--help"],
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
