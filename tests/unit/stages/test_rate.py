"""The rate sweep on a queue whose truth is a formula: M/M/1."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ssdbench.engine.journal import Kind
from ssdbench.generator.base import Job, Outcome, Running, Second
from ssdbench.model.finding import Code
from ssdbench.model.rates import RateFound, RateStep
from ssdbench.model.result import StageResult
from ssdbench.model.workload import ActiveRange, Arrivals, Pattern, Workload
from ssdbench.stages.rate import Rate
from ssdbench.stages.ratefound import (
    answer,
    as_lasted,
    buffer_findings,
    search_findings,
)
from ssdbench.stages.ratesearch import (
    AGAIN,
    LONGEST_STALLS_S,
    OfferedRate,
    Searched,
    clients_for,
    cycle_s,
    least_iops,
    more_clients,
    next_rate,
    window_s,
)
from ssdbench.stats.bounds.pointfindings import coarse
from ssdbench.stats.openloop import MOST_STEPS, NEVER_NS, ONLY_UPPER, Requests
from tests.support.fakes import WearyDrive, WearyOutcome, WearyRunning
from tests.support.runs import ARun

SERVED_IOPS = 2_000.0
LIMIT_NS = 10e6
TRUTH_IOPS = SERVED_IOPS - math.log(100) / (LIMIT_NS / 1e9)  # where p99 of M/M/1 is the limit


@dataclass
class Queue(WearyDrive):
    """One server with exponential service times; requests come at random."""

    throttles_in_start: int | None = None  # which start of the generator it is too hot in
    slows_after_s: float = math.inf  # of one start: its service takes longer from then on
    slower: float = 1.2  # times

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        artifacts.mkdir(parents=True, exist_ok=True)
        self.starts.append(list(jobs))
        return Queueing(self, jobs)

    def throttle_counters(self) -> Mapping[str, int]:
        hot = self.throttles_in_start is not None and len(self.starts) >= self.throttles_in_start
        return {"transitions to thermal management 1": 5 + 2 * hot}


class Queueing(WearyRunning):
    """Its requests, second by second."""

    def _second(self, job: Job, done: int) -> Second:
        rate = min(job.workload.rate_iops or SERVED_IOPS, SERVED_IOPS)
        ios = max(1, round(self._drive.chance.gauss(rate, math.sqrt(rate))))
        self._t_s += 1.0
        second = Second(self._t_s, 1.0, ios, 0, ios * 4096, 0)
        self._seconds.append(second)
        return second

    def outcome(self) -> Outcome:
        totals = super().outcome()
        assert isinstance(self._drive, Queue)
        return Responses(
            totals.jobs, totals.seconds, tuple(self._jobs),
            slows_after_s=self._drive.slows_after_s, slower=self._drive.slower,
        )  # fmt: skip


@dataclass
class Responses(WearyOutcome):
    """Requests of one queue by Lindley's recursion; few clients make others wait outside of it."""

    slows_after_s: float = math.inf
    slower: float = 1.0

    def requests(self, job: str, *, end_s: float) -> Requests:
        (planned,) = self.planned
        chance = np.random.default_rng(planned.seed % 2**32)
        rate, clients = planned.workload.rate_iops or SERVED_IOPS, planned.workload.numjobs
        due = np.cumsum(chance.exponential(1 / rate, round(2 * rate * end_s) + 100))
        due = due[due < end_s]
        work = chance.exponential(1 / SERVED_IOPS, len(due))
        work[due > self.slows_after_s] *= self.slower
        total = np.cumsum(work)
        done = total + np.maximum.accumulate(due - (total - work))
        sent = np.maximum(due, np.concatenate([np.zeros(clients), done])[: len(due)])
        due_ns, sent_ns, done_ns = (np.rint(at * 1e9).astype(np.int64) for at in (due, sent, done))
        sent_ns[sent > end_s] = done_ns[sent > end_s] = NEVER_NS
        return Requests(due_ns, sent_ns, done_ns, np.zeros(len(due), dtype=np.bool_))


def rate_of(stage: StageResult) -> RateFound:
    assert isinstance(stage.found, RateFound)
    return stage.found


