"""Test that every kind of finding is declared once, has words for its numbers and is documented."""

import ast
import importlib
import math
import pkgutil
import re
from dataclasses import Field, fields
from pathlib import Path

import pytest

import ssdbench
from ssdbench.model import findings
from ssdbench.model.finding import Code, Finding, FindingKind, Number, Severity
from ssdbench.model.findings.course import (
    CutShort,
    MeasuredAgain,
    NotApplicable,
    PlannedAgain,
    Resumed,
    RunCutShort,
)
from ssdbench.model.findings.drive import BelowMappingUnit, IoErrors, LinkErrors
from ssdbench.model.findings.repeats import TooFewRepeats, WideInterval
from ssdbench.model.findings.steadiness import NotJudged, NotSteady, RepeatsNotSettled

PACKAGE = Path(ssdbench.__file__).parent
DOCUMENT = PACKAGE.parent / "docs" / "findings.md"


def declared() -> list[type[FindingKind]]:
    names = [found.name for found in pkgutil.iter_modules(findings.__path__)]
    modules = [importlib.import_module(f"{findings.__name__}.{name}") for name in names]
    return [
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type)
        and issubclass(thing, FindingKind)
        and thing.__module__ == module.__name__
        and thing is not FindingKind
    ]


KINDS = declared()
EXAMPLES: dict[str, Number] = {
    "str": "word",
    "int": 7,
    "float": 0.25,
    "bool": True,
    "str | None": "word",
    "int | None": 5,
    "float | None": 1.5,
    "tuple[str, ...]": ("one", "two"),
    "tuple[int, ...]": (4096, 8192),
    "tuple[float | None, ...]": (2.0, None),
}


def an_example(kind: type[FindingKind]) -> FindingKind:
    return kind(**{field.name: EXAMPLES[words(field)] for field in fields(kind)})


def words(field: "Field[object]") -> str:
    found = field.type
    return found.__name__ if isinstance(found, type) and "[" not in str(found) else str(found)


def rows() -> dict[str, list[str]]:
    found = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {code: rest.split(" | ") for code, rest in found}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_says_its_numbers_in_words_and_stores_each_of_them(kind: type[FindingKind]) -> None:
    case = an_example(kind)

    found = case.finding(stage="02-fill", point="4k", repeat=3)

    assert kind.__doc__
    assert found.code is kind.code and found.severity in kind.severities
    assert found.message and not found.message.endswith(".")
    assert not found.advice or found.advice.endswith(".")
    assert set(found.numbers) == {field.name for field in fields(kind)}
    assert (found.stage, found.point, found.repeat) == ("02-fill", "4k", 3)
    assert Finding.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("code", Code)
def test_every_code_is_declared_and_documented(code: Code) -> None:
    kinds = [kind for kind in KINDS if kind.code is code]
    severity, meaning, *_ = rows()[code.value]

    assert kinds
    assert set(severity.split(", ")) == {s.value for kind in kinds for s in kind.severities}
    assert len(meaning) > 20


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_held_against_a_number_says_what_to_do(kind: type[FindingKind]) -> None:
    assert an_example(kind).advice() or set(kind.severities) == {Severity.NOTES}


def test_no_code_is_documented_that_does_not_exist() -> None:
    assert set(rows()) == {code.value for code in Code}


def makers() -> set[str]:
    """Return the modules that make a stored finding themselves, without a declared kind."""
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Finding"
    }


def test_findings_are_made_by_their_declarations_only() -> None:
    assert makers() == {"model/finding.py"}


def test_every_kind_is_raised_somewhere() -> None:
    own = PACKAGE / "model" / "findings"
    elsewhere = " ".join(p.read_text() for p in PACKAGE.rglob("*.py") if p.parent != own)

    assert not {kind.__name__ for kind in KINDS if f"{kind.__name__}(" not in elsewhere}


def test_a_result_from_before_numbers_were_stored_still_loads() -> None:
    old = '{"code": "cut-short", "severity": "invalidates", "message": "a limit"}'

    assert Finding.model_validate_json(old).numbers == {}


def test_findings_can_be_kept_in_a_set_so_that_each_is_told_once() -> None:
    case = IoErrors(errors=5, during="the fill")

    assert len({case.finding(), case.finding(), case.finding(stage="02-fill")}) == 2


