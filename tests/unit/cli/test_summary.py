"""The last screen of a run: every kind of run ends with its number."""

from pathlib import Path

import pytest

from ssdbench.cli.conduct import Ended
from ssdbench.cli.summary import run_lines, target_row
from ssdbench.model.finding import Code
from ssdbench.model.found import Comparison, Found, Median
from ssdbench.model.inside import BlockSizeFound, ProbeFound
from ssdbench.model.kind import StageKind
from ssdbench.model.profile.accept import Accepted
from ssdbench.model.rates import RateFound
from ssdbench.model.result import RunResult, StageResult
from ssdbench.report.read import StoredRun
from tests.support.builders import a_finding, a_full_run, a_small_run, with_found
from tests.support.page_runs import DEMO, a_page_run


def last_screen(result: RunResult, directory: Path) -> str:
    ended = Ended(directory, result, (directory / "report.html",), exit_code=0)
    return "\n".join(run_lines(ended))


def with_only(result: RunResult, found: Found) -> RunResult:
    """A run whose only stage found that."""
    stage = StageResult(
        name="01-it", title="It", started_at="", duration_s=1, wall_s=1, found=found
    )
    return result.model_copy(update={"stages": (stage,), "findings": ()})


def a_median(variant: str, iops: float) -> Median:
    return Median(
        workload="random write", variant=variant, repeats=3, iops=iops, iops_least=iops,
        iops_most=iops, bw_bytes_per_s=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            RateFound(workload="4 KiB random read", rate_iops=1088.9, searches=2, limit_ns=1e7),
            ["1,088 IOPS, 4 KiB random read"],
        ),
        (
            BlockSizeFound(answer="block size 1 MiB", block_bytes=1 << 20),
            ["block size        block size 1 MiB", "1 MiB block"],
        ),
        (
            ProbeFound(probe="stripe", answer="stripe of 160 KiB"),
            ["stripe            stripe of 160 KiB"],
        ),
        (
            Comparison(
                kind=StageKind.SCHEDULERS, medians=(a_median("bfq", 90), a_median("none", 900))
            ),
            ["It        random write  none      900  bfq        90"],
        ),
    ],
    ids=["rate", "block size", "probe", "schedulers"],
)
def test_a_run_of_one_kind_ends_with_its_number(
    tmp_path: Path, found: Found, lines: list[str]
) -> None:
    text = last_screen(with_only(a_small_run(tmp_path), found), tmp_path)

    for line in lines:
        assert line in text


def test_a_whole_run_ends_with_the_number_to_plan_on(tmp_path: Path) -> None:
    result = a_full_run(tmp_path)

    text = last_screen(result, tmp_path)

    assert "Number to plan on (simulated drive): 5,840 IOPS, 4 KiB random write" in text


def test_points_that_failed_are_counted_by_reason(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    stage = next(stage for stage in result.stages if stage.points)
    bad = tuple(
        point.model_copy(
            update={"verdict": "NOT VALIDATED", "findings": (a_finding(Code.CV_TOO_HIGH),)}
        )
        for point in stage.points
    )
    stages = (with_found(stage, points=bad),)
    spoilt = result.model_copy(update={"verdict": "NOT VALIDATED", "stages": stages})

    assert "3 points not valid: cv-too-high (3 points)" in last_screen(spoilt, tmp_path)


@pytest.mark.parametrize(("seen", "shown"), [(12e6, "12 ms"), (None, "10 ms, no bound")])
def test_a_percentile_without_a_limit_is_shown_as_it_was_seen(
    seen: float | None, shown: str
) -> None:
    row = Accepted(
        target="database", metric="lat_p99_ns", unit="ns", direction="at most", wanted=5e6,
        outcome="cannot tell", why="", seen=seen, middle=10e6,
    )  # fmt: skip

    assert target_row(row)[2] == shown


def test_the_demo_ends_with_its_question_and_the_answer_in_one_line(tmp_path: Path) -> None:
    result = StoredRun.open(a_page_run(DEMO, tmp_path / "run")).result

    said = last_screen(result, tmp_path).splitlines()

    asked = "question: 100 VMs x 40 IOPS = 4,000 IOPS of 4 KiB with 70 % reads, "
    assert [line.startswith(asked) for line in said].count(True) == 1
    # 4,000 x 1.3 x 30 % x 4 KiB a day for five years, over 36.5 TB a drive: 27.6.
    assert [
        line.startswith("answer: Buy 28 drives, 1 of them a spare, decided by wear; ")
        for line in said
    ].count(True) == 1
    assert "cannot tell" not in "\n".join(said)
