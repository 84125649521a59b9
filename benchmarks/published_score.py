"""Adds up what whole runs published: by family, with denominators and limits, and what is missed.

Points of one drive are not independent, so limits are of drives: one-sided, 95 %, by resampling
drives (Field and Welsh 2007), never below what independent points would give; where nothing is
wrong, the binomial limit of as many drives (Hanley and Lippman-Hand 1983).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from benchmarks import published_zoo as zoo
from benchmarks.judge_published import WRONG, Percentile, Point, Published
from ssdbench.stats.distributions import binomial_upper_limit
from ssdbench.stats.risk import Risk

ENOUGH = 10  # drives of a family, for a share of it to be told
RESAMPLED = 4000
KINDS = ("write", "read", "mix")
STATIONARY = (
    *zoo.EVERYDAY,
    *("plain-4k", "plain-layouts", "plain-mixes", "plain-rates"),
    *("low-spare", "region", "tail"),
)


@dataclass(frozen=True, slots=True)
class Count:
    """Events among items, by drive."""

    by_drive: tuple[tuple[int, int], ...]

    @property
    def events(self) -> int:
        return sum(events for events, _ in self.by_drive)

    @property
    def of(self) -> int:
        return sum(items for _, items in self.by_drive)

    @property
    def share(self) -> float:
        """NaN of nothing."""
        return self.events / self.of if self.of else float("nan")

    @property
    def limit(self) -> float:
        """One-sided 95 % limit of the share; 1 of nothing."""
        counted = np.array([one for one in self.by_drive if one[1]])
        if not len(counted):
            return 1.0
        if not self.events:
            return binomial_upper_limit(0, len(counted))
        rng = np.random.default_rng(0x5C0)
        drawn = counted[rng.integers(len(counted), size=(RESAMPLED, len(counted)))].sum(axis=1)
        resampled = float(np.quantile(drawn[:, 0] / drawn[:, 1], 0.95))
        return max(resampled, binomial_upper_limit(self.events, self.of))

    @property
    def percent(self) -> str:
        """The share for people."""
        return f"{100 * self.share:.0f} %" if self.of else "-"

    @property
    def fraction(self) -> str:
        return f"{self.events} of {self.of}"


T = TypeVar("T")


def counted(items: Sequence[Sequence[T]], event: Callable[[T], bool]) -> Count:
    """Count events among the items of each drive."""
    return Count(tuple((sum(map(event, own)), len(own)) for own in items))


class Score:
    """What was published of some drives: of one kind of points, and of targets of one metric."""

    def __init__(self, drives: Sequence[Published], kind: str = "", metric: str = "") -> None:
        points = [[p for p in d.points if kind in ("", p.kind)] for d in drives]
        valid = [[p for p in own if p.validated] for own in points]
        # The validated that a run could have seen all of.
        timely = [[p for p in own if not d.apart(p)] for d, own in zip(drives, valid, strict=True)]
        targets = [
            [t for t in d.targets if not t.apart and metric in ("", t.metric)] for d in drives
        ]
        told = [[t for t in own if t.outcome == "pass"] for own in targets]
        truly = [[t for t in own if t.truly == "pass"] for own in targets]
        # Of the warm-up's rule alone, where the warm-up's write is all that was measured.
        ruled = [d for d in drives if d.rule_steady and not d.later and len(d.points) == 1]
        known = [[d] for d in ruled if d.rule_bound == d.rule_bound]
        self.drives = drives
        self.validated = counted(points, lambda p: p.validated)
        self.wrong = counted(timely, lambda p: p.wrong)  # more than 5 % too high
        self.wrong_with_apart = counted(valid, lambda p: p.wrong)
        self.above_quantile = counted(timely, lambda p: p.bound > p.quantile)
        self.covered = counted(timely, lambda p: p.covered)
        self.passed_wrongly = counted(told, lambda t: t.truly == "fail")
        self.passed_rightly = counted(truly, lambda t: t.outcome == "pass")
        self.rule_wrong = counted(known, lambda d: d.rule_bound > (1 + WRONG) * d.points[0].truth)
        self.median_share = _median(p.share for own in timely for p in own)
        self.median_width = _median((p.high - p.low) / p.truth for own in timely for p in own)
        self.truth_error = max((p.truth_error for own in points for p in own), default=np.nan)
        self._percentiles = [
            [q for p in own for q in p.percentiles
             if q.truth_ns is not None and q.upper_ns is not None]
            for own in timely
        ]  # fmt: skip

    def percentiles(self, which: Callable[[Percentile], bool]) -> Count:
        """Too low, of those that are shown so and have a truth, of validated points."""
        return counted([list(filter(which, own)) for own in self._percentiles], lambda q: q.too_low)


def _median(values: Iterable[float]) -> float:
    known = [value for value in values if value == value]
    return float(np.median(known)) if known else float("nan")


HEAD = (
    f"{'':15}{'drives':>7}{'points':>7}{'VALIDATED':>10}{'wrong >+5 %':>13}{'limit':>7}"
    f"{'with apart':>12}{'> 5 % quantile':>15}{'covered':>8}{'bound/truth':>12}{'width':>7}"
    f"{'hours':>6}{'fills':>6}{'truth +-':>9}{'CPU s':>6}{'rule wrong':>12}"
)
HEAD_OF_LATENCY = (
    f"{'':15}{'published too low':>18}{'limit':>7}{'indicative':>11}{'told pass, fails':>18}"
    f"{'limit':>7}{'truly pass, told so':>21}"
)


def row(label: str, s: Score) -> str:
    """One line of the table of rates."""
    return (
        f"{label:15}{len(s.drives):>7}{s.validated.of:>7}{s.validated.percent:>10}"
        f"{s.wrong.fraction:>13}{100 * s.wrong.limit:>6.1f}%{s.wrong_with_apart.fraction:>12}"
        f"{s.above_quantile.percent:>15}{s.covered.percent:>8}"
        f"{s.median_share:>12.2f}{100 * s.median_width:>6.1f}%"
        f"{_median(d.hours for d in s.drives):>6.1f}{_median(d.fills for d in s.drives):>6.1f}"
        f"{100 * s.truth_error:>8.1f}%{_median(d.cpu_s for d in s.drives):>6.1f}"
        f"{s.rule_wrong.fraction:>12}"
    )


def row_of_latency(label: str, s: Score) -> str:
    """One line of the table of percentiles and targets."""
    shown = s.percentiles(lambda q: q.shown)
    hinted = s.percentiles(lambda q: q.status == "indicative")
    return (
        f"{label:15}{shown.fraction:>18}{100 * shown.limit:>6.1f}%{hinted.fraction:>11}"
        f"{s.passed_wrongly.fraction:>18}{100 * s.passed_wrongly.limit:>6.1f}%"
        f"{s.passed_rightly.fraction:>21}"
    )


def row_of_targets(label: str, s: Score) -> str:
    """The same of targets of one metric alone."""
    return (
        f"{label:15}{'':36}{s.passed_wrongly.fraction:>18}{100 * s.passed_wrongly.limit:>6.1f}%"
        f"{s.passed_rightly.fraction:>21}"
    )


def misses(found: Sequence[Published]) -> list[str]:
    """Which promises of what is published are not kept."""
    whole = Score(found)
    shown = whole.percentiles(lambda q: q.shown)
    failed = sum(bool(drive.error) for drive in found)
    texts = [
        (not failed, f"{failed} runs failed"),
        (
            whole.wrong.limit < 0.01,
            f"wrong in up to {100 * whole.wrong.limit:.2f} %, wanted 1 %",
        ),
        (whole.wrong.events <= 0.004 * whole.wrong.of, f"{whole.wrong.fraction} wrong"),
        (
            whole.above_quantile.events <= 0.05 * whole.above_quantile.of,
            f"{whole.above_quantile.fraction} above the 5 % quantile",
        ),
        (not shown.of or shown.limit <= 0.03,
         f"percentiles too low in up to {100 * shown.limit:.1f} %, wanted 3 %"),
        (not whole.passed_wrongly.events,
         f"{whole.passed_wrongly.fraction} targets told to pass fail"),
        (not whole.passed_rightly.of or whole.passed_rightly.share >= 0.7,
         f"{whole.passed_rightly.fraction} targets that pass are told so, wanted 70 %"),
    ]  # fmt: skip
    for kind in KINDS:
        covered = Score(found, kind).covered
        texts.append(
            (not covered.of or covered.share >= 0.9,
             f"{covered.fraction} intervals of a {kind} cover, wanted 90 %")
        )  # fmt: skip
    for family in dict.fromkeys(p.family for p in found):
        s = Score([p for p in found if p.family == family])
        least = LEAST.get(family, 0.0)
        near = 0.95 if family in zoo.PLAIN else 0.8
        covered_least = 0.85 if family in zoo.SINGLE else 0.0  # the others are held by kind
        texts += [
            (
                s.validated.events >= least * s.validated.of,
                f"{family}: {s.validated.fraction} VALIDATED, wanted {100 * least:.0f} %",
            ),
            (
                s.covered.events >= covered_least * s.covered.of,
                f"{family}: {s.covered.fraction} intervals cover, wanted 85 %",
            ),
            (
                not s.wrong.of or s.median_share >= near,
                f"{family}: median bound is {s.median_share:.2f} of the truth, wanted {near}",
            ),
        ]
    return [text for kept, text in texts if not kept]


LEAST = {
    **dict.fromkeys(zoo.EVERYDAY, 0.9),
    "bistable": 0.8,
    "plain-4k": 0.95,
    "plain-layouts": 0.9,
    "plain-mixes": 0.9,
}  # points VALIDATED


def risk_of(found: Sequence[Published], *, validated: bool = True) -> Risk | None:
    """How often the bound misled, over all families and for the worst one: for `stats.risk`.

    A family without a wrong bound, of which fewer than `ENOUGH` were judged, tells no share.
    """
    counted = [
        (drive, point) for drive in found for point in drive.points
        if (point.validated or not validated) and point.bound == point.bound
    ]  # fmt: skip
    timely = [(drive, point) for drive, point in counted if not drive.apart(point)]

    def wrong(own: Sequence[tuple[Published, Point]]) -> int:
        return sum(point.share > 1 + WRONG for _, point in own)

    families = [[one for one in timely if one[0].family == name] for name in zoo.FAMILIES]
    judged_families = [own for own in families if wrong(own) or len(own) >= ENOUGH]
    if not judged_families:
        return None

    def badness(own: Sequence[tuple[Published, Point]]) -> tuple[float, float]:
        return wrong(own) / len(own), binomial_upper_limit(wrong(own), len(own))

    worst = max(judged_families, key=badness)
    return Risk(
        wrong=wrong(timely),
        of=len(timely),
        family=worst[0][0].family,
        family_wrong=wrong(worst),
        family_of=len(worst),
        later=sum(d.later and p.share > 1 + WRONG for d, p in counted),
        later_of=sum(d.later or d.family in ("late-step", "late-heat") for d in found),
        validated=validated,
    )


def report(found: Sequence[Published]) -> list[str]:
    """Print the tables, and what is wrong; answers what is missed."""
    print(f"\npublished: {len(found)} whole runs, seeds from {found[0].seed}")
    families = [name for name in zoo.FAMILIES if any(p.family == name for p in found)]
    groups = [(name, Score([p for p in found if p.family == name])) for name in families]
    groups += [(f"all: {kind}s", Score(found, kind)) for kind in KINDS]
    groups.append(("all", Score(found)))
    print(HEAD)
    for label, s in groups:
        if s.validated.of:
            print(row(label, s))
    if any(drive.targets for drive in found):
        print(HEAD_OF_LATENCY)
        for label, s in groups:
            if label == "all" or not label.startswith("all"):
                print(row_of_latency(label, s))
        for metric in sorted({target.metric for drive in found for target in drive.targets}):
            print(row_of_targets(metric, Score(found, metric=metric)))
    single = all(len(drive.points) < 2 for drive in found)  # `stats.risk` is of drives
    for known in [risk_of(found), risk_of(found, validated=False)] if single else []:
        print(f"  risk: {known.sentence if known else 'too few drives'}")
    for drive in found:
        for text in _faults(drive):
            print(f"  {text}: {drive.family} seed {drive.seed}")
    _refusals(found)
    return misses(found)


def _faults(drive: Published) -> Iterator[str]:
    """What of a drive is wrong, a line each."""
    if drive.error:
        yield f"failed with {drive.error}"
    for point in drive.points:
        if point.wrong:
            when = drive.apart(point)
            apart = f" ({when})" if when else ""
            if point.hot_after_s is not None:
                apart += f", hot after {point.hot_after_s:.0f} s, seen {point.unbroken_s:.0f} s"
            yield f"wrong, {point.share:.3f} of the truth{apart}, {point.label}"
    for target in drive.targets:
        if (target.outcome, target.truly) == ("pass", "fail"):
            yield f"passed and fails{' (apart)' if target.apart else ''}, {target.metric}"


def _refusals(found: Sequence[Published]) -> None:
    against = [
        (code, drive.family)
        for drive in found
        for point in drive.points
        if not point.validated
        for code in point.refused
    ]
    codes = [code for code, _ in against]
    for code in sorted(set(codes), key=codes.count, reverse=True):
        families = sorted({family for one, family in against if one == code})
        print(f"  refused by {code}: {codes.count(code)} ({', '.join(families)})")


def compare(found: Sequence[Published], before: Sequence[Published]) -> list[str]:
    """Print the same drives by another version beside these; answers what became too dear."""
    old = {(drive.seed, drive.family): drive for drive in before}
    both = [(old[d.seed, d.family], d) for d in found if (d.seed, d.family) in old]
    print(f"\n{len(both)} drives of both, before and now")
    print(
        f"{'':15}{'drives':>7}{'VALIDATED':>16}{'bound/truth':>15}{'width':>16}{'x':>6}"
        f"{'percentiles shown':>19}{'hours x':>9}{'fills x':>9}"
    )
    missed = []
    for family in [*(n for n in zoo.FAMILIES if any(d.family == n for _, d in both)), "all"]:
        pairs = [(a, b) for a, b in both if family in (b.family, "all")]
        a, b = Score([one for one, _ in pairs]), Score([one for _, one in pairs])
        wider = b.median_width / a.median_width
        shown = [s.percentiles(lambda q: q.shown).of for s in (a, b)]
        hours = sum(new.hours for _, new in pairs) / sum(one.hours for one, _ in pairs)
        fills = sum(new.fills for _, new in pairs) / sum(one.fills for one, _ in pairs)
        print(
            f"{family:15}{len(pairs):>7}{a.validated.percent:>8}{b.validated.percent:>8}"
            f"{a.median_share:>8.3f}{b.median_share:>7.3f}"
            f"{100 * a.median_width:>8.2f}%{100 * b.median_width:>6.2f}%{wider:>6.2f}"
            f"{f'{shown[0]} {shown[1]}':>19}{hours:>9.2f}{fills:>9.2f}"
        )
        if family in STATIONARY and b.validated.share < a.validated.share - 0.05:
            missed.append(f"{family}: VALIDATED fell by more than 5 points")
        if family == "all":
            missed += [
                text
                for kept, text in (
                    (wider <= 1.25, f"intervals are {wider:.2f} times as wide, wanted 1.25"),
                    (b.median_share >= 0.97, f"median bound is {b.median_share:.3f} of the truth"),
                    (shown[1] >= 0.8 * shown[0], f"{shown[1]} percentiles shown of {shown[0]}"),
                    (hours <= 1.25, f"{hours:.2f} times the hours, wanted 1.25"),
                    (fills <= 1.25, f"{fills:.2f} times the fills, wanted 1.25"),
                )
                if not kept
            ]
    return missed