def a_search(
    tmp_path: Path,
    *,
    repeats: int = 5,
    limit_ns: float = LIMIT_NS,
    clients: int = 500,
    clients_grow: bool = False,
    lasts_s: float = 0.0,
    slows_after_s: float = math.inf,
) -> ARun:
    drive = Queue(slows_after_s=slows_after_s)
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=100, numjobs=clients,
        range=ActiveRange(offset_bytes=0, length_bytes=drive.size_bytes),
        arrivals=Arrivals.POISSON,
    )  # fmt: skip
    run = ARun(tmp_path / "run", drive)
    stage = Rate(
        "01-rate", workload, limit_ns, repeats=repeats, settle_s=5, clients_grow=clients_grow,
        lasts_s=lasts_s,
    )  # fmt: skip
    run.stages.append(stage)
    return run


def test_the_rate_is_just_below_that_of_the_formula(tmp_path: Path) -> None:
    stage = a_search(tmp_path).go().stages[0]

    found = rate_of(stage)
    assert found.rate_iops is not None
    assert 0.85 * TRUTH_IOPS <= found.rate_iops <= 1.02 * TRUTH_IOPS
    assert not [f for f in stage.findings if f.code is Code.TOO_FEW_REPEATS]
    assert all(s.offered_iops < 1.05 * TRUTH_IOPS for s in found.steps if s.kept)
    rows = (tmp_path / "run" / found.csv).read_text().splitlines()
    assert len(rows) == 1 + len(found.steps)


def test_the_answer_is_offered_for_half_an_hour_at_the_end(tmp_path: Path) -> None:
    stage = a_search(tmp_path, lasts_s=1800).go().stages[0]

    found = rate_of(stage)
    assert sum(step.window_s + 5 for step in found.lasted) >= 1800
    assert {step.asked_iops for step in found.lasted} == {min(s.asked_iops for s in found.lasted)}
    assert found.rate_iops == pytest.approx(found.lasted[0].offered_iops, rel=0.01)
    assert Code.NOT_SUSTAINED not in {f.code for f in stage.findings}


def test_a_rate_that_breaks_down_after_five_minutes_of_it_is_not_valid(tmp_path: Path) -> None:
    """Searches offer each rate for a minute or so."""
    stage = a_search(tmp_path, lasts_s=1800, slows_after_s=300).go().stages[0]

    (finding,) = [f for f in stage.findings if f.code is Code.NOT_SUSTAINED]
    assert rate_of(stage).verdict == "NOT VALIDATED"
    assert "p99 was" in finding.message


def test_a_lower_rate_is_offered_where_that_of_the_searches_does_not_last(tmp_path: Path) -> None:
    run = a_search(tmp_path, lasts_s=1800, slows_after_s=80)  # searches take a minute a rate
    run.drive.slower = 1.08  # type: ignore[attr-defined]

    stage = run.go().stages[0]

    found = rate_of(stage)
    assert found.rate_iops == found.lasted[0].offered_iops
    assert found.rate_iops is not None
    assert found.rate_iops < TRUTH_IOPS / 1.08
    assert sum(step.window_s + 5 for step in found.lasted) >= 1800
    told = {(f.code, f.severity) for f in stage.findings}
    assert (Code.NOT_SUSTAINED, "notes") in told
    assert (Code.NOT_SUSTAINED, "invalidates") not in told


def test_a_limit_that_no_rate_keeps_is_a_finding(tmp_path: Path) -> None:
    stage = a_search(tmp_path, limit_ns=1e6).go().stages[0]

    assert rate_of(stage).rate_iops is None
    assert Code.SLO_MISSED in {f.code for f in stage.findings}


def test_a_step_in_which_the_drive_counted_throttling_keeps_the_rate_from_being_valid(
    tmp_path: Path,
) -> None:
    cool, hot = a_search(tmp_path / "cool"), a_search(tmp_path / "hot")
    hot.drive.throttles_in_start = 3  # type: ignore[attr-defined]

    undisturbed, result = cool.go(), hot.go()

    assert undisturbed.verdict == "VALIDATED"
    assert result.verdict == "NOT VALIDATED"
    (told,) = [f for f in result.stages[0].findings if f.code is Code.THROTTLED]
    assert (told.severity, told.stage, told.repeat) == ("invalidates", "01-rate", None)
    assert "2 transitions to thermal management 1" in told.message
    assert told.advice


