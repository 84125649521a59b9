"""Every reason against a number: raised, with advice, and explained in docs/numbers.md."""

import ast
import re
from pathlib import Path

from ssdbench.model.finding import Code

ROOT = Path(__file__).parents[2]


def test_every_finding_is_raised_somewhere() -> None:
    text = "".join(
        path.read_text() for path in (ROOT / "ssdbench").rglob("*.py") if path.name != "finding.py"
    )

    assert not {code for code in Code if f"Code.{code.name}" not in text}


def test_every_finding_is_explained_to_the_user() -> None:
    rows = [line for line in (ROOT / "docs/numbers.md").read_text().splitlines() if "| `" in line]
    told = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row.split("|")[1])}

    assert {code.value for code in Code} == told


def test_every_finding_that_is_held_against_a_number_says_what_to_do() -> None:
    mute = [
        f"{path.name}:{call.lineno}"
        for path in (ROOT / "ssdbench").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Finding"
        for said in [{word.arg: ast.unparse(word.value) for word in call.keywords}]
        if said.get("severity") != "Severity.NOTES" and said.get("advice", "''") == "''"
    ]

    assert not mute
