"""Temporal merge on threads of two CPUs, and the page of what was measured so."""

import os
from pathlib import Path

import pytest

from benchmarks import merge_cpus as bench
from benchmarks import two_cpus
from benchmarks.merge_cpus import CASES, Row
from tests.support.sanitized import unraced


@pytest.mark.parametrize("idle", ["halt", "awake"])
def test_every_read_ends_once_in_a_command_and_without_a_race(tmp_path: Path, idle: str) -> None:
    program = bench.build(tmp_path, "-O1", "-fsanitize=thread")

    cpus = sorted(os.sched_getaffinity(0))
    words = ["0", "5", "8", "1", idle, str(cpus[0]), str(cpus[-1])]
    printed = two_cpus.cases(unraced([str(program), *words]))  # fails if a read is lost

    counts = {case: [int(number) for number in numbers[2:]] for case, numbers in printed}
    assert counts.keys() == CASES.keys()
    for case, (ended, commands, behind, _, _, moved, wakes, elsewhere, _) in counts.items():
        assert behind < commands <= ended, case
        assert elsewhere <= wakes, case
        if case in ("one", "alone-one", "worker"):  # one command at a time
            assert behind == 0, case
        if case not in ("one", "two", "worker"):  # who ends a read is on the CPU that sent it
            assert moved == 0, case


PRINTED = """machine line {before}
machine wake 2000
one 100 160000 120 30 0 60000 240 60 120 90 15
two 200 160000 240 60 30 0 240 0 120 0 15
machine line {after}
machine wake 4000
"""


def test_a_start_is_told_per_read_unless_its_cpus_moved_apart() -> None:
    def told(after: int) -> list[Row]:
        text = PRINTED.format(before=30, after=after)
        return bench.rows(text, start=3, idle="halt", threads=8, slower=4)

    assert told(34) == [
        Row(3, 32, 3000, "halt", 8, 4, "one", 1600.0, 4.0, 0.0, 500.0, 2.0, 0.5, 1.0, 0.75, 0.125),
        Row(3, 32, 3000, "halt", 8, 4, "two", 800.0, 4.0, 0.125, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0625),
    ]
    assert told(160) == []
