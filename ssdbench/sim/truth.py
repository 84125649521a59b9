"""Compute the true values of a simulated drive by formulas: write amplification, rates, sizes.

The formulas ("closed forms") share no code with the core, so they can check it:

* Write amplification of uniform random writes: Desnoyers, "Analytic modeling of SSD write
  performance" (SYSTOR 2012, ACM TOS 2014) for greedy garbage collection with a finite number of
  units per block, and Xiang and Kurkoski (arXiv:1110.4245) for FIFO. Both papers use Lambert's W
  and ignore the blocks that a finite drive cannot use as spare.
* Sustained IOPS: the time for which one host write uses each resource (dies, channels, link, serial
  part of a command); the busiest resource sets the limit. These sustained IOPS are an upper
  bound. The formula is not used if dies are often idle because the buffer is small.

For all other loads, `ssdbench.sim.simulation` runs the core for a long time.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ssdbench.errors import UsageError
from ssdbench.model.workload import Pattern
from ssdbench.sim.library import BLOCKLOG, DIRECT, FIFO, GREEDY, PAGE
from ssdbench.stats.distributions import one_plus_lambert
from ssdbench.units import MIB, NS_PER_S, format_size

# Idle share of the dies x write amplification x buffered units per die, for partial and for whole
# units; fitted to the core (5 % to 100 % of the drive, 1 to 50 units per die). Dies become idle
# because writes go to them in turn, but reads for partial writes and for garbage collection do not.
# With a larger buffer they are idle less.
IDLE_PARTIAL, IDLE_WHOLE = 0.2, 0.1
IDLE_MOST = 0.02  # if dies are idle longer, the rate is simulated
# Desnoyers's formula treats the number of units that a collection frees as continuous, so it needs
# at least this many. Compared with the core (3 % to 28 % spare, 10 to 160 units per superblock,
# 256 MiB to 4 GiB), the rate is then between 0.5 % too low and 1.7 % too high; with 2 units it is
# up to 10 % too high.
LEAST_FREED = 4
TOO_HIGH = 0.02  # most relative error of a rate from a formula
MAX_REQUEST_BYTES = 64 * MIB  # as ssdb_max_request_bytes(); this module does not call the core


class Rest(StrEnum):
    """The content of the drive outside the written span, named as in a profile's span sweep."""

    STATIC = "static"  # written at random
    ORDERED = "ordered"  # written in order
    EMPTY = "empty"


class Method(StrEnum):
    """How a true value was found: by a formula or by a simulation."""

    CLOSED_FORM = "closed form"
    SIMULATION = "simulation"


@dataclass(frozen=True, slots=True)
class Load:
    """A uniform workload, with the parameters that the true values depend on."""

    block_bytes: int = 4096
    read_percent: int = 0
    iodepth: int = 32
    span_bytes: int | None = None  # from the start of the drive; None means the whole drive
    pattern: Pattern = Pattern.RANDOM
    rest: Rest = Rest.ORDERED
    at_fills: float | None = None  # drive writes before the measurement; None: until worn in
    horizon_s: float | None = None  # time to average over; None: the steady state


@dataclass(frozen=True, slots=True)
class DriveTruth:
    """The true values of a drive that do not depend on the load."""

    boundary_bytes: int | None  # block size that strided writes reveal; None: no boundary
    erase_block_bytes: int  # 0 if the drive does not erase
    cache_bytes: int  # rewrites inside the cache do not reach the flash
    remap_unit_bytes: int
    over_provisioning: float  # (physical - exported) / exported size
    spare_usable: float  # the part of over_provisioning that garbage collection can use


@dataclass(frozen=True, slots=True)
class Truth:
    """The true values of a drive under a load."""

    target: str
    drive: DriveTruth
    load: Load
    method: Method
    write_amplification: float | None  # None when nothing is written, or there is no flash
    iops: float
    bytes_per_s: float
    limits_iops: Mapping[str, float] = field(default_factory=dict)  # by resource; formulas only
    limited_by: str = ""
    notes: tuple[str, ...] = ()  # how accurate the values are
    from_fills: float | None = None  # drive writes at the start of a simulated measurement
    to_fills: float | None = None  # and at its end


