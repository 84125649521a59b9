"""Make the jobs that write at fixed strides, and store the latencies of their requests.

A write buffer answers before the data are on flash, and so hides the pauses of flash. Two ways of
sending requests show these pauses nevertheless:

- Reads between the writes wait for the flash that the buffer writes to (SSDcheck, MICRO 2018).
- At saturation, writes come faster than the buffer can write to flash. With a fixed number of
  writes in flight, a pause of the drive makes a write slower than the write before it by the length
  of the pause, so the difference of both latencies is judged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ssdbench.engine.series import save_arrays, stored_arrays
from ssdbench.engine.stage import derived_seed
from ssdbench.generator.base import Job, LoggedIo
from ssdbench.model.workload import ActiveRange, Pattern, Workload
from ssdbench.stats.inside.strides import Floats, Ints, Pass, Region, Series, gathered, scores
from ssdbench.units import KIB, MIB

FILL_BYTES = 128 * KIB
DEEP = 32  # writes in flight at saturation, SATA's queue depth
EDGE = 2 * DEEP  # so many first and last writes are not judged
BUFFER_BYTES = 256 * MIB  # written first at saturation, to fill the buffer


class StrideWay(StrEnum):
    """Name the ways of sending requests at strides."""

    WRITES = "writes one at a time"
    ONLY_READS = "reads"
    READS_BETWEEN = "reads between the writes"
    SATURATED = "writes at saturation"

    @property
    def judged(self) -> str:
        """Return the name of the quantity from which this way finds a block."""
        return {
            StrideWay.READS_BETWEEN: "latency of reads after each write",
            StrideWay.SATURATED: "growth of latency from write to write",
        }.get(self, "latency")


@dataclass(frozen=True, slots=True)
class Heard:
    """Hold the requests of one pass, in the order of their offsets."""

    offset_bytes: Ints
    judged_ns: Floats
    latency_ns: Floats  # latencies of these requests


def stride_job(name: str, way: StrideWay, one: Pass, *, block_bytes: int, seed: int) -> Job:
    """Make the job that sends the requests of one pass in one of the ways."""
    mixed = way is StrideWay.READS_BETWEEN
    return Job(
        name=name,
        workload=Workload(
            pattern=Pattern.STRIDED,
            block_bytes=block_bytes,
            read_percent={StrideWay.ONLY_READS: 100, StrideWay.READS_BETWEEN: 50}.get(way, 0),
            iodepth=DEEP if way is StrideWay.SATURATED else 1,
            range=ActiveRange(offset_bytes=one.offset_bytes, length_bytes=one.length_bytes),
            stride_bytes=one.stride_bytes,
        ),
        seed=seed,
        total_bytes=one.writes * block_bytes * (2 if mixed else 1),
        latency_log=True,
    )


def fills(name: str, regions: Sequence[Region], *, seed: int, most_bytes: int) -> list[Job]:
    """Make one job per region; each fills its region from the start, up to `most_bytes`."""
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


def bytes_written(way: StrideWay, passes: int, regions: Sequence[Region]) -> int:
    """Return all bytes that one way of sending requests writes, from the bytes of its passes."""
    if way is StrideWay.ONLY_READS:
        return 0
    full = sum(min(BUFFER_BYTES, region.length_bytes) for region in regions)
    return passes + (full if way is StrideWay.SATURATED else 0)


def heard(way: StrideWay, log: LoggedIo) -> Heard:
    """Turn a pass's logged I/Os into requests, with the value that this way judges (`judged`)."""
    offset = np.asarray(log.offset_bytes, dtype=np.int64)
    latency = np.asarray(log.latency_ns, dtype=np.float64)
    match way:
        case StrideWay.READS_BETWEEN:
            return _reads_between(offset, latency, np.asarray(log.is_write, dtype=np.bool_))
        case StrideWay.SATURATED:
            order = np.argsort(offset, kind="stable")  # fio logs in the order of completion
            return Heard(offset[order], _growth(latency[order]), latency[order])
        case _:
            return Heard(offset, latency, latency)


def _reads_between(
    offset: Ints, latency: Floats, written: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
) -> Heard:
    """Return each write with the longest read latency before the next write; 0 without reads."""
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
    """Return each latency minus the latency of the request before.

    The first and last EDGE results are set to 0: there the queue fills or empties, which changes
    latencies. All passes begin and end at the same places of both regions, so slow requests there
    would look like a block boundary.
    """
    growth = np.diff(latency, prepend=latency[:1])
    growth[:EDGE] = growth[-EDGE:] = 0.0
    return growth


