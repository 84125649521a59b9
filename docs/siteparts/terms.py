"""Each term of the glossary is a link where a page first uses it."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

PAGE = "terms"
ROW = re.compile(r"^\| ([^|`]+?) \| ([^|]+) \|", re.MULTILINE)
# Words of every day besides: they are the term only as a noun, behind one of these.
EVERYDAY = {"point", "return", "repeat", "run", "stage", "bound", "window", "setting", "settle"}
BEFORE = r"(?:(?:an?|the|each|every|its|of|per|whole|pessimistic|this|\d+|two|ten|all) )"
ALONE = (nodes.reference, nodes.literal, nodes.title, nodes.FixedTextElement, nodes.Invisible)


def glossary(text: str) -> dict[str, str]:
    """Each term and what it means, from the table of the page."""
    rows = ((terms, meaning) for terms, meaning in ROW.findall(text) if terms != "term")
    return {term: meaning for terms, meaning in rows for term in terms.split(", ")}


def anchor(term: str) -> str:
    """The place of a term on the page."""
    return "term-" + re.sub(r"\W+", "-", term.lower())


def with_anchors(text: str) -> str:
    """The page of terms, with a place to lead to in each row."""

    def placed(row: re.Match[str]) -> str:
        if row[1] == "term" or set(row[1]) == {"-"}:
            return row[0]
        marks = "".join(f"[]{{#{anchor(term)}}}" for term in row[1].split(", "))
        return f"| {marks}{row[1]} | {row[2]} |"

    return ROW.sub(placed, text)


def pattern(term: str) -> re.Pattern[str]:
    """What is taken for the term; the term itself is the first group."""
    if term.isupper():
        return re.compile(rf"\b({term})\b")
    if term in EVERYDAY:
        return re.compile(rf"(?i:\b{BEFORE})({term})\b(?!-)")
    return re.compile(rf"(?i:(?<![-\w])({term}s?))\b(?!-)")


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make the links of one page."""
    if docname == PAGE or docname.startswith("reference/"):
        return
    known = glossary((Path(app.srcdir) / f"{PAGE}.md").read_text())
    place = app.builder.get_relative_uri(docname, PAGE)
    for term in sorted(known, key=len, reverse=True):
        found = pattern(term)
        for text in list(doctree.findall(nodes.Text)):
            match = found.search(text)
            if match and not _within(text, ALONE):
                _split(text, match, f"{place}#{anchor(term)}", known[term])
                break


def _within(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    above = node.parent
    while above is not None:
        if isinstance(above, kinds):
            return True
        above = above.parent
    return False


def _split(text: nodes.Text, match: re.Match[str], place: str, meaning: str) -> None:
    """Replace a text by what is before the term, a link, and what is after it."""
    parent = text.parent
    assert parent is not None
    shown = nodes.reference("", match[1], refuri=place, internal=True, classes=["term"])
    shown["reftitle"] = re.sub(r"[`*]", "", meaning)
    parts: list[nodes.Node] = [
        nodes.Text(text[: match.start(1)]),
        shown,
        nodes.Text(text[match.end(1) :]),
    ]
    at = parent.index(text)
    parent.remove(text)
    for part in reversed(parts):
        parent.insert(at, part)