def greedy_write_amplification(alpha: float, units_per_block: int) -> float:
    """Return the write amplification of greedy collection under uniform random writes.

    `alpha` is the usable physical capacity divided by the exported capacity, and Np the number of
    units per block. The formula is from Desnoyers 2014: k = (1 + 1/2Np) alpha,
    X0 = 1/2 - (Np / alpha) W(-k e^-k), WA = Np / (Np - (X0 - 1)).

    Raises UsageError for a drive without spare area.
    """
    if alpha <= 1:
        raise UsageError("a drive without spare area has no garbage collection")
    np_ = units_per_block
    k = (1 + 1 / (2 * np_)) * alpha
    x0 = 0.5 - np_ / alpha * (one_plus_lambert(k - 1) - 1)
    return np_ / (np_ - (x0 - 1))


def fifo_write_amplification(alpha: float) -> float:
    """Return the write amplification of FIFO collection: alpha / (alpha + W(-alpha e^-alpha)).

    With very large blocks, greedy collection has the same write amplification. Raises UsageError
    for a drive without spare area.
    """
    if alpha <= 1:
        raise UsageError("a drive without spare area has no garbage collection")
    return alpha / (alpha - 1 + one_plus_lambert(alpha - 1))


@dataclass(frozen=True, slots=True)
class Medium:
    """The flash of a drive that maps pages; sizes are counted in map units."""

    user_units: int
    superblock_units: int
    superblocks: int
    reserved_superblocks: float  # superblocks that can never be spare
    dies: int
    units_per_program: int
    programs_per_unit_row: int  # programs per unit, if a unit is larger than a program
    units_per_page: int
    reads_per_page: int

    @property
    def alpha(self) -> float:
        """Return the usable physical capacity divided by the exported capacity."""
        usable = (self.superblocks - self.reserved_superblocks) * self.superblock_units
        return usable / self.user_units


