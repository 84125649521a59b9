import re
from importlib.resources import files

import pytest

STYLE = files("ssdbench.report").joinpath("style.css").read_text(encoding="utf-8")
LIGHT = STYLE[: STYLE.index("@media (prefers-color-scheme: dark)")]
DARK = STYLE[len(LIGHT) : STYLE.index("* { box-sizing")]
TEXT_ON = {
    "page": ("ink", "muted", "link", "good", "bad", "warn", "sim"),
    "panel": ("ink", "muted"),
    "shade": ("ink",),
    "good-page": ("ink", "muted", "good"),
    "bad-page": ("ink", "muted", "bad", "link"),
    "warn-page": ("ink", "muted", "warn"),
    "note-page": ("ink", "muted", "note"),
    "sim-page": ("sim",),
    "sim": ("page",),
}
LINES = ("accent", "bad", "c1", "c2", "c3", "c4", "c5", "c6")


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")])
def test_text_and_lines_can_be_told_from_what_they_stand_on(scheme: str) -> None:
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", scheme))

    text = {
        (name, ground): contrast(colours[name], colours[ground])
        for ground, names in TEXT_ON.items()
        for name in names
    }
    lines = {name: contrast(colours[name], colours["page"]) for name in LINES}

    assert {pair: ratio for pair, ratio in text.items() if ratio < 4.5} == {}
    assert {name: ratio for name, ratio in lines.items() if ratio < 3} == {}


def test_dark_and_print_redefine_every_colour_of_the_light_page() -> None:
    printed = STYLE[STYLE.index("@media print") :]

    names = [set(re.findall(r"--([a-z0-9-]+): #", part)) for part in (LIGHT, DARK, printed)]

    assert names[0] == names[1] == names[2]
