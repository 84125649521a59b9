"""SIGKILL at moments that chance decides: a resumed run repeats nothing that it had measured."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from ssdbench.host.command import run
from tests.host.test_run_and_resume import SIMULATED, SSDBENCH, records, start, wait_for

pytestmark = pytest.mark.host

LONGEST_S = 6.0  # about what the run takes after its first stage began


def finished_repeats(path: Path) -> list[str]:
    return [
        r["unit"]
        for r in records(path)
        if r["kind"] == "finished" and "repeat" in r.get("unit", "")
    ]


def kill_and_resume(tmp_path: Path, seed: int) -> None:
    process = start(tmp_path, SIMULATED)
    wait_for(tmp_path / "run", "01-precondition")
    time.sleep(random.Random(seed).uniform(0, LONGEST_S))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = finished_repeats(tmp_path / "run")

    done = run([*SSDBENCH, "resume", str(tmp_path / "run")], ok=(0, 1), timeout_s=120)

    after = finished_repeats(tmp_path / "run")
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 4, done.stderr
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.parametrize("seed", range(3))
def test_a_run_killed_at_any_moment_repeats_nothing(tmp_path: Path, seed: int) -> None:
    kill_and_resume(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3, 203))
def test_two_hundred_killed_runs_repeat_nothing(tmp_path: Path, seed: int) -> None:
    kill_and_resume(tmp_path, seed)
