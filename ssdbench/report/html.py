"""Render a page as one HTML file, which has one script and loads nothing from a network."""

import json
import re
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

import jinja2
from markupsafe import Markup, escape

from ssdbench import foreign
from ssdbench.report.view.page import Page, Plot, Sheet

_TYPED = re.compile(r"`([^`\n]+)`|(?<![\w-])(--[a-z][a-z-]*[a-z])")  # in text that is escaped


@cache
def environment() -> jinja2.Environment:
    """Return the template engine: it escapes all text, and fails for an undefined name."""
    jinja = jinja2.Environment(
        loader=jinja2.PackageLoader("ssdbench.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"css_string": css_string, "said": said}
    return jinja


def said(text: str) -> Markup:
    """Escape a sentence; mark its `words in backquotes` and its --options as code."""
    return Markup(_TYPED.sub(_typed, str(escape(text))))


def _typed(found: re.Match[str]) -> str:
    return f"<code>{found[1]}</code>" if found[1] else f'<code class="option">{found[2]}</code>'


def css_string(text: str) -> Markup:
    """Quote text as a CSS string that no character of the text can end."""
    return Markup('"' + "".join(_css(letter) for letter in text) + '"')


def _css(letter: str) -> str:
    plain = letter.isascii() and (letter.isalnum() or letter in " :,.-_=")
    return letter if plain else f"\\{ord(letter):06x}"


def rendered(page: Page | Sheet) -> str:
    """Render a page with its style and script; the security policy allows only this script."""
    template = "report.html.j2" if isinstance(page, Page) else "sheet.html.j2"
    found = environment().get_template(template)
    own = files("ssdbench.report")
    style, script = (Markup((own / name).read_text("utf-8")) for name in ("style.css", "page.js"))
    text = found.render(page=page, style=style, script=script, policy=policy(script), placed=_plot)
    return foreign.page(text)


def policy(script: str) -> Markup:
    """Return the content security policy: only this script may run; nothing is loaded or sent."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return Markup(  # only the digest depends on the input
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


@dataclass(frozen=True, slots=True)
class PlacedPlot:
    """A plot as SVG, with its data."""

    svg: Markup
    csv: str
    axes: str  # JSON for the script: places and values of the axes; empty if the plot cannot zoom


def _plot(plot: Plot, target: str) -> PlacedPlot:
    from ssdbench.report.plots.canvas import to_svg  # takes half a second: matplotlib

    svg, data = to_svg(plot.figure, plot.name), plot.figure.rows()
    places = {"axes": svg.axes, "data": data.places()}
    axes = json.dumps(places, separators=(",", ":"), allow_nan=False) if svg.axes else ""
    # matplotlib escapes the text that it draws.
    return PlacedPlot(Markup(svg.svg), data.csv(target), axes)
