"""Rates at several fill levels in one run, compared with the true rates of a simulated drive."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from ssdbench.model.result import RunResult
from ssdbench.sim.simulation import simulate
from ssdbench.sim.spec import parse
from ssdbench.sim.truth import Load, Rest

pytestmark = pytest.mark.host

TARGET = "sim:x25m-g2-160,capacity=256MiB"
PROFILE = """
purge: discard
fill_level: [60%, 80%, 100%]
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: pss-quick, workload: {block: 16KiB, iodepth: 32}, max_time: 5m}
repeats: 3
window: 30s
settle: {window: 10s, max_time: 30s, unbroken: 10s}
measure:
  - sweep: {block: 16KiB, read: 0, iodepth: 32}
"""


def test_the_rates_at_each_fill_level_are_the_true_ones(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE)
    argv = [sys.executable, "-m", "ssdbench", "run", str(tmp_path / "p.yaml")]
    argv += ["--target", TARGET, "--output", str(tmp_path / "run")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode in (0, 1), done.stderr
    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())

    spec = parse(TARGET)
    writes = {p.point.fill_percent: p for p in result.points if p.point.workload.writes}
    assert list(writes) == [60, 80, 100]
    for point in writes.values():
        span_bytes = point.point.workload.range.length_bytes
        load = Load(block_bytes=16384, span_bytes=span_bytes, rest=Rest.EMPTY)
        true = simulate(TARGET, spec.params, load)
        measured = point.estimate("iops")
        assert measured is not None and measured.bound is not None
        assert measured.value == pytest.approx(true.iops, rel=0.02)
        assert measured.bound <= 1.01 * true.iops  # repeats of half a minute
    page = (tmp_path / "run/report.html").read_text()
    assert "Rates and how full the drive is" in page
    with (tmp_path / "run/summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["fill_percent"] for row in rows] == ["60.0", "80.0", "100.0"]
