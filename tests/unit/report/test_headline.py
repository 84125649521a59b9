"""The number that stands first is one of the kind that the profile's plan asks about."""

from pathlib import Path

from ssdbench.model.finding import Code
from ssdbench.model.found import FillDone
from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult, StageResult
from ssdbench.model.target import TargetKind
from ssdbench.report import render
from ssdbench.report.plots.points import Line, LinesFigure
from ssdbench.report.view.findings import grouped, proofs, reasons
from ssdbench.report.view.headline import headline, headword
from ssdbench.report.view.page import Plot, Plots
from ssdbench.report.view.pointplots import rates
from ssdbench.units import format_bound, format_count
from tests.support.builders import (
    StoredRunBuilder,
    a_finding,
    a_small_run,
    a_target,
    stage_result,
    with_found,
)


def a_run(directory: Path, plan: str) -> RunResult:
    """Two block sizes and three read shares, under a profile with this plan."""
    builder = StoredRunBuilder(directory, repeats=3, measure_s=20)
    builder.sweep(blocks=(4096, 65536), reads=(100, 70, 0), depths=(32,))
    return builder.write(profile_text=f"title: t\nmeasure: [{{sweep: {{}}}}]\nplan: {plan}\n")


def bound(result: RunResult, block: int, read: int) -> int:
    """The lower bound of the point of this kind."""
    points: list[PointResult] = [point for stage in result.stages for point in stage.points]
    point = next(
        p
        for p in points
        if (p.point.workload.block_bytes, p.point.workload.read_percent) == (block, read)
    )
    estimate = point.estimate("iops")
    assert estimate is not None
    return int(estimate.bound or 0)


def shown(result: RunResult) -> int:
    """The rate first, or below the answer to a question."""
    top = headline(result)
    return int((top.rate or top).number.replace(",", ""))


def plots_of(result: RunResult, stage: StageResult) -> list[Plot]:
    """The figures of the points of a stage."""
    shown = [block for block in rates(result, stage, frozenset()) if isinstance(block, Plots)]
    return [plot for block in shown for plot in block.plots]


def lines_of(result: RunResult, stage: StageResult) -> list[Line]:
    """What they draw."""
    figures = [plot.figure for plot in plots_of(result, stage)]
    return [line for one in figures if isinstance(one, LinesFigure) for line in one.lines]


def test_the_first_number_is_of_the_block_and_the_read_share_that_the_plan_names(
    tmp_path: Path,
) -> None:
    result = a_run(tmp_path, "{block: 64KiB, read: 70}")

    assert shown(result) == bound(result, 65536, 70)
    assert "the plan asks for this kind (64 KiB, 70 % reads)" in headline(result).holds_for


def test_where_the_plan_names_a_milder_kind_the_worst_measured_stands_beside_it(
    tmp_path: Path,
) -> None:
    result = a_run(tmp_path, "{block: 4KiB, read: 100}")

    beside = dict(headline(result).evidence)

    assert shown(result) == bound(result, 4096, 100)
    assert beside["Bound of the worst measured point"].startswith(
        f"{bound(result, 4096, 0):,} IOPS"
    )


def test_where_the_run_was_not_steady_a_mean_stands_beside_a_mean(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20).steady(steady=False)
    builder.sweep(blocks=(4096,), reads=(100, 0), depths=(32,))
    result = builder.write(profile_text="measure: [{sweep: {}}]\nplan: {read: 100}\n")
    means = [e.value for p in result.points for e in p.estimates if e.metric == "iops"]

    top = headline(result)
    beside = dict(top.evidence)

    assert top.number == format_count(max(means))
    assert beside["Mean of the worst measured point"].startswith(f"{format_count(min(means))} IOPS")
    assert "Bound of the worst measured point" not in beside


