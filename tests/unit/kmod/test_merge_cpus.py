"""Temporal merge on threads of two CPUs, and the page of what was measured so."""

import os
from pathlib import Path

import pytest

from benchmarks import merge_cpus as bench
from benchmarks import two_cpus
from benchmarks.merge_cpus import CASES, Row
from ssdbench.errors import CommandFailed
from ssdbench.host import command
from tests.support.sanitized import unraced


@pytest.mark.parametrize("idle", ["halt", "awake"])
def test_every_read_ends_once_in_a_command_and_without_a_race(tmp_path: Path, idle: str) -> None:
    program = bench.build(tmp_path, "-O1", "-fsanitize=thread")

    cpus = sorted(os.sched_getaffinity(0))
    # However busy the host is, each thread reads some while it is counted.
    words = ["0", "0", "8", "1", idle, str(cpus[0]), str(cpus[-1])]
    printed = two_cpus.cases(unraced([str(program), *words]))  # fails if a read is lost

    counts = {case: [int(number) for number in numbers[2:]] for case, numbers in printed}
    assert counts.keys() == CASES.keys()
    for case, (ended, commands, behind, _, _, moved, wakes, elsewhere, _) in counts.items():
        assert behind < commands <= ended, case
        assert elsewhere <= wakes, case
        if case in ("one", "alone-one", "worker"):  # one command at a time
            assert behind == 0, case
        if case in ("each", "alone-one", "alone-two", "workers"):  # one CPU for each pile
            assert moved == 0, case


def test_a_winner_leaves_its_cpu_to_a_thread_that_wants_it(tmp_path: Path) -> None:
    program = bench.build(tmp_path)

    cpus = sorted(os.sched_getaffinity(0))
    words = ["0", "5", "2", "8", "halt", str(cpus[0]), str(cpus[-1])]
    counts = dict(two_cpus.cases(command.run([str(program), *words], timeout_s=60).stdout))

    commands, slept = (int(counts["alone-two"][place]) for place in (3, -1))
    assert slept > commands / 2


@pytest.mark.parametrize(
    ("called", "instead", "told"),
    [
        ("tmerge_enter_watched", "tmerge_enter_async", "not the reads went the synchronous way"),
        ("tmerge_enter_async", "tmerge_enter_watched", "not the reads went the synchronous way"),
        ("flash_bio_data", "flash_undo_create", "other data than its own"),  # it moves none
    ],
)
def test_the_program_ends_where_a_read_went_wrong(
    tmp_path: Path, called: str, instead: str, told: str
) -> None:
    wrong = (f"-Wl,--wrap={called}", f"-Wl,--defsym=__wrap_{called}={instead}")
    program = bench.build(tmp_path, *wrong)

    cpus = sorted(os.sched_getaffinity(0))
    words = ["0", "5", "2", "8", "halt", str(cpus[0]), str(cpus[-1])]
    with pytest.raises(CommandFailed, match=told):
        command.run([str(program), *words], timeout_s=60)


PRINTED = """machine line {before}
machine wake 2000
one 100 160000 120 30 0 60000 240 60 120 90 15
two 200 160000 240 60 30 0 240 0 120 0 15
each 0 160000 2 1 0 0 0 0 0 0 0
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
