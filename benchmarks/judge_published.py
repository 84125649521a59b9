"""What a user gets: numbers, percentiles and verdicts of whole runs, against the truth.

    nox -s judge-the-judges -- --published 1200            the warm-up's write alone, 12 families
    nox -s judge-the-judges -- --published 320 --families profiles --records new.jsonl
    nox -s judge-the-judges -- --published 320 --families profiles --records new.jsonl \
        --against old.jsonl                                the same drives by two versions
    nox -s judge-the-judges -- --published 12 --with fio   through the command line

Each run is the product's own: stages, engine, stats and verdict of `ssdbench run`, with the core's
own loop in fio's place (`benchmarks.core_generator`), which takes seconds where fio takes minutes.
`--with fio` starts `ssdbench run` itself, to hold the one against the other. Each point has a truth
of its own (`benchmarks.published_truth`); targets are set beside it, so that some truly pass and
some truly fail. `benchmarks.published_score` adds up.
"""

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from benchmarks import published_truth as true
from benchmarks import published_zoo as zoo
from benchmarks.core_generator import on_core
from benchmarks.synthetic import Rng
from benchmarks.zoo import Creature
from ssdbench.engine.estimates import rate_hint
from ssdbench.engine.events import Event
from ssdbench.engine.runner import Order, Runner, World
from ssdbench.engine.simulatedsession import STATE, Applies, SimulatedSession
from ssdbench.engine.store import RunStore, load
from ssdbench.host.command import run
from ssdbench.model.finding import Finding, Severity
from ssdbench.model.loading import load_profile
from ssdbench.model.point import PointResult
from ssdbench.model.profile import Rated
from ssdbench.model.rates import RateFound
from ssdbench.model.result import RunResult
from ssdbench.model.workload import Workload
from ssdbench.sim.drive import SimDrive
from ssdbench.stages.points import PointStage
from ssdbench.stages.rate import Rate
from ssdbench.stats.percentiles import QUANTILES
from ssdbench.stats.risk import WHOLE
from ssdbench.suite.assemble import stages
from ssdbench.suite.plan import fitted
from ssdbench.suite.request import RunRequest
from ssdbench.suite.run import replanning
from ssdbench.target.inspect import inspect

WRONG = 0.05
TOO_LOW = 0.03
CLOSE = 0.01  # a target so near the truth is neither kept nor missed
BIN = 1 / 64  # a percentile is the upper edge of its bin
IOPS_FACTORS = (0.7, 0.85, 0.93, 1.05, 1.15, 1.4)
PERCENTILES = ("p90", "p99", "p99.9")  # that targets may be of
WINDOWS, SLOW_REQUESTS = 10, 300  # of a point, and beyond a percentile of a target
LATENCY_FACTORS = (2.0, 1.4, 1.15, 0.93, 0.8, 0.6)


@dataclass(frozen=True, slots=True)
class Percentile:
    """A percentile of a point, in ns; `upper_ns` is its 95 % limit."""

    direction: str
    name: str
    status: str
    value_ns: float
    upper_ns: float | None
    truth_ns: float | None  # None: too few requests for a truth
    least_ns: float | None  # how low the truth may be

    @property
    def shown(self) -> bool:
        """Whether it stands there as a number that holds."""
        return self.status == "published" and self.upper_ns is not None

    @property
    def too_low(self) -> bool:
        """Whether its upper limit is below the truth by more than 3 %."""
        known = self.upper_ns is not None and self.least_ns is not None
        return known and self.upper_ns * (1 + TOO_LOW) < self.least_ns  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Target:
    """A target of the profile: what the run says of it, and what is true in the long run."""

    metric: str
    outcome: str
    truly: str  # "pass", "fail", or "close": neither is wrong
    apart: bool = False  # its point has an event apart


