"""The figures that a planner looks for, read back from the data that stand below each."""

import csv
import html
import io
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Annotation

from ssdbench.model.found import FillDone, WarmUp
from ssdbench.model.point import SteadyVerdict
from ssdbench.model.profile.accept import Accepted
from ssdbench.model.rates import RateFound, RateStep
from ssdbench.model.result import RunResult
from ssdbench.report import render
from ssdbench.report.metrics import percentiles_of, value_of
from ssdbench.report.plots import canvas
from ssdbench.report.plots.points import Line, LinesFigure
from ssdbench.report.plots.series import SeriesFigure, SteadyFigure
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import pointplots, points, pointstage, preparation, rates, steady
from ssdbench.report.view.page import Plots, Table
from ssdbench.stats.histogram import Histogram
from ssdbench.stats.steady.pss import window_criteria
from ssdbench.stats.steady.watch import Look, straight_line
from ssdbench.units import format_ns
from tests.support.builders import (
    StoredRunBuilder,
    a_target,
    a_verdict,
    stage_result,
    with_found,
)
from tests.unit.report.test_answer import a_load

Full = tuple[Path, RunResult, str]
Rows = list[dict[str, str]]


def data(page: str, name: str) -> Rows:
    """What stands below a figure."""
    figure = re.search(rf'<figure data-name="{name}.*?</figure>', page, re.DOTALL)
    assert figure is not None, name
    text = re.search(r"<pre[^>]*>(.*?)</pre>", figure[0], re.DOTALL)
    assert text is not None
    return list(csv.DictReader(io.StringIO(html.unescape(text[1]))))


def test_a_warm_up_that_ended_before_it_was_judged_has_no_figure_of_a_judged_window(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path).precondition().steady(steady=False)
    early = {"window_from_s": 0.0, "window_to_s": 0.0, "window_blocks": (), "criteria": {}}
    stage = builder.stages[-1]
    assert isinstance(stage.found, WarmUp) and stage.found.verdict is not None
    verdict = stage.found.verdict.model_copy(update=early)
    builder.stages[-1] = with_found(stage, verdict=verdict)
    builder.write(verdict="NOT VALIDATED")

    page = render(tmp_path)[0].read_text(encoding="utf-8")

    assert 'data-name="cliff' in page and 'data-name="steady-' not in page


def test_drift_is_the_number_that_the_rule_judged() -> None:
    blocks = np.linspace(100.0, 104.0, 10) + np.array([1, 0] * 5)
    look = Look(from_s=0.0, to_s=3000.0, blocks=blocks)
    slope, intercept = straight_line(look)
    told = {"slope_per_s": slope, "intercept": intercept, "mean": float(blocks.mean())}
    window = {"window_from_s": 0.0, "window_to_s": 3000.0, "window_blocks": tuple(blocks)}
    verdict = a_verdict().model_copy(update={**told, **window})
    judged = next(c for c in window_criteria(blocks) if c.name == "slope")

    assert steady.drift_percent(verdict) == pytest.approx(100 * judged.measured)


def test_the_write_cliff_has_one_logarithmic_axis_and_the_level_of_the_warm_up(
    full_run: Full,
) -> None:
    """98 MB/s at first, a quarter of it at the end of the fill, then the warm-up."""
    _, result, page = full_run
    ((_, warm),) = result.having(WarmUp)
    assert warm.verdict is not None

    rows = data(page, "cliff")
    rate = [row for row in rows if row["line"] == "measured"]
    x, low, high = "drive fills written", "MB/s, lowest", "MB/s, highest"
    fills = [float(row[x]) for row in rate]
    assert fills == sorted(fills) and fills[-1] == pytest.approx(3.59, abs=0.05)
    before = [float(row[low]) for row in rate if 0.01 < float(row[x]) < 1.4]
    after = [float(row[high]) for row in rate if 2.1 < float(row[x]) < 2.2]
    assert min(before) > 90 and max(after) < 30
    level = {row["line"]: float(row[low]) * 1e6 for row in rows if row["line"] in LEVELS}
    assert level == {
        "steady level": pytest.approx(warm.verdict.mean, rel=1e-4),
        "lower bound": pytest.approx(warm.verdict.lower_bound, rel=1e-4),
    }
    assert page.index('data-name="cliff"') < page.index('data-name="steady-')
    assert 'data-name="fill-' not in page  # drawn once
    assert 'data-x="2.23' in page  # where the warm-up began