def medium(p: Mapping[str, int]) -> Medium:
    """Return the flash of a page-mapped drive with these parameters."""
    unit = p["map_unit_bytes"]
    program = p["program_unit_bytes"] * p["planes"]
    dies = p["channels"] * p["dies_per_channel"]
    user = p["capacity_bytes"] // unit
    superblock = p["erase_block_bytes"] // unit * dies
    physical = user + user * p["op_ppm"] // 1_000_000
    return Medium(
        user_units=user,
        superblock_units=superblock,
        superblocks=physical // superblock,
        # The low-water mark, and on average half of each superblock that is being filled.
        reserved_superblocks=p["gc_low"] + (p["gc_streams"] + 1) / 2,
        dies=dies,
        units_per_program=max(1, program // unit),
        programs_per_unit_row=max(1, unit // program),
        units_per_page=max(1, p["read_unit_bytes"] // unit),
        reads_per_page=max(1, unit // p["read_unit_bytes"] // p["planes"]),
    )


def write_amplification(p: Mapping[str, int], load: Load) -> float | None:
    """Return the steady write amplification of random writes; None if no formula is known."""
    if load.pattern is not Pattern.RANDOM:
        return 1.0
    if p["ftl"] != PAGE or p["gc_policy"] not in (GREEDY, FIFO):
        return None
    flash = medium(p)
    total = flash.alpha * flash.user_units
    hot = min(flash.user_units, _span(p, load) / p["map_unit_bytes"])
    cold = 0.0 if load.rest is Rest.EMPTY else flash.user_units - hot
    if cold and load.rest is Rest.STATIC:
        return None  # invalid units in superblocks with cold data are never collected
    # A unit that is in the cache has no valid copy in the flash.
    alpha = (total - cold) / max(1.0, hot - p["cache_bytes"] // p["map_unit_bytes"])
    if alpha > 20:
        return 1.0
    if p["gc_policy"] == FIFO and cold:
        return None  # FIFO collection also moves the cold data
    if p["gc_policy"] == FIFO:
        return fifo_write_amplification(alpha)
    per_block = flash.superblock_units // _together(p, load)
    wa = greedy_write_amplification(alpha, max(1, per_block))
    return wa if per_block / wa >= LEAST_FREED else None


def page_limits(p: Mapping[str, int], load: Load, wa: float) -> dict[str, float]:
    """Return the host writes per second that each resource of a page-mapped drive can sustain."""
    flash, unit = medium(p), p["map_unit_bytes"]
    missed = 1 - min(1.0, p["cache_bytes"] / _span(p, load))  # share of writes that miss the cache
    partial = load.block_bytes % unit != 0 and load.pattern is Pattern.RANDOM
    units = float(math.ceil(load.block_bytes / unit))
    if load.pattern is not Pattern.RANDOM:
        units, missed = load.block_bytes / unit, 1.0
    page_ns = p["t_read_ns"] * flash.reads_per_page
    moved = (wa - 1) * _reads_per_unit(wa, flash, _together(p, load))
    die_ns = units * missed * (
        wa * p["t_prog_ns"] * flash.programs_per_unit_row / flash.units_per_program
        + wa * p["t_erase_ns"] / (p["erase_block_bytes"] // unit)
        + moved * page_ns
    ) + (missed * page_ns if partial else 0)
    channel_bytes = unit * missed * (units * (wa + wa - 1) + partial)
    return {
        "dies": flash.dies * NS_PER_S / die_ns if die_ns else math.inf,
        "channels": p["channels"] * p["channel_mbps"] * 1e6 / channel_bytes
        if channel_bytes
        else math.inf,
        **host_limits(p, load, write=True),
    }


def idle_share(p: Mapping[str, int], load: Load, wa: float) -> float:
    """Estimate the share of time that dies are idle although they set the limit; 0 to 1."""
    if load.pattern is not Pattern.RANDOM:
        return 0.0
    unit = p["map_unit_bytes"]
    dies = p["channels"] * p["dies_per_channel"]
    partial = load.block_bytes % unit != 0
    if partial and load.iodepth < dies:  # before buffering, each request needs a read
        return 1.0
    per_die = p["wbuf_bytes"] / unit / dies
    return min(1.0, (IDLE_PARTIAL if partial else IDLE_WHOLE) / (wa * per_die))


def host_limits(p: Mapping[str, int], load: Load, *, write: bool) -> dict[str, float]:
    """Return the I/Os per second that link, commands and queue depth allow."""
    mbps = (p["link_write_mbps"] if write else 0) or p["link_mbps"]
    link_ns = load.block_bytes * 1e3 / mbps
    serial_ns = p["cmd_serial_ns"] + (0 if p["cmd_overlap"] else link_ns)
    latency_ns = p["cmd_serial_ns"] + link_ns + p["fw_write_ns" if write else "fw_read_ns"]
    depth = min(load.iodepth, p["queue_slots"] or load.iodepth)
    return {
        "link": NS_PER_S / link_ns,
        "command": NS_PER_S / serial_ns if serial_ns else math.inf,
        "depth": depth * NS_PER_S / latency_ns if latency_ns else math.inf,
    }


def direct_limits(p: Mapping[str, int], load: Load) -> dict[str, float]:
    """Return the I/Os per second that each resource of a drive without mapping layer allows."""
    write = load.read_percent == 0
    medium_ns = p["t_prog_ns" if write else "t_read_ns"]
    units = math.ceil(load.block_bytes / p["map_unit_bytes"])
    limits = host_limits(p, load, write=write)
    if medium_ns:
        dies = p["channels"] * p["dies_per_channel"]
        limits["medium"] = dies * NS_PER_S / (units * medium_ns)
        alone_ns = load.iodepth * NS_PER_S / limits["depth"] + medium_ns
        limits["depth"] = load.iodepth * NS_PER_S / alone_ns
    return limits


def closed_form(target: str, p: Mapping[str, int], load: Load) -> Truth | None:
    """Compute the true values by formulas; None if no formula is known for this drive and load."""
    check(p, load)
    if not _has_closed_form(p, load):
        return None
    wa = write_amplification(p, load) if p["ftl"] == PAGE else None
    limits = direct_limits(p, load) if wa is None else page_limits(p, load, wa)
    limited_by = min(limits, key=lambda name: limits[name])
    if wa is not None and limited_by == "dies" and idle_share(p, load, wa) > IDLE_MOST:
        return None
    return Truth(
        target=target,
        drive=drive_truth(p),
        load=load,
        method=Method.CLOSED_FORM,
        write_amplification=wa,
        iops=limits[limited_by],
        bytes_per_s=limits[limited_by] * load.block_bytes,
        limits_iops=limits,
        limited_by=limited_by,
        notes=_notes(p, load),
    )


def drive_truth(p: Mapping[str, int]) -> DriveTruth:
    """Return the true values of a drive that do not depend on the load."""
    page = p["ftl"] == PAGE
    boundary = p["block_bytes"] if p["ftl"] == BLOCKLOG else None
    return DriveTruth(
        boundary_bytes=boundary,
        erase_block_bytes=p["erase_block_bytes"] if page else (boundary or 0),
        cache_bytes=p["cache_bytes"] if page else 0,
        remap_unit_bytes=p["map_unit_bytes"],
        over_provisioning=p["op_ppm"] / 1e6 if page else 0.0,
        spare_usable=medium(p).alpha - 1 if page else 0.0,
    )


def check(p: Mapping[str, int], load: Load) -> None:
    """Raise UsageError if the drive cannot run the load."""
    if load.block_bytes % p["lba_bytes"]:
        raise UsageError(
            f"a block of {format_size(load.block_bytes)} is not a multiple of the logical block of "
            f"{format_size(p['lba_bytes'])}"
        )
    if load.block_bytes > MAX_REQUEST_BYTES:
        raise UsageError(
            f"a block of {format_size(load.block_bytes)} is larger than the drive accepts, "
            f"{format_size(MAX_REQUEST_BYTES)}"
        )
    if not load.block_bytes <= _span(p, load) <= p["capacity_bytes"]:
        raise UsageError("the span must hold at least one block and be no larger than the drive")


def _has_closed_form(p: Mapping[str, int], load: Load) -> bool:
    if load.at_fills is not None or load.horizon_s is not None:
        return False
    troubled = ("throttle_mk_per_gb", "bistable_period_ns", "step_after_ppm", "stall_period_ns")
    if any(p[name] for name in (*troubled, "drift_ppm_per_fill")):
        return False
    if p["ftl"] == DIRECT:
        return load.read_percent in (0, 100) and _direct_is_simple(p, load)
    slc = p["slc_bytes"] or p["slc_dynamic_ppm"]
    if p["ftl"] != PAGE or slc or load.read_percent or not p["wbuf_bytes"]:
        return False
    if load.pattern is not Pattern.RANDOM and load.block_bytes % p["map_unit_bytes"]:
        return False
    return write_amplification(p, load) is not None


def _notes(p: Mapping[str, int], load: Load) -> tuple[str, ...]:
    if p["ftl"] != PAGE or load.block_bytes % p["map_unit_bytes"] == 0:
        return ()
    return (
        "writes smaller than the remap unit wait until the rest of the unit is read, and dies may "
        f"be idle during this time: the rate is an upper bound, at most {TOO_HIGH:.0%} too high",
    )


def _direct_is_simple(p: Mapping[str, int], load: Load) -> bool:
    """Return whether no request waits for a die: one request at a time, or flash without delay."""
    medium_ns = p["t_read_ns" if load.read_percent else "t_prog_ns"]
    return not medium_ns or (load.iodepth == 1 and load.block_bytes <= p["map_unit_bytes"])


def _span(p: Mapping[str, int], load: Load) -> int:
    return p["capacity_bytes"] if load.span_bytes is None else load.span_bytes


def _together(p: Mapping[str, int], load: Load) -> int:
    """Return the number of map units in one request, which are written together."""
    return max(1, load.block_bytes // p["map_unit_bytes"])


def _reads_per_unit(wa: float, flash: Medium, together: int) -> float:
    """Return how many pages garbage collection reads per moved unit, skipping invalid pages."""
    valid = 1 - 1 / wa
    if valid <= 0:
        return 0.0
    groups = max(1.0, flash.units_per_page / together)  # of a page, all valid or all invalid
    read = 1 - math.pow(1 - valid, groups)
    return read / (valid * flash.units_per_page)