@dataclass(frozen=True, slots=True)
class Point:
    """One point against its truth; rates in I/Os per second of the drive's clock."""

    label: str
    kind: str  # read | write | mix
    validated: bool
    bound: float
    mean: float
    low: float  # 95 % interval of the mean, or of the lower level where one is published
    high: float
    truth: float  # of two levels, the lower
    of_interval: float  # what the interval is about: the truth, or the mean over two levels
    truth_error: float
    quantile: float  # the true 5 % quantile of means over a horizon
    refused: tuple[str, ...] = ()  # codes of the findings that invalidate
    percentiles: tuple[Percentile, ...] = ()
    seen_wave_s: float | None = None  # longest wave that the run says it could have seen
    seen_drift: float | None = None  # slowest drift per fill, likewise
    hot_after_s: float | None = None  # of this load; None where it does not throttle the drive
    unbroken_s: float = 0.0  # the longest that the load was at work without a break

    @property
    def share(self) -> float:
        """The bound over the truth."""
        return self.bound / self.truth

    @property
    def wrong(self) -> bool:
        """VALIDATED, and more than 5 % too high."""
        return self.validated and self.share > 1 + WRONG

    @property
    def covered(self) -> bool:
        """Whether the interval holds its truth, give or take what the truth itself is unsure of."""
        slack = 2 * self.truth_error * self.of_interval
        return self.low - slack <= self.of_interval <= self.high + slack


@dataclass(frozen=True, slots=True)
class Published:
    """One run against the truth."""

    seed: int
    family: str
    points: tuple[Point, ...] = ()
    targets: tuple[Target, ...] = ()
    later: bool = False  # the planted event came after the run
    wave_s: float = 0.0  # planted: mean time from one slow phase to the next
    drift: float = 0.0  # planted, per fill
    rule_steady: bool = False
    rule_bound: float = math.nan  # of the warm-up alone; NaN where it was another workload
    hours: float = math.nan
    fills: float = math.nan
    cpu_s: float = 0.0
    error: str = ""  # the run ended with this instead of a result

    def apart(self, point: Point) -> str:
        """Why a wrong number of this point is counted apart: no such run could have seen it."""
        if self.later:
            return "later"
        if self.wave_s and point.seen_wave_s is not None and self.wave_s > point.seen_wave_s:
            return "wave"
        if self.drift and point.seen_drift is not None and self.drift < point.seen_drift:
            return "drift"
        return ""


def judged(
    seed: int,
    family: str | None = None,
    *,
    through: str = "core",
    evidence: str = WHOLE,
    among: Sequence[str] = (),
    budget_s: float | None = None,
) -> Published:
    """Run one drive, and hold what is published against its truth."""
    began = time.process_time()
    made = zoo.creature(seed, family, among)
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None  # runs sync many small files
    with tempfile.TemporaryDirectory(prefix="judge-", dir=base) as name:
        directory = Path(name)
        target, text = zoo.write(made, directory, evidence)
        loads, searches = _asked(target, text)
        truths = {key: true.truth(made, load, seed) for key, load in loads.items()}
        rng = np.random.default_rng([0xACC, seed])
        wanted = (
            [] if made.single else [*_targets(made, loads, truths, rng), *_at(made, searches, rng)]
        )
        text = zoo.profile(made, evidence, [one.text for one in wanted])
        in_time = partial(by_core, budget_s=budget_s, rated=_rated(made))
        whole_run = in_time if through == "core" else by_command
        try:
            result = whole_run(target, text, directory / "run", seed=seed)
        except Exception as error:  # noqa: BLE001 - a fault of the run is a result, too
            wave_s, drift = made.wave_s, made.drift
            return Published(seed, made.family, wave_s=wave_s, drift=drift, error=repr(error))
        with SimDrive.open(directory / "run" / STATE) as drive:
            written = drive.core.counters()["host_write_bytes"] / made.capacity_bytes
            ended_s = drive.core.now_ns / 1e9
            if made.drift:  # what it will do depends on what it has done
                for key, load in loads.items():
                    truths[key] = true.truth_to_come(made, load, drive.core, seed)
        if not made.drift:
            for key, odd in _odd(result, made.capacity_bytes).items():
                truths[key] = true.truth(made, loads[key], seed, odd=odd)
    found = _against(made, seed, result, loads, truths, written, ended_s)
    held = [
        *_held(found, list(loads), result, wanted, truths),
        *_rates(made, searches, result, seed),
    ]
    return replace(found, targets=tuple(held), cpu_s=time.process_time() - began)


