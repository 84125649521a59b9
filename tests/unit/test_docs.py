"""The documents say what is true: links lead somewhere, commands exist, every module is named."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from ssdbench.cli.main import ssdbench

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text())

    missing = [link for link in links if not (document.parent / link).exists()]

    assert missing == []


def test_every_command_in_the_readme_exists() -> None:
    named = set(re.findall(r"^ssdbench ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))

    listed = CliRunner().invoke(ssdbench, ["--help"]).output

    assert len(named) >= 5
    assert [name for name in named if f"  {name}" not in listed] == []


def test_the_exit_codes_of_the_readme_are_those_of_the_errors() -> None:
    from ssdbench import errors

    text = (ROOT / "README.md").read_text()
    codes = {
        found.exit_code
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, errors.SsdbenchError)
    }

    for code in codes:
        assert f"| {code} |" in text
