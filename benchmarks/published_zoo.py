"""Drives from a seed for whole runs, with the truth of what a planner wants to know.

A run fills the drive twice in order and once at random (`profile`), so whatever is planted counts
from there. The truth is the mean of the long run (of two levels, the lower one), with its own
error. It is simulated beyond nine fills on the same drive without the planted trouble, and
multiplied by what that trouble leaves of the rate, where that is known exactly (steps, levels, rare
stalls); with the trouble, where it is not (heat, frequent stalls).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.synthetic import Floats, Rng
from benchmarks.zoo import CAPACITY_BYTES, UNIT_BYTES, UNITS, Values, animal, drive_body
from ssdbench.sim.core import Drive
from ssdbench.sim.library import Params, parameters
from ssdbench.sim.loop import Job, Order
from ssdbench.stats.risk import HASTY, SHORT, WHOLE

PREPARED_FILLS = 3.0
HORIZON_S = 600.0
MINUTE_S = 60.0
TRUTH_FROM_FILLS = 9.0
TRUTH_FILLS = 8.0
LEAST_HORIZONS = 40
BATCHES = 20
RARE_STALLS_S = 1200.0  # from there on what a stall lets the buffer drain is below 0.3 %
GREEDY, FIFO, DCHOICE = range(3)
PLAIN = {"plain-greedy": GREEDY, "plain-fifo": FIFO, "plain-dchoice": DCHOICE}


@dataclass(frozen=True, slots=True)
class Creature:
    """One drive with what is planted in it, and how it is measured."""

    family: str
    body: Values
    fill_s: float
    trouble: Values
    leaves: float = 1.0  # share of the rate that the trouble leaves
    lower: Values = field(default_factory=dict)  # the drive in its lower level, of two
    simulated: bool = False  # whether the truth needs the trouble in the simulation
    step_fills: float | None = None  # when a step comes, in drive fills since it was made
    span_percent: int = 100

    @property
    def params(self) -> Values:
        """As the run has it."""
        return self.body | self.trouble


@dataclass(frozen=True, slots=True)
class Truth:
    """What is to be estimated, in I/Os of 4 KiB per second."""

    mean: float  # of two levels, the lower
    both: float  # over all levels, which an interval of the mean is about
    error: float  # standard error, relative
    low: float  # 5 % quantile of means over a horizon
    horizon_s: float
    onset_s: float | None = None  # of heat, on the drive's clock; None: never, or not planted
    levels: bool = False  # whether there are two


def creature(seed: int, family: str | None = None) -> Creature:
    """The drive of that seed."""
    rng = np.random.default_rng([0x9B1, seed])
    name = family or list(FAMILIES)[seed % len(FAMILIES)]
    made = FAMILIES[name](name, rng)
    return replace(made, body=made.body | {"seed": seed % 2**31 + 1})


def model_yaml(made: Creature) -> str:
    """Its model file, for `sim:PATH`."""
    table = parameters()
    lines = ["title: from a seed", "sources: [benchmarks.published_zoo]", "params:"]
    for name, value in made.params.items():
        choices = table[name].choices
        lines.append(f"  {name}: {choices[value] if choices else value}".replace(": no", ': "no"'))
    return "\n".join(lines).replace(": yes", ': "yes"') + "\n"


FILLS = """precondition:
  - {pattern: sequential, block: 128KiB, fill: 2}
  - {pattern: random, block: 4KiB, fill: 1}"""
ONE_FILL = "precondition: [{pattern: sequential, block: 128KiB, fill: 1}]\nsettle: {window: 2m}"
EVIDENCE = {  # as `--budget` cuts it down: rule, fills of the warm-up, repeats, what comes before
    WHOLE: ("pss", 6, 10, FILLS),
    SHORT: ("pss", 3, 10, ONE_FILL),
    HASTY: ("pss-quick", 1.5, 3, ONE_FILL),
}


def profile(made: Creature, evidence: str = WHOLE) -> str:
    """What is run: fills, warm-up, repeats of the random write."""
    span = "" if made.span_percent == 100 else f", span: {made.span_percent}%"
    rule, max_fills, repeats, before = EVIDENCE[evidence]
    return f"""title: a whole run
{before}
steady:
  rule: {rule}
  workload: {{block: 4KiB, iodepth: 32, numjobs: 1}}
  max_fills: {max_fills}
