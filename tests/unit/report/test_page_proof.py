"""The pages of six runs: strict HTML, readable for everybody, and silent."""

import re
from collections.abc import Callable
from pathlib import Path

import axe_core_python
import html5lib
import pytest

from ssdbench.cli import main
from tests.support.builders import a_small_run, a_target
from tests.support.chromium import DARK, LIGHT, Browser
from tests.support.lots import a_lot
from tests.support.page_runs import DEMO, NAMES

AXE = Path(axe_core_python.__path__[0], "axe.min.js")
RULES = """axe.run(document, {resultTypes: ['violations'], %s}).then(found => found.violations.map(
v => `${v.id}: ${v.help}: ` + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' ')))"""
ALL_RULES = RULES % ""
COLOURS = RULES % "runOnly: {type: 'rule', values: ['color-contrast']}"
FAULTY = """<!DOCTYPE html><html lang="en"><head><title>t</title><meta http-equiv=
"Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"></head><body>
<main><h1>t</h1><button></button><p style="color: #ccc; background: #fff">pale</p>
<script>1</script></main></body></html>"""
ASKING = '<!DOCTYPE html><title>t</title><img src="http://drive.example/x.png" alt="x">'
Pages = Callable[[str], Path]


@pytest.mark.parametrize("name", [DEMO, *NAMES])
def test_a_page_is_strict_html(name: str, page_of: Pages) -> None:
    html5lib.HTMLParser(strict=True).parse(page_of(name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [DEMO, *NAMES])
def test_a_page_asks_for_nothing_and_every_reader_can_use_it(
    name: str, page_of: Pages, chromium: Browser
) -> None:
    require_no_fault(page_of(name), chromium)


def test_nothing_in_the_page_of_the_demo_is_red_or_unreadable(page_of: Pages) -> None:
    page = page_of(DEMO).read_text(encoding="utf-8")

    assert re.findall(r'class="[^"]*\bbad\b[^"]*"', page) == []
    assert "could not be read" not in page


def test_a_comparison_is_strict_silent_and_for_every_reader_as_well(
    tmp_path: Path, chromium: Browser
) -> None:
    runs, page = [], tmp_path / "page.html"
    for number, firmware in enumerate(("1.0", "1.0", "2.0")):
        at = f"2026-01-0{number + 1}T00:00:00+00:00"
        target, place = a_target(firmware=firmware), tmp_path / f"r{number}"
        a_small_run(place, run_id=f"r{number}", started_at=at, target=target)
        runs.append(str(place))
    assert main.run(["compare", *runs, "--html", str(page)]) == 0

    html5lib.HTMLParser(strict=True).parse(page.read_text(encoding="utf-8"))
    require_no_fault(page, chromium)


def test_a_lot_and_two_lots_are_strict_silent_and_for_every_reader_as_well(
    tmp_path: Path, chromium: Browser
) -> None:
    page, pair = tmp_path / "lot.html", tmp_path / "lots.html"
    a_lot(tmp_path / "one", [1, 1.01, 0.99, 1.002, 0.998, 0.85])
    a_lot(tmp_path / "two", [0.99, 1], first=21)
    lots = [str(tmp_path / "one"), str(tmp_path / "two")]
    assert main.run(["merge", lots[0], "--lot", "50", "--set", "3", "--html", str(page)]) == 0
    assert main.run(["compare", "--population", *lots, "--html", str(pair)]) == 0

    for one in (page, pair):
        html5lib.HTMLParser(strict=True).parse(one.read_text(encoding="utf-8"))
        require_no_fault(one, chromium)


def require_no_fault(page: Path, chromium: Browser) -> None:
    """Fail for a request, something the policy refused, or a violation of axe's rules."""
    chromium.open(page, LIGHT)
    chromium.evaluate(AXE.read_text(encoding="utf-8") + ";0")

    assert chromium.asked == [] and chromium.refused == []
    assert chromium.evaluate(ALL_RULES) == []
    chromium.look(DARK)
    assert chromium.evaluate(COLOURS) == []


def test_a_faulty_page_is_found_out(tmp_path: Path, chromium: Browser) -> None:
    faulty, asking = tmp_path / "faulty.html", tmp_path / "asking.html"
    faulty.write_text(FAULTY)
    asking.write_text(ASKING)

    chromium.open(asking)
    assert chromium.asked == ["http://drive.example/x.png"]
    chromium.open(faulty)
    assert any("script" in refused for refused in chromium.refused)
    chromium.evaluate(AXE.read_text(encoding="utf-8") + ";0")
    found = [line.partition(":")[0] for line in chromium.evaluate(ALL_RULES)]

    assert {"button-name", "color-contrast"} <= set(found)
    with pytest.raises(html5lib.html5parser.ParseError):
        html5lib.HTMLParser(strict=True).parse(FAULTY.replace("</main>", "</section>"))