def test_few_searches_do_not_validate(tmp_path: Path) -> None:
    stage = a_search(tmp_path, repeats=2).go().stages[0]

    assert [f.code for f in stage.findings if f.severity == "invalidates"] == [Code.TOO_FEW_REPEATS]


def a_step(achieved_iops: float, *, kept: bool = True) -> RateStep:
    return RateStep(
        search=1, step=1, asked_iops=achieved_iops, offered_iops=achieved_iops,
        achieved_iops=achieved_iops, seen_ns=1, value_ns=1, upper_ns=1, p50_ns=1, mean_ns=1,
        backlog_grows=False, kept=kept, reason="", artifacts="", window_s=60, beyond=600,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("read", "buffer_bytes", "told"),
    [(0, 1 << 20, False), (0, 16 << 20, True), (50, 8 << 20, True), (100, 1 << 30, False),
     (0, 0, False)],
)  # fmt: skip
def test_a_rate_that_a_buffer_may_have_taken_is_not_validated(
    read: int, buffer_bytes: int, told: bool
) -> None:
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=read,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 30),
    )  # fmt: skip
    # 1,000 IOPS over a minute write 234 MiB; the rate that was not kept wrote four times as much
    steps = (a_step(1_000), a_step(4_000, kept=False))
    searched = [Searched(search=1, held_iops=1_000, steps=steps)]

    found = list(buffer_findings(Rate("01-rate", workload, LIMIT_NS), searched, buffer_bytes))

    assert [(f.code, f.severity) for f in found] == (
        [(Code.HIDDEN_BY_BUFFER, "invalidates")] if told else []
    )


def test_a_resumed_search_goes_on_where_it_was_and_repeats_no_rate(tmp_path: Path) -> None:
    run = a_search(tmp_path)
    run.drive.on_second = lambda drive, second: setattr(
        run, "signal", 2 if len(drive.starts) > 12 else None
    )
    first = run.go().stages[0]
    kept = run.units(Kind.FINISHED)

    last = run.resume().stages[0]

    assert not first.complete and last.complete
    assert len(kept) == 12 and rate_of(first).searches < 5
    steps = rate_of(last).steps
    assert [f"search-{s.search:02d}/step-{s.step:02d}" for s in steps[:12]] == kept
    assert len(run.drive.starts) == len(steps) - 12
    assert {s.search for s in steps} == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("read", [0, 100])
def test_only_a_sweep_that_writes_is_destructive(read: int) -> None:
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=read,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 20),
    )  # fmt: skip

    assert Rate("01-rate", workload, 1e6).destructive == (read == 0)


@pytest.mark.parametrize(("read", "unit", "told"), [(0, 16384, 1), (100, 16384, 0), (0, 4096, 0)])
def test_a_rate_of_writes_below_the_remap_unit_is_labelled(read: int, unit: int, told: int) -> None:
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=read,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 30),
    )  # fmt: skip

    found = list(coarse(workload, unit, "01-rate"))

    assert [finding.stage for finding in found] == ["01-rate"] * told
    assert all(f.code is Code.BELOW_REMAP_UNIT and f.severity == "notes" for f in found)


def stepped(offered: float, done: float, *, kept: bool, busy: float = 0.0) -> RateStep:
    return a_step(done, kept=kept).model_copy(
        update={"offered_iops": offered, "clients": 16, "busy_share": busy}
    )


def test_no_rate_above_what_is_completed_behind_a_backlog_is_answered(tmp_path: Path) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    steps = (
        stepped(1200, 1200, kept=True),
        stepped(1392, 1390, kept=True),
        stepped(1664, 1365, kept=False),
    )

    found = answer(sought, [Searched(1, 1392.0, steps)])

    assert found.rate_iops == 1200
    told = [f.message for f in search_findings(sought, found, complete=False)]
    assert any("1,365" in message and "1,392" in message for message in told)


