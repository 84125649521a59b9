"""What strided passes logged, and the tables that are drawn from it."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from ssdbench.errors import UsageError
from ssdbench.host.files import write_atomic
from ssdbench.stages.strideways import Heard
from ssdbench.stats.inside.strides import Pass, Series, gathered, scores
from ssdbench.units import MIB

SHOWN_BLOCKS = 12  # in a figure of one stride
SHOWN_WRITES = 600
USUAL_BLOCK_BYTES = MIB


@dataclass(slots=True)
class Trace:
    """Passes in the order in which they were walked."""

    passes: list[Pass] = field(default_factory=list)
    offsets: list[npt.NDArray[np.int64]] = field(default_factory=list)
    judged: list[npt.NDArray[np.float64]] = field(default_factory=list)  # the latency, or its like
    latencies: list[npt.NDArray[np.float64]] = field(default_factory=list)

    def add(self, one: Pass, said: Heard) -> None:
        """A pass, or as much of it as was done."""
        if not len(said.offset_bytes):
            return
        self.passes.append(one)
        self.offsets.append(said.offset_bytes)
        self.judged.append(said.judged_ns)
        self.latencies.append(said.latency_ns)

    @property
    def median_latency_ns(self) -> float:
        """Of all I/Os; zero without any."""
        return float(np.median(np.concatenate(self.latencies))) if self.latencies else 0.0

    def save(self, path: Path, planned: Sequence[Pass]) -> None:
        """Store all I/Os of the passes that were planned, done or not."""
        done = {id(one): n for n, one in enumerate(self.passes)}
        lengths = [len(self.offsets[done[id(p)]]) if id(p) in done else 0 for p in planned]
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer, allow_pickle=False, lengths=np.array(lengths, np.int64), **self.arrays()
        )
        write_atomic(path, buffer.getvalue())

    def load(self, path: Path, planned: Sequence[Pass]) -> None:
        """Add what `save` stored. Raises UsageError when it is damaged or not there."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                ends = np.cumsum(stored["lengths"])[:-1]
                parts = [
                    np.split(stored[name], ends)
                    for name in ("offset_bytes", "judged_ns", "latency_ns")
                ]
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise UsageError(f"{path} is damaged: {error}") from error
        for one, offset, judged, latency in zip(planned, *parts, strict=True):
            self.add(one, Heard(offset, judged, latency))

    def __len__(self) -> int:
        return sum(len(offsets) for offsets in self.offsets)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """All I/Os: region, stride, offset and latency, and which of them begin a pass."""
        sizes = [len(offsets) for offsets in self.offsets]
        first = np.zeros(sum(sizes), dtype=np.bool_)
        if sizes:
            first[np.cumsum([0, *sizes[:-1]])] = True
        return {
            "region": np.repeat([one.region for one in self.passes], sizes).astype(np.int64),
            "stride_bytes": np.repeat([p.stride_bytes for p in self.passes], sizes).astype(
                np.int64
            ),
            "offset_bytes": np.concatenate([np.zeros(0, np.int64), *self.offsets]),
            "judged_ns": np.concatenate([np.zeros(0), *self.judged]),
            "latency_ns": np.concatenate([np.zeros(0), *self.latencies]),
            "first": first,
        }

    def series(self) -> list[Series]:
        """As the detector wants it."""
        a = self.arrays()
        return gathered(
            a["region"].astype(np.int64),
            a["stride_bytes"].astype(np.int64),
            a["offset_bytes"].astype(np.int64),
            a["judged_ns"].astype(np.float64),
            a["first"].astype(np.bool_),
        )

    def excerpts(self, block_bytes: int | None) -> Iterator[tuple[int, str]]:
        """Per stride the first blocks of its first pass, as CSV with the peaks marked."""
        seen: set[int] = set()
        for one, offset, latency in zip(self.passes, self.offsets, self.judged, strict=True):
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
        """Stride, MB/s and median latency, as CSV."""
        lines = ["stride_bytes,mb_per_s,median_latency_ns,writes"]
        for stride in sorted({one.stride_bytes for one in self.passes}):
            mine = [
                latency
                for one, latency in zip(self.passes, self.latencies, strict=True)
                if one.stride_bytes == stride
            ]
            latency = np.concatenate(mine)
            rate = block_bytes * 1000 / max(float(latency.mean()), 1.0)
            lines.append(f"{stride},{rate:.4f},{round(float(np.median(latency)))},{len(latency)}")
        return "\n".join([*lines, ""])
