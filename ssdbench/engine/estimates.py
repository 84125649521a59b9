"""Estimate the rates of a target and the end of a run, for plans and progress, not for results."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, get_args

from ssdbench.engine.stage import AnyStage, RateHint, StagePlan
from ssdbench.model.found import FillDone, Found, WarmUp
from ssdbench.model.kind import PointsKind, StageKind
from ssdbench.model.profile import Rated
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern
from ssdbench.sim.modelfile import embedded_models, load_embedded
from ssdbench.sim.spec import parse

# Of most SSDs. Random writes are for a drive of 1 TB. A larger drive writes faster, because it
# has more dies, but not in proportion: of 4 TB, P4500 62,000 and PM9A3 200,000 writes per second;
# of 15 TB and QLC, BM1743 31,000 (the shipped models; their sources are data sheets).
Range = tuple[float, float]
BLOCK_BYTES = 4096
ANY_DRIVE = RateHint((200e6, 3e9), (5_000, 60_000), (60_000, 600_000), "of most SSDs of this size")
LARGER_IS_FASTER = 2 / 3  # exponent of the capacity
MOST_OF_SIZE = (12_000, 150_000)  # random writes per second, however large the drive is
AROUND_MODEL = (0.8, 1.2)  # times the figures of a model, which are for one size and depth
# A small simulated drive gets smaller erase blocks, in which garbage collection copies less: with a
# 16th to a 32nd of the block, X25-M completes 1.5 to 2 times as many random writes as its figure.
AROUND_SMALL_BLOCKS = (0.8, 2.2)
SMALL_BLOCK = 1 / 4  # of the erase block of the model at full size
# Times a figure of a data sheet, which is of the best depth and block, at times of a new drive.
AROUND_RATED = (0.7, 1.05)
# Field of RateHint, the figure of a model from which it follows, and the unit of the figure. A
# drive that maps units of 16 KiB writes a whole unit for 4 KiB, and reads the rest of it before. So
# the model of the BM1743 completes 0.68 times as many writes of 4 KiB.
MODEL_FIGURES = (
    ("sequential_bytes_per_s", "seq_write_mbps", 1e6),
    ("random_write_iops", "random_write_iops", 1.0),
    ("random_write_iops", "random_write_16k_iops", 0.68),
    ("random_read_iops", "random_read_iops", 1.0),
)
# Times the least time of a plan. Settling ends when the rate is flat, so few repeats use up their
# limit. Four whole runs of `pessimistic` ended within the hours and fills that this gives
# (docs/cost.md).
LIKELY = (0.8, 1.2)
# Times the ends of a plan: the rate of a stage is not quite the rate of the stages before it, and
# windows that need longer do not count in a plan. Little of the time of points follows from rates.
TOLD = (0.8, 1.25)
TOLD_SETTLING = (0.95, 1.1)
# With a spare area of the share `p` of the capacity, garbage collection multiplies random writes by
# (1 + p) / 2p (Agarwal and Marrow 2010). So a full drive writes at random as fast as in order
# divided by this; on the models with a figure it is 0.65 to 0.9 times that, and less with an SLC
# cache.
AROUND_COLLECTED = (0.5, 1.1)
# The same where the spare area is unknown: 4 to 30 % of the capacity.
UNKNOWN_COLLECTED = (1 / 12, 1 / 2)
# Of simulated drives, from runs of `demo` and `quick`: 1 to 2.5 us of the host for 4 KiB written, a
# third of a second for a start of fio, which lasts ten minutes, and reads in an eighth of the time.
HOST_S_PER_REQUEST = 1.2e-6
STARTING_SHARE = 1 / 1800
READING_SHARE = 1 / 8
AROUND_PACE = 2.0
SURE_S = 3.0  # of the host: below, the pace of a run is not known
LIKELY_WARM_UP = (1.0, 1.4)  # every rule asks for the least number of fills
SETTLING: dict[StageKind, Range] = {
    StageKind.STEADY: LIKELY_WARM_UP,
    **dict.fromkeys((StageKind.PROBE, *get_args(PointsKind)), LIKELY),
}


def rate_hint(info: TargetInfo, rated: Rated = Rated()) -> RateHint:  # noqa: B008 - frozen
    """Return likely rates: by the data sheet, an embedded model, or the size of the drive."""
    hint, name = _of_size(info.size_bytes), info.sim_model.split(",")[0]
    if info.simulated and info.sold_bytes:
        # A model is as fast as at its full size, or slower if its rate follows from its size.
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
        rates: dict[str, Any] = {
            field: _around(figures[figure] * unit, around.get(field, AROUND_MODEL))
            for field, figure, unit in MODEL_FIGURES
            if figure in figures
        }
        spare = parse(f"sim:{name},scale=1").params["op_ppm"] / 1e6
        if spare and "random_write_iops" not in rates and "seq_write_mbps" in figures:
            iops = 1e6 * figures["seq_write_mbps"] / BLOCK_BYTES * 2 * spare / (1 + spare)
            ends = (AROUND_COLLECTED[0], around.get("random_write_iops", AROUND_COLLECTED)[1])
            rates["random_write_iops"] = _around(iops, ends)
        if cached := figures.get("slc_write_mbps"):
            # At most this share of an empty drive is written to the cache.
            share = int(model.params.get("slc_dynamic", 0)) / 1e6
            s_per_mb = share / cached + (1 - share) / figures["seq_write_mbps"]
            rates["first_fill_bytes_per_s"] = AROUND_MODEL[1] * 1e6 / s_per_mb
        hint = replace(hint, **rates, source=f"from the figures of {name}")
    return _by_data_sheet(hint, rated)


def _of_size(size_bytes: int) -> RateHint:
    """Return the rates of most drives of this size in bytes."""
    larger = (size_bytes / 1e12) ** LARGER_IS_FASTER
    ends = zip(ANY_DRIVE.random_write_iops, MOST_OF_SIZE, strict=True)
    slow, fast = (max(1.0, min(iops * larger, most)) for iops, most in ends)
    return replace(ANY_DRIVE, random_write_iops=(slow, fast))


def _by_data_sheet(hint: RateHint, rated: Rated) -> RateHint:
    """Return the hint with rates close to the data sheet's rates.

    The range of a rate that the data sheet does not give is narrowed by the given rates.
    """
    writes, reads = rated.random_write_iops, rated.random_read_iops
    in_order = rated.sequential_write_bytes_per_s
    if writes:
        hint = replace(hint, random_write_iops=_around(writes, AROUND_RATED))
    if reads:
        hint = replace(hint, random_read_iops=_around(reads, AROUND_RATED))
    if in_order:
        hint = replace(hint, sequential_bytes_per_s=_around(in_order, AROUND_RATED))
    # No drive writes more bytes at random than in order, or writes more often than it reads.
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
    """Plan a stage with the time and bytes that it likely takes.

    `stage.plan` has the least and the most that is possible: each repeat settles at once or uses up
    its limit. Warm-ups and points likely end near the least (`LIKELY`); for other stages the whole
    range is likely. The rates for the estimate are the fastest and the slowest rate of the hint.
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
    """Return the likely seconds and bytes written of a plan for one rate."""
    times = SETTLING.get(plan.kind)
    if times is None:
        return plan.seconds, plan.bytes_written
    seconds, written = _near(plan.seconds, times), _near(plan.bytes_written, times)
    # It cannot write more than at the same rate in the longest likely time.
    at_rate = plan.bytes_written[1] * seconds[1] / (plan.seconds[1] or 1.0)
    return seconds, (written[0], max(written[1], at_rate))


