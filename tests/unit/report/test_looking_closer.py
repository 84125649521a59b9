"""A reader looks into figures and chooses rows in a real browser; nothing but our script runs."""

import csv
import html
import io
import json
import os
import re
import subprocess
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gallery import a_browser
from ssdbench.errors import HostLacks
from ssdbench.report import render
from ssdbench.report.figure import thinned
from ssdbench.report.plots.series import SeriesFigure
from tests.support.builders import StoredRunBuilder
from tests.support.chromium import Browser

READER = """
const answer = {};
const named = (part, words) =>
  [...part.querySelectorAll("button")].find((one) => one.textContent === words);
const figure = document.querySelector('figure[data-name^="steady-"]');
const shown = () => figure.querySelector(".readout").textContent;
const widest = () => Math.max(...[...figure.querySelectorAll(".axes path, .axes use")]
  .map((one) => one.getBoundingClientRect().width));
const ticks = () => [...figure.querySelectorAll(".axis .made text")].map((one) => one.textContent);
answer.still = figure.querySelectorAll(".tools button").length;
named(figure, "Zoom").click();
answer.drawn = widest();
named(figure, "Next").click();
answer.first = shown();
for (let n = 0; n < 6; n++) named(figure, "Zoom in").click();
answer.zoomed = widest();
answer.ticks = ticks();
const canvas = figure.querySelector(".canvas");
const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
press("ArrowRight");
answer.second = shown();
press("0");
answer.whole = [widest(), ticks().length];
const table = document.querySelector("table[data-filter]");
const maps = [...table.closest("section").querySelectorAll("table[data-map]")];
const cells = () => maps.map((map) => [...map.tBodies[0].rows].map((row) =>
  [...row.cells].slice(1).map((cell) => cell.textContent + " " + cell.className)));
const tools = maps[0].closest(".scroll").previousElementSibling;
answer.maps = [cells()];
const choices = [...tools.querySelectorAll("select")];
const choose = (which, words) => {
  choices[which].value = words;
  choices[which].dispatchEvent(new Event("change"));
};
choose(0, "8 KiB");
answer.labels = choices.map((one) => one.closest("label").firstChild.textContent.trim());
answer.kept = [...table.tBodies[0].rows].filter((row) => !row.hidden).length;
answer.count = tools.querySelector("output").textContent;
answer.maps.push(cells());
choose(2, "64");
answer.maps.push(cells());
named(tools, "Show all").click();
answer.maps.push(cells());
answer.planted = document.documentElement.dataset.planted || "did not run";
try { document.body.innerHTML = "<b>made of text</b>"; } catch (error) { answer.html = error.name; }
document.title = JSON.stringify(answer);
"""
PLANTED = "document.documentElement.dataset.planted = 'ran'"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("closer")
    builder = StoredRunBuilder(directory, repeats=2, measure_s=5).steady()
    builder.sweep(blocks=(4096, 8192), reads=(0, 50, 100), depths=(1, 2, 4, 8, 16, 32, 64, 128))
    builder.write(verdict="NOT VALIDATED")
    return render(directory)[0].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def answer(many: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the reader saw. Its own script is let in by its hash; a planted one is not."""
    try:
        program = a_browser()
    except HostLacks as error:
        needed = "browser" in os.environ.get("SSDBENCH_REQUIRE", "").split(",")
        (pytest.fail if needed else pytest.skip)(f"no page was looked at: {error.message}")
    place = tmp_path_factory.mktemp("browser")
    digest = b64encode(sha256(READER.encode()).digest()).decode()
    page = many.replace("script-src '", f"script-src 'sha256-{digest}' '", 1)
    scripts = f'<script>{PLANTED}</script><img src="data:," onerror="{PLANTED}" alt="">'
    page = page.replace("</body>", f"{scripts}<script>{READER}</script></body>")
    (place / "page.html").write_text(page, encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={place}/own"]
    seen = subprocess.run(
        [program, *options, "--virtual-time-budget=2000", "--dump-dom", f"{place}/page.html"],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", seen, re.DOTALL)
    assert title is not None
    found: dict[str, Any] = json.loads(html.unescape(title[1]))
    return found


def test_a_figure_is_zoomed_and_read_by_buttons_and_keys(answer: dict[str, Any]) -> None:
    assert answer["still"] == 2  # to look closer, and to save
    assert answer["zoomed"] > 30 * answer["drawn"]
    assert answer["ticks"] == ["0", "0.5", "1", "1.5"]  # of two hours, a 64th
    assert "measured" in answer["first"] and "lowest" in answer["first"]
    assert answer["second"] != answer["first"]
    assert answer["whole"] == [pytest.approx(answer["drawn"]), 0]


DRAG = """(() => {
  const figure = document.querySelector('figure[data-name="cliff"]');
  [...figure.querySelectorAll("button")].find((one) => one.textContent === "Zoom").click();
  const svg = figure.querySelector(".canvas svg");
  svg.setPointerCapture = () => {};
  svg.scrollIntoView();
  const { left, top, width, height } = svg.getBoundingClientRect();
  const point = (kind, x, y) => svg.dispatchEvent(new PointerEvent(kind, {
    clientX: left + x * width, clientY: top + y * height, pointerId: 1, isPrimary: true, button: 0,
  }));
  point("pointerdown", 0.5, 0.6);
  point("pointermove", 0.8, 0.92);
  point("pointerup", 0.8, 0.92);
  const middle = (one) => one.getBoundingClientRect().top + one.getBoundingClientRect().height / 2;
  const lines = [...figure.querySelectorAll('.axes path[style*="--bad"]')];
  return [...figure.querySelectorAll(".at[data-y]")].filter((one) => /bound/.test(one.textContent))
    .map((one) => [middle(one) - middle(lines[0]), one.style.display]);
})()"""


def test_the_label_of_a_level_stays_beside_its_line_when_a_part_is_shown_larger(
    page_of: Callable[[str], Path], chromium: Browser
) -> None:
    chromium.open(page_of("demo"))

    ((apart, display),) = chromium.evaluate(DRAG)

    assert display == "" and abs(apart) < 30  # pixels; labels make room for each other


def test_rows_of_many_points_are_chosen_by_what_they_differ_in(answer: dict[str, Any]) -> None:
    assert answer["labels"] == ["Block", "Reads", "QD"]
    assert answer["kept"] == 24
    assert answer["count"] == "24 of 48 points, in maps and table"


def test_maps_are_drawn_of_the_points_that_were_chosen(answer: dict[str, Any], many: str) -> None:
    whole, large, deep, again = answer["maps"]
    whole_table = many[many.index("<table data-filter>") :].partition("</table>")[0]
    head, table = whole_table.split("</thead>", 1)
    at = [name for name, _ in re.findall(r"<th [^>]*>([^<]*)</th>()", head)].index
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    found = {
        row[at("Reads")]: row[at("Lower bound [IOPS]")]
        for row in rows
        if (row[at("Block")], row[at("QD")]) == ("8 KiB", "64")
    }

    assert again == whole
    assert [cell.split()[0] for cell in large[0][0]] == ["–"] * 3
    assert large[0][1] != whole[0][1]  # its shades are those of what is left
    assert [cell.split()[0] for cell in deep[0][1]] == [found[f"{n} %"] for n in (0, 50, 100)]


def test_nothing_but_our_script_runs_and_no_text_becomes_html(answer: dict[str, Any]) -> None:
    assert answer["planted"] == "did not run"
    assert answer["html"] == "TypeError"


def test_without_a_script_all_rows_and_the_data_of_each_figure_stand(many: str) -> None:
    table = many[many.index("<table data-filter>") :]

    assert table[: table.index("</table>")].count("<tr>") == 49 and " hidden" not in table[:9000]
    data = re.findall(r'<details class="data">.*?<pre tabindex="0">(.*?)</pre>', many, re.DOTALL)
    assert len(data) == many.count("<figure ") == many.count("<svg ")
    for text in data:
        head, *rows = csv.reader(io.StringIO(html.unescape(text)))
        assert len(head) >= 4 and len(rows) >= 2
        assert {row[head.index("target")] for row in rows} == {"SIMULATED"}


def test_the_data_of_a_figure_keep_every_stall_and_every_burst() -> None:
    y = np.full(50_000, 5_000.0)
    y[[77, 31_234]], y[[400, 49_000]] = (3.0, 4.0), (9_001.0, 9_002.0)
    figure = SeriesFigure(thinned(np.arange(50_000.0), y), "seconds", "IOPS")

    rows = list(csv.DictReader(io.StringIO(figure.rows().csv(""))))

    assert list(rows[0]) == ["line", "seconds", "IOPS, lowest", "IOPS, highest"]
    assert {"3", "4"} <= {row["IOPS, lowest"] for row in rows}
    assert {"9001", "9002"} <= {row["IOPS, highest"] for row in rows}
