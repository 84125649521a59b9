"""Each term of the glossary is a link where a page first uses it."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from docs.siteparts.terms import PAGE, anchor, glossary, pattern

OTHERWISE = {"accept": {"target"}}  # by page: words that it uses for something else
ALONE = (nodes.reference, nodes.literal, nodes.title, nodes.FixedTextElement, nodes.Invisible)


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make the links of one page."""
    if docname == PAGE or docname.startswith("reference/"):
        return
    known = glossary((Path(app.srcdir) / f"{PAGE}.md").read_text())
    place = app.builder.get_relative_uri(docname, PAGE)
    wanted = known.keys() - OTHERWISE.get(docname, set())
    for term in sorted(wanted, key=len, reverse=True):
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
    """Replace a text by the text before the term, a link, and the text after it."""
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
