"""One run of a simulated drive with hidden parameters predicts what the drive does elsewhere."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ssdbench.cli.main import run
from ssdbench.model.point import Estimate, PointResult
from ssdbench.model.workload import ActiveRange, Point, Stream
from ssdbench.sim import fitted
from ssdbench.sim.amplification import Policy
from ssdbench.sim.fit import ALONE, Fit, widened
from ssdbench.suite.prediction import errors_on_real_drives
from ssdbench.units import GIB
from tests.support.builders import StoredRunBuilder, a_target, a_workload
from tests.unit.sim.test_fit import PLANTED, measured, seconds_of

WARM = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: pss, workload: {block: 4KiB, iodepth: 32, numjobs: 4}}
"""
OTHER = """
title: Less full, or skewed
purge: discard
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: pss, workload: {block: 4KiB, iodepth: 32, numjobs: 4}}
measure:
  - sweep: {block: [4KiB, 8KiB], read: 0, iodepth: 128}
  - sweep: {block: 4KiB, read: [70, 0], iodepth: 1}
  - mix: {name: skewed, streams: [{name: a, pattern: zipf, theta: 0.8, iodepth: 128}]}
"""
LEVEL = "fill_level: 80%"
DRIVES = (Policy("greedy"), Policy("dchoice", 16))


def planted(path: Path, policy: Policy = DRIVES[0]) -> Path:
    """A model file with parameters that no prediction is told."""
    hidden = Fit(replace(PLANTED, policy=policy), {}, {}, 0.0)
    text = fitted.model_text(hidden, GIB, "planted", 0)
    path.write_text(text.replace("wbuf: 32MiB", "wbuf: 1MiB"))  # a share as of a real drive
    return path


class Run(StoredRunBuilder):
    """A run whose warm-up has the rates of a planted drive; `profile` is the one it ran."""

    profile = WARM

    def warm(self, rates: np.ndarray) -> "Run":
        self._seconds(self._name("steady"), rates, block_bytes=4096, phase="warmup")
        csv_name = f"stages/{self._name('steady')}/seconds.csv"
        workload = a_workload(range=ActiveRange(offset_bytes=0, length_bytes=GIB))
        found = {"workload": workload, "label": workload.label(), "seconds_csv": csv_name}
        self._stage("steady", "Warm up", found)
        return self

    def skewed(self, bytes_per_s: float) -> None:
        """Add a point of the run with this mean rate: Zipf writes over the whole drive."""
        whole = ActiveRange(offset_bytes=0, length_bytes=GIB)
        options = (("rw", "randwrite"), ("random_distribution", "zipf:0.8"))
        stream = Stream(
            name="a", options=options, random=True, block_sizes=(4096,), mean_bytes=4096,
            read_percent=0, iodepth=128, range=whole,
        )  # fmt: skip
        workload = a_workload(iodepth=128, numjobs=1, range=whole, streams=(stream,), title="mine")
        mean = Estimate(metric="bw_bytes_per_s", unit="B/s", value=bytes_per_s)
        point = PointResult(
            point=Point(id="mine", sweep="03-mix", workload=workload),
            repeats=(),
            estimates=(mean,),
            verdict="VALIDATED",
        )
        self._stage("mix", "Several streams", {"points": (point,)})

    def done(self) -> Path:
        self.write(profile_text=self.profile)
        return self.directory


def a_run(directory: Path) -> Run:
    target = a_target(size_bytes=GIB, model="Planted", sim_model="planted")
    return Run(directory, target)


