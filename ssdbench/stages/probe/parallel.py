"""How many reads a drive can usefully work on at once."""

from ssdbench.model.inside import ProbeNumbers
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Bench, Said, part
from ssdbench.stats.inside.probing import parallelism
from ssdbench.units import GIB, KIB, NS_PER_S

DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BLOCK_BYTES = 4 * KIB
SPAN_BYTES = 2 * GIB
IOS_PER_DEPTH = 4000


class Parallelism:
    """Random reads at growing depth: the rate grows until dies, channels or commands are busy."""

    name = "parallelism"
    title = "Usable parallelism from random reads at growing depth"

    def writes(self, size_bytes: int) -> int:
        """One fill: what was never written is not read from flash."""
        return part(size_bytes, SPAN_BYTES)

    def ask(self, bench: Bench) -> Said:
        """Every depth long enough for its own steady rate."""
        span = part(bench.size_bytes, SPAN_BYTES)
        bench.fill(span)
        rates: dict[int, float] = {}
        alone = 0.0
        for depth in DEPTHS:
            total = BLOCK_BYTES * IOS_PER_DEPTH * min(depth, 16)
            done = bench.rate(Pattern.RANDOM, BLOCK_BYTES, 100, depth, span, total)
            rates[depth] = done.ios / max(done.runtime_s, 1e-9)
            if depth == 1:
                alone = NS_PER_S / max(done.lat_mean_ns, 1.0)
        table = tuple({"iodepth": d, "iops": round(rate, 1)} for d, rate in rates.items())
        # What the generator does between two reads is no time of the drive's (Little's law).
        found = parallelism({**rates, 1: alone})
        if found is None:
            return Said("cannot tell: the rate still grows at the largest depth", table=table)
        times, knee = found
        return Said(
            f"{times:.1f} reads at once; depth {knee} reaches 90 % of that",
            ProbeNumbers(reads_at_once=round(times, 2), depth_for_90_percent=knee),
            table,
        )
