"""Run the stages of a run in order, store a partial result if it is interrupted, and resume it.

The runner knows no kind of stage. The runner decides which stages must run, when the target is
checked again, which results a crash made invalid, and when the run ends.
"""

import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ssdbench import __version__
from ssdbench.engine import units
from ssdbench.engine.changes import (
    FLASH,
    HOST,
    check_drive,
    facts_at_start,
    flash_written_between,
    host_changes,
    link_errors,
)
from ssdbench.engine.estimates import (
    ends_after,
    hint_from_results,
    host_wait,
    likely,
    narrower,
    remaining,
    shown_plan,
)
from ssdbench.engine.events import (
    NOT_BEGUN,
    AtWork,
    Event,
    FindingRaised,
    Foreseen,
    Range,
    Reporter,
    RunFinished,
    RunStarted,
    StageFinished,
    StageStarted,
)
from ssdbench.engine.hostlock import HostLock
from ssdbench.engine.hostsettings import BlockPreference, current_facts
from ssdbench.engine.journal import IDLE, NAME, RESULT_SHA256, Journal, Kind, StageJournal, utc_now
from ssdbench.engine.power import Meter as PowerMeter
from ssdbench.engine.power import idle_watts
from ssdbench.engine.session import Counters, TargetSession
from ssdbench.engine.stage import (
    LEAST_AHEAD_BYTES,
    AnyStage,
    Context,
    Lasting,
    Limits,
    Meter,
    RateHint,
    RecentWrites,
    StagePlan,
    stopped_by,
)
from ssdbench.engine.store import RunStore
from ssdbench.engine.verdict import NO_PLAN, about_plan, about_target, run_verdict
from ssdbench.errors import SsdbenchError, TargetRefused, UsageError
from ssdbench.host.activity import Activity, activity
from ssdbench.model.finding import Finding
from ssdbench.model.findings.course import PlannedAgain, Resumed, RunCutShort
from ssdbench.model.findings.host import BlockNotSet, HostChanged, SettingsLeft
from ssdbench.model.found import Found
from ssdbench.model.inside import BlockSizeFound
from ssdbench.model.kind import KINDS
from ssdbench.model.point import Estimate
from ssdbench.model.profile import CapacityPlan
from ssdbench.model.profile.accept import Target
from ssdbench.model.replay import ReplayFound
from ssdbench.model.result import METHOD, Budget, FlashWritten, RunResult, StageResult
from ssdbench.model.target import TargetInfo
from ssdbench.stats.inside.writecache import cache_findings, write_cache
from ssdbench.stats.planning.acceptance import with_accepted
from ssdbench.target.identity import differences
from ssdbench.units import format_capacity


@dataclass(frozen=True, slots=True)
class Replanned:
    """The stages of a run, planned again after the warm-up to fit the given time."""

    stages: Sequence[AnyStage]  # the preparing stages are the same
    profile_text: str
    budget: Budget


@dataclass(frozen=True, slots=True)
class Order:
    """The inputs of a run, except its stages and its target."""

    run_id: str
    title: str
    profile_text: str
    seed: int
    limits: Limits = Limits()
    plan: CapacityPlan = NO_PLAN  # names the points that decide the run's verdict
    accept: tuple[Target, ...] = ()  # targets that the drive must meet
    hint: RateHint = RateHint()
    budget: Budget | None = None  # the user's time, to which the profile was shortened
    # Plans the run again; arguments: measured rates, seconds used, bytes written. The function
    # returns None to keep the plan.
    replan: Callable[[RateHint, float, int], Replanned | None] | None = None
    host: Mapping[str, str] = field(default_factory=dict)  # facts of the host, for the report
    settings: tuple[dict[str, str], ...] = ()  # host settings that were changed
    power: Path | None = None  # the CSV file of a power meter
    left: tuple[str, ...] = ()  # settings of the profile that this target does not have
    preference: BlockPreference | None = None  # set after the first stage found the block


@dataclass(frozen=True, slots=True)
class World:
    """The functions by which a run talks to its user and reads its host; tests replace them."""

    emit: Callable[[Event], None]
    interrupted: Callable[[], int | None] = lambda: None  # number of the signal that came, or None
    wall: Callable[[], float] = time.monotonic
    activity: Callable[[], Activity] = activity  # reads what else the host does
    facts: Callable[[TargetInfo], Mapping[str, str]] = current_facts  # reads facts of the host
    sleep: Callable[[float], None] = time.sleep


