"""Standard tests end to end on a simulated drive, with the real fio, scaled to seconds."""

import json
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ssdbench.generator.base import Job
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.simulated import SimAttachment
from ssdbench.host.command import run, spawn
from ssdbench.model.profile.standard import PtsForm
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from ssdbench.stages.pts.tests import Setting, composite
from ssdbench.target.inspect import inspect

pytestmark = pytest.mark.host

PROFILE = """
target: sim:x25m-g2-160,capacity=256MiB
purge: format
measure: [{pts: {tests: [%s], form: client, scale: %s}}]
"""


@pytest.mark.parametrize(("test", "scale"), [("throughput", 0.02), ("saturation", 0.02)])
def test_a_scaled_standard_test_runs_from_its_purge_to_its_report(
    tmp_path: Path, test: str, scale: float
) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE % (test, scale))
    argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]

    done = run([*argv, "--output", str(tmp_path / "run")], ok=(1,), timeout_s=200)

    (stage,) = json.loads((tmp_path / "run" / "result.json").read_text())["stages"]
    assert stage["complete"] and stage["found"]["preparation"][0]["step"] == "purge"
    measured = stage["found"]["samples" if test == "saturation" else "means"]
    assert all(record["iops"] > 0 for record in measured)
    assert "steady by the PTS rule" in done.stdout
    assert "Header" in (tmp_path / "run" / "report.html").read_text()


def test_pauses_between_bursts_leave_the_simulated_drive_idle(tmp_path: Path) -> None:
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=0, iodepth=4, numjobs=2,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 28),
        burst_us=5_000_000, thinktime_us=10_000_000,
    )  # fmt: skip
    (tmp_path / "fio").mkdir()
    with SimDrive.create(parse("sim:x25m-g2-160,capacity=256MiB"), tmp_path / "a.ssdb") as drive:
        job = Job("bursts", workload, 3, runtime_s=75)
        with Fio(SimAttachment(drive, step_s=5)).start([job], artifacts=tmp_path / "fio") as fio:
            seconds = list(fio)

    idle = sum(second.ios == 0 for second in seconds[15:75])
    assert 36 <= idle <= 40  # four cycles of 10 s, less what the last burst left in the queue


def test_fio_mixes_the_composite_workload_as_it_is_asked_to(tmp_path: Path) -> None:
    with SimDrive.create(parse("sim:x25m-g2-160,capacity=256MiB"), tmp_path / "a.ssdb") as drive:
        target = inspect("sim:x25m-g2-160,capacity=256MiB")
        (test,) = composite("composite", Setting(target, PtsForm.CLIENT, 5))
        workload = next(c.workload for c in test.cells if c.name == "T2 Q4")
        job = Job("mixed", workload, 3, runtime_s=5, latency_log=True)
        (tmp_path / "fio").mkdir()
        with Fio(SimAttachment(drive)).start([job], artifacts=tmp_path / "fio") as fio:
            list(fio)
            (done,) = fio.outcome().jobs
            offsets = np.asarray(fio.outcome().logged("mixed").offset_bytes)

    ios, moved = done.read.ios + done.write.ios, done.read.bytes + done.write.bytes
    hot = float((offsets < 0.05 * workload.range.length_bytes).mean())
    assert ios > 2_000
    assert done.read.ios / ios == pytest.approx(0.4, abs=0.05)
    assert moved / ios == pytest.approx(7818, rel=0.12)  # the mean of the twelve sizes
    assert hot == pytest.approx(0.5, abs=0.05)


def finished(directory: Path, unit: str) -> int:
    """How often the journal says that a unit was finished."""
    journal = directory / "journal.jsonl"
    text = journal.read_text() if journal.exists() else ""
    kept = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return sum(r["kind"] == "finished" and r.get("unit") == unit for r in kept)


def test_a_standard_test_goes_on_after_a_kill_and_is_steady_anew(tmp_path: Path) -> None:
    profile, output = tmp_path / "profile.yaml", tmp_path / "run"
    profile.write_text(PROFILE % ("throughput", 0.02))
    ssdbench = [sys.executable, "-m", "ssdbench"]
    process = spawn(
        [*ssdbench, "run", str(profile), "--output", str(output)],
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
    )
    # Four of the five rounds that it needs at least are still to come.
    deadline = time.monotonic() + 120
    while not finished(output, "round-01") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send(signal.SIGKILL)
    process.wait()
    before = [n for n in range(1, 26) if finished(output, f"round-{n:02d}")]
    assert before and not (output / "result.json").exists(), (tmp_path / "err").read_text()

    run([*ssdbench, "resume", str(output)], ok=(1,), timeout_s=200)

    (stage,) = json.loads((output / "result.json").read_text())["stages"]
    found = stage["found"]
    rounds = [one["number"] for one in found["rounds"]]
    uncounted = [one["number"] for one in found["rounds"] if not one["counted"]]
    assert stage["complete"]
    assert [finished(output, f"round-{n:02d}") for n in rounds] == [1] * len(rounds)
    assert uncounted == [len(before) + 1]  # the drive had time to recover
    assert len(found["preparation"]) == 2  # purged and filled once, before the kill
    assert len(rounds) >= 6
    assert found["windows"][0]["last_round"] == rounds[-1] or not found["steady"]
