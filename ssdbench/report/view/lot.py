"""Write the sentences and table rows about many drives of one model."""

from collections.abc import Iterator, Sequence

from ssdbench.model.result import RunResult
from ssdbench.report.view import words
from ssdbench.stats.compare import ALPHA
from ssdbench.stats.lots.population import (
    DriveRate,
    Effect,
    LotPoint,
    Promise,
    Questions,
    SetPromise,
    WantedRate,
)
from ssdbench.stats.lots.tolerance import CONFIDENCE
from ssdbench.units import counted, format_bound, format_change, format_ns, listed

INFORMATION = "normal (information only)"
ASSUMED = (
    "These results hold only if the measured drives were chosen at random from the lot. The "
    "results for the model hold only if the drives are a random sample of the model; a single "
    "delivery is not. The rate of a drive is the lower end of the 95 % interval of its mean. A "
    "drive that is not VALIDATED has no rate and counts as below every rate."
)


def percent(share: float) -> str:
    """Format a share or a confidence, rounded down, such as `95.1 %`."""
    return f"{int(1000 * share + 1e-6) / 10:g} %"


def names(results: Sequence[RunResult]) -> list[str]:
    """Return short names of the drives: number and run."""
    return [f"{place}: {result.run_id}" for place, result in enumerate(results, start=1)]


def promised(found: Promise | None) -> str:
    """Format a promised rate.

    If its confidence is too low, the confidence is added. If there is no rate, the number of drives
    that a promise needs is shown.
    """
    if found is None:
        return words.NONE
    if found.rate_iops is None:
        return f"none ({found.needed:,} drives needed)"
    rate = words.bound(found.rate_iops)
    return rate if found.sure else f"{rate} with {percent(found.confidence)}"


def point_titles(asked: Questions) -> tuple[str, ...]:
    """Return the titles of the columns that `point_row` fills."""
    lot = (f"95 % of {asked.lot:,} reach",) if asked.lot else ()
    return (
        "point", "drives", "failed", "lowest", "median", "highest", "spread", *lot,
        "95 % of model reach", INFORMATION,
    )  # fmt: skip


def point_row(point: LotPoint, asked: Questions) -> tuple[str, ...]:
    """Return the row of one point over all drives."""
    means = [rate.mean for rate in point.rates if not rate.failing and rate.mean is not None]
    return (
        words.times(point.label),
        str(len(point.rates)),
        str(point.failing),
        words.count(min(means, default=None)),
        words.count(point.median_iops),
        words.count(max(means, default=None)),
        words.NONE if point.spread is None else f"{100 * point.spread:.2g} %",
        *([promised(point.of_lot)] if asked.lot else []),
        promised(point.of_model),
        words.bound(point.normal_iops),
    )


def confidence_sentence(found: Promise, of: str) -> str:
    """State a promised rate with its confidence, in a sentence."""
    reach = f"at least {percent(1 - found.share)} of {of} reach"
    if found.rate_iops is None:
        return (
            f"no rate can be promised for {of}: too many drives failed; with this many failures, "
            f"{counted(found.needed, 'drive')} must be measured"
        )
    rate = f"{format_bound(found.rate_iops)} IOPS"
    if found.sure:
        return f"{reach} {rate}, with {percent(found.confidence)} confidence"
    return (
        f"{reach} {rate}, the slowest measured, with only {percent(found.confidence)} confidence; "
        f"{percent(CONFIDENCE)} confidence needs {counted(found.needed, 'drive')}"
    )


def sentences(point: LotPoint, results: Sequence[RunResult], asked: Questions) -> Iterator[str]:
    """Yield the sentences about one point."""
    yield from promises(point, asked)
    yield from odd(point, results)
    yield power(point)
    yield from conditions(point.effects)


def promises(point: LotPoint, asked: Questions) -> Iterator[str]:
    """Say which rates are promised: for drives of the lot, of the model, and for a set."""
    if point.of_lot is not None:
        yield confidence_sentence(point.of_lot, f"the lot of {asked.lot:,}")
    yield confidence_sentence(point.of_model, "the model (if these drives are a random sample)")
    if point.asked is not None:
        yield _asked(point.asked, len(point.rates), asked)
    if point.of_set is not None:
        yield from of_set(point.of_set)


