import html
import math
import re
from pathlib import Path
from typing import get_args

import jinja2
import pytest

from ssdbench.cli.conduct import Ended
from ssdbench.cli.summary import run_lines
from ssdbench.model.finding import Code, Severity
from ssdbench.model.found import AnyFound, WarmUp
from ssdbench.model.inside import BlockSizeFound, StoredFigure
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.model.target import TargetKind
from ssdbench.report import render
from ssdbench.report.html import css_string, environment
from ssdbench.report.view import stages, words
from tests.support.builders import (
    SUSTAINED_WRITE_IOPS,
    StoredRunBuilder,
    a_finding,
    a_small_run,
    a_target,
    with_found,
)
from tests.support.pages import SCRIPT, without_script

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> $x^2$ {{ 7*7 }}"
Full = tuple[Path, RunResult, str]


def page_of(directory: Path) -> str:
    return render(directory)[0].read_text(encoding="utf-8")


def test_every_kind_of_result_has_a_view() -> None:
    assert set(stages.VIEWS) == set(get_args(AnyFound))


def test_the_page_asks_for_nothing_from_elsewhere(full_run: Full) -> None:
    _, _, page = full_run

    loaded = re.findall(r"""(?:src|href|action|data|srcset)\s*=\s*["']([^"']*)""", page)

    assert [link for link in loaded if re.match(r"[a-z]+:|//", link)] == []
    assert "@import" not in without_script(page)
    assert re.findall(r"url\((?!#)", page) == []
    assert "style-src 'unsafe-inline'; img-src data:" in page
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in page


def test_the_script_is_small_and_makes_no_html_of_what_it_reads() -> None:
    """Text that others chose is only ever text; and there is nothing to send it with."""
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
        r"|\beval\b|Function\(|setTimeout|import\(|fetch|XMLHttpRequest|WebSocket|EventSource"
        r"|sendBeacon|localStorage|sessionStorage|cookie|location|postMessage|\.src\b|srcdoc"
    )

    assert len(SCRIPT.encode()) <= 60_000
    assert SCRIPT.isascii() and "</script" not in SCRIPT
    assert re.findall(forbidden, SCRIPT) == []


def test_the_page_stays_below_three_megabytes(full_run: Full) -> None:
    directory, _, _ = full_run

    assert (directory / "report.html").stat().st_size < 3_000_000


def test_ids_are_unique_and_every_inner_link_has_a_target(full_run: Full) -> None:
    _, _, page = full_run

    ids = re.findall(r'\sid="([^"]+)"', page)
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page)

    assert len(ids) == len(set(ids))
    assert {a or b for a, b in used} <= set(ids)


def test_every_point_and_every_repeat_is_on_the_page(full_run: Full) -> None:
    _, result, page = full_run
    points = [point for stage in result.stages for point in stage.points]

    rows = re.findall(r'title="([^"]+)">[^<]+</th>\s*<td class="number ">(\d+)</td>', page)

    assert {(p.point.id, str(r.repeat)) for p in points for r in p.repeats} <= set(rows)
    assert sum(len(p.repeats) for p in points) == 280


