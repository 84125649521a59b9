"""The pages of six runs look and read as they were kept.

`nox -s pictures` renews what is kept; look at the difference before committing it.
"""

import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from tests.support import pictures
from tests.support.chromium import LIGHT, LOOKS, Browser
from tests.support.goldens import assert_golden
from tests.support.page_runs import DEMO, NAMES
from tests.unit.report.conftest import lacking

NOBODY_SAYS = re.compile(
    r"(?<![\d.,:/x×-] )(?<![\w.,:/-])1 (?:times|points|repeats|rounds|runs|drives|files|parts)\b"
    r"|(?<![\d.])[-+]0 %|\bis 0\.\d+, allowed|\b(?:nan|inf|None)\b|\d\.\d+e[+-]\d\d"
)
Pages = Callable[[str], Path]


@pytest.fixture(scope="module")
def drawn_by(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    style = files("ssdbench.report").joinpath("style.css").read_text(encoding="utf-8")
    return pictures.drawn_by(chromium, tmp_path_factory.mktemp("sample"), style)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_is_kept(name: str, page_of: Pages) -> None:
    text = page_of(name).read_text(encoding="utf-8")

    assert_golden(f"pages/{name}.txt", pictures.structure(text))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_looks_as_it_is_kept(
    name: str, page_of: Pages, chromium: Browser, drawn_by: dict[str, str]
) -> None:
    renew = bool(os.environ.get("UPDATE_GOLDENS"))
    if renew:
        pictures.pin(drawn_by)
    if drawn_by != pictures.pinned():
        lacking(
            f"PICTURES WERE NOT COMPARED: they were drawn by {pictures.pinned()}, here is "
            f"{drawn_by}; words and numbers of the page were compared instead"
        )
    faults: list[str] = []
    wide: list[str] = []
    for look in LOOKS:
        pictures.shown(chromium, page_of(name), look)
        if renew:
            pictures.keep(chromium, name, look)
        faults += pictures.compared(chromium, name, look)
        width = chromium.evaluate("document.documentElement.scrollWidth")
        if width > look.width:
            wide.append(f"{look.name}: {width} pixels in {look.width}")

    assert wide == []
    assert faults == [], "`nox -s pictures` renews them"


def test_a_moved_label_and_another_colour_are_seen(
    page_of: Pages, tmp_path: Path, chromium: Browser
) -> None:
    page, changed = page_of("rate"), tmp_path / "report.html"
    text = page.read_text(encoding="utf-8")

    def drawn(path: Path) -> list[pictures.Pixels]:
        pictures.shown(chromium, path, LIGHT)
        return [pictures.drawn(chromium, one) for one in pictures.sections(chromium, LIGHT)]

    kept = [pictures.few_levels(pixels) for pixels in drawn(page)]

    def seen(before: str, after: str) -> int:
        assert before in text
        changed.write_text(text.replace(before, after))
        pairs = zip(drawn(changed), kept, strict=True)
        return sum(pictures.differing(new, old) > pictures.MOST_PIXELS for new, old in pairs)

    assert seen("</style>", "</style>") == 0
    assert seen("</style>", ".stamp { position: relative; left: 1px }</style>") == 1
    assert seen("--warn: #855300", "--warn: #a56300") >= 1
    assert seen("</style>", "svg text { transform: translate(2px) }</style>") >= 1


@pytest.mark.parametrize("name", [DEMO, *NAMES])
def test_sentences_are_as_people_write_them(name: str, page_of: Pages) -> None:
    said = pictures.structure(page_of(name).read_text(encoding="utf-8"))

    assert NOBODY_SAYS.findall(said) == []


def test_what_nobody_says_is_found() -> None:
    said = "measured 1 times; -0 % / +0 %; halves is 0.0519, allowed 0.02; nan IOPS; 6.4e+08 x"

    assert len(NOBODY_SAYS.findall(said)) == 6
