"""The number to plan on, through the command line, on small drives whose long run is known.

The rates were measured over ten hours of the core's own loop on the same drives.
"""

import json
import sys
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult

pytestmark = pytest.mark.host

PROFILE = """
title: The number to plan on
precondition:
  - {pattern: sequential, block: 128KiB, fill: 2}
  - {pattern: random, block: 4KiB, fill: 1}
repeats: 10
window: 60s
settle: {window: 2m, flat: 60s, max_fills: 2}
measure: [{sweep: {block: 4KiB, read: 0, iodepth: 32, numjobs: 1}}]
"""
BODY = """
title: a small drive
sources: [none]
params:
  map_unit_bytes: 4096
  channels: 2
  dies_per_channel: 1
  gc_paced: "stop"
"""
STALLING = f"""{BODY}
  capacity_bytes: 805306368
  op_ppm: 254487
  program_unit_bytes: 16384
  read_unit_bytes: 16384
  erase_block_bytes: 425984
  t_prog_ns: 39230299
  t_read_ns: 3346885
  t_erase_ns: 163483817
  wbuf_bytes: 32768
  gc_policy: "dchoice"
  gc_low: 2
  noise_ppm: 50000
  read_priority: "bypass"
  stall_period_ns: 427462019821
  stall_ns: 51948991165
  stall_random: "no"
  seed: 406780625
"""
BISTABLE = f"""{BODY}
  capacity_bytes: 1073741824
  op_ppm: 90869
  program_unit_bytes: 8192
  read_unit_bytes: 8192
  erase_block_bytes: 401408
  t_prog_ns: 2427911
  t_read_ns: 286219
  t_erase_ns: 7477054
  wbuf_bytes: 1662976
  gc_policy: "fifo"
  gc_low: 4
  noise_ppm: 200000
  read_priority: "fifo"
  bistable_period_ns: 731680664208
  bistable_random: "yes"
  bistable_scope: "programs"
  bistable_slow_ppm: 470299
  seed: 119270016
"""


def measured(tmp_path: Path, target: str, *, ok: int) -> tuple[RunResult, PointResult]:
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    command = [sys.executable, "-m", "ssdbench", "run", str(profile), "--target", target]
    run([*command, "--output", str(tmp_path / "run")], ok=(ok,), timeout_s=580)
    text = (tmp_path / "run" / "result.json").read_text()
    result = RunResult.model_validate(json.loads(text))
    (point,) = result.points
    return result, point


def model(tmp_path: Path, text: str) -> str:
    path = tmp_path / "drive.yaml"
    path.write_text(text)
    return f"sim:{path}"


def test_a_drive_that_stalls_is_planned_at_what_it_does_in_ten_hours(tmp_path: Path) -> None:
    result, point = measured(tmp_path, model(tmp_path, STALLING), ok=0)

    estimate = point.estimate("iops")
    assert result.verdict == "VALIDATED"
    assert estimate is not None
    assert estimate.bound is not None
    assert 0.85 * 53.15 < estimate.bound < 1.02 * 53.15
    assert estimate.value == pytest.approx(53.15, rel=0.02)
    assert point.basis is not None
    assert point.basis.rhythm_s == pytest.approx(427, rel=0.03)


def test_a_drive_of_two_levels_is_planned_on_the_lower_one(tmp_path: Path) -> None:
    result, point = measured(tmp_path, model(tmp_path, BISTABLE), ok=0)

    lower = point.estimate("iops_lower_level")
    assert result.verdict == "VALIDATED"
    assert lower is not None
    assert lower.bound is not None
    assert lower.value == pytest.approx(153.5, rel=0.02)
    assert 0.9 * 153.5 < lower.bound < 1.02 * 153.5


def test_a_drive_that_stepped_down_after_its_warm_up_is_refused(tmp_path: Path) -> None:
    stepping = "sim:x25m-g2-160,capacity=1GiB,step_after_ppm=14000000,step_slow_ppm=1500000"

    result, point = measured(tmp_path, stepping, ok=1)

    estimate = point.estimate("iops")
    changes = [f.message for f in point.findings if f.code == "changed"]
    assert result.verdict == "NOT VALIDATED"
    assert len(changes) == 1
    assert (
        "the rate of the same workload is down 60 %" in changes[0]
    )  # all service takes 2.5 times as long
    assert estimate is not None
    assert 0.25 * 438 < (estimate.bound or 0) < 0.42 * 438  # 438 IOPS before
