"""A page as one HTML file that needs nothing else: no script, no font, no request."""

from functools import cache
from importlib.resources import files

import jinja2
from markupsafe import Markup

from ssdbench import foreign
from ssdbench.report.plots.draw import draw
from ssdbench.report.view.page import Page, Plot


@cache
def environment() -> jinja2.Environment:
    """Templates that escape all text and refuse a name that the view lacks."""
    jinja = jinja2.Environment(
        loader=jinja2.PackageLoader("ssdbench.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters["css_string"] = css_string
    return jinja


def css_string(text: str) -> Markup:
    """Text as a CSS string, for the head of each printed page; nothing in it can end the string."""
    return Markup('"' + "".join(_css(letter) for letter in text) + '"')


def _css(letter: str) -> str:
    plain = letter.isascii() and (letter.isalnum() or letter in " :,.-_=")
    return letter if plain else f"\\{ord(letter):06x}"


def render_page(page: Page) -> str:
    """The whole document."""
    style = files("ssdbench.report").joinpath("style.css").read_text(encoding="utf-8")
    template = environment().get_template("report.html.j2")
    return foreign.page(template.render(page=page, style=Markup(style), svg=svg))


def svg(plot: Plot) -> Markup:
    """A figure as it stands in a page."""
    # matplotlib escapes the words it draws; the rest of the SVG is its own
    return Markup(draw(plot.figure, plot.name))