LEVELS = ("steady level", "lower bound")


@pytest.fixture
def filled(tmp_path: Path) -> StoredRun:
    """Two sequential fills of 100 MB/s, a random one of 4 MB/s, a warm-up of 2 MB/s; 1 GB each."""
    builder = StoredRunBuilder(tmp_path, a_target(size_bytes=10**9)).steady()
    builder.write(
        profile_text="title: t\nprecondition: [{pattern: sequential, block: 128KiB, fill: 2}, "
        "{pattern: random, block: 4KiB, fill: 1}]\n"
    )
    run = StoredRun.open(tmp_path)
    found = FillDone(planned_bytes=3 * 10**9, filled_bytes=10**9, seconds_csv=("fill.csv",))
    (warm,) = run.result.stages
    warm = with_found(
        warm, seconds_csv="warm.csv", label="4 KiB random write, QD 32 x 1",
        verdict=a_verdict(mean=2e6, until_s=500),
    )  # fmt: skip
    fill = warm.model_copy(update={"name": "fill", "title": "Fill", "found": found})
    run.result = run.result.model_copy(update={"stages": (fill, warm)})
    run._seconds["fill.csv"] = seconds_of((20, 1e8, 131_072), (250, 4e6, 4096))
    run._seconds["warm.csv"] = seconds_of((500, 2e6, 4096))
    return run


def seconds_of(*parts: tuple[int, float, int]) -> Seconds:
    """Seconds of parts: their number, bytes a second, bytes of each I/O."""
    rate = np.concatenate([np.full(many, rate) for many, rate, _ in parts])
    ios = np.concatenate([np.full(many, rate / block) for many, rate, block in parts])
    t = np.arange(1.0, len(rate) + 1)
    return Seconds(t, np.ones_like(t), ios, rate, rate, np.ones_like(t, dtype=bool))


def test_the_write_cliff_names_each_phase_and_says_its_rate_as_iops_too(filled: StoredRun) -> None:
    ((plot,),) = (one.plots for one in preparation.cliff_blocks(filled))
    assert isinstance(plot.figure, SeriesFigure)
    with matplotlib.rc_context(canvas.STYLE):
        figure = canvas.arranged(plot.figure)
    (axes,) = figure.axes

    assert plot.figure.marks == (
        (0.0, "sequential fill × 2, 128 KiB\n762.9 IOPS, 100 MB/s"),
        (2.0, "random fill, 4 KiB\n976.6 IOPS, 4 MB/s"),
        (3.0, "warm-up, 4 KiB random write, QD\u00a032"),  # its rate is the steady level below
    )
    assert axes.get_yscale() == "log"
    drawn = [text.get_text() for text in axes.texts]
    assert set(drawn) == {
        *(words for _, words in plot.figure.marks),
        "steady level\n488.3 IOPS, 2 MB/s",
        "lower bound\n454.1 IOPS, 1.86 MB/s",
    }
    ends = {line.get_label(): line.get_xdata() for line in axes.get_lines()}
    assert ends["steady level"] == pytest.approx([3.5, 4.0], abs=0.01)  # the judged window
    styles = {line.get_label(): line.get_linestyle() for line in axes.get_lines()}
    assert styles["steady level"] != styles["lower bound"]


def test_a_fill_that_its_profile_does_not_explain_keeps_the_name_of_its_stage(
    filled: StoredRun,
) -> None:
    fill, warm = filled.result.stages
    other = with_found(fill, planned_bytes=2 * 10**9)
    filled.result = filled.result.model_copy(update={"stages": (other, warm)})

    names = [name for name, _ in preparation._phases(filled)]

    assert names[0] == "Fill" and len(names) == 2


