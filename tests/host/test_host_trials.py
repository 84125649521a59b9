"""Experiments over the host on a loop device with real fio; settings are put back."""

import sys
from pathlib import Path
from typing import Any

import pytest

from ssdbench.host.command import run
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
  - schedulers: {schedulers: [none, mq-deadline], repeats: 1, window: 1s}
  - engines: {repeats: 1, window: 1s}
"""


def test_schedulers_and_engines_are_compared_and_the_queue_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    with attached_loop(tmp_path / "disk.img", size_bytes=64 * MIB) as loop:
        scheduler = Path(f"/sys/block/{loop.node.name}/queue/scheduler")
        before = scheduler.read_text()
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]

        run([*argv, "--output", str(tmp_path / "run")], ok=(0, 1), timeout_s=300)

        assert scheduler.read_text() == before
    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())
    trials: dict[StageKind, Any] = {s.kind: s.data["medians"] for s in result.stages[2:]}
    assert isinstance(trials[StageKind.SCHEDULERS], list)
    assert {r["variant"] for r in trials[StageKind.SCHEDULERS]} == {"none", "mq-deadline"}
    assert isinstance(trials[StageKind.ENGINES], list)
    latency = {r["variant"]: r["lat_p50_ns"] for r in trials[StageKind.ENGINES]}
    assert latency["page cache hits"] < latency["libaio"] / 5
