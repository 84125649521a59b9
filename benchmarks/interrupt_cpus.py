"""Interrupts on one of two CPUs or on both, with real caches: docs/interrupt-cpus.md.

    python -m benchmarks.interrupt_cpus [--cpus A,B] [--starts N] [--write] [--pages]

Builds kmod/tests/cpus.c, which runs the simulated drive's own code for interrupts on two threads
that play two CPUs, and starts it N times (default 40) for each kind of interrupt and each amount of
other work. As root the threads have real-time priority, for some hundredths of a second at a time.
`--write` keeps the rows in reports/experiments/interrupt-cpus.csv and renews the tables of the
page; `--pages` renews them from the rows that are kept.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import two_cpus
from benchmarks.two_cpus import ROOT, apart, ratio, told

PAGE = ROOT / "docs" / "interrupt-cpus.md"
ROWS = ROOT / "reports" / "experiments" / "interrupt-cpus.csv"
WORK_NS = (0, 250, 500, 1000, 2000)
LOOP_MS, TIMES = 8, 40
CASES = {
    "one": "all on CPU 0",
    "two": "two lines, by tag",
    "origin": "all on CPU 0, ended by calls where sent",
    "each": "a line for each CPU",
    "same": "readers on CPU 0, interrupts on 0",
    "other": "readers on CPU 0, interrupts on 1",
}
RATIOS = {
    ("two", "one"): "figure 6: two lines over one",
    ("origin", "two"): "figure 6: ended where sent, by calls, over two lines",
    ("each", "one"): "a line for each CPU over one",
    ("same", "other"): "figure 3: interrupts on the readers' CPU over the other",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One case of one start; all but `start`, `ns` and the settings are per read."""

    start: int
    line_ns: int  # for a line to come from the other CPU's cache; the mean of before and after
    kick: str  # flag | signal
    work_ns: int
    case: str
    timed: str  # loop | end
    ns: float  # per read
    interrupts: float
    calls: float
    moved: float
    wakes: float
    preempted: int  # times that another program took the CPU


def build(into: Path, *flags: str) -> Path:
    """The program, compiled into a directory. Raises SsdbenchError if there is no compiler."""
    sources = [f"flash/{name}.c" for name in ("bio", "slots", "lines")]
    return two_cpus.build(into, "cpus", "cpus.h", sources, flags)


def rows(text: str, *, start: int, kick: str, work_ns: int) -> list[Row]:
    """What one start printed; nothing if the CPUs were near before and far after, or otherwise."""
    line_ns = two_cpus.line_ns(text)
    if line_ns is None:
        return []
    found = []
    for case, (timed, *numbers) in two_cpus.cases(text):
        reads, ns, *counts, preempted = map(int, numbers)
        interrupts, calls, moved, wakes = (round(count / reads, 4) for count in counts)
        found.append(
            Row(
                start, line_ns, kick, work_ns, case, timed,
                round(ns / reads, 2), interrupts, calls, moved, wakes, preempted,
            )
        )  # fmt: skip
    return found


def measured(cpus: Sequence[int], starts: int) -> Iterator[Row]:
    """Starts of all kinds in turn."""
    kinds = [{"kick": kick, "work_ns": ns} for kick in ("flag", "signal") for ns in WORK_NS]

    def words(start: int, *, kick: str, work_ns: int) -> Sequence[object]:
        return start, LOOP_MS, TIMES, work_ns, kick, *cpus

    return two_cpus.started(build, starts, kinds, words, rows)


def tables(found: Sequence[Row]) -> Mapping[str, str]:
    """The parts of the page, by their marks."""
    return {
        "machine": "\n".join(_machine(found)),
        "cases": "\n".join(_cases(found)),
        "ratios": "\n".join(_ratios(found)),
        "work": "\n".join(_work(found)),
    }


def _machine(found: Sequence[Row]) -> Iterator[str]:
    yield "| CPUs | a line comes in | starts | preempted |"
    yield "|---|--:|--:|--:|"
    for name, part in apart(found).items():
        lines = {(row.start, row.kick, row.work_ns): row.line_ns for row in part}
        if lines:
            taken = sum(row.preempted for row in part)
            middle = f"{median(lines.values()):.0f} ns"
            spread = f"{min(lines.values())} … {max(lines.values())}"
            yield f"| {name} | {middle} ({spread}) | {len(lines)} | {taken} |"


def _cases(found: Sequence[Row]) -> Iterator[str]:
    yield (
        "| case | near: loop | end | far: loop | end | interrupts | calls | ended elsewhere |"
        " woken elsewhere |"
    )
    yield "|---|" + "--:|" * 8
    plain = [row for row in found if row.kick == "flag" and not row.work_ns]
    for case, name in CASES.items():
        own = [row for row in plain if row.case == case]
        cells = []
        for part in apart(own).values():
            for timed in ("loop", "end"):
                times = [row.ns for row in part if row.timed == timed]
                cells.append(f"{median(times):.0f} ns" if times else "-")
        loops = [row for row in own if row.timed == "loop"]
        cells += [
            f"{median(getattr(row, count) for row in loops):.2f}" if loops else "-"
            for count in ("interrupts", "calls", "moved", "wakes")
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def _ratios(found: Sequence[Row]) -> Iterator[str]:
    yield "| ratio of rates | CPUs | loop, flag | loop, signal | ends, flag | ends, signal |"
    yield "|---|---|" + "--:|" * 4
    for (over, under), name in RATIOS.items():
        for where, part in apart([row for row in found if not row.work_ns]).items():
            cells = [
                told(ratio([r for r in part if (r.timed, r.kick) == kind], over, under))
                for kind in (
                    ("loop", "flag"),
                    ("loop", "signal"),
                    ("end", "flag"),
                    ("end", "signal"),
                )
            ]
            yield f"| {name} | {where} | {' | '.join(cells)} |"


def _work(found: Sequence[Row]) -> Iterator[str]:
    work = sorted({row.work_ns for row in found})
    yield f"| ratio of rates, flag | timed | CPUs | {' | '.join(f'{ns} ns' for ns in work)} |"
    yield "|---|---|---|" + "--:|" * len(work)
    for (over, under), name in RATIOS.items():
        for timed in ("loop", "end"):
            own = [row for row in found if (row.kick, row.timed) == ("flag", timed)]
            for where, part in apart(own).items():
                cells = [
                    told(ratio([row for row in part if row.work_ns == ns], over, under))
                    for ns in work
                ]
                yield f"| {name} | {timed} | {where} | {' | '.join(cells)} |"


def main(words: Sequence[str]) -> None:
    """Measure, print the tables, and keep them if asked."""
    two_cpus.main(
        words, about=__doc__, starts=40, page=PAGE, rows=ROWS, kind=Row,
        measured=measured, tables=tables,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
