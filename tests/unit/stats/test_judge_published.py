"""Test the judge of whole runs: its parts, and a few simulated drives from start to end.

`nox -s judge-the-judges -- --published 1200` prints the full result.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import judge_published as judge
from benchmarks import published_score as scores
from benchmarks import published_truth as true
from benchmarks import published_zoo as zoo
from benchmarks.core_generator import CoreGenerator, loop_job
from benchmarks.zoo import Creature
from ssdbench.errors import UsageError
from ssdbench.generator.base import Job, Outcome
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.simulated import SimAttachment
from ssdbench.model.finding import Code
from ssdbench.model.workload import ActiveRange, Arrivals, Pattern, Workload
from ssdbench.sim import core
from ssdbench.sim.amplification import Policy, Writes
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.fit import Parameters, last_fill, predict
from ssdbench.sim.library import Params, parameters
from ssdbench.sim.spec import parse
from ssdbench.stats.distributions import binomial_upper_limit
from ssdbench.units import KIB, MIB

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
    """A judge that stops early sees the same seconds as one that continues."""
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


OFFERED = {"rate_iops": 40.0, "iodepth": 1, "numjobs": 4}


def offered(drive: SimDrive, tmp_path: Path, **changes: object) -> Outcome:
    work = job().workload.model_copy(update={**OFFERED, **changes})
    asked = job(workload=work, runtime_s=100.0, latency_log=True)
    with CoreGenerator(drive.core).start([asked], artifacts=tmp_path) as running:
        assert len(list(running)) == 100
    return running.outcome()


@pytest.mark.parametrize("arrivals", Arrivals)
def test_a_rate_is_offered_whether_the_drive_keeps_up_or_not(
    arrivals: Arrivals, drive: SimDrive, tmp_path: Path
) -> None:
    outcome = offered(drive, tmp_path, arrivals=arrivals)
    requests = outcome.requests("one", end_s=90.0)

    assert len(requests.due_ns) == pytest.approx(3600, rel=0.0 if arrivals == "even" else 0.05)
    sent = requests.sent_ns < 2**62
    assert (requests.sent_ns >= requests.due_ns)[sent].all()
    assert (requests.done_ns > requests.sent_ns)[sent].all()
    done = outcome.jobs[0].write.ios
    assert sum(second.write_ios for second in outcome.seconds) == pytest.approx(done, abs=4)


def test_a_client_waits_for_its_answer_before_it_sends_again(
    drive: SimDrive, tmp_path: Path
) -> None:
    """One client has more requests than it can send: it sends each when the one before is done."""
    requests = offered(drive, tmp_path, rate_iops=10_000.0, numjobs=1).requests("one", end_s=100)
    count = int((requests.sent_ns < 2**62).sum())
    due, sent, done = (at[:count] for at in (requests.due_ns, requests.sent_ns, requests.done_ns))

    assert 0 < count < len(requests.due_ns)
    assert (sent[1:] == np.maximum(due[1:], done[:-1])).all()
    assert (sent[1:] > due[1:]).any()


@pytest.mark.parametrize("family", [*zoo.PROFILES, *zoo.REAL])
def test_every_drive_of_a_profile_is_one_that_the_core_and_the_loader_take(
    family: str, tmp_path: Path
) -> None:
    for seed in range(SEED, SEED + 8):
        made = zoo.creature(seed, family)
        target, text = zoo.write(made, tmp_path)
        loads, searches = judge._asked(target, text)
        assert parse(target).params == {
            **{name: one.default for name, one in parameters().items()}, **made.params
        }  # fmt: skip
        assert loads or searches
        assert 128 * MIB <= made.capacity_bytes <= 512 * MIB


def test_a_drive_around_a_fitted_one_writes_as_fast_as_the_fit_says() -> None:
    name = "like-7450-pro"
    made = zoo.creature(SEED, name)
    body = made.body | {"noise_ppm": 0}
    drive = core.Drive.in_memory(Params(body))
    size, dies = made.capacity_bytes, body["channels"] * body["dies_per_channel"]
    drive.run(core.Job(order=core.Order.SEQUENTIAL, block_bytes=1 << 20, stop_bytes=size))
    drive.run(core.Job(stop_bytes=2 * size, seed=1))
    last = drive.run(core.Job(stop_bytes=size, seed=2))

    kept = zoo.KEPT * body["erase_block_bytes"] * dies
    physical = size * (1 + body["op_ppm"] / 1e6) - kept
    flash = dies * body["program_unit_bytes"] / (body["t_prog_ns"] / 1e9)
    cost = zoo.REAL[name].copy_cost
    of_fit = Parameters(physical, Policy("greedy"), math.nan, flash, cost, {4096: 1e12})
    assert zoo.REAL[name].spare[0] <= physical / size - 1 <= zoo.REAL[name].spare[1]
    said = last_fill(predict(of_fit, Writes("random", size), 3))
    assert sum(last.bytes) / last.duration_s == pytest.approx(said, rel=0.05)


def a_load(made: Creature, **changes: object) -> Workload:
    """Return the write of the warm-up, or a workload that differs from it."""
    whole = ActiveRange(offset_bytes=0, length_bytes=round(made.span * made.capacity_bytes))
    return job().workload.model_copy(update={"iodepth": 32, "range": whole, **changes})


def long_run(made: Creature, seed: int = SEED, **changes: object) -> true.Truth:
    """Return a long run of the warm-up's write, or of a workload that differs from it."""
    return true.truth(made, a_load(made, **changes), seed)