def _asked(found: WantedRate, drives: int, asked: Questions) -> str:
    of = "the model" if asked.lot is None else f"the lot of {asked.lot:,}"
    return (
        f"{found.below} of {counted(drives, 'drive')} do not reach {format_bound(found.rate_iops)} "
        f"IOPS: with {percent(CONFIDENCE)} confidence, at most {_up(found.most_share)} of {of} "
        f"do not reach it; with {percent(found.confidence)} confidence, at most 5 % do not"
    )


def _up(share: float) -> str:
    """Format an upper limit of a share, rounded up, so that it stays an upper limit."""
    return f"{-int(-1000 * share - 1 + 1e-6) / 10:g} %"


def of_set(found: SetPromise) -> Iterator[str]:
    """Yield the total rate of a set of drives, if the load is striped or is balanced over them."""
    striped = f"striped evenly over {found.drives:,} drives"
    if found.failed:
        failed = f"{found.failed} of {found.measured:,} drives failed"
        yield f"{striped}: no rate is known, because {failed}"
    elif found.slowest_iops is None:
        yield (
            f"{striped}: fewer drives were measured, so the slowest rate of the set is not known; "
            f"with {percent(found.all_reach)} confidence, all reach the slowest of the "
            f"{found.measured:,} measured drives"
        )
    else:
        total = found.drives * found.slowest_iops
        yield (
            f"{striped}: the slowest drive is expected to reach "
            f"{format_bound(found.slowest_iops)} IOPS, so {format_bound(total)} IOPS together"
        )
    balanced = f"balanced over {found.drives:,} drives"
    if found.sum_iops > 0:
        least = f"at least {format_bound(found.sum_iops)} IOPS together"
        yield f"{balanced}: {least}, with {percent(CONFIDENCE)} confidence"
    else:
        why = "drives failed" if found.failed else "too few were measured"
        yield f"{balanced}: no rate can be promised, because {why}"


def odd(point: LotPoint, results: Sequence[RunResult]) -> Iterator[str]:
    """Yield a sentence for each drive that counts as failed or is an outlier."""
    for name, rate in zip(names(results), point.rates, strict=True):
        if rate.failing:
            yield f"{name} counts as failed: {rate.failing}"
        elif rate.odd:
            yield f"{name} is odd: {away(rate)} the median of the other drives"


def power(point: LotPoint) -> str:
    """Return the limit for outliers, and the probability of detecting slower drives."""
    if point.odd_limit is None:
        return "there are too few drives to call one of them odd"
    found = ", ".join(f"{100 * slower:g} %: {percent(chance)}" for slower, chance in point.power)
    return (
        f"a drive is odd if it differs by more than {100 * point.odd_limit:.2g} %; probability to "
        f"detect a drive that is slower by {found}"
    )


def away(rate: DriveRate) -> str:
    """Format the difference of a drive's rate from the median, such as `12 % below`."""
    deviation = rate.deviation or 0.0
    return f"{100 * abs(deviation):.3g} % {'below' if deviation < 0 else 'above'}"


def conditions(effects: Sequence[Effect]) -> Iterator[str]:
    """Yield a sentence on each condition's effect, or why its effect cannot be separated."""
    yield from (effect(one) for one in effects if one.separated)
    for why in dict.fromkeys(one.why_not for one in effects if not one.separated):
        together = listed([one.condition for one in effects if one.why_not == why])
        yield f"the effects of {together} cannot be separated: {why}"


def effect(found: Effect) -> str:
    """Return a phrase on the effect of one condition, such as the host, on the rate."""
    change = format_change(found.change_percent or 0.0).lstrip("+")
    if found.p is not None and found.p <= ALPHA:
        return f"{found.condition} changes the rate by {change} (p {found.p:.2g})"
    return f"{found.condition}: no effect shown ({change}, p {found.p or 1.0:.2g})"


LATENCY_TITLES = ("point", "direction", "percentile", "all I/Os", "95 % of drives at most", "worst")


def latency_rows(points: Sequence[LotPoint], results: Sequence[RunResult]) -> list[tuple[str, ...]]:
    """Return rows of latency percentiles: of all drives, of 95 % of drives, and of the worst."""
    shown = names(results)
    return [
        (
            words.times(point.label),
            one.direction,
            one.name,
            format_ns(one.merged_ns),
            format_ns(one.slow_drive_ns),
            f"{format_ns(one.worst_ns)} ({shown[one.worst]})",
        )
        for point in points
        for one in point.latencies
    ]
