"""Whole runs with real fio on a loop device; those that are killed are in test_kill_restore.py."""

import json
import sys
import time
from pathlib import Path

import pytest

from ssdbench.host.command import Process, run, spawn
from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice

pytestmark = pytest.mark.host

SIMULATED = """
title: A short run
target: sim:x25m-g2-160,capacity=1GiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: snia}
repeats: 2
window: 20s
settle: {window: 60s}
measure: [{sweep: {block: 4KiB, read: [100, 0]}}]
"""
LOOP = """
title: A short run on a loop device
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {block: [512, 4KiB], where_possible: true, read: [100, 0], iodepth: 4}}]
"""
SSDBENCH = [sys.executable, "-m", "ssdbench"]


def start(tmp_path: Path, text: str) -> Process:
    profile = tmp_path / "profile.yaml"
    profile.write_text(text)
    argv = [*SSDBENCH, "run", str(profile), "--output", str(tmp_path / "run")]
    return spawn(argv, stdout=tmp_path / "stdout", stderr=tmp_path / "stderr")


def records(path: Path) -> list[dict[str, str]]:
    try:
        return [json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()]
    except (FileNotFoundError, ValueError):
        return []


def wait_for(path: Path, stage: str, *, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any(r["kind"] == "begun" and r.get("stage") == stage for r in records(path)):
            return
        time.sleep(0.02)
    pytest.fail(f"{stage} never began: {records(path)[-1:]}")


def test_a_loop_device_is_measured_and_never_plannable(
    tmp_path: Path, loop_device: LoopDevice
) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(LOOP)
    info = inspect(str(loop_device.node))
    argv = [*SSDBENCH, "run", str(profile), "--target", info.name, "--destroy", info.id]

    run([*argv, "--output", str(tmp_path / "run")], ok=(1,), timeout_s=200)

    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["verdict"] == "MEASURED, NOT PLANNABLE"
    points = [p for s in result["stages"] for p in s["found"].get("points", ())]
    blocks = {point["point"]["workload"]["block_bytes"] for point in points}
    assert blocks == ({512, 4096} if info.logical_block_bytes == 512 else {4096})


def test_a_loop_device_is_not_written_without_consent(
    tmp_path: Path, loop_device: LoopDevice
) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(LOOP)
    argv = [*SSDBENCH, "run", str(profile), "--target", str(loop_device.node)]

    refused = run([*argv, "--output", str(tmp_path / "run")], ok=(3,), timeout_s=120)

    assert "--destroy" in refused.stderr
    assert not (tmp_path / "run").exists()
