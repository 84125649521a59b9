"""Estimate the rates of a target and the end of a run, for plans and progress, not for results."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from ssdbench.engine.stage import AnyStage, RateHint, StagePlan
from ssdbench.model.found import FillDone, Found, WarmUp
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.profile import Rated
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern
from ssdbench.sim.modelfile import ModelFile, embedded_models, fitted_to, load_embedded
from ssdbench.sim.spec import parse

# Rates of most SSDs. The random writes hold for a 1 TB drive. A larger drive has more dies, so it
# writes faster, but not in proportion. Examples, in writes per second: P4500 (4 TB) 62,000, PM9A3
# (4 TB) 200,000, BM1743 (15 TB, QLC) 31,000. They are from the shipped models, whose sources are
# data sheets.
Range = tuple[float, float]
BLOCK_BYTES = 4096
ANY_DRIVE = RateHint((200e6, 3e9), (5_000, 60_000), (60_000, 600_000), "of most SSDs of this size")
LARGER_IS_FASTER = 2 / 3  # random writes grow with capacity to this power
MOST_OF_SIZE = (12_000, 150_000)  # random writes per second of the largest drives
AROUND_MODEL = (0.8, 1.2)  # likely range / figure of a model
# The same for random writes, once the drive was filled as fast as its model says. In runs on the
# models that have such a figure, the warm-up was then within 1 % of it.
AROUND_FILLED = (0.95, 1.05)
OF_MODEL = "from the figures of"
# A small simulated drive gets smaller erase blocks, from which garbage collection copies less. With
# blocks of 1/16 to 1/32 of the full size, the X25-M model completes 1.5 to 2 times as many random
# writes as its published figure.
AROUND_SMALL_BLOCKS = (0.8, 2.2)
SMALL_BLOCK = 1 / 4  # of the model's erase block at full size
# Likely range / figure of a data sheet. Data sheets give the best queue depth and block size, and
# some give the rate of a new drive.
AROUND_RATED = (0.7, 1.05)
# Each row: a field of RateHint, the model's figure that gives its value, and the factor between
# them. The BM1743 maps units of 16 KiB. To write 4 KiB, it reads the unit and writes it whole, so
# its model completes 0.68 times as many 4 KiB writes as 16 KiB writes.
MODEL_FIGURES = (
    ("sequential_bytes_per_s", "seq_write_mbps", 1e6),
    ("random_write_iops", "random_write_iops", 1.0),
    ("random_write_iops", "random_write_16k_iops", 0.68),
    ("random_read_iops", "random_read_iops", 1.0),
)
# Likely range / shortest time of a plan. Settling ends as soon as the rate is steady, so few
# repeats take the longest time that they may. Windows take longer where the rate varies. About 9
# of 10 runs on plain drives ended within the hours estimated with these factors (docs/numbers.md).
LIKELY = (0.91, 1.34)
# Factors that widen the range shown to the user. A stage may be slower or faster than the stages
# before it, and a plan ignores that a window may take longer. The range is widened less for points,
# whose time hardly depends on rates.
SHOWN = (0.8, 1.25)
SHOWN_SETTLING = (0.95, 1.1)
# Let `p` be spare area / capacity. Then garbage collection multiplies random writes by (1 + p) / 2p
# (Agarwal and Marrow 2010). So a full drive's random write rate should be its sequential rate
# divided by this factor. The shipped models reach 0.65 to 0.9 of that, and less if they have an SLC
# cache.
AROUND_COLLECTED = (0.5, 1.1)
# Random / sequential write rate if the spare area is unknown, somewhere from 4 to 30 % of the
# capacity.
UNKNOWN_COLLECTED = (1 / 12, 1 / 2)
# Host time that a simulated drive needs, measured in runs of `demo` and `quick`. Each 4 KiB write
# takes 1 to 2.5 us of host time. Each start of fio takes a third of a second and measures ten
# minutes of drive time. Reads are sent during an eighth of the drive time.
HOST_S_PER_REQUEST = 1.2e-6
STARTING_SHARE = 1 / 1800
READING_SHARE = 1 / 8
AROUND_PACE = 2.0
PRIOR_S = 10.0  # of host time at the usual pace; the first seconds of a run are often slower
LIKELY_WARM_UP = (1.0, 1.25)  # every rule asks for the least number of fills
SETTLING: dict[StageKind, Range] = {
    StageKind.STEADY: LIKELY_WARM_UP,
    **dict.fromkeys((StageKind.PROBE, *get_args(PointsKind)), LIKELY),
}


def rate_hint(info: TargetInfo, rated: Rated = Rated()) -> RateHint:  # noqa: B008 - frozen
    """Return a drive's likely rates from its data sheet, from a model, or from its size.

    The model of a real drive is the user's: `sim fit --drive` made it from runs of such a drive.
    """
    hint, name = _of_size(info.size_bytes), info.sim_model.split(",")[0]
    if info.simulated and info.sold_bytes:
        # A model's rate may be the same at each size of the drive, or lower on a smaller drive. So
        # the fastest likely rate is the rate at full size.
        fast = _of_size(info.sold_bytes).random_write_iops[1]
        hint = replace(hint, random_write_iops=(hint.random_write_iops[0], fast))
    if info.simulated and name in embedded_models():
        model = load_embedded(name)
        figures = model.simulated
        own, full = (
            parse(f"sim:{drive}").params["erase_block_bytes"]
            for drive in (info.sim_model, f"{name},scale=1")
        )
        small_blocks = own <= SMALL_BLOCK * full
        around = {"random_write_iops": AROUND_SMALL_BLOCKS} if small_blocks else {}
        rates = _of_figures(model, around)
        spare = parse(f"sim:{name},scale=1").params["op_ppm"] / 1e6
        if spare and "random_write_iops" not in rates and "seq_write_mbps" in figures:
            iops = 1e6 * figures["seq_write_mbps"] / BLOCK_BYTES * 2 * spare / (1 + spare)
            ends = (AROUND_COLLECTED[0], around.get("random_write_iops", AROUND_COLLECTED)[1])
            rates["random_write_iops"] = _around(iops, ends)
        if cached := figures.get("slc_write_mbps"):
            # The SLC cache takes at most this share of an empty drive's writes.
            share = int(model.params.get("slc_dynamic", 0)) / 1e6
            s_per_mb = share / cached + (1 - share) / figures["seq_write_mbps"]
            rates["first_fill_bytes_per_s"] = AROUND_MODEL[1] * 1e6 / s_per_mb
        hint = replace(hint, **rates, source=f"{OF_MODEL} {name}")
    elif not info.simulated and (like := fitted_to(info.model)):
        hint = replace(hint, **_of_figures(like, {}), source=f"{OF_MODEL} {like.reference}")
    return _by_data_sheet(hint, rated)


def _of_figures(model: ModelFile, around: Mapping[str, Range]) -> dict[str, Any]:
    """Return likely rates by the fields of RateHint, from what a model simulates."""
    return {
        field: _around(model.simulated[figure] * unit, around.get(field, AROUND_MODEL))
        for field, figure, unit in MODEL_FIGURES
        if figure in model.simulated
    }


def _of_size(size_bytes: int) -> RateHint:
    """Return the likely rates of a drive of which only the capacity in bytes is known."""
    larger = (size_bytes / 1e12) ** LARGER_IS_FASTER
    ends = zip(ANY_DRIVE.random_write_iops, MOST_OF_SIZE, strict=True)
    slow, fast = (max(1.0, min(iops * larger, most)) for iops, most in ends)
    return replace(ANY_DRIVE, random_write_iops=(slow, fast))


def _by_data_sheet(hint: RateHint, rated: Rated) -> RateHint:
    """Replace likely rates by ranges close to the data sheet's rates.

    If the data sheet lacks a rate, the likely range of this rate is narrowed by the rates that the
    data sheet gives.
    """
    writes, reads = rated.random_write_iops, rated.random_read_iops
    in_order = rated.sequential_write_bytes_per_s
    if writes:
        hint = replace(hint, random_write_iops=_around(writes, AROUND_RATED))
    if reads:
        hint = replace(hint, random_read_iops=_around(reads, AROUND_RATED))
    if in_order:
        hint = replace(hint, sequential_bytes_per_s=_around(in_order, AROUND_RATED))
    # No drive's random writes are faster than its sequential writes or its random reads.
    slow, fast = hint.random_write_iops
    most = min(hint.random_read_iops[1], hint.sequential_bytes_per_s[1] / BLOCK_BYTES)
    if writes:
        most = fast
        hint = replace(
            hint,
            sequential_bytes_per_s=_above(hint.sequential_bytes_per_s, slow * BLOCK_BYTES),
            random_read_iops=_above(hint.random_read_iops, slow),
        )
    given = bool(writes or reads or in_order)
    return replace(
        hint,
        random_write_iops=(min(slow, most), min(fast, most)),
        source="from the data sheet" if given else hint.source,
    )


def _above(ends: tuple[float, float], least: float) -> tuple[float, float]:
    return max(ends[0], least), max(ends[1], least)


def likely(stage: AnyStage, target: TargetInfo, hint: RateHint) -> StagePlan:
    """Plan a stage with the time that it likely takes and the bytes that it likely writes.

    `stage.plan` gives the shortest and the longest possible time: each repeat settles at once, or
    takes the longest time that it may. Warm-ups and points likely end near the shortest time
    (`LIKELY`); for other stages the whole range counts as likely. The stage is estimated with the
    hint's slowest and fastest rates.
    """
    ends = [_likely(stage.plan(target, hint.at(end))) for end in (0, 1)]
    least_s, least = (min(one[0] for one in found) for found in zip(*ends, strict=True))
    most_s, most = (max(one[1] for one in found) for found in zip(*ends, strict=True))
    size_bytes = target.size_bytes
    return replace(
        stage.plan(target, hint),
        seconds=(least_s, most_s),
        bytes_written=(round(least), round(most)),
        fills=(least / size_bytes, most / size_bytes),
    )


def _likely(plan: StagePlan) -> tuple[Range, Range]:
    """Return the ranges of seconds and of bytes written in which a planned stage likely ends."""
    times = SETTLING.get(plan.kind)
    if times is None:
        return plan.seconds, plan.bytes_written
    seconds, written = _near(plan.seconds, times), _near(plan.bytes_written, times)
    # A stage cannot write more than the plan's rate allows in the longest likely time.
    at_rate = plan.bytes_written[1] * seconds[1] / (plan.seconds[1] or 1.0)
    return seconds, (written[0], max(written[1], at_rate))


def _near(possible: Range, times: Range) -> Range:
    """Return the part of a range between two multiples (`times`) of the range's lowest value."""
    least, most = possible
    return possible if least == most else (times[0] * least, min(most, times[1] * least))


