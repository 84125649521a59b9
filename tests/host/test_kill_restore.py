"""A run that is killed at any moment: everything that it changed is put back, nothing is lost.

CI kills a few times, in every stage; the soak kills 200 times at moments that chance decides, on
each kind of target, and writes its count to SSDBENCH_SOAK_COUNTS when that names a directory.
"""

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.devices import attached_loop
from tests.support.killing import (
    KilledRuns,
    after,
    every_setting,
    of_the_host,
    once_in,
)
from tests.support.warm import Forks

pytestmark = pytest.mark.alone  # what all of the host shares is compared

PROFILE = """\
host: %s
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {pattern: random, block: 4KiB, read: 50, iodepth: 4, numjobs: 1}}]
"""
SIMULATED = """\
precondition: [{pattern: sequential, block: 128KiB, fill: 8}]
steady: {rule: pss}
repeats: 1
window: 300s
settle: {window: 300s}
measure: [{sweep: {block: 4KiB, read: 50}}]
"""
STAGES = ("01-precondition", "02-steady", "03-sweep")
KINDS = ("loop", "file", "sim")
KILLS = 200
ENDS_AFTER = 10  # kills; then a run may end, so that the next one is killed from its start
FILL_S = 0.05  # on a fast host a fill takes no longer, so that chance alone never meets it
LONGEST_S = 4.0  # so that a run still gets on; kills inside a stage make up for a slow host


@contextmanager
def killed_runs(kind: str, directory: Path) -> Iterator[KilledRuns]:
    """Runs on a target of a kind, with every setting changed that it and this host allow."""
    match kind:
        case "loop":
            with attached_loop(directory / "disk.img", size_bytes=32 * MIB) as device:
                info = inspect(str(device.node))
                target = [
                    "--target",
                    info.name,
                    "--destroy",
                    info.id,
                    "--overwrite-signatures",
                    "--overwrite-data",
                ]
                text = PROFILE % every_setting(device.node.name, idle=True)
                name = device.node.name
                yield KilledRuns(directory, text, target, kernel_name=name, idle=True)
        case "file":
            path = directory / "target.bin"
            with path.open("wb") as file:
                file.truncate(32 * MIB)
            text = PROFILE % f"{{{of_the_host().removeprefix(', ')}}}"
            yield KilledRuns(directory, text, ["--target", str(path)])
        case _:
            target = ["--target", "sim:x25m-g2-160,capacity=1GiB"]
            yield KilledRuns(directory, SIMULATED, target)


def test_every_setting_is_really_changed_and_told_in_the_result(tmp_path: Path) -> None:
    with killed_runs("loop", tmp_path) as runs:
        name = runs.kernel_name
        before, seen = runs.snapshot(), dict[str, str]()

        process = runs.start()
        while not process.ended(0.1):
            seen |= {k: v for k, v in runs.snapshot().items() if v != before.get(k)}
        process.wait()

        said = (tmp_path / "stderr").read_text()
        assert (tmp_path / "run0/result.json").exists(), said
        settings = json.loads((tmp_path / "run0/result.json").read_text())["settings"]
        journalled = [entry for entry in settings if entry["was"]]
        assert all(entry["reason"] for entry in settings)
        assert {f"/sys/block/{name}/{entry['setting']}" for entry in journalled} <= set(seen)
        assert {"queue/scheduler", "queue/nr_requests"} <= {e["setting"] for e in journalled}
        assert "idle latency" in seen or not Path("/dev/cpu_dma_latency").exists()
        assert runs.snapshot() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_in_every_stage_is_put_back_and_resumed(kind: str, tmp_path: Path) -> None:
    with killed_runs(kind, tmp_path) as runs:
        for stage in STAGES:
            runs.kill_in(stage)
        runs.finish()

    tally = runs.tally
    assert tally.troubles == []
    assert set(tally.stages) == set(STAGES)
    assert tally.kills >= len(STAGES)
    assert tally.restored == tally.resumed == tally.kills
    assert tally.ended >= 1
    assert (tally.orphans, tally.lost_records) == (0, 0)


def told(kind: str, runs: KilledRuns) -> None:
    """Keep the count where it is asked for, while it goes on."""
    if counts := os.environ.get("SSDBENCH_SOAK_COUNTS"):
        (Path(counts) / f"kills-{kind}.json").write_text(runs.said() + "\n")


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_200_kills_are_restored_and_resumed(kind: str, tmp_path: Path) -> None:
    moments = random.Random(5)
    with killed_runs(kind, tmp_path) as runs, Forks() as runs.forks:
        while runs.tally.kills < KILLS:
            somewhen = after(moments.uniform(0, LONGEST_S))
            at_work = once_in("", then_s=moments.uniform(0, 3))
            measuring = once_in(STAGES[-1], then_s=moments.uniform(0, 3))
            filling = once_in(STAGES[0], then_s=moments.uniform(0, FILL_S))
            begins = runs.tally.kills % ENDS_AFTER == 0
            if begins and runs.tally.kills:
                runs.finish()
            chances = (0, 0, 0, 1) if begins else (6, 6, 1, 0)
            runs.kill(*moments.choices((somewhen, at_work, measuring, filling), chances))
            told(kind, runs)
        runs.finish()
        told(kind, runs)

    tally = runs.tally
    assert tally.troubles == []
    assert (tally.kills, tally.restored) == (KILLS, KILLS)
    assert tally.resumed + tally.begun_anew == KILLS
    assert set(tally.stages) >= set(STAGES)
    assert (tally.orphans, tally.lost_records) == (0, 0)
