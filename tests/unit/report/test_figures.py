import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import matplotlib
import numpy as np
import pytest
from matplotlib.axis import Axis
from matplotlib.text import Text

from ssdbench.report import write
from ssdbench.report.figure import ReportFigure, thinned
from ssdbench.report.plots import canvas
from ssdbench.report.plots.canvas import to_svg
from ssdbench.report.plots.points import (
    Curve,
    CurvesFigure,
    Dots,
    DotsFigure,
    Line,
    LinesFigure,
    ScatterFigure,
    Strip,
    StripFigure,
)
from ssdbench.report.plots.series import (
    RepeatTraces,
    SeriesFigure,
    SettleFigure,
    SettlePanel,
)
from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view.page import Block, Fold, Plot, Plots
from ssdbench.report.view.steady import worst_minute
from tests.support.page_runs import a_page_run

TICKS = ((1.0, "one"), (2.0, "two"))
LINES = LinesFigure((Line("a <b> & $c$", (1.0, 2.0), (3.0, 4.0)),), "x", "IOPS", TICKS)


def test_thinning_keeps_every_stall_and_every_burst() -> None:
    y = np.full(100_000, 5_000.0)
    outliers = np.random.default_rng(3).choice(100_000, 20, replace=False)
    y[outliers[:10]], y[outliers[10:]] = np.arange(10.0), 9_000 + np.arange(10.0)

    trace = thinned(np.arange(100_000.0), y, bins=1000)

    assert len(trace.x) == 1000
    assert set(np.arange(10.0)) <= set(trace.low)
    assert set(9_000 + np.arange(10.0)) <= set(trace.high)


def test_bins_are_equal_on_the_axis_even_where_the_samples_are_not() -> None:
    fast, slow = np.linspace(0, 2, 40, endpoint=False), np.linspace(2, 3, 4000)
    rate = np.concatenate([np.full(40, 100.0), np.full(4000, 1.0)])

    trace = thinned(np.concatenate([fast, slow]), rate, bins=300)

    assert 0.9 < len(trace.x[trace.x < 2]) / 40 <= 1
    assert 95 <= len(trace.x[trace.x >= 2]) <= 101


def test_a_short_series_is_not_thinned() -> None:
    y = np.arange(10.0)

    trace = thinned(np.arange(10.0), y, bins=20)

    assert list(trace.low) == list(trace.high) == list(y)


def test_a_figure_of_repeats_draws_and_lists_what_settled_and_what_counts() -> None:
    settle, measure = (
        thinned(np.arange(start, start + 3.0), np.full(3, rate))
        for start, rate in ((0.0, 900.0), (3.0, 500.0))
    )
    panel = SettlePanel("sweep-1", "4 KiB", (RepeatTraces(settle, measure),))
    figure = SettleFigure((panel,))

    rows = figure.rows().table
    (axes,) = figure.draw().axes

    assert [row[:3] for row in rows[2:4]] == [
        ("sweep-1", "1 settling", 2.0),
        ("sweep-1", "1 counted", 3.0),
    ]
    assert [line.get_ydata().max() for line in axes.get_lines()] == [900.0, 500.0]  # type: ignore[union-attr]


def test_a_drawn_figure_has_no_colours_dates_or_ids_of_its_own() -> None:
    first, second = (to_svg(LINES, "lines").svg for _ in range(2))

    assert first == second
    assert re.findall(r"#0102[0-9a-f]{2}", first) == []
    assert "var(--c1)" in first and "<metadata" not in first
    assert [i for i in re.findall(r'id="([^"]+)"', first) if not i.startswith("lines-")] == []


def test_words_are_escaped_text_and_dollars_no_formulas() -> None:
    figure = LinesFigure(
        (LINES.lines[0], Line("second", (1.0, 2.0), (1.0, 1.0))), "x", "IOPS", TICKS
    )

    found = to_svg(figure, "words").svg

    assert "a &lt;b&gt; &amp; $c$" in found