def by_core(
    target: str,
    profile_text: str,
    run_path: Path,
    *,
    seed: int,
    emit: Callable[[Event], None] = lambda event: None,
    wall: Callable[[], float] = time.monotonic,
    buffer_bytes: int | None = None,
    budget_s: float | None = None,
    rated: Rated = Rated(),  # noqa: B008 - frozen
    applies: Applies = on_core,
) -> RunResult:
    """What `ssdbench run` does with a simulated drive, with the core's loop in fio's place.

    `buffer_bytes`: taken for the size of the drive's write buffer, where it is not the drive's own.
    `budget_s` and `rated` are what `--budget` and `--rated` give; `applies` makes the generator.
    """
    profile, info = load_profile(profile_text, "the judge's profile"), inspect(target)
    if buffer_bytes is not None:
        info = info.model_copy(update={"write_buffer_bytes": buffer_bytes})
    whole = RunRequest(
        profile, "the judge's profile", profile_text, target, budget_s=budget_s, rated=rated
    )
    asked, budget = fitted(whole, info)
    session = SimulatedSession(info, run_path, applies)
    order = Order(
        run_id=run_path.name,
        title=profile.title or "",
        profile_text=asked.profile_text,
        seed=seed,
        limits=asked.all_limits,
        plan=profile.plan,
        accept=profile.accept,
        hint=rate_hint(info, rated),
        budget=budget,
    )
    order = replanning(order, whole, asked.profile, info, lambda text, budget: None)
    world = World(emit=emit, wall=wall)
    try:
        planned = stages(asked.profile, info)
        return Runner(order, planned, session, RunStore(run_path), world).run()
    finally:
        session.close()


def by_command(target: str, profile_text: str, run_path: Path, *, seed: int) -> RunResult:
    """`ssdbench run` itself, with fio."""
    profile = run_path.parent / "profile.yaml"
    profile.write_text(profile_text)
    command = [sys.executable, "-m", "ssdbench", "run", str(profile), "--target", target]
    run([*command, "--seed", str(seed), "--output", str(run_path)], ok=range(10))
    return load(run_path / "result.json", RunResult)


def _rated(made: Creature) -> Rated:
    """About the rate of random writes; a data sheet has no rate in order as low as these."""
    return Rated.model_validate({"random_write_iops": max(1, round(1 / made.write_s))})


def _asked(target: str, text: str) -> tuple[dict[str, Workload], list[Rate]]:
    """The load of each point, and the searches for a rate."""
    planned = stages(load_profile(text, "the judge's profile"), inspect(target))
    points = [point for stage in planned if isinstance(stage, PointStage) for point in stage.points]
    searches = [stage for stage in planned if isinstance(stage, Rate)]
    return {point.id: point.workload for point in points}, searches


