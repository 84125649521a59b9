"""What a user gets: the published number and status of whole runs, against the truth.

    nox -s judge-the-judges -- --published 1200            whole runs on drives from a seed
    nox -s judge-the-judges -- --published 12 --with fio   the same through the command line

Each run is the product's own: stages, engine, stats and verdict of `ssdbench run`, with the core's
own loop in fio's place (`benchmarks.core_generator`), which takes seconds where fio takes minutes.
`--with fio` starts `ssdbench run` itself, to hold the one against the other. A number counts as
wrong when it was VALIDATED and its bound is more than 5 % above the long-run mean (of two levels,
the lower). A planted event that came after the last request of the run is told by the drive's own
clock and counters, never by the run; such drives are counted apart, and with the others.
"""

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import published_zoo as zoo
from benchmarks.core_generator import on_core
from benchmarks.zoo import CAPACITY_BYTES
from ssdbench.engine.events import Event
from ssdbench.engine.hints import rate_hint
from ssdbench.engine.runner import Order, Runner, World
from ssdbench.engine.simulatedsession import STATE, SimulatedSession
from ssdbench.engine.store import RunStore, load
from ssdbench.host.command import run
from ssdbench.model.finding import Severity
from ssdbench.model.loading import load_profile
from ssdbench.model.result import RunResult
from ssdbench.sim.drive import SimDrive
from ssdbench.stats.distributions import binomial_upper_limit
from ssdbench.stats.risk import WHOLE, Risk
from ssdbench.suite.assemble import stages
from ssdbench.target.inspect import inspect

WRONG = 0.05
ENOUGH = 10  # drives of a family, for a share of it to be told


@dataclass(frozen=True, slots=True)
class Published:
    """One run against the truth; rates in I/Os per second of the drive's clock."""

    seed: int
    family: str
    validated: bool
    bound: float
    mean: float
    low: float  # 95 % interval of the mean, or of the lower level where one is published
    high: float
    truth: float  # of two levels, the lower
    of_interval: float  # what the interval is about: the truth, or the mean over two levels
    truth_error: float
    quantile: float  # the true 5 % quantile of means over a horizon
    later: bool  # the planted event came after the run
    rule_steady: bool
    rule_bound: float  # of the warm-up alone; NaN where it was another workload
    hours: float
    fills: float
    refused: tuple[str, ...]  # codes of the findings that invalidate

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


def judged(
    seed: int, family: str | None = None, *, through: str = "core", evidence: str = WHOLE
) -> Published:
    """Run one drive, and hold what is published against its truth."""
    made = zoo.creature(seed, family)
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None  # runs sync many small files
    with tempfile.TemporaryDirectory(prefix="judge-", dir=base) as name:
        directory = Path(name)
        target, profile = zoo.write(made, directory, evidence)
        whole_run = by_core if through == "core" else by_command
        result = whole_run(target, profile, directory / "run", seed=seed)
        with SimDrive.open(directory / "run" / STATE) as drive:
            written = drive.counters()["host_write_bytes"] / CAPACITY_BYTES
            ended_s = drive.core.now_ns / 1e9
    return _against(made, seed, result, zoo.truth(made, seed), written, ended_s)


def by_core(
    target: str,
    profile_text: str,
    run_path: Path,
    *,
    seed: int,
    emit: Callable[[Event], None] = lambda event: None,
    wall: Callable[[], float] = time.monotonic,
) -> RunResult:
    """What `ssdbench run` does with a simulated drive, with the core's loop in fio's place."""
    profile, info = load_profile(profile_text, "the judge's profile"), inspect(target)
    session = SimulatedSession(info, run_path, on_core)
    order = Order(
        run_id=run_path.name,
        title=profile.title or "",
        profile_text=profile_text,
        seed=seed,
        plan=profile.plan,
        hint=rate_hint(info),
    )
    world = World(emit=emit, wall=wall)
    try:
        return Runner(order, stages(profile, info), session, RunStore(run_path), world).run()
    finally:
        session.close()


def by_command(target: str, profile_text: str, run_path: Path, *, seed: int) -> RunResult:
    """`ssdbench run` itself, with fio."""
    profile = run_path.parent / "profile.yaml"
    profile.write_text(profile_text)
    command = [sys.executable, "-m", "ssdbench", "run", str(profile), "--target", target]
    run([*command, "--seed", str(seed), "--output", str(run_path)], ok=range(10))
    return load(run_path / "result.json", RunResult)


