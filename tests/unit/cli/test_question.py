"""A planner's question from the command line: what `plan` says of it, and the true answer."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.model.rates import LoadFound
from ssdbench.report.read import StoredRun
from tests.support.documents import checked

TARGET = "sim:x25m-g2-160,capacity=256MiB"
QUESTION = """\
title: VMs
plan: {vms: 240, iops_each: 50, read: 70, block: 4KiB, p99: {read: 10ms}, spares: 2}
"""
NO_POINT = """\
measure:
  - rate: {block: 4KiB, read: 70, limit: 10ms}
plan: {demand_iops: 12000, read: 70, block: 8KiB, p99: {read: 10ms}, endurance_tb: 30}
"""
# The same stages as for `plan` alone, without the search and with fewer repeats, so not VALIDATED.
SHORT = """\
title: Writes
precondition: [{pattern: sequential, block: 128KiB, fill: 2}, {pattern: random, fill: 2}]
repeats: 2
measure:
  - sweep: {block: 4KiB, read: 0, iodepth: 32}
  - load: {block: 4KiB, read: 0, planned: true, clients: 128}
plan: {vms: 240, iops_each: 50, block: 4KiB, read: 0, p99: {write: 5s}, endurance_tb: 1000}
"""


def planned(tmp_path: Path, text: str, *options: str) -> int:
    profile = tmp_path / "q.yaml"
    profile.write_text(text)
    return run(["plan", str(profile), "--target", TARGET, *options])


def test_a_plan_prints_the_question_with_its_defaults_and_what_nobody_gave(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, QUESTION) == 0

    out = capfd.readouterr().out
    assert (
        "question: 240 VMs x 50 IOPS = 12,000 IOPS of 4 KiB with 70 % reads, p99 of reads at most "
        "10 ms, peak x 1, no growth, spares 2, utilisation 70 %\n"
        "  the drives must carry 12,000 IOPS; this profile measures what the answer needs\n"
        "  not known: the rated endurance of the drive" in out
    )
    assert "5 trials of the planned load of one drive of 4 KiB random 70/30" in out


def test_a_plan_says_before_the_run_what_its_profile_does_not_measure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, NO_POINT, "--json") == 0

    question = checked(capfd.readouterr().out, "plan")["question"]
    assert question["load_iops"] == 12_000 and question["unknown"] == []
    point, p99 = question["missing"]
    assert point.startswith(
        "no point measures 8 KiB with 70 % reads at random over the whole drive"
    )
    assert "add `- sweep: {block: 8KiB, read: 70}`" in point
    assert "add `- load: {block: 8KiB, read: 70, planned: true}`" in p99


def test_the_command_of_a_plan_says_that_this_run_gives_no_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, QUESTION) == 0
    assert "to run it:\n" in capfd.readouterr().out
    assert planned(tmp_path, NO_POINT) == 0
    assert "to run it without an answer:\n" in capfd.readouterr().out


def test_a_plan_without_a_demand_has_no_question(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, "measure: [{sweep: {}}]\n", "--json") == 0
    assert checked(capfd.readouterr().out, "plan")["question"] is None


def test_the_count_and_p99_at_the_planned_load_agree_with_the_true_drive(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.yaml").write_text(SHORT)
    out = tmp_path / "out"
    run(["run", str(tmp_path / "q.yaml"), "--target", TARGET, "--output", str(out)])
    capfd.readouterr()
    assert run(["sim", "truth", TARGET, "--json"]) == 0
    true_iops = json.loads(capfd.readouterr().out)["iops"]

    ((_, found),) = StoredRun.open(out).result.having(LoadFound)
    (planned_round,) = found.planned
    carrying = planned_round.drives - 1
    # The bound is a little below the true rate, so it needs the same drives or a few more.
    least = math.ceil(12_000 / (0.7 * true_iops))
    assert least <= carrying <= math.ceil(1.1 * least)
    assert found.asked_iops == pytest.approx(12_000 / carrying)
    assert planned_round.kept
    (p99,) = [e for e in found.estimates if e.metric == "lat_p99_ns"]
    true_p99_ns = by_fio(tmp_path, found.asked_iops)
    assert p99.value == pytest.approx(true_p99_ns, rel=0.1)
    assert p99.bound is not None and p99.bound > 0.95 * true_p99_ns


def by_fio(tmp_path: Path, iops: float) -> float:
    """Return p99 by fio's own report of an hour at this rate, on the same drive in steady state."""
    (tmp_path / "job.fio").write_text(
        f"""\
[global]
direct=1
thread=1
[fill]
rw=write
bs=128k
[scatter]
stonewall=1
rw=randwrite
bs=4k
iodepth=32
io_size=2g
[load]
stonewall=1
rw=randwrite
bs=4k
numjobs=64
group_reporting=1
rate_iops={round(iops / 64)}
rate_process=poisson
time_based=1
runtime=1h
"""
    )
    command = ["sim", "fio", TARGET, str(tmp_path / "job.fio"), "--", "--output-format=json"]
    done = subprocess.run(
        [sys.executable, "-m", "ssdbench", *command], capture_output=True, text=True, check=True
    )
    jobs = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    return float(jobs[-1]["write"]["clat_ns"]["percentile"]["99.000000"])


def test_a_block_that_the_drive_cannot_take_is_named_at_the_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "q.yaml"
    profile.write_text("title: t\nplan: {vms: 1, iops_each: 40, read: 70, block: 4000}\n")

    assert run(["plan", str(profile), "--target", TARGET]) == 2
    assert "q.yaml:2:48: plan.block: " in capsys.readouterr().err
