"""What a target may do, for the estimates of a plan; a measurement never rests on it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ssdbench.engine.stage import RateHint, StagePlan
from ssdbench.model.found import FillDone, Found, WarmUp
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern
from ssdbench.sim.modelfile import embedded_models, load_embedded

ANY = RateHint()
AROUND = (0.5, 2.0)  # of a model's figures: they are for one block size and depth
BYTES_PER_MB = 1e6
SEEN = (0.8, 1.25)  # of what this run saw of the drive
ONCE_MORE = 2.5  # what is still to do takes as long as the least, or up to so many times that


def rate_hint(info: TargetInfo) -> RateHint:
    """The range for any drive, or around the figures of an embedded model."""
    name = info.sim_model.split(",")[0]
    if not info.simulated or name not in embedded_models():
        return ANY
    figures = load_embedded(name).simulated
    sequential = _around(figures, "seq_write_mbps")
    return RateHint(
        sequential_bytes_per_s=(
            (sequential[0] * BYTES_PER_MB, sequential[1] * BYTES_PER_MB)
            if sequential
            else ANY.sequential_bytes_per_s
        ),
        random_write_iops=_around(figures, "random_write_iops") or ANY.random_write_iops,
        random_read_iops=_around(figures, "random_read_iops") or ANY.random_read_iops,
        source=f"the figures of {name}",
    )


def learned(hint: RateHint, found: Iterable[Found]) -> RateHint:
    """The range around what the stages so far saw of the drive."""
    for one in found:
        match one:
            case FillDone(ordered_bytes_per_s=ordered, random_bytes_per_s=random) as fill:
                if ordered:
                    hint = replace(hint, sequential_bytes_per_s=_seen(ordered))
                if random and fill.random_block_bytes:
                    hint = replace(hint, random_write_iops=_seen(random / fill.random_block_bytes))
            case WarmUp(workload=workload, verdict=verdict) if workload and verdict:
                alone = workload.pattern is Pattern.RANDOM and not workload.read_percent
                if alone and verdict.mean > 0:
                    iops = verdict.mean / workload.block_bytes
                    hint = replace(hint, random_write_iops=_seen(iops))
    return hint


def ends_after(
    spent_s: float, left: Sequence[StagePlan], *, at_work_s: float = 0.0, share: float = 1.0
) -> tuple[float, float]:
    """When a run is likely to end that took `spent_s` so far: least and most, within twice.

    A stage mostly takes about the least of its plan; stalls, two levels and cold data take longer,
    but none longer than the most of its plan.
    The first of those that are left may be at work for `at_work_s`, with that share of it done.
    """
    least_s = sum(plan.seconds[0] for plan in left)
    if at_work_s and left:
        own_s = left[0].seconds[0]
        least_s += max(own_s - at_work_s, (1 - share) * own_s) - own_s
    least_s, most_s = spent_s + least_s, spent_s - at_work_s + sum(p.seconds[1] for p in left)
    likely_s = min(2 * least_s, least_s + (ONCE_MORE - 1) * (least_s - spent_s))
    return least_s, max(least_s, min(likely_s, most_s))


def _seen(value: float) -> tuple[float, float]:
    return value * SEEN[0], value * SEEN[1]


def _around(figures: Mapping[str, float], name: str) -> tuple[float, float] | None:
    value = figures.get(name)
    return None if value is None else (value * AROUND[0], value * AROUND[1])
