"""Detached runs: who does them, how they ended, and signals that mean what they say."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from ssdbench.cli import background
from ssdbench.cli.main import run
from ssdbench.cli.signals import Signals
from ssdbench.errors import Interrupted, UsageError
from ssdbench.host import processes


def test_a_process_is_not_its_number() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        found = processes.find(child.pid)
        child.kill()

    assert found is not None
    assert not found.alive()
    assert processes.ours().alive()
    other = processes.ProcessId(os.getpid(), processes.ours().started_ticks + 1, found.boot_id)
    assert not other.alive()
    assert not other.send(signal.SIGKILL)


def test_a_name_with_brackets_and_blanks_is_no_trap(tmp_path: Path) -> None:
    boot = tmp_path / processes.BOOT_ID.lstrip("/")
    boot.parent.mkdir(parents=True)
    boot.write_text("b\n")
    (tmp_path / "proc" / "7").mkdir()
    fields = ["S", *("0" for _ in range(18)), "4711", "0"]
    (tmp_path / "proc" / "7" / "stat").write_text(f"7 (a) S 1 (b) {' '.join(fields)}\n")

    assert processes.find(7, root=tmp_path) == processes.ProcessId(7, 4711, "b")


def test_a_directory_that_is_no_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run directory"):
        background.worker(tmp_path)


def test_a_run_says_who_does_it_and_how_it_ended(tmp_path: Path) -> None:
    background.end(tmp_path, 5)
    background.begin(tmp_path)

    assert background.worker(tmp_path) == processes.ours()
    assert background.ended(tmp_path) is None
    background.end(tmp_path, 1)
    assert background.ended(tmp_path) == 1


def test_stop_refuses_a_run_that_nobody_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dead = {"pid": os.getpid(), "started_ticks": 1, "boot_id": "another boot"}
    (tmp_path / background.PROCESS).write_text(json.dumps(dead))

    assert run(["stop", str(tmp_path)]) == 2
    assert "no process is running the benchmark" in capfd.readouterr().err


@pytest.mark.parametrize(
    "said",
    ['{"pid": 1e400}', "[" * 100_000, '"\\ud800"', '{"pid": "\\u0000"}'],
    ids=["endless", "deep", "half", "nul"],
)
def test_a_damaged_process_file_is_said_so(
    tmp_path: Path, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / background.PROCESS).write_text(said)

    assert run(["stop", str(tmp_path)]) == 2
    assert "is damaged" in capfd.readouterr().err


def test_stop_signals_no_process_that_has_nothing_to_do_with_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        found = processes.find(other.pid)
        assert found is not None
        (tmp_path / background.PROCESS).write_text(json.dumps(asdict(found)))

        assert run(["stop", str(tmp_path)]) == 2
        assert other.poll() is None
        other.kill()
    assert "no process is running the benchmark" in capfd.readouterr().err


def test_a_process_works_on_a_directory_when_it_is_ours_and_has_a_file_of_it_open(
    tmp_path: Path,
) -> None:
    (tmp_path / "journal.jsonl").touch()
    (tmp_path / "ssdbench").write_text("import time; time.sleep(60)")
    with (tmp_path / "journal.jsonl").open("a") as journal:
        for name, works in (("ssdbench", True), ("other", False)):
            (tmp_path / name).write_text("print(flush=True); import time; time.sleep(60)")
            argv = [sys.executable, str(tmp_path / name)]
            with subprocess.Popen(argv, stdin=journal, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()
                found = processes.find(process.pid)
                assert found is not None
                assert found.works_on(tmp_path) is works
                assert not found.works_on(tmp_path.parent)
                process.kill()


def test_attach_ends_with_the_exit_code_of_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    background.begin(tmp_path)
    (tmp_path / "events.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n{"text": "to')
    background.end(tmp_path, 5)

    assert run(["attach", str(tmp_path)]) == 5
    assert capfd.readouterr().err.splitlines() == ["one", "two"]


@pytest.mark.parametrize("code", ["256", '"0"', "1e3", "-1", "true", "null", "[0]", '"'])
def test_an_exit_code_that_is_none_never_becomes_a_success(
    code: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dead = {"pid": os.getpid(), "started_ticks": 1, "boot_id": "another boot"}
    (tmp_path / background.PROCESS).write_text(json.dumps(dead))
    (tmp_path / background.ENDED).write_text(f'{{"exit_code": {code}}}')

    assert run(["attach", str(tmp_path)]) == 2
    assert "ended.json is damaged" in capfd.readouterr().err


def test_attach_to_a_run_that_died_says_how_to_go_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    dead = {"pid": os.getpid(), "started_ticks": 1, "boot_id": "another boot"}
    (tmp_path / background.PROCESS).write_text(json.dumps(dead))

    assert run(["attach", str(tmp_path)]) == 1
    assert f"ssdbench resume {tmp_path}" in capfd.readouterr().err


def test_the_first_signal_is_noted_and_the_second_ends_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)  # ignored, where the tests run in the background
    with Signals() as signals:
        assert signals.pending() is None
        signal.raise_signal(signal.SIGTERM)
        assert signals.pending() == signal.SIGTERM
        with pytest.raises(Interrupted) as caught:
            signal.raise_signal(signal.SIGINT)
        assert caught.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_a_third_signal_ends_nothing_and_says_how_settings_come_back(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Signals():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
        capfd.readouterr()
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)

    said = capfd.readouterr().err
    assert said.count("ssdbench restore") == 1
    assert f"kill -KILL {os.getpid()}" in said


def test_a_run_outlives_its_terminal() -> None:
    with Signals() as signals:
        signal.raise_signal(signal.SIGHUP)

        assert signals.pending() is None


def test_a_refusal_of_a_detached_run_is_seen_where_it_was_asked_for(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ssdbench", "run", "quick", "--detach",
         "--target", str(tmp_path), "--output", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "is a directory" in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_the_other_side_of_a_fork_has_its_own_session_and_log(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from ssdbench.cli.background import Child, detach\n"
        f"directory = Path({str(tmp_path)!r})\n"
        "side = detach()\n"
        "if isinstance(side, Child):\n"
        "    side.started(directory)\n"
        "    print('in the log', flush=True)\n"
        "    (directory / 'session').write_text(str(os.getsid(0) == os.getpid()))\n"
        "    sys.exit(3)\n"
        "print(side.directory)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    until = time.monotonic() + 120
    while not (tmp_path / "session").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert done.stdout == f"{tmp_path}\n"
    assert (tmp_path / "session").read_text() == "True"
    assert (tmp_path / background.LOG).read_text() == "in the log\n"


def test_the_host_is_kept_awake_for_as_long_as_a_run_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "said"
    program = tmp_path / "systemd-inhibit"
    program.write_text(f'#!/bin/sh\necho "$$ $*" > {said}\nexec sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with background.inhibit_suspend(exists=lambda path: True):
        while not (said.exists() and said.read_text()):
            time.sleep(0.01)
        pid, _, words = said.read_text().partition(" ")
        assert Path(f"/proc/{pid}").exists()

    assert "--what sleep:idle" in words
    assert "--mode block" in words
    assert not Path(f"/proc/{pid}").exists()
    said.unlink()
    with background.inhibit_suspend(exists=lambda path: False):  # no systemd decides here
        pass
    assert not said.exists()
