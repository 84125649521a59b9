"""Figures of experiments over the host: their axes are of what they show."""

from ssdbench.model.result import stage_result
from ssdbench.report.figures import DotsFigure
from ssdbench.report.plots.draw import draw
from ssdbench.report.view.page import Plots
from ssdbench.report.view.trials import figure


def test_programs_are_drawn_over_their_throughput_beside_fio() -> None:
    rates = {"postmark": 38.75e6, "postmark, fio's equivalent": 9.668e6}
    medians = [
        {"workload": name, "variant": "bfq", "bw_bytes_per_s": rate} for name, rate in rates.items()
    ]
    stage = stage_result(
        name="02-applications",
        kind="applications",
        title="Application programs on ext4",
        started_at="2026-11-21T00:00:00Z",
        duration_s=1.0,
        wall_s=1.0,
        summary={},
        data={"medians": medians},
    )

    (block,) = figure(stage)

    assert isinstance(block, Plots)
    drawn = block.plots[0].figure
    assert isinstance(drawn, DotsFigure)
    assert [(row.label, row.values) for row in drawn.rows] == [
        ("postmark, bfq", (("the program", 38.75), ("fio with the same mix", 9.668)))
    ]
    svg = draw(drawn, "programs")
    assert ">MB/s<" in svg
    assert " ns<" not in svg
