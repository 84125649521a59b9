"""`--debug` from the command line: every command and every setting, on stderr and with the run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.engine.hostsettings import boot_id, host_id
from ssdbench.host.sysfs import Sysfs
from ssdbench.tuning import confined
from ssdbench.tuning.setting import Backend

PROFILE = """
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: pss-quick, max_fills: 1}
repeats: 1
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure: [{sweep: {read: 100}}]
"""
AT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "
STARTED, ENDED = (
    re.compile(AT + r"started (\d+): (.*)"),
    re.compile(AT + r"ended (\d+): exit (\d+) after (\d+\.\d{3}) s: (.*)"),
)


def called(*arguments: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ssdbench", *arguments],
        cwd=cwd, env={**os.environ, **environment},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def a_short_run(place: Path, *more: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    (place / "p.yaml").write_text(PROFILE)
    argv = ("run", "p.yaml", "--output", "out", "--max-time", "15s", "--json", *more)
    return called(*argv, cwd=place, **environment)


@pytest.mark.parametrize("way", ["before", "behind", "environment"])
def test_a_run_tells_each_program_it_started_and_how_that_ended(tmp_path: Path, way: str) -> None:
    if way == "before":
        (tmp_path / "p.yaml").write_text(PROFILE)
        argv = ("--debug", "run", "p.yaml", "--output", "out", "--max-time", "15s", "--json")
        done = called(*argv, cwd=tmp_path)
    elif way == "behind":
        done = a_short_run(tmp_path, "--debug")
    else:
        done = a_short_run(tmp_path, SSDBENCH_DEBUG="1")

    log = (tmp_path / "out" / "debug.log").read_text()
    said = [line for line in done.stderr.splitlines() if line.startswith("debug: ")]
    assert [line.removeprefix("debug: ") for line in said] == log.splitlines()
    began = {found[1]: found[2] for found in STARTED.finditer(log)}
    ended = {found[1]: found for found in ENDED.finditer(log)}
    assert "fio --version" in began.values()
    jobs = [pid for pid, words in began.items() if " job.fio (in " in words]
    assert len(jobs) >= 2  # the fill and the warm-up
    for pid in jobs:
        assert (ended[pid][2], ended[pid][4]) == ("0", "fio")
        assert 0 < float(ended[pid][3]) < 100
    assert set(began) == set(ended)
    json.loads(done.stdout)


def test_without_it_nothing_is_logged(tmp_path: Path) -> None:
    done = a_short_run(tmp_path)

    assert "debug:" not in done.stderr
    assert not (tmp_path / "out" / "debug.log").exists()


def test_each_setting_that_is_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    left, settings = tmp_path / "left", tmp_path / "settings"
    left.mkdir()
    settings.mkdir()
    record = {
        "kind": "changing", "at": "", "n": 1, "backend": "directory", "attribute": str(left),
        "drive": "", "was": "", "wanted": "present", "reason": "a mount",
        "boot_id": boot_id(Sysfs()), "host_id": host_id(Sysfs()),
    }  # fmt: skip
    (settings / "dead.jsonl").write_text(json.dumps(record) + "\n")
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(settings))
    here = (re.escape(str(left)), "(?:present)?")
    monkeypatch.setattr(confined, "OURS", {**confined.OURS, Backend.DIRECTORY: here})

    assert run(["restore", "--debug"]) == 0

    assert not left.exists()
    told = capfd.readouterr().err
    assert re.search(rf"^debug: {AT}setting written: directory {left} = ''$", told, re.MULTILINE)
    assert run(["restore"]) == 0
    assert capfd.readouterr().err == ""


def test_a_value_of_the_environment_that_is_neither_yes_nor_no_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSDBENCH_DEBUG", "loud")

    assert run(["drives"]) == 2
    assert "'loud' is not a valid boolean" in capfd.readouterr().err