def test_a_second_without_a_write_leaves_the_rest_of_the_cliff_readable(filled: StoredRun) -> None:
    fill = filled._seconds["fill.csv"]
    assert fill is not None
    fill.bytes[100] = fill.write_bytes[100] = 0.0

    ((plot,),) = (one.plots for one in preparation.cliff_blocks(filled))
    bottom, top = plot.figure.draw().axes[0].get_ylim()

    assert 1 < bottom < 2 and 100 < top < 1000


def test_every_repeat_stands_behind_the_curve_of_spans(full_run: Full) -> None:
    _, result, page = full_run
    spans = [p for p in result.points if p.point.span_percent is not None]

    rows = data(page, "span-")

    single = sorted(float(row["IOPS"]) for row in rows if row["line"].endswith("a repeat"))
    assert single == pytest.approx(sorted(r.iops for p in spans for r in p.repeats), rel=1e-5)


def test_rates_at_each_fill_level_have_a_curve_and_a_row_each(tmp_path: Path) -> None:
    run = StoredRunBuilder(tmp_path).span().write()
    levels = {5.0: 20.0, 25.0: 40.0, 50.0: 80.0, 100.0: 100.0}
    (stage,) = [stage for stage in run.stages if stage.points]
    measured = tuple(
        one.model_copy(
            update={
                "point": one.point.model_copy(
                    update={
                        "span_percent": None,
                        "fill_percent": levels[one.point.span_percent or 0.0],
                    }
                )
            }
        )
        for one in stage.points
    )
    filled = run.model_copy(update={"stages": (with_found(stage, points=measured),)})

    (section,) = pointstage.fullness(filled)
    plots, table = section.blocks
    assert isinstance(plots, Plots) and isinstance(table, Table)
    (plot,) = plots.plots
    assert isinstance(plot.figure, LinesFigure)
    (line,) = plot.figure.lines
    assert line.x == (20, 40, 80, 100)
    assert line.y == tuple(value_of(one, "iops") for one in measured)
    assert [row[1].text for row in table.rows] == ["20 %", "40 %", "80 %", "100 %"]
    assert list(pointstage.fullness(run)) == []


def test_stages_stand_on_one_line_of_time_with_what_they_wrote(full_run: Full) -> None:
    _, result, page = full_run

    rows = data(page, "timeline")

    assert [row["stage"] for row in rows] == [stage.title for stage in result.stages]
    ends = [float(row["to"]) for row in rows]
    assert ends[-1] * 3600 == pytest.approx(sum(s.duration_s for s in result.stages), rel=1e-3)
    assert "fills written" in rows[0]["what it took"]


@pytest.mark.parametrize(
    ("rates", "place"),
    [
        ((100.0, 500.0, 900.0, 1000.0), 2.0),
        ((1000.0, 1000.0, 1000.0), None),  # fewer may be enough
        ((100.0, 200.0, 400.0), None),  # more may help
        ((100.0, 1000.0), None),
        ((1000.0, 1000.0), None),
    ],
)
def test_the_knee_is_where_more_in_flight_stops_to_help_and_never_at_an_edge(
    rates: tuple[float, ...], place: float | None
) -> None:
    line = Line("4 KiB", tuple(float(n) for n in range(len(rates))), rates)

    assert pointplots.knee(line) == place


def test_two_depths_have_no_knee_on_the_page(full_run: Full) -> None:
    _, _, page = full_run

    rows = data(page, "queue-")

    assert len({row["queue depth × jobs"] for row in rows}) == 2
    assert all(row["line"] != "knee" for row in rows) and "Knee" not in page


ROUNDS = [{"drives": 9, "load_iops": 5_000.0, "kept": True}]