def hint_from_results(hint: RateHint, found: Iterable[Found]) -> RateHint:
    """Replace estimated rates by the rates that finished stages of this run have measured."""
    for one in found:
        match one:
            case FillDone(ordered_bytes_per_s=ordered, random_bytes_per_s=random) as fill:
                if ordered:
                    hint = _after_fill(hint, ordered)
                if random and fill.random_block_bytes:
                    iops = random / fill.random_block_bytes
                    hint = replace(hint, random_write_iops=(iops, iops))
            case WarmUp(workload=workload, verdict=verdict) if workload and verdict:
                hint = replace(hint, warmed_up=verdict.steady)
                alone = workload.pattern is Pattern.RANDOM and not workload.read_percent
                if alone and verdict.mean > 0:
                    iops = verdict.mean / workload.block_bytes
                    hint = replace(hint, random_write_iops=(iops, iops))
    return hint


def _after_fill(hint: RateHint, ordered_bytes_per_s: float) -> RateHint:
    """Replace the estimated sequential write rate by the rate measured at the end of a fill.

    If the estimated random write rate is higher than the measured sequential rate, the estimate was
    wrong: it holds for the drive's cache, or for a faster drive. Such a random rate is replaced by
    an estimate from the measured sequential rate. If the drive was filled as fast as its model
    predicts, the model's random write rate also becomes more likely.
    """
    least, fastest = hint.sequential_bytes_per_s
    as_said = hint.source.startswith(OF_MODEL) and least <= ordered_bytes_per_s <= fastest
    hint = replace(hint, sequential_bytes_per_s=(ordered_bytes_per_s, ordered_bytes_per_s))
    most = ordered_bytes_per_s / BLOCK_BYTES
    slow, fast = hint.random_write_iops
    if fast <= AROUND_MODEL[1] * most:
        figure = slow / AROUND_MODEL[0]
        if as_said and math.isclose(fast, AROUND_MODEL[1] * figure):
            return replace(hint, random_write_iops=_around(figure, AROUND_FILLED))
        return hint
    return replace(hint, random_write_iops=_around(most, UNKNOWN_COLLECTED))


