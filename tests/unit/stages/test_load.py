"""One offered load on a queue whose percentiles are a formula: M/M/1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from ssdbench.engine.journal import Kind
from ssdbench.generator.base import Job, Outcome, Running
from ssdbench.model.finding import Code
from ssdbench.model.kind import StageKind
from ssdbench.model.rates import LoadFound, RateStep
from ssdbench.model.result import RunResult
from ssdbench.model.workload import ActiveRange, Arrivals, Pattern, Workload
from ssdbench.stages.load import Load
from ssdbench.stages.ratesearch import LASTS_S, SETTLES_S, next_load, trials
from ssdbench.stats.openloop import NEVER_NS, Requests, undelivered
from ssdbench.stats.percentiles import QUANTILES
from tests.support.fakes import WearyOutcome
from tests.support.runs import ARun
from tests.unit.stages.test_rate import LIMIT_NS, SERVED_IOPS, Queue, Queueing, Responses, stepped

LOAD_IOPS = 1_000.0
P99_NS = math.log(100) / (SERVED_IOPS - LOAD_IOPS) * 1e9


@dataclass
class Heating(Queue):
    """A queue that serves slower from one start of the generator on, or from each to the next."""

    slow_from_start: int = 1_000
    slower: float = 1.0  # times the service time
    creeps: float = 1.0  # times the service time, from start to start

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        artifacts.mkdir(parents=True, exist_ok=True)
        self.starts.append(list(jobs))
        return Warming(self, jobs)


class Warming(Queueing):
    """Its requests."""

    def outcome(self) -> Outcome:
        drive, found = self._drive, super().outcome()
        assert isinstance(drive, Heating) and isinstance(found, WearyOutcome)
        number = len(drive.starts)
        slower = drive.slower if number >= drive.slow_from_start else drive.creeps**number
        return Slower(found.jobs, found.seconds, tuple(self._jobs), factor=slower)


@dataclass
class Slower(Responses):
    """Each wait is longer by a factor, as if the server's clock ran more slowly."""

    factor: float = 1.0

    def requests(self, job: str, *, end_s: float) -> Requests:
        (planned,) = self.planned
        rate = (planned.workload.rate_iops or SERVED_IOPS) * self.factor
        quicker = planned.workload.model_copy(update={"rate_iops": rate})
        self.planned = (replace(planned, workload=quicker),)
        told = super().requests(job, end_s=end_s / self.factor)

        def later(at: np.ndarray) -> np.ndarray:
            return np.where(at == NEVER_NS, at, np.rint(at * self.factor)).astype(np.int64)

        due, sent, done = (later(at) for at in (told.due_ns, told.sent_ns, told.done_ns))
        return Requests(due, sent, done, told.is_write)


def a_load(tmp_path: Path, *, iops: float = LOAD_IOPS, clients: int = 0, **heating: float) -> ARun:
    drive = Heating(**heating)  # type: ignore[arg-type]
    workload = Workload(
        pattern=Pattern.RANDOM, block_bytes=4096, read_percent=100, numjobs=clients or 4,
        range=ActiveRange(offset_bytes=0, length_bytes=drive.size_bytes),
        arrivals=Arrivals.POISSON,
    )  # fmt: skip
    run = ARun(tmp_path / "run", drive)
    run.stages.append(Load("01-load", workload, LIMIT_NS, load_iops=iops, clients_grow=not clients))
    return run


def load_of(result: RunResult) -> LoadFound:
    found = result.stages[0].found
    assert isinstance(found, LoadFound)
    return found


def p99_of(found: LoadFound) -> tuple[float, float]:
    (p99,) = [e for e in found.estimates if e.metric == "lat_p99_ns"]
    assert p99.bound is not None and p99.direction == "read"
    return p99.value, p99.bound


def test_the_percentile_at_a_load_is_that_of_the_formula(tmp_path: Path) -> None:
    result = a_load(tmp_path).go()

    found = load_of(result)
    value_ns, bound_ns = p99_of(found)
    assert result.stages[0].kind is StageKind.LOAD
    assert result.verdict == found.verdict == "VALIDATED"
    assert value_ns == pytest.approx(P99_NS, rel=0.03)
    assert P99_NS <= bound_ns <= 1.06 * P99_NS
    assert found.clients > 4 and found.trials == 5 and not found.missed
    assert found.settled_s >= SETTLES_S
    assert found.settled_s + found.measured_s + 5 * 30 >= LASTS_S
    assert {step.asked_iops for step in found.steps} == {LOAD_IOPS}


