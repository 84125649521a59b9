"""What an I/O costs, where it is completed, and threads on one file, on a loop device."""

import sys
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.model.found import Comparison
from ssdbench.model.kind import StageKind
from ssdbench.model.result import RunResult
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.devices import attached_loop

pytestmark = pytest.mark.host

PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
measure:
  - cpu_cost: {repeats: 1, window: 1s}
  - interrupts: {repeats: 1, window: 1s}
  - file_mix: {type: ext2, threads: [1, 2], read: 50, file: 8MiB, window: 1s}
"""


def test_costs_of_the_host_and_mixes_of_a_file_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    with attached_loop(tmp_path / "disk.img", size_bytes=128 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]
        run([*argv, "--output", str(tmp_path / "run")], ok=(0, 1), timeout_s=300)
    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())
    found = {one.kind: one for _, one in result.having(Comparison)}

    costs = found[StageKind.CPU_COST].medians
    assert costs and all(cell.cpu_us_per_io and cell.cpu_us_per_io > 0 for cell in costs)
    placed = found[StageKind.INTERRUPTS].medians
    tried = {cell.variant.partition(",")[0] for cell in placed}
    assert {"rq_affinity 0", "rq_affinity 1", "rq_affinity 2"} <= tried
    mixes = found[StageKind.FILE_MIX]
    assert mixes.file_system == "ext2"
    assert {cell.workload for cell in mixes.medians} == {"random, 50 % reads"}
    assert {cell.variant for cell in mixes.medians} == {"1 thread", "2 threads"}
    assert all(cell.iops > 0 for cell in mixes.medians)
