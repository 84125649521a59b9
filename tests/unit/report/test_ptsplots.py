from typing import Any

import pytest

from ssdbench.model.profile.standard import PtsForm, PtsTest
from ssdbench.model.pts import (
    Pts,
    PtsAbsent,
    PtsBins,
    PtsCell,
    PtsLatency,
    PtsMetric,
    PtsRate,
    PtsRound,
    PtsSample,
    PtsWindow,
)
from ssdbench.model.result import StageResult
from ssdbench.report.plots.canvas import to_svg
from ssdbench.report.plots.columns import BarsFigure, ColumnsFigure
from ssdbench.report.plots.points import LinesFigure
from ssdbench.report.plots.series import SeriesFigure, WindowFigure
from ssdbench.report.view import ptsplots, words
from ssdbench.report.view.pts import measured, pts_rule, tables
from ssdbench.report.view.ptsplots import plots, round_ticks

NAME = "02-pts-iops"
RATES = (180.0, 104.0, 102.0, 100.0, 98.0, 96.0)
LATENCY = PtsLatency(min_ns=1e5, mean_ns=1e6, percentiles_ns={"p99.999": 4e6}, max_ns=5e6)


def a_cell(cell: str, iops: float, **more: Any) -> PtsCell:
    values = {
        "block_bytes": 4096, "read_percent": 0, "queue": 32, "threads": 4,
        "throughput_bytes_per_s": iops, "latency": LATENCY,
    }  # fmt: skip
    return PtsCell(**{"cell": cell, "iops": iops, **values, **more})


def a_window(
    cell: str = "0/100 4096 B", metric: PtsMetric = PtsMetric.IOPS, **more: Any
) -> PtsWindow:
    values = {
        "first_round": 2, "last_round": 6, "average": 100.0, "allowed_data_excursion": 20.0,
        "measured_data_excursion": 8.0, "allowed_slope_excursion": 10.0,
        "measured_slope_excursion": 8.0, "fit": "-2 x + 108", "correlation": -1.0, "steady": True,
    }  # fmt: skip
    return PtsWindow(**{"cell": cell, "metric": metric, **values, **more})


ROUNDS = tuple(
    PtsRound(
        number=n,
        cells=tuple(a_cell(f"0/100 {size} B", iops, block_bytes=size) for size in (512, 4096)),
    )
    for n, iops in enumerate(RATES, start=1)
)


def a_test(test: PtsTest = PtsTest.IOPS, **more: Any) -> Pts:
    values = {
        "test": test, "form": PtsForm.ENTERPRISE, "active_range_bytes": 1 << 30, "steady": True,
    }  # fmt: skip
    rounds = {"rounds": ROUNDS, "windows": (a_window(),), "means": ROUNDS[-1].cells}
    return Pts(**{**values, **(more or rounds)})


def in_rounds(test: PtsTest) -> Pts:
    return a_test().model_copy(update={"test": test})


def a_sample(at: int, phase: str, rate: float, **more: Any) -> PtsSample:
    values = {
        "from_start_s": 60.0 * (at + 1), "t_s": 60.0 * (at + 1), "sample": at + 1, "idle_s": 0.0,
        "written_bytes": at * 10**9, "fills": at / 10, "throughput_bytes_per_s": rate,
        "latency": LATENCY,
    }  # fmt: skip
    return PtsSample(**{"phase": phase, "iops": rate, **values, **more})


def test_a_test_is_drawn_as_convergence_window_lines_and_columns_over_block_size() -> None:
    convergence, window, blocks, columns = plots(NAME, a_test())

    assert isinstance(convergence.figure, LinesFigure)
    assert [line.y for line in convergence.figure.lines] == [RATES, RATES]
    assert isinstance(window.figure, WindowFigure)
    assert window.figure.blocks == RATES[1:]
    assert window.figure.y_label == "IOPS"
    assert "falling from 104 to 96 IOPS (fit -2 x + 108, correlation -1.000)" in window.caption
    assert isinstance(blocks.figure, LinesFigure)
    assert blocks.figure.lines[0].x == (512, 4096)
    assert isinstance(columns.figure, ColumnsFigure)
    assert columns.figure.heights == ((96.0, 96.0),)
    assert "<svg" in to_svg(columns.figure, columns.name).svg


@pytest.mark.parametrize(
    ("metric", "label", "factor"),
    [
        (PtsMetric.THROUGHPUT, "throughput [MB/s]", 1e-6),
        (PtsMetric.MEAN, "mean latency [us]", 1e-3),
    ],
)
def test_the_axis_of_a_window_has_a_unit_and_its_numbers_are_in_it(
    metric: PtsMetric, label: str, factor: float
) -> None:
    rounds = tuple(
        PtsRound(
            number=n,
            cells=(a_cell("c", rate, latency=LATENCY.model_copy(update={"mean_ns": rate})),),
        )
        for n, rate in enumerate(RATES, start=1)
    )
    found = a_test(rounds=rounds, windows=(a_window("c", metric),))
    window = next(plot for plot in plots(NAME, found) if plot.name.startswith("window"))

    assert isinstance(window.figure, WindowFigure)
    assert window.figure.y_label == label
    assert window.figure.blocks == pytest.approx([rate * factor for rate in RATES[1:]])
    assert f" {label.partition('[')[2][:-1]}. Change of" in window.caption


