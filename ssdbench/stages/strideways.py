"""Ways to ask a drive for its blocks: one write at a time, with reads in between, at saturation.

A write buffer answers single writes before anything is programmed. What it hides shows

- in reads between the writes, which wait for the flash that the buffer is emptied into (as SSDcheck
  does it, MICRO 2018);
- at saturation, when writes come faster than the buffer can be emptied. With a fixed number of
  writes under way, one write's latency grows over that of the write before it by as much as the
  drive paused between the two, so the growth is judged instead of the latency.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ssdbench.engine.stage import derived_seed
from ssdbench.generator.base import Job, LoggedIo
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stats.inside.strides import Floats, Ints, Pass, Region
from ssdbench.units import KIB, MIB

FILL_BYTES = 128 * KIB
DEEP = 32  # writes under way at saturation: what SATA can carry
EDGE = 2 * DEEP  # writes: the first may be answered while the queue still fills
BUFFER_BYTES = 256 * MIB  # written before saturated strides, so that a buffer is full by then


class Way(StrEnum):
    """How strides are walked."""

    WRITES = "writes one at a time"
    ONLY_READS = "reads"
    READS_BETWEEN = "reads between the writes"
    SATURATED = "writes at saturation"

    @property
    def judged(self) -> str:
        """What the judged numbers are."""
        return {
            Way.READS_BETWEEN: "latency of reads after each write",
            Way.SATURATED: "growth of latency from write to write",
        }.get(self, "latency")


@dataclass(frozen=True, slots=True)
class Heard:
    """What a pass says, in the order of its offsets."""

    offset_bytes: Ints
    judged_ns: Floats
    latency_ns: Floats  # of the I/Os at those offsets themselves


def job(name: str, way: Way, one: Pass, *, block_bytes: int, seed: int) -> Job:
    """One pass as a job of the generator."""
    mixed = way is Way.READS_BETWEEN
    return Job(
        name=name,
        workload=Workload(
            pattern=Pattern.STRIDED,
            block_bytes=block_bytes,
            read_percent={Way.ONLY_READS: 100, Way.READS_BETWEEN: 50}.get(way, 0),
            iodepth=DEEP if way is Way.SATURATED else 1,
            range=ActiveRange(offset_bytes=one.offset_bytes, length_bytes=one.length_bytes),
            stride_bytes=one.stride_bytes,
        ),
        seed=seed,
        total_bytes=one.writes * block_bytes * (2 if mixed else 1),
        latency_log=True,
    )


def fills(name: str, regions: Sequence[Region], *, seed: int, most_bytes: int) -> list[Job]:
    """Sequential writes to the beginning of each region, up to `most_bytes`."""
    return [
        Job(
            name=f"{name}-{region.index}",
            workload=Workload(
                pattern=Pattern.SEQUENTIAL,
                block_bytes=FILL_BYTES,
                read_percent=0,
                iodepth=8,
                range=ActiveRange(
                    offset_bytes=region.offset_bytes,
                    length_bytes=min(most_bytes, region.length_bytes),
                ),
            ),
            seed=derived_seed(seed, name, region.index),
            total_bytes=min(most_bytes, region.length_bytes),
        )
        for region in regions
    ]


def bytes_written(way: Way, passes: int, regions: Sequence[Region]) -> int:
    """By one walk whose passes write `passes` bytes."""
    if way is Way.ONLY_READS:
        return 0
    full = sum(min(BUFFER_BYTES, region.length_bytes) for region in regions)
    return passes + (full if way is Way.SATURATED else 0)


def heard(way: Way, log: LoggedIo) -> Heard:
    """The log of a pass as numbers to judge."""
    offset = np.asarray(log.offset_bytes, dtype=np.int64)
    latency = np.asarray(log.latency_ns, dtype=np.float64)
    match way:
        case Way.READS_BETWEEN:
            return _reads_between(offset, latency, np.asarray(log.is_write, dtype=np.bool_))
        case Way.SATURATED:
            order = np.argsort(offset, kind="stable")  # completions may overtake one another
            return Heard(offset[order], _growth(latency[order]), latency[order])
        case _:
            return Heard(offset, latency, latency)


def _reads_between(
    offset: Ints, latency: Floats, written: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
) -> Heard:
    """Every write with the longest read before the next one; zero where there was none."""
    position = np.flatnonzero(written)
    if not len(position):
        return Heard(offset[:0], latency[:0], latency[:0])
    reads = np.where(written, 0.0, latency)
    return Heard(
        offset[position],
        np.maximum.reduceat(reads, position),
        latency[position],
    )


def _growth(latency: Floats) -> Floats:
    """By how much each latency exceeds the one before; zero while the queue fills or empties.

    Passes begin and end at about the same places of both regions, which would look like a block.
    """
    growth = np.diff(latency, prepend=latency[:1])
    growth[:EDGE] = growth[-EDGE:] = 0.0
    return growth
