"""Count how often each steady-state rule is wrong on the same drives, and how long it takes.

    nox -s judge-the-judges                                  1,320 simulated and 1,320 replayed
    nox -s judge-the-judges -- --drives 110 --check          a quick look; fails when pss misses
    nox -s judge-the-judges -- --published 1200              whole runs: what a user is told
    nox -s judge-the-judges -- --published 320 --families profiles     reads, mixes, targets, too
    nox -s judge-the-judges -- --real DIRECTORY              series of real drives

Rules are tuned on seeds below 100,000 only; what is printed comes from seeds above ten million.
The number that each rule publishes is compared with the truth: the bound for the pss family, the
mean of the window for the others, which have no bound. A published number counts as wrong when it
is more than 5 % above what the drive sustains (for a bistable drive its lower level, for a periodic
drive the mean of a whole cycle). A step down after the verdict is no error of the rule, and is
counted apart ("unseen").
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import judge_published, published_score, real_series, synthetic, zoo
from benchmarks import published_zoo as zoo_of_runs
from ssdbench.errors import UsageError
from ssdbench.stats.distributions import binomial_upper_limit
from ssdbench.stats.risk import KINDS, WHOLE
from ssdbench.stats.series import Series
from ssdbench.stats.steady.rules import RULES, Snia, fio_slope, judge
from ssdbench.stats.steady.watch import WindowRule
from ssdbench.units import NS_PER_S, parse_duration_ns

HELD_OUT = 10_000_000
WRONG = 0.05

CONTENDERS: dict[str, WindowRule] = {
    **RULES,
    "snia after 2 fills": Snia("snia after 2 fills", min_fills=2.0),
    "fio-iops-slope 300 s": fio_slope(limit_percent=0.033, window_s=300),
    "fio-iops-slope 300 s after 2 fills": fio_slope(
        limit_percent=0.033, window_s=300, min_fills=2.0
    ),
}
CORPORA: dict[str, Callable[[int], synthetic.Sample]] = {
    "simulated": zoo.sample,
    "replayed": synthetic.sample,
}


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one rule's answer about one drive."""

    rule: str
    seed: int
    family: str
    kind: str
    accepted: bool
    shape: str
    published: float  # over the truth; NaN for a drifting drive
    mode: float  # lower mode over its truth; NaN where none was reported
    fills: float
    hours: float
    unseen: bool

    @property
    def wrong(self) -> bool:
        """Whether the published number is too high, other than by a step still to come."""
        return self.accepted and not self.unseen and self.published > 1 + WRONG


def cases(corpus: str, seed: int, rules: Sequence[str]) -> list[Case]:
    """Return the answers of all rules about one drive."""
    sample = CORPORA[corpus](seed)
    return [case_of(CONTENDERS[name], seed, sample, name=name) for name in rules]


def case_of(rule: WindowRule, seed: int, sample: synthetic.Sample, *, name: str = "") -> Case:
    """Return one rule's answer within the budget of fills."""
    verdict = judge(_within_budget(sample), rule)
    return Case(
        rule=name or rule.name,
        seed=seed,
        family=sample.family,
        kind=sample.kind,
        accepted=verdict.steady,
        shape=verdict.shape,
        published=verdict.lower_bound / sample.truth,
        mode=(verdict.lower_mode or np.nan) / sample.lower,
        fills=verdict.volume_fills,
        hours=verdict.checked_s / 3600,
        unseen=sample.kind != "drifting" and verdict.checked_s <= sample.unseen_until_s,
    )


def _within_budget(sample: synthetic.Sample) -> Series:
    rate = np.asarray(sample.rate, dtype=np.float64)
    fills = np.cumsum(rate) / sample.bytes_per_fill
    seen = int(np.searchsorted(fills, synthetic.BUDGET_FILLS))
    return Series(np.arange(1.0, seen + 1), rate[:seen], fills[:seen])


