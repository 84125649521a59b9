import pytest

from ssdbench.model.result import StageResult, stage_result
from ssdbench.report.figures import (
    BarsFigure,
    ColumnsFigure,
    LinesFigure,
    SeriesFigure,
    WindowFigure,
)
from ssdbench.report.plots.draw import draw
from ssdbench.report.view import pts, ptstimed, words
from ssdbench.report.view.pts import tables
from ssdbench.report.view.ptsplots import plots, records, round_ticks
from tests.support.builders import with_found

RATES = (180.0, 104.0, 102.0, 100.0, 98.0, 96.0)
LATENCIES = {"min_ns": 1e5, "mean_ns": 1e6, "p99.999_ns": 4e6, "max_ns": 5e6}


def a_stage(**data: object) -> StageResult:
    rounds = [
        {
            "round": n,
            "cell": f"0/100 {size} B",
            "block_bytes": size,
            "read_percent": 0,
            "queue": 32,
            "threads": 4,
            "iops": iops,
            "throughput_bytes_per_s": iops * size,
            **LATENCIES,
        }
        for n, iops in enumerate(RATES, start=1)
        for size in (512, 4096)
    ]
    return stage_result(
        name="02-pts-iops",
        kind="pts",
        title="PTS-style IOPS test",
        started_at="2026-11-21T00:00:00Z",
        duration_s=1.0,
        wall_s=1.0,
        summary={"test": "PTS-style IOPS, enterprise form", "steady_state": "reached", "rounds": 6},
        data=data
        or {
            "rounds": rounds,
            "steady_state": [{"tracking": "0/100 4096 B, iops"}],
            "means_over_the_window": rounds[-2:],
        },
    )


def test_a_test_is_drawn_as_convergence_window_lines_and_columns_over_block_size() -> None:
    convergence, window, blocks, columns = plots(a_stage())

    assert isinstance(convergence.figure, LinesFigure)
    assert [line.y for line in convergence.figure.lines] == [RATES, RATES]
    assert isinstance(window.figure, WindowFigure)
    assert window.figure.blocks == RATES[1:]
    assert window.figure.y_label == "IOPS"
    assert "fit -2 x + 108" in window.caption
    assert isinstance(blocks.figure, LinesFigure)
    assert blocks.figure.lines[0].x == (512, 4096)
    assert isinstance(columns.figure, ColumnsFigure)
    assert columns.figure.heights == ((96.0, 96.0),)
    assert "<svg" in draw(columns.figure, columns.name)


@pytest.mark.parametrize(
    ("metric", "label", "factor"),
    [
        ("throughput bytes per s", "throughput [MB/s]", 1e-6),
        ("mean ns", "mean latency [ms]", 1e-6),
    ],
)
def test_the_axis_of_a_window_has_a_unit_and_its_numbers_are_in_it(
    metric: str, label: str, factor: float
) -> None:
    stage = a_stage()
    rounds = [
        {**r, "throughput_bytes_per_s": r["iops"], "mean_ns": r["iops"]}
        for r in stage.data["rounds"]  # type: ignore[attr-defined]
    ]
    tracked = [{"tracking": f"0/100 4096 B, {metric}"}]
    window = next(
        plot
        for plot in plots(a_stage(rounds=rounds, steady_state=tracked))
        if plot.name.startswith("window")
    )

    assert isinstance(window.figure, WindowFigure)
    assert window.figure.y_label == label
    assert window.figure.blocks == pytest.approx([rate * factor for rate in RATES[1:]])
    assert f"in {label.partition('[')[2][:-1]}: data excursion" in window.caption


def test_a_round_after_a_pause_is_not_in_the_window_that_is_drawn() -> None:
    stage = a_stage()
    rounds = [{**r, "counted": r["round"] != 3} for r in stage.data["rounds"]]  # type: ignore[attr-defined]

    window = list(plots(with_found(stage, data={**stage.data, "rounds": rounds})))[1]

    assert isinstance(window.figure, WindowFigure)
    assert window.figure.x == (1, 2, 4, 5, 6)