def _against(
    made: zoo.Creature,
    seed: int,
    result: RunResult,
    truth: zoo.Truth,
    written: float,
    ended_s: float,
) -> Published:
    points = result.points
    estimate = points[0].estimate("iops") if points else None
    # Only of drives that were made with two levels the lower one is what there is to know.
    level = points[0].estimate("iops_lower_level") if points and truth.levels else None
    interval = level or estimate
    steady = result.steady
    later = (made.step_fills is not None and made.step_fills >= written) or (
        truth.onset_s is not None and math.isfinite(truth.onset_s) and truth.onset_s >= ended_s
    )
    findings = (*result.findings, *(f for s in result.stages for f in s.findings))
    own = points[0].findings if points else ()
    refused = {f.code.value for f in (*findings, *own) if f.severity is Severity.INVALIDATES}
    nothing = math.nan
    return Published(
        seed=seed,
        family=made.family,
        validated=bool(points) and "VALIDATED" == points[0].verdict == result.verdict,
        bound=estimate.bound if estimate and estimate.bound is not None else nothing,
        mean=estimate.value if estimate else nothing,
        low=interval.ci_low if interval and interval.ci_low is not None else nothing,
        high=interval.ci_high if interval and interval.ci_high is not None else nothing,
        truth=truth.mean,
        of_interval=truth.mean if level else truth.both,
        truth_error=truth.error,
        quantile=truth.low,
        later=later,
        rule_steady=steady is not None and steady.steady,
        rule_bound=steady.lower_bound / 4096 if steady and made.span_percent == 100 else nothing,
        hours=sum(stage.duration_s for stage in result.stages) / 3600,
        fills=written,
        refused=tuple(sorted(refused)),
    )


@dataclass(frozen=True, slots=True)
class Score:
    """What was published of some drives."""

    drives: int
    validated: int
    wrong: int  # of the validated whose events came in time
    in_time: int
    wrong_with_later: int
    above_quantile: int  # of the validated in time
    covered: int  # likewise
    median_share: float  # bound over truth, of the validated in time
    hours: float  # median over all drives
    truth_error: float  # largest, relative
    rule_wrong: int  # of the rule alone, its events in time of the run
    rule_steady: int

    @property
    def wrong_limit(self) -> float:
        """One-sided 95 % limit of the share that is wrong."""
        return binomial_upper_limit(self.wrong, self.in_time) if self.in_time else 1.0


def score(found: Sequence[Published]) -> Score:
    """Add up."""
    valid = [p for p in found if p.validated]
    timely = [p for p in valid if not p.later]
    ruled = [p for p in found if p.rule_steady and not p.later and not math.isnan(p.rule_bound)]
    return Score(
        drives=len(found),
        validated=len(valid),
        wrong=sum(p.wrong for p in timely),
        in_time=len(timely),
        wrong_with_later=sum(p.wrong for p in valid),
        above_quantile=sum(p.bound > p.quantile for p in timely),
        covered=sum(p.covered for p in timely),
        median_share=float(np.median([p.share for p in timely] or [math.nan])),
        hours=float(np.median([p.hours for p in found] or [math.nan])),
        truth_error=max((p.truth_error for p in found), default=math.nan),
        rule_wrong=sum(p.rule_bound > (1 + WRONG) * p.truth for p in ruled),
        rule_steady=len(ruled),
    )


HEAD = (
    f"{'':16}{'drives':>7}{'VALIDATED':>11}{'wrong >+5 %':>14}{'limit':>8}{'with later':>12}"
    f"{'> 5 % quantile':>16}{'covered':>9}{'bound/truth':>12}{'hours':>7}{'truth +-':>9}"
    f"{'rule wrong':>13}"
)


def row(label: str, s: Score) -> str:
    """One line of the table."""

    def part(count: int, of: int) -> str:
        return f"{100 * count / of:.0f} %" if of else "-"

    return (
        f"{label:16}{s.drives:>7}{part(s.validated, s.drives):>11}"
        f"{f'{s.wrong} of {s.in_time}':>14}{100 * s.wrong_limit:>7.1f}%"
        f"{f'{s.wrong_with_later} of {s.validated}':>12}"
        f"{part(s.above_quantile, s.in_time):>16}{part(s.covered, s.in_time):>9}"
        f"{s.median_share:>12.2f}{s.hours:>7.1f}{100 * s.truth_error:>8.1f}%"
        f"{f'{s.rule_wrong} of {s.rule_steady}':>13}"
    )


