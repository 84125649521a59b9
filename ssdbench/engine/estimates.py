"""Estimate the rates of a target and the end of a run, for plans and progress, not for results."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ssdbench.engine.stage import RateHint, StagePlan
from ssdbench.model.found import FillDone, Found, WarmUp
from ssdbench.model.target import TargetInfo
from ssdbench.model.workload import Pattern
from ssdbench.sim.modelfile import embedded_models, load_embedded

ANY_DRIVE = RateHint()
AROUND_MODEL = (0.5, 2.0)  # times the figures of a model, which are for one size and depth
# Field of RateHint, the figure of a model from which it follows, and the unit of the figure.
MODEL_FIGURES = (
    ("sequential_bytes_per_s", "seq_write_mbps", 1e6),
    ("random_write_iops", "random_write_iops", 1.0),
    ("random_read_iops", "random_read_iops", 1.0),
)
AROUND_SEEN = (0.8, 1.25)  # times the rates that this run measured
MOST_OVERRUN = 2.5  # times the least time of the plan: the longest likely time of the rest


def rate_hint(info: TargetInfo) -> RateHint:
    """Return likely rates: around the figures of an embedded model, or those of any drive."""
    name = info.sim_model.split(",")[0]
    if not info.simulated or name not in embedded_models():
        return ANY_DRIVE
    figures, few, many = load_embedded(name).simulated, *AROUND_MODEL
    rates = {
        hint: (figures[figure] * few * unit, figures[figure] * many * unit)
        for hint, figure, unit in MODEL_FIGURES
        if figure in figures
    }
    return replace(ANY_DRIVE, **rates, source=f"the figures of {name}")


def hint_from_results(hint: RateHint, found: Iterable[Found]) -> RateHint:
    """Replace estimated rates by those that the finished stages of this run measured."""
    for one in found:
        match one:
            case FillDone(ordered_bytes_per_s=ordered, random_bytes_per_s=random) as fill:
                if ordered:
                    hint = replace(hint, sequential_bytes_per_s=_around_seen(ordered))
                if random and fill.random_block_bytes:
                    hint = replace(
                        hint, random_write_iops=_around_seen(random / fill.random_block_bytes)
                    )
            case WarmUp(workload=workload, verdict=verdict) if workload and verdict:
                alone = workload.pattern is Pattern.RANDOM and not workload.read_percent
                if alone and verdict.mean > 0:
                    iops = verdict.mean / workload.block_bytes
                    hint = replace(hint, random_write_iops=_around_seen(iops))
    return hint


def ends_after(
    spent_s: float, left: Sequence[StagePlan], *, at_work_s: float = 0.0, share: float = 1.0
) -> tuple[float, float]:
    """Estimate the earliest and latest end of a run, in seconds since its start.

    `spent_s`: the time so far. `left`: the plans of the unfinished stages; the first has run for
    `at_work_s` and is done by `share`. Most stages take about the least time of their plan. Stalls,
    rates with two levels and cold data take longer, up to the most time of the plan.
    """
    least_s = sum(plan.seconds[0] for plan in left)
    if at_work_s and left:
        own_s = left[0].seconds[0]
        least_s += max(own_s - at_work_s, (1 - share) * own_s) - own_s
    least_s, most_s = spent_s + least_s, spent_s - at_work_s + sum(p.seconds[1] for p in left)
    likely_s = min(2 * least_s, least_s + (MOST_OVERRUN - 1) * (least_s - spent_s))
    return least_s, max(least_s, min(likely_s, most_s))


def _around_seen(value: float) -> tuple[float, float]:
    return value * AROUND_SEEN[0], value * AROUND_SEEN[1]
