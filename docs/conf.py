"""The site of the documents: `nox -s docs` builds it, warnings are errors.

Nothing of it is loaded from elsewhere, so that it works on a machine without a network. Where a
page has `<!-- reference: NAME -->`, the module NAME of `siteparts` writes what stands there.
"""

import html
import importlib
import json
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.siteparts import outside, termlinks, terms
from ssdbench import __version__

project = "ssdbench"
author = "the ssdbench contributors"
project_copyright = author
release = version = __version__
language = "en"
smartquotes = False  # text stays as it is typed

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["siteparts", "build"]
myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 4

highlight_language = "none"  # a block that names no language is output or a drawing
html_theme = "alabaster"
html_title = "ssdbench"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
html_sidebars = {"**": ["about.html", "searchbox.html", "globaltoc.html"]}
html_theme_options = {
    "description": "The pessimist's SSD benchmark",
    "fixed_sidebar": False,
    "show_powered_by": False,
    "show_relbars": False,
}

OTHERS = "<!-- pages that are not named above -->"
CONTENTS = "```{contents} On this page\n:local:\n:depth: 1\n```"
MARK = re.compile(r"^<!-- reference: (\w+) -->$", re.MULTILINE)


def _prepare(app: Sphinx, docname: str, content: list[str]) -> None:
    """Fill in the parts that are made from the code."""
    text = content[0]
    if docname == terms.PAGE:
        text = terms.with_anchors(text)
    if docname == "ssdbench.1":
        text = "# ssdbench(1)\n\n" + re.sub(r"^# ([A-Z ]+)$", _section, text, flags=re.MULTILINE)
    text = outside.as_paths(text, Path(app.env.doc2path(docname)), Path(app.srcdir))
    if docname == "index":
        named = {"index", *re.findall(r"[\w./-]+", text)}
        others = app.env.found_docs - named
        text = text.replace(OTHERS, "\n".join(sorted(others)))
    if docname.startswith("reference/"):
        text = text.replace("\n\n", f"\n\n{CONTENTS}\n\n", 1)
    content[0] = MARK.sub(lambda found: _made(found[1]), text)


def _section(found: re.Match[str]) -> str:
    return f"## {found[1].capitalize()}"


def _made(name: str) -> str:
    text: str = importlib.import_module(f"docs.siteparts.{name}").page()
    return text


def _load_excerpts(app: Sphinx, pagename: str, *_: object) -> None:
    """Give the search page the texts of all pages."""
    if pagename == "search":
        app.add_js_file("pagetexts.js")
        app.add_js_file("excerpts.js")


def _write_excerpts(app: Sphinx, error: Exception | None) -> None:
    """Write the text of each section of each page, by which the search shows excerpts."""
    if error is not None or app.builder.name != "html":
        return
    pages = {}
    for name in sorted(app.env.found_docs):
        sections = [
            (
                section["ids"][0],
                " ".join(c.astext() for c in section.children if not isinstance(c, nodes.section)),
            )
            for section in app.env.get_doctree(name).findall(nodes.section)
        ]
        parts = "".join(f'<p id="{at}">{html.escape(text)} </p>' for at, text in sections)
        pages[name] = f'<div role="main">{parts}</div>'
    place = Path(app.outdir) / "_static" / "pagetexts.js"
    place.write_text(f"const PAGE_TEXTS = {json.dumps(pages)};\n")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("html-page-context", _load_excerpts)
    app.connect("build-finished", _write_excerpts)
    app.connect("source-read", _prepare)
    app.connect("doctree-resolved", termlinks.link)