def check_limits(plans: Sequence[StagePlan], limits: Limits) -> None:
    """Raise UsageError if a run's fills alone would write more bytes than its limit."""
    fills = sum(plan.bytes_written[0] for plan in plans if KINDS[plan.kind].is_fill)
    allowed = limits.max_writes_bytes
    if allowed is not None and fills > allowed:
        raise UsageError(
            f"the fills alone write {format_capacity(fills)}, more than --max-writes "
            f"{format_capacity(allowed)}",
            hint="Raise --max-writes, or ask for fewer fills in `precondition`.",
        )


def require_same(
    info: TargetInfo, begun_on: str, size_bytes: object, *, known: TargetInfo | None = None
) -> None:
    """Raise TargetRefused unless the target is the drive on which the run began.

    `begun_on` is the identity of the target at the start of the run. `known` has the model and
    serial number at the start; these are also compared, because several drives may have the same
    identity.
    """
    reasons = []
    if known is not None:
        reasons = differences((info.model, info.serial), (known.model, known.serial))
    if (info.id, info.size_bytes) != (begun_on, size_bytes):
        reasons.insert(
            0,
            f"it is {info.id} of {info.size_bytes} bytes, but the run was begun on {begun_on} of "
            f"{size_bytes} bytes",
        )
    if reasons:
        hint = "Attach the drive that the run was begun on, or start a new run."
        raise TargetRefused(info.name, reasons, hint=hint)


