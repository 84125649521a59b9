"""Drives from a seed for whole runs, with what is planted in them and what is measured.

A run fills the drive once in order (`profile`), so whatever is planted counts from there.
`SINGLE` families are measured by the warm-up's random write alone; the profiles of the others have
reads, mixes, several blocks and orders, rates, and targets. What is true of each load is in
`published_truth`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import zoo
from benchmarks.synthetic import Rng
from benchmarks.zoo import CAPACITY_BYTES, UNIT_BYTES, UNITS, WRITES, Creature, Values, drive_body
from ssdbench.sim.library import DIRECT, parameters
from ssdbench.stats.risk import HASTY, SHORT, WHOLE
from ssdbench.units import KIB

PREPARED_FILLS = 1.0
HORIZON_S = 600.0
HOUR_S = 3600.0
RARE_STALLS_S = 1200.0  # from there on what a stall lets the buffer drain is below 0.3 %
GREEDY, FIFO, DCHOICE = range(3)
PLAIN = {"plain-greedy": GREEDY, "plain-fifo": FIFO, "plain-dchoice": DCHOICE}


def creature(seed: int, family: str | None = None, among: Sequence[str] = ()) -> Creature:
    """The drive of that seed, of one family or of one among several, in turn."""
    rng = np.random.default_rng([0x9B1, seed])
    names = among or SINGLE
    name = family or names[seed % len(names)]
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


EVIDENCE = {  # as `--budget` cuts it down: rule, fills of the warm-up, repeats
    WHOLE: ("pss", 6, 10),
    SHORT: ("pss", 3, 10),
    HASTY: ("pss-quick", 1.5, 3),
}


def profile(made: Creature, evidence: str = WHOLE, targets: Sequence[str] = ()) -> str:
    """What is run: fills, warm-up, repeats of the points, rates; and what the drive must hold."""
    span = "" if made.span == 1 else f", span: {100 * made.span:g}%"
    sweeps = [f"  - sweep: {text[:-1]}{span}}}" for text in made.sweeps]
    measure = "\n".join(sweeps + [f"  - rate: {text}" for text in made.rates])
    accept = "\n".join(["accept:", *(f"  - {text}" for text in targets)]) if targets else ""
    rule, max_fills, repeats = EVIDENCE[evidence]
    unit = f"unit: {made.named_unit}\n" if made.named_unit else ""
    return f"""title: a whole run
{unit}precondition: [{{pattern: sequential, block: 128KiB, fill: 1}}]
steady:
  rule: {rule}
  workload: {{block: 4KiB, iodepth: 32, numjobs: 1}}
  max_fills: {max_fills}
