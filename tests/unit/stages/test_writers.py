"""Several writers, writers that pause, and the shipped profile that measures them."""

from pathlib import Path

from ssdbench.model.kind import StageKind
from ssdbench.model.loading import load_profile
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.stages.points import PointStage
from ssdbench.suite.assemble import stages
from tests.unit.generator.jobs import a_job
from tests.unit.generator.test_jobfile import options_of

PROFILES = Path(__file__).parents[3] / "profiles"
TARGET = TargetInfo(
    kind=TargetKind.SIMULATED, name="sim:x", node="x", id="x", size_bytes=1 << 30, simulated=True
)


def point_stages(text: str) -> dict[StageKind, PointStage]:
    found = stages(load_profile(text, "p"), TARGET)
    return {stage.kind: stage for stage in found if isinstance(stage, PointStage)}


def of_profile(text: str) -> PointStage:
    return point_stages(text)[StageKind.PROCESSES]


def test_writers_are_measured_alone_and_with_every_pause() -> None:
    stage = of_profile(
        "measure: [{processes: {processes: [1, 4], delayed_processes: 4, delays: [1ms, 20ms], "
        "delayed: [10%, 50%]}}]"
    )

    found = [
        (p.workload.numjobs, p.workload.thinktime_us, p.workload.thinktime_blocks)
        for p in stage.points
    ]
    assert found == [
        (1, 0, 1), (4, 0, 1), (4, 1000, 10), (4, 1000, 2), (4, 20000, 10), (4, 20000, 2),
    ]  # fmt: skip
    assert len({point.id for point in stage.points}) == 6
    assert "pauses of 20 ms after every 10" in stage.points[4].workload.label()


def test_a_pause_comes_after_every_so_many_writes() -> None:
    found = options_of(a_job(thinktime_us=500, thinktime_blocks=10))

    assert (found["thinktime"], found["thinktime_blocks"]) == ("500", "10")
    assert "thinktime_blocks" not in options_of(a_job(thinktime_us=500))


def test_the_papers_experiments_are_one_shipped_profile() -> None:
    found = point_stages((PROFILES / "heger-2011.yaml").read_text())

    span, sweep = found[StageKind.SPAN], found[StageKind.SWEEP]
    assert span.repeats == 10
    assert span.points[-1].span_percent == 100
    assert {p.workload.numjobs for p in sweep.points} == {1, 8, 32, 128}
    assert len(found[StageKind.PROCESSES].points) == 4 + 2 * 4 * 2