class Runner:
    """Run stages on one claimed target, into one run directory."""

    def __init__(
        self,
        order: Order,
        stages: Sequence[AnyStage],
        session: TargetSession,
        store: RunStore,
        world: World,
    ) -> None:
        self._order = order
        self._stages = stages
        self._session = session
        self._store = store
        self._world = world
        self._meter = Meter(order.limits)
        self._recent = RecentWrites()
        self._host_lock = HostLock(None if session.info.simulated else store.path)
        self._power = None if order.power is None else PowerMeter(order.power)
        self._findings: list[Finding] = []
        self._results: list[StageResult] = []
        self._started_at = utc_now()
        self._resumed = False
        self._reported_changes: tuple[str, ...] = ()
        self._at = 0  # number of the current stage, from 1
        self._began_s = world.wall()

    def run(self) -> RunResult:
        """Run all stages and return the result; a partial result is stored after an error."""
        plans = [likely(stage, self._session.info, self._order.hint) for stage in self._stages]
        check_limits(plans, self._order.limits)
        journal = Journal.create(self._store.path / NAME)
        info, flash = self._session.info, self._flash_written()
        idle = idle_watts(
            self._session.drive_watts,
            self._power,
            sleep=self._world.sleep,
            hurried=lambda: self._world.interrupted() is not None,
        )
        journal.append(
            Kind.RUN,
            data={
                "run_id": self._order.run_id,
                "seed": self._order.seed,
                "target": info.id,
                "size_bytes": info.size_bytes,
                "stages": [stage.name for stage in self._stages],
                HOST: facts_at_start(self._facts()),
                FLASH: None if flash is None else flash.model_dump(),
                IDLE: None if idle is None else idle.model_dump(),
                **self._observe(Kind.RUN),
            },
        )
        return self._go(journal, reusable=frozenset())

    def resume(self) -> RunResult:
        """Continue the run after a crash, signal or limit; do not repeat finished measurements."""
        self._resumed = True
        journal = Journal.open(self._store.path / NAME)
        first = journal.records[0]
        self._started_at = first.at
        info = self._session.info
        require_same(info, str(first.data.get("target")), first.data.get("size_bytes"))
        for record in journal.records:
            self._meter.restore(record.data)
        drive = check_drive(journal.records, self._counters(at_rest=True))
        reusable = self._reusable(journal, content_intact=drive.intact)
        if _has_result(journal, self._store):
            self._require_room(reusable)
        repeated = [
            stage.title
            for stage in self._stages
            if stage.name not in reusable and self._store.read_stage(stage.name) is not None
        ]
        self._raise(Resumed(drive.reason, tuple(dict.fromkeys(repeated))).finding())
        self._compare_host(journal)
        proof = {"stands": drive.intact, "reason": drive.reason}
        journal.append(Kind.RESUMED, data={**proof, **self._observe(Kind.RESUMED)})
        return self._go(journal, reusable=reusable)

    def _require_room(self, reusable: frozenset[str]) -> None:
        """Raise UsageError if the run has already reached one of its limits.

        A resumed run without any time or bytes left would measure nothing. The run's result would
        also lack the stage that was interrupted, because the resumed run begins that stage again.
        """
        first = next((stage for stage in self._stages if stage.name not in reusable), None)
        if first is None:
            return
        ahead_bytes = LEAST_AHEAD_BYTES if first.destructive else 0
        if used_up := self._meter.used_up(ahead_bytes=ahead_bytes):
            least = [word for limit in used_up for word in (limit.option, limit.least)]
            again = shlex.join(["ssdbench", "resume", str(self._store.path), *least])
            raise UsageError(
                f"{' and '.join(limit.why for limit in used_up)}, so nothing more can be measured",
                hint=f"Raise the limit, at least to this: {again}",
            )

    def _go(self, journal: Journal, *, reusable: frozenset[str]) -> RunResult:
        for finding in about_target(self._session.info):
            self._raise(finding)
        if self._order.left:
            self._raise(SettingsLeft(self._order.left).finding())
        titles = tuple(stage.title for stage in self._stages)
        order, plan = self._order, self._order.plan
        asked = "" if plan.load_iops is None else plan.asked()
        self._world.emit(
            RunStarted(
                order.run_id, self._store.path, self._session.info, titles, self._resumed, asked
            )
        )
        try:
            while self._at < len(self._stages):
                self._replan(journal)
                stage = self._stages[self._at]
                self._at += 1
                self._announce(stage)
                if not self._stage(journal, stage, reuse=stage.name in reusable):
                    break
        except SsdbenchError as error:
            journal.append(Kind.FAILED, data={"error": error.message})
            self._finish(journal, failed=error.message.splitlines()[0])
            raise
        return self._finish(journal)

    def _replan(self, journal: Journal) -> None:
        """Before the first point is measured, plan all points again from the measured rates."""
        prepared, first = self._stages[: self._at], self._stages[self._at]
        if self._order.replan is None or not prepared or KINDS[first.kind].prepares:
            return
        if not all(KINDS[stage.kind].prepares for stage in prepared):
            return
        again = None
        if not any(record.stage == first.name for record in journal.records):  # else keep the plan
            spent = self._meter
            again = self._order.replan(self._hint(), spent.seconds, spent.bytes_written)
        if again is not None:
            self._stages = [*prepared, *again.stages[self._at :]]
            self._order = replace(
                self._order, profile_text=again.profile_text, budget=again.budget, replan=None
            )
        if (budget := self._order.budget) is not None and budget.planned_again:
            self._raise(PlannedAgain(budget.given, tuple(budget.cuts)).finding())

    def _announce(self, stage: AnyStage) -> None:
        """Tell the user that a stage begins, with estimates from the rates of earlier stages."""
        seconds, (ends, wait, _) = self._foreseen()
        count, expected = len(self._stages), None
        if ends:
            info, hint = self._session.info, self._hint()
            left = [likely(one, info, hint) for one in self._stages[self._at - 1 :]]
            expected = ends_after(self._meter.seconds, left)
        self._world.emit(
            StageStarted(stage.name, stage.title, self._at, count, seconds, ends, wait, expected)
        )

    def _hint(self, seen: Found | None = None) -> RateHint:
        """Return the likely rates, by what finished stages and `seen` of this one measured."""
        found = [result.found for result in self._results]
        return hint_from_results(self._order.hint, found if seen is None else [*found, seen])

    def _foreseen(
        self, at_work_s: float = 0.0, seen: Found | None = None, unit: AtWork = NOT_BEGUN
    ) -> tuple[Range, Foreseen]:
        """Estimate the current stage's time, the run's end, and the real time that is left.

        The real time left is that of the run, only for simulated drives, which have their own
        clock, and that of the current stage. The run's end is None while no rate of the drive was
        measured; everything is None if the stage has run longer than its estimate. `at_work_s` says
        how long the current stage has run, and `unit` describes its current unit. `seen` has the
        rates that the current stage has measured so far.
        """
        info, spent, hint = self._session.info, self._meter, self._hint(seen)
        stage, *later = (shown_plan(one, info, hint) for one in self._stages[self._at - 1 :])
        rest = shown_plan(self._stages[self._at - 1].after(unit.done), info, hint)
        if at_work_s > stage.seconds[1] or unit.since_s > rest.seconds[1]:
            return stage.seconds, (None, None, None)
        left = [narrower(remaining(stage, at_work_s), remaining(rest, unit.since_s)), *later]
        ends = None if hint == self._order.hint else ends_after(spent.seconds, left)
        if not info.simulated:
            return stage.seconds, (ends, None, left[0].seconds)
        host_s, done = self._world.wall() - self._began_s, (spent.seconds, spent.bytes_written)
        of_run, of_stage = (
            host_wait(part, hint, host_s=host_s, done=done) for part in (left, left[:1])
        )
        return stage.seconds, (ends, of_run, of_stage)

    def _stage(self, journal: Journal, stage: AnyStage, *, reuse: bool) -> bool:
        """Run a stage, or reuse its stored result; return False if the run must end."""
        stored = self._store.read_stage(stage.name) if reuse else None
        if stored is not None:
            self._results.append(stored)
            self._prefer_block(stored)
            self._world.emit(StageFinished(stored, reused=True))
            return True
        if self._world.interrupted() is not None:
            return False
        if stage.destructive and self._meter.exceeded(ahead_bytes=LEAST_AHEAD_BYTES):
            return False
        if stage.destructive:
            self._session.recheck()
        context = self._context(journal, stage)
        result = units.run(stage, context)
        self._results.append(result)
        self._prefer_block(result)
        for finding in result.findings:
            self._world.emit(FindingRaised(finding))
        if result.complete:
            journal.append(Kind.FINISHED, stage=stage.name, data=self._observe(Kind.FINISHED))
        self._world.emit(StageFinished(result))
        if context.failures:
            raise context.failures[0]
        return result.complete

    def _prefer_block(self, result: StageResult) -> None:
        """Set the scheduler to the block that the first stage found, or report why this failed."""
        preference = self._order.preference
        if preference is None or self._at > 1 or not isinstance(result.found, BlockSizeFound):
            return
        if not result.complete:
            return
        made = preference.settle(result.found)
        if isinstance(made, BlockNotSet):
            self._raise(made.finding())
        else:
            self._order = replace(self._order, settings=(*self._order.settings, *made))

    def _context(self, journal: Journal, stage: AnyStage) -> Context:
        begun_s, size_bytes = self._meter.seconds, self._session.info.size_bytes
        return Context(
            session=self._session,
            store=self._store.stage(stage.name),
            journal=StageJournal(journal, stage.name, self._observe),
            emit=self._world.emit,
            interrupted=self._world.interrupted,
            meter=self._meter,
            seed=self._order.seed,
            run_path=self._store.path,
            hint=self._order.hint,
            results=tuple(self._results),
            wall=self._world.wall,
            activity=self._world.activity,
            power=self._power,
            settings=self._order.settings,
            recent=self._recent,
            host_lock=self._host_lock,
            reporter=Reporter(
                stage.name,
                emit=self._world.emit,
                wall=self._world.wall,
                written_fills=lambda: self._meter.bytes_written / size_bytes,
                ran_s=lambda: self._meter.seconds,
                foreseen=lambda seen, unit: self._foreseen(
                    self._meter.seconds - begun_s, seen, unit
                )[1],
                simulated=self._session.info.simulated,
            ),
        )

    def _finish(self, journal: Journal, *, failed: str = "") -> RunResult:
        signal_number = self._world.interrupted()
        complete = len(self._results) == len(self._stages) and all(
            result.complete for result in self._results
        )
        if signal_number is not None:
            journal.append(Kind.INTERRUPTED, data={"signal": signal_number})
        if not complete:
            limit = self._meter.exceeded(ahead_bytes=LEAST_AHEAD_BYTES)
            why = f"it was {stopped_by(signal_number)}" if signal_number else failed or limit
            why = why or "a stage did not finish"
            self._raise(RunCutShort(self._at, len(self._stages), why).finding())
        self._compare_host(journal)
        for finding in link_errors(_host_before(journal), self._facts()):
            self._raise(finding)
        for finding in about_plan(self._results, self._order.plan):
            self._raise(finding)
        info = self._session.info
        cache = write_cache(info, self._results, settings=self._order.settings, host=self._facts())
        if any(result.bytes_written for result in self._results):
            flushed = any(map(_flushed, self._results))
            for finding in cache_findings(cache, simulated=info.simulated, some_flushed=flushed):
                self._raise(finding)
        first = journal.records[0].data
        idle = first.get(IDLE)
        result = RunResult(
            run_id=self._order.run_id,
            title=self._order.title,
            ssdbench_version=__version__,
            method=METHOD,
            started_at=self._started_at,
            finished_at=utc_now() if complete else None,
            target=info,
            profile_text=self._order.profile_text,
            seed=self._order.seed,
            verdict=run_verdict(info, self._results, self._findings, self._order.plan),
            findings=tuple(self._findings),
            stages=tuple(self._results),
            host=dict(self._order.host),
            settings=self._order.settings,
            bytes_written=self._meter.bytes_written,
            endurance_tb=self._order.plan.endurance_tb,
            budget=self._order.budget,
            flash_written=flash_written_between(first.get(FLASH), self._flash_written()),
            idle_watts=None if idle is None else Estimate.model_validate(idle),
            write_cache=cache,
            interrupted=signal_number is not None,
        )
        result = with_accepted(result, self._order.accept)
        proof = {RESULT_SHA256: self._store.write_result(result)}
        observed = self._observe(Kind.ENDED)
        journal.append(Kind.ENDED, data={"verdict": result.verdict, **proof, **observed})
        journal.close()
        self._world.emit(RunFinished(result, self._store.path))
        return result

    def _reusable(self, journal: Journal, *, content_intact: bool) -> frozenset[str]:
        """Return the names of the stages whose stored results a resumed run can use.

        A preparing stage is repeated only if a stage after it must still be measured. In this case
        a state that does not last, such as steady state, must be proven again.
        """
        finished = {stage.name for stage in self._stages if "" in journal.finished(stage.name)}
        needed = self._needed(finished)
        reusable: set[str] = set()
        for stage in self._stages:
            stays = (
                stage.lasting is Lasting.RESULTS
                or stage.name not in needed
                or (stage.lasting is Lasting.CONTENT and content_intact)
                and "" in journal.written(stage.name)
            )
            if stage.name in finished and stays:
                reusable.add(stage.name)
            elif stage.destructive:
                content_intact = False  # this stage will overwrite it
        return frozenset(reusable)

    def _needed(self, finished: Collection[str]) -> frozenset[str]:
        """Return the preparing stages that unmeasured stages need.

        These are the stages from the last fill on. If the drive must still be purged before it is
        filled again, none of the stages before the purge is needed.
        """
        needed: set[str] = set()
        is_open = False
        for stage in reversed(self._stages):
            if stage.lasting is Lasting.RESULTS:
                is_open = is_open or stage.name not in finished
                is_open = is_open and not KINDS[stage.kind].erases
            elif is_open:
                needed.add(stage.name)
                is_open = not KINDS[stage.kind].is_fill
        return frozenset(needed)

    def _facts(self) -> Mapping[str, str]:
        """Read the facts of the host; empty for a simulated drive."""
        info = self._session.info
        return {} if info.simulated else self._world.facts(info)

    def _flash_written(self) -> FlashWritten | None:
        """Read the bytes written to flash; do not wait for a slow counter after a user's Ctrl-C."""
        return self._session.flash_written(hurried=lambda: self._world.interrupted() is not None)

    def _compare_host(self, journal: Journal) -> None:
        """Report which facts of the host changed since the run began, unless already reported."""
        before = _host_before(journal)
        changes = host_changes(before, self._facts()) if before else ()
        if changes and changes != self._reported_changes:
            self._reported_changes = changes
            self._raise(HostChanged(changes).finding())

    def _observe(self, kind: Kind) -> dict[str, object]:
        counters = self._counters(at_rest=kind is not Kind.ALIVE)
        return {"counters": counters.model_dump(), **self._meter.spent()}

    def _counters(self, *, at_rest: bool) -> Counters:
        """Read the target's counters; add the drive's health log if no I/O runs (`at_rest`)."""
        counters = self._session.counters()
        if not at_rest:
            return counters
        log_bytes = self._session.health_written_bytes()
        return counters.model_copy(update={"log_bytes": log_bytes})

    def _raise(self, finding: Finding) -> None:
        self._findings.append(finding)
        self._world.emit(FindingRaised(finding))


def _host_before(journal: Journal) -> Mapping[str, str]:
    """Return the host's facts at the start of the run; empty if an old journal lacks them."""
    found = journal.records[0].data.get(HOST)
    return found if isinstance(found, Mapping) else {}


def _has_result(journal: Journal, store: RunStore) -> bool:
    """Tell whether the run ended, and its result file has not changed since then."""
    ends = (Kind.RESUMED, Kind.ENDED)
    last = next((record for record in reversed(journal.records) if record.kind in ends), None)
    proof = last.data.get(RESULT_SHA256) if last is not None else None
    return proof is not None and proof == store.result_sha256()


def _flushed(result: StageResult) -> bool:
    """Tell whether a stage sent flush commands to the drive."""
    if isinstance(result.found, ReplayFound):
        return result.found.trace is not None and result.found.trace.flushes > 0
    streams = (stream for point in result.points for stream in point.point.workload.streams)
    return any(stream.flushes for stream in streams)
