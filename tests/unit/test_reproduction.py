"""Every figure and table of the papers has a row, and what a row says to type exists."""

import csv
import json
import re
from collections.abc import Iterator
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest

from benchmarks.kernel import pages
from benchmarks.kernel.__main__ import EXPERIMENTS
from ssdbench.cli import main
from ssdbench.model.profile.spec import Measure
from ssdbench.sim.spec import parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduction.md").read_text()
PROFILES = sorted(path.stem for path in (ROOT / "profiles" / "papers").glob("*.yaml"))

# By the captions of the papers. The report numbers nothing: in the order of its pages.
FIGURES = {
    "Seppanen et al. 2010": [str(number) for number in range(1, 15)],
    "Dunn 2009": [str(number) for number in range(1, 29)],
    "Yu et al. 2012": ["1", "2", "3(a)", "3(b)", "3(c)", "4(a)", "4(b)", "5"],
    "Heger 2011": ["1", "2"],
    "The report on wimpy processors, 2010": ["table 1", "diagram 1", "diagram 2", "table 2"],
}
MODELS = {"fitted", "set", "predicted", "-"}
WITH_REASON = {
    "in shape",
    "refuted",
    "cannot tell",
    "superseded",
    "his base was not reproduced",
    "not reproducible here",
}


class Row(NamedTuple):
    """One row of a paper's table."""

    paper: str
    figure: str
    claim: str
    ours: str
    model: str
    verdict: str
    command: str

    @property
    def kind(self) -> str:
        """The verdict without its reason."""
        return self.verdict.partition(":")[0]


def rows() -> list[Row]:
    found = []
    for part in PAGE.split("\n## ")[1:]:
        paper, _, text = part.partition("\n")
        if paper in FIGURES:
            lines = [line for line in text.splitlines() if line.startswith("| ")]
            found += [Row(paper, *line.strip("| ").split(" | ")) for line in lines[1:]]
    return found


ROWS = rows()
COUNTED = re.findall(r"^\| ([a-z ]+) \| .* \| (\d+) \|$", PAGE.split("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize("paper", FIGURES)
def test_the_conditions_of_every_row_that_needs_a_measurement_are_told(paper: str) -> None:
    """With what stands for the paper's hardware, and what an author could object."""
    page = (ROOT / "docs" / "paper-conditions.md").read_text()
    lines = re.findall(
        r"^\| (.*) \|$", page.partition(f"\n## {paper}\n")[2].partition("\n## ")[0], re.M
    )
    cells = [line.split(" | ") for line in lines[1:]]

    assert {len(each) for each in cells} == {4}
    assert sorted(name for each in cells for name in each[0].split("; ")) == sorted(
        row.figure for row in ROWS if row.paper == paper and row.kind != "nothing to measure"
    )


@pytest.mark.parametrize("paper", FIGURES)
def test_every_figure_and_table_has_a_row_and_no_other_is_claimed(paper: str) -> None:
    # "5, both" and "6, text" are rows of figure 5 and of section 6.
    own = [row.figure for row in ROWS if row.paper == paper]
    named = [figure.partition(",")[0] for figure in own if not figure.endswith(", text")]
    listed = [figure for figure in named if re.match(r"\d|table|diagram", figure)]

    assert list(dict.fromkeys(sorted(listed))) == sorted(FIGURES[paper])
    assert len(own) == len(set(own))


def test_every_verdict_is_one_of_those_that_are_explained_and_counted_right() -> None:
    kinds = [row.kind for row in ROWS]

    assert set(kinds) <= {name for name, _ in COUNTED}
    assert {name: int(count) for name, count in COUNTED} == {n: kinds.count(n) for n, _ in COUNTED}
    assert {row.model for row in ROWS} == MODELS
    assert [row.figure for row in ROWS if row.kind in WITH_REASON and ": " not in row.verdict] == []


def test_what_was_not_run_has_no_number_of_ours_and_all_else_has_one() -> None:
    lacking = {"not run", "nothing to measure", "not reproducible here"}

    assert [r.figure for r in ROWS if r.kind == "not run" and not r.ours.startswith("none")] == []
    assert [r.figure for r in ROWS if r.ours.startswith("none") and r.kind not in lacking] == []
    assert [r.figure for r in ROWS if r.kind == "follows from our model" and r.model == "-"] == []
    assert [
        r.figure for r in ROWS if r.model == "fitted" and not r.kind.startswith("follows")
    ] == []


def test_every_interval_of_an_experiment_is_in_its_stored_rows() -> None:
    wrong, seen = [], 0
    for row in ROWS:
        names = re.findall(r"`python -m benchmarks\.kernel ([\w-]+)`", row.command)
        stored = [
            sorted(ends)
            for name in names
            for kernel in ("6.1", "6.12")
            if (path := ROOT / "reports" / "experiments" / f"{name}-{kernel}.json").is_file()
            for claim in json.loads(path.read_text())["claims"]
            for ends in ((claim["worst"], claim["best"]), (claim["low"], claim["high"]))
        ]
        for low, high in re.findall(r"(\d\.\d+) … (\d\.\d+)", row.ours if names else ""):
            digits = len(low.partition(".")[2])
            seen += 1
            if [low, high] not in [[f"{end:.{digits}f}" for end in ends] for ends in stored]:
                wrong.append((row.figure, low, high))

    assert seen >= 40
    assert wrong == []


def test_every_interval_of_a_profile_is_in_its_rows() -> None:
    wrong, seen = [], 0
    for row in ROWS:
        stored = [
            [float(point[end]) for end in ("iops", "iops_low", "iops_high")]
            for name in re.findall(r"`ssdbench run (paper-[\w-]+)`", row.command)
            if (path := ROOT / "reports" / "gallery" / "papers" / f"{name}.csv").is_file()
            for point in csv.DictReader(path.read_text().splitlines())
        ]
        for told in re.findall(r"([\d,.]*\d) \(([\d,.]+) … ([\d,.]+)\)", row.ours):
            seen += 1
            digits = [len(number.partition(".")[2]) for number in told]
            written = [
                tuple(f"{value:,.{n}f}" for value, n in zip(values, digits, strict=True))
                for values in stored
            ]
            wrong += [(row.figure, told)] if told not in written else []

    assert seen >= 12
    assert wrong == []


# What stands in a cell but was not measured: sizes, counts of threads and seeds, names, places.
SETUP = re.compile(
    r"\bn \d+|Linux 6\.1\b|\bext[234]\b|`[^`]*`|\]\([^)]*\)|\bfigures? \d+"
    r"|\bfirst 10 s\b|\b99 % of them"
    r"|\b[\d,]+[- ](?:KiB|MiB|bytes?|threads?|writers?|readers?|requests?|slots|ms)\b"
    r"|\b1, (?:\d+, )*\d+ and \d+ %"
)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])")
STUDENT_95 = {3: 4.303, 10: 2.262}  # two-sided, by the number of repeats
POINT = ("iops", "iops_low", "iops_high", "bound", "mb_per_s", "p50_us", "p99_us")


