"""The stripe width: the distance at which parallel reads of ordered data meet on one die.

Source: stride reads of Queenie (SYSTOR 2022, F3) and Chen (HPCA 2011).
"""

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.inside.probing import stripe
from ssdbench.units import GIB, KIB, MIB, format_size

DEPTH = 8
BLOCK_BYTES = 4 * KIB
SPAN_BYTES = 4 * GIB
IOS = 2500
ODD = (1, 3, 5, 7)
LEAST_BYTES, MOST_BYTES = 16 * KIB, 32 * MIB
STRIDES = tuple(
    sorted(
        {
            odd * LEAST_BYTES << shift
            for odd in ODD
            for shift in range(12)
            if odd * LEAST_BYTES << shift <= MOST_BYTES
        }
    )
)


class StripeWidth:
    """Parallel reads at a fixed stride: slow where the stride is a multiple of the stripe."""

    name = "stripe"
    title = "Stripe width from parallel reads at fixed strides"

    def writes(self, size_bytes: int) -> int:
        """One fill in order: the mapping of ordered data is what is looked at."""
        return part(size_bytes, SPAN_BYTES)

    def ask(self, bench: Bench) -> Said:
        """Strides of 16 KiB x 2^k, and 3, 5 and 7 times that."""
        span = part(bench.size_bytes, SPAN_BYTES)
        bench.fill(span)
        rates: dict[int, float] = {}
        for stride in STRIDES:
            if stride * 4 * DEPTH > span:
                continue
            done = bench.rate(
                Pattern.STRIDED, BLOCK_BYTES, 100, DEPTH, span, IOS * BLOCK_BYTES,
                stride_bytes=stride,
            )  # fmt: skip
            rates[stride] = done.ios / max(done.runtime_s, 1e-9)
        table = tuple({"stride_bytes": s, "iops": round(rate, 1)} for s, rate in rates.items())
        found = stripe(rates)
        if found is None:
            return Said("cannot tell: no stride is slower than the others", table=table)
        return Said(f"stripe of {format_size(found)}", ProbeNumbers(stripe_bytes=found), table)
