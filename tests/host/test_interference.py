"""Predicted latencies of reads beside writes, compared with measured ones of simulated drives."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ssdbench.model.found import InterferenceCurve, Points
from ssdbench.model.result import RunResult

pytestmark = pytest.mark.host

PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: pss, workload: {block: 4KiB, iodepth: 32}, max_fills: 4}
repeats: 4
window: 60s
settle: {unbroken: 10s}
seed: 1
measure:
"""
STAGE = """
  - interference:
      readers: {iodepth: 4}
      writers: {rate_iops: RATES}
      limit: LIMIT
      settle: {window: 10s, max_time: 30s, unbroken: 10s}
"""


def measured(directory: Path, target: str, stages: str) -> list[InterferenceCurve]:
    (directory / "p.yaml").write_text(PROFILE + stages)
    argv = [sys.executable, "-m", "ssdbench", "run", str(directory / "p.yaml")]
    argv += ["--target", target, "--output", str(directory / "run")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode in (0, 1), done.stderr
    result = RunResult.model_validate_json((directory / "run/result.json").read_bytes())
    assert "interference_kept_iops" in (directory / "run/results.csv").read_text()
    assert "Latency of reads over the write load" in (directory / "run/report.html").read_text()
    return [curve for _, found in result.having(Points) for curve in found.interference]


def predicted_ns(curve: InterferenceCurve, write_iops: float) -> float:
    """The percentile on the lines between the measured loads."""
    loads = [load.write_iops for load in curve.loads]
    logs = np.log([load.value_ns for load in curve.loads])
    return float(np.exp(np.interp(write_iops, loads, logs)))


@pytest.mark.parametrize(
    ("target", "rates", "flush", "limit_ms"),
    [
        # With every change the load with flushes; the others show the same of plain writes.
        ("sim:x25m-g2-160,capacity=1GiB", [44, 110, 175], "flush_every: 1", 39.0),
        pytest.param(
            "sim:x25m-g2-160,capacity=1GiB", [44, 110, 175, 241, 307], "", 4.0,
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "sim:intel320,capacity=1GiB", [908, 1452, 1997, 2541], "", 2.1, marks=pytest.mark.soak
        ),
    ],
)  # fmt: skip
def test_a_mix_that_was_not_measured_is_predicted_within_ten_percent(
    tmp_path: Path, target: str, rates: list[float], flush: str, limit_ms: float
) -> None:
    between = [(low + high) / 2 for low, high in zip(rates, rates[1:], strict=False)]
    stage = STAGE.replace("LIMIT", f"{limit_ms}ms")
    both = "".join(
        stage.replace("RATES", f"{loads}{f', {flush}' if flush else ''}")
        for loads in (rates, between)
    )
    known, held_out = measured(tmp_path, target, both)

    for load in held_out.loads:
        assert predicted_ns(known, load.write_iops) == pytest.approx(load.value_ns, rel=0.10)
    every = sorted((*known.loads, *held_out.loads), key=lambda load: load.write_iops)
    finer = known.model_copy(update={"loads": tuple(every)})
    assert known.likely_iops is not None
    at_the_limit = predicted_ns(finer, known.likely_iops)
    assert at_the_limit == pytest.approx(limit_ms * 1e6, rel=0.10)
    assert known.kept_iops is None or known.kept_iops <= known.likely_iops
