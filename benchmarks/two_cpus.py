"""What the programs that play two CPUs in user space have in common: building, ratios, pages."""

import argparse
import csv
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter

from benchmarks.signed_rank import pseudomedian_and_lower
from ssdbench.host import command

ROOT = Path(__file__).parents[1]
KMOD = ROOT / "kmod"
NEAR_NS = 80  # a line comes from a cache that both CPUs share in less
_MARK = re.compile(r"(<!-- (\w+) -->\n).*?(?=<!-- /\2 -->)", re.DOTALL)


class Timed(Protocol):
    """One case of one start."""

    @property
    def start(self) -> int: ...
    @property
    def line_ns(self) -> int:
        """For a line to come from the other CPU's cache; the mean of before and after."""

    @property
    def case(self) -> str: ...
    @property
    def ns(self) -> float:
        """Per read."""


AnyRow = TypeVar("AnyRow")
AnyTimed = TypeVar("AnyTimed", bound=Timed)


def build(into: Path, name: str, fake: str, sources: Iterable[str], flags: Sequence[str]) -> Path:
    """kmod/tests/NAME.c with `sources` of kmod. Raises SsdbenchError if there is no compiler.

    The kernel's headers are empty files: all of them is in kmod/tests/fake/FAKE.
    """
    compiled = [KMOD / "tests" / f"{name}.c", KMOD / "tests" / "pair.c"]
    compiled += [KMOD / source for source in sources]
    folders = {KMOD / "include" / "ssdb", *(path.parent for path in compiled[2:])}
    for source in [*compiled[2:], *(path for folder in folders for path in folder.glob("*.h"))]:
        for header in re.findall(r"<((?:linux|trace)/[\w/-]+\.h)>", source.read_text()):
            (into / header).parent.mkdir(parents=True, exist_ok=True)
            (into / header).touch()
    program = into / name
    command.run(
        [
            "gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
            "-Wno-unused-parameter", "-Wno-format", "-fno-strict-aliasing", "-pthread", *flags,
            f"-I{into}", "-include", str(KMOD / "tests" / "fake" / fake),
            *(str(source) for source in compiled), "-o", str(program),
        ],
        timeout_s=120,
    )  # fmt: skip
    return program


def line_ns(text: str) -> int | None:
    """The mean of before and after; None if the CPUs were near before and far after, or so."""
    lines = [line.split() for line in text.splitlines()]
    pings = [int(line[2]) for line in lines if line[:2] == ["machine", "line"]]
    return sum(pings) // len(pings) if len({ns < NEAR_NS for ns in pings}) == 1 else None


def cases(text: str) -> list[tuple[str, list[str]]]:
    """What a program printed of each case: its name and its numbers."""
    lines = [line.split() for line in text.splitlines()]
    return [(line[0], line[1:]) for line in lines if line[0] != "machine"]


def started(
    built: Callable[[Path], Path],
    starts: int,
    kinds: Sequence[Mapping[str, Any]],
    words: Callable[..., Sequence[object]],
    rows: Callable[..., list[AnyRow]],
) -> Iterator[AnyRow]:
    """Starts of all kinds in turn, with a rest after each as long as it took.

    `words` are the program's, in real time where that is allowed; `rows` are of what it printed.
    """
    realtime = ["realtime"] if os.geteuid() == 0 else []
    lost = 0
    with TemporaryDirectory() as into:
        program = built(Path(into))
        for start in range(starts):
            for kind in kinds:
                began = time.monotonic()
                argv = [str(program), *map(str, words(start, **kind)), *realtime]
                text = command.run(argv, timeout_s=60).stdout
                time.sleep(time.monotonic() - began)
                found = rows(text, start=start, **kind)
                lost += not found
                yield from found
    print(f"{lost} starts left out: the CPUs did not stay as near or far as they were")


def ratio(found: Sequence[Timed], over: str, under: str) -> tuple[float, float, float] | None:
    """Of the rates, by the pairs of each start: centre and 95 % interval; None for too few."""
    times: dict[str, dict[int, float]] = {}
    for row in found:
        times.setdefault(row.case, {})[row.start] = row.ns
    pairs = times.get(over, {}).keys() & times.get(under, {}).keys()
    logs = [log(times[under][start] / times[over][start]) for start in sorted(pairs)]
    try:
        centre, low = pseudomedian_and_lower(logs, miss=0.025)
        _, high = pseudomedian_and_lower([-one for one in logs], miss=0.025)
    except ValueError:
        return None
    return exp(centre), exp(low), exp(-high)


def told(found: tuple[float, float, float] | None) -> str:
    """A ratio in a cell."""
    return "{:.2f} ({:.2f} … {:.2f})".format(*found) if found else "-"


def apart(found: Sequence[AnyTimed]) -> dict[str, list[AnyTimed]]:
    """Starts whose CPUs shared a cache, and others."""
    return {
        "near": [row for row in found if row.line_ns < NEAR_NS],
        "far": [row for row in found if row.line_ns >= NEAR_NS],
    }


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The page with its marked tables written again."""
    return _MARK.sub(lambda mark: f"{mark[1]}{parts[mark[2]]}\n", page)


def kept(path: Path, kind: type[AnyRow]) -> list[AnyRow]:
    """The rows that a page is made of."""
    row_of = TypeAdapter(kind)
    with path.open() as file:
        return [row_of.validate_python(row) for row in csv.DictReader(file)]


def keep(path: Path, found: Sequence[Any]) -> None:
    """Write the rows for `kept`."""
    with path.open("w", newline="") as file:
        out = csv.DictWriter(file, [f.name for f in fields(found[0])], lineterminator="\n")
        out.writeheader()
        out.writerows(asdict(row) for row in found)


def chosen(cpus: str) -> list[int]:
    """The two CPUs of `--cpus`; ends the program if that is not what they are."""
    there = {str(cpu) for cpu in os.sched_getaffinity(0)}
    found = cpus.split(",")
    if len(found) != 2 or len(there.intersection(found)) != 2:
        sys.exit(f"--cpus {cpus}: give two CPUs of {sorted(map(int, there))}, such as 0,1")
    return [int(cpu) for cpu in found]


def main(
    words: Sequence[str],
    *,
    about: str | None,
    starts: int,
    page: Path,
    rows: Path,
    kind: type[AnyRow],
    measured: Callable[[Sequence[int], int], Iterable[AnyRow]],
    tables: Callable[[Sequence[AnyRow]], Mapping[str, str]],
) -> None:
    """Measure on two CPUs in so many starts, print the tables, and keep them if asked."""
    asked = argparse.ArgumentParser(description=about)
    asked.add_argument("--cpus", default="0,1")
    asked.add_argument("--starts", type=int, default=starts)
    asked.add_argument("--write", action="store_true")
    asked.add_argument("--pages", action="store_true")
    wishes = asked.parse_args(words)
    cpus = chosen(wishes.cpus)
    found = kept(rows, kind) if wishes.pages else list(measured(cpus, wishes.starts))
    for name, text in tables(found).items():
        print(f"{name}\n{text}\n")
    if wishes.write:
        keep(rows, found)
    if wishes.write or wishes.pages:
        page.write_text(filled(page.read_text(), tables(found)))
