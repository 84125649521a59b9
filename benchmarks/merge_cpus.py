"""Temporal merge with one winner at a time or two, on two CPUs: docs/merge-cpus.md.

    python -m benchmarks.merge_cpus [--cpus A,B] [--starts N] [--write] [--pages]

Builds kmod/tests/merge_cpus.c, which runs temporal merge's own code on threads that are bound to
two CPUs, and starts it N times (default 20) for each number of threads, each drive, and idle CPUs
that halt or do not. As root the threads have real-time priority, for some tenths of a second at a
time. `--write` keeps the rows in reports/experiments/merge-cpus.csv and renews the tables of the
page; `--pages` renews them from the rows that are kept.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks import two_cpus
from benchmarks.two_cpus import ROOT, apart, ratio, told

PAGE = ROOT / "docs" / "merge-cpus.md"
ROWS = ROOT / "reports" / "experiments" / "merge-cpus.csv"
THREADS = (2, 8, 16)
SLOWER = (1, 4, 8)
IDLE = ("awake", "halt")
LOOP_MS = 16
REQUEST_NS = 5851  # the drive's peak, as in merge_cpus.c: the paper's 700 MB/s
CASES = {
    "one": "one winner at a time (stm)",
    "two": "two winners (hybrid by kind)",
    "waits-one": "default hybrid, but one winner at a time",
    "waits-two": "default hybrid, two winners",
    "waits-plug": "default hybrid, a plug around each read",
    "each": "a pile for each CPU, each with one winner",
    "alone-one": "all threads on CPU 0, one winner",
    "alone-two": "all threads on CPU 0, two winners",
    "worker": "one worker (ATM)",
    "workers": "a pile and a worker for each CPU (ATM)",
}
RATIOS = {
    ("two", "one"): "two winners over one",
    ("waits-two", "waits-one"): "default hybrid: two winners over one",
    ("waits-one", "one"): "one winner: default hybrid over stm",
    ("waits-two", "two"): "two winners: default hybrid over hybrid by kind",
    ("waits-plug", "waits-two"): "default hybrid: a plug around each read over none",
    ("waits-two", "worker"): "default hybrid over one worker (ATM)",
    ("each", "one"): "a pile for each CPU over one",
    ("each", "two"): "a pile for each CPU over two winners of one",
    ("alone-two", "alone-one"): "on one CPU: two winners over one",
    ("one", "alone-one"): "one winner: two CPUs over one",
    ("two", "alone-two"): "two winners: two CPUs over one",
    ("workers", "worker"): "ATM: two workers over one",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One case of one start; what follows `case` is per read, but for `merged`."""

    start: int
    line_ns: int  # for a line to come from the other CPU's cache; the mean of before and after
    wake_ns: int  # to wake a thread on the other CPU; likewise
    idle: str  # awake | halt: what a CPU does that has no thread to run
    threads: int
    slower: int  # the drive, than the paper's
    case: str
    ns: float
    merged: float  # reads in one command
    behind: float  # commands sent while the drive had another
    idle_ns: float  # of the drive, between commands
    locks: float  # taken whose line came from the other CPU
    moved: float  # ended on another CPU than sent
    wakes: float
    elsewhere: float  # of them, of threads on the other CPU
    alarms: float  # sleeps of a winner until its command is done


def build(into: Path, *flags: str) -> Path:
    """The program, compiled into a directory. Raises SsdbenchError if there is no compiler."""
    sources = [f"flash/{name}.c" for name in ("bio", "slots", "lines", "vector")]
    names = ("entry", "callers", "ways", "order", "piles", "dispatch", "worker", "counters")
    sources += [f"tmerge/{name}.c" for name in names]
    return two_cpus.build(into, "merge_cpus", "merge.h", sources, flags)


def rows(text: str, *, start: int, idle: str, threads: int, slower: int) -> list[Row]:
    """What one start printed; nothing if the CPUs were near before and far after, or otherwise.

    A case without a read in its time, as other programs had the CPUs, is none.
    """
    line_ns = two_cpus.line_ns(text)
    if line_ns is None:
        return []
    wakes = [int(line.split()[2]) for line in text.splitlines() if line.startswith("machine wake")]
    found = []
    for case, numbers in two_cpus.cases(text):
        reads, ns, ended, commands, *counts = map(int, numbers)
        if not reads:
            continue
        each = (round(count / ended, 4) for count in counts)
        found.append(
            Row(
                start, line_ns, sum(wakes) // len(wakes), idle, threads, slower, case,
                round(ns / reads, 1), round(ended / commands, 2), *each,
            )
        )  # fmt: skip
    return found


