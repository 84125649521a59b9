"""Simulate drives from seeds, with the truth about them, to judge steady-state rules by.

Each drive is filled, worn in or not, and then written at random by the core's own closed loop; a
rule sees only the seconds of these writes. The truth comes from the same drive without its planted
trouble, run for twice the time that a rule has. Trouble that makes all service
slower by a factor makes the rate lower by that factor, so the level after a step and the lower
level of a bistable drive follow without a second measurement.

Drives are small (131 072 units, about a thousand superblocks) and slow, so that a fill takes 15 to
90 minutes of their time: write amplification and everything counted in fills does not depend on
the size. Not in the zoo: wear, power loss, read disturb, compression, more than one stream.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import SupportsInt

import numpy as np

from benchmarks.synthetic import BUDGET_FILLS, Floats, Rng, Sample
from ssdbench.sim.core import Drive, Job, Order
from ssdbench.sim.library import Params
from ssdbench.sim.truth import fifo_write_amplification

UNIT_BYTES = 4096
UNITS = 131_072
CAPACITY_BYTES = UNIT_BYTES * UNITS
SEEN_FILLS = BUDGET_FILLS + 0.5
TRUTH_FROM_FILLS, TRUTH_TO_FILLS = 9.0, 13.0
_DIES = 2
_BLOCK_BYTES = CAPACITY_BYTES // 1024 // _DIES  # a superblock is 1/1024 of the drive

Values = dict[str, int]
WRITES = ("{block: 4KiB, read: [0], iodepth: 32, numjobs: 1}",)


@dataclass(frozen=True, slots=True)
class Creature:
    """One drive with what is planted in it, and how it is measured.

    A rule is judged by the warm-up's write alone, a whole run by all that is in its profile.
    """

    family: str
    body: Values  # parameters without the trouble
    fill_s: float  # about, in steady state
    trouble: Values = field(default_factory=dict)
    leaves: float = 1.0  # share of the rate that the trouble leaves
    lower: Values = field(default_factory=dict)  # the drive in its lower level, of two
    simulated: bool = False  # whether the truth needs the trouble in the simulation
    step_fills: float | None = None  # when a step comes, in fills of the drive
    span: float = 1.0  # active range as a share of the drive
    hot: float = 0.0  # share of the range that gets 80 % of the writes; 0: uniform
    worn_in: bool = True  # a random fill before the rule looks
    settle_s: float = 0.0  # until the trouble has settled
    hot_level: bool = False  # whether being throttled may be a level of its own
    single: bool = True  # whether the warm-up's write is all that is measured
    sweeps: tuple[str, ...] = WRITES  # of the profile
    rates: tuple[str, ...] = ()  # likewise
    window: str = "60s"
    truth_s: float = 0.0  # how long the truth takes at least; 0: as long as the fills ask
    wave_s: float = 0.0  # mean time from one planted slow phase to the next
    drift: float = 0.0  # planted, per fill
    named_unit: int = 0  # what the profile says of the mapping unit, true or not; 0: nothing

    @property
    def kind(self) -> str:
        """Steady, bistable or drifting."""
        kinds = {"bistable_period_ns": "bistable", "drift_ppm_per_fill": "drifting"}
        return next((kind for key, kind in kinds.items() if key in self.trouble), "steady")

    @property
    def params(self) -> Values:
        return self.body | self.trouble

    @property
    def capacity_bytes(self) -> int:
        return self.body["capacity_bytes"]

    @property
    def regular(self) -> bool:
        """Whether planted slow phases come by the clock."""
        return self.wave_s > 0 and not self.trouble.get("job_random", 0)

    @property
    def write_s(self) -> float:
        """What a 4 KiB write takes, about."""
        return self.fill_s * UNIT_BYTES / self.capacity_bytes


def animal(seed: int, family: str | None = None) -> Creature:
    """Return the drive of a seed."""
    rng = np.random.default_rng([0x200, seed])
    name = family or list(FAMILIES)[seed % len(FAMILIES)]
    return FAMILIES[name](name, rng)


def sample(seed: int, family: str | None = None) -> Sample:
    """Simulate the drive of a seed for as long as a rule may look; return its rates and truth."""
    creature = animal(seed, family)
    seconds = _seconds(creature, seed, creature.params, SEEN_FILLS)
    span_bytes = _span_bytes(creature)
    truth = math.nan
    if creature.kind != "drifting":
        calm = _seconds(creature, seed, creature.body, TRUTH_TO_FILLS)
        fills = np.cumsum(calm) / span_bytes
        truth = float(calm[fills > TRUTH_FROM_FILLS].mean()) * creature.leaves
    unseen_until_s = _unseen(creature, seconds, truth)
    return Sample(
        creature.family, creature.kind, seconds, float(span_bytes), truth, truth, unseen_until_s
    )


def _unseen(creature: Creature, seconds: Floats, truth: float) -> float:
    """Return when a rule can first know the lower level: at a planted step or slow phase."""
    if creature.step_fills is not None:
        written = np.cumsum(seconds) / CAPACITY_BYTES
        return float(np.searchsorted(written, creature.step_fills))
    if creature.kind != "bistable":
        return 0.0
    minutes = seconds[: len(seconds) // 60 * 60].reshape(-1, 60).mean(axis=1)
    low = np.flatnonzero(minutes < truth / math.sqrt(creature.leaves))
    return 60.0 * float(low[0]) if len(low) else math.inf


def _span_bytes(creature: Creature) -> int:
    return int(creature.span * UNITS) * UNIT_BYTES


def _seconds(creature: Creature, seed: int, values: Values, fills: float) -> Floats:
    """Return the bytes of each second of the workload after the drive was prepared."""
    drive = Drive.in_memory(Params(values | {"seed": seed + 1}))
    drive.run(Job(order=Order.SEQUENTIAL, block_bytes=1 << 20, stop_bytes=CAPACITY_BYTES))
    if creature.worn_in:
        drive.run(Job(seed=seed + 7, stop_bytes=CAPACITY_BYTES))
    total, longest_s = int(fills * _span_bytes(creature)), int(12 * fills * creature.fill_s)
    if creature.hot:
        return _binned(_hot_and_cold(drive, creature, seed, total), longest_s)
    job = Job(span_bytes=_span_bytes(creature), seed=seed + 11, stop_bytes=total)
    result = drive.run(job, seconds=longest_s)
    bytes_done = np.asarray(result.seconds["bytes"].sum(axis=1), dtype=np.float64)
    return bytes_done[: int(result.duration_s)]  # the last second is cut


_SLICE_BYTES = 320 * UNIT_BYTES


def _hot_and_cold(
    drive: Drive, creature: Creature, seed: int, total: int
) -> Iterator[tuple[float, int]]:
    """Yield (seconds, bytes) of alternating slices, with 80 % of the bytes to the hot share."""
    hot_bytes = int(creature.hot * UNITS) * UNIT_BYTES
    for index in range(total // _SLICE_BYTES):
        duration_s, size = 0.0, 0
        for share, offset, span in (
            (0.8, 0, hot_bytes),
            (0.2, hot_bytes, CAPACITY_BYTES - hot_bytes),
        ):
            job = Job(
                offset_bytes=offset,
                span_bytes=span,
                seed=seed + 13 + 1_000_003 * index,
                stop_bytes=int(share * _SLICE_BYTES),
            )
            result = drive.run(job)
            duration_s, size = duration_s + result.duration_s, size + sum(result.bytes)
        yield duration_s, size


def _binned(slices: Iterator[tuple[float, int]], longest_s: int) -> Floats:
    """Return the bytes of each second from slices that lie across seconds."""
    pairs = np.array([(0.0, 0.0), *slices]).cumsum(axis=0)
    whole = int(min(pairs[-1, 0], longest_s))
    return np.diff(np.interp(np.arange(whole + 1.0), pairs[:, 0], pairs[:, 1]))


def drive_body(
    rng: Rng, *, op: float | None = None, units: int = UNITS, stalls: bool = True, **more: int
) -> tuple[Values, float]:
    """Draw a page-mapped drive whose fill takes 15 to 90 minutes, with noise and stalls.

    Without `stalls` it is the same drive, and never stalls.
    """
    block_bytes = _BLOCK_BYTES * units // UNITS
    spare = float(np.exp(rng.uniform(np.log(0.07), np.log(0.5)))) if op is None else op
    fill_s = float(rng.uniform(900, 5400))
    amplification = fifo_write_amplification(1 + spare)
    # per unit written: programs of four units, an erase per block, a read per unit moved
    per_unit = amplification * (0.25 + 5 * UNIT_BYTES / block_bytes) + (amplification - 1) * 0.08
    t_prog_s = fill_s * _DIES / units / per_unit
    values: Values = {
        "capacity_bytes": UNIT_BYTES * units,
        "op_ppm": round(spare * 1e6),
        "map_unit_bytes": UNIT_BYTES,
        "channels": _DIES,
        "dies_per_channel": 1,
        "program_unit_bytes": 4 * UNIT_BYTES,
        "read_unit_bytes": 4 * UNIT_BYTES,
        "erase_block_bytes": block_bytes,
        "t_prog_ns": round(1e9 * t_prog_s),
        "t_read_ns": round(1e8 * t_prog_s),
        "t_erase_ns": round(5e9 * t_prog_s),
        "wbuf_bytes": 64 * UNIT_BYTES,
        "gc_paced": int(rng.integers(2)),
        "noise_ppm": int(rng.uniform(0, 300_000)),
    }
    if rng.integers(2):
        planted = stalling(1e9 * rng.uniform(30, 900), 1e9 * rng.uniform(0.2, 3), at_random=1)
        values |= planted if stalls else {}
    return values | more, fill_s


def stalling(period_ns: float, stall_ns: float, at_random: SupportsInt) -> Values:
    """Return the parameters of a drive that does nothing for a while, now and then."""
    times = {"stall_period_ns": int(period_ns), "stall_ns": int(stall_ns)}
    return times | {"stall_random": int(at_random)}


def heat(rng: Rng, fill_s: float, tau_s: float, least: float, most: float) -> Values:
    """Draw the throttling of a drive that is hot from a share of its final warmth on."""
    gb_per_s = CAPACITY_BYTES / fill_s / 1e9
    warm_mk = 60_000  # in equilibrium at full speed
    on_mk = int(rng.uniform(least, most) * warm_mk)
    return {
        "throttle_mk_per_gb": max(1, min(1_000_000, int(warm_mk / gb_per_s / tau_s))),
        "throttle_tau_ns": int(tau_s * 1e9),
        "throttle_on_mk": on_mk,
        "throttle_off_mk": int(on_mk * rng.uniform(0.75, 0.98)),
        "throttle_slow_ppm": int(rng.uniform(0.2e6, 2e6)),
    }


def _page(name: str, rng: Rng) -> Creature:
    policy = int(rng.integers(3))
    body, fill_s = drive_body(rng, gc_policy=policy)
    return Creature(name, body, fill_s, worn_in=bool(rng.integers(2)))


def _little_spare(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng, op=float(rng.uniform(0.05, 0.12)))
    return Creature(name, body, fill_s, worn_in=bool(rng.integers(2)))


def _slc(name: str, rng: Rng) -> Creature:
    cache = float(rng.uniform(0.01, 0.06))
    body, fill_s = drive_body(rng, op=float(rng.uniform(0.25, 0.6)))
    body |= {
        "slc_bytes": int(cache * UNITS) * UNIT_BYTES,
        "slc_dynamic_ppm": int(rng.uniform(0, 500_000)),
        "slc_t_prog_ns": body["t_prog_ns"] // 6,
        "slc_t_read_ns": body["t_read_ns"] // 2,
        "slc_full": int(rng.integers(2)),
        "gc_paced": 1,
    }
    return Creature(name, body, fill_s, worn_in=bool(rng.integers(2)))


def _bistable(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng)
    slow = float(rng.uniform(0.15, 1.0))
    trouble = {
        "bistable_period_ns": int(2e9 * rng.uniform(600, 1800)),
        "bistable_random": 1,
        "bistable_slow_ppm": int(slow * 1e6),
    }
    return Creature(name, body, fill_s, trouble=trouble, leaves=1 / (1 + slow))


def _late_step(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng)
    slow, after = float(rng.uniform(0.15, 2.0)), float(rng.uniform(1.0, 5.0))
    before = 2.0  # one sequential and one random fill of preparation count, too
    trouble = {
        "step_after_ppm": round((after + before) * 1e6),
        "step_slow_ppm": int(slow * 1e6),
    }
    return Creature(name, body, fill_s, trouble=trouble, leaves=1 / (1 + slow), step_fills=after)


def _drifting(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng, op=float(rng.uniform(0.15, 0.5)))
    trouble = {"drift_ppm_per_fill": int(rng.uniform(80_000, 400_000))}
    return Creature(name, body, fill_s, trouble=trouble)


def _buffered(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng)
    body |= {
        "wbuf_bytes": int(rng.uniform(0.005, 0.05) * UNITS) * UNIT_BYTES,
        "cache_bytes": int(rng.uniform(0.0, 0.05) * UNITS) * UNIT_BYTES,
    }
    return Creature(name, body, fill_s, worn_in=bool(rng.integers(2)))


def _hot_cold(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng)
    return Creature(name, body, fill_s, hot=float(rng.uniform(0.05, 0.3)))


def _part(name: str, rng: Rng) -> Creature:
    """Write part of the range only; the rest holds data that is never written again."""
    body, fill_s = drive_body(rng)
    return Creature(name, body, fill_s, span=float(rng.uniform(0.3, 0.8)))


def _throttling(name: str, rng: Rng) -> Creature:
    """Heat up at work, slow down, cool, and so on; or stay slow."""
    body, fill_s = drive_body(rng)
    tau_s = float(np.exp(rng.uniform(np.log(60), np.log(1200))))
    body |= heat(rng, fill_s, tau_s, 0.5, 0.9)
    return Creature(name, body, fill_s)


def _block_mapped(name: str, rng: Rng) -> Creature:
    body, fill_s = drive_body(rng)
    pages = int(rng.choice([32, 64, 128]))
    write_s = fill_s / UNITS  # about a merge per write: a block copied and two erased
    body |= {
        "ftl": 1,
        "block_bytes": pages * UNIT_BYTES,
        "log_blocks": int(rng.integers(2, 9)),
        "merge_page_ns": int(0.6e9 * write_s / pages),
        "t_erase_ns": int(0.15e9 * write_s),
        "t_prog_ns": int(0.1e9 * write_s),
        "t_read_ns": int(0.02e9 * write_s),
    }
    return Creature(name, body, fill_s, worn_in=bool(rng.integers(2)))


FAMILIES: dict[str, Callable[[str, Rng], Creature]] = {
    "page-mapped": _page,
    "little-spare": _little_spare,
    "slc-cache": _slc,
    "sim-bistable": _bistable,
    "sim-late-step": _late_step,
    "sim-drifting": _drifting,
    "buffer-heavy": _buffered,
    "hot-and-cold": _hot_cold,
    "partial-span": _part,
    "throttling": _throttling,
    "block-mapped": _block_mapped,
}
