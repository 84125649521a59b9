"""The map for newcomers is true: its layers, its files, and its lists of what to touch."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from ssdbench.model.found import AnyFound
from ssdbench.model.kind import StageKind
from ssdbench.model.profile.spec import Measure

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "architecture.md").read_text()
# Heading of a list, and how its example is called in code and documents.
EXAMPLES = {
    "A kind of stage": r"StageKind\.PROCESSES\b|PROCESSES = |spec\.Processes\b|class Processes\b"
    r"|Annotated\[Processes\b",
    "A steady-state rule": r"class Seppanen\b|\"seppanen\"|SEPPANEN|`seppanen`",
    "A model of a simulated drive": r"bm1743",
    "A probe": r"read-chunk|ReadChunk|READ_CHUNK|read_chunk",
    "A detector of a dangerous state": r"fabric",
    "A finding": r"\bWideInterval\b|\bWIDE_INTERVAL\b|`wide-interval`",
    "A figure": r"\bSettleFigure\b",
}


def part(heading: str) -> str:
    return MAP.split(f"\n### {heading}\n")[1].split("\n### ")[0].split("\n## ")[0]


def listed(heading: str) -> list[str]:
    """The files of the first column of a list."""
    return re.findall(r"^\| `([^`]+/[^`]+)` \|", part(heading), re.MULTILINE)


def test_every_file_and_directory_on_the_map_exists() -> None:
    tops = "benchmarks|docs|kmod|profiles|ssdbench|tests"  # others are in a run directory
    named = set(re.findall(rf"`((?:{tops})/[\w./-]*)`", MAP))

    assert len(named) >= 40
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_picture_has_the_layers_of_the_import_contract_in_their_order() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    layers = tools["importlinter"]["contracts"][0]["layers"]
    picture = MAP.split("```")[1]

    names = "|".join(re.findall(r"\w+", " ".join(layers)))
    drawn = [re.findall(rf"\| ({names}) +\S", line) for line in picture.splitlines()]

    assert [" | ".join(row) for row in drawn if row] == layers


def test_every_list_has_an_example() -> None:
    headings = re.findall(r"^### (.+)$", MAP, re.MULTILINE)

    assert set(EXAMPLES) <= set(headings)
    assert all("\nExample: `" in part(heading) for heading in EXAMPLES)


@pytest.mark.parametrize("heading", EXAMPLES)
def test_the_example_is_in_every_file_of_its_list(heading: str) -> None:
    files = listed(heading)

    assert len(files) >= 3
    assert [f for f in files if not _mentions(ROOT / f, EXAMPLES[heading])] == []


@pytest.mark.parametrize("heading", EXAMPLES)
def test_the_list_has_every_file_of_the_package_that_knows_the_example(heading: str) -> None:
    """But for those that raise a finding, which the text beside the list names as a directory."""
    raised = ("ssdbench/stats/", "ssdbench/engine/", "ssdbench/stages/")
    knowing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "ssdbench").rglob("*")
        if path.suffix in {".py", ".yaml", ".j2"} and _mentions(path, EXAMPLES[heading])
    }
    if heading == "A finding":
        knowing = {name for name in knowing if not name.startswith(raised)}

    assert sorted(knowing - set(listed(heading))) == []


def test_every_kind_of_stage_has_one_row_that_names_its_result() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| [^|]+\| (?:`(\w+)` )?\|", MAP, re.MULTILINE)
    kinds = [(kind, found) for row, found in rows for kind in re.findall(r"\w+", row)]
    results = {
        found.__name__: found.model_fields["kind"].annotation for found in get_args(AnyFound)
    }

    assert sorted(kind for kind, _ in kinds) == sorted(StageKind)
    assert [k for k, found in kinds if found and k not in get_args(results[found])] == []


def test_every_kind_of_stage_that_measures_is_asked_for_by_its_name() -> None:
    keys = {"filesystem" if key == "filesystems" else key for key in Measure.model_fields}

    assert keys == set(StageKind) - {"purge", "precondition", "steady"}


def _mentions(path: Path, example: str) -> bool:
    return re.search(example, path.name + "\n" + path.read_text()) is not None