def test_the_truth_of_rare_stalls_is_that_of_a_long_simulation() -> None:
    made = next(
        found
        for seed in range(SEED, SEED + 50)
        if not (found := zoo.creature(seed, "stalls")).simulated
        and found.trouble["stall_period_ns"] < 2400e9
    )
    by_hand = long_run(made)
    simulated = long_run(replace(made, simulated=True, leaves=1.0))

    assert by_hand.mean == pytest.approx(simulated.mean, rel=0.01)
    assert by_hand.low == pytest.approx(simulated.low, rel=0.04)


def test_the_truth_of_a_step_is_the_level_after_it() -> None:
    made = zoo.creature(SEED, "late-step")
    stepped = {**made.trouble, "step_after_ppm": 1}  # slow from the beginning
    simulated = long_run(replace(made, trouble=stepped, simulated=True, leaves=1.0))

    assert long_run(made).mean == pytest.approx(simulated.mean, rel=0.01)


def test_the_truth_of_two_levels_is_the_lower_one() -> None:
    made = zoo.creature(SEED, "bistable")
    quick = {"bistable_period_ns": 200_000_000_000, "bistable_random": 1}
    moving = replace(made, trouble=made.trouble | quick, simulated=True, lower={})

    levels, mixed = long_run(made), long_run(moving)

    assert levels.mean < levels.both
    assert levels.both == pytest.approx(mixed.mean, rel=0.03)


def test_the_truth_of_reads_that_heat_the_drive_is_the_rate_when_it_is_hot() -> None:
    made = zoo.creature(SEED, "read-heat")
    cold = replace(made, trouble=made.trouble | {"throttle_mk_per_gb": 0})
    held = replace(made, trouble=made.trouble | {"throttle_off_mk": 0})  # hot for good
    slow = 1 + made.trouble["throttle_slow_ppm"] / 1e6

    reads = [long_run(one, read_percent=100) for one in (cold, held)]

    assert reads[0].mean / reads[1].mean == pytest.approx(slow, rel=0.02)
    p99 = [one.latency["read", "p99"].value_ns for one in reads]
    assert p99[1] / p99[0] == pytest.approx(slow, rel=0.04)


def test_how_long_a_load_takes_to_heat_the_drive_follows_from_its_time_constant() -> None:
    """To heat from about zero to this share of the final heat takes -tau ln(1 - share)."""
    made = zoo.creature(SEED, "read-heat")
    tau_s = made.trouble["throttle_tau_ns"] / 1e9
    reads, writes = (long_run(made, read_percent=share) for share in (100, 0))
    cold = long_run(replace(made, trouble={}), read_percent=100)
    moved_mk = cold.mean * 4096 / 1e9 * tau_s * made.trouble["throttle_mk_per_gb"]
    share = made.trouble["throttle_on_mk"] / moved_mk

    assert reads.hot_after_s == pytest.approx(-tau_s * math.log(1 - share), rel=0.2)
    assert writes.hot_after_s is None
    assert cold.hot_after_s is None