def test_a_worse_point_that_did_not_settle_stands_beside_the_number_only_by_its_mean(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20).steady()
    builder.sweep(blocks=(4096,), reads=(100, 0), depths=(8, 32))
    result = builder.write(profile_text="measure: [{sweep: {}}]\nplan: {read: 100}\n")
    stage = result.stages[-1]
    writes = [p for p in stage.points if p.point.workload.writes]
    (lowest, worst), (other, _) = sorted(
        (e.bound or 0, p.point.id) for p in writes if (e := p.estimate("iops")) is not None
    )

    def beside(mean: float) -> dict[str, str]:
        points = tuple(
            p
            if p.point.id != worst
            else p.model_copy(
                update={
                    "findings": (a_finding(Code.NOT_STEADY_POINT),),
                    "estimates": tuple(
                        e.model_copy(update={"value": mean}) if e.metric == "iops" else e
                        for e in p.estimates
                    ),
                }
            )
            for p in stage.points
        )
        moved = result.model_copy(
            update={"stages": (*result.stages[:-1], with_found(stage, points=points))}
        )
        return dict(headline(moved).evidence)

    number = shown(result)
    assert lowest < other < number
    assert beside(other / 2)["Mean of the worst measured point"].startswith(format_count(other / 2))
    settled = beside(number * 2.0)
    assert "Mean of the worst measured point" not in settled
    assert settled["Bound of the worst measured point"].startswith(format_bound(other))


def test_a_plan_that_names_no_kind_stands_on_the_worst_measured(tmp_path: Path) -> None:
    result = a_run(tmp_path, "{demand_iops: 1000}")

    assert shown(result) == bound(result, 4096, 0)
    assert "Bound of the worst measured point" not in dict(headline(result).evidence)


def test_a_plan_for_a_kind_that_was_not_measured_gets_no_number(tmp_path: Path) -> None:
    result = a_run(tmp_path, "{block: 1MiB, read: 30}")

    assert headline(result).number == "–"
    assert "1 MiB, 30 % reads" in headline(result).meaning


def test_a_profile_of_another_version_stands_on_the_worst_measured(tmp_path: Path) -> None:
    result = a_small_run(tmp_path, profile_text="plan: {block: 4KiB, future: 1}\n")

    assert shown(result) == bound(result, 4096, 0)


def test_the_number_answer_and_meaning_say_that_an_attached_drive_is_simulated(
    tmp_path: Path,
) -> None:
    """A block device of `sim attach` may be taken for a drive by whoever reads one line."""
    attached = a_target(TargetKind.DRIVE, simulated_by="`ssdbench sim attach`")
    told = {}
    for name, plan in (("number", "{block: 4KiB}"), ("answer", "{demand_iops: 1000}")):
        builder = StoredRunBuilder(tmp_path / name, target=attached, repeats=3, measure_s=20)
        builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
        result = builder.write(
            verdict="VALIDATED",
            profile_text=f"title: t\nmeasure: [{{sweep: {{}}}}]\nplan: {plan}\n",
        )
        told[name] = headline(result)
        assert "the drive is simulated: the number describes a model" in headword(result).meaning

    assert told["number"].label == "Number to plan on (simulated drive)"
    assert "(simulated drive)" in told["answer"].answer


def test_a_run_that_only_searched_for_a_rate_shows_the_lowest_rate(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path).precondition().steady()
    result = builder.rate(8_000.0).rate(5_000.9).write()

    top = headline(result)

    assert (top.number, top.unit) == ("5,000", "IOPS")
    assert top.label == "Highest rate within the latency limit (simulated drive)"
    assert "p99 of at most 10 ms" in top.holds_for.replace("\u00a0", " ")


def test_a_rate_that_was_not_validated_is_not_planned_on(tmp_path: Path) -> None:
    result = StoredRunBuilder(tmp_path).rate().write(verdict="NOT VALIDATED")

    assert "do not plan on it" in headline(result).label


def test_a_limit_that_no_rate_kept_has_no_number(tmp_path: Path) -> None:
    result = StoredRunBuilder(tmp_path).rate(None).write(verdict="NOT VALIDATED")

    assert headline(result).unit == ""
    assert headline(result).label == "No offered rate kept the latency limit"


def test_a_run_without_points_does_not_boast_of_repeats(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path).precondition().steady().rate()
    builder.write()

    render(tmp_path)

    page = (tmp_path / "report.html").read_text()
    assert "found by every search" in page and "repeated in random order" not in page


