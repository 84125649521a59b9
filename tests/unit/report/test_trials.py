"""Figures of experiments over the host: their axes are of what they show."""

from typing import get_args

from ssdbench.model.found import ComparedKind, Comparison, Median
from ssdbench.model.kind import StageKind
from ssdbench.model.result import StageResult
from ssdbench.report.plots.canvas import to_svg
from ssdbench.report.plots.points import DotsFigure, LinesFigure
from ssdbench.report.view.page import Plots
from ssdbench.report.view.trials import SHOWN, figures


def a_median(workload: str, variant: str, **more: float) -> Median:
    return Median(
        workload=workload, variant=variant, repeats=3, iops=10.0, iops_least=9.0, iops_most=11.0,
        bw_bytes_per_s=40_960, more=more,
    )  # fmt: skip


def a_stage(kind: ComparedKind, *medians: Median) -> tuple[StageResult, Comparison]:
    found = Comparison(kind=kind, medians=medians)
    stage = StageResult(
        name=f"02-{kind}",
        title="Compare something",
        started_at="2026-11-21T00:00:00Z",
        duration_s=1.0,
        wall_s=1.0,
        found=found,
    )
    return stage, found


def test_every_kind_that_compares_has_its_way_to_be_drawn() -> None:
    assert set(SHOWN) == set(get_args(ComparedKind))


def test_variants_in_an_order_are_a_line_with_the_least_and_the_most() -> None:
    medians = [a_median("reads", depth) for depth in ("1", "16")]

    (block,) = figures(*a_stage(StageKind.DEPTH, *medians))

    assert isinstance(block, Plots)
    drawn = block.plots[0].figure
    assert isinstance(drawn, LinesFigure)
    assert (drawn.lines[0].low, drawn.lines[0].high) == ((9.0, 9.0), (11.0, 11.0))
    assert len(block.plots) == 1  # nothing was seen of the queue, so nothing is drawn of it


def test_the_layers_of_a_request_are_those_that_the_tracepoints_saw() -> None:
    median = a_median("reads", "none", device_ns=8_000.0, queue_ns=300.0, requests=50.0)

    (block,) = figures(*a_stage(StageKind.LATENCY_PATH, median))

    assert isinstance(block, Plots)
    drawn = block.plots[0].figure
    assert isinstance(drawn, DotsFigure)
    assert drawn.points[0].values == (("queue", 300.0), ("device", 8_000.0))


def test_programs_are_drawn_over_their_throughput_beside_fio() -> None:
    rates = {"postmark": 38_750_000, "postmark, fio's equivalent": 9_668_000}
    medians = [
        a_median(name, "bfq").model_copy(update={"bw_bytes_per_s": rate})
        for name, rate in rates.items()
    ]

    (block,) = figures(*a_stage(StageKind.APPLICATIONS, *medians))

    assert isinstance(block, Plots)
    drawn = block.plots[0].figure
    assert isinstance(drawn, DotsFigure)
    assert [(row.label, row.values) for row in drawn.points] == [
        ("postmark, bfq", (("the program", 38.75), ("fio with the same mix", 9.668)))
    ]
    svg = to_svg(drawn, "programs").svg
    assert ">MB/s (log)<" in svg
    assert " ns<" not in svg