def test_the_truth_of_large_blocks_is_of_a_drive_that_was_written_as_much_as_the_run_did() -> None:
    """A block that begins within a program unit always covers parts of two units."""
    made = zoo.creature(61_000_009, among=zoo.SETS["profiles"])
    unit_bytes = made.body["program_unit_bytes"]
    blocks = a_load(made, block_bytes=unit_bytes)

    odd = true.odd_bytes(blocks, 5 * made.capacity_bytes + 4096)
    whole, across = (true.truth(made, blocks, 1, odd=more) for more in (0, odd))

    assert odd == 4096
    assert true.odd_bytes(a_load(made, block_bytes=unit_bytes, read_percent=100), 4096) == 0
    assert across.mean / whole.mean == pytest.approx(0.97, abs=0.015)


def test_the_truth_of_reads_is_as_unsure_as_layouts_differ() -> None:
    made = zoo.creature(61_000_010, among=zoo.SETS["profiles"])
    reads = a_load(made, block_bytes=128 * KIB, read_percent=100, iodepth=16)
    long = true._long_run(made, loop_job(reads), 1, 600.0, made.body)
    by_layout = [part.mean() for part in np.array_split(long.rates, true.LAYOUTS)]
    within = [part.std(ddof=1) / math.sqrt(len(part)) for part in np.split(long.rates, 4)]

    assert np.std(by_layout, ddof=1) > 1.5 * max(within)
    assert long.unsure == pytest.approx(np.std(by_layout, ddof=1) / 2 / np.mean(by_layout))
    assert true.truth(made, reads, 1).error >= long.unsure


def test_the_truth_of_a_wave_is_the_mean_over_whole_periods() -> None:
    made = zoo.creature(SEED, "day")
    calm = replace(made, trouble=made.trouble | {"wave_slow_ppm": 0})
    waves = long_run(made)

    assert waves.mean / long_run(calm).mean == pytest.approx(
        1 / (1 + made.trouble["wave_slow_ppm"] / 2e6), rel=0.015
    )
    assert waves.error < 0.01


def test_a_percentile_in_the_open_bin_is_taken_from_single_requests() -> None:
    """A histogram has no more detail above 17 s."""
    made = zoo.creature(SEED, "long-stalls")
    stall_s = made.trouble["stall_ns"] / 1e9
    slowest = long_run(made).latency

    assert stall_s > 30
    assert any(17.2 < one.value_ns / 1e9 <= 1.3 * stall_s for one in slowest.values())


def test_the_truth_at_an_offered_rate_counts_from_when_requests_are_due() -> None:
    made = zoo.creature(SEED, "plain-rates")
    whole = ActiveRange(offset_bytes=0, length_bytes=made.capacity_bytes)
    work = job().workload.model_copy(update={"range": whole, "arrivals": Arrivals.POISSON})
    calm, full = (true.latency_at(made, work, share / made.write_s, SEED) for share in (0.1, 1.5))

    assert calm["write", "p99"].value_ns < 10e9
    assert full["write", "p99"].value_ns > 100e9  # it falls further and further behind


def point(**changes: object) -> judge.Point:
    fine = judge.Point(
        label="4 KiB random write, QD 32 x 1",
        kind="write",
        validated=True,
        bound=97.0,
        mean=100.0,
        low=99.0,
        high=101.0,
        truth=100.0,
        of_interval=100.0,
        truth_error=0.001,
        quantile=98.0,
    )
    return replace(fine, **changes)  # type: ignore[arg-type]


def published(
    *points: judge.Point, targets: tuple[judge.Target, ...] = (), **changes: object
) -> judge.Published:
    fine = judge.Published(
        seed=1,
        family="plain-fifo",
        points=points or (point(),),
        targets=targets,
        later=False,
        wave_s=0.0,
        drift=0.0,
        rule_steady=True,
        rule_bound=97.0,
        hours=2.0,
        fills=8.0,
    )
    return replace(fine, **changes)  # type: ignore[arg-type]