def test_every_finding_is_on_the_page_wherever_it_was_stored(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    stage = builder.stages[0]
    point = stage.points[0]
    told = [f"planted finding number {number}" for number in range(4)]
    repeat = point.repeats[0].model_copy(update={"findings": (a_finding(message=told[0]),)})
    repeats = (repeat, *point.repeats[1:])
    point = point.model_copy(
        update={"repeats": repeats, "findings": (a_finding(Code.TREND, message=told[1]),)}
    )
    builder.stages[0] = with_found(
        stage,
        points=(point,),
        findings=(a_finding(Code.RESUMED, severity=Severity.NOTES, message=told[2]),),
    )
    builder.write(verdict="NOT VALIDATED", findings=(a_finding(Code.DISTURBED, message=told[3]),))

    page = page_of(tmp_path)
    findings = page[page.index('id="findings"') : page.index('id="drive"')]

    assert [text for text in told if text.capitalize() not in findings] == []
    assert findings.index(told[3].capitalize()) < findings.index(told[2].capitalize())


def test_a_simulated_drive_is_named_once_in_every_section_heading_table_and_figure(
    full_run: Full,
) -> None:
    _, _, page = full_run
    label = "SIMULATED: x25m-g2-160, seed 7"

    sections = re.findall(r"<section.*?</section>", page, re.DOTALL)
    tables = re.findall(r"<table.*?</table>", page, re.DOTALL)
    captions = re.findall(r"<figcaption>.*?</figcaption>", page, re.DOTALL)
    marked = f'title="{label}">SIMULATED<'

    assert len(sections) > 8 and len(tables) > 8 and len(captions) > 8
    assert [s for s in sections if marked not in s] == []
    assert [s for s in sections[1:] if marked not in s.partition("</summary>")[0]] == []
    assert {part.count(marked) for part in (*tables, *captions)} == {1}
    assert {table.partition("</caption>")[0].count(marked) for table in tables} == {1}
    assert label in page[: page.index("<style>")]


def test_a_real_target_is_nowhere_called_simulated(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, target=a_target(TargetKind.LOOP), repeats=2, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    builder.write(verdict="MEASURED, NOT PLANNABLE")

    page = page_of(tmp_path)

    assert "SIMULATED" not in page
    assert "MEASURED, NOT PLANNABLE" in page
    assert (
        "The target is a loop device; only numbers of a whole drive can be used for planning."
        in page
    )


def test_the_number_first_is_the_lower_bound_of_the_planted_point(full_run: Full) -> None:
    _, result, page = full_run
    bounds = [
        estimate.bound
        for stage in result.stages
        for point in stage.points
        if point.point.workload.block_bytes == 4096 and point.point.workload.read_percent == 0
        if point.point.span_percent is None
        if (estimate := point.estimate("iops")) and estimate.bound is not None
    ]

    shown = re.search(r'class="value">([\d,]+) ', page)

    assert shown is not None
    assert int(shown.group(1).replace(",", "")) == int(min(bounds)) < SUSTAINED_WRITE_IOPS


def test_hostile_text_is_text_everywhere(tmp_path: Path) -> None:
    target = a_target(name=HOSTILE, model=HOSTILE, sim_model=HOSTILE, facts={HOSTILE: HOSTILE})
    builder = StoredRunBuilder(tmp_path, target=target, repeats=2, measure_s=20)
    builder.steady().sweep(blocks=(4096,), reads=(0,), depths=(32,))
    stage = builder.stages[1]
    point = stage.points[0]
    findings = (a_finding(message=HOSTILE, advice=HOSTILE),)
    hurt = point.model_copy(update={"findings": findings})
    builder.stages[1] = with_found(stage, title=HOSTILE, points=(hurt,))
    builder.probe(HOSTILE, HOSTILE)
    builder.stages[2] = with_found(builder.stages[2], measured=({HOSTILE: HOSTILE},))
    builder.blocksize()
    stolen = StoredFigure(kind="scatter", csv="../../etc/passwd", title=HOSTILE)
    builder.stages[3] = with_found(builder.stages[3], answer=HOSTILE, figures=(stolen,))
    builder.write(
        verdict="NOT VALIDATED",
        title=HOSTILE,
        profile_text=HOSTILE,
        host={HOSTILE: HOSTILE},
        settings=({HOSTILE: HOSTILE},),
    )

    page = page_of(tmp_path)

    assert "<script" not in without_script(page) and "<img src=x" not in page
    assert html.escape("<script>alert(1)</script>") in page
    assert "{{ 7*7 }}" in page


def test_the_page_does_not_claim_that_a_setting_that_stays_was_put_back(tmp_path: Path) -> None:
    stays = {"setting": "LBA format", "value": "4096+0", "was": "512+0", "reason": "it stays"}
    a_small_run(tmp_path, settings=(stays,))

    page = page_of(tmp_path)

    assert "4096+0" in page
    assert "and put back after it" not in page
    assert "unless the reason says that a setting stays" in page


def test_words_in_figures_are_escaped_and_never_read_as_formulas(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path)
    builder.blocksize()
    stage = builder.stages[0]
    assert isinstance(stage.found, BlockSizeFound)
    figure = stage.found.figures[0].model_copy(update={"title": HOSTILE})
    builder.stages[0] = with_found(stage, figures=(figure,))
    builder.write(verdict="NOT VALIDATED")

    page = page_of(tmp_path)

    assert "<img src=x" not in page and "<script" not in without_script(page)
    assert "128 writes have peaks of latency; the usual distance is 1 MiB" in page


def test_a_printed_page_is_labelled_by_a_string_that_nothing_can_end() -> None:
    assert css_string("SIMULATED: a-1, seed 7") == '"SIMULATED: a-1, seed 7"'
    assert (
        css_string('"; } </style>') == '"\\000022\\00003b \\00007d \\00003c\\00002fstyle\\00003e"'
    )


def test_a_link_never_leaves_the_run_directory() -> None:
    assert words.link("stages/03-sweep/p 1/fio.json") == "stages/03-sweep/p%201/fio.json"
    assert words.link("javascript:alert(1)") == "javascript%3Aalert%281%29"
    assert words.link("../other-run/result.json") == ""
    assert words.link("/etc/passwd") == ""


def test_a_template_that_names_what_the_view_lacks_is_an_error() -> None:
    template = environment().from_string("{{ page.nonsense }}")

    with pytest.raises(jinja2.UndefinedError):
        template.render(page=object())


def test_two_renders_are_the_same_to_the_last_byte(tmp_path: Path) -> None:
    a_small_run(tmp_path)

    first = {path.name: path.read_bytes() for path in render(tmp_path)}
    second = {path.name: path.read_bytes() for path in render(tmp_path)}

    assert sorted(first) == [
        "artifacts.csv",
        "report.html",
        "results.csv",
        "results.parquet",
        "summary.csv",
    ]
    assert [name for name in first if first[name] != second[name]] == []


def test_a_run_without_any_stage_still_gets_a_report(tmp_path: Path) -> None:
    StoredRunBuilder(tmp_path).write(verdict="NOT VALIDATED", interrupted=True, finished_at=None)

    page = page_of(tmp_path)

    assert "there is no number to plan on" in page
    assert "The run was interrupted" in page


def test_a_run_cut_short_while_warming_up_publishes_only_an_upper_limit(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path).precondition().steady(steady=False)
    builder.write(verdict="NOT VALIDATED", interrupted=True, finished_at=None)

    page = page_of(tmp_path)

    assert "Not steady, at most this rate" in page
    assert 'class="value">24.6 <span class="unit">MB/s' in page
    assert "Plan on this or less" not in page
    assert "Steady state was not reached. The halves of the window differ" in page
    assert "none, because the rate was not steady" in page


def test_two_levels_and_the_word_of_other_rules_are_told(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path).precondition().steady()
    result = builder.write()
    moving = {
        "shape": "bistable",
        "lower_mode": 20e6,
        "criteria": {"drift": (0.01, 0.02), "visits_per_step": (0.1, 0.25)},
    }
    early = {"rule": "snia", "checked_s": 300.0, "mean": 90e6, "lower_bound": 90e6}
    never = {"rule": "pss-paranoid", "steady": False}
    stages = [
        stage.model_copy(
            update={
                "found": found.model_copy(
                    update={
                        "verdict": verdict.model_copy(update=moving),
                        "other_rules": tuple(
                            verdict.model_copy(update=what) for what in (early, never)
                        ),
                    }
                )
            }
        )
        if isinstance(found := stage.found, WarmUp) and (verdict := found.verdict) is not None
        else stage
        for stage in result.stages
    ]
    changed = result.model_copy(update={"stages": tuple(stages)})
    (tmp_path / "result.json").write_text(changed.model_dump_json())

    page = page_of(tmp_path)

    assert "moved back and forth between two levels" in page
    assert "neither drifted nor jumped" not in page
    assert "Changes of level per minute" in page and "visits per step" not in page
    assert "What other rules say about the same seconds" in page
    assert "+266 %" in page  # 90 MB/s against 24.6
    assert "not within this time" in page


def test_points_measured_before_steady_state_are_no_lower_bound(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=20).steady(steady=False)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    builder.write(verdict="NOT VALIDATED")

    page = page_of(tmp_path)

    assert "Not steady, at most this rate – do not plan on it" in page
    assert "Plan on this or less" not in page


def test_a_run_that_lost_its_bulk_files_says_which(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    repeat = result.stages[1].points[-1].repeats[0]
    (tmp_path / repeat.artifacts / "seconds.csv").unlink()
    (tmp_path / repeat.artifacts / "histograms.npz").write_bytes(b"torn")

    page = page_of(tmp_path)

    assert "Files that could not be read" in page
    assert f"{repeat.artifacts}/seconds.csv" in page
    assert f"{repeat.artifacts}/histograms.npz (unreadable)" in page


def test_every_figure_has_words_for_those_who_cannot_see_it(full_run: Full) -> None:
    _, _, page = full_run

    canvases = re.findall(r'<div class="canvas" role="img" aria-label="([^"]*)"', page)

    assert len(canvases) == page.count("<svg ") == page.count("<figcaption>")
    assert [text for text in canvases if not re.search(r"\d", text)] == []


def test_numbers_that_are_none_at_all_are_shown_as_missing(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=20)
    builder.sweep(blocks=(4096, 8192), reads=(0, 50), depths=(1, 32))
    stage = builder.stages[0]
    broken = [
        with_iops(stage.points[0], value=0.0, bound=0.0, ci_low=-5.0, ci_high=5.0),
        with_iops(stage.points[1], value=math.nan, bound=math.nan, ci_low=math.nan),
        with_iops(stage.points[2], value=math.inf, bound=math.inf, ci_high=math.inf),
        stage.points[3].model_copy(update={"repeats": (), "estimates": ()}),
    ]
    points = (*broken, *stage.points[4:])
    builder.stages[0] = with_found(stage, points=points)
    builder.write(verdict="NOT VALIDATED")

    page = page_of(tmp_path)

    assert re.search(r">[^<]*\b(nan|inf)\b[^<]*<", page) is None
    assert 'class="value">0 ' in page


def with_iops(point: PointResult, **changes: float) -> PointResult:
    estimates = (
        estimate.model_copy(update=changes) if estimate.metric == "iops" else estimate
        for estimate in point.estimates
    )
    return point.model_copy(update={"estimates": tuple(estimates)})


def test_a_run_that_only_looks_for_blocks_is_headed_by_its_answer(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path)
    builder.blocksize()
    builder.write(verdict="NOT VALIDATED")

    page = page_of(tmp_path)

    assert "Inside the drive" in page
    assert page.count("measured no rate to plan on") == 1
    assert '<p class="meaning">1 MiB block.</p>' in page
    assert "NO RATE MEASURED" in page
    assert "NOT VALIDATED</p>" not in page  # it would make a right answer look wrong
    assert "No reason was stored" not in page


def test_one_probe_is_headed_by_its_figure_and_not_by_a_sentence(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path)
    builder.probe("slc-cache", "cache of about 631.1 MB: much more", cache_bytes=631_100_000)
    builder.write(verdict="NOT VALIDATED")

    page = page_of(tmp_path)

    assert 'class="value">631.1 MB <span class="unit">SLC cache<' in page
    assert "cache of about 631.1 MB: much more" in page


def test_several_probes_are_headed_by_how_many_could_tell(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path)
    builder.probe("stripe", "stripe of 160 KiB", stripe_bytes=163_840)
    builder.probe("spare", "cannot tell: random writes show no cliff")
    builder.write(verdict="NOT VALIDATED")

    page = page_of(tmp_path)

    assert 'class="value">1 of 2 <span class="unit">answered<' in page
    assert "<dt>Over-provisioning</dt><dd>cannot tell: random writes show no cliff</dd>" in page


def test_a_probe_that_cannot_tell_says_so_in_large(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path)
    builder.probe("spare", "cannot tell: random writes show no cliff")
    builder.write(verdict="NOT VALIDATED")

    assert 'class="value">cannot tell ' in page_of(tmp_path)


def test_a_search_for_blocks_that_was_cut_short_is_not_validated(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path)
    builder.blocksize()
    builder.write(verdict="NOT VALIDATED", interrupted=True)

    assert "NOT VALIDATED</p>" in page_of(tmp_path)


def test_a_run_that_is_valid_for_its_plan_alone_says_what_is_not(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=10, measure_s=20)
    noisy = ("b4096-r100-qd32", "b4096-r50-qd32")
    builder.sweep(blocks=(4096,), reads=(0, 50, 100), depths=(32,), noisy=noisy)
    result = builder.write(verdict="VALIDATED")

    page = page_of(tmp_path)

    told = "2 further points are not VALIDATED (cv-too-high"
    assert '<p class="stamp">VALIDATED FOR THE PLAN</p>' in page
    assert told in page
    said = list(run_lines(Ended(tmp_path, result, (tmp_path / "report.html",), exit_code=0)))
    assert said[-3].startswith("VALIDATED FOR THE PLAN: ")
    assert told in said[-2]


def test_a_run_whose_points_are_all_valid_is_validated_without_further_words(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=10, measure_s=20)
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,)).write(verdict="VALIDATED")

    page = page_of(tmp_path)

    assert '<p class="stamp">VALIDATED</p>' in page
    assert "further point" not in page


def test_landmarks_are_told_apart_and_hold_everything(full_run: Full) -> None:
    """Two rules of axe-core that a page of many tables breaks easily."""
    _, _, page = full_run
    body = without_script(page).split("<body>")[1]
    landmarks = re.findall(r'role="region" aria-label="([^"]*)"', body)
    outside = re.sub(r"<(header|main|nav|footer)\b.*?</\1>", "", body, flags=re.DOTALL)
    outside = re.sub(r'<div class="banner" role="region".*?</div>', "", outside, flags=re.DOTALL)

    assert landmarks and len(landmarks) == len(set(landmarks))
    assert not re.sub(r"<[^>]+>", "", re.sub(r"<a class=\"skip.*?</a>", "", outside)).strip()
