"""A run that is killed at any moment: everything that it changed is put back, nothing is lost.

What is compared is a snapshot of every attribute that a run could touch: the whole queue of the
drive, interrupt affinities, loaded modules, mounts and tracers.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from ssdbench.engine import journal as run_journal
from ssdbench.engine.applied import restore
from ssdbench.host.command import Process, run, spawn
from ssdbench.host.sysfs import Sysfs, chosen
from tests.support.devices import LoopDevice, attached_loop

PROFILE = """\
host: {scheduler: %s, nr_requests: 32, nomerges: 2, rq_affinity: 2, read_ahead_kb: 4}
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: pss-quick, max_time: 4s}
repeats: 1
window: 2s
settle: {max_time: 1s}
measure: [{sweep: {pattern: random, block: 4KiB, read: 0, iodepth: 4, numjobs: 1}}]
"""
# Kept by the run or by the kernel, not set by us.
_MOVING = {"stat", "inflight", "diskseq", "uevent"}


def snapshot(device: LoopDevice) -> dict[str, str]:
    """Everything of this host that a run could change."""
    sysfs = Sysfs()
    base = f"/sys/block/{device.node.name}"
    found = {
        f"{base}/queue/{name}": sysfs.find(f"{base}/queue/{name}") or ""
        for name in sysfs.names(f"{base}/queue")
        if name not in _MOVING
    }
    for irq in sysfs.names("/proc/irq"):
        path = f"/proc/irq/{irq}/smp_affinity_list"
        found[path] = sysfs.find(path) or ""
    found["modules"] = str(sorted(line.split()[0] for line in _lines(sysfs, "/proc/modules")))
    mounts = (line.split(" ", 5)[2:5] for line in _lines(sysfs, "/proc/self/mountinfo"))
    found["mounts"] = str(sorted(mounts))
    found["tracers"] = str(sysfs.names("/sys/kernel/tracing/instances"))
    return found


def _lines(sysfs: Sysfs, path: str) -> list[str]:
    return (sysfs.find(path) or "").splitlines()


def other_scheduler(device: LoopDevice) -> str:
    """One that is offered and not in force."""
    text = Sysfs().read(f"/sys/block/{device.node.name}/queue/scheduler")
    offered = text.replace("[", "").replace("]", "").split()
    return next(name for name in offered if name != chosen(text))


def started(device: LoopDevice, directory: Path, output: Path, state: Path) -> Process:
    (directory / "p.yaml").write_text(PROFILE % other_scheduler(device))
    info = f"loop:{device.backing}:{device.size_bytes}"
    return spawn(
        [
            sys.executable, "-m", "ssdbench", "run", str(directory / "p.yaml"),
            "--target", str(device.node), "--output", str(output), "--destroy", info,
            "--overwrite-signatures",
        ],
        env={"SSDBENCH_SETTINGS": str(state)},
        stdout=directory / f"{output.name}.out",
        stderr=directory / f"{output.name}.err",
    )  # fmt: skip


def fios_on(device: LoopDevice) -> list[str]:
    """Processes named fio that still have the device in their command line or open."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if (process / "comm").read_text().strip() != "fio":
                continue
            links = [os.readlink(fd) for fd in (process / "fd").iterdir()]  # noqa: PTH115
        except OSError:
            continue
        if str(device.node) in links:
            found.append(process.name)
    return found


def kill_once(device: LoopDevice, directory: Path, name: str, after_s: float) -> None:
    """Kill a run after a while, restore, and compare with what was before it."""
    before = snapshot(device)
    state, output = directory / "settings", directory / name
    process = started(device, directory, output, state)
    process.ended(after_s)
    acknowledged = _records(output)
    process.send(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 10
    while fios_on(device) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert fios_on(device) == []
    restore(directory=state)
    assert snapshot(device) == before
    assert list(state.glob("*.jsonl")) == []
    assert _records(output)[: len(acknowledged)] == acknowledged


def _records(output: Path) -> list[object]:
    path = output / run_journal.NAME
    if not path.exists():
        return []
    whole = path.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def test_the_settings_are_really_changed_and_told_in_the_result(tmp_path: Path) -> None:
    with attached_loop(tmp_path / "disk.img", size_bytes=32 << 20) as device:
        before = snapshot(device)

        process = started(device, tmp_path, tmp_path / "run", tmp_path / "settings")
        seen: dict[str, str] = {}
        while not process.ended(0.2):
            seen |= {k: v for k, v in snapshot(device).items() if v != before.get(k)}

        process.wait()
        said = (tmp_path / "run.err").read_text()
        assert (tmp_path / "run/result.json").exists(), said
        settings = json.loads((tmp_path / "run/result.json").read_text())["settings"]
        changed = {entry["setting"] for entry in settings}
        assert "queue/scheduler" in changed
        assert any(name.endswith("queue/scheduler") for name in seen)
        assert all(entry["reason"] and entry["was"] for entry in settings)
        assert snapshot(device) == before


def test_a_run_killed_at_random_moments_leaves_nothing_changed(tmp_path: Path) -> None:
    moments = random.Random(4)
    with attached_loop(tmp_path / "disk.img", size_bytes=32 << 20) as device:
        for number in range(3):
            kill_once(device, tmp_path, f"run{number}", moments.uniform(0.5, 6))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_200_kills_are_restored_and_resumed(tmp_path: Path) -> None:
    moments = random.Random(5)
    with attached_loop(tmp_path / "disk.img", size_bytes=32 << 20) as device:
        for number in range(200):
            kill_once(device, tmp_path, f"run{number}", moments.uniform(0.5, 10))
            if not (tmp_path / f"run{number}/journal.jsonl").exists():
                continue
            run(
                [sys.executable, "-m", "ssdbench", "resume", str(tmp_path / f"run{number}")],
                ok=(0, 1),
                env={"SSDBENCH_SETTINGS": str(tmp_path / "settings")},
            )
