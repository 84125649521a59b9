from pathlib import Path

import pytest

from ssdbench.model.finding import Code
from ssdbench.model.result import RunResult
from ssdbench.stats.compare import compared
from tests.support.builders import StoredRunBuilder, a_finding, with_found


def a_run(directory: Path, *, factor: float = 1.0, blocks: tuple[int, ...] = (4096,)) -> RunResult:
    builder = StoredRunBuilder(directory, repeats=10, measure_s=5)
    result = builder.sweep(blocks=blocks, reads=(0, 100), depths=(32,)).write(run_id=directory.name)
    stages = [
        with_found(
            stage,
            points=tuple(
                point.model_copy(
                    update={
                        "repeats": tuple(
                            r.model_copy(update={"iops": r.iops * factor}) for r in point.repeats
                        )
                    }
                )
                for point in stage.points
            ),
        )
        for stage in result.stages
    ]
    return result.model_copy(update={"stages": tuple(stages)})


def test_a_planted_shift_is_found_and_corrected_for_the_number_of_points(tmp_path: Path) -> None:
    found = compared([a_run(tmp_path / "a"), a_run(tmp_path / "b", factor=1.1)])

    assert len(found.pairs) == 2
    for pair in found.pairs:
        assert pair.shift_percent is not None and 9 < pair.shift_percent < 11
        assert pair.found.effect == 1.0
        assert 1.0e-5 < pair.found.p_mann_whitney < 1.2e-5
        assert pair.p_corrected == 2 * pair.found.p_mann_whitney


def test_equal_drives_show_no_difference(tmp_path: Path) -> None:
    found = compared([a_run(tmp_path / "a"), a_run(tmp_path / "b")])

    assert all(pair.p_corrected == 1 for pair in found.pairs)


def test_a_point_that_did_not_settle_has_no_bound_to_compare(tmp_path: Path) -> None:
    steady, moving = a_run(tmp_path / "a"), a_run(tmp_path / "b")
    stage = moving.stages[-1]
    points = tuple(
        p.model_copy(update={"findings": (a_finding(Code.NOT_STEADY_POINT),)}) for p in stage.points
    )
    stages = (*moving.stages[:-1], with_found(stage, points=points))

    found = compared([steady, moving.model_copy(update={"stages": stages})])

    for pair in found.pairs:
        assert pair.bounds[0] is not None
        assert pair.bounds[1] is None


def test_three_runs_are_compared_in_all_pairs(tmp_path: Path) -> None:
    found = compared([a_run(tmp_path / name) for name in "abc"])

    assert {(pair.first, pair.second) for pair in found.pairs} == {(0, 1), (0, 2), (1, 2)}


def test_a_point_that_a_run_measured_twice_is_told_and_the_first_counts(tmp_path: Path) -> None:
    twice = a_run(tmp_path / "a")
    later = [stage.model_copy(update={"name": f"9-{stage.name}"}) for stage in twice.stages]
    twice = twice.model_copy(update={"stages": (*twice.stages, *later)})

    found = compared([twice, a_run(tmp_path / "b", factor=1.1)])

    assert len(found.pairs) == 2
    assert any(
        "2 points of a were measured more than once" in sentence for sentence in found.left_out
    )


def test_points_of_one_run_alone_are_named(tmp_path: Path) -> None:
    found = compared([a_run(tmp_path / "a"), a_run(tmp_path / "b", blocks=(4096, 8192))])

    assert len(found.pairs) == 2
    assert any("only b measured 8 KiB" in sentence for sentence in found.left_out)


PLANNED = "title: {0}\ntarget: sim:{0}\nseed: {1}\nrepeats: {2}\nplan: {{price: {1}}}\n"


@pytest.mark.parametrize(("other", "differs"), [(("b", 2, 10), False), (("b", 2, 9), True)])
def test_profiles_differ_only_if_something_else_is_measured(
    tmp_path: Path, other: tuple[str, int, int], differs: bool
) -> None:
    runs = [
        a_run(tmp_path / "one").model_copy(update={"profile_text": PLANNED.format("a", 1, 10)}),
        a_run(tmp_path / "two").model_copy(update={"profile_text": PLANNED.format(*other)}),
    ]

    assert any("different profiles" in said for said in compared(runs).left_out) == differs
