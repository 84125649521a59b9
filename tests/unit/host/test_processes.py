"""Processes that one process leads share its lock of the host, and nobody else's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssdbench.host import processes
from ssdbench.host.activity import ProcessTime, activity, others
from ssdbench.host.lock import host_lock, led

ASK = "import sys; from pathlib import Path; from ssdbench.host.lock import led; "
ASK += "print(led(Path(sys.argv[1])))"


def answer(place: Path, environment: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-c", ASK, str(place)],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip


def test_a_child_is_let_in_while_the_process_that_leads_it_holds_the_lock(tmp_path: Path) -> None:
    assert answer(tmp_path, processes.child_env()) == "False"
    with host_lock(tmp_path):
        assert answer(tmp_path, processes.child_env()) == "True"
        assert answer(tmp_path, {}) == "False"
        assert answer(tmp_path, {processes.LEADER_VARIABLE: str(os.getppid())}) == "False"
        assert not led(tmp_path)


def test_what_the_runs_beside_do_is_not_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processes.LEADER_VARIABLE, str(os.getppid()))
    assert processes.side_by_side_leader() == os.getppid()
    family = [
        ProcessTime(10, 1, "ssdbench", 1.0), ProcessTime(11, 10, "ssdbench", 2.0),
        ProcessTime(12, 10, "ssdbench", 3.0), ProcessTime(13, 12, "fio", 4.0),
        ProcessTime(20, 1, "backup", 5.0),
    ]  # fmt: skip
    assert others(family, 11) == {"ssdbench": 4.0, "fio": 4.0, "backup": 5.0}
    assert others(family, 10) == {"backup": 5.0}

    asked: list[int] = []

    def others_of(_: object, own: int) -> dict[str, float]:
        asked.append(own)
        return {}

    monkeypatch.setattr("ssdbench.host.activity.others", others_of)
    activity()
    assert asked == [os.getppid()]
