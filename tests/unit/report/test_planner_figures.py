"""The figures that a planner looks for, read back from the data that stand below each."""

import csv
import html
import io
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Annotation

from ssdbench.model.point import SteadyVerdict
from ssdbench.model.rates import RateFound, RateStep
from ssdbench.model.result import RunResult
from ssdbench.report.plots import canvas
from ssdbench.report.plots.points import LinesFigure
from ssdbench.report.view import rates, steady
from ssdbench.report.view.pointlatency import _bars
from ssdbench.stats.histogram import Histogram
from tests.support.builders import StoredRunBuilder

Full = tuple[Path, RunResult, str]
Rows = list[dict[str, str]]


def data(page: str, name: str) -> Rows:
    """What stands below a figure."""
    figure = re.search(rf'<figure data-name="{name}.*?</figure>', page, re.DOTALL)
    assert figure is not None, name
    text = re.search(r"<pre[^>]*>(.*?)</pre>", figure[0], re.DOTALL)
    assert text is not None
    return list(csv.DictReader(io.StringIO(html.unescape(text[1]))))


def test_the_write_cliff_stands_before_the_detail_on_both_axes(full_run: Full) -> None:
    """98 MB/s at first, a quarter of it at the end of the fill, then the warm-up."""
    _, _, page = full_run

    rows = data(page, "cliff")

    x, low, high = "drive fills written", "MB/s, lowest", "MB/s, highest"
    for part in {row["axis"] for row in rows}:
        here = [row for row in rows if row["axis"] == part]
        fills = [float(row[x]) for row in here]
        assert fills == sorted(fills) and fills[-1] == pytest.approx(3.59, abs=0.05)
        before = [float(row[low]) for row in here if 0.01 < float(row[x]) < 1.4]
        after = [float(row[high]) for row in here if 2.1 < float(row[x]) < 2.2]
        assert min(before) > 90 and max(after) < 30
    assert len({row["axis"] for row in rows}) == 2
    assert page.index('data-name="cliff"') < page.index('data-name="steady-')
    assert 'data-name="fill-' not in page  # drawn once
    assert 'data-x="2.23' in page  # where the warm-up began


def test_every_repeat_stands_behind_the_curve_of_spans(full_run: Full) -> None:
    _, result, page = full_run
    spans = [p for p in result.points if p.point.span_percent is not None]

    rows = data(page, "span-")

    single = sorted(float(row["IOPS"]) for row in rows if row["line"].endswith("a repeat"))
    assert single == pytest.approx(sorted(r.iops for p in spans for r in p.repeats), rel=1e-5)


def test_stages_stand_on_one_line_of_time_with_what_they_wrote(full_run: Full) -> None:
    _, result, page = full_run

    rows = data(page, "timeline")

    assert [row["stage"] for row in rows] == [stage.title for stage in result.stages]
    ends = [float(row["to"]) for row in rows]
    assert ends[-1] * 3600 == pytest.approx(sum(s.duration_s for s in result.stages), rel=1e-3)
    assert "fills written" in rows[0]["what it took"]


def test_the_knee_is_where_more_in_flight_stops_to_help(full_run: Full) -> None:
    _, _, page = full_run

    rows = data(page, "queue-")
    lines = [row for row in rows if row["line"] == "4 KiB"]
    most = max(float(row["IOPS"]) for row in lines)
    enough = [float(r["queue depth × jobs"]) for r in lines if float(r["IOPS"]) >= 0.9 * most]

    knee = [row for row in rows if row["line"] == "knee"]
    assert [float(row["queue depth × jobs"]) for row in knee] == [min(enough)]
    assert data(page, "queue-latency-")


def test_a_percentile_in_time_needs_slower_requests_behind_it(full_run: Full) -> None:
    _, result, page = full_run

    rows = data(page, "percentiles-")

    one = next(row["point"] for row in rows)
    (point,) = [p for p in result.points if p.point.id == one.rpartition(" ")[0]]
    in_time = [float(r["number of the repeat in order of time"]) for r in rows if r["point"] == one]
    assert set(in_time) == {float(repeat.sequence) for repeat in point.repeats}
    assert {row["line"] for row in rows} == {"p50", "p99"}  # too few for p99.9


def test_a_histogram_has_its_gaps_and_its_slowest_request() -> None:
    line = _bars(Histogram.of(np.array([10_000.0] * 900 + [9e6])))

    counts = dict(zip(line.x, line.y, strict=True))

    assert sum(line.y) == 901
    assert line.y[0] == 900 and line.y[-2:] == (1.0, 0.0)
    assert line.y.count(0.0) > 60  # nothing between ten microseconds and nine milliseconds
    assert list(counts) == sorted(counts)


def test_the_open_loop_has_its_limit_answer_knee_and_failed_rates(tmp_path: Path) -> None:
    stage = StoredRunBuilder(tmp_path).rate().stages[0]
    assert isinstance(stage.found, RateFound)
    found = stage.found.model_copy(update={"knee_iops": 4_000.0})
    steps = [a_step(1_000.0 * n, kept=n <= 8) for n in (2, 4, 8, 9, 16)]

    figure = rates._curve(stage, found, steps).figure

    assert isinstance(figure, LinesFigure)
    assert {words: place for place, words in figure.marks} == {"answer": 8_000, "knee": 4_000}
    assert "limit of p99" in {line.label for line in figure.lines}
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
         "pss: pairs of blocks within 10 %", (950, 1050)),
        (judged("snia", (900.0, 1100.0), excursion=0.2, slope=0.1),
         "snia: rounds within 20 %", (900, 1100)),
        (judged("seppanen", (1000.0, 1005.0), difference=0.01),
         "seppanen: the second section within 1 % of the first", (990, 1010)),
        (judged("heger", (1000.0, 1000.0), cv=0.04),
         "heger: mean and 4 %, the largest standard deviation", (960, 1040)),
        (judged("pss", (800.0, 1200.0), drift=0.02).model_copy(update={"lower_mode": 800.0}),
         "pss: the lower level may drift by 2 %", (784, 816)),
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


def test_the_window_on_the_page_names_the_rule_on_band_and_fit(full_run: Full) -> None:
    _, _, page = full_run

    rows = data(page, "window-")

    lines = dict.fromkeys(row["line"] for row in rows)
    assert "pss: pairs of blocks within 10 %, lowest" in lines
    assert "straight-line fit (pss: within 5 %)" in lines
    assert sum(row["line"] == "mean of each pair" for row in rows) == 10  # both ends of five


def test_words_of_marks_that_are_close_stand_below_each_other() -> None:
    figure = canvas.sheet(canvas.WIDE)
    axes = figure.subplots()
    axes.set_xlim(0, 100)

    canvas.marks(axes, [(10, "a long name"), (11, "another"), (60, "far away"), (99, "at the end")])

    rows = {text.get_text(): text.xyann for text in axes.texts if isinstance(text, Annotation)}
    assert rows["a long name"][1] == rows["far away"][1] == rows["at the end"][1]
    assert rows["another"][1] < rows["a long name"][1]
    assert rows["at the end"][0] < 0  # left of its line
