"""The page is short: what decides stands first, the rest is one line, figures are few."""

import re
from pathlib import Path

import pytest

from ssdbench.errors import UsageError
from ssdbench.model.profile.accept import Accepted
from ssdbench.report import render
from ssdbench.report.view import words
from tests.support.builders import StoredRunBuilder, a_finding, a_small_run
from tests.support.chromium import PAPER, PHONE, Browser, Look

NOISY = tuple(f"b65536-r{read}-qd{depth}" for read in (30, 70, 100) for depth in (1, 2, 4, 8, 16))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A hundred points, fifteen of them failed, five planned on."""
    directory = tmp_path_factory.mktemp("many")
    builder = StoredRunBuilder(directory, repeats=2, measure_s=5)
    builder.sweep(
        blocks=(4096, 8192, 16384, 32768, 65536),
        reads=(100, 70, 30, 0),
        depths=(1, 2, 4, 8, 16),
        noisy=NOISY,
    )
    builder.write(verdict="NOT VALIDATED")
    return directory, rendered(directory)


def rendered(directory: Path, *points: str) -> str:
    return render(directory, points=points)[0].read_text(encoding="utf-8")


def open_parts(page: str) -> str:
    """The page without what is folded away."""
    folded = re.compile(r"<details(?: class=\"data\")?>(?:(?!<details).)*?</details>", re.DOTALL)
    while folded.search(page):
        page = folded.sub("", page)
    return page


def first_table(page: str) -> list[str]:
    part = page[page.index('class="workloads"') :]
    return re.findall(r"<tr>.*?</tr>", part[: part.index("</table>")], re.DOTALL)[1:]


def test_all_workloads_stand_beside_the_number_those_of_the_plan_first(tmp_path: Path) -> None:
    a_small_run(tmp_path)

    rows = first_table(rendered(tmp_path))

    assert [re.search(r'title="(b4096[^"]+)"', row)[1] for row in rows] == [  # type: ignore[index]
        "b4096-r0-qd32",
        "b4096-r70-qd32",
        "b4096-r100-qd32",
    ]
    assert all(row.count("<td") == 7 and "VALIDATED" in row for row in rows)


def test_the_first_table_tells_how_many_drives_a_demand_needs(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=5)
    builder.sweep(blocks=(4096,), reads=(0, 100), depths=(1, 32))
    builder.write(profile_text="title: A plan\nplan:\n  demand_iops: 40000\n")

    page = rendered(tmp_path)
    rows = first_table(page)

    assert ">Drives</th>" in page
    assert [
        bool(re.search(r'<td class="number "[^>]*>\d+</td>\s*<td class="good', r)) for r in rows
    ] == [
        True,
        True,
        False,  # reads: not what the plan stands on
        False,
    ]


def test_of_many_points_the_first_screen_has_a_few_and_counts_the_others(
    many: tuple[Path, str],
) -> None:
    _, page = many

    assert len(first_table(page)) == 12
    assert "88 further points below" in page


def test_figures_are_drawn_for_points_of_the_plan_and_failed_ones_alone(
    many: tuple[Path, str],
) -> None:
    directory, page = many

    assert "40 repeats of 20 points" in page  # 5 of the plan and 15 failed, two repeats each
    assert page.count("<svg ") <= 7
    assert "42 repeats of 21 points" not in page
    asked = rendered(directory, *NOISY, "b4096-r100-qd16")
    assert "40 repeats of 20 points" in asked and "4 KiB random read, QD" in asked


def test_a_point_asked_for_gets_its_figures(tmp_path: Path) -> None:
    a_small_run(tmp_path)

    assert "3 repeats of 1 point;" in rendered(tmp_path)
    assert "6 repeats of 2 points;" in rendered(tmp_path, "b4096-r100-qd32")


def test_a_point_that_the_run_lacks_is_refused(tmp_path: Path) -> None:
    a_small_run(tmp_path)

    with pytest.raises(UsageError, match="has no point b1-r1"):
        render(tmp_path, points=("b1-r1",))


def test_many_points_are_maps_of_block_and_mix_and_of_depth_and_jobs(
    many: tuple[Path, str],
) -> None:
    _, page = many
    shown = open_parts(page)

    assert "<caption>Lowest of the lower bounds of IOPS over all queue depths, random " in shown
    assert "<caption>Lower bound of IOPS, 4 KiB, 0 % read " in shown
    assert set(re.findall(r'class="number (h\d)', shown)) >= {"h0", "h6"}


def test_every_point_of_many_is_on_the_page(many: tuple[Path, str]) -> None:
    _, page = many

    sizes, reads, depths = (4, 8, 16, 32, 64), (100, 70, 30, 0), (1, 2, 4, 8, 16)
    names = {f"b{s * 1024}-r{r}-qd{d}" for s in sizes for r in reads for d in depths}
    assert [name for name in names if name not in page] == []
    assert "ssdbench report RUN --point ID" in page


def test_the_page_of_many_points_is_small_and_mostly_folded(many: tuple[Path, str]) -> None:
    _, page = many

    assert len(page) < 1_000_000
    assert len(open_parts(page)) < len(page) / 2


def test_what_decides_nothing_is_one_line_that_unfolds(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=5).precondition().steady()
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,)).write()

    page = rendered(tmp_path)
    brief = re.findall(r'<section class="brief" aria-labelledby="([^"]+)-title">', page)

    assert {"drive", "conditions", "host", "provenance", "words"} <= set(brief)
    assert "stage-01-precondition" in brief
    assert not {"findings", "steady", "stage-03-sweep"} & set(brief)
    assert "Serial number" not in open_parts(page)


def test_no_boundary_is_one_line_without_a_figure_per_stride(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path).blocksize()
    found = builder.stages[0].found
    figures = found.figures * 13  # type: ignore[union-attr]
    none = {"block_bytes": None, "answer": "no boundary found", "figures": figures}
    changed = found.model_copy(update=none)
    builder.stages[0] = builder.stages[0].model_copy(update={"found": changed})
    builder.write(verdict="NOT VALIDATED")

    page = rendered(tmp_path)

    assert '<span class="quiet">no boundary found</span>' in page
    assert page.count("<svg ") == 0


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [(1, 1, "once"), (2, 2, "twice"), (10, 10, "10 times"), (3, 10, "3 to 10 times")],
)
def test_how_often_something_was_measured_is_said_in_words(
    least: int, most: int, told: str
) -> None:
    assert words.how_often(least, most) == told


def test_a_point_measured_once_is_told_in_a_sentence(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=1, measure_s=5)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,)).write()

    page = rendered(tmp_path)

    assert "1 point: 1 VALIDATED. It was measured once." in page
    assert "1 times" not in page


def test_a_cell_of_a_map_has_the_lowest_bound_even_where_another_point_failed(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=5)
    depths = (1, 2, 4, 8, 16)
    builder.sweep(blocks=(4096, 8192), reads=(0, 100), depths=depths, noisy=("b4096-r100-qd16",))
    result = builder.write(verdict="NOT VALIDATED")
    reads = [p for p in result.points if p.point.id.startswith("b4096-r100-")]
    bounds = [e.bound for p in reads if (e := p.estimate("iops")) and e.bound is not None]

    page = rendered(tmp_path)
    row = page[page.index("Lowest of the lower bounds of IOPS") :]
    row = row[row.index(">4 KiB</th>") :]

    assert f">{words.bound(min(bounds))}<" in row[: row.index("</tr>")]


def test_the_whole_drive_as_a_span_is_no_second_row_beside_the_same_workload(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=5)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,)).span((50, 100))
    span = builder.stages[1].points[1].point.workload
    assert span == builder.stages[0].points[0].point.workload
    builder.write()

    page = rendered(tmp_path)

    assert len(first_table(page)) == 2
    assert "50 % of drive" in str(first_table(page)) and "100 % of" not in str(first_table(page))
    assert "1 further point below" in page
    assert "100 % of drive: 4 KiB random write" in page


def test_a_finding_begins_with_its_sentence_and_its_code_stands_small_behind(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=5)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    builder.write(verdict="NOT VALIDATED", findings=(a_finding(message="the planted fault"),))

    page = rendered(tmp_path)

    said = "<summary>The planted fault. <small>reason for NOT VALIDATED, <code>cv-too-high</code>"
    assert said in page
    findings = page[page.index('id="findings"') :]
    assert findings[: findings.index("</section>")].count("The planted fault.") == 1


def test_seeds_and_the_command_line_of_the_kernel_are_read_only_on_request(tmp_path: Path) -> None:
    host = {"kernel": "6.12.0", "CPUs": "2", "command line": "quiet root=…", "SMT": "on"}
    a_small_run(tmp_path, host=host)

    page = rendered(tmp_path)
    machine = page[page.index("<h3>The machine</h3>") :]
    more = machine.index("<summary>More about the machine</summary>")

    assert ">Seed</th>" not in page
    assert page.count("<dt>Seed</dt>") == 1  # where the numbers come from
    assert "6.12.0" in machine[:more] and "quiet root=" not in machine[:more]
    assert "quiet root=" in machine[more:]


def test_latency_and_drives_stand_below_the_number_and_never_without_their_verdict(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=5)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,), noisy=("b4096-r0-qd32",))
    p99 = next(e for e in builder.stages[0].points[0].estimates if e.metric == "lat_p99_ns")
    builder.write(verdict="NOT VALIDATED", profile_text="title: t\nplan: {demand_iops: 40000}\n")

    page = rendered(tmp_path)
    head = page[page.index('class="figure"') : page.index('class="workloads"')]
    beside = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", head))

    (latency,) = (value for name, value in beside.items() if name.startswith("p99 of writes at "))
    assert words.latency_cell(p99).text in latency
    assert "decided by IOPS" in head
    assert re.search(r'<td class="number ">\d+ NOT VALIDATED</td>', first_table(page)[0])
    assert re.search(r'class="value">\d+ <span class="unit">drives NOT VALIDATED, ', head)


def test_on_a_phone_the_verdict_stands_above_the_number_and_wide_parts_say_that_they_scroll(
    tmp_path: Path, chromium: Browser
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=5).steady()
    builder.sweep(blocks=(4096,), reads=(0, 100), depths=(32,))
    builder.write(verdict="NOT VALIDATED")

    chromium.open(render(tmp_path)[0], PHONE)
    top = "document.querySelector('{}').getBoundingClientRect().top"
    stamp, number = (chromium.evaluate(top.format(one)) for one in (".stamp", ".value"))
    chromium.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    hints = chromium.evaluate(
        """new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))).then(() =>
        [...document.querySelectorAll('.scroll, .canvas')].map(b =>
        [b.scrollWidth > b.clientWidth + 1, getComputedStyle(b, '::before').content]))"""
    )

    assert stamp < number
    assert len(hints) > 3 and any(wide for wide, _ in hints)
    assert [wide for wide, hint in hints if wide != ("Scroll sideways" in hint)] == []
    assert chromium.evaluate("document.documentElement.scrollWidth") == PHONE.width


@pytest.mark.parametrize("look", [PHONE, PAPER], ids=lambda look: look.name)
def test_no_word_that_a_drive_is_simulated_is_cut(
    look: Look, tmp_path: Path, chromium: Browser
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=5).steady()
    builder.sweep(blocks=(4096, 8192), reads=(0, 100), depths=(1, 4, 32))
    target = Accepted(
        target="a database at the planned load", metric="lat_read_p99_ns", unit="ns",
        direction="at most", wanted=2e7, outcome="pass", why="",
        load="at 70 % of the rate of one drive",
    )  # fmt: skip
    builder.write(accepted=(target,))

    chromium.open(render(tmp_path)[0], look)
    chromium.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    chromium.evaluate(
        "document.querySelectorAll('caption').forEach(c => c.prepend('More words than fit here: '))"
    )
    banner = "document.querySelector('.banner')"
    wide, shown = (chromium.evaluate(f"{banner}.{one}Width") for one in ("scroll", "client"))
    marks = chromium.evaluate("document.querySelectorAll('caption .mark').length")
    cut = chromium.evaluate(
        """[...document.querySelectorAll('caption .mark')].filter(mark =>
        mark.getBoundingClientRect().right > 1 +
        mark.closest('.scroll').getBoundingClientRect().right).length"""
    )

    required = chromium.evaluate(
        "[...document.querySelectorAll('th')].find(h => h.innerText === 'Required').offsetWidth"
    )

    assert wide == shown
    assert marks > 3 and cut == 0
    assert required >= 8 * 16  # 8rem
