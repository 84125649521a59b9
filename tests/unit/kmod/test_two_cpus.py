"""The modules' code on threads that stand for two CPUs, and the pages of what was measured so."""

import os
import re
from pathlib import Path

import pytest

from benchmarks.two_cpus import NEAR_NS, PROGRAMS, ROOT, Row, main, ratio, table
from ssdbench.errors import CommandFailed
from ssdbench.host import command
from tests.support.sanitized import unraced

INTERRUPTS, MERGE = PROGRAMS["interrupts"], PROGRAMS["merge"]
CPUS = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
BOTH = [CPUS[0], CPUS[-1]]


def cases(text: str) -> list[tuple[str, list[str]]]:
    """What a program printed of each case: its name and its numbers."""
    lines = [line.split() for line in text.splitlines()]
    return [(line[0], line[1:]) for line in lines if line[0] != "machine"]


def named(name: str) -> set[str]:
    """All cases that the ratios of a program name."""
    return {case for pair in PROGRAMS[name].ratios for case in pair}


def test_every_interrupt_ends_its_read_once_where_its_arrangement_says_and_without_a_race(
    tmp_path: Path,
) -> None:
    program = INTERRUPTS.build(tmp_path, "-O1", "-fsanitize=thread")

    printed = cases(unraced([str(program), "0", "2", "3", "0", "flag", *BOTH]))
    ends = {case: numbers for case, (timed, *numbers) in printed if timed == "end"}

    assert ends.keys() == named("interrupts") | named("slots")
    assert {case: int(numbers[0]) for case, numbers in ends.items()} == dict.fromkeys(ends, 384)
    moved = {case: int(numbers[4]) for case, numbers in ends.items()}
    # Tags belong to no CPU, but on a list for each CPU they stay with the one that ends them.
    assert moved.pop("two") <= 384
    assert moved.pop("two-lists") <= 384
    wakes_of = {"one": 192, "origin": 0, "each": 0, "same": 0, "other": 384}
    assert moved == wakes_of | {"one-lists": 192, "origin-lists": 0, "each-lists": 0}
    wakes = {case: int(numbers[5]) for case, numbers in ends.items()}
    assert all(wakes[case] == count for case, count in moved.items())


@pytest.mark.parametrize("idle", ["halt", "awake"])
def test_every_read_ends_once_in_a_command_and_without_a_race(tmp_path: Path, idle: str) -> None:
    program = MERGE.build(tmp_path, "-O1", "-fsanitize=thread")

    # However busy the host is, each thread reads some while it is counted.
    words = ["0", "0", "8", "1", idle, *BOTH]
    printed = cases(unraced([str(program), *words]))  # fails if a read is lost

    counts = {case: [int(number) for number in numbers[2:]] for case, numbers in printed}
    assert counts.keys() == named("merge")
    for case, (ended, commands, behind, _, _, moved, wakes, elsewhere, _) in counts.items():
        assert behind < commands <= ended, case
        assert elsewhere <= wakes, case
        if case in ("one", "alone-one", "worker"):  # one command at a time
            assert behind == 0, case
        if case in ("each", "alone-one", "alone-two", "workers"):  # one CPU for each pile
            assert moved == 0, case


def test_a_winner_leaves_its_cpu_to_a_thread_that_wants_it(tmp_path: Path) -> None:
    program = MERGE.build(tmp_path)

    words = ["0", "5", "2", "8", "halt", *BOTH]
    counts = dict(cases(command.run([str(program), *words], timeout_s=60).stdout))

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
    program = MERGE.build(tmp_path, *wrong)

    words = ["0", "5", "2", "8", "halt", *BOTH]
    with pytest.raises(CommandFailed, match=told):
        command.run([str(program), *words], timeout_s=60)