@pytest.mark.parametrize(("busy", "spoilt"), [(0.0009, False), (0.0011, True)])
def test_a_rate_at_which_clients_were_all_busy_is_not_valid(
    tmp_path: Path, busy: float, spoilt: bool
) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    found = answer(sought, [Searched(1, 1200.0, (stepped(1200, 1200, kept=True, busy=busy),))])

    findings = list(search_findings(sought, found, complete=False))

    assert bool([f for f in findings if f.code is Code.COORDINATED_OMISSION]) == spoilt


def test_a_window_with_few_requests_beyond_the_percentile_says_the_hours(tmp_path: Path) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    step = stepped(100, 100, kept=True).model_copy(update={"beyond": 60.0})
    found = answer(sought, [Searched(1, 100.0, (step,))])

    (told,) = [
        f for f in search_findings(sought, found, complete=False) if f.code is Code.FEW_SAMPLES
    ]

    assert told.severity == "invalidates"
    assert "0.028 h" in told.message  # 100 of 60 a minute: 100 s


@pytest.mark.parametrize(("seen_ns", "spoilt"), [(0.9 * LIMIT_NS, True), (1.1 * LIMIT_NS, False)])
def test_a_rate_that_only_too_few_clients_failed_keeps_the_answer_from_being_valid(
    tmp_path: Path, seen_ns: float, spoilt: bool
) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    failed = stepped(1050, 1050, kept=False).model_copy(
        update={"seen_ns": seen_ns, "value_ns": 2 * LIMIT_NS}
    )
    found = answer(sought, [Searched(1, 1000.0, (stepped(1000, 1000, kept=True), failed))])

    told = [
        f for f in search_findings(sought, found, complete=False) if f.severity == "invalidates"
    ]

    assert [f.code for f in told] == [Code.COORDINATED_OMISSION] * spoilt


@pytest.mark.parametrize(("fails_at", "spoilt"), [(1140, False), (1160, True)])
def test_an_answer_close_below_a_rate_that_the_drive_itself_failed_is_valid(
    tmp_path: Path, fails_at: float, spoilt: bool
) -> None:
    """More clients could not find a rate that is more than 15 % higher."""
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    own, drive = (
        stepped(rate, rate, kept=False).model_copy(
            update={"seen_ns": seen * LIMIT_NS, "value_ns": 2 * LIMIT_NS}
        )
        for rate, seen in ((1050, 0.9), (fails_at, 1.1))
    )
    steps = (stepped(1000, 1000, kept=True), drive, own)
    found = answer(sought, [Searched(1, 1000.0, steps)])

    told = [
        f for f in search_findings(sought, found, complete=False) if f.severity == "invalidates"
    ]

    assert [f.code for f in told] == [Code.COORDINATED_OMISSION] * spoilt


def test_a_lower_rate_that_no_run_surely_kept_is_checked_like_any_answer(tmp_path: Path) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    found = answer(sought, [Searched(1, 100.0, (stepped(100, 100, kept=True),))])
    lower = stepped(95, 95, kept=False).model_copy(
        update={"asked_iops": 95, "reason": ONLY_UPPER, "busy_share": 0.9, "beyond": 0}
    )

    lasted = as_lasted(sought, found, [lower] * 3)

    assert lasted.rate_iops == 95
    told = {one.code for one in search_findings(sought, lasted, complete=False)}
    assert {Code.FEW_SAMPLES, Code.COORDINATED_OMISSION} <= told


def test_stalls_that_the_last_half_hour_held_need_no_longer_window(tmp_path: Path) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    step = stepped(100, 100, kept=True).model_copy(update={"stalls": 1})
    found = answer(sought, [Searched(1, 100.0, (step,))])

    def told(minutes: int) -> bool:
        lasted = as_lasted(sought, found, [step] * minutes)
        findings = search_findings(sought, lasted, complete=False)
        return Code.FEW_SAMPLES in {f.code for f in findings}

    assert told(9)
    assert not told(10)


@pytest.mark.parametrize(("stalls", "spoilt"), [(0, False), (1, True), (9, True), (10, False)])
def test_a_window_holds_ten_of_the_stalls_that_decide(
    tmp_path: Path, stalls: int, spoilt: bool
) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    step = stepped(100, 100, kept=True).model_copy(update={"stalls": stalls})
    found = answer(sought, [Searched(1, 100.0, (step,))])

    told = [
        f.message
        for f in search_findings(sought, found, complete=False)
        if f.code is Code.FEW_SAMPLES
    ]

    assert bool(told) == spoilt
    assert stalls != 1 or "0.17 h" in told[0]  # ten a minute apart