@pytest.mark.parametrize("test", ["PTS-style latency", "PTS-style demand variation"])
def test_a_latency_of_no_io_is_a_dash_and_not_0_ns(test: str) -> None:
    means = [{**r, **dict.fromkeys(LATENCIES, 0.0)} for r in a_stage().data["rounds"][-2:]]  # type: ignore[index]
    if "demand" in test:  # threads by queues: not one cell for each block size and mix
        means += means[:1]
    stage = a_stage(means_over_the_window=means)

    words = [
        cell.text
        for table in tables(with_found(stage, summary={"test": test}))
        for row in table.rows
        for cell in row
    ]

    assert "0 ns" not in words
    assert words.count("–") == (3 if "demand" in test else 4) * len(means)


def test_a_test_without_a_round_has_no_plots() -> None:
    assert list(plots(with_found(a_stage(), data={"rounds": []}))) == []


def test_a_history_is_drawn_over_time_with_its_phases_marked() -> None:
    samples = [
        {"phase": phase, "from_start_s": 60.0 * (at + 1), "written": at * 1e9, "iops": rate,
         "throughput_bytes_per_s": rate, "idle_s": 0.0, **LATENCIES}
        for at, (phase, rate) in enumerate([("1", 100.0)] * 70 + [("2", 50.0)] * 70)
    ]  # fmt: skip
    stage = a_stage(samples=samples)
    crossed = with_found(
        stage, summary={"test": "PTS-style cross-stimulus recovery, enterprise form"}
    )

    time, change, latency = ptstimed.plots(crossed)

    assert isinstance(time.figure, SeriesFigure)
    assert [words for _, words in time.figure.marks] == ["1", "2"]
    assert isinstance(change.figure, LinesFigure) and len(change.figure.lines[0].x) == 120
    assert isinstance(latency.figure, LinesFigure)
    assert [line.label for line in latency.figure.lines] == ["mean", "99.999 %", "highest"]


def test_a_histogram_is_drawn_with_the_percentiles_that_have_enough_behind_them() -> None:
    stage = a_stage(
        histograms={"c": {"latency_ns": [1000, 2000], "count": [990, 10]}},
        in_steady_state=[{"cell": "c", "p99_ns": 2000.0}],
    )

    (plot,) = ptstimed.plots(stage)

    assert isinstance(plot.figure, BarsFigure)
    assert plot.figure.marks == ((2000.0, "p99"),)
    assert "<svg" in draw(plot.figure, plot.name)


@pytest.mark.parametrize(
    ("summary", "complete", "says"),
    [
        ({"steady_state": "reached", "window": "rounds 2 to 6"}, True, "yes, in rounds 2 to 6"),
        ({"steady_state": "not reached", "rounds": 25}, True, "no, not steady after 25 rounds"),
        ({"steady_state": "not reached", "rounds": 3}, False, "not decided"),
        ({"steady_state": "not judged by this test"}, True, "not judged"),
    ],
)
def test_the_word_of_the_pts_rule_is_said_apart(
    summary: dict[str, str | int], complete: bool, says: str
) -> None:
    stage = with_found(a_stage(), summary=summary, complete=complete)

    assert pts.pts_rule(stage).startswith(says)


def test_a_latency_test_has_tables_of_lowest_mean_and_highest() -> None:
    stage = with_found(a_stage(), summary={"test": "PTS-style latency, client form"})

    titles = [table.caption for table in pts.tables(stage)]

    assert titles[:4] == [
        "Lowest latency", "Mean latency", "99.999 % latency", "Highest latency",
    ]  # fmt: skip
    assert len(titles) == 6
    nines = {cell.text for row in list(pts.tables(stage))[2].rows for cell in row[1:]}
    assert nines == {"4.0 ms"} or nines == {"4 ms"}