def said(run_directory: Path, profile: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["sim", "predict", str(run_directory), "--profile", str(profile), "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.yaml"
    path.write_text(OTHER)
    return path


@pytest.mark.parametrize("policy", DRIVES, ids=str)
def test_a_run_predicts_another_workload_and_fill_level_of_a_planted_drive(
    narrow: None, policy: Policy, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = planted(tmp_path / "planted.yaml", policy)
    made = a_run(tmp_path / "run").warm(seconds_of(model, "random")).done()

    skewed = said(made, other, capsys)["points"][-1]
    true = measured(model, "zipf:0.8").steady
    assert skewed["bytes_per_s"] == pytest.approx(true, rel=0.08)
    assert skewed["low_bytes_per_s"] < true < skewed["high_bytes_per_s"]
    assert skewed["iops"] == pytest.approx(skewed["bytes_per_s"] / 4096)

    other.write_text(OTHER + LEVEL)
    warm_up = said(made, other, capsys)["points"][0]
    true = measured(model, "random", GIB * 4 // 5).steady
    assert warm_up["bytes_per_s"] == pytest.approx(true, rel=0.08)
    assert warm_up["low_bytes_per_s"] < true < warm_up["high_bytes_per_s"]


@pytest.fixture
def made(tmp_path: Path) -> Run:
    """A run whose rate falls from 40 to 20 MB/s over three fills."""
    at = np.arange(130)
    return a_run(tmp_path / "run").warm(20e6 + 20e6 * np.exp(-at / 20))


def test_each_answer_is_called_a_prediction_and_none_is_validated(
    narrow: None, made: Run, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    command = ["sim", "predict", str(made.done()), "--profile", str(other), "--csv", str(table)]

    assert run(command) == 0
    out = capsys.readouterr().out
    assert out.startswith("PREDICTION, not measured: ")
    assert "a simulated drive" in out.splitlines()[0]
    assert "A prediction is never VALIDATED" in out
    assert out.count("VALIDATED") == 1
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["label"] for row in rows} == {"PREDICTION"}
    assert [row["point"] for row in rows if row["bytes_per_s"]] == [
        "03-steady", "04-sweep-random-4KiB-r0-qd128x1", "06-mix-phase-1"
    ]  # fmt: skip
    assert said(made.directory, other, capsys)["label"] == "PREDICTION"


def test_what_was_not_compared_with_real_drives_is_not_predicted(
    narrow: None, made: Run, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = said(made.done(), other, capsys)["points"]
    reasons = {one["point"]: one["reason"] for one in points if one["reason"]}

    assert "its block differs" in reasons["04-sweep-random-8KiB-r0-qd128x1"]
    assert "only random writes" in reasons["05-sweep-random-4KiB-r70-qd1x1"]
    assert "fewer requests in flight" in reasons["05-sweep-random-4KiB-r0-qd1x1"]
    assert len(reasons) == 3
    other.write_text(OTHER.replace("purge: discard\n", LEVEL + "\n"))
    partly = said(made.directory, other, capsys)["points"]
    assert all("without a purge" in one["reason"] for one in partly)


def test_a_factor_from_few_runs_is_widened() -> None:
    assert widened(1.21, 15) == pytest.approx(1.331)
    assert widened(1.12, 73) == 1.12
    assert "uniform 1.21 (n 15), zipf 1.12 (n 73)" in errors_on_real_drives()
    assert errors_on_real_drives().endswith("the interval is wider: uniform 1.33")


def test_errors_of_the_run_s_own_points_widen_the_interval(
    narrow: None, made: Run, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = said(made.done(), other, capsys)["points"][-1]
    assert alone["high_bytes_per_s"] / alone["bytes_per_s"] == pytest.approx(ALONE["zipf"][0])

    twice = 2 * alone["bytes_per_s"]
    made.skewed(twice)
    own = said(made.done(), other, capsys)
    assert own["held_out"][0]["measured_bytes_per_s"] == twice
    assert own["held_out"][0]["bytes_per_s"] == alone["bytes_per_s"]
    again = own["points"][-1]
    assert again["high_bytes_per_s"] == pytest.approx(twice)
    assert again["low_bytes_per_s"] == pytest.approx(alone["bytes_per_s"] / 2)


@pytest.mark.parametrize(
    ("profile", "seconds", "says"),
    [
        ("", 130, "after a sequential fill"),
        (WARM.replace("sequential", "random"), 130, "after a sequential fill"),
        (WARM + LEVEL, 130, "without a purge"),
        (WARM, 30, "a prediction needs 1.5"),
    ],
)
def test_a_run_that_does_not_tell_the_drive_is_refused_with_a_sentence(
    profile: str,
    seconds: int,
    says: str,
    other: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = a_run(tmp_path / "run").warm(np.full(seconds, 20e6))
    made.profile = profile or "title: nothing\n"

    assert run(["sim", "predict", str(made.done()), "--profile", str(other)]) == 2
    refused = capsys.readouterr()
    assert says in refused.err
    assert not refused.out


def test_a_run_without_a_warm_up_or_its_seconds_is_refused(
    narrow: None, made: Run, other: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = a_run(tmp_path / "none").done()
    for directory, says in ((none, "has no warm-up"), (tmp_path / "no", "is not a directory")):
        assert run(["sim", "predict", str(directory), "--profile", str(other)]) == 2
        assert says in capsys.readouterr().err
    next(made.done().rglob("seconds.csv")).unlink()
    assert run(["sim", "predict", str(made.directory), "--profile", str(other)]) == 2
    assert "is missing or damaged" in capsys.readouterr().err