@cache
def measured(name: str) -> list[float]:
    """Every number that is stored of an experiment, and means over its seeds."""
    return list(_measured(name))


def _measured(name: str) -> Iterator[float]:
    for path in (ROOT / "reports" / "experiments").glob(f"{name}-6.*.json"):
        if path.stem.endswith(".model"):
            continue
        document = json.loads(path.read_text())
        for claim in document["claims"]:
            yield from (claim[name] for name in ("worst", "mean", "best", "low", "high"))
        values: dict[tuple[str, str], list[float]] = {}
        for row in document["rows"]:
            values.setdefault((row["case"], row["metric"]), []).append(row["value"])
        for found in values.values():
            yield from (mean(found), min(found), max(found))
            yield mean(found) * 4096 / 1e6  # a rate of 4 KiB in MB/s


def simulated(name: str) -> Iterator[float]:
    """Every number that is stored of a profile's run; of repeats also how much they vary."""
    path = ROOT / "reports" / "gallery" / "papers" / f"{name}.csv"
    if not path.is_file():
        return
    points = list(csv.DictReader(path.read_text().splitlines()))
    if points:
        rates = [float(point["iops"]) for point in points]
        yield 100 * (1 - min(rates) / max(rates))
    for point in points:
        yield from (float(point[column]) for column in POINT if point.get(column))
        if (n := int(point["repeats"])) in STUDENT_95:
            rate, half = float(point["iops"]), float(point["iops_high"]) - float(point["iops"])
            yield 100 * half * sqrt(n) / STUDENT_95[n] / rate
    for found in json.loads(path.with_suffix(".json").read_text())["found"]:
        yield from (float(value) for value in found.values() if isinstance(value, int | float))
        yield from (float(number) for number in NUMBER.findall(found["what"].replace(",", "")))
        yield 100 - found.get("left_percent", 100)


def written(row: Row) -> set[str]:
    """The numbers of what else a row names: a page, a test, the data file of a model."""
    texts = [
        (ROOT / "docs" / page).read_text() for page in re.findall(r"\]\(([\w-]+\.md)", row.ours)
    ]
    for place in re.findall(r"`pytest ([^`]+)`", row.command):
        path, _, test = place.partition("::")
        texts.append((ROOT / path).read_text().partition(f"def {test}(")[2].partition("\ndef ")[0])
        if path.endswith("test_models.py"):
            texts += [one.read_text() for one in (ROOT / "ssdbench/sim/models").glob("*.yaml")]
    return {number.replace(",", "") for text in texts for number in NUMBER.findall(text)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.paper.partition(' ')[0]}-{row.figure}")