def run(corpus: str, seeds: Iterable[int], rules: Sequence[str], jobs: int) -> list[Case]:
    """Ask all rules about all drives."""
    tasks = list(seeds)
    if jobs == 1:
        return [case for seed in tasks for case in cases(corpus, seed, rules)]
    with ProcessPoolExecutor(jobs) as pool:
        parts = pool.map(cases, [corpus] * len(tasks), tasks, [rules] * len(tasks), chunksize=8)
        return [case for part in parts for case in part]


class Score:
    """Count how often one rule was right over some drives, and how long it took."""

    def __init__(self, found: Sequence[Case]) -> None:
        drifting = [c for c in found if c.kind == "drifting"]
        others = [c for c in found if c.kind != "drifting"]
        steady = [c for c in others if c.kind == "steady"]
        accepted = [c for c in others if c.accepted]
        judged = [c for c in accepted if not c.unseen]
        errors = np.array([abs(c.published - 1) for c in judged] or [np.nan])
        self.steady_accepted = sum(c.accepted for c in steady) / max(len(steady), 1)
        self.mean_error = float(errors.mean())  # of what was accepted, relative
        self.p95_error = float(np.quantile(errors, 0.95))
        self.wrong = sum(c.wrong for c in accepted)
        self.accepted = len(judged)
        # One-sided 95 % limit of the share of wrong ones among the accepted.
        self.wrong_limit = binomial_upper_limit(self.wrong, len(judged)) if judged else 1.0
        self.unseen = len(accepted) - len(judged)
        self.false_accepts = sum(c.accepted for c in drifting)
        self.drifting = len(drifting)
        self.median_fills = float(np.median([c.fills for c in accepted] or [np.nan]))
        self.median_hours = float(np.median([c.hours for c in accepted] or [np.nan]))


HEAD = (
    f"{'':36}{'steady':>8}{'error %':>9}{'p95':>7}{'wrong >+5 %':>15}{'limit':>8}"
    f"{'unseen':>8}{'drift':>12}{'fills':>7}{'hours':>7}"
)


def row(label: str, s: Score) -> str:
    """Return one line of the table."""
    steady = f"{100 * s.steady_accepted:.0f} %"
    wrong = f"{s.wrong} of {s.accepted}"
    drift = f"{s.false_accepts} of {s.drifting}"
    return (
        f"{label:36}{steady:>8}{100 * s.mean_error:>9.1f}{100 * s.p95_error:>7.1f}{wrong:>15}"
        f"{100 * s.wrong_limit:>7.2f}%{s.unseen:>8}{drift:>12}"
        f"{s.median_fills:>7.2f}{s.median_hours:>7.2f}"
    )


def misses(s: Score) -> list[str]:
    """Return the promises of `pss` that a score does not keep."""
    return [
        text
        for kept, text in (
            (s.wrong_limit <= 0.01, f"wrong in up to {100 * s.wrong_limit:.2f} %, promised 1 %"),
            (s.false_accepts == 0, f"{s.false_accepts} drifting drives accepted"),
            (s.steady_accepted >= 0.95, f"{100 * s.steady_accepted:.1f} % of steady accepted"),
            (s.median_fills <= 2.5, f"median of {s.median_fills:.2f} fills, promised 2.5"),
        )
        if not kept
    ]


def report(corpus: str, found: Sequence[Case], rules: Sequence[str], detail: str) -> list[str]:
    """Print both tables; return the promises that the rule `detail` does not keep."""
    print(f"\n{corpus}: {len({c.seed for c in found})} drives, seeds from {found[0].seed}")
    print(HEAD)
    for name in rules:
        print(row(name, Score([c for c in found if c.rule == name])))
    own = [c for c in found if c.rule == detail]
    print(f"\n{detail}, by family")
    print(HEAD)
    for family in dict.fromkeys(c.family for c in own):
        part = [c for c in own if c.family == family]
        shapes = {k: sum(c.accepted and c.shape == k for c in part) for k in _SHAPES}
        moving = [c for c in part if c.kind in ("bistable", "periodic")]
        modes = [abs(c.mode - 1) for c in moving if not np.isnan(c.mode)]
        extra = f"  lower mode off by {100 * np.median(modes):.1f} %" if modes else ""
        named = ", ".join(f"{count} {shape}" for shape, count in shapes.items() if count)
        print(row(family, Score(part)) + f"  {named}{extra}")
    for case in own:
        if case.wrong or (case.kind == "drifting" and case.accepted):
            print(f"  wrong: {case.family} seed {case.seed}: {case.published:.3f} of the truth")
    return misses(Score(own))