@pytest.mark.parametrize(
    "figure",
    [
        pytest.param(
            SeriesFigure(thinned(np.array([0.0, 1.0]), np.zeros(2)), "s", "IOPS"), id="all-zero"
        ),
        pytest.param(
            LinesFigure((Line("", (1.0,), (5.0,)),), "x", "y", TICKS[:1], log_x=True, log_y=True),
            id="one-point-on-log-axes",
        ),
        pytest.param(StripFigure((Strip("only", (0.0,), None, True),)), id="one-repeat"),
        pytest.param(
            CurvesFigure((Curve("one", np.array([1000.0]), np.array([1.0])),)), id="one-latency"
        ),
        pytest.param(
            ScatterFigure(np.array([1.0]), np.array([2.0]), np.array([True]), "x", "y"),
            id="only-peaks",
        ),
    ],
)
def test_figures_of_almost_nothing_are_drawn_without_a_warning(figure: object) -> None:
    assert "<svg" in to_svg(figure, "edge").svg  # type: ignore[arg-type]


def test_the_worst_minute_is_found_where_it_was_planted() -> None:
    n = 600
    rate = np.full(n, 100.0)
    rate[300:360] = 40.0
    ones = np.ones(n)
    seconds = Seconds(
        np.arange(1.0, n + 1), ones, rate, rate * 4096, rate * 4096, ones.astype(bool)
    )

    found = worst_minute(seconds, "1/s", start_s=0, end_s=600)
    early = worst_minute(seconds, "1/s", start_s=0, end_s=200)
    short = worst_minute(seconds, "1/s", start_s=0, end_s=59)

    assert found == pytest.approx((300.0, 360.0, 40.0))
    assert early is not None and early[2] == pytest.approx(100.0)
    assert short is None


def test_a_line_that_hardly_moves_has_no_two_ticks_with_the_same_words() -> None:
    flat = Line("a", (1.0, 2.0), (100_000.2, 100_000.4))

    drawn = to_svg(LinesFigure((flat,), "x", "IOPS", TICKS, log_y=True), "flat").svg

    words = re.findall(r">([\d,]{6,})<", drawn)
    assert len(words) >= 3
    assert len(set(words)) == len(words)


def test_geometry_is_shortened_but_no_number_that_is_read() -> None:
    figure = LinesFigure(
        (Line("p99.9999", (1.0, 2.0), (1.0, 2.0)), Line("0.00001 %", (1.0, 2.0), (2.0, 1.0))),
        "x",
        "y",
        ((1.0, "0.0123"), (2.0, "two")),
    )

    found = to_svg(figure, "numbers").svg

    assert all(f">{text}</text>" in found for text in ("p99.9999", "0.00001 %", "0.0123"))
    assert re.findall(r' d="[^"]*\.\d{3}', found) == []


@pytest.mark.parametrize("rate", [1e30, 1e200])
def test_a_figure_of_numbers_beyond_all_measure_is_drawn_all_the_same(rate: float) -> None:
    line = Line("4 KiB", (1.0, 2.0), (rate, 2 * rate))

    assert "<svg" in to_svg(LinesFigure((line,), "queue depth", "IOPS", ()), "huge").svg


LONG = "64 KiB random 70/30 read/write with a rate of 1,000 IOPS, Poisson arrivals, QD 32 × 16"


def outside(view: ReportFigure) -> list[str]:
    """What of a figure's words is drawn beyond its edges."""
    with matplotlib.rc_context(canvas.STYLE):
        figure = canvas.arranged(view)
        figure.draw_without_rendering()
        whole = figure.bbox.padded(1)
        axes_of = [axis for axes in figure.axes for axis in vars(axes).values()
                   if isinstance(axis, Axis)]  # fmt: skip
        ticks = {label for axis in axes_of for tick in axis.get_major_ticks()
                 for label in (tick.label1, tick.label2)}  # fmt: skip
        found = cast(list[Text], figure.findobj(Text))
        texts = [one for one in found if one not in ticks]
        boxes = [(one, one.get_window_extent()) for one in texts if one.get_text()]
        return [one.get_text() for one, box in boxes
                if not (whole.x0 <= box.x0 and box.x1 <= whole.x1
                        and whole.y0 <= box.y0 and box.y1 <= whole.y1)]  # fmt: skip