def _near(possible: Range, times: Range) -> Range:
    """Return the part of a range between two multiples (`times`) of its lowest value."""
    least, most = possible
    return possible if least == most else (times[0] * least, min(most, times[1] * least))


def hint_from_results(hint: RateHint, found: Iterable[Found]) -> RateHint:
    """Replace estimated rates by the rates that finished stages of this run measured."""
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
    """Return the hint with the measured rate in order, at the end of a fill.

    If the drive was expected to write faster at random than it writes in order, the expected rate
    is of its cache, or of a faster drive. Then the random rate is estimated from the rate in order.
    """
    hint = replace(hint, sequential_bytes_per_s=(ordered_bytes_per_s, ordered_bytes_per_s))
    most = ordered_bytes_per_s / BLOCK_BYTES
    if hint.random_write_iops[1] <= AROUND_MODEL[1] * most:
        return hint
    return replace(hint, random_write_iops=_around(most, UNKNOWN_COLLECTED))


def told(stage: AnyStage, target: TargetInfo, hint: RateHint) -> StagePlan:
    """Plan a stage from the least that is likely to the most that is possible."""
    # A warm-up that does not become steady is not repeated after the points.
    expected = likely(stage, target, replace(hint, warmed_up=False))
    possible = stage.plan(target, hint)
    least_s = min(expected.seconds[0], possible.seconds[0])
    most_s = max(expected.seconds[1], possible.seconds[1] + possible.again_s)
    less, more = TOLD_SETTLING if stage.kind in SETTLING else TOLD
    return replace(
        possible,
        seconds=(less * least_s, more * most_s),
        bytes_written=(expected.bytes_written[0], possible.bytes_written[1]),
    )


def remaining(plan: StagePlan, at_work_s: float) -> StagePlan:
    """Return what is left of the plan of a stage that has run for `at_work_s`."""
    left = [max(0.0, 1 - at_work_s / end_s) if end_s else 0.0 for end_s in plan.seconds]
    least, most = (
        (end_s * share, round(size * share))
        for end_s, size, share in zip(plan.seconds, plan.bytes_written, left, strict=True)
    )
    return replace(plan, seconds=(least[0], most[0]), bytes_written=(least[1], most[1]))


def ends_after(spent_s: float, left: Sequence[StagePlan]) -> Range:
    """Return the earliest and latest end of a run, in seconds since its start.

    The two times are the time so far (`spent_s`) and the sum of the ranges of all that is left.
    """
    least_s, most_s = (spent_s + sum(plan.seconds[end] for plan in left) for end in (0, 1))
    return least_s, most_s


def host_wait(
    plans: Sequence[StagePlan], hint: RateHint, *, host_s: float = 0.0, done: Range = (0.0, 0.0)
) -> Range:
    """Estimate the shortest and longest real time of stages on a simulated drive, in seconds.

    `done` has the drive's seconds and the bytes written so far. `host_s` is the real time in
    seconds that the host took for `done`; if the host was slow so far, the estimate is longer.
    """
    usual_s = _simulation_s(*done, hint)
    pace = host_s / usual_s if host_s > SURE_S and usual_s else 1.0
    least_s, most_s = (
        pace * sum(_simulation_s(p.seconds[end], p.bytes_written[end], hint) for p in plans)
        for end in (0, 1)
    )
    return least_s / AROUND_PACE, most_s * AROUND_PACE


def _simulation_s(seconds: float, bytes_written: float, hint: RateHint) -> float:
    """Return the host's seconds that a simulated drive usually needs for its own seconds."""
    reads = seconds * hint.random_read_iops[0] * READING_SHARE
    pages = bytes_written / BLOCK_BYTES
    return HOST_S_PER_REQUEST * (reads + pages) + seconds * STARTING_SHARE


def _around(value: float, ends: tuple[float, float]) -> tuple[float, float]:
    return value * ends[0], value * ends[1]
