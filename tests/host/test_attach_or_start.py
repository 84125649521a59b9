"""The contract of --attach-or-start on simulated drives: killed at any moment, called by many."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssdbench.cli.background import worker
from ssdbench.engine.journal import Journal, Kind, stored_records
from ssdbench.errors import UsageError
from tests.support.documents import checked

pytestmark = pytest.mark.host

PROFILE = """
target: sim:x25m-g2-160,capacity=256MiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
repeats: 2
window: 2s
settle: {window: 1s, flat: 1s, max_time: 2s}
measure: [{sweep: {read: [100, 0], iodepth: 4}}]
"""


def called(profile: Path, out: Path, *more: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--output", str(out)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*argv, "--attach-or-start", *more], stdout=pipe, stderr=pipe, text=True
    )


def kill_whoever_works(out: Path, after_s: float) -> None:
    """SIGKILL to the worker, once it is known, or before it is when the time has passed."""
    time.sleep(after_s)
    try:
        worker(out).send(signal.SIGKILL)
    except UsageError:
        return


def repeated_in_vain(out: Path) -> list[str]:
    """What was begun although it was finished and stood: no record may be one."""
    found: list[str] = []
    records = stored_records(out / "journal.jsonl")
    for n, record in enumerate(records):
        before = Journal.__new__(Journal)
        before._records = list(records[:n])
        if record.kind is Kind.BEGUN and record.unit in before.written(record.stage):
            found.append(f"{record.n}: {record.stage} {record.unit}")
    return found


def contract_is_kept(tmp_path: Path, kills: int, callers: int) -> None:
    profile, out = tmp_path / "p.yaml", tmp_path / "runs" / "a"
    profile.write_text(PROFILE)
    chance = random.Random(4711)
    for _ in range(kills):
        caller = called(profile, out)
        kill_whoever_works(out, chance.uniform(0.5, 4.0))
        caller.kill()  # cut off as well: what it started goes on without it
        caller.communicate()

    together = [called(profile, out, "--json") for _ in range(callers)]
    answers = [(one.communicate(timeout=200), one.returncode) for one in together]

    assert {code for _, code in answers} == {1}, answers
    for (told, _), _ in answers:
        assert checked(told, "attach")["directory"] == str(out)
    result = json.loads((out / "result.json").read_text())
    assert result["finished_at"]
    # Two seconds settle no repeat, so the writes get the three extra ones.
    assert [len(point["repeats"]) for stage in result["stages"] for point in
            stage["found"].get("points", ())] == [2, 5]  # fmt: skip
    records = stored_records(out / "journal.jsonl")
    assert [r.kind for r in records].count(Kind.RUN) == 1
    assert repeated_in_vain(out) == []
    finished = [(r.stage, r.unit) for r in records if r.kind is Kind.FINISHED and "/" in r.unit]
    assert len(finished) == len(set(finished))

    # What is over stays as it is, and nothing else is taken for it.
    size = (out / "journal.jsonl").stat().st_size
    profile.write_text(PROFILE.replace("repeats: 2", "repeats: 3"))
    refused = called(profile, out)
    assert "another profile" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    assert (out / "journal.jsonl").stat().st_size == size


def test_killed_and_called_by_three_at_once_nothing_is_done_twice(tmp_path: Path) -> None:
    contract_is_kept(tmp_path, kills=2, callers=3)


@pytest.mark.soak
def test_killed_at_many_moments_nothing_is_done_twice(tmp_path: Path) -> None:
    for number in range(int(os.environ.get("SSDBENCH_KILLS", "20"))):
        (tmp_path / str(number)).mkdir()
        contract_is_kept(tmp_path / str(number), kills=8, callers=6)
