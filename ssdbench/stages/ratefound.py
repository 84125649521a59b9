"""Summarize the searches for a rate as a result, CSV and findings; no I/O."""

import csv
import io
import math
from collections.abc import Iterator, Sequence

from ssdbench.model.finding import Finding
from ssdbench.model.findings.rates import (
    AboveCompletions,
    EveryClientBusy,
    NoRateHeld,
    OwnClientBusy,
    SentLate,
    StallsTooFew,
    WindowTooShort,
)
from ssdbench.model.findings.repeats import NotSustained, TooFewSearches, WindowHiddenByBuffer
from ssdbench.model.rates import RateFound, RateStep
from ssdbench.stages.ratesearch import (
    BUSY_OF_TAIL,
    CLOSE,
    LEAST_BEYOND,
    LEAST_STALLS,
    NEAR,
    OMISSION_FACTOR,
    RateGoal,
    Searched,
    broke_down,
    completed,
    cycle_s,
    decided,
    overloaded,
    settled,
)
from ssdbench.stats.checks import MIN_BUFFERS_PER_WINDOW, evidence_too_small
from ssdbench.stats.openloop import confidence_of_lowest, highest_kept
from ssdbench.stats.percentiles import QUANTILES
from ssdbench.units import format_ns

LEAST_SEARCHES = 5  # the lowest of five is below the true median with 97 % confidence


def answer(
    sought: RateGoal, searched: Sequence[Searched], looked: Sequence[RateStep] = ()
) -> RateFound:
    """Return the lowest rate of all finished searches, and a list of all offered rates.

    `looked` has the rates that the first search offered; this search is not part of the answer. The
    knee is the offered rate with the most completed IOPS per mean latency (Kleinrock 1979).
    """
    ended = [one for one in searched if one.ended]
    workload = sought.workload
    steps = [*looked, *(step for one in ended for step in one.steps)]
    best = [step for step in decided(steps) if step.mean_ns > 0 and step.kept]
    most = completed(steps)
    counted = [step.clients for one in ended for step in one.steps]
    clients = max(counted, default=0) or workload.numjobs
    shared = workload.model_copy(update={"numjobs": clients})
    return RateFound(
        workload=f"{shared.label()}, {workload.arrivals} arrivals",
        pattern=workload.pattern.value,
        block_bytes=workload.block_bytes,
        read_percent=workload.read_percent,
        arrivals=workload.arrivals.value,
        percentile=sought.percentile,
        direction=sought.direction,
        limit_ns=sought.limit_ns,
        rate_iops=min((highest_kept(settled(one.steps), most) for one in ended), default=0) or None,
        clients=clients,
        searches=len(ended),
        confidence=confidence_of_lowest(len(ended)),
        highest_iops=max((one.held_iops or 0.0 for one in ended), default=None),
        knee_iops=max(best, key=lambda s: s.achieved_iops / s.mean_ns).offered_iops
        if best
        else None,
        steps=tuple(steps),
    )


def as_lasted(sought: RateGoal, found: RateFound, lasted: Sequence[RateStep]) -> RateFound:
    """Add to the answer the last runs of fio, which tested whether its rate lasts.

    `lasted` has the runs at the last offered rate. If the drive kept this rate, and it is lower
    than the answer, this rate becomes the answer.
    """
    rate = found.rate_iops
    broken = any(broke_down(sought, step) for step in lasted)
    if rate is not None and lasted and lasted[-1].asked_iops < rate and not broken:
        rate = lasted[-1].offered_iops
    return found.model_copy(update={"rate_iops": rate, "lasted": tuple(lasted)})


def buffer_findings(
    sought: RateGoal, searched: Sequence[Searched], buffer_bytes: int
) -> Iterator[Finding]:
    """Yield a finding if all writes of a window at the found rate may fit into the buffer."""
    workload = sought.workload
    if not workload.writes:
        return
    bytes_per_io = workload.block_bytes * (1 - workload.read_percent / 100)
    written = [
        round(step.achieved_iops * (step.window_s or sought.window_s) * bytes_per_io)
        for one in searched
        for step in one.steps
        if step.kept and step.offered_iops == one.held_iops
    ]
    smallest = evidence_too_small(sorted(written)[:1], buffer_bytes=buffer_bytes)
    if smallest is not None:
        said = WindowHiddenByBuffer(smallest, MIN_BUFFERS_PER_WINDOW, buffer_bytes)
        yield said.finding(stage=sought.name)


def csv_text(steps: Sequence[RateStep]) -> str:
    """Return the offered rates as CSV, one line per rate."""
    stream = io.StringIO()
    left_out = {"findings", "block_means_ns"}
    names = [name for name in RateStep.model_fields if name not in left_out]
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(step.model_dump(exclude=left_out) for step in steps)
    return stream.getvalue()