SHOWN_BLOCKS = 12  # blocks shown in the figure of one stride
SHOWN_WRITES = 600  # most writes shown in a figure
USUAL_BLOCK_BYTES = MIB


@dataclass(slots=True)
class Trace:
    """Collect the requests of all passes of one way, in the order of the passes."""

    parts: list[tuple[Pass, Heard]] = field(default_factory=list)

    def add(self, one: Pass, said: Heard) -> None:
        """Add the requests of one pass, which may be incomplete."""
        if len(said.offset_bytes):
            self.parts.append((one, said))

    @property
    def latencies_ns(self) -> Floats:
        """Return the latencies of all requests."""
        return np.concatenate([np.zeros(0), *(said.latency_ns for _, said in self.parts)])

    @property
    def median_latency_ns(self) -> float:
        """Return the median latency of all requests; 0 if there are no requests."""
        return float(np.median(self.latencies_ns)) if self.parts else 0.0

    def save(self, path: Path, planned: Sequence[Pass]) -> None:
        """Store the requests of all planned passes; a pass may have no requests."""
        done = {id(one): len(said.offset_bytes) for one, said in self.parts}
        lengths = [done.get(id(one), 0) for one in planned]
        save_arrays(path, {"lengths": np.array(lengths, np.int64), **self.arrays()})

    def load(self, path: Path, planned: Sequence[Pass]) -> None:
        """Add the passes that `save` stored. Raises UsageError for a damaged or missing file."""
        with stored_arrays(path) as stored:
            ends = np.cumsum(stored["lengths"])[:-1]
            names = ("offset_bytes", "judged_ns", "latency_ns")
            parts = [np.split(stored[name], ends) for name in names]
        for one, offset, judged, latency in zip(planned, *parts, strict=True):
            self.add(one, Heard(offset, judged, latency))

    def __len__(self) -> int:
        return len(self.latencies_ns)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all requests as columns; `first` is true for the first request of each pass."""
        sizes = [len(said.offset_bytes) for _, said in self.parts]
        strides = [one.stride_bytes for one, _ in self.parts]
        first = np.zeros(sum(sizes), dtype=np.bool_)
        if sizes:
            first[np.cumsum([0, *sizes[:-1]])] = True
        return {
            "region": np.repeat([one.region for one, _ in self.parts], sizes).astype(np.int64),
            "stride_bytes": np.repeat(strides, sizes).astype(np.int64),
            "offset_bytes": np.concatenate(
                [np.zeros(0, np.int64), *(said.offset_bytes for _, said in self.parts)]
            ),
            "judged_ns": np.concatenate([np.zeros(0), *(said.judged_ns for _, said in self.parts)]),
            "latency_ns": self.latencies_ns,
            "first": first,
        }

    def series(self) -> list[Series]:
        """Return the requests grouped by region and stride, as input for the judge."""
        a = self.arrays()
        columns = (a["region"], a["stride_bytes"], a["offset_bytes"], a["judged_ns"], a["first"])
        return gathered(*columns)

    def excerpts(self, block_bytes: int | None) -> Iterator[tuple[int, str]]:
        """Yield each stride with a CSV text: the start of its first pass, with peaks marked."""
        seen: set[int] = set()
        for one, said in self.parts:
            offset, latency = said.offset_bytes, said.judged_ns
            if one.stride_bytes in seen:
                continue
            seen.add(one.stride_bytes)
            span = SHOWN_BLOCKS * (block_bytes or USUAL_BLOCK_BYTES)
            shown = max(16, min(SHOWN_WRITES, span // one.stride_bytes))
            peak = (scores(latency) > 0) & (latency > 1.3 * np.median(latency))
            rows = zip(offset[:shown], latency[:shown], peak[:shown], strict=True)
            lines = [f"{o},{round(t)},{int(p)}" for o, t, p in rows]
            yield one.stride_bytes, "\n".join(["offset_bytes,latency_ns,peak", *lines, ""])

    def throughput(self, block_bytes: int) -> str:
        """Return a CSV text with the MB/s and the median latency of each stride."""
        lines = ["stride_bytes,mb_per_s,median_latency_ns,writes"]
        for stride in sorted({one.stride_bytes for one, _ in self.parts}):
            mine = [said.latency_ns for one, said in self.parts if one.stride_bytes == stride]
            latency = np.concatenate(mine)
            rate = block_bytes * 1000 / max(float(latency.mean()), 1.0)
            lines.append(f"{stride},{rate:.4f},{round(float(np.median(latency)))},{len(latency)}")
        return "\n".join([*lines, ""])