def shown(upper_ns: float | None, status: str = "published") -> judge.Percentile:
    return judge.Percentile("read", "p99", status, 1e6, upper_ns, 1e6, 0.99e6)


KEPT = judge.Target("iops", "pass", "pass")


def test_promises_that_are_kept_are_not_missed() -> None:
    fine = published(point(percentiles=(shown(0.97e6),)), targets=(KEPT,))

    assert scores.misses([fine] * 1000) == []


@pytest.mark.parametrize(
    ("drive", "missed"),
    [
        (published(point(bound=106.0)), "wrong in up to"),
        (published(error="KeyError('x')"), "1000 runs failed"),
        (published(point(bound=99.0)), "above the 5 % quantile"),
        (published(point(low=104.0, high=106.0)), "intervals of a write cover"),
        (published(point(), point(kind="mix", low=104.0, high=106.0)), "intervals of a mix cover"),
        (published(point(validated=False)), "VALIDATED, wanted 90 %"),
        (published(point(bound=90.0)), "median bound is 0.90"),
        (published(point(percentiles=(shown(0.95e6),))), "percentiles too low"),
        (published(targets=(judge.Target("p99", "pass", "fail"),)), "told to pass fail"),
        (published(targets=(judge.Target("p99", "cannot tell", "pass"),)), "are told so"),
    ],
)
def test_a_promise_that_is_not_kept_is_told(drive: judge.Published, missed: str) -> None:
    """A judge that accepts everything would pass these."""
    told = scores.misses([drive] * 1000)

    assert any(missed in text for text in told), told


def test_a_percentile_without_a_limit_is_not_shown_as_a_number() -> None:
    score = scores.Score([published(point(percentiles=(shown(None), shown(0.5e6, "indicative"))))])

    assert score.percentiles(lambda q: q.shown).of == 0
    assert score.percentiles(lambda q: q.status == "indicative").events == 1


def test_an_event_after_the_run_is_counted_apart_and_with_the_others() -> None:
    score = scores.Score([published(), published(point(bound=150.0), later=True)])

    assert (score.wrong.events, score.wrong.of) == (0, 1)
    assert (score.wrong_with_apart.events, score.wrong_with_apart.of) == (1, 2)


def test_a_risk_has_no_more_drives_that_slowed_down_late_than_drives_that_may() -> None:
    late = [published(point(bound=150.0), family="late-step", later=True)]
    collapsed = [published(point(bound=150.0), family="cold-collapse", later=True)] * 3
    right = [published(family="late-heat")] + [published()] * scores.ENOUGH

    risk = scores.risk_of(late + collapsed + right)

    assert risk is not None
    assert (risk.later, risk.later_of) == (4, 5)


@pytest.mark.parametrize(
    ("planted", "told", "apart"),
    [
        ({"wave_s": 7200.0}, {}, ""),  # the run says nothing: it should have seen it
        ({"wave_s": 7200.0}, {"seen_wave_s": 3600.0}, "wave"),
        ({"wave_s": 7200.0}, {"seen_wave_s": 9000.0}, ""),
        ({"drift": 0.01}, {"seen_drift": 0.02}, "drift"),
        ({"drift": 0.01}, {"seen_drift": 0.005}, ""),
        ({}, {"seen_wave_s": 10.0, "seen_drift": 0.1}, ""),
    ],
)
def test_a_wave_is_apart_if_the_run_says_that_it_could_not_have_seen_it(
    planted: dict[str, object], told: dict[str, object], apart: str
) -> None:
    wrong = point(bound=150.0, **told)
    drive = replace(published(wrong), **planted)  # type: ignore[arg-type]

    assert drive.apart(wrong) == apart
    assert scores.Score([drive]).wrong.of == int(not apart)


def test_limits_are_of_drives_whose_points_are_wrong_together() -> None:
    apart = scores.Count(tuple((1, 10) if place < 10 else (0, 10) for place in range(100)))
    together = scores.Count(((10, 10),) + ((0, 10),) * 99)
    none = scores.Count(((0, 10),) * 100)

    assert apart.share == together.share == 0.01
    assert apart.limit == pytest.approx(binomial_upper_limit(10, 1000), rel=0.15)
    assert together.limit > 1.5 * apart.limit
    assert none.limit == binomial_upper_limit(0, 100)


