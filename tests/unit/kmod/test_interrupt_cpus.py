"""The drive's interrupts on two threads that play CPUs, and the page of what was measured so."""

import os
from pathlib import Path

import pytest

from benchmarks import interrupt_cpus as bench
from benchmarks import two_cpus
from benchmarks.interrupt_cpus import CASES, Row
from tests.support.sanitized import unraced


def test_every_read_ends_once_where_its_arrangement_says_and_without_a_race(tmp_path: Path) -> None:
    program = bench.build(tmp_path, "-O1", "-fsanitize=thread")

    cpus = sorted(os.sched_getaffinity(0))
    words = ["0", "2", "3", "0", "flag", str(cpus[0]), str(cpus[-1])]
    printed = two_cpus.cases(unraced([str(program), *words]))
    ends = {case: numbers for case, (timed, *numbers) in printed if timed == "end"}

    assert ends.keys() == CASES.keys()
    assert {case: int(numbers[0]) for case, numbers in ends.items()} == dict.fromkeys(CASES, 384)
    moved = {case: int(numbers[4]) for case, numbers in ends.items()}
    assert moved.pop("two") <= 384  # tags belong to no CPU
    assert moved == {"one": 192, "origin": 0, "each": 0, "same": 0, "other": 384}
    wakes = {case: int(numbers[5]) for case, numbers in ends.items()}
    assert all(wakes[case] == count for case, count in moved.items())


PRINTED = """machine line {before}
one end 1280 128000 10 2 640 640 0
two end 1280 64000 20 4 0 0 1
machine line {after}
"""


def test_a_start_whose_cpus_moved_apart_is_left_out() -> None:
    stayed = bench.rows(PRINTED.format(before=30, after=34), start=3, kick="flag", work_ns=0)
    moved = bench.rows(PRINTED.format(before=30, after=160), start=3, kick="flag", work_ns=0)

    assert stayed == [
        Row(3, 32, "flag", 0, "one", "end", 100.0, 0.0078, 0.0016, 0.5, 0.5, 0),
        Row(3, 32, "flag", 0, "two", "end", 50.0, 0.0156, 0.0031, 0.0, 0.0, 1),
    ]
    assert moved == []


def planted(ratios: list[float]) -> list[Row]:
    """Starts in which two lines are so much faster than one."""
    found = []
    for start, faster in enumerate(ratios):
        slow = 100.0 + 50 * start  # what all cases of a start share drops out
        found.append(Row(start, 30, "flag", 0, "one", "end", slow, 0, 0, 0, 0, 0))
        found.append(Row(start, 30, "flag", 0, "two", "end", slow / faster, 0, 0, 0, 0, 0))
    return found


def test_the_ratio_is_of_the_pairs_of_each_start() -> None:
    told = two_cpus.ratio(planted([1.48] * 8), "two", "one")
    noisy = two_cpus.ratio(planted([1.3, 1.4, 1.45, 1.48, 1.5, 1.52, 1.6, 9.0]), "two", "one")

    assert told == pytest.approx((1.48, 1.48, 1.48))
    assert noisy is not None
    assert 1.3 <= noisy[1] < 1.48 < noisy[0] < 1.6 < noisy[2]
    assert two_cpus.ratio(planted([1.48] * 5), "two", "one") is None  # too few for 95 %
