"""The page is short: what decides stands first, the rest is one line, figures are few."""

import re
from pathlib import Path

import pytest

from ssdbench.errors import UsageError
from ssdbench.report import render
from ssdbench.report.view import words
from tests.support.builders import StoredRunBuilder, a_small_run

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
    assert all(row.count("<td") >= 8 and "VALIDATED" in row for row in rows)


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

    assert (
        "<caption>Lowest of the lower bounds of IOPS over all queue depths, random</caption>"
        in shown
    )
    assert "<caption>Lower bound of IOPS, 4 KiB, 0 % read</caption>" in shown
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
