"""A detached run on a loop device: left alone, hung up on, followed, stopped, and completed."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from ssdbench.cli.background import worker
from ssdbench.host.command import run, spawn
from ssdbench.target.inspect import inspect
from tests.host.test_run_and_resume import records, wait_for
from tests.support.devices import LoopDevice, attached_loop
from tests.support.documents import checked

pytestmark = pytest.mark.host

SSDBENCH = [sys.executable, "-m", "ssdbench"]
PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
repeats: 3
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {read: [100, 0], iodepth: 4}}]
"""


@pytest.fixture
def loop(tmp_path: Path) -> LoopDevice:  # type: ignore[misc]
    with attached_loop(tmp_path / "disk.img") as device:
        yield device


def measured(directory: Path) -> list[str]:
    return [
        r["unit"]
        for r in records(directory)
        if r["kind"] == "finished" and "repeat" in r.get("unit", "")
    ]


def test_a_detached_run_outlives_its_terminal_and_is_stopped_and_completed(
    tmp_path: Path, loop: LoopDevice
) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE)
    info, out = inspect(str(loop.node)), tmp_path / "run"
    argv = [*SSDBENCH, "run", str(tmp_path / "p.yaml"), "--target", info.name]

    begun = run([*argv, "--destroy", info.id, "--output", str(out), "--detach"], timeout_s=120)
    assert begun.stdout.strip() == str(out)
    assert f"ssdbench stop {out}" in begun.stderr
    process = worker(out)
    assert process.alive()

    wait_for(out, "03-sweep")
    os.kill(process.pid, signal.SIGHUP)
    follower = spawn([*SSDBENCH, "attach", str(out)], stdout=tmp_path / "o", stderr=tmp_path / "e")
    stopped = checked(run([*SSDBENCH, "stop", str(out), "--json"], timeout_s=120).stdout, "stop")
    assert (stopped["pid"], stopped["exit_code"]) == (process.pid, 130)
    assert follower.wait(120) == 130
    assert "[3/3] Measure the points" in (tmp_path / "e").read_text()
    assert "report.html" in (tmp_path / "o").read_text()
    partial = json.loads((out / "result.json").read_text())
    assert partial["interrupted"]
    assert "interrupted" in (out / "report.html").read_text()
    kept = measured(out)

    went_on = run([*SSDBENCH, "resume", str(out), "--json"], ok=(1,), timeout_s=120)

    document = json.loads(went_on.stdout)
    assert document["verdict"] == "MEASURED, NOT PLANNABLE"
    assert not document["result"]["interrupted"]
    done = measured(out)
    assert done[: len(kept)] == kept
    assert len(done) == len(set(done)) == 6