def misses(found: Sequence[Published]) -> list[str]:
    """Which promises of the published number are not kept."""
    whole = score(found)
    texts = [
        (whole.wrong_limit < 0.01, f"wrong in up to {100 * whole.wrong_limit:.2f} %, wanted 1 %"),
        (whole.wrong <= 0.004 * whole.in_time, f"{whole.wrong} of {whole.in_time} wrong"),
        (
            whole.above_quantile <= 0.05 * whole.in_time,
            f"{whole.above_quantile} of {whole.in_time} above the 5 % quantile",
        ),
        (
            whole.covered >= 0.9 * whole.in_time,
            f"{whole.covered} of {whole.in_time} intervals cover",
        ),
    ]
    for family in dict.fromkeys(p.family for p in found):
        s = score([p for p in found if p.family == family])
        least = 0.9 if family in zoo.EVERYDAY else 0.8 if family == "bistable" else 0.0
        near = 0.95 if family in zoo.PLAIN else 0.8
        texts += [
            (
                s.validated >= least * s.drives,
                f"{family}: {s.validated} of {s.drives} VALIDATED, wanted {100 * least:.0f} %",
            ),
            (
                s.covered >= 0.85 * s.in_time,
                f"{family}: {s.covered} of {s.in_time} intervals cover, wanted 85 %",
            ),
            (
                not s.in_time or s.median_share >= near,
                f"{family}: median bound is {s.median_share:.2f} of the truth, wanted {near}",
            ),
        ]
    return [text for kept, text in texts if not kept]


def runs(
    seeds: Iterable[int],
    *,
    jobs: int,
    through: str,
    records: Path | None,
    evidence: str = WHOLE,
) -> list[Published]:
    """All drives; with `records`, those that the file has are not run again, and each is added."""
    known = _stored(records)
    wanted = list(seeds)
    todo = [seed for seed in wanted if seed not in known]
    one = partial(judged, through=through, evidence=evidence)
    with ProcessPoolExecutor(jobs) as pool:
        for published in map(one, todo) if jobs == 1 else pool.map(one, todo):
            known[published.seed] = published
            if records is not None:
                with records.open("a") as file:
                    file.write(json.dumps(asdict(published)) + "\n")
    return [known[seed] for seed in wanted]


def _stored(records: Path | None) -> dict[int, Published]:
    if records is None or not records.exists():
        return {}
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    found = [Published(**{**row, "refused": tuple(row["refused"])}) for row in rows]
    return {published.seed: published for published in found}


def risk_of(found: Sequence[Published], *, validated: bool = True) -> Risk | None:
    """How often the bound misled, over all families and for the worst one: for `stats.risk`.

    A family without a wrong bound, of which fewer than `ENOUGH` were judged, tells no share.
    """
    counted = [p for p in found if (p.validated or not validated) and not math.isnan(p.bound)]
    timely = [p for p in counted if not p.later]

    def wrong(own: Sequence[Published]) -> int:
        return sum(p.share > 1 + WRONG for p in own)

    families = [[p for p in timely if p.family == name] for name in zoo.FAMILIES]
    judged_families = [own for own in families if wrong(own) or len(own) >= ENOUGH]
    if not judged_families:
        return None

    def badness(own: Sequence[Published]) -> tuple[float, float]:
        return wrong(own) / len(own), binomial_upper_limit(wrong(own), len(own))

    worst = max(judged_families, key=badness)
    return Risk(
        wrong=wrong(timely),
        of=len(timely),
        family=worst[0].family,
        family_wrong=wrong(worst),
        family_of=len(worst),
        later=sum(p.later and p.share > 1 + WRONG for p in counted),
        later_of=sum(p.family in ("late-step", "late-heat") for p in found),
        validated=validated,
    )


def report(found: Sequence[Published]) -> list[str]:
    """Print the table, and what is wrong; answers what is missed."""
    print(f"\npublished: {len(found)} whole runs, seeds from {found[0].seed}")
    print(HEAD)
    for family in (name for name in zoo.FAMILIES if any(p.family == name for p in found)):
        print(row(family, score([p for p in found if p.family == family])))
    print(row("all", score(found)))
    for known in filter(None, (risk_of(found), risk_of(found, validated=False))):
        print(f"  risk: {known.sentence}")
    for p in found:
        if p.wrong:
            when = ", its event after the run" if p.later else ""
            print(f"  wrong: {p.family} seed {p.seed}: {p.share:.3f} of the truth{when}")
    refusals = [code for p in found if not p.validated for code in p.refused]
    for code in sorted(set(refusals), key=refusals.count, reverse=True):
        families = sorted({p.family for p in found if not p.validated and code in p.refused})
        print(f"  refused by {code}: {refusals.count(code)} ({', '.join(families)})")
    return misses(found)