def shown_plan(stage: AnyStage, target: TargetInfo, hint: RateHint) -> StagePlan:
    """Plan a stage for display: from its shortest likely time to its longest possible time."""
    # The least time assumes that a warm-up which did not become steady is not repeated.
    expected = likely(stage, target, replace(hint, warmed_up=False))
    possible = stage.plan(target, hint)
    least_s = min(expected.seconds[0], possible.seconds[0])
    most_s = max(expected.seconds[1], possible.seconds[1] + possible.again_s)
    less, more = SHOWN_SETTLING if stage.kind in SETTLING else SHOWN
    return replace(
        possible,
        seconds=(less * least_s, more * most_s),
        bytes_written=(expected.bytes_written[0], possible.bytes_written[1]),
    )


def remaining(plan: StagePlan, at_work_s: float) -> StagePlan:
    """Return the time and bytes that remain of a stage's plan after it ran for `at_work_s`."""
    left = [max(0.0, 1 - at_work_s / end_s) if end_s else 0.0 for end_s in plan.seconds]
    least, most = (
        (end_s * share, round(size * share))
        for end_s, size, share in zip(plan.seconds, plan.bytes_written, left, strict=True)
    )
    return replace(plan, seconds=(least[0], most[0]), bytes_written=(least[1], most[1]))


