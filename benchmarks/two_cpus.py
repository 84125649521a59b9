"""Run the modules' own code on two threads that stand for two CPUs, with real caches.

    python -m benchmarks.two_cpus interrupts|slots|merge [--cpus A,B] [--starts N] [--stored]

`interrupts` (docs/interrupt-cpus.md) has the simulated drive's interrupts on one CPU or on both;
`slots` has the same with a list of free slots for each CPU, beside one list;
`merge` (docs/merge-cpus.md) has temporal merge with one winner at a time or with two. Each program
is compiled from kmod/tests and started N times for each setting; as root its threads have real-time
priority, for some hundredths of a second at a time. The table shows ratios of rates with 95 %
intervals, apart for CPUs that share a cache (near) and others (far). `--stored` makes it from the
rows behind the two documents.
"""

import argparse
import csv
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.overhead import pseudomedian_and_lower
from benchmarks.tables import markdown
from ssdbench.host import command

ROOT = Path(__file__).parents[1]
KMOD = ROOT / "kmod"
NEAR_NS = 80  # a line comes from a cache that both CPUs share in less


@dataclass(frozen=True, slots=True)
class Row:
    """Hold how long a read took in one case of one start."""

    start: int
    line_ns: float  # for a cache line to come from the other CPU; mean of before and after
    setting: str
    case: str
    ns: float  # per read


@dataclass(frozen=True, slots=True)
class Program:
    """Describe a program of kmod/tests, its settings, and the ratios that are wanted of it."""

    name: str
    fake: str  # what it has in place of the kernel's headers
    sources: tuple[str, ...]
    starts: int
    words: tuple[tuple[str, ...], ...]  # of each start, by setting
    row: Callable[[Mapping[str, str]], tuple[str, int, float, float]]  # setting, turn, reads, ns
    columns: tuple[str, ...]  # what it prints of a case, in this order
    stored: Path
    ratios: Mapping[tuple[str, str], str]

    def build(self, into: Path, *flags: str) -> Path:
        """Compile the program into a directory. Raises SsdbenchError without a compiler."""
        compiled = [KMOD / "tests" / f"{self.name}.c", KMOD / "tests" / "pair.c"]
        compiled += [KMOD / source for source in self.sources]
        folders = {KMOD / "include" / "ssdb", *(path.parent for path in compiled[2:])}
        headers = [path for folder in folders for path in folder.glob("*.h")]
        for source in [*compiled[2:], *headers]:  # the kernel's headers are empty files
            for header in re.findall(r"<((?:linux|trace)/[\w/-]+\.h)>", source.read_text()):
                (into / header).parent.mkdir(parents=True, exist_ok=True)
                (into / header).touch()
        program = into / self.name
        command.run(
            [
                "gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
                "-Wno-unused-parameter", "-Wno-format", "-fno-strict-aliasing", "-pthread", *flags,
                f"-I{into}", "-include", str(KMOD / "tests" / "fake" / self.fake),
                *(str(source) for source in compiled), "-o", str(program),
            ],
            timeout_s=120,
        )  # fmt: skip
        return program

    def rows(self, text: str, start: int, words: Sequence[str]) -> list[Row]:
        """Return what one start printed; nothing where its CPUs became near or far meanwhile.

        A case without a read, because other programs had the CPUs, is left out.
        """
        lines = [line.split() for line in text.splitlines()]
        pings = [int(line[2]) for line in lines if line[:2] == ["machine", "line"]]
        if len({ns < NEAR_NS for ns in pings}) != 1:
            return []
        found = []
        for case, *numbers in (line for line in lines if line[0] != "machine"):
            printed = dict(zip(self.columns, (*words, *numbers), strict=False))
            setting, turn, reads, ns = self.row(printed)
            if reads:
                line_ns = sum(pings) // len(pings)
                found.append(Row(2 * start + turn, line_ns, setting, case, ns / reads))
        return found

    def kept(self) -> list[Row]:
        """Return the rows behind the document."""
        with self.stored.open(newline="") as file:
            found = []
            for one in csv.DictReader(file):
                setting, turn, _, ns = self.row(one | {"reads": "1"})
                start = 2 * int(one["start"]) + turn
                found.append(Row(start, float(one["line_ns"]), setting, one["case"], ns))
            return found

    def measured(self, cpus: Sequence[str], starts: int) -> Iterator[Row]:
        """Start the program for all settings in turn, with a rest after each as long as it took."""
        realtime = ["realtime"] if os.geteuid() == 0 else []
        lost = 0
        with TemporaryDirectory() as into:
            program = self.build(Path(into))
            for start, words in itertools.product(range(starts), self.words):
                began = time.monotonic()
                argv = [str(program), str(start), *words, *cpus, *realtime]
                text = command.run(argv, timeout_s=60).stdout
                time.sleep(time.monotonic() - began)
                found = self.rows(text, start, words)
                lost += not found
                yield from found
        print(f"{lost} starts left out: the CPUs did not stay as near or far as they were")


def _interrupts(printed: Mapping[str, str]) -> tuple[str, int, float, float]:
    setting = f"{printed['kick']}, {printed['work_ns']} ns of work, {printed['timed']}"
    return setting, 0, float(printed["reads"]), float(printed["ns"])