def test_what_is_not_finite_is_left_open() -> None:
    found = WideInterval(repeats=2, half_width=math.inf, declared=0.02).finding()

    assert found.numbers["half_width"] is None
    assert found.message == "after 2 repeats there is no interval yet; the profile asks for ±2 %"
    assert Finding.model_validate_json(found.model_dump_json()) == found


def test_a_corrected_error_of_the_link_only_warns() -> None:
    def severity(*, corrected: bool) -> Severity:
        return LinkErrors(errors=1, counter="PCIe errors", corrected=corrected).severity()

    assert severity(corrected=True) is Severity.WARNS
    assert severity(corrected=False) is Severity.INVALIDATES


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (IoErrors(errors=1, during="the fill"), "1 request failed during the fill"),
        (IoErrors(errors=5000, during="the fill"), "5,000 requests failed during the fill"),
        (
            CutShort(done=3, planned=40, units="repeats", why="the limit of 60 s"),
            "the stage ended early, with 3 of 40 repeats finished: the limit of 60 s",
        ),
        (
            CutShort(done=0, planned=None, units="starts", why="signal 2"),
            "the stage ended early, with 0 of its starts finished: signal 2",
        ),
        (
            RunCutShort(at_stage=2, stages=3, why="it was stopped with Ctrl-C"),
            "the run ended early, in stage 2 of 3: it was stopped with Ctrl-C",
        ),
        (
            MeasuredAgain(finished=3, units="repeats"),
            "3 finished repeats no longer count, because the drive is no longer in the state in "
            "which they were measured",
        ),
        (
            PlannedAgain(given="12 h 00 min", cuts=("no extra repeats",)),
            "the rates of the warm-up changed the plan for 12 h 00 min: no extra repeats",
        ),
        (
            Resumed(reason="the counters match", repeated=("Fill", "Warm up")),
            "the run was resumed: the counters match; results that no longer count: fill, warm up",
        ),
        (
            NotApplicable(what="r0-512", why="its blocks are 4 KiB"),
            "r0-512 is not applicable: its blocks are 4 KiB",
        ),
        (
            TooFewRepeats(repeats=3, least=10),
            "only 3 repeats; at least 10 are needed",
        ),
        (
            BelowMappingUnit(block_bytes=(4096,), unit_bytes=16384),
            "writes of 4 KiB are smaller than the mapping unit of 16 KiB, so each costs a "
            "read-modify-write, unless the write buffer joins it with other writes",
        ),
        (
            BelowMappingUnit(block_bytes=(24576, 4096), unit_bytes=16384),
            "writes of 4 KiB and 24 KiB do not fill whole mapping units of 16 KiB, so each costs a "
            "read-modify-write, unless the write buffer joins it with other writes",
        ),
        (
            NotSteady("pss", 5400, 2, "cv is 0.05, allowed 0.04", 2e8, max_fills=6),
            "not steady by 'pss' after 1 h 30 min and 2.00 drive fills: cv is 0.05, allowed 0.04; "
            "the last window averaged 200 MB/s, and the sustained rate is not higher than this; "
            "the warm-up ended at its limit of 6 drive fills",
        ),
        (
            NotSteady("pss", 5400, 2, "cv", 2e8, max_fills=6, unit_bytes=16384),
            "not steady by 'pss' after 1 h 30 min and 2.00 overwrites of each 16 KiB unit: cv; "
            "the last window averaged 200 MB/s, and the sustained rate is not higher than this; "
            "the warm-up ended at its limit of 6 overwrites of each 16 KiB unit",
        ),
        (
            NotJudged("pss", "60 s of at least 2700 s seen", 0.0, max_time_s=60),
            "not judged, so not steady: the warm-up ended before 'pss' could decide (60 s of at "
            "least 2700 s seen); no rate was seen; the warm-up ended at its limit of 1 min 00 s",
        ),
        (
            RepeatsNotSettled((1, 2, 5), 60, "cv is 0.2, allowed 0.15"),
            "repeats 1, 2 and 5 were measured before the drive had settled (after 60 s): cv is "
            "0.2, allowed 0.15",
        ),
    ],
    ids=lambda value: value.__class__.__name__ if isinstance(value, FindingKind) else "",
)
def test_the_sentences(case: FindingKind, said: str) -> None:
    assert case.finding().message == said
