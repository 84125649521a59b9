"""Define stored results about a drive's inside: block size, write cache, results of probes."""

from enum import StrEnum
from typing import Literal

from ssdbench.model.base import Model
from ssdbench.model.kind import StageKind

Scalar = str | int | float | bool | None


class StoredFigure(Model):
    """Name a CSV file from which the report draws a plot.

    The fields `x`, `y` and `peaks` name columns of the file.
    """

    kind: Literal["scatter", "series"]
    csv: str  # below the run directory
    title: str = ""
    caption: str = ""
    x: str = ""  # default: the first column
    y: str = ""  # default: the second column
    peaks: str = ""  # points with positive values in this column are marked


class Searched(Model):
    """Store the smallest and the largest block size that was searched for."""

    smallest_bytes: int
    largest_bytes: int


class BlockCandidate(Model):
    """Store one period in the latencies, and how clearly the latencies show it."""

    block_bytes: int
    score: float
    form: str
    score_region_1: float
    score_region_2: float
    strides_agreeing: int


class StrideScore(Model):
    """Store the score of one stride for the best period."""

    stride_bytes: int
    score: float


class SmallestEffect(Model):
    """Store how slow writes into a new block must be, so that the search finds this block size."""

    block_bytes: int
    times_slower: float | None  # None if no effect was large enough


class WriteSize(Model):
    """Store one part of the answer about sizes of writes, and the cost to find this part."""

    part: str  # erase block, mapping unit, stripe, or the drive's own reports
    answer: str
    size_bytes: int | None = None
    confidence: float | None = None  # share of such answers that were right, on hidden drives
    minutes: float = 0.0  # on the target's clock
    bytes_written: int = 0
    limits: str = ""  # limits of the method


class BlockSizeFound(Model):
    """Store the write size that suits a drive: its block, its mapping unit, or no special size."""

    kind: Literal[StageKind.BLOCKSIZE] = StageKind.BLOCKSIZE
    answer: str = ""
    write_bytes: int | None = None  # smallest aligned write that wastes nothing, if known
    block_bytes: int | None = None
    at_most: bool = False  # the block may be a part of this size
    remap_unit_bytes: int | None = None  # the mapping unit, if it is more than 4 KiB
    stripe_bytes: int | None = None
    parts: tuple[WriteSize, ...] = ()
    phase_bytes: int | None = None  # offset of the first boundary
    p_value: float | None = None
    confidence: float | None = None  # share of such answers that were right, on hidden drives
    strides_agreeing: int | None = None
    buffer_bytes: int | None = None  # if it is known to one write
    buffer_least_bytes: int | None = None
    buffer_most_bytes: int | None = None
    buffer: str = ""
    median_latency_ns: float | None = None
    evidence: str = ""  # the method that gave the answer
    asked: str = ""  # all methods that were tried
    searched: tuple[Searched, ...] = ()
    candidates: tuple[BlockCandidate, ...] = ()
    strides: tuple[StrideScore, ...] = ()
    smallest_effects: tuple[SmallestEffect, ...] = ()
    figures: tuple[StoredFigure, ...] = ()


class ProbeNumbers(Model):
    """Store the numbers that probes of a drive find; each probe sets only its own numbers."""

    cache_bytes: int | None = None
    mb_per_s_within: float | None = None
    mb_per_s_after: float | None = None
    recovered_bytes: int | None = None  # of the SLC cache, after a rest of `rest_s`
    rest_s: float | None = None
    at_least: bool | None = None  # more than `recovered_bytes` may be back: every write was fast
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
    wake_us: float | None = None  # by which the first read after the longest rest takes longer
    wake_after_s: float | None = None  # the shortest rest after which such a cost was seen
    warm_us: float | None = None  # median of reads that follow other reads
    wake_idle_watts: float | None = None  # of the drive in the longest rest
    wake_joules: float | None = None  # of one waking, with the reads after it

    def known(self) -> dict[str, Scalar]:
        """Return the numbers that a probe has set, in the order of the fields."""
        return self.model_dump(include=self.model_fields_set)


class ProbeFound(Model):
    """Store one question about a drive and its answer, which may be "cannot tell"."""

    kind: Literal[StageKind.PROBE] = StageKind.PROBE
    probe: str = ""
    answer: str = ""
    numbers: ProbeNumbers = ProbeNumbers()
    measured: tuple[dict[str, Scalar], ...] = ()  # the measurements behind it


class CacheKind(StrEnum):
    """Say whether an acknowledged write survives a power cut."""

    VOLATILE = "volatile"  # no: it waits in memory until a flush
    PROTECTED = "protected"  # yes: capacitors save the memory, or flushes do nothing
    NONE = "none"  # yes: it is on the medium
    NOT_VOLATILE = "not volatile"  # a cache, which is not volatile by the drive's report
    UNKNOWN = "unknown"


class WriteCache(Model):
    """Store the kind of a drive's write cache, with the evidence for this kind."""

    kind: CacheKind
    evidence: tuple[str, ...] = ()  # sentences on the drive's report and the cost of flushes
    contradiction: str = ""  # of the drive's report and the cost of its flushes
    present: bool | None = None  # as the drive reports; None if it does not report it
    enabled: bool | None = None  # as the drive reports, or as the run set it
    write_us: float | None = None  # time of a 32 KiB write
    flush_us_after_1: float | None = None  # time of a flush after one write
    flush_us_after_many: float | None = None  # time of a flush after 64 writes
    buffer_bytes: int = 0  # the largest known buffer; 0 if unknown
