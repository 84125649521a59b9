"""Over-provisioning and write amplification, from where and how deep the write cliff is."""

import numpy as np

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said
from ssdbench.stats.probing import amplification, cached, cliff, falls_at_once, step_down
from ssdbench.units import KIB

BLOCK_BYTES = 32 * KIB  # no smaller than usual remap units
DEPTH = 32
FILLS = 3.0


class Spare:
    """Random writes to a drive that was filled in order: fast until the spare area is used up."""

    name = "spare"
    title = "Over-provisioning and write amplification from the write cliff"

    def writes(self, size_bytes: int) -> int:
        """Two fills in order and three in random order."""
        return round(size_bytes * (2 + FILLS))

    def ask(self, bench: Bench) -> Said:
        """The spare area is what fits between the fill and the cliff."""
        size = bench.size_bytes
        bench.fill(size)
        filled = bench.fill(size)  # is not slowed by what was written at random before
        if falls_at_once(list(filled)) or step_down(list(filled)):
            return Said("cannot tell: writes in order slow down by themselves")
        per_second = bench.write(Pattern.RANDOM, BLOCK_BYTES, DEPTH, size, round(FILLS * size))
        written = np.cumsum(per_second)
        ordered = float(np.median(filled)) if len(filled) else 0.0
        fall = cliff(list(per_second), ordered=ordered)
        table = tuple(
            {"written_fills": round(at / size, 4), "mb_per_s": round(rate / 1e6, 2)}
            for at, rate in zip(written, per_second, strict=True)
        )[:: max(1, len(written) // 200)]
        if cached(list(per_second), ordered=ordered):
            return Said("cannot tell: a cache takes the first random writes", table=table)
        if fall is None:
            return Said("cannot tell: random writes show no cliff", table=table)
        at, slowdown = fall
        least, most = amplification(at / size)
        return Said(
            f"about {100 * at / size:.1f} % over-provisioning, by which uniform random writes are "
            f"amplified {least:.1f} to {most:.1f} times; those of 32 KiB become {slowdown:.1f} "
            "times as slow",
            ProbeNumbers(
                over_provisioning=at / size,
                write_amplification_least=least,
                write_amplification_most=most,
                slowdown=slowdown,
            ),
            table,
        )