@pytest.mark.parametrize("many", [1, 3, 6, 14])
def test_no_legend_is_cut_off_and_figures_grow_with_it(many: int) -> None:
    labels = [f"{number}: {LONG}" for number in range(many)]
    curve = np.array([1e5, 1e6]), np.array([1.0, 0.1])
    views: list[ReportFigure] = [
        LinesFigure(tuple(Line(one, (1.0, 2.0), (3.0, 4.0)) for one in labels), "x", "y", TICKS),
        CurvesFigure(tuple(Curve(one, *curve) for one in labels)),
        DotsFigure(tuple(Dots(one, ((one, 1e5), ("p50", 1e4))) for one in labels)),
    ]

    for view in views:
        assert outside(view) == []
        figure = canvas.arranged(view)
        (legend,) = figure.legends
        told = " ".join(" ".join(text.get_text().split()) for text in legend.get_texts())
        assert all(one in told for one in labels)
        assert figure.axes[0].get_position().height * figure.get_figheight() > 0.5


def test_labels_of_close_levels_stand_apart_in_their_order_and_inside_the_figure() -> None:
    limits = tuple((1e7 * (1 + n / 1000), f"target {n}: read p99.999\n{n} ms") for n in range(4))
    figure = LinesFigure(
        (Line("a", (1.0, 9.0), (1e6, 1e7)),), "IOPS", "latency", (), log_x=True, log_y=True,
        latency=True, limits=limits,
    )  # fmt: skip

    assert outside(figure) == []
    drawn = canvas.arranged(figure)
    drawn.draw_without_rendering()
    boxes = [text.get_window_extent() for text in drawn.axes[0].texts]
    assert all(a.y1 < b.y0 for a, b in zip(boxes, boxes[1:], strict=False))
    assert [row[1:3] for row in figure.rows().table[2:4]] == [(1.0, 1e7), (9.0, 1e7)]


@pytest.mark.parametrize("name", ["demo", "rate", "standard", "stepping"])
def test_no_words_of_a_figure_of_a_page_are_outside_of_it(name: str, tmp_path: Path) -> None:
    page = write.page(StoredRun.open(a_page_run(name, tmp_path / name)))
    plots = [plot for section in page.sections for plot in plots_in(section.blocks)]

    assert len(plots) >= 4
    assert {plot.name: outside(plot.figure) for plot in plots if outside(plot.figure)} == {}


def plots_in(blocks: Iterable[Block]) -> Iterator[Plot]:
    """All figures in blocks and in their folds."""
    for block in blocks:
        if isinstance(block, Plots):
            yield from block.plots
        if isinstance(block, Fold):
            yield from plots_in(block.blocks)


def test_words_below_an_axis_never_run_into_each_other() -> None:
    ticks = tuple((float(n), f"{1 << n} x 4") for n in range(10))
    line = Line("4 KiB", tuple(x for x, _ in ticks), tuple(1.0 for _ in ticks))
    figure = LinesFigure((line,), "queue depth x jobs", "IOPS", ticks).draw()
    figure.canvas.draw()

    drawn = [one for one in figure.axes[0].get_xticklabels() if one.get_text()]
    boxes = sorted((one.get_window_extent() for one in drawn), key=lambda box: box.x0)

    assert len(boxes) > 5 and "512 x 4" in [one.get_text() for one in drawn]
    assert all(a.x1 < b.x0 for a, b in zip(boxes, boxes[1:], strict=False))


def test_words_of_ticks_stand_at_their_places_on_both_kinds_of_axes() -> None:
    figure = LinesFigure(
        (Line("", (10.0, 1000.0), (5.0, 20.0)),), "x", "y",
        ((10.0, "ten"), (100.0, "<hundred>"), (1000.0, "thousand")), log_x=True,
    )  # fmt: skip
    drawn = to_svg(figure, "f")
    left, top, right, bottom = drawn.axes[0]["box"]
    (low, high), (_, most) = drawn.axes[0]["x"]["ends"], drawn.axes[0]["y"]["ends"]

    found = re.findall(r'<text x="([\d.]+)" y="([\d.]+)">([^<]+)</text>', drawn.svg)
    across = {said: float(x) for x, y, said in found if float(y) > bottom + 10}
    up = {float(said): float(y) - 3.5 for x, y, said in found if float(x) < left}

    assert set(across) == {"ten", "&lt;hundred&gt;", "thousand"}
    for said, value in (("ten", 10.0), ("&lt;hundred&gt;", 100.0), ("thousand", 1000.0)):
        share = np.log10(value / low) / np.log10(high / low)
        assert across[said] == pytest.approx(left + share * (right - left), abs=0.01)
    assert len(up) > 3
    for value, y in up.items():
        assert y == pytest.approx(bottom - value / most * (bottom - top), abs=0.01)
