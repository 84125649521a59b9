"""Compares stored runs: which points they share, and how those differ.

Points are the same when their workloads are, with the share of the drive in place of the range in
bytes. All p-values of one comparison are corrected together (Holm). Repeats within a run speak of
one drive in one state, not of how drives of a model differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ssdbench.model.point import PointResult
from ssdbench.model.result import RunResult
from ssdbench.stats.compare import Comparison, compare, holm
from ssdbench.units import counted

LEAST_REPEATS = 2
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """One point of two runs: `second` against `first`."""

    label: str
    first: int  # place of the run in the order given
    second: int
    points: tuple[PointResult, PointResult]
    found: Comparison
    p_corrected: float  # of the difference (`Comparison.p`), by Holm over all pairs

    @property
    def shift_percent(self) -> float | None:
        """Return the Hodges-Lehmann shift in percent of the first run's mean."""
        estimate = self.points[0].estimate("iops")
        return 100 * self.found.shift / estimate.value if estimate and estimate.value else None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Say what a planner would use of the first run and of the second, in IOPS."""
        first, second = (None if p.unsteady else p.estimate("iops") for p in self.points)
        return first.bound if first else None, second.bound if second else None

    @property
    def bound_percent(self) -> float | None:
        """Say how the bound of the second differs from the first's, in percent of it."""
        first, second = self.bounds
        return 100 * (second / first - 1) if first and second is not None else None

    @property
    def validated(self) -> bool:
        """Tell whether both sides are."""
        return all(point.verdict == "VALIDATED" for point in self.points)


@dataclass(frozen=True, slots=True)
class Compared:
    """Everything that some runs have in common, and what they have not."""

    pairs: tuple[Pair, ...]
    left_out: tuple[str, ...]  # sentences: what was not compared, and why


def compared(results: Sequence[RunResult]) -> Compared:
    """Return all pairs of runs, point by point."""
    points = [points_of(result) for result in results]
    raw = [
        (key, a, b, compare(_rates(points[a][key]), _rates(points[b][key])))
        for a, b in combinations(range(len(results)), 2)
        for key in points[a]
        if key in points[b] and _enough(points[a][key], points[b][key])
    ]
    corrected = holm([found.p for *_, found in raw]) if raw else ()
    pairs = tuple(
        Pair(points[a][key].point.label(), a, b, (points[a][key], points[b][key]), found, p)
        for (key, a, b, found), p in zip(raw, corrected, strict=True)
    )
    return Compared(pairs, tuple(_left_out(results, points)))


def points_of(result: RunResult) -> dict[Key, PointResult]:
    """Return the points of a run by what they have in common with those of other drives.

    Of a point that was measured again in the same run, the first measurement.
    """
    points: dict[Key, PointResult] = {}
    for stage in result.stages:
        for point in stage.points:
            points.setdefault(_key(point, result.target.size_bytes), point)
    return points


def _key(point: PointResult, size_bytes: int) -> Key:
    workload, span = point.point.workload, point.point.span_percent
    share = span if span is not None else 100 * workload.range.length_bytes / size_bytes
    same = workload.model_dump(exclude={"range"})
    return (*sorted((name, str(value)) for name, value in same.items()), round(share, 1))


def _rates(point: PointResult) -> list[float]:
    """Return the rates in the order of measurement, as neighbours resemble each other."""
    return [repeat.iops for repeat in sorted(point.repeats, key=lambda r: r.sequence)]


def _enough(*points: PointResult) -> bool:
    return all(len(point.repeats) >= LEAST_REPEATS for point in points)


def _left_out(
    results: Sequence[RunResult], points: Sequence[Mapping[Key, PointResult]]
) -> list[str]:
    sentences = []
    for result, own, number in zip(results, points, range(len(points)), strict=True):
        others = [other for place, other in enumerate(points) if place != number]
        alone = [p for key, p in own.items() if not any(key in other for other in others)]
        if alone:
            names = "; ".join(point.point.label() for point in alone[:3])
            more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
            sentences.append(f"only {result.run_id} measured {names}{more}")
        again = sum(len(stage.points) for stage in result.stages) - len(own)
        if again:
            sentences.append(
                f"{counted(again, 'point')} of {result.run_id} {'was' if again == 1 else 'were'} "
                "measured before in the same run; the first measurement counts"
            )
        few = [p for p in own.values() if len(p.repeats) < LEAST_REPEATS]
        if few:
            have = "has" if len(few) == 1 else "have"
            named = counted(len(few), "point")
            sentences.append(f"{named} of {result.run_id} {have} fewer than two repeats")
    profiles = {result.profile_text for result in results}
    if len(profiles) > 1:
        sentences.append(
            "the runs were made with different profiles; only equal points are compared"
        )
    return sentences