def _at_least(least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers of at least `least`, for argparse."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}")
        return int(text)

    return number


def _published(options: argparse.Namespace) -> int:
    """Judge whole runs; return 1 with `--check` when a promise is not kept."""
    seeds = range(options.first_seed, options.first_seed + options.published)
    among = zoo_of_runs.SETS.get(options.families) or tuple(options.families.split(","))
    found = judge_published.runs(
        seeds,
        jobs=options.jobs,
        through=options.through,
        records=options.records,
        evidence=options.evidence,
        among=among,
        budget_s=parse_duration_ns(options.budget) / NS_PER_S if options.budget else None,
    )
    missed = published_score.report(found)
    if options.against:
        before = judge_published.stored(options.against)
        missed += published_score.compare(found, list(before.values()))
    for text in missed:
        print(f"MISSED published: {text}")
    return 1 if missed and options.check else 0


_SHAPES = ("flat", "bistable", "periodic")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, run, print; return 1 with `--check` when a promise is not kept."""
    parser = argparse.ArgumentParser(description="steady-state rules over simulated drives")
    parser.add_argument("--drives", type=_at_least(1), default=1320, help="of each corpus")
    parser.add_argument("--first-seed", type=_at_least(0), default=HELD_OUT)
    parser.add_argument("--corpus", choices=[*CORPORA, "both"], default="both")
    parser.add_argument("--rules", default=",".join(CONTENDERS), help="separated by commas")
    parser.add_argument("--detail", help="the rule shown by family; pss, or else the first")
    parser.add_argument("--jobs", type=_at_least(1), default=os.cpu_count() or 1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--published", type=_at_least(1), help="judge so many whole runs instead")
    parser.add_argument("--with", dest="through", choices=["core", "fio"], default="core")
    parser.add_argument("--evidence", choices=KINDS, default=WHOLE, help="of each whole run")
    parser.add_argument("--budget", help="of each whole run, such as 4h; cut and planned again")
    parser.add_argument(
        "--families",
        default="single",
        help=f"of whole runs: {', '.join(zoo_of_runs.SETS)}, or names separated by commas",
    )
    parser.add_argument("--records", type=Path, help="keep each whole run's scores in this file")
    parser.add_argument("--against", type=Path, help="compare with records of another version")
    parser.add_argument("--real", type=Path, help="judge series of real drives")
    options = parser.parse_args(argv)
    if options.published:
        unknown_families = {*options.families.split(",")} - {
            *zoo_of_runs.SETS,
            *zoo_of_runs.FAMILIES,
        }
        if unknown_families:
            parser.error(f"there is no family {sorted(unknown_families)[0]!r} of whole runs")
        return _published(options)
    rules = [name.strip() for name in options.rules.split(",")]
    if unknown := [name for name in rules if name not in CONTENDERS]:
        parser.error(f"there is no rule {unknown[0]!r}; there are {', '.join(CONTENDERS)}")
    if options.real:
        try:
            real_series.report(options.real, {name: CONTENDERS[name] for name in rules})
        except UsageError as error:
            print(f"judge-the-judges: {error.message}", file=sys.stderr)
            return 2
        return 0
    detail = options.detail or ("pss" if "pss" in rules else rules[0])
    if detail not in rules:
        parser.error(f"--detail {detail!r} is none of the rules that are judged")
    missed: list[str] = []
    for corpus in CORPORA if options.corpus == "both" else [options.corpus]:
        seeds = range(options.first_seed, options.first_seed + options.drives)
        found = run(corpus, seeds, rules, options.jobs)
        missed += [f"{corpus}: {m}" for m in report(corpus, found, rules, detail)]
    for text in missed:
        print(f"MISSED {text}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
