"""Over-provisioning and write amplification, from where and how deep the write cliff is."""

import numpy as np

from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said
from ssdbench.stats.probing import cliff
from ssdbench.units import KIB

BLOCK_BYTES = 32 * KIB  # no smaller than usual remap units
DEPTH = 32
FILLS = 3.0


class Spare:
    """Random writes to a drive that was filled in order: fast until the spare area is used up."""

    name = "spare"
    title = "Over-provisioning and write amplification from the write cliff"

    def writes(self, size_bytes: int) -> int:
        """A fill in order and three in random order."""
        return round(size_bytes * (1 + FILLS))

    def ask(self, bench: Bench) -> Said:
        """The spare area is what fits between the fill and the cliff."""
        size = bench.size_bytes
        filled = bench.fill(size)
        per_second = bench.write(Pattern.RANDOM, BLOCK_BYTES, DEPTH, size, round(FILLS * size))
        written = np.cumsum(per_second)
        ordered = float(np.median(filled)) if len(filled) else 0.0
        found = cliff(list(per_second), ordered=ordered)
        table = tuple(
            {"written_fills": round(at / size, 4), "mb_per_s": round(rate / 1e6, 2)}
            for at, rate in zip(written, per_second, strict=True)
        )[:: max(1, len(written) // 200)]
        if found is None:
            return Said("cannot tell: random writes show no cliff", {}, table)
        at, amplification = found
        return Said(
            f"about {100 * at / size:.1f} % over-provisioning; random writes of 32 KiB are "
            f"amplified about {amplification:.1f} times in the end",
            {"over_provisioning": at / size, "write_amplification": amplification},
            table,
        )
