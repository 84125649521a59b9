"""`fleet run --local` on a population of simulated drives: the planted slow ones are found."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.fleet.hostscripts import Job
from ssdbench.fleet.plan import Plan
from tests.support.documents import checked

pytestmark = pytest.mark.host

DRIVES, SLOW, CUT_SHORT = 20, (7, 16), 12
PROFILE = """
title: One drive of a lot
precondition:
  - {pattern: sequential, block: 128KiB, fill: 1}
  - {pattern: random, block: 4KiB, fill: 1}
steady: {rule: pss, workload: {block: 4KiB, iodepth: 32, numjobs: 1}, max_fills: 6}
settle: {window: 2m, flat: 60s, max_fills: 2}
measure: [{sweep: {block: 4KiB, read: 0, iodepth: 32, numjobs: 1}}]
"""


def a_drive(number: int) -> str:
    """One whose flash is as fast as its siblings' to 1.2 %, or a tenth slower."""
    takes = 1 + random.Random(100 + number).gauss(0, 0.012)
    takes /= 0.9 if number in SLOW else 1
    times = {"t_read": 655_000, "t_prog": 1_560_000, "t_erase": 2_000_000}
    set_to = ",".join(f"{name}={round(ns * takes)}ns" for name, ns in times.items())
    return f"sim:x25m-g2-160,capacity=1GiB,seed={number},{set_to}"


def the_lot(count: int, profile_text: str, runs: Path, words: Sequence[str]) -> Plan:
    """What `fleet run --local` measures, with drives of our own."""
    jobs = []
    for number in range(1, count + 1):
        target = a_drive(number)
        cut = ("--max-time", "75m") if number == CUT_SHORT else ()
        jobs.append(
            Job(
                name=f"{number:02d}", host="here", address="here", rack="here", target=target,
                identity=target, model="x25m", serial=str(number), runs=str(runs),
                profile_text=profile_text, ssdbench=tuple(words), simulated=True,
                options=("--seed", str(number), *cut),
            )
        )  # fmt: skip
    return Plan(tuple(jobs))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_slow_drives_of_twenty_are_found_and_the_one_cut_short_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    profile, out = tmp_path / "lot.yaml", tmp_path / "out"
    profile.write_text(PROFILE)
    monkeypatch.setattr("ssdbench.fleet.plan.local_plan", the_lot)
    measure = ["fleet", "run", "--local", str(DRIVES), "--profile", str(profile)]

    assert run([*measure, "--output", str(out), "--json"]) == 0
    told = checked(capfd.readouterr().out, "fleet-run")
    assert {drive["stage"] for drive in told["drives"]} == {"measured"}
    cut = [drive["name"] for drive in told["drives"] if drive["said"] != "VALIDATED"]
    assert cut == [f"{CUT_SHORT:02d}"]

    status, page = tmp_path / "status.html", tmp_path / "lot.html"
    assert run(["fleet", "status", str(out), "--page", str(status)]) == 0
    assert f"{DRIVES} drives: {DRIVES} measured" in capfd.readouterr().out

    code = run(["merge", told["runs"], "--lot", "200", "--html", str(page), "--json"])
    rates = checked(capfd.readouterr().out, "merge")["points"][0]["rates"]
    assert [place for place, rate in enumerate(rates, start=1) if rate["odd"]] == list(SLOW)
    assert [place for place, rate in enumerate(rates, 1) if rate["failing"]] == [CUT_SHORT]
    assert code == 1
    assert "is odd" in page.read_text() and f"{DRIVES} measured" in status.read_text()
