"""Whole runs are judged by their truth: the judge's own parts, and a few drives end to end.

A sample of what `nox -s judge-the-judges -- --published 1200` prints in full.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import judge_published as judge
from benchmarks import published_zoo as zoo
from benchmarks.core_generator import CoreGenerator
from ssdbench.errors import UsageError
from ssdbench.generator.base import Job, Outcome
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.simulated import SimAttachment
from ssdbench.model.finding import Code
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from ssdbench.units import MIB

SPEC = "sim:x25m-g2-160,capacity=512MiB,t_prog=20ms,t_erase=20ms,seed=3"
SEED = 3_000_000  # apart from the published table's


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[SimDrive]:
    with SimDrive.create(parse(SPEC), tmp_path / "drive.ssdb") as made:
        yield made


def job(**changes: object) -> Job:
    work = Workload(
        pattern=Pattern.RANDOM,
        block_bytes=4096,
        read_percent=0,
        iodepth=8,
        range=ActiveRange(offset_bytes=0, length_bytes=512 * MIB),
    )
    return replace(Job(name="one", workload=work, seed=5), **changes)  # type: ignore[arg-type]


def stopped_after(drive: SimDrive, seconds: int, tmp_path: Path) -> Outcome:
    with CoreGenerator(drive.core).start([job()], artifacts=tmp_path) as running:
        for second in running:
            if second.t_s >= seconds:
                running.stop()
    return running.outcome()


def test_a_job_ends_at_the_second_where_the_judge_stopped_it(
    drive: SimDrive, tmp_path: Path
) -> None:
    outcome = stopped_after(drive, 40, tmp_path)

    assert 39.9 < drive.core.now_ns / 1e9 <= 40  # when the last request was submitted
    assert [second.t_s for second in outcome.seconds[:40]] == [float(t) for t in range(1, 41)]
    counted = sum(second.write_bytes for second in outcome.seconds)
    assert counted == outcome.jobs[0].write.bytes == drive.counters()["host_write_bytes"]


def test_looking_ahead_changes_nothing(tmp_path: Path) -> None:
    """A judge that stops early sees the same seconds as one that looks for long."""
    seen = []
    for name, seconds in (("a", 20), ("b", 60)):
        with SimDrive.create(parse(SPEC), tmp_path / f"{name}.ssdb") as drive:
            seen.append(stopped_after(drive, seconds, tmp_path).seconds[:20])

    assert seen[0] == seen[1]


def test_a_window_holds_the_latencies_of_its_requests(drive: SimDrive, tmp_path: Path) -> None:
    outcome = stopped_after(drive, 30, tmp_path)

    parts = [outcome.latency("write", from_s=a, to_s=a + 10) for a in (0, 10, 20)]
    in_window = sum(second.write_ios for second in outcome.seconds[10:20])
    assert parts[1].n == pytest.approx(in_window, abs=8)  # what is in flight at both ends
    assert sum(part.n for part in parts) == pytest.approx(outcome.jobs[0].write.ios, abs=8)
    assert outcome.latency("read", from_s=0, to_s=30).n == 0


def test_a_fill_writes_exactly_its_bytes(drive: SimDrive, tmp_path: Path) -> None:
    fill = job(total_bytes=64 * MIB, cover=True)
    with CoreGenerator(drive.core).start([fill, job(runtime_s=2.0)], artifacts=tmp_path) as running:
        seconds = list(running)

    assert running.outcome().jobs[0].write.bytes == 64 * MIB
    assert seconds[-1].t_s == pytest.approx(drive.core.now_ns / 1e9, abs=0.1)


def test_what_the_loop_cannot_do_is_refused(drive: SimDrive, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot do this"):
        CoreGenerator(drive.core).start([job(latency_log=True)], artifacts=tmp_path)


def test_the_loop_is_as_fast_as_fio(tmp_path: Path) -> None:
    rates = []
    for name in ("core", "fio"):
        with SimDrive.create(parse(SPEC), tmp_path / f"{name}.ssdb") as drive:
            generator = (
                CoreGenerator(drive.core) if name == "core" else Fio(SimAttachment(drive, step_s=9))
            )
            work = job(total_bytes=256 * MIB)
            with generator.start([work], artifacts=tmp_path / name) as running:
                duration_s = [second.t_s for second in running][-1]
            rates.append(running.outcome().jobs[0].write.ios / duration_s)

    assert rates[0] == pytest.approx(rates[1], rel=0.02)


def test_the_truth_of_rare_stalls_is_that_of_a_long_simulation() -> None:
    made = next(
        found
        for seed in range(SEED, SEED + 50)
        if not (found := zoo.creature(seed, "stalls")).simulated
        and found.trouble["stall_period_ns"] < 2400e9
    )
    by_hand = zoo.truth(made, SEED)
    simulated = zoo.truth(replace(made, simulated=True, leaves=1.0), SEED)

    assert by_hand.mean == pytest.approx(simulated.mean, rel=0.01)
    assert by_hand.low == pytest.approx(simulated.low, rel=0.04)


def test_the_truth_of_a_step_is_the_level_after_it() -> None:
    made = zoo.creature(SEED, "late-step")
    stepped = {**made.trouble, "step_after_ppm": 1}  # slow from the beginning
    simulated = zoo.truth(replace(made, trouble=stepped, simulated=True, leaves=1.0), SEED)

    assert zoo.truth(made, SEED).mean == pytest.approx(simulated.mean, rel=0.01)


def test_the_truth_of_two_levels_is_the_lower_one() -> None:
    made = zoo.creature(SEED, "bistable")
    quick = {"bistable_period_ns": 200_000_000_000, "bistable_random": 1}
    moving = replace(made, trouble=made.trouble | quick, simulated=True, lower={})

    levels, mixed = zoo.truth(made, SEED), zoo.truth(moving, SEED)

    assert levels.mean < levels.both
    assert levels.both == pytest.approx(mixed.mean, rel=0.03)


def published(**changes: object) -> judge.Published:
    fine = judge.Published(
        seed=1,
        family="plain-fifo",
        validated=True,
        bound=97.0,
        mean=100.0,
        low=99.0,
        high=101.0,
        truth=100.0,
        of_interval=100.0,
        truth_error=0.001,
        quantile=98.0,
        later=False,
        rule_steady=True,
        rule_bound=97.0,
        hours=2.0,
        fills=8.0,
        refused=(),
    )
    return replace(fine, **changes)  # type: ignore[arg-type]


def test_promises_that_are_kept_are_not_missed() -> None:
    assert judge.misses([published()] * 1000) == []


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"bound": 106.0}, "wrong in up to"),
        ({"bound": 99.0}, "above the 5 % quantile"),
        ({"low": 104.0, "high": 106.0}, "intervals cover"),
        ({"validated": False}, "VALIDATED, wanted 90 %"),
        ({"bound": 90.0}, "median bound is 0.90"),
    ],
)
def test_a_promise_that_is_not_kept_is_told(changes: dict[str, object], missed: str) -> None:
    """A judge without eyes would pass these."""
    told = judge.misses([published(**changes)] * 1000)

    assert any(missed in text for text in told), told


def test_an_event_after_the_run_is_counted_apart_and_with_the_others() -> None:
    score = judge.score([published(), published(later=True, bound=150.0)])

    assert (score.wrong, score.in_time, score.wrong_with_later, score.validated) == (0, 1, 1, 2)


def test_records_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = tmp_path / "records.jsonl"
    first = judge.runs([SEED + 6], jobs=1, through="core", records=records)
    monkeypatch.delattr(judge, "by_core")

    assert judge.runs([SEED + 6], jobs=1, through="core", records=records) == first


def test_plain_drives_are_validated_and_no_number_is_too_high() -> None:
    found = judge.runs(range(SEED, SEED + 12), jobs=1, through="core", records=None)

    everyday = [p for p in found if p.family in zoo.PLAIN or p.family == "block-mapped"]
    assert [p.family for p in everyday if not p.validated] == []
    assert [p for p in found if p.wrong and p.family in zoo.EVERYDAY] == []
    assert all(p.truth_error < 0.01 for p in everyday)


AROUND = {
    "spans": "{span: {block: 4KiB, spans: [5%, 25%], iodepth: 32, rest: ordered}}",
    "writers": "{processes: {block: 4KiB, processes: [1], delays: []}}",
}


@pytest.mark.parametrize("stage", AROUND)
@pytest.mark.parametrize("family", ["plain-dchoice", "slc"])
def test_a_drive_that_steps_down_among_spans_or_writers_is_refused_by_the_return(
    stage: str, family: str, tmp_path: Path
) -> None:
    """And one that only has its data in another order for a while is not."""
    text = f"""
precondition: [{{pattern: sequential, block: 128KiB, fill: 2}}, {{pattern: random, fill: 1}}]
repeats: 3
settle: {{window: 2m}}
measure: [{AROUND[stage]}]
"""
    changes = []
    for steps in (False, True):
        planted = {"step_after_ppm": 5_600_000, "step_slow_ppm": 400_000} if steps else {}
        made = replace(zoo.creature(SEED, family), trouble=planted)
        where = tmp_path / str(steps)
        where.mkdir()
        target, _ = zoo.write(made, where)
        result = judge.by_core(target, text, where / "run", seed=SEED)
        found = [f for point in result.points for f in point.findings if f.code is Code.CHANGED]
        changes.append({f.message for f in found if "the warm-up's workload" in f.message})

    none, some = changes
    assert none == set()
    assert len(some) == 1
    assert "warm-up's workload is down 2" in some.pop()