def test_the_same_drives_by_two_versions_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    before = [published(seed=seed) for seed in range(20)]
    wider = [published(point(low=98.0, high=102.0), seed=s, hours=3.0) for s in range(20, -1, -1)]

    missed = scores.compare(wider, before)

    assert "20 drives of both" in capsys.readouterr().out
    assert any("2.00 times as wide" in text for text in missed)
    assert any("1.50 times the hours" in text for text in missed)
    assert not any("fills" in text for text in missed)
    refused = [published(point(validated=False), seed=seed) for seed in range(20)]
    assert any("fell by more than 5 points" in text for text in scores.compare(refused, before))


@pytest.mark.parametrize(
    ("metric", "limit", "truly"),
    [
        ("iops", 90.0, "pass"), ("iops", 99.5, "close"), ("iops", 105.0, "fail"),
        ("p99", 2.1e6, "pass"), ("p99", 1.99e6, "close"), ("p99", 1.8e6, "fail"),
    ],
)  # fmt: skip
def test_a_target_is_held_against_the_long_run(metric: str, limit: float, truly: str) -> None:
    slow, quick = true.Latency(2e6, 2e6), true.Latency(1e6, 1e6)
    latency = {
        (side, name): one
        for side, one in (("read", quick), ("write", slow))
        for name in ("p50", "p99")
    }
    known = true.Truth(100.0, 100.0, 0.001, 99.0, latency)

    assert judge._truly(judge._Wanted("", "", "a", metric, limit), known) == truly


def test_a_whole_profile_is_judged_point_by_point(tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    among = ("plain-mixes",)
    (found,) = judge.runs([SEED], jobs=1, records=records, among=among)

    assert {one.kind for one in found.points} == {"read", "mix", "write"}
    assert found.error == ""
    assert all(one.mean == pytest.approx(one.truth, rel=0.05) for one in found.points)
    assert len(found.targets) >= 5
    assert {one.truly for one in found.targets} <= {"pass", "fail", "close"}
    assert not [one for one in found.targets if one.metric == "iops" and one.outcome == "pass"
                and one.truly == "fail"]  # fmt: skip
    assert judge.stored(records) == {SEED: found}


def test_records_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = tmp_path / "records.jsonl"
    first = judge.runs([SEED + 6], jobs=1, through="core", records=records)
    monkeypatch.delattr(judge, "by_core")

    assert judge.runs([SEED + 6], jobs=1, through="core", records=records) == first


def test_a_run_that_fails_is_told_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = tmp_path / "records.jsonl"

    def broken(*told: object, **named: object) -> None:
        raise KeyError("fault")

    with monkeypatch.context() as while_broken:
        while_broken.setattr(judge, "by_core", broken)
        (failed,) = judge.runs([SEED], jobs=1, records=records, among=("plain-4k",))
    assert "fault" in failed.error

    (found,) = judge.runs([SEED], jobs=1, records=records, among=("plain-4k",))

    assert found.error == ""
    assert [one.seed for one in judge.stored(records).values()] == [SEED]


def test_plain_drives_are_validated_and_no_number_is_too_high() -> None:
    found = judge.runs(range(SEED, SEED + 12), jobs=1, records=None)

    everyday = [p for p in found if p.family in zoo.PLAIN or p.family == "block-mapped"]
    assert [p.family for p in everyday if not p.points[0].validated] == []
    assert [p for p in found if p.points[0].wrong and p.family in zoo.EVERYDAY] == []
    assert all(p.points[0].truth_error < 0.01 for p in everyday)


AROUND = {
    "spans": "{span: {block: 4KiB, spans: [5%, 25%], iodepth: 32, rest: ordered}}",
    "writers": "{processes: {block: 4KiB, processes: [1], delays: []}}",
}


@pytest.mark.parametrize("stage", AROUND)
@pytest.mark.parametrize("family", ["plain-dchoice", "slc"])
def test_a_drive_that_steps_down_among_spans_or_writers_is_refused_by_the_return(
    stage: str, family: str, tmp_path: Path
) -> None:
    """A drive that only has its data in another order for a while is not refused."""
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