def test_windows_grow_until_they_hold_ten_stalls_or_are_the_longest(tmp_path: Path) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)

    def asked_s(stalls: int) -> float:
        step = stepped(1000, 1000, kept=True)
        return window_s(sought, 1000.0, [step.model_copy(update={"stalls": stalls})])

    assert window_s(sought, 500.0, []) == 160  # 800 of 500 a second are beyond p99
    assert asked_s(0) == 80
    assert asked_s(6) == 200  # 20 of one in ten seconds
    assert asked_s(1) == 900


def test_a_rate_that_only_its_upper_limit_failed_is_offered_once_more_for_longer(
    tmp_path: Path,
) -> None:
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    looked = [
        a_step(1000).model_copy(update={"search": 0}),
        a_step(1200, kept=False).model_copy(update={"search": 0, "achieved_iops": 900}),
    ]
    doubt = a_step(1000, kept=False).model_copy(update={"reason": ONLY_UPPER, "window_s": 70.0})
    held = a_step(1000)

    def after(*steps: RateStep) -> OfferedRate:
        asked = next_rate(sought, 1000, [*looked, *steps])
        assert asked is not None and asked.search == 1
        return asked

    assert after().rate_iops == 1000
    assert (after(doubt).rate_iops, after(doubt).window_s) == (1000, AGAIN * 70)
    assert after(doubt, held).rate_iops > 1000  # the second time decides
    assert after(doubt, doubt).rate_iops < 1000
    assert answer(sought, [Searched(1, 1000, (doubt, held))]).rate_iops == 1000


@pytest.mark.parametrize("kept_share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_search_ends_whatever_the_drive_answers(
    tmp_path: Path, seed: int, kept_share: float
) -> None:
    """Also where rates are kept above some that failed, as by chance in a first look."""
    chance = np.random.default_rng(seed)
    sought = a_search(tmp_path).stages[0]
    assert isinstance(sought, Rate)
    start_iops = 1.1 * least_iops(sought)
    done: list[RateStep] = []

    while (asked := next_rate(sought, start_iops, done)) is not None:
        assert len(done) < (sought.repeats + 1) * 2 * MOST_STEPS
        assert asked.window_s <= AGAIN * LONGEST_STALLS_S
        kept = asked.rate_iops > 1.5 * start_iops and bool(chance.random() < kept_share)
        reason = str(chance.choice([ONLY_UPPER, "the backlog grew over the window"]))
        place = {"search": asked.search, "step": asked.step, "window_s": asked.window_s}
        told = {"asked_iops": asked.rate_iops, "reason": "" if kept else reason}
        step = stepped(asked.rate_iops, asked.rate_iops, kept=kept)
        done.append(step.model_copy(update={**place, **told}))


def test_stalls_are_counted_at_about_the_same_rate_without_a_backlog() -> None:
    here = stepped(1000, 1000, kept=True).model_copy(update={"stalls": 3})
    far = stepped(4000, 4000, kept=True).model_copy(update={"stalls": 60})
    behind = stepped(1200, 1000, kept=False).model_copy(update={"stalls": 60})

    assert cycle_s([here, far, behind], 1000) == 20


def test_few_clients_agree_with_many_or_are_not_valid(tmp_path: Path) -> None:
    many = a_search(tmp_path / "many").go()
    few = a_search(tmp_path / "few", clients=4).go()

    assert many.verdict == "VALIDATED"
    assert few.verdict == "NOT VALIDATED"
    assert Code.COORDINATED_OMISSION in {
        f.code for f in few.stages[0].findings if f.severity == "invalidates"
    }


@pytest.mark.parametrize(
    ("asked", "rate", "read", "used"),
    [(256, 6000, 70, 256), (256, 1664, 70, 256), (256, 500, 70, 150), (16, 10, 100, 10)],
)
def test_each_client_has_a_read_and_a_write_a_second_at_least(
    asked: int, rate: float, read: int, used: int
) -> None:
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=read, numjobs=asked,
        range=ActiveRange(offset_bytes=0, length_bytes=1 << 30), arrivals=Arrivals.POISSON,
    )  # fmt: skip

    assert clients_for(Rate("01-rate", workload, LIMIT_NS), rate, []) == used


