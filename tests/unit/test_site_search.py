"""The site's search, opened from a disk in Chromium: pages are found, with an excerpt of each."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gallery import a_browser
from ssdbench.errors import HostLacks
from tests.support.chromium import browser
from tests.unit.report.conftest import lacking

DOCS = Path(__file__).parents[2] / "docs"
ANSWERS_WITHIN_S = 30
SAY_IT = ["Findings", "Terms"]  # the pages that speak of coordinated omission
FOUND = "[...document.querySelectorAll('#search-results li')].map(one => one.innerText)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages of the documents and one of reference, built as all of them are."""
    place = tmp_path_factory.mktemp("site")
    (place / "reference").mkdir()
    for name in ("terms.md", "findings.md", "reference/exit-codes.md", "reference/commands.md"):
        (place / name).write_text((DOCS / name).read_text())
    (place / "index.md").write_text(
        "# Site\n\n```{toctree}\nterms\nfindings\nreference/exit-codes\nreference/commands\n```\n"
    )
    argv = [sys.executable, "-m", "sphinx", "-Q", "-c", str(DOCS), str(place), str(place / "out")]
    subprocess.run(argv, check=True, cwd=DOCS.parent)
    return place / "out"


def test_a_search_shows_an_excerpt_of_each_page_that_it_finds(site: Path) -> None:
    try:
        program = a_browser()
    except HostLacks as error:
        lacking(f"NO SEARCH WAS TRIED: {error.message}")
    with browser(program) as page:
        address = f"{(site / 'search.html').as_uri()}?q=coordinated+omission"
        page.call("Page.navigate", url=address)
        found: list[str] = []
        until = time.monotonic() + ANSWERS_WITHIN_S
        # Results come one after another, each first without its excerpt.
        while time.monotonic() < until and sum("\n" in one for one in found) < len(SAY_IT):
            time.sleep(0.1)
            found = page.evaluate(FOUND)

    titles = [one.splitlines()[0] for one in found]
    excerpts = [one.partition("\n")[2] for one in found]
    assert sorted(titles) == SAY_IT
    assert all("coordinated" in one and "omission" in one for one in excerpts)


def test_a_page_of_reference_begins_with_a_list_of_what_is_on_it(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text()
    contents = page.partition('<nav class="contents')[2].partition("</nav>")[0]

    assert 'href="#detect-blocksize"' in contents
    assert page.index('<nav class="contents') < page.index('id="detect-blocksize"')