def narrower(left: StagePlan, rest: StagePlan) -> StagePlan:
    """Return the overlap of two plans for a stage's rest: one by time, and one by units."""
    least_s = max(left.seconds[0], rest.seconds[0])
    least = max(left.bytes_written[0], rest.bytes_written[0])
    return replace(
        rest,
        seconds=(least_s, max(least_s, min(left.seconds[1], rest.seconds[1]))),
        bytes_written=(least, max(least, min(left.bytes_written[1], rest.bytes_written[1]))),
    )


def ends_after(spent_s: float, left: Sequence[StagePlan]) -> Range:
    """Return the earliest and latest end of a run, in seconds since its start.

    The earliest end is the time used so far (`spent_s`) plus the shortest times of all plans in
    `left`; the latest end is `spent_s` plus their longest times.
    """
    least_s, most_s = (spent_s + sum(plan.seconds[end] for plan in left) for end in (0, 1))
    return least_s, most_s


def host_wait(
    plans: Sequence[StagePlan], hint: RateHint, *, host_s: float = 0.0, done: Range = (0.0, 0.0)
) -> Range:
    """Estimate the shortest and longest real time of stages on a simulated drive, in seconds.

    `done` has the seconds of the drive's clock that passed and the bytes that were written so far.
    `host_s` is the real time that the host took for this, in seconds; a host that was slow so far
    makes the estimate longer.
    """
    usual_s = _simulation_s(*done, hint)
    pace = (host_s + PRIOR_S) / (usual_s + PRIOR_S) if usual_s else 1.0
    least_s, most_s = (
        pace * sum(_simulation_s(p.seconds[end], p.bytes_written[end], hint) for p in plans)
        for end in (0, 1)
    )
    return least_s / AROUND_PACE, most_s * AROUND_PACE


def _simulation_s(seconds: float, bytes_written: float, hint: RateHint) -> float:
    reads = seconds * hint.random_read_iops[0] * READING_SHARE
    pages = bytes_written / BLOCK_BYTES
    return HOST_S_PER_REQUEST * (reads + pages) + seconds * STARTING_SHARE


def _around(value: float, ends: tuple[float, float]) -> tuple[float, float]:
    return value * ends[0], value * ends[1]