def test_every_number_of_ours_is_a_stored_one(row: Row) -> None:
    stored = [
        value
        for command in re.findall(r"`([^`]+)`", row.command)
        for value in (measured if "benchmarks.kernel" in command else simulated)(
            command.rpartition(" ")[2]
        )
    ]
    told = [number.rstrip(",") for number in NUMBER.findall(SETUP.sub(" ", row.ours))]
    elsewhere = written(row)

    assert [
        number
        for number in told
        if number.replace(",", "") not in elsewhere
        and number.replace(",", "")
        not in {f"{v:.{len(number.partition('.')[2])}f}" for v in stored}
    ] == []


HEADINGS = [
    "Question",
    "Set-up",
    "What was found then",
    "What we found",
    "Why it differs",
    "Command",
]
EXPERIMENT_PAGES = sorted(
    path
    for path in (ROOT / "docs" / "experiments").glob("*.md")
    if path.stem != "same-digits"  # what makes guests agree, no experiment
)


@pytest.mark.parametrize("page", EXPERIMENT_PAGES, ids=lambda path: path.stem)
def test_a_page_of_an_experiment_has_its_six_parts_and_is_listed(page: Path) -> None:
    text = page.read_text()

    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert f"(experiments/{page.name})" in (ROOT / "docs" / "kernel-experiments.md").read_text()


COUNT = {
    1: "one seed",
    2: "two seeds",
    3: "three seeds",
    4: "four seeds",
    5: "five seeds",
    10: "ten seeds",
}


@pytest.mark.parametrize("page", EXPERIMENT_PAGES, ids=lambda path: path.stem)
def test_the_tables_of_a_page_are_made_of_the_stored_rows(page: Path) -> None:
    text = page.read_text()

    assert pages.filled(text) == text
    assert [name for name in pages.names(text) if COUNT[pages.seeds(name)] not in text] == []


def test_every_experiment_with_stored_rows_has_its_page() -> None:
    stored = {
        json.loads(path.read_text())["experiment"]
        for path in (ROOT / "reports" / "experiments").glob("*.json")
        if not path.stem.endswith(".model")
    }
    told = [
        name
        for page in EXPERIMENT_PAGES
        for name in re.findall(
            r"`python -m benchmarks\.kernel ([\w-]+)`", page.read_text().partition("## Command")[2]
        )
    ]

    assert sorted(told) == sorted(stored)


def exists(command: str) -> bool:
    """Whether the profile, experiment, test, session, stage or file of a command is there."""
    words = command.split()
    match words:
        case ["ssdbench", "run", name]:
            return any((ROOT / "profiles").rglob(f"{name}.yaml"))
        case ["python", "-m", "benchmarks.kernel", name]:
            return name in EXPERIMENTS
        case ["ssdbench", "sim", "truth", target, *_]:
            return parse(target).capacity_bytes > 0
        case ["nox", "-s", name]:
            return f'name="{name}"' in (ROOT / "noxfile.py").read_text()
        case ["pytest", place]:
            path, _, test = place.partition("::")
            return re.search(rf"^def {test}\(", (ROOT / path).read_text(), re.MULTILINE) is not None
        case ["stage", name]:
            return name in Measure.model_fields
        case [path]:
            return (ROOT / path).is_file()
    return False


def test_every_command_leads_to_something_that_exists() -> None:
    wrong = []
    for row in ROWS:
        said = re.findall(r"(stage )?`([^`]+)`", row.command)
        if not said and row.command != "none":
            wrong.append(row.figure)
        wrong += [text for stage, text in said if not exists(stage + text)]

    assert wrong == []


@pytest.mark.parametrize("name", PROFILES)
def test_each_profile_of_a_paper_can_be_planned_and_stands_in_a_row(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["plan", name]) == 0
    assert "simulated" in capfd.readouterr().out
    assert f"`ssdbench run {name}`" in PAGE


def test_there_are_profiles_of_all_papers_that_a_drive_alone_can_repeat() -> None:
    assert {name.split("-")[1] for name in PROFILES} == {"seppanen", "dunn", "heger", "yu"}


def test_figure_6_is_told_with_the_ends_that_are_slower_on_two_cpus_and_not_only_the_faster() -> (
    None
):
    """Side by side, in user space: the amount of work that gives the 48 % is one we chose."""
    page = (ROOT / "docs" / "interrupt-cpus.md").read_text()
    (row,) = (row for row in ROWS if row.figure == "6, two ways")

    ends = re.findall(r"^\| figure 6: two lines over one \| end \| \w+ \| ([0-9.]+) ", page, re.M)

    assert len(ends) == 2
    assert f"{ends[0]} and {ends[1]} without other work" in row.ours
    assert row.verdict.endswith("[the one stream of instructions is used up][flash]")
    assert "the size is not shown" in row.verdict
