"""Real runs of fio on a population of simulated drives: the planted slow ones are found."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import checked

pytestmark = [pytest.mark.host, pytest.mark.beside]

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


def ssdbench(*arguments: object) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "ssdbench", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=3600)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_slow_drives_of_twenty_are_found_and_the_one_cut_short_has_failed(
    tmp_path: Path,
) -> None:
    profile, lot = tmp_path / "lot.yaml", tmp_path / "lot"
    profile.write_text(PROFILE)
    for number in range(1, DRIVES + 1):
        options = ["--max-time", "75m"] if number == CUT_SHORT else []
        where = ["--target", a_drive(number), "--output", lot / f"{number:02d}"]
        done = ssdbench("run", profile, *where, "--seed", number, *options)
        assert done.returncode == (1 if number == CUT_SHORT else 0), done.stderr

    done = ssdbench("merge", lot, "--lot", 200, "--html", tmp_path / "lot.html", "--json")

    rates = checked(done.stdout, "merge")["points"][0]["rates"]
    assert [place for place, rate in enumerate(rates, start=1) if rate["odd"]] == list(SLOW)
    assert [place for place, rate in enumerate(rates, 1) if rate["failing"]] == [CUT_SHORT]
    assert done.returncode == 1 and "drive" in (tmp_path / "lot.html").read_text()