def test_clients_grow_until_waiting_for_one_decides_nothing(tmp_path: Path) -> None:
    grown = a_search(tmp_path / "grown", clients=4, clients_grow=True).go()
    given = a_search(tmp_path / "given", clients=4).go()

    found = rate_of(grown.stages[0])
    assert grown.verdict == "VALIDATED" and found.verdict == "VALIDATED"
    assert found.clients >= 16 and f"QD 1 x {found.clients}" in found.workload
    assert found.rate_iops is not None
    assert 0.85 * TRUTH_IOPS <= found.rate_iops <= 1.02 * TRUTH_IOPS
    assert max(step.clients for step in rate_of(given.stages[0]).steps) == 4
    assert rate_of(given.stages[0]).verdict == given.verdict == "NOT VALIDATED"


def offered_from(
    clients: int, *, rate: float = 1000.0, done: float = 1.0, value_ns: float = 1e6,
    seen_ns: float = 1e6, busy: float = 0.0, search: int = 0,
) -> RateStep:  # fmt: skip
    step = stepped(rate, rate * done, kept=done == 1 and value_ns <= LIMIT_NS, busy=busy)
    told = {"clients": clients, "value_ns": value_ns, "seen_ns": seen_ns, "search": search}
    told["asked_iops"] = rate
    return step.model_copy(update=told)


@pytest.mark.parametrize(
    ("steps", "more"),
    [
        ([offered_from(16)], None),
        ([offered_from(16, busy=0.0011)], 64),
        ([offered_from(16, value_ns=1.2e6)], 64),
        ([offered_from(64, value_ns=9.4e6, seen_ns=2.8e6)], 256),
        ([offered_from(16, value_ns=9e8, seen_ns=1.1 * LIMIT_NS)], None),  # the drive is too slow
        ([offered_from(1024, busy=0.5)], None),
        ([offered_from(400, rate=500, busy=0.5)], 500),  # a request a second each
        ([offered_from(16, done=0.6, value_ns=1e9)], 64),
        # Four times as many worked the backlog off no faster.
        ([offered_from(16, done=0.6, value_ns=1e9), offered_from(64, done=0.6, value_ns=1e9)],
         None),
        ([offered_from(16, done=0.4, value_ns=1e9), offered_from(64, done=0.6, value_ns=1e9)],
         256),
    ],
)  # fmt: skip
def test_a_rate_is_offered_again_from_more_clients_where_waiting_for_one_mattered(
    tmp_path: Path, steps: list[RateStep], more: int | None
) -> None:
    growing = a_search(tmp_path / "growing", clients=16, clients_grow=True).stages[0]
    given = a_search(tmp_path / "given", clients=16).stages[0]
    assert isinstance(growing, Rate) and isinstance(given, Rate)

    assert more_clients(growing, steps) == more
    assert more_clients(given, steps) is None
    if more is not None:
        again = next_rate(growing, 1000, steps)
        assert again is not None
        assert (again.rate_iops, again.clients) == (steps[-1].asked_iops, more)


def test_what_few_clients_got_from_the_drive_limits_no_answer_of_more(tmp_path: Path) -> None:
    sought = a_search(tmp_path, clients=16, clients_grow=True).stages[0]
    assert isinstance(sought, Rate)
    looked = [
        offered_from(16, rate=2000, done=0.4, value_ns=1e9),
        offered_from(64, rate=2000, value_ns=5e6, seen_ns=5e6),
        offered_from(64, rate=4000, done=0.8, value_ns=1e9, seen_ns=2 * LIMIT_NS),
    ]
    held = offered_from(64, rate=2000, value_ns=5e6, seen_ns=5e6, search=1)
    failed = offered_from(64, rate=2040, value_ns=2e7, seen_ns=2e7, search=1)

    found = answer(sought, [Searched(1, 2000.0, (held, failed))], looked)

    assert (found.rate_iops, found.clients) == (2000.0, 64)