def test_99_999_percent_of_too_few_ios_is_a_dash() -> None:
    rows = [dict(row) for row in records(a_stage(), "means_over_the_window")]
    for row in rows:
        del row["p99.999_ns"]
    stage = with_found(
        a_stage(means_over_the_window=rows), summary={"test": "PTS-style latency, client form"}
    )

    nines = {cell.text for row in list(pts.tables(stage))[2].rows for cell in row[1:]}

    assert nines == {words.NONE}


def test_blocks_that_a_drive_cannot_do_are_in_the_tables_as_not_applicable() -> None:
    means = [m for m in records(a_stage(), "means_over_the_window") if m["block_bytes"] == 4096]
    absent = [{"cell": "0/100 512 B", "block_bytes": 512, "read_percent": 0}]

    for table in pts.tables(a_stage(means_over_the_window=means, not_applicable=absent)):
        assert [[cell.text for cell in row] for row in table.rows][1] == ["512 B", "not applicable"]


def a_matrix(test: str, read: int) -> StageResult:
    cells = [("pre-write T32 Q32", 32, 32, 0), ("T32 Q32", 32, 32, read), ("T1 Q1", 1, 1, read)]
    rounds = [
        {
            "round": n, "cell": cell, "block_bytes": 4096, "read_percent": reads, "queue": queue,
            "threads": threads, "iops": 100.0 * threads, "throughput_bytes_per_s": 4e5 * threads,
            **LATENCIES,
        }
        for n in range(1, 6)
        for cell, threads, queue, reads in cells
    ]  # fmt: skip
    samples = [{"t_s": 60.0 * n, "iops": 90.0, "phase": "p"} for n in range(1, 40)]
    levels = [
        {**s, "phase": f"pre-write before {level}"} for level in ("max", "min") for s in samples
    ]
    stage = a_stage(
        rounds=rounds, steady_state=[{"tracking": "T32 Q32, iops"}],
        means_over_the_window=rounds[-3:], warm_up=samples, pre_writes=levels,
    )  # fmt: skip
    return with_found(stage, summary={"test": f"PTS-style {test}, enterprise form"})


@pytest.mark.parametrize(("test", "read"), [("demand intensity", 0), ("composite block", 40)])
def test_a_matrix_of_demand_has_the_plots_of_the_standard(test: str, read: int) -> None:
    stage = a_matrix(test, read)

    drawn = {plot.title: plot for plot in [*plots(stage), *ptstimed.plots(stage)]}

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
    outstanding = drawn["Throughput over all outstanding requests"].figure
    assert isinstance(outstanding, LinesFigure)
    assert outstanding.lines[0].x == (1.0, 1024.0)
    assert outstanding.lines[0].y == pytest.approx((0.4, 12.8))
    levels = drawn["Writes before the histogram of each demand"].figure
    assert isinstance(levels, LinesFigure) and len(levels.lines) == 2
    assert all("<svg" in draw(plot.figure, plot.name) for plot in drawn.values())


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
    samples = [
        {
            "phase": "w", "from_start_s": 60.0 * n, "t_s": 60.0 * n, "written": n * 10**9,
            "fills": n / 10, "iops": 100.0, "throughput_bytes_per_s": 4e5, **LATENCIES,
        }
        for n in range(1, 30)
    ]  # fmt: skip
    stage = with_found(
        a_stage(samples=samples),
        summary={"test": "PTS-style write saturation, enterprise form"},
    )

    drawn = {plot.title: plot.figure for plot in ptstimed.plots(stage)}

    rate, latency = drawn["IOPS over drive fills"], drawn["Latency over drive fills"]
    assert isinstance(rate, SeriesFigure) and rate.trace.x[-1] == 2.9
    assert isinstance(latency, LinesFigure) and latency.lines[0].x[-1] == 2.9
    assert {"IOPS over time", "IOPS over gigabytes written", "Latency over time"} <= set(drawn)