def measured(cpus: Sequence[int], starts: int) -> Iterator[Row]:
    """Starts of all kinds in turn."""
    kinds = [
        {"idle": idle, "threads": threads, "slower": slower}
        for slower in SLOWER
        for threads in THREADS
        for idle in IDLE
    ]

    def words(start: int, *, idle: str, threads: int, slower: int) -> Sequence[object]:
        return start, LOOP_MS, threads, slower, idle, *cpus

    return two_cpus.started(build, starts, kinds, words, rows)


def tables(found: Sequence[Row]) -> Mapping[str, str]:
    """The parts of the page, by their marks."""
    return {
        "machine": "\n".join(_machine(found)),
        "peak": "\n".join(_peak(found)),
        "ratios": "\n".join(_ratios(found)),
        "counts": "\n".join(_counts(found)),
    }


def _machine(found: Sequence[Row]) -> Iterator[str]:
    yield "| CPUs | idle CPUs | a line comes in | a thread is woken in | starts |"
    yield "|---|---|--:|--:|--:|"
    for where, part in apart(found).items():
        for idle in IDLE:
            own = {(r.start, r.threads, r.slower): r for r in part if r.idle == idle}.values()
            if own:
                cells = [
                    f"{median(times):,.0f} ns ({min(times):,} … {max(times):,})"
                    for times in ([r.line_ns for r in own], [r.wake_ns for r in own])
                ]
                yield f"| {where} | {idle} | {' | '.join(cells)} | {len(own)} |"


def _kinds() -> list[tuple[int, int]]:
    return [(slower, threads) for slower in SLOWER for threads in THREADS]


def _heads() -> str:
    return " | ".join(f"{slower}x, {threads} threads" for slower, threads in _kinds())


def _peak(found: Sequence[Row]) -> Iterator[str]:
    yield f"| share of the peak, idle CPUs awake | {_heads()} |"
    yield "|---|" + "--:|" * len(_kinds())
    for case, name in CASES.items():
        cells = [
            f"{median(shares):.2f}" if shares else "-"
            for slower, threads in _kinds()
            for shares in [
                [
                    REQUEST_NS * slower / row.ns
                    for row in found
                    if (row.case, row.idle, row.slower, row.threads)
                    == (case, "awake", slower, threads)
                ]
            ]
        ]
        if set(cells) != {"-"}:
            yield f"| {name} | {' | '.join(cells)} |"


def _ratios(found: Sequence[Row]) -> Iterator[str]:
    yield f"| ratio of rates | CPUs | {_heads()} |"
    yield "|---|---|" + "--:|" * len(_kinds())
    # A start with CPUs that halt is none of the one with the same number and CPUs awake.
    starts = [replace(row, start=2 * row.start + IDLE.index(row.idle)) for row in found]
    for (over, under), name in RATIOS.items():
        for where, part in apart(starts).items():
            cells = [
                told(ratio([r for r in part if (r.slower, r.threads) == kind], over, under))
                for kind in _kinds()
            ]
            if set(cells) != {"-"}:
                yield f"| {name} | {where} | {' | '.join(cells)} |"


def _counts(found: Sequence[Row]) -> Iterator[str]:
    yield (
        "| 8 threads, idle CPUs awake | drive | reads in a command | sent behind another |"
        " drive idle | locks that came | ended elsewhere | wakes | of them elsewhere |"
        " winners that slept |"
    )
    yield "|---|" + "--:|" * 9
    for case, name in CASES.items():
        for slower in SLOWER:
            own = [
                row
                for row in found
                if (row.case, row.slower, row.threads, row.idle) == (case, slower, 8, "awake")
            ]
            if own:
                cells = [f"{slower}x", f"{median(row.merged for row in own):.1f}"]
                cells += [f"{median(row.behind * row.merged for row in own):.0%}"]
                cells += [f"{median(row.idle_ns / row.ns for row in own):.0%}"]
                cells += [
                    f"{median(getattr(row, count) for row in own):.2f}"
                    for count in ("locks", "moved", "wakes", "elsewhere", "alarms")
                ]
                yield f"| {name} | {' | '.join(cells)} |"


def main(words: Sequence[str]) -> None:
    """Measure, print the tables, and keep them if asked."""
    two_cpus.main(
        words, about=__doc__, starts=20, page=PAGE, rows=ROWS, kind=Row,
        measured=measured, tables=tables,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