def test_the_p99_over_the_rate_has_all_points_of_the_table_and_the_limits(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path).steady().sweep(blocks=(4096, 8192), depths=(1, 4, 32))
    stage = builder.stages[1]
    few = stage.points[0].model_copy(
        update={"estimates": tuple(e.model_copy(update={"status": "indicative"})
                                   for e in stage.points[0].estimates)}
    )  # fmt: skip
    builder.stages[1] = stage = with_found(stage, points=(few, *stage.points[1:]))
    builder.stages.append(stage_result("load", a_load(5_000, planned=ROUNDS)))
    target = Accepted(
        target="reads", metric="lat_read_p99_ns", unit="ns", direction="at most", wanted=2e7,
        outcome="fail", why="slow",
    )  # fmt: skip
    result = builder.write(
        accepted=(target,),
        profile_text="title: t\nplan: {demand_iops: 9000, block: 4KiB, read: 70, "
        "p99: {write: 10ms}}\n",
    )

    (plot,) = pointplots._latency(result, stage, stage.points)
    assert isinstance(plot.figure, LinesFigure)
    rows = plot.figure.rows().table
    table = points.latencies(stage.points)
    assert table is not None
    column = [one.title for one in table.columns].index("p99")

    slowest: dict[str, float] = {}
    for point in stage.points:
        slowest[point.point.id] = percentiles_of(point.estimates)[99.0].value
    drawn = [row for row in rows if row[3] and ":" not in str(row[0])]
    load = [row for row in rows if str(row[0]).startswith("the planned load")]
    assert [row[1:3] for row in load] == [(5_000, 2.9e6)]
    assert len(drawn) == len(stage.points) == len({cells[0].hint for cells in table.rows})
    assert sorted(float(row[2] or 0) for row in drawn) == pytest.approx(sorted(slowest.values()))
    told = {cells[column].text.removeprefix("≈ ") for cells in table.rows}
    assert {format_ns(float(row[2] or 0)) for row in drawn} <= told
    assert {row[3] for row in drawn} == {"1 × 4", "4 × 4", "32 × 4"}
    assert plot.figure.limits == ((1e7, "plan: write p99\n10 ms"), (2e7, "target: read p99\n20 ms"))
    axes = plot.figure.draw().axes[0]
    flat = {float(line.get_ydata()[0]) for line in axes.get_lines()}  # type: ignore[index,arg-type]
    assert {1e7, 2e7} <= flat
    assert {"plan: write p99\n10 ms", "target: read p99\n20 ms"} <= {
        t.get_text() for t in axes.texts
    }


def test_many_kinds_of_points_are_dots_by_block_size_and_none_is_missing(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path).steady()
    builder.sweep(blocks=(4096, 8192, 16384), reads=(0, 30, 50, 70, 100), depths=(1, 4, 32, 64))
    result = builder.write()
    stage = result.stages[1]

    (plot,) = pointplots._latency(result, stage, stage.points)
    lines = plot.figure.draw().axes[0].get_lines()

    assert [line.get_label() for line in lines] == [f"all of {n} KiB" for n in (4, 8, 16)]
    assert sum(len(np.asarray(line.get_xdata())) for line in lines) == len(stage.points) == 60
    assert all(line.get_linestyle() == "None" and line.get_markersize() > 2 for line in lines)
    names = {str(row[3]) for row in plot.figure.rows().table}
    assert len(names) == 60 and "8 KiB random 50/50 read/write, 32 × 4" in names


def test_a_heat_map_has_each_repeat_at_its_time_and_all_of_its_requests(full_run: Full) -> None:
    _, result, page = full_run

    rows = data(page, "heat-")

    one = next(row["point"] for row in rows)
    (point,) = [p for p in result.points if p.point.id == one.rpartition(" ")[0]]
    cells = [row for row in rows if row["point"] == one and row["line"] == "I/Os"]
    starts = dict.fromkeys(float(row["seconds of counted time"]) for row in cells)
    length = point.repeats[0].measure_to_s - point.repeats[0].measure_from_s
    assert list(starts) == [n * length for n in range(len(point.repeats))]
    for start in starts:
        shares = [
            float(r["share [%]"]) for r in cells if float(r["seconds of counted time"]) == start
        ]
        assert sum(shares) == pytest.approx(100, abs=0.01)
    lines = {row["line"] for row in rows if row["point"] == one}
    assert lines == {"I/Os", "p50", "p99"}  # too few for p99.9