INTERRUPTED = """machine line {before}
one end 1280 128000 10 2 640 640 0
two loop 1280 64000 20 4 0 0 1
machine line {after}
"""
MERGED = """machine line {before}
machine wake 2000
one 100 160000 120 30 0 60000 240 60 120 90 15
each 0 160000 2 1 0 0 0 0 0 0 0
machine line {after}
machine wake 4000
"""


def test_a_start_is_told_per_read_unless_its_cpus_moved_apart() -> None:
    def interrupts(after: int) -> list[Row]:
        text = INTERRUPTED.format(before=30, after=after)
        return INTERRUPTS.rows(text, 3, ["8", "40", "250", "flag"])

    def merge(after: int) -> list[Row]:
        text = MERGED.format(before=30, after=after)
        return MERGE.rows(text, 3, ["16", "8", "4", "halt"])

    assert interrupts(34) == [
        Row(6, 32, "flag, 250 ns of work, end", "one", 100.0),
        Row(6, 32, "flag, 250 ns of work, loop", "two", 50.0),
    ]
    assert merge(34) == [Row(7, 32, "drive 4x slower, 8 threads", "one", 1600.0)]
    assert interrupts(160) == merge(160) == []


def planted(ratios: list[float]) -> list[Row]:
    """Starts in which two lines are so much faster than one."""
    found = []
    for start, faster in enumerate(ratios):
        slow = 100.0 + 50 * start  # what all cases of a start share drops out
        found.append(Row(start, 30, "", "one", slow))
        found.append(Row(start, 30, "", "two", slow / faster))
    return found


def test_the_ratio_is_of_the_pairs_of_each_start() -> None:
    told = ratio(planted([1.48] * 8), "two", "one")
    noisy = ratio(planted([1.3, 1.4, 1.45, 1.48, 1.5, 1.52, 1.6, 9.0]), "two", "one")

    assert told == pytest.approx((1.48, 1.48, 1.48))
    assert noisy is not None
    assert 1.3 <= noisy[1] < 1.48 < noisy[0] < 1.6 < noisy[2]
    assert ratio(planted([1.48] * 5), "two", "one") is None  # too few for 95 %


def test_every_ratio_of_lists_of_slots_follows_from_the_stored_rows() -> None:
    program = PROGRAMS["slots"]
    page = (ROOT / "docs" / "interrupt-cpus.md").read_text()
    part = page.partition("<!-- slot ratios -->\n")[2].partition("<!-- /slot ratios -->")[0]
    told = {
        (line.split(" | ")[0][2:], cell)
        for line in part.splitlines()
        for cell in line.strip("| ").split(" | ")
        if "…" in cell
    }
    found = {
        (line.split(" | ")[0][2:], line.split(" | ")[-1][:-2])
        for line in table(program, program.kept()).splitlines()
    }

    assert len(told) > 30
    assert told - found == set()


@pytest.mark.parametrize("name", ["interrupts", "merge"])
def test_every_ratio_of_the_page_follows_from_the_stored_rows(name: str) -> None:
    program = PROGRAMS[name]
    page = (ROOT / "docs" / f"{program.stored.stem}.md").read_text()
    marked = re.findall(r"<!-- ratios -->\n(.*?)<!-- /ratios -->", page, re.DOTALL)
    told = {
        (line.split(" | ")[0][2:], cell)
        for line in "".join(marked).splitlines()
        for cell in line.strip("| ").split(" | ")
        if "…" in cell
    }
    rows = program.kept()
    found = {
        (line.split(" | ")[0][2:], line.split(" | ")[-1][:-2])
        for line in table(program, rows).splitlines()
    }

    assert len(told) > 30
    assert told - found == set()
    assert {row.line_ns < NEAR_NS for row in rows} == {True, False}


@pytest.mark.parametrize("cpus", ["0,4095", "0,0", "0", "0,x", ""])
def test_what_is_not_two_cpus_is_refused_in_a_sentence(
    cpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["merge", "--cpus", cpus])

    assert "give two CPUs of" in capsys.readouterr().err