def _merge(printed: Mapping[str, str]) -> tuple[str, int, float, float]:
    """A start with CPUs that halt is not the one with the same number and CPUs awake."""
    setting = f"drive {printed['slower']}x slower, {printed['threads']} threads"
    return setting, int(printed["idle"] == "halt"), float(printed["reads"]), float(printed["ns"])


PROGRAMS = {
    "interrupts": Program(
        "cpus",
        "cpus.h",
        tuple(f"flash/{name}.c" for name in ("bio", "slots", "lines")),
        40,
        tuple(
            ("8", "40", ns, kick)  # ms of a loop, times
            for kick in ("flag", "signal")
            for ns in ("0", "250", "500", "1000", "2000")
        ),
        _interrupts,
        ("ms", "times", "work_ns", "kick", "timed", "reads", "ns"),
        ROOT / "reports" / "experiments" / "interrupt-cpus.csv",
        {
            ("two", "one"): "figure 6: two lines over one",
            ("origin", "two"): "figure 6: ended where sent, by calls, over two lines",
            ("each", "one"): "a line for each CPU over one",
            ("same", "other"): "figure 3: interrupts on the readers' CPU over the other",
        },
    ),
    "slots": Program(
        "cpus",
        "cpus.h",
        tuple(f"flash/{name}.c" for name in ("bio", "slots", "lines")),
        20,
        tuple(("8", "40", ns, "flag") for ns in ("0", "250", "1000")),
        _interrupts,
        ("ms", "times", "work_ns", "kick", "timed", "reads", "ns"),
        ROOT / "reports" / "experiments" / "slot-lists.csv",
        {
            (
                "two-lists",
                "one-lists",
            ): "figure 6: two lines over one, a list of slots for each CPU",
            ("two", "one"): "figure 6: two lines over one, one list of slots",
            ("origin-lists", "two-lists"): (
                "figure 6: ended where sent, by calls, over two lines, a list for each CPU"
            ),
            ("one-lists", "one"): "one line: a list of slots for each CPU over one list",
            ("two-lists", "two"): "two lines: a list of slots for each CPU over one list",
            ("each-lists", "each"): "a line for each CPU: a list for each CPU over one list",
        },
    ),
    "merge": Program(
        "merge_cpus",
        "merge.h",
        tuple(
            f"{folder}/{name}.c"
            for folder, names in (
                ("flash", "bio slots lines vector"),
                ("tmerge", "entry callers ways order piles dispatch worker counters"),
            )
            for name in names.split()
        ),
        20,
        tuple(
            ("16", threads, slower, idle)  # ms of a case
            for slower in ("1", "4", "8")
            for threads in ("2", "8", "16")
            for idle in ("awake", "halt")
        ),
        _merge,
        ("ms", "threads", "slower", "idle", "reads", "ns"),
        ROOT / "reports" / "experiments" / "merge-cpus.csv",
        {
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
        },
    ),
}


def ratio(rows: Sequence[Row], over: str, under: str) -> tuple[float, float, float] | None:
    """Return the ratio of two cases' rates by the pairs of each start: centre and 95 % interval.

    None where there are too few pairs.
    """
    times: dict[str, dict[int, float]] = {over: {}, under: {}}
    for row in rows:
        if row.case in times:
            times[row.case][row.start] = row.ns
    pairs = times[over].keys() & times[under].keys()
    logs = [log(times[under][start] / times[over][start]) for start in sorted(pairs)]
    try:
        centre, low = pseudomedian_and_lower(logs, miss=0.025)
        _, high = pseudomedian_and_lower([-one for one in logs], miss=0.025)
    except ValueError:
        return None
    return exp(centre), exp(low), exp(-high)


def table(program: Program, rows: Sequence[Row]) -> str:
    """Return the table: each ratio, setting and distance of the CPUs."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        where = "near" if row.line_ns < NEAR_NS else "far"
        groups.setdefault((row.setting, where), []).append(row)
    lines = [
        (name, setting, where, "{:.2f} ({:.2f} … {:.2f})".format(*found))
        for (over, under), name in program.ratios.items()
        for (setting, where), part in groups.items()
        if (found := ratio(part, over, under))
    ]
    return markdown(("ratio of rates", "setting", "CPUs", "ratio (95 %)"), lines, right=(3,))


def main(words: Sequence[str]) -> None:
    """Print the table of ratios, measured now or from the stored rows."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("program", choices=PROGRAMS)
    asked.add_argument("--cpus", default="0,1")
    asked.add_argument("--starts", type=int)
    asked.add_argument("--stored", action="store_true")
    wishes = asked.parse_args(words)
    program = PROGRAMS[wishes.program]
    there = {str(cpu) for cpu in os.sched_getaffinity(0)}
    cpus = wishes.cpus.split(",")
    if len(cpus) != 2 or len(there.intersection(cpus)) != 2:
        asked.error(f"--cpus {wishes.cpus}: give two CPUs of {sorted(map(int, there))}, as in 0,1")
    starts = wishes.starts or program.starts
    rows = program.kept() if wishes.stored else list(program.measured(cpus, starts))
    print(table(program, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