def test_the_open_loop_has_its_limit_answer_knee_and_failed_rates(tmp_path: Path) -> None:
    stage = StoredRunBuilder(tmp_path).rate().stages[0]
    assert isinstance(stage.found, RateFound)
    found = stage.found.model_copy(update={"knee_iops": 4_000.0})
    steps = [a_step(1_000.0 * n, kept=n <= 8) for n in (2, 4, 8, 9, 16)]

    figure = rates._curve(stage, found, steps).figure

    assert isinstance(figure, LinesFigure)
    assert {words: place for place, words in figure.marks} == {"answer": 8_000, "knee": 4_000}
    assert figure.limits == ((1e7, "limit of p99\n10 ms"),)
    assert [line.x for line in figure.lines if line.failed] == [(9_000.0, 16_000.0)]


def a_step(iops: float, *, kept: bool) -> RateStep:
    """One offered rate of one search."""
    return RateStep(
        search=1, step=1, offered_iops=iops, achieved_iops=iops, seen_ns=1e6, value_ns=2e6,
        upper_ns=3e6, p50_ns=5e5, mean_ns=6e5, backlog_grows=not kept, kept=kept, reason="",
    )  # fmt: skip


FIRST, SECOND = (1000.0, 1100.0), (900.0, 1000.0)  # means of the pairs: 1050 and 950


def judged(rule: str, blocks: tuple[float, ...], **limits: float) -> SteadyVerdict:
    return SteadyVerdict(
        rule=rule, steady=True, checked_s=600, volume_fills=2, window_to_s=600,
        window_blocks=blocks, mean=sum(blocks) / max(len(blocks), 1),
        criteria={name: (0.0, allowed) for name, allowed in limits.items()},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "words", "ends"),
    [
        (judged("pss", (*FIRST, *SECOND), halves=0.01, cv=0.04, pairs=0.1, slope=0.05),
         "pss: fifths of the window within 10 %", (950, 1050)),
        (judged("snia", (900.0, 1100.0), excursion=0.2, slope=0.1),
         "snia: rounds within 20 %", (900, 1100)),
        (judged("seppanen", (1000.0, 1005.0), difference=0.01),
         "seppanen: the second section within 1 % of the first", (990, 1010)),
        (judged("heger", (1000.0, 1000.0), cv=0.04),
         "heger: mean ± 4 % (largest standard deviation)", (960, 1040)),
        (judged("pss", (800.0, 1200.0), drift=0.02).model_copy(update={"lower_mode": 800.0}),
         "pss: lower level, which may drift by 2 %", (784, 816)),
    ],
)  # fmt: skip
def test_a_window_shows_the_band_of_its_own_rule(
    verdict: SteadyVerdict, words: str, ends: tuple[float, float]
) -> None:
    """Values that are apart by just what a rule allows lie on the ends of its band."""
    found = steady.band(verdict)

    assert found is not None
    assert (found.words, found.low, found.high) == (words, *map(pytest.approx, ends))


def test_a_rule_without_a_limit_on_values_has_no_band() -> None:
    assert steady.band(judged("fio-iops-slope", (1.0, 2.0), slope_percent_per_sample=0.3)) is None
    assert steady.band(judged("pss", (), pairs=0.1)) is None


def test_the_lowest_rate_that_was_offered_is_no_knee(tmp_path: Path) -> None:
    stage = StoredRunBuilder(tmp_path).rate().stages[0]
    assert isinstance(stage.found, RateFound)
    found = stage.found.model_copy(update={"knee_iops": 2_000.0})

    figure = rates._curve(stage, found, [a_step(2_000.0, kept=True), a_step(8e3, kept=True)]).figure

    assert isinstance(figure, LinesFigure)
    assert figure.marks == ((8_000.0, "answer"),)


def test_the_window_on_the_page_names_the_rule_on_band_and_fit(full_run: Full) -> None:
    _, _, page = full_run

    rows = data(page, "steady-")

    lines = dict.fromkeys(row["line"] for row in rows)
    assert "pss: fifths of the window within 10 %, lowest" in lines
    assert "straight-line fit (pss: within 5 %)" in lines
    assert sum(row["line"] == "mean of each pair" for row in rows) == 10  # both ends of five