repeats: {repeats}
window: {made.window}
settle: {{window: 3m}}
measure:
{measure}
{accept}
"""


def write(made: Creature, directory: Path, evidence: str = WHOLE) -> tuple[str, str]:
    """Target and profile of its run; the model file lies in the directory."""
    path = directory / "drive.yaml"
    path.write_text(model_yaml(made))
    return f"sim:{path}", profile(made, evidence)


def _plain(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng, gc_policy=PLAIN[name])
    return Creature(name, body, fill_s)


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
    return Creature(name, body, fill_s)


def _qlc(name: str, rng: Rng) -> Creature:
    made = _slc(name, rng)
    body = made.body | {
        "slc_bits": 4,
        "slc_bytes": int(rng.uniform(0.01, 0.1) * UNITS) * UNIT_BYTES,
        "slc_t_prog_ns": made.body["t_prog_ns"] // 12,
    }
    return replace(made, body=body)


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
    body, fill_s = drive_body(rng, stalls=False)
    period_s = float(np.exp(rng.uniform(np.log(30), np.log(4 * 3600))))
    share = float(rng.uniform(0.01, 0.15))
    period_ns = 1e9 * period_s
    trouble = zoo.stalling(period_ns, period_ns * share, rng.integers(2))
    simulated = period_s < RARE_STALLS_S
    return Creature(
        name, body, fill_s, trouble, leaves=1.0 if simulated else 1 - share, simulated=simulated
    )


def _stepping(name: str, rng: Rng, slow: float, after_fills: float, span: float = 1.0) -> Creature:
    body, fill_s = drive_body(rng)
    body |= {"gc_policy": FIFO} if span < 1 else {}
    at = PREPARED_FILLS + after_fills
    trouble = {"step_after_ppm": round(at * 1e6), "step_slow_ppm": int(slow * 1e6)}
    leaves = 1 / (1 + slow)
    return Creature(name, body, fill_s, trouble, leaves, step_fills=at, span=span)


def _late_step(name: str, rng: Rng) -> Creature:
    return _stepping(name, rng, float(rng.uniform(0.15, 2.0)), float(rng.uniform(2.0, 6.0)))


def _cold(name: str, rng: Rng) -> Creature:
    """Nine tenths of the drive are cold; after some fills of the rest the rate collapses."""
    after = 2.2 + 0.1 * float(rng.uniform(0.5, 6.0))
    return _stepping(name, rng, float(rng.uniform(1.0, 4.3)), after, span=0.1)


def _late_heat(name: str, rng: Rng) -> Creature:
    """Hot only after hours: throttled from then on, or on and off."""
    body, fill_s = drive_body(rng)
    tau_s = float(rng.uniform(1.0, 4.0)) * fill_s
    body |= zoo.heat(rng, fill_s, tau_s, 0.6, 0.95)
    return Creature(name, body, fill_s, simulated=True, settle_s=8 * tau_s, hot_level=True)


READS = "{block: 4KiB, read: [100, 70, 0], iodepth: 32, numjobs: 1}"
MIXES = "{block: 4KiB, read: [70, 0], iodepth: 32, numjobs: 1}"
ONLY_READS = "{block: 4KiB, read: [100, 0], iodepth: 32, numjobs: 1}"
SHALLOW = "{block: 4KiB, read: [100, 70], iodepth: 4, numjobs: 1}"
IN_ORDER = "{pattern: sequential, block: 128KiB, read: [0], iodepth: 8, numjobs: 1}"
LAYOUTS = (
    ("{block: [4KiB, 64KiB], read: [70, 0], iodepth: 32, numjobs: 1}",),
    ("{block: [4KiB, 16KiB], read: [100, 50, 0], iodepth: 32, numjobs: 1}",),
    (*WRITES, IN_ORDER),
    (MIXES, IN_ORDER),
    ("{block: [4KiB, 128KiB], read: [100, 0], iodepth: 16, numjobs: 1}", IN_ORDER),
    ("{block: [4KiB, 8KiB, 64KiB], read: [0], iodepth: 32, numjobs: 1}", SHALLOW),
)


# Of the largest random block. Where a block of the load is as large as an erase block, the rate
# depends for ever on where the first one began (by 18 % on one drive); real ones are megabytes.
PER_ERASE_BLOCK = 4


def _largest_bytes(sweep: str) -> int:
    """The largest block that a sweep writes or reads at random; 0 for one in order."""
    if "sequential" in sweep:
        return 0
    return max(int(size) * KIB for size in re.findall(r"(\d+)KiB", sweep))


def _whole(
    name: str,
    rng: Rng,
    sweeps: Sequence[tuple[str, ...]],
    *,
    op: float | None = None,
    larger: int = 1,
    trouble: Callable[[Rng, "Rates"], Values] = lambda rng, rates: {},
    settle_s: float = 0.0,
    truth_s: float = 0.0,
    periods: int = 0,
) -> Creature:
    """A drive without stalls of 128 to 512 MiB that is measured by a whole profile.

    `larger`: times that size, and as much faster, so its rates vary less.
    """
    units = larger * UNITS // int(rng.choice([1, 2, 4]))
    op = float(np.exp(rng.uniform(np.log(0.1), np.log(0.4)))) if op is None else op
    body, fill_s = drive_body(rng, op=op, units=units, stalls=False, gc_policy=int(rng.integers(3)))
    rates = Rates(units / fill_s, 2e9 / body["t_read_ns"], body["capacity_bytes"])
    planted = trouble(rng, rates)
    wave_s = max(planted.get("job_period_ns", 0), planted.get("wave_period_ns", 0)) / 1e9
    chosen = sweeps[int(rng.integers(len(sweeps)))]
    least = PER_ERASE_BLOCK * max(map(_largest_bytes, chosen))
    body["erase_block_bytes"] = max(body["erase_block_bytes"], least)
    return Creature(
        name,
        body,
        fill_s,
        planted,
        simulated=True,
        single=False,
        sweeps=chosen,
        window="5m" if rng.integers(3) == 0 else "60s",
        settle_s=max(settle_s, 8e-9 * planted.get("throttle_tau_ns", 0)),
        truth_s=max(truth_s, periods * wave_s),
        wave_s=wave_s,
        drift=planted.get("drift_ppm_per_fill", 0) / 1e6,
    )


@dataclass(frozen=True, slots=True)
class Rates:
    """About how fast a drive is, for troubles that follow from what it does."""

    write_iops: float
    read_iops: float
    capacity_bytes: int

    def mixed(self, read: float) -> float:
        """Bytes a second of a mix."""
        return UNIT_BYTES / (read / self.read_iops + (1 - read) / self.write_iops)


def _heat(
    rng: Rng, rates: Rates, *, read: float, least: float, tau_s: float, most: float = 0.85
) -> Values:
    """Throttled by a mix of that share of reads, from a share of its warmth on."""
    tau_s *= float(rng.uniform(0.5, 2.0))
    per_gb_mk = min(1_000_000.0, 500_000 / (rates.mixed(read) / 1e9) / tau_s)
    warm_mk = per_gb_mk * rates.mixed(read) / 1e9 * tau_s
    on_mk = rng.uniform(least, most) * warm_mk
    return {
        "throttle_mk_per_gb": max(1, round(per_gb_mk)),
        "throttle_tau_ns": round(1e9 * tau_s),
        "throttle_on_mk": round(on_mk),
        "throttle_off_mk": round(on_mk * rng.uniform(0.8, 0.97)),
        "throttle_slow_ppm": round(rng.uniform(0.2e6, 1.0e6)),
    }


def _long_stalls(rng: Rng, rates: Rates) -> Values:
    stall_s = rng.uniform(30, 90)
    return {
        "stall_period_ns": round(1e9 * stall_s * rng.uniform(8, 40)),
        "stall_ns": round(1e9 * stall_s),
        "stall_random": int(rng.integers(2)),
    }


def _jobs(
    rng: Rng, rates: Rates, *, hours: tuple[float, float], minutes: tuple[float, float]
) -> Values:
    period_s = rng.uniform(*hours) * HOUR_S
    return {
        "job_period_ns": round(1e9 * period_s),
        "job_first_ns": round(1e9 * period_s * rng.uniform(0.1, 1.0)),
        "job_ns": round(6e10 * rng.uniform(*minutes)),
        "job_slow_ppm": round(rng.uniform(0.2e6, 1.0e6)),
        "job_random": int(rng.integers(2)),
    }


def _history(rng: Rng, rates: Rates) -> Values:
    tau_s = rng.uniform(0.2, 2.0) * HOUR_S
    level = tau_s * rates.write_iops * UNIT_BYTES / rates.capacity_bytes
    return {
        "history_tau_ns": round(1e9 * tau_s),
        "history_full_ppm": max(1000, round(1e6 * level * rng.uniform(0.3, 1.5))),
        "history_slow_ppm": round(rng.uniform(0.2e6, 1.0e6)),
    }


def _burst(rng: Rng, rates: Rates) -> Values:
    """Refilled at up to the slow rate: it comes and goes, or is used up for good."""
    slow = rng.uniform(0.3, 1.5)
    slow_kbps = rates.write_iops * UNIT_BYTES / (1 + slow) / 1000
    return {
        "burst_ppm": round(rng.uniform(0.1e6, 3e6)),
        "burst_read_ppm": int(rng.integers(2)) * round(rng.uniform(20_000, 100_000)),
        "burst_refill_kbps": max(1, round(slow_kbps * rng.uniform(0.2, 1.5))),
        "burst_again_ppm": round(rng.uniform(0.2e6, 0.8e6)),
        "burst_slow_ppm": round(1e6 * slow),
    }


def _creep(rng: Rng, rates: Rates) -> Values:
    return {"drift_ppm_per_fill": round(np.exp(rng.uniform(np.log(1000), np.log(30_000))))}


def _disturb(rng: Rng, rates: Rates) -> Values:
    return {
        "read_disturb_ppm": round(rng.uniform(0.2e6, 2e6)),
        "read_disturb_slow_ppm": round(rng.uniform(0.3e6, 1.0e6)),
        "read_disturb_heal_ppm": round(rng.uniform(5e6, 40e6)),
    }


def _day(rng: Rng, rates: Rates) -> Values:
    return {
        "wave_period_ns": round(1e9 * HOUR_S * rng.uniform(4, 36)),
        "wave_slow_ppm": round(rng.uniform(0.1e6, 0.4e6)),
        "wave_phase_ppm": int(rng.integers(1_000_000)),
    }


def _region(rng: Rng, rates: Rates) -> Values:
    begin, share = rng.uniform(0, 0.6), rng.uniform(0.05, 0.4)
    return {
        "region_from_ppm": round(1e6 * begin),
        "region_to_ppm": round(1e6 * (begin + share)),
        "region_ns": round(1e9 / rates.write_iops * rng.uniform(0.5, 3.0)),
    }


def _recognise(rng: Rng, rates: Rates) -> Values:
    return {
        "recognise_ppm": round(rng.uniform(0.2e6, 3e6)),
        "recognise_slow_ppm": round(rng.uniform(0.2e6, 1.0e6)),
    }


def _tail(rng: Rng, rates: Rates) -> Values:
    return {
        "tail_ppb": round(1e9 * np.exp(rng.uniform(np.log(1e-5), np.log(5e-3)))),
        "tail_ns": round(1e9 * np.exp(rng.uniform(np.log(0.5), np.log(30)))),
    }


IN_BYTES = (
    "capacity_bytes", "map_unit_bytes", "program_unit_bytes", "read_unit_bytes",
    "erase_block_bytes", "wbuf_bytes",
)  # fmt: skip
OF_UNITS = (
    ("{block: [4KiB, 64KiB], read: [70, 0], iodepth: 32, numjobs: 1}",),
    ("{block: [4KiB, 8KiB, 16KiB], read: [100, 70, 0], iodepth: 32, numjobs: 1}",),
    ("{block: [4KiB, 16KiB], read: [0], iodepth: 32, numjobs: 1}", SHALLOW),
)


def _of_units(name: str, rng: Rng) -> Creature:
    """A plain drive whose mapping unit is 8 to 64 KiB: all sizes grow with it, times stay."""
    made = _whole(name, rng, OF_UNITS)
    unit_bytes = UNIT_BYTES * 2 ** int(rng.integers(1, 5))
    larger = {key: made.body[key] * unit_bytes // UNIT_BYTES for key in IN_BYTES}
    return replace(made, body=made.body | larger)


def _named_wrongly(name: str, rng: Rng) -> Creature:
    """A plain drive with a unit of 4 KiB, of which the profile says that it is larger.

    Half of them are as fast for any block up to some size: commands limit them.
    """
    made = _whole(name, rng, OF_UNITS)
    named = UNIT_BYTES * 2 ** int(rng.integers(1, 5))
    limit = {}
    if rng.integers(2):
        limit = {"cmd_serial_ns": round(1e9 * made.write_s * rng.uniform(0.3, 3.0))}
    return replace(made, body=made.body | limit, named_unit=named)


def _rated(name: str, rng: Rng) -> Creature:
    """A drive with or without collection, the highest rate within a limit, a limit at a rate.

    It is faster than the others, since fio offers whole numbers of requests a second. The search
    sends each request by itself: such a drive takes ten times the processor time of another.
    """
    made = _whole(name, rng, [(MIXES,)])
    iops = float(rng.uniform(40, 100))
    collects = bool(rng.integers(2))
    faster = made.write_s * iops if collects else made.body["t_prog_ns"] * iops / 2e9
    times = {
        key: round(made.body[key] / faster) for key in ("t_prog_ns", "t_read_ns", "t_erase_ns")
    }
    ftl = {} if collects else {"ftl": DIRECT}
    read = int(rng.choice([0, 70]))
    limit_ms = 1000 / iops * rng.uniform(4, 40)
    percentile = "p99" if rng.integers(2) else "p90"
    asked = f"{{block: 4KiB, read: {read}, percentile: {percentile}, limit: {limit_ms:.0f}ms}}"
    fill_s = made.capacity_bytes / UNIT_BYTES / iops
    return replace(made, body=made.body | times | ftl, fill_s=fill_s, rates=(asked,))


READ_HEAT = partial(
    _whole, sweeps=[(READS,), (ONLY_READS,)],
    trouble=partial(_heat, read=1.0, least=0.3, tau_s=1200),
)  # fmt: skip
MIX_HEAT = partial(
    _whole, sweeps=[(READS,), (MIXES,)], trouble=partial(_heat, read=0.7, least=0.65, tau_s=1800)
)
RARE_SLOW = partial(
    _whole, sweeps=[(MIXES,), WRITES], periods=40,
    trouble=partial(_jobs, hours=(1.5, 5), minutes=(10, 40)),
)  # fmt: skip
PROFILES: Mapping[str, Callable[[str, Rng], Creature]] = {
    "plain-4k": partial(_whole, sweeps=[WRITES]),
    "plain-layouts": partial(_whole, sweeps=LAYOUTS),
    "plain-mixes": partial(_whole, sweeps=[(READS,), (READS, SHALLOW)]),
    "plain-rates": _rated,
    "low-spare": lambda name, rng: _whole(
        name, rng, [(READS,), (MIXES,)], op=float(rng.uniform(0.035, 0.07))
    ),
    "read-heat": READ_HEAT,
    "mix-heat": MIX_HEAT,
    "point-heat": partial(
        _whole, sweeps=[(READS, SHALLOW), (READS, IN_ORDER)],
        trouble=partial(_heat, read=1.0, least=0.15, most=0.45, tau_s=3600),
    ),
    "long-stalls": partial(
        _whole, sweeps=[WRITES, (MIXES,)], trouble=_long_stalls, truth_s=60 * HOUR_S
    ),
    "rare-slow": RARE_SLOW,
    "long-jobs": partial(
        _whole, sweeps=[(MIXES,), WRITES, (READS,)], periods=20,
        trouble=partial(_jobs, hours=(5, 9), minutes=(10, 70)),
    ),
    "history": partial(
        _whole, sweeps=[(READS,), (MIXES,)], trouble=_history, settle_s=12 * HOUR_S
    ),
    "burst": partial(
        _whole, sweeps=[(READS,), (MIXES,)], trouble=_burst, settle_s=8 * HOUR_S,
        truth_s=60 * HOUR_S,
    ),
    "creep": partial(_whole, sweeps=[WRITES, (MIXES,)], trouble=_creep),
    "read-disturb": partial(
        _whole, sweeps=[(READS,), (ONLY_READS,)], trouble=_disturb, settle_s=12 * HOUR_S
    ),
    "day": partial(_whole, sweeps=[WRITES, (MIXES,)], trouble=_day, periods=3),
    "region": partial(_whole, sweeps=[(READS,), (MIXES,)], trouble=_region),
    "recognise": partial(
        _whole, sweeps=[(*WRITES, IN_ORDER), (MIXES, IN_ORDER), (READS,)], trouble=_recognise
    ),
    "tail": partial(_whole, sweeps=[(READS,), (MIXES,)], trouble=_tail),
}  # fmt: skip
# Not among PROFILES: the drive of each seed there stays what it was.
OF_UNIT = {"unit": _of_units, "unit-named-wrongly": _named_wrongly}
FAST: Mapping[str, Callable[[str, Rng], Creature]] = {
    "fast-layouts": partial(_whole, sweeps=LAYOUTS, larger=4),
    "fast-mix-heat": partial(MIX_HEAT, larger=4),
    "fast-read-heat": partial(READ_HEAT, larger=4),
    "fast-rare-slow": partial(RARE_SLOW, larger=4, sweeps=[(MIXES,), (READS,)]),
}
# In turn, with more of the plain drives that most users have.
CYCLE = (
    *PROFILES,
    *["plain-layouts"] * 4,
    *("plain-4k", "plain-mixes", "plain-rates", "read-heat", "mix-heat"),
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fits to a real drive's rates of writes found: the range of each value (fidelity.md)."""

    spare: tuple[float, float]
    policies: tuple[tuple[int, int], ...]  # gc_policy, gc_d
    copy_cost: float
    superblocks: tuple[float, float]  # of the drive