repeats: {repeats}
window: 60s
measure:
  - sweep: {{block: 4KiB, read: [0], iodepth: 32, numjobs: 1{span}}}
"""


def write(made: Creature, directory: Path, evidence: str = WHOLE) -> tuple[str, str]:
    """Target and profile of its run; the model file lies in the directory."""
    path = directory / "drive.yaml"
    path.write_text(model_yaml(made))
    return f"sim:{path}", profile(made, evidence)


def truth(made: Creature, seed: int) -> Truth:
    """The long-run mean and the low end of means over a horizon."""
    rng = np.random.default_rng([0x7207, seed])
    period_s = made.trouble.get("stall_period_ns", 0) / 1e9
    horizon_s = max(HORIZON_S, period_s)
    values = made.params if made.simulated else made.body
    rates = _long_run(made, seed, horizon_s, values | made.lower)
    batches = np.array([part.mean() for part in np.array_split(rates, BATCHES)])
    mean = float(rates.mean()) * made.leaves
    means = _horizons(rates, HORIZON_S if made.leaves < 1 else horizon_s) * made.leaves
    if period_s and not made.simulated:
        means = np.resize(means, 4000) * _stalled(made, rng, 4000) / made.leaves
    both = mean
    if made.lower:  # levels of equal time
        both = (mean + float(_long_run(made, seed, horizon_s, values).mean())) / 2
    if (hot := _while_hot(made, seed, rates)) is not None:
        mean = hot.mean()
        batches = np.array([part.mean() for part in np.array_split(hot, BATCHES)])
    return Truth(
        mean=float(mean),
        both=both,
        error=float(batches.std(ddof=1) / math.sqrt(BATCHES) / batches.mean()),
        levels=bool(made.lower) or hot is not None,
        low=float(np.quantile(means, 0.05)),
        horizon_s=horizon_s,
        onset_s=_onset(made, seed),
    )


def _stalled(made: Creature, rng: Rng, count: int) -> Floats:
    """What stalls leave of horizons of one period each."""
    period_s, stall_s = made.trouble["stall_period_ns"] / 1e9, made.trouble["stall_ns"] / 1e9
    spread = 0.5 if made.trouble.get("stall_random") else 0.0
    begins = np.cumsum(period_s * rng.uniform(1 - spread, 1 + spread, count + 10))
    edges = period_s * np.arange(count + 1)
    # Stalled time before each edge, from whole stalls and the one under way.
    past = np.searchsorted(begins, edges) - 1
    under_way = np.where(past >= 0, np.minimum(edges - begins[past], stall_s), 0.0)
    stalled = np.maximum(past, 0) * stall_s + under_way
    return np.asarray(1 - np.diff(stalled) / period_s)


def _horizons(rates: Floats, horizon_s: float) -> Floats:
    size = max(1, int(horizon_s))
    if len(rates) < 2 * size:
        return np.array([rates.mean()])
    return np.asarray(rates[: len(rates) // size * size].reshape(-1, size).mean(axis=1))


def _prepared(seed: int, values: Values) -> Drive:
    drive = Drive.in_memory(Params(dict(values)))
    drive.run(Job(order=Order.SEQUENTIAL, block_bytes=128 * 1024, stop_bytes=2 * CAPACITY_BYTES))
    drive.run(Job(seed=seed + 7, stop_bytes=CAPACITY_BYTES))
    return drive


def _long_run(made: Creature, seed: int, horizon_s: float, values: Values) -> Floats:
    """I/Os of each second, long after everything has settled."""
    drive = _prepared(seed, values)
    span = made.span_percent * UNITS // 100 * UNIT_BYTES
    settle_s = 8 * made.body.get("throttle_tau_ns", 0) / 1e9
    if span < CAPACITY_BYTES:
        drive.run(Job(seed=seed + 8, stop_bytes=round(2.2 * CAPACITY_BYTES)))
    drive.run(
        Job(seed=seed + 9, span_bytes=span, stop_bytes=round(TRUTH_FROM_FILLS * CAPACITY_BYTES))
    )
    if settle_s:
        drive.run(Job(seed=seed + 10, span_bytes=span, stop_s=settle_s))
    # Heat comes and goes within a tenth to a half of its time constant.
    horizons_s = LEAST_HORIZONS * (horizon_s if made.simulated else HORIZON_S)
    length_s = int(max(TRUTH_FILLS * made.fill_s, horizons_s, 1.5 * settle_s))
    long = drive.run(Job(seed=seed + 11, span_bytes=span, stop_s=float(length_s)), seconds=length_s)
    return np.asarray(long.seconds["ios"].sum(axis=1), dtype=np.float64)


def _while_hot(made: Creature, seed: int, seconds: Floats) -> Floats | None:
    """Of the long run, the minutes in which the drive was throttled throughout.

    The drive's own gauge, read each minute of another run, tells the two rates and how long it
    stays hot. None where it has no such level: it is never or always throttled, or for less than
    a horizon at a time, which any ten minutes average.
    """
    if not made.body.get("throttle_tau_ns"):
        return None
    drive = _prepared(seed, made.params)
    drive.run(Job(seed=seed + 9, stop_s=8 * made.body["throttle_tau_ns"] / 1e9))
    rates, gauge = [], [bool(drive.counters()["throttled"])]
    for minute in range(int(LEAST_HORIZONS * HORIZON_S / MINUTE_S)):
        run = drive.run(Job(seed=seed + 20 + minute, stop_s=MINUTE_S), seconds=int(MINUTE_S))
        rates.append(float(run.seconds["ios"].sum()) / MINUTE_S)
        gauge.append(bool(drive.counters()["throttled"]))
    hot = np.array([a and b for a, b in pairwise(gauge)])
    cold = np.array([not (a or b) for a, b in pairwise(gauge)])
    stays = sum(now and not before for before, now in pairwise(gauge))
    if not hot.any() or not cold.any() or sum(gauge) * MINUTE_S / max(stays, 1) < HORIZON_S:
        return None
    between = float((np.array(rates)[hot].mean() + np.array(rates)[cold].mean()) / 2)
    minutes = _horizons(seconds, MINUTE_S)
    low = minutes < between
    inside = low[1:-1] & low[:-2] & low[2:]  # no minute that it changed in
    return minutes[1:-1][inside] if inside.any() else None


def _onset(made: Creature, seed: int) -> float | None:
    """When the drive is throttled for the first time, on its own clock."""
    if not made.body.get("throttle_tau_ns"):
        return None
    drive = _prepared(seed, made.params)
    end_ns = drive.now_ns + 8 * made.body["throttle_tau_ns"]
    turn = 0
    while drive.now_ns < end_ns and not drive.counters()["throttled"]:
        drive.run(Job(seed=seed + 12 + turn, stop_s=60.0))
        turn += 1
    return drive.now_ns / 1e9 if drive.counters()["throttled"] else math.inf


def _plain(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng, gc_policy=PLAIN[name])
    return Creature(name, body, fill_s, {})


def _slc(name: str, rng: Rng) -> Creature:
    """Static and dynamic SLC, together up to a third of the capacity."""
    body, fill_s = drive_body(rng, op=float(rng.uniform(0.25, 0.6)))
    body |= {
        "slc_bytes": int(rng.uniform(0.01, 0.33) * UNITS) * UNIT_BYTES,
        "slc_dynamic_ppm": int(rng.uniform(0, 1_000_000)),
        "slc_t_prog_ns": body["t_prog_ns"] // 6,
        "slc_t_read_ns": body["t_read_ns"] // 2,
        "slc_full": int(rng.integers(2)),
        "gc_paced": 1,
    }
    return Creature(name, body, fill_s, {})


def _qlc(name: str, rng: Rng) -> Creature:
    made = _slc(name, rng)
    body = made.body | {
        "slc_bits": 4,
        "slc_bytes": int(rng.uniform(0.01, 0.1) * UNITS) * UNIT_BYTES,
        "slc_t_prog_ns": made.body["t_prog_ns"] // 12,
    }
    return replace(made, body=body)


def _buffered(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng)
    body |= {
        "wbuf_bytes": int(rng.uniform(0.005, 0.05) * UNITS) * UNIT_BYTES,
        "cache_bytes": int(rng.uniform(0.0, 0.05) * UNITS) * UNIT_BYTES,
    }
    return Creature(name, body, fill_s, {})


def _block_mapped(name: str, rng: Rng) -> Creature:
    found = animal(int(rng.integers(2**31)), "block-mapped")
    return Creature(name, found.body, found.fill_s, {})


def _bistable(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng)
    slow = float(rng.uniform(0.15, 1.0))
    trouble = {
        "bistable_period_ns": int(2e9 * rng.uniform(300, 1800)),
        "bistable_random": int(rng.integers(2)),
        "bistable_slow_ppm": int(slow * 1e6),
    }
    # Slow phases are of programs and erases, as of garbage collection.
    lower = {key: round(body[key] * (1 + slow)) for key in ("t_prog_ns", "t_erase_ns")}
    return Creature(name, body, fill_s, trouble, lower=lower)


def _stalls(name: str, rng: Rng) -> Creature:
    """From 30 s to 4 h apart, 1 to 15 % of the time."""
    body, fill_s = drive_body(rng)
    for key in ("stall_period_ns", "stall_ns", "stall_random"):
        body.pop(key, None)
    period_s = float(np.exp(rng.uniform(np.log(30), np.log(4 * 3600))))
    share = float(rng.uniform(0.01, 0.15))
    trouble = {
        "stall_period_ns": int(1e9 * period_s),
        "stall_ns": int(1e9 * period_s * share),
        "stall_random": int(rng.integers(2)),
    }
    simulated = period_s < RARE_STALLS_S
    return Creature(
        name, body, fill_s, trouble, leaves=1.0 if simulated else 1 - share, simulated=simulated
    )


def _stepping(name: str, rng: Rng, slow: float, after_fills: float, span: int = 100) -> Creature:
    body, fill_s = drive_body(rng, **({"gc_policy": FIFO} if span < 100 else {}))
    at = PREPARED_FILLS + after_fills
    trouble = {"step_after_ppm": round(at * 1e6), "step_slow_ppm": int(slow * 1e6)}
    return Creature(
        name,
        body,
        fill_s,
        trouble,
        leaves=1 / (1 + slow),
        step_fills=at,
        span_percent=span,
    )


def _late_step(name: str, rng: Rng) -> Creature:
    return _stepping(name, rng, float(rng.uniform(0.15, 2.0)), float(rng.uniform(2.0, 6.0)))


def _cold(name: str, rng: Rng) -> Creature:
    """Nine tenths of the drive are cold; after some fills of the rest the rate collapses."""
    after = 2.2 + 0.1 * float(rng.uniform(0.5, 6.0))
    return _stepping(name, rng, float(rng.uniform(1.0, 4.3)), after, span=10)


def _late_heat(name: str, rng: Rng) -> Creature:
    """Hot only after hours: throttled from then on, or on and off."""
    body, fill_s = drive_body(rng)
    gb_per_s = CAPACITY_BYTES / fill_s / 1e9
    tau_s = float(rng.uniform(1.0, 4.0)) * fill_s
    warm_mk = 60_000
    on_mk = int(rng.uniform(0.6, 0.95) * warm_mk)
    body |= {
        "throttle_mk_per_gb": max(1, min(1_000_000, int(warm_mk / gb_per_s / tau_s))),
        "throttle_tau_ns": int(tau_s * 1e9),
        "throttle_on_mk": on_mk,
        "throttle_off_mk": int(on_mk * rng.uniform(0.75, 0.98)),
        "throttle_slow_ppm": int(rng.uniform(0.2e6, 2e6)),
    }
    return Creature(name, body, fill_s, {}, simulated=True)


FAMILIES: Mapping[str, Callable[[str, Rng], Creature]] = {
    **dict.fromkeys(PLAIN, _plain),
    "slc": _slc,
    "qlc": _qlc,
    "buffered": _buffered,
    "block-mapped": _block_mapped,
    "bistable": _bistable,
    "stalls": _stalls,
    "late-step": _late_step,
    "late-heat": _late_heat,
    "cold-collapse": _cold,
}
EVERYDAY = (*PLAIN, "slc", "qlc", "buffered", "block-mapped")
