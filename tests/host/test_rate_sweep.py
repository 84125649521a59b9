"""A rate sweep and the capacity plan on top of it, through the command line, with real fio."""

import json
import sys
from pathlib import Path

import pytest

from ssdbench.host.command import run

pytestmark = pytest.mark.host

PROFILE = """
title: A rate sweep
target: sim:x25m-g2-160,capacity=1GiB
unit: 4KiB
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: snia}
repeats: 1
window: 10s
settle: {flat: 10s, unbroken: 10s}
measure:
  - sweep: {block: 4KiB, read: 100}
  - rate: {block: 4KiB, read: 100, limit: 2ms, clients: 256, repeats: 1, window: 10s, settle: 2s}
"""
# 256 threads with one request each hardly ever hold each other up, so fio's own p99 from when it
# sends is the truth: 1.974 ms at 3,848 IOPS on this model, 2.023 ms at 4,104.
TRUTH_IOPS = 3_980
# The answer is offered again for two minutes instead of half an hour.
BRIEFLY = (
    "from ssdbench.suite import points; points.UNBROKEN_S = 120.0;"
    "import sys; from ssdbench.cli.main import main; sys.exit(main())"
)


def test_the_rate_at_the_limit_reaches_the_capacity_plan(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE)
    ssdbench = [sys.executable, "-m", "ssdbench"]
    argv = [sys.executable, "-c", BRIEFLY, "run", str(tmp_path / "p.yaml")]

    # One search does not validate.
    run([*argv, "--output", str(tmp_path / "run")], ok=(1,), timeout_s=500)
    argv = [*ssdbench, "capacity", str(tmp_path / "run"), "--iops", "9000", "--p99", "2ms"]
    answer = json.loads(run([*argv, "--read", "100", "--json"], ok=(1,), timeout_s=120).stdout)

    assert 0.8 * TRUTH_IOPS < answer["slo_iops"] < 1.05 * TRUTH_IOPS
    assert answer["slo_iops"] < answer["bound_iops"]
    assert answer["plan"]["bound_iops"] == answer["slo_iops"]
    assert any("too-few-repeats" in reason for reason in answer["reasons"])
