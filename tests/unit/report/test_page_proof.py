"""The pages of six runs: strict HTML, readable for everybody, and silent."""

from collections.abc import Callable
from pathlib import Path

import axe_core_python
import html5lib
import pytest

from tests.support.chromium import DARK, LIGHT, Browser
from tests.support.page_runs import NAMES

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


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_strict_html(name: str, page_of: Pages) -> None:
    html5lib.HTMLParser(strict=True).parse(page_of(name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_asks_for_nothing_and_every_reader_can_use_it(
    name: str, page_of: Pages, chromium: Browser
) -> None:
    chromium.open(page_of(name), LIGHT)
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