def test_the_judged_window_is_large_and_its_lines_are_told_apart_without_colour() -> None:
    """A mean of 100 MB/s, a bound 1 % below it, one slow minute."""
    seconds = seconds_of((3600, 2e8, 4096), (3600, 1e8, 4096))
    seconds.bytes[5000:5060] *= 0.97
    seconds.ios[5000:5060] *= 0.97
    verdict = a_verdict(mean=1e8, until_s=7200).model_copy(update={"lower_bound": 0.99e8})

    plot = steady._run_up(verdict, seconds, "B/s", "x")
    assert isinstance(plot.figure, SteadyFigure)
    with matplotlib.rc_context(canvas.STYLE):
        figure = canvas.arranged(plot.figure)
        figure.draw_without_rendering()
    whole, window = figure.axes

    assert whole.get_ylim()[0] == 0 and whole.get_ylim()[1] > 200
    low, high = window.get_ylim()
    assert 85 < low < 97 and 105 < high < 115
    width, wide = (axes.get_window_extent().width for axes in (whole, window))
    assert wide > width and wide > 0.4 * figure.bbox.width
    texts = sorted(window.texts, key=lambda text: text.get_window_extent().y0)
    assert [text.get_text() for text in texts] == [
        "worst minute\n23,682 IOPS, 97 MB/s",
        "lower bound\n24,170 IOPS, 99 MB/s",
        "mean\n24,414 IOPS, 100 MB/s",
    ]
    boxes = [text.get_window_extent() for text in texts]
    assert all(a.y1 <= b.y0 for a, b in zip(boxes, boxes[1:], strict=False))
    looks = {
        line.get_label(): (line.get_linestyle(), line.get_linewidth())
        for line in window.get_lines()
        if line.get_label() in ("worst minute", "lower bound", steady.fit_words(verdict))
    }
    assert len(looks) == len(set(looks.values())) == 3
    minute = [row[2:] for row in plot.figure.rows().table if row[1] == "worst minute"]
    assert minute == [pytest.approx((end / 60, 97.0, 97.0)) for end in (5000, 5060)]


def test_a_slow_second_is_seen_in_the_heat_map_and_a_repeat_without_a_log_is_one_column(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=2, measure_s=6).steady()
    builder.sweep(blocks=(4096,), reads=(0,), depths=(1,)).write()
    run = StoredRun.open(tmp_path)
    stage = run.result.stages[1]
    (point,) = stage.points
    first, _ = sorted(point.repeats, key=lambda repeat: repeat.sequence)
    t = np.arange(1.0, 7.0)
    run._seconds[f"{first.artifacts}/seconds.csv"] = Seconds(t, t / t, t, t, t, t > 0)
    place = run.directory / first.artifacts / "fio"
    place.mkdir(parents=True, exist_ok=True)
    latencies = [1e5, 1e5, 9e6, 1e5, 1e5, 1e5]
    rows = [
        f"{1000 * n}, 1, 4096, {', '.join(map(str, Histogram.of(np.full(100, ns)).counts))}\n"
        for n, ns in enumerate(latencies, start=1)
    ]
    (place / "00-measure_clat_hist.1.log").write_text("".join(rows))

    found = list(pointplots._latencies(run, stage, frozenset({point.point.id})))
    (panel,) = pointplots._heat(run, stage, found).figure.panels  # type: ignore[attr-defined]

    ends = [(one.start, one.end) for one in panel.columns]
    length = first.measure_to_s - first.measure_from_s
    assert ends == [*((float(n), float(n + 1)) for n in range(6)), (length, 2 * length)]
    slow = [panel.edges[int(np.argmax(one.shares))] > 5e6 for one in panel.columns]
    assert slow == [False, False, True, False, False, False, False]
    assert panel.edges == tuple(sorted(panel.edges)) and run.missing == []


def test_words_of_marks_that_are_close_stand_below_each_other() -> None:
    figure = canvas.sheet(canvas.WIDE)
    axes = figure.subplots()
    axes.set_xlim(0, 100)

    canvas.marks(axes, [(10, "a long name"), (11, "another"), (60, "far away"), (99, "at the end")])

    rows = {text.get_text(): text.xyann for text in axes.texts if isinstance(text, Annotation)}
    assert rows["a long name"][1] == rows["far away"][1] == rows["at the end"][1]
    assert rows["another"][1] < rows["a long name"][1]
    assert rows["at the end"][0] < 0  # left of its line