# Fitted to series that SSD-iq published (Haas et al. 2025); the series are not part of ssdbench.
REAL: Mapping[str, Fitted] = {
    "like-cm7-r": Fitted((0.152, 0.2), ((GREEDY, 10),), 0.0, (894, 894)),
    "like-pe8110": Fitted((0.1, 0.107), ((GREEDY, 10),), 0.0, (447, 596)),
    "like-7450-max": Fitted((0.459, 0.459), ((GREEDY, 10),), 0.5, (372, 497)),
    "like-7450-pro": Fitted((0.187, 0.2), ((GREEDY, 10),), 0.2, (447, 447)),
    "like-pm9a3": Fitted((0.087, 0.1), ((GREEDY, 10),), 1.0, (224, 224)),
    "like-wd-dc": Fitted(
        (0.066, 0.141), ((DCHOICE, 6), (DCHOICE, 16), (FIFO, 10)), 1.0, (224, 894)
    ),
    "like-p5520": Fitted((0.152, 0.303), ((DCHOICE, 40), (DCHOICE, 6)), 0.5, (112, 224)),
}
KEPT = 4  # superblocks that are never spare, as of a model file of `sim fit`


def _like_real(name: str, rng: Rng) -> Creature:
    """A drive around one that was fitted, but smaller, and as slow as all others here.

    Write amplification depends on ratios only. So spare area, policy, cost of copying and the
    number of superblocks are those of the fit. No fit tells noise, so there is little.
    """
    found = REAL[name]
    spare = float(np.exp(rng.uniform(*np.log(found.spare))))
    policy, choices = found.policies[int(rng.integers(len(found.policies)))]
    body, fill_s = drive_body(rng, op=spare, stalls=False, gc_policy=policy, gc_d=choices)
    dies = body["channels"] * body["dies_per_channel"]
    stripe = dies * body["program_unit_bytes"]
    superblock = round(CAPACITY_BYTES / float(rng.uniform(*found.superblocks)) / stripe) * stripe
    program_ns = body["t_prog_ns"] * UNIT_BYTES / body["program_unit_bytes"]
    body |= {
        "op_ppm": round(1e6 * (spare + KEPT * superblock / CAPACITY_BYTES)),
        "erase_block_bytes": superblock // dies,
        "read_unit_bytes": UNIT_BYTES,
        "t_read_ns": round(found.copy_cost * program_ns),
        "t_erase_ns": 0,
        "noise_ppm": int(rng.uniform(0, 30_000)),
        "gc_paced": 0,
    }
    return Creature(name, body, fill_s)


_SINGLE: Mapping[str, Callable[[str, Rng], Creature]] = {
    **dict.fromkeys(PLAIN, _plain),
    "slc": _slc,
    "qlc": _qlc,
    "buffered": zoo.FAMILIES["buffer-heavy"],
    "block-mapped": lambda name, rng: zoo.animal(int(rng.integers(2**31)), name),
    "bistable": _bistable,
    "stalls": _stalls,
    "late-step": _late_step,
    "late-heat": _late_heat,
    "cold-collapse": _cold,
}
SINGLE = tuple(_SINGLE)
FAMILIES = {**_SINGLE, **PROFILES, **OF_UNIT, **FAST, **dict.fromkeys(REAL, _like_real)}
EVERYDAY = (*PLAIN, "slc", "qlc", "buffered", "block-mapped")
SETS = {
    "single": SINGLE,
    "profiles": CYCLE,
    "units": tuple(OF_UNIT),
    "fast": tuple(FAST),
    "real": tuple(REAL),
}