def _odd(result: RunResult, capacity_bytes: int) -> dict[str, int]:
    """Of points that began when the drive had been written no whole blocks of theirs: the rest."""
    begun = {
        p.point.id: true.odd_bytes(p.point.workload, round(p.repeats[0].at_fills * capacity_bytes))
        for p in result.points
        if p.repeats
    }
    return {key: odd for key, odd in begun.items() if odd}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A target as it stands in the profile; `point` is empty for one at an offered rate."""

    name: str
    text: str
    point: str
    metric: str  # iops, or a percentile
    limit: float  # in ns for a percentile
    truly: str = ""  # where the point does not tell


def _telling(made: Creature, work: Workload, iops: float) -> list[str]:
    """The two highest percentiles that ten windows have slow requests enough for."""
    window_s = 300.0 if made.window == "5m" else 60.0
    share = min(s for s in (work.read_percent / 100, 1 - work.read_percent / 100) if s)
    seen = WINDOWS * window_s * iops * share
    return [name for name in PERCENTILES if seen * (1 - QUANTILES[name]) >= SLOW_REQUESTS][-2:]


def _targets(
    made: Creature, loads: Mapping[str, Workload], truths: Mapping[str, true.Truth], rng: Rng
) -> Iterator[_Wanted]:
    """A rate and two percentiles for each point, some that it holds and some that it does not."""
    for number, (key, work) in enumerate(loads.items()):
        known = truths[key]
        of = (
            f"{{block: {work.block_bytes}, read: {work.read_percent}, "
            f"pattern: {work.pattern.value}, iodepth: {work.iodepth}}}"
        )
        iops = known.mean * float(rng.choice(IOPS_FACTORS))
        name = f"{number} iops"
        yield _Wanted(name, f"{{name: {name}, of: {of}, iops: {iops:.6g}}}", key, "iops", iops)
        for percentile in _telling(made, work, known.mean):
            slowest = _slowest(known.latency, percentile)
            factor = float(rng.choice(LATENCY_FACTORS))
            if slowest is None:
                continue
            name, limit_us = (
                f"{number} {percentile}",
                max(1, round(slowest.value_ns * factor / 1e3)),
            )
            text = f"{{name: {name}, of: {of}, latency: {{{percentile}: {limit_us}us}}}}"
            yield _Wanted(name, text, key, percentile, 1e3 * limit_us)


def _at(made: Creature, searches: Sequence[Rate], rng: Rng) -> Iterator[_Wanted]:
    """A limit at an offered load, for each search of a rate."""
    for number, search in enumerate(searches):
        load = search.workload
        most = 1 / ((load.read_percent / 1000 + (100 - load.read_percent) / 100) * made.write_s)
        iops = float(round(most * rng.uniform(0.3, 1.1)))
        seen = _slowest(true.latency_at(made, load, iops, 1), search.percentile)
        of = f"{{block: {load.block_bytes}, read: {load.read_percent}, pattern: random}}"
        limit = f"latency: {{{search.percentile}: {search.limit_ns / 1e3:.0f}us}}"
        name = f"{number} at"
        text = f"{{name: {name}, of: {of}, at: {{iops: {iops:g}}}, {limit}}}"
        yield _Wanted(
            name, text, "", search.percentile, search.limit_ns, _within(seen, search.limit_ns)
        )


def _slowest(
    latency: Mapping[tuple[str, str], true.Latency], percentile: str
) -> true.Latency | None:
    """Of reads and writes; None where one of them is not known."""
    both = [one for (_, name), one in latency.items() if name == percentile]
    medians = [one for (_, name), one in latency.items() if name == "p50"]
    if not both or len(both) < len(medians):
        return None
    return max(both, key=lambda one: one.value_ns)


def _within(seen: true.Latency | None, limit_ns: float) -> str:
    if seen is None:
        return "close"
    if seen.low_ns / (1 + BIN) > limit_ns * (1 + CLOSE):
        return "fail"
    return "pass" if seen.value_ns <= limit_ns * (1 - CLOSE) else "close"


def _truly(wanted: _Wanted, known: true.Truth) -> str:
    if wanted.metric != "iops":
        return _within(_slowest(known.latency, wanted.metric), wanted.limit)
    unsure = max(CLOSE, 2 * known.error)
    if known.mean < wanted.limit * (1 - unsure):
        return "fail"
    return "pass" if known.mean > wanted.limit * (1 + unsure) else "close"


def _held(
    found: Published,
    keys: Sequence[str],
    result: RunResult,
    wanted: Sequence[_Wanted],
    truths: Mapping[str, true.Truth],
) -> Iterator[Target]:
    """What became of the targets."""
    outcome = {row.target: row.outcome for row in result.accepted}
    apart = {key: bool(found.apart(point)) for key, point in zip(keys, found.points, strict=True)}
    for one in wanted:
        truly = _truly(one, truths[one.point]) if one.point else one.truly
        name = one.metric if one.point else f"{one.metric} at a rate"
        yield Target(name, outcome[one.name], truly, apart.get(one.point, False))


def _rates(
    made: Creature, searches: Sequence[Rate], result: RunResult, seed: int
) -> Iterator[Target]:
    """Of each search that is VALIDATED: does the rate keep its limit?"""
    for search, (stage, found) in zip(searches, result.having(RateFound), strict=False):
        valid = stage.complete and not _against_it(stage.findings)
        if found.rate_iops is None:
            continue
        seen = true.latency_at(made, search.workload, found.rate_iops, seed)
        truly = _within(_slowest(seen, found.percentile), found.limit_ns)
        yield Target(f"{found.percentile} of a rate", "pass" if valid else "cannot tell", truly)


def _against_it(findings: Iterable[Finding]) -> set[str]:
    return {f.code.value for f in findings if f.severity is Severity.INVALIDATES}


def _against(
    made: Creature,
    seed: int,
    result: RunResult,
    loads: Mapping[str, Workload],
    truths: Mapping[str, true.Truth],
    written: float,
    ended_s: float,
) -> Published:
    steady = result.steady
    onsets = [known.onset_s for known in truths.values() if known.onset_s is not None]
    later = (made.step_fills is not None and made.step_fills >= written) or any(
        math.isfinite(onset) and onset >= ended_s for onset in onsets
    )
    measured = {point.point.id: point for point in result.points}
    findings = (*result.findings, *(f for s in result.stages for f in s.findings))
    points = [
        _point(measured.get(key), load, truths[key], result, findings)
        for key, load in loads.items()
    ]
    return Published(
        seed=seed,
        family=made.family,
        points=tuple(points),
        later=later,
        wave_s=made.wave_s,
        drift=made.drift,
        rule_steady=steady is not None and steady.steady,
        rule_bound=steady.lower_bound / 4096 if steady and made.span == 1 else math.nan,
        hours=sum(stage.duration_s for stage in result.stages) / 3600,
        fills=written,
    )


def _point(
    point: PointResult | None,
    work: Workload,
    known: true.Truth,
    result: RunResult,
    of_run: Sequence[Finding],
) -> Point:
    """What was published of a point, None where it was not measured, beside the truth."""
    estimate = point.estimate("iops") if point else None
    # Only of drives that were made with two levels the lower one is what there is to know.
    level = point.estimate("iops_lower_level") if point and known.levels else None
    interval = level or estimate
    alone = len(result.points) < 2  # then the run is valid where its point is
    codes = _against_it((*(of_run if alone else ()), *(point.findings if point else ())))
    nothing = math.nan
    return Point(
        label=work.label(),
        kind={0: "write", 100: "read"}.get(work.read_percent, "mix"),
        validated=point is not None
        and point.verdict == "VALIDATED"
        and (not alone or result.verdict == "VALIDATED"),
        bound=estimate.bound if estimate and estimate.bound is not None else nothing,
        mean=estimate.value if estimate else nothing,
        low=interval.ci_low if interval and interval.ci_low is not None else nothing,
        high=interval.ci_high if interval and interval.ci_high is not None else nothing,
        truth=known.mean,
        of_interval=known.mean if level else known.both,
        truth_error=known.error,
        quantile=known.low,
        refused=tuple(sorted(codes)),
        percentiles=tuple(_percentiles(point, known)) if point else (),
        # By name: versions that tell neither are judged, too.
        seen_wave_s=getattr(point and point.basis, "longest_wave_s", None),
        seen_drift=getattr(point and point.basis, "unseen_drift_per_fill", None),
        hot_after_s=known.hot_after_s,
        unbroken_s=max((r.measure_to_s for r in point.repeats), default=0.0) if point else 0.0,
    )


def _percentiles(point: PointResult, known: true.Truth) -> Iterator[Percentile]:
    for one in point.estimates:
        name = one.metric.removeprefix("lat_").removesuffix("_ns")
        if not one.metric.startswith("lat_p") or one.direction not in true.DIRECTIONS:
            continue
        fact = known.latency.get((one.direction, name))
        yield Percentile(
            one.direction, name, one.status, one.value, one.bound,
            fact.value_ns if fact else None, fact.low_ns if fact else None,
        )  # fmt: skip


def runs(
    seeds: Iterable[int],
    *,
    jobs: int,
    through: str = "core",
    records: Path | None = None,
    evidence: str = WHOLE,
    among: Sequence[str] = (),
    budget_s: float | None = None,
) -> list[Published]:
    """All drives; with `records`, those that the file has are not run again, and each is added.

    What failed is not added: it is run again.
    """
    known = stored(records) if records else {}
    wanted = list(seeds)
    todo = [seed for seed in wanted if seed not in known]
    one = partial(judged, through=through, evidence=evidence, among=among, budget_s=budget_s)
    with ProcessPoolExecutor(jobs) as pool:
        for published in map(one, todo) if jobs == 1 else pool.map(one, todo):
            known[published.seed] = published
            if records is not None and not published.error:
                with records.open("a") as file:
                    file.write(json.dumps(asdict(published)) + "\n")
    return [known[seed] for seed in wanted]


def stored(records: Path) -> dict[int, Published]:
    """The drives of a file of records, by seed; none if it is not there yet."""
    if not records.exists():
        return {}
    found = map(TypeAdapter(Published).validate_json, records.read_text().splitlines())
    return {published.seed: published for published in found}
