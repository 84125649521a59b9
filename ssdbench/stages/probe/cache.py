"""The SLC cache, from where the rate of one long sequential write falls."""

import numpy as np

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said
from ssdbench.stats.inside.probing import falls_at_once, step_down
from ssdbench.units import KIB, format_capacity

BLOCK_BYTES = 128 * KIB
DEPTH = 32


class SlcCache:
    """A drive that stores one bit per cell first slows down when that room is used up."""

    name = "slc-cache"
    title = "SLC cache from one sequential fill"

    def writes(self, size_bytes: int) -> int:
        """One fill of the drive."""
        return size_bytes

    def ask(self, bench: Bench) -> Said:
        """Only a purged or empty drive shows all of its cache."""
        per_second = bench.write(
            Pattern.SEQUENTIAL, BLOCK_BYTES, DEPTH, bench.size_bytes, bench.size_bytes
        )
        written = np.cumsum(per_second)
        step = step_down(list(per_second))
        table = tuple(
            {"written_bytes": int(at), "mb_per_s": round(rate / 1e6, 1)}
            for at, rate in zip(written, per_second, strict=True)
        )[:: max(1, len(written) // 200)]
        if falls_at_once(list(per_second)):
            return Said("cannot tell: the rate falls within the first two seconds", table=table)
        if step is None:
            return Said("no SLC cache seen: the rate of a sequential fill never falls", table=table)
        size, before, after = step
        return Said(
            f"cache of about {format_capacity(round(size))}: {before / 1e6:.0f} MB/s within it, "
            f"{after / 1e6:.0f} MB/s after (as much as was free when the fill began)",
            ProbeNumbers(
                cache_bytes=round(size), mb_per_s_within=before / 1e6, mb_per_s_after=after / 1e6
            ),
            table,
        )
