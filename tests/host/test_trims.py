"""Trims of the user's jobs with real fio on a loop device, which makes holes of them."""

import sys
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.model.result import RunResult
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.devices import LoopDevice

pytestmark = pytest.mark.host

TRIMS = """
title: Trims on a loop device
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
repeats: 1
window: 2s
settle: {window: 1s, flat: 1s, max_time: 2s}
measure:
  - mix:
      name: files
      streams:
        - {name: data, rate_iops: 100, span: 50%}
        - {name: deleted, trim: 100, block: 64KiB, pattern: sequential, offset: 50%, rate_iops: 100}
"""


def test_a_trim_makes_a_hole_in_the_file_behind_a_loop_device(tmp_path: Path, memory: Path) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(TRIMS)
    with LoopDevice.several(memory) as make:
        loop = make(size_bytes=64 * MIB)
        info = inspect(str(loop.node))
        run(
            [
                *(sys.executable, "-m", "ssdbench", "run", str(profile), "--target", info.name),
                *("--destroy", info.id, "--output", str(tmp_path / "out")),
            ],
            ok=(0, 1),
        )
        held = loop.backing.stat().st_blocks * 512
    result = RunResult.model_validate_json((tmp_path / "out" / "result.json").read_text())
    (point,) = (point for stage in result.stages for point in stage.points)
    _, deleted = point.streams

    assert {e.direction for e in deleted.estimates} == {"trim", "total"}
    trims = next(e.value for e in deleted.estimates if e.metric == "iops")
    assert trims == pytest.approx(100, rel=0.4)
    assert held <= 64 * MIB - 100 * 64 * 1024  # the fill held all of it; a second of trims is gone
    assert {e.direction for e in point.estimates} == {"total", "write"}