def test_a_round_after_a_pause_is_not_in_the_window_that_is_drawn() -> None:
    paused = tuple(one.model_copy(update={"counted": one.number != 3}) for one in ROUNDS)
    found = a_test(rounds=paused, windows=(a_window(),))

    window = list(plots(NAME, found))[1]

    assert isinstance(window.figure, WindowFigure)
    assert window.figure.x == (1, 2, 4, 5, 6)
    rounds = next(table for table in measured(found) if table.caption.endswith("each round"))
    place = [column.title for column in rounds.columns].index("Counted")
    assert [row[place].text for row in rounds.rows[4:6]] == ["no", "no"]
    assert rounds.rows[0][place].text == words.NONE


@pytest.mark.parametrize("test", [PtsTest.LATENCY, PtsTest.DEMAND])
def test_a_latency_of_no_io_is_a_dash_and_not_0_ns(test: PtsTest) -> None:
    first, *others = ROUNDS[-1].cells
    means = [first.model_copy(update={"latency": None}), *others]

    texts = [
        cell.text
        for table in tables(a_test(test, means=means))
        for row in table.rows
        for cell in row
    ]

    assert "0 ns" not in texts
    assert texts.count("–") == (3 if test is PtsTest.DEMAND else 4)


def test_a_latency_that_was_never_recorded_is_a_sentence_and_not_plots_of_zeros() -> None:
    def without(cell: PtsCell) -> PtsCell:
        return cell.model_copy(update={"latency": None})

    rounds = [one.model_copy(update={"cells": tuple(map(without, one.cells))}) for one in ROUNDS]
    window = a_window(ROUNDS[0].cells[0].cell).model_copy(update={"metric": PtsMetric.MEAN})
    found = a_test(PtsTest.LATENCY, rounds=tuple(rounds), windows=(window,), means=rounds[-1].cells)

    titles = [plot.title for plot in plots(NAME, found)]
    captions = [table.caption for table in tables(found)]

    assert not [title for title in titles if "atency" in title]
    assert not [caption for caption in captions if "latency" in caption]


def test_a_test_without_a_round_has_no_plots() -> None:
    assert list(plots(NAME, a_test(rounds=()))) == []


def test_a_history_is_drawn_over_time_with_its_phases_marked() -> None:
    samples = [
        a_sample(at, phase, rate)
        for at, (phase, rate) in enumerate([("1", 100.0)] * 70 + [("2", 50.0)] * 70)
    ]

    time, change, latency = ptsplots.timed_plots(NAME, a_test(PtsTest.CROSSED, samples=samples))

    assert isinstance(time.figure, SeriesFigure)
    assert [words for _, words in time.figure.marks] == ["1", "2"]
    assert isinstance(change.figure, LinesFigure) and len(change.figure.lines[0].x) == 120
    assert isinstance(latency.figure, LinesFigure)
    assert [line.label for line in latency.figure.lines] == ["mean", "99.999 %", "highest"]


def test_a_histogram_is_drawn_with_the_percentiles_that_have_enough_behind_them() -> None:
    cell = a_cell(
        "c",
        100.0,
        bins=PtsBins(latency_ns=(1000, 2000), count=(990, 10)),
        latency=LATENCY.model_copy(update={"percentiles_ns": {"p99": 2000.0}}),
    )

    (plot,) = ptsplots.timed_plots(NAME, a_test(in_steady_state=(cell,)))

    assert isinstance(plot.figure, BarsFigure)
    assert plot.figure.marks == ((2000.0, "p99"),)
    assert "<svg" in to_svg(plot.figure, plot.name).svg


@pytest.mark.parametrize(
    ("test", "steady", "rounds", "complete", "says"),
    [
        (PtsTest.IOPS, True, 6, True, "yes, in rounds 2 to 6"),
        (PtsTest.SATURATION, True, 0, True, "yes"),
        (PtsTest.IOPS, False, 6, True, "no, not steady after 6 rounds"),
        (PtsTest.SATURATION, False, 0, True, "no"),
        (PtsTest.IOPS, False, 3, False, "not decided, because the test was not finished"),
        (PtsTest.CROSSED, None, 0, True, "not judged by this test"),
        (PtsTest.CROSSED, None, 0, False, "not decided, because the test was not finished"),
    ],
)
def test_the_word_of_the_pts_rule_is_said_apart(
    test: PtsTest, steady: bool | None, rounds: int, complete: bool, says: str
) -> None:
    found = a_test(test, steady=steady, rounds=ROUNDS[:rounds], windows=(a_window(),))
    stage = StageResult(
        name=NAME, title="", started_at="2026-11-21T00:00:00Z", duration_s=1.0, wall_s=1.0,
        complete=complete, found=found,
    )  # fmt: skip

    assert pts_rule(stage, found) == says


