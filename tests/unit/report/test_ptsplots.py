from ssdbench.model.result import StageResult
from ssdbench.report.figures import LinesFigure, WindowFigure
from ssdbench.report.view.ptsplots import plots

RATES = (180.0, 104.0, 102.0, 100.0, 98.0, 96.0)


def a_stage() -> StageResult:
    rounds = [
        {
            "round": n,
            "cell": f"0/100 {size} B",
            "block_bytes": size,
            "read_percent": 0,
            "iops": iops,
        }
        for n, iops in enumerate(RATES, start=1)
        for size in (512, 4096)
    ]
    return StageResult(
        name="02-pts-iops",
        kind="pts",
        title="PTS-style IOPS test",
        started_at="2026-11-21T00:00:00Z",
        duration_s=1.0,
        wall_s=1.0,
        data={
            "rounds": rounds,
            "steady_state": [{"tracking": "0/100 4096 B, iops"}],
            "means_over_the_window": rounds[-2:],
        },
    )


def test_a_test_is_drawn_as_convergence_window_and_rate_over_block_size() -> None:
    convergence, window, blocks = plots(a_stage())

    assert isinstance(convergence.figure, LinesFigure)
    assert [line.y for line in convergence.figure.lines] == [RATES, RATES]
    assert isinstance(window.figure, WindowFigure)
    assert window.figure.blocks == RATES[1:]
    assert "fit -2 x + 108" in window.caption
    assert isinstance(blocks.figure, LinesFigure)
    assert blocks.figure.lines[0].x == (512, 4096)


def test_a_test_without_a_round_has_no_plots() -> None:
    assert list(plots(a_stage().model_copy(update={"data": {"rounds": []}}))) == []
