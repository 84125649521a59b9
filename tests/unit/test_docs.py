"""The documents say what is true: links lead somewhere, commands exist, every module is named."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docs.siteparts import manual
from ssdbench.cli.main import ssdbench
from ssdbench.model.loading import load_profile
from ssdbench.sim.spec import parse

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    + [path for top in ("docs", "kmod") for path in (ROOT / top).rglob("*.md")]
)

TOPS = [
    "README.md",
    "CONTRIBUTING.md",
    "noxfile.py",
    "benchmarks",
    "changelog.d",
    "docs",
    "kmod",
    "profiles",
    "reports",
    "ssdbench",
    "tests",
]
SUFFIXES = {".c", ".h", ".j2", ".md", ".py", ".yaml"}
# Notes that were written beside the repository and are not in it, and folders of one machine.
NOT_STORED = re.compile(
    r"\bseeds? 00\d|\b(?:METHODS|SIMDRIVE|ECOSYSTEM|VIRTUALTIME|PEERS)(?:\.md| §| [FS0-9]| section)"
    r"|\bKERNEL\.md|\bDESIGN\.md|(?<![\w.])/work/(?:shared|main|wt)"
)
# A name or names and a year: `Heger 2011`, `Yu et al. (2012)`, `Clopper and Pearson 1934`.
CITATION = re.compile(
    r"\b([A-Z][a-z]{2,}(?: et al\.|(?:, [A-Z][a-z]+)* and [A-Z][a-z]+)?) \(?((?:19|20)\d\d)\b"
)

LINE_BREAK = re.compile(r"\n *(?:[#*] )?")  # with what begins a comment's next line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text())

    missing = [link for link in links if not (document.parent / link).exists()]

    assert missing == []


def test_every_test_and_session_that_is_named_exists() -> None:
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    files = [*(ROOT / "tests").rglob("test_*.py")]
    tests = {path.stem for path in files}
    for path in files:
        tests |= set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))
    sessions = re.findall(
        r"^@nox\.session.*?^def (\w+)\(", (ROOT / "noxfile.py").read_text(), re.M | re.DOTALL
    )
    named = set(re.findall(r"`(test_\w+)`", text))
    called = set(re.findall(r"nox -s ([a-z-]+)", text))

    assert len(named) > 5 and len(called) > 10
    assert sorted(named - tests) == []
    assert sorted(called - {session.replace("_", "-") for session in sessions}) == []


def stored() -> Iterator[tuple[str, str]]:
    """Path and text of every source and document, but this one."""
    for top in TOPS:
        for path in sorted([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix in SUFFIXES and path != Path(__file__):
                yield name, path.read_text()


def test_no_reference_leads_out_of_the_repository() -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in stored()
        for number, line in enumerate(text.splitlines(), 1)
        if NOT_STORED.search(line)
    ]

    assert found == [], "cite the paper instead, as docs/sources.md does"


def test_every_paper_that_is_cited_is_among_the_sources() -> None:
    sources = (ROOT / "docs" / "sources.md").read_text()
    listed = {" ".join(found) for found in CITATION.findall(sources)}
    cited = {
        (" ".join(found), name)
        for name, text in stored()
        if not name.startswith("ssdbench/sim/models/")  # these cite data sheets, in full
        for found in CITATION.findall(LINE_BREAK.sub(" ", text))
    }

    assert len(listed) >= 15
    assert sorted((paper, name) for paper, name in cited if paper not in listed) == []


def test_every_source_is_cited_where_it_is_used() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "sources.md").read_text(), re.MULTILINE)
    # The year may stand in brackets, and a place or a year apart from the name.
    names = {re.sub(r",? \(?(?:[A-Z]+ )?(?:19|20)\d\d\)?$", "", row) for row in rows}
    text = LINE_BREAK.sub(" ", " ".join(t for n, t in stored() if n != "docs/sources.md"))

    assert len(names) >= 25
    assert sorted(name for name in names - {"cited as"} if name not in text) == []


def test_every_command_in_the_readme_exists() -> None:
    named = set(re.findall(r"^ssdbench ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))

    listed = CliRunner().invoke(ssdbench, ["--help"]).output

    assert len(named) >= 5
    assert [name for name in named if f"  {name}" not in listed] == []


BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^\s*(?:\$ )?(?:sudo )?ssdbench ([a-z].*?)(?:\s+#.*)?$", re.MULTILINE)


def typed() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ssdbench that a document shows, with its place."""
    for document in DOCUMENTS:
        for block in BLOCK.findall(document.read_text()):
            for line in TYPED.findall(block):
                yield f"{document.name}: {line}", shlex.split(line.replace("…", "x"))


def test_every_command_that_is_shown_exists_with_each_of_its_options() -> None:
    offered = {
        name: {option for p in command.params if isinstance(p, click.Option) for option in p.opts}
        for name, command in commands()
    }
    wrong = []
    shown = list(typed())
    for place, words in shown:
        name = next((n for n in (" ".join(words[:2]), words[0]) if n in offered), "")
        own = words[: words.index("--")] if "--" in words else words
        used = {word.partition("=")[0] for word in own if word.startswith("--")}
        if not name or not used <= {"--debug", "--help", *offered[name]}:
            wrong.append(place)

    assert len(shown) >= 40
    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_profile_and_simulated_drive_that_is_shown_can_be_read(document: Path) -> None:
    text = document.read_text()

    for shown in re.findall(r"^```yaml\n((?:.*\n)*?)^```", text, re.MULTILINE):
        if re.search(r"^measure:", shown, re.MULTILINE):
            load_profile(shown if "title:" in shown else f"title: shown\n{shown}", "p.yaml")
    for shown in re.findall(r"\bsim:[a-z0-9-]+(?:,[a-z_]+=[0-9.]+[A-Za-z%]*)+", text):
        parse(shown).core_params()


def commands(
    command: click.Command = ssdbench, context: click.Context | None = None, name: str = ""
) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be typed, with its words."""
    context = context or click.Context(ssdbench)
    if not isinstance(command, click.Group):
        yield name, command
        return
    for word in command.list_commands(context):
        found = command.get_command(context, word)
        assert found is not None
        yield from commands(found, click.Context(found, parent=context), f"{name} {word}".strip())


def test_the_manual_has_every_command_with_every_option() -> None:
    offered = {
        name: {
            option
            for parameter in command.params
            if isinstance(parameter, click.Option)
            and parameter.name != "as_json"
            and not parameter.hidden
            for option in parameter.opts
        }
        for name, command in commands()
    }

    section = manual.whole().split("# OPTIONS OF EACH COMMAND\n")[1].split("\n# ")[0]
    parts = re.split(r"^\*\*([a-z -]+)\*\*", section, flags=re.MULTILINE)[1:]
    named = (re.findall(r"^    (\*\*-[^ :,]*(?:, \*\*[^ :,]*)*)", b, re.M) for b in parts[1::2])
    told = {
        name: set(re.findall(r"\*\*(-[a-z0-9-]+)\*\*", " ".join(heads)))
        for name, heads in zip(parts[::2], named, strict=True)
    }
    assert told == offered


def test_the_manual_can_be_made_with_click_alone() -> None:
    """Wheels are built where nothing else is installed."""
    others = ["pydantic", "rich", "ruamel", "jinja2", "numpy", "pandas", "matplotlib", "duckdb"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({others!r}))\n"
        "from docs.siteparts import manual\n"
        "print(manual.whole())"
    )

    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)

    assert made.stderr == ""
    assert made.stdout.rstrip() == manual.whole().rstrip()


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        f"{name} {parameter.opts[0]}"
        for name, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]

    assert silent == []