def test_a_drive_filled_again_after_its_first_points_was_not_filled_by_that_before(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20).precondition()
    builder.sweep(blocks=(4096,), reads=(0,), depths=(32,))
    once = dict(proofs(builder.write()))["Filled before measuring"]

    again = dict(proofs(builder.precondition().write()))

    assert again["Filled before measuring"] == once != "not filled"


def test_a_run_that_was_not_steady_shows_the_lowest_mean_and_not_the_mean_of_the_lowest_bound(
    tmp_path: Path,
) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20).steady(steady=False)
    result = builder.sweep(blocks=(4096,), reads=(0,), depths=(1, 32)).write()
    stage = result.stages[-1]
    slow, fast = sorted(stage.points, key=lambda point: point.repeats[0].iops)
    scattered = tuple(
        e.model_copy(update={"bound": 1.0}) if e.metric == "iops" else e for e in fast.estimates
    )
    points = (slow, fast.model_copy(update={"estimates": scattered}))
    stage = with_found(stage, points=points)
    mean = slow.estimate("iops")
    assert mean is not None

    top = headline(result.model_copy(update={"stages": (*result.stages[:-1], stage)}))

    assert top.label.startswith("Not steady, at most this")
    assert "the lowest of 2 such points" in top.holds_for
    assert top.number == format_count(mean.value)


def test_a_point_that_did_not_settle_has_no_bound_on_top_nor_in_figures(tmp_path: Path) -> None:
    builder = StoredRunBuilder(tmp_path, repeats=3, measure_s=20).steady()
    result = builder.sweep(blocks=(4096,), reads=(0,), depths=(1, 32)).write()
    stage = result.stages[-1]
    points = tuple(
        p.model_copy(update={"findings": (a_finding(Code.NOT_STEADY_POINT),)}) for p in stage.points
    )
    means = [e.value for p in points for e in p.estimates if e.metric == "iops"]
    moving = with_found(stage, points=points)

    top = headline(result.model_copy(update={"stages": (*result.stages[:-1], moving)}))

    assert headline(result).label.startswith("Number to plan on")
    assert top.label.startswith("Not steady, at most this")
    assert top.number == format_count(min(means))
    assert "; bound: " in dict(headline(result).evidence)["Method"]
    assert dict(top.evidence)["Method"].endswith("; no bound: the rate was still moving")
    assert any(line.bound for line in lines_of(result, stage))
    assert not any(line.bound for line in lines_of(result, moving))
    assert plots_of(result, stage)[0].alt.startswith("Lower bounds over 2 queue settings: ")
    ends = f"{format_count(min(means))} to {format_count(max(means))} IOPS"
    assert plots_of(result, moving)[0].alt == f"Means over 2 queue settings: {ends}."


def test_a_number_names_the_part_of_the_drive_that_was_filled(tmp_path: Path) -> None:
    run = a_run(tmp_path, "{}")
    whole, half = (
        stage_result("precondition", FillDone(level_percent=level).model_dump())
        for level in (100.0, 50.0)
    )

    said = [
        headline(run.model_copy(update={"stages": (*run.stages, fill)})).holds_for
        for fill in (whole, half)
    ]

    assert "whole drive" in said[0]
    assert "the first 50 % of the drive" in said[1]
    assert "whole drive" not in said[1]


def test_a_message_is_not_said_of_places_that_have_another(tmp_path: Path) -> None:
    def told(*messages: str) -> tuple[str, str]:
        found = [
            a_finding(Code.TOO_FEW_REPEATS, message=message).model_copy(
                update={"stage": f"0{number}-sweep"}
            )
            for number, message in enumerate(messages)
        ]
        result = a_small_run(tmp_path / str(len(list(tmp_path.iterdir()))))
        run = result.model_copy(
            update={"findings": tuple(found), "stages": (), "verdict": "NOT VALIDATED"}
        )
        return reasons(run)[0], grouped(found).groups[0].brief

    assert told("a", "a", "a") == ("A. (00-sweep, and 2 more)", "A (and 2 more places).")
    assert told("a", "b") == (
        "A. (00-sweep; 1 more place with another message)",
        "A (and 1 more place with another message).",
    )
    assert told("a", "b", "a", "c") == (
        "A. (00-sweep, and 1 more; 2 more places with other messages)",
        "A (and 1 more place; 2 more places with other messages).",
    )