def search_findings(sought: RateGoal, found: RateFound, *, complete: bool) -> Iterator[Finding]:
    """Yield findings: too few searches, no rate within the limit, requests that were sent late."""
    if complete and found.searches < LEAST_SEARCHES:
        yield TooFewSearches(found.searches, LEAST_SEARCHES).finding(stage=sought.name)
    if found.rate_iops is None and found.searches:
        yield NoRateHeld(sought.percentile, sought.limit_ns).finding(stage=sought.name)
    if complete and sought.lasts_s and found.rate_iops is not None:
        yield from _lasting(sought, found)
    yield from _unsure(sought, found)
    late = [s for s in decided(found.steps) if s.kept and s.value_ns > OMISSION_FACTOR * s.seen_ns]
    if late:
        worst = max(late, key=lambda s: s.value_ns / s.seen_ns)
        yield SentLate(
            worst.offered_iops, sought.percentile, worst.seen_ns, worst.value_ns
        ).finding(stage=sought.name)


def _lasting(sought: RateGoal, found: RateFound) -> Iterator[Finding]:
    """Yield a finding if the found rate was not within the limit for long enough."""
    passed_s = sum(step.window_s + sought.settle_s for step in found.lasted)
    broken = next((step for step in found.lasted if broke_down(sought, step)), None)
    if broken is not None:
        seen = format_ns(broken.value_ns)
        why = f"{sought.percentile} was {seen} at {broken.offered_iops:.0f} IOPS"
        yield NotSustained(passed_s, sought.lasts_s, why).finding(stage=sought.name)
    elif passed_s < sought.lasts_s:
        yield NotSustained(passed_s, sought.lasts_s, "").finding(stage=sought.name)


def _fails_soon(sought: RateGoal, found: RateFound, rate_iops: float) -> bool:
    """Tell whether the drive, not the clients, missed the limit at a rate just above the answer.

    In this case, even latencies counted from the sending of a request are above the limit. Waits
    for a client only reduce the drive's load: fewer requests are in flight than were due. So this
    rate would also fail without these waits, and the answer would still be lower.
    """
    failed = (
        step.offered_iops
        for step in decided(found.steps)
        if step.search and not step.kept and step.seen_ns > sought.limit_ns
    )
    return min(failed, default=math.inf) <= CLOSE * rate_iops


def _unsure(sought: RateGoal, found: RateFound) -> Iterator[Finding]:
    """Yield findings that invalidate the found rate, or that say what limited it."""
    steps = [*found.steps, *found.lasted]
    most = completed(found.steps)
    above = [s for s in decided(found.steps) if s.kept and s.offered_iops > most]
    if above:
        highest = max(above, key=lambda s: s.offered_iops)
        yield AboveCompletions(highest.offered_iops, most).finding(stage=sought.name)
    there = [s for s in steps if s.offered_iops == found.rate_iops]
    # If the answer is a lower rate that lasted, perhaps none of its runs surely kept the limit.
    answered = [s for s in there if s.kept] or there
    if not answered:
        return
    tail = 1 - QUANTILES[sought.percentile]
    worst = max(answered, key=lambda s: s.busy_share)
    if worst.busy_share > BUSY_OF_TAIL * tail:
        yield EveryClientBusy(
            worst.offered_iops,
            worst.clients,
            sought.workload.numjobs,
            100 * worst.busy_share,
            100 * BUSY_OF_TAIL * tail,
            sought.percentile,
        ).finding(stage=sought.name)
    near = [s for s in found.steps if s.search and s.offered_iops <= NEAR * worst.offered_iops]
    for step in [] if _fails_soon(sought, found, worst.offered_iops) else decided(near):
        in_time = step.seen_ns <= sought.limit_ns < step.value_ns and not overloaded(step)
        in_time = in_time and step.value_ns > OMISSION_FACTOR * step.seen_ns
        if in_time and not step.kept and step.busy_share <= BUSY_OF_TAIL * tail:
            yield OwnClientBusy(step.offered_iops, step.clients, sought.percentile).finding(
                stage=sought.name
            )
            break
    fewest = min(answered, key=lambda s: s.beyond)
    if fewest.beyond < LEAST_BEYOND:
        needed_s = fewest.window_s * LEAST_BEYOND / max(fewest.beyond, 1e-9)
        yield WindowTooShort(
            fewest.offered_iops, sought.percentile, fewest.beyond, LEAST_BEYOND, needed_s / 3600
        ).finding(stage=sought.name)
    rate = worst.offered_iops * (1 - 1e-9)
    lasted_s = sum(step.window_s for step in found.lasted if step.offered_iops >= rate)
    longest_s = max(lasted_s, min(step.window_s for step in answered))
    cycle = cycle_s(steps, worst.offered_iops)
    if cycle is not None and longest_s < LEAST_STALLS * cycle:
        yield StallsTooFew(
            worst.offered_iops, longest_s, cycle, LEAST_STALLS,
            LEAST_STALLS * cycle / 3600,
        ).finding(stage=sought.name)  # fmt: skip