def test_a_latency_test_has_tables_of_lowest_mean_and_highest() -> None:
    drawn = list(tables(in_rounds(PtsTest.LATENCY)))

    assert [table.caption for table in drawn][:4] == [
        "Lowest latency", "Mean latency", "99.999 % latency", "Highest latency",
    ]  # fmt: skip
    assert len(drawn) == 6
    assert {cell.text for row in drawn[2].rows for cell in row[1:]} == {"4 ms"}


def test_99_999_percent_of_too_few_ios_is_a_dash() -> None:
    few = LATENCY.model_copy(update={"percentiles_ns": {}})
    means = [cell.model_copy(update={"latency": few}) for cell in ROUNDS[-1].cells]

    drawn = list(tables(a_test(PtsTest.LATENCY, means=means)))

    assert {cell.text for row in drawn[2].rows for cell in row[1:]} == {words.NONE}
    assert {cell.text for row in drawn[3].rows for cell in row[1:]} == {"5 ms"}


def test_blocks_that_a_drive_cannot_do_are_in_the_tables_as_not_applicable() -> None:
    means = ROUNDS[-1].cells[1:]
    absent = (PtsAbsent(cell="0/100 512 B", block_bytes=512, read_percent=0),)

    for table in tables(a_test(means=means, not_applicable=absent)):
        assert [[cell.text for cell in row] for row in table.rows][1] == ["512 B", "not applicable"]


def a_matrix(test: PtsTest, read: int) -> Pts:
    cells = (
        a_cell("pre-write T32 Q32", 3200.0, threads=32, pre_write=True),
        a_cell("T32 Q32", 3200.0, threads=32, read_percent=read, throughput_bytes_per_s=12.8e6),
        a_cell("T1 Q1", 100.0, threads=1, queue=1, read_percent=read, throughput_bytes_per_s=4e5),
    )
    return a_test(
        test,
        rounds=tuple(PtsRound(number=n, cells=cells) for n in range(1, 6)),
        windows=(a_window("T32 Q32"),),
        means=cells,
        warm_up=[a_sample(at, "warm-up", 90.0) for at in range(39)],
        pre_writes=[
            PtsRate(phase=f"pre-write before {level}", t_s=60.0 * n, iops=90.0)
            for level in ("max", "min")
            for n in range(1, 40)
        ],
    )


@pytest.mark.parametrize(("test", "read"), [(PtsTest.DEMAND, 0), (PtsTest.COMPOSITE, 40)])
def test_a_matrix_of_demand_has_the_plots_of_the_standard(test: PtsTest, read: int) -> None:
    found = a_matrix(test, read)

    drawn = {plot.title: plot for plot in [*plots(NAME, found), *ptsplots.timed_plots(NAME, found)]}

    assert set(drawn) == {
        "IOPS of the writes before the first round",
        "Measurement window, samples 30 min apart",
        "Writes before each round",
        "Steady-state convergence, IOPS",
        "Measurement window: T32 Q32, IOPS",
        "Demand variation",
        "Demand intensity",
        "IOPS over all outstanding requests",
        "Throughput over all outstanding requests",
        "Writes before the histogram of each demand",
    }
    convergence = drawn["Steady-state convergence, IOPS"].figure
    assert isinstance(convergence, LinesFigure)
    assert [line.label for line in convergence.lines] == ["T32 Q32", "T1 Q1"]
    before = drawn["Writes before each round"].figure
    assert isinstance(before, LinesFigure)
    assert [line.label for line in before.lines] == ["pre-write T32 Q32"]
    outstanding = drawn["Throughput over all outstanding requests"].figure
    assert isinstance(outstanding, LinesFigure)
    assert outstanding.lines[0].x == (1.0, 1024.0)
    assert outstanding.lines[0].y == pytest.approx((0.4, 12.8))
    levels = drawn["Writes before the histogram of each demand"].figure
    assert isinstance(levels, LinesFigure) and len(levels.lines) == 2
    assert all("<svg" in to_svg(plot.figure, plot.name).svg for plot in drawn.values())


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.0, 3.1, ["0", "1", "2", "3"]),
        (0.0, 12.4, ["0", "5", "10"]),
        (475.0, 595.0, ["480", "500", "520", "540", "560", "580"]),
        (0.0, 0.29, ["0", "0.05", "0.1", "0.15", "0.2", "0.25"]),
    ],
)
def test_ticks_of_time_are_round(low: float, high: float, says: list[str]) -> None:
    assert [word for _, word in round_ticks(low, high)] == says


def test_write_saturation_is_drawn_over_drive_fills_too() -> None:
    samples = [a_sample(n, "w", 100.0) for n in range(1, 30)]

    drawn = {
        plot.title: plot.figure
        for plot in ptsplots.timed_plots(NAME, a_test(PtsTest.SATURATION, samples=samples))
    }

    rate, latency = drawn["IOPS over drive fills"], drawn["Latency over drive fills"]
    assert isinstance(rate, SeriesFigure) and rate.trace.x[-1] == 2.9
    assert isinstance(latency, LinesFigure) and latency.lines[0].x[-1] == 2.9
    assert {"IOPS over time", "IOPS over gigabytes written", "Latency over time"} <= set(drawn)
