"""Defines what is found of a drive's inside, as it is stored: blocks, answers of probes, caches."""

from enum import StrEnum
from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind

Scalar = str | int | float | bool | None


class StoredFigure(Model):
    """A CSV file to draw; `x`, `y` and `peaks` are columns of it."""

    kind: Literal["scatter", "series"]
    csv: str  # below the run directory
    title: str = ""
    caption: str = ""
    x: str = ""  # the first column where it is not named
    y: str = ""  # the second
    peaks: str = ""  # positive values are marked


class Searched(Model):
    """Between which sizes a block was looked for."""

    smallest_bytes: int
    largest_bytes: int


class BlockCandidate(Model):
    """A period in the latencies, and how strong it is."""

    block_bytes: int
    score: float
    form: str
    score_region_1: float
    score_region_2: float
    strides_agreeing: int


class StrideScore(Model):
    """What one stride says of the best candidate."""

    stride_bytes: int
    score: float


class SmallestEffect(Model):
    """How much slower writes into a new block of that size must be to be found; None: none was."""

    block_bytes: int
    times_slower: float | None


class BlockSizeFound(Model):
    """The block size and the write buffer, or that there is no sign of them."""

    kind: Literal[StageKind.BLOCKSIZE] = StageKind.BLOCKSIZE
    answer: str = ""
    block_bytes: int | None = None
    at_most: bool = False  # the block may be a part of that
    phase_bytes: int | None = None  # boundaries lie at multiples of the block, plus that
    p_value: float | None = None
    confidence: float | None = None  # how often such an answer was right, on hidden drives
    strides_agreeing: int | None = None
    buffer_bytes: int | None = None  # where it is known to a write
    buffer_least_bytes: int | None = None
    buffer_most_bytes: int | None = None
    buffer: str = ""
    median_latency_ns: float | None = None
    evidence: str = ""  # the way of asking that it comes from
    asked: str = ""  # all ways that were tried
    searched: tuple[Searched, ...] = ()
    candidates: tuple[BlockCandidate, ...] = ()
    strides: tuple[StrideScore, ...] = ()
    smallest_effects: tuple[SmallestEffect, ...] = ()
    figures: tuple[StoredFigure, ...] = ()


class ProbeNumbers(Model):
    """What probes say in numbers; each probe has its own, the others stay None."""

    cache_bytes: int | None = None
    mb_per_s_within: float | None = None
    mb_per_s_after: float | None = None
    stripe_bytes: int | None = None
    reads_at_once: float | None = None
    depth_for_90_percent: int | None = None
    chunk_bytes: int | None = None
    remap_unit_bytes: int | None = None
    at_most: bool | None = None  # the unit or chunk may be smaller
    scattered_over_ordered: float | None = None
    flush_waits_for: str | None = None
    write_us: float | None = None
    flush_us_after_1: float | None = None
    flush_us_after_64: float | None = None
    buffer_bytes: int | None = None
    over_provisioning: float | None = None  # as a share of the drive: the middle of its range
    over_provisioning_least: float | None = None
    over_provisioning_most: float | None = None
    write_amplification_least: float | None = None
    write_amplification_most: float | None = None
    slowdown: float | None = None
    trim_effect: str | None = None
    rate_after_over_before: float | None = None

    def known(self) -> dict[str, Scalar]:
        """Return those that were set, in their order."""
        return self.model_dump(include=self.model_fields_set)


class ProbeFound(Model):
    """One question to a drive, and its answer; "cannot tell" is one."""

    kind: Literal[StageKind.PROBE] = StageKind.PROBE
    probe: str = ""
    answer: str = ""
    numbers: ProbeNumbers = ProbeNumbers()
    measured: tuple[dict[str, Scalar], ...] = ()  # the measurements behind it


class CacheKind(StrEnum):
    """Whether an acknowledged write survives a power cut."""

    VOLATILE = "volatile"  # it may not: it waits in memory until a flush
    PROTECTED = "protected"  # it does: memory that a capacitor empties, or flushes that do nothing
    NONE = "none"  # it does: it is on the medium
    NOT_VOLATILE = "not volatile"  # it does, by the drive's word; from memory or not is not known
    UNKNOWN = "unknown"


class WriteCache(Model):
    """The judged fact of a run, with what it was judged by."""

    kind: CacheKind
    evidence: tuple[str, ...] = ()  # sentences: what the drive says, what flushes cost
    contradiction: str = ""  # where the drive says one thing and does another
    present: bool | None = None  # by the drive's own pages; None where it does not tell
    enabled: bool | None = None  # the same, and what the run set
    write_us: float | None = None  # one 32 KiB write
    flush_us_after_1: float | None = None  # a flush behind one write
    flush_us_after_many: float | None = None  # behind 64
    buffer_bytes: int = 0  # the largest that is known; 0 where none is
