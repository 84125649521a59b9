"""What a user sets in the modules is described: every attribute, its choices and its default."""

import re
from collections.abc import Iterator
from functools import reduce
from operator import mul
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "kmod" / "README.md"
DESCRIBED = {"flash": README, "slam": README, "tmerge": ROOT / "docs" / "kernel-tmerge.md"}
NUMBERS = {
    "INT_MAX": 2**31 - 1,
    "NSEC_PER_USEC": 1000,
    "NSEC_PER_SEC": 10**9,
    "SSDB_VECTOR_MAX": 1024,
    "true": 1,
}
OTHERWISE = {  # as a user sets what has another name in the code
    ("runtime_ns", "1000000000"): ("runtime_ms", "1000"),
    ("random", "1"): ("pattern", "random"),
}


def table(module: str) -> dict[str, str]:
    """Each attribute and its default, or what stands there; a row may have several."""
    text = DESCRIBED[module].read_text().partition(f"<!-- attributes of ssdb_{module} -->")[2]
    found: dict[str, str] = {}
    for first, second in re.findall(r"^\| (`.*?) \| (.*?) ?\|", text.partition("<!-- /")[0], re.M):
        names, values = re.findall(r"`(\w+)`", first), second.split(", ")
        if len(values) != len(names):
            values = [second] * len(names)
        found |= dict(zip(names, values, strict=True))
    return found


def code(module: str) -> str:
    return (ROOT / "kmod" / module / "main.c").read_text()


def defaults(text: str) -> Iterator[tuple[str, str]]:
    """What a new instance has, where that is not 0, as a user reads it."""
    made = re.findall(r"\((?:struct \w+_(?:options|config))\) \{(.*?)\n\t\};", text, re.DOTALL)
    for name, value in re.findall(r"\.(\w+) = ([^,]+),", "".join(made)):
        words = value.split(" * ")
        if all(word in NUMBERS or word.lstrip("-").isdigit() for word in words):
            number = str(reduce(mul, (NUMBERS.get(word) or int(word) for word in words)))
            yield OTHERWISE.get((name, number), (name, number))
        else:
            yield name, value.partition("_")[2].lower()


def choices(module: str) -> list[list[str]]:
    """The words of each attribute that takes words, the default of none first."""
    lists = re.findall(r"^static const char .*? = \{([^}]*)\};", code(module), re.M | re.DOTALL)
    if module == "slam":
        levels = (ROOT / "kmod" / "slam" / "levels.c").read_text()
        lists.append(" ".join(re.findall(r'\.name = ("\w+")', levels)))
    return [words for one in lists if (words := re.findall(r'"([a-z-]+)"', one))]


@pytest.mark.parametrize("module", DESCRIBED)
def test_every_attribute_is_described(module: str) -> None:
    offered = set(re.findall(rf"&{module}_attr_(\w+)", code(module)))

    assert len(offered) > 5
    assert table(module).keys() == offered


@pytest.mark.parametrize("module", ["flash", "slam"])
def test_every_default_is_the_one_that_is_described(module: str) -> None:
    told = {name: value.strip("`").replace(",", "") for name, value in table(module).items()}
    made = {name: value for name, value in defaults(code(module)) if name in told}

    assert len(made) > 5
    assert {name: told[name] for name in made} == made
    usual = {"", "0", *(one[0] for one in choices(module))}  # where nothing is said in the code
    assert {told[name] for name in told.keys() - made.keys()} <= usual


@pytest.mark.parametrize("module", DESCRIBED)
def test_every_choice_is_described(module: str) -> None:
    offered = [word for one in choices(module) for word in one]
    text = DESCRIBED[module].read_text()

    assert len(offered) > 3
    assert [word for word in offered if f"`{word}`" not in text] == []


def test_every_setting_and_counter_of_the_schedulers_is_described() -> None:
    text = code("bpref")
    offered = set(re.findall(r"BPREF_R[WO]\((?!NAME)(\w+)\)", text))
    offered |= set(re.findall(r"__ATTR\((?!NAME)(\w+),", text))
    section = README.read_text().partition("## The schedulers")[2].partition("\n## ")[0]

    assert len(offered) > 20
    assert sorted(offered - set(re.findall(r"`(\w+)`", section))) == []