def test_a_load_above_what_the_drive_does_is_missed(tmp_path: Path) -> None:
    found = load_of(a_load(tmp_path, iops=1.05 * SERVED_IOPS).go())

    assert "that were due were done" in found.missed or "backlog" in found.missed


def test_too_few_given_clients_are_told_and_nothing_is_validated(tmp_path: Path) -> None:
    result = a_load(tmp_path, clients=4).go()

    against = {f.code for f in result.stages[0].findings if f.severity == "invalidates"}
    assert against == {Code.COORDINATED_OMISSION}
    assert load_of(result).clients == 4 and load_of(result).verdict == "NOT VALIDATED"


def test_the_slowest_trial_is_no_faster_than_the_limit_that_is_told(tmp_path: Path) -> None:
    starts = len(load_of(a_load(tmp_path / "even").go()).steps)

    heated = load_of(a_load(tmp_path / "hot", slow_from_start=starts, slower=1.2).go())

    tried = trials(heated.steps)
    assert p99_of(heated)[1] == max(step.value_ns for step in tried) > 1.2 * P99_NS


def test_waits_that_get_longer_are_watched_for_longer_and_then_told(tmp_path: Path) -> None:
    result = a_load(tmp_path, creeps=1.02).go()

    found = load_of(result)
    assert found.trials > 5
    assert [f.code for f in result.stages[0].findings if f.severity == "invalidates"] == [
        Code.TREND
    ]


def test_a_resumed_load_repeats_no_start(tmp_path: Path) -> None:
    run = a_load(tmp_path)
    run.drive.on_second = lambda drive, second: setattr(
        run, "signal", 2 if len(drive.starts) > 4 else None
    )
    assert not run.go().stages[0].complete
    kept = len(run.units(Kind.FINISHED))

    last = load_of(run.resume())

    assert kept >= 3 and last.trials == 5
    assert len(run.drive.starts) == len(last.steps) - kept


def test_a_start_holds_no_more_requests_than_a_log_that_is_read_at_once(tmp_path: Path) -> None:
    stage = a_load(tmp_path).stages[0]
    assert isinstance(stage, Load)
    done: list[RateStep] = []

    while (asked := next_load(stage, 100_000.0, done)) is not None:
        assert asked.window_s * asked.rate_iops <= 10_000_000
        step = stepped(asked.rate_iops, asked.rate_iops, kept=True)
        told = {"search": asked.search, "step": asked.step, "window_s": asked.window_s}
        done.append(step.model_copy(update=told))

    assert sum(step.window_s + 30 for step in done) >= LASTS_S


def test_requests_that_came_more_seldom_by_chance_are_not_missed() -> None:
    came = stepped(20.0, 19.7, kept=True).model_copy(update={"due_iops": 19.7, "window_s": 600.0})
    lost = came.model_copy(update={"due_iops": 20.0})

    assert not undelivered(came, LIMIT_NS)
    assert "98.5 % of the requests that were due" in undelivered(lost, LIMIT_NS)
    assert "backlog" in undelivered(came.model_copy(update={"backlog_grows": True}), LIMIT_NS)


def test_a_slow_load_is_tried_until_enough_requests_lie_beyond_the_percentile(
    tmp_path: Path,
) -> None:
    stage = a_load(tmp_path, iops=20.0).stages[0]
    assert isinstance(stage, Load)
    rare = replace(stage, percentile="p99.9")

    def lasts_s(sought: Load) -> float:
        done: list[RateStep] = []
        tail = 1 - QUANTILES[sought.percentile]
        while (asked := next_load(sought, 20.0, done)) is not None:
            place = {"search": asked.search, "step": asked.step, "window_s": asked.window_s}
            beyond = {"beyond": 20.0 * asked.window_s * tail}
            step = stepped(asked.rate_iops, asked.rate_iops, kept=True)
            done.append(step.model_copy(update={**place, **beyond}))
        return sum(step.window_s for step in trials(done))

    assert 4000 <= lasts_s(stage) <= 4600  # 800 of one in five seconds
    assert 9000 <= lasts_s(rare) <= 9600  # and no longer than three times five windows
