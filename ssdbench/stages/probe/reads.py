"""Find a drive's parallelism, stripe and read chunk by reads; compare reads of two data layouts."""

from dataclasses import dataclass

import numpy as np

from ssdbench.model.inside import ProbeNumbers, Scalar
from ssdbench.model.workload import Pattern
from ssdbench.stages.probe.bench import Answer, Bench, OnSpan, part
from ssdbench.stats.inside.probing import (
    WARM_SHARE,
    parallelism,
    read_chunk,
    stripe,
    wake_cost_ns,
    waking_energy,
)
from ssdbench.stats.inside.strides import Floats
from ssdbench.units import (
    GIB,
    KIB,
    MIB,
    NS_PER_S,
    format_duration,
    format_ns,
    format_size,
    listed,
)

PARALLEL_DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PARALLEL_BLOCK_BYTES = 4 * KIB
PARALLEL_IOS_PER_DEPTH = 4000


class Parallelism(OnSpan):
    """Find how many reads run at once: raise the queue depth until the rate stops growing."""

    name = "parallelism"
    title = "Usable parallelism from random reads at growing depth"
    span_bytes = 2 * GIB

    def ask(self, bench: Bench) -> Answer:
        """Measure the rate of random reads at each queue depth, and return the parallelism."""
        span = self.filled(bench)
        rates: dict[int, float] = {}
        alone = 0.0
        for depth in PARALLEL_DEPTHS:
            total = PARALLEL_BLOCK_BYTES * PARALLEL_IOS_PER_DEPTH * min(depth, 16)
            done = bench.rate(Pattern.RANDOM, PARALLEL_BLOCK_BYTES, 100, depth, span, total)
            rates[depth] = done.ios / max(done.runtime_s, 1e-9)
            if depth == 1:
                alone = NS_PER_S / max(done.lat_mean_ns, 1.0)
        table = tuple({"iodepth": d, "iops": round(rate, 1)} for d, rate in rates.items())
        # For depth 1, the rate is computed from the latency (Little's law), because the generator
        # needs time between two reads.
        found = parallelism({**rates, 1: alone})
        if found is None:
            return Answer("cannot tell: the rate still grows at the largest depth", table=table)
        times, knee = found
        return Answer(
            f"{times:.1f} reads at once; a depth of {knee} reaches 90 % of the highest rate",
            ProbeNumbers(reads_at_once=round(times, 2), depth_for_90_percent=knee),
            table,
        )


STRIDED_BLOCK_BYTES = 4 * KIB
STRIDED_IOS = 2500
STRIPE_DEPTH = 8
STRIPE_AGAIN = 3  # times the slowest stride is read again, in case the drive paused
STRIPE_REST_S = 30.0  # pause to empty the buffer, which would slow the first reads
STRIPE_ODD = (1, 3, 5, 7)
STRIPE_LEAST_BYTES, STRIPE_MOST_BYTES = 16 * KIB, 32 * MIB
STRIPE_STRIDES = tuple(
    sorted(
        {
            odd * STRIPE_LEAST_BYTES << shift
            for odd in STRIPE_ODD
            for shift in range(12)
            if odd * STRIPE_LEAST_BYTES << shift <= STRIPE_MOST_BYTES
        }
    )
)


class StripeWidth(OnSpan):
    """Find the stripe: parallel reads at a fixed stride are slow at multiples of the stripe.

    Source of the method: the strided reads of Queenie (SYSTOR 2022, F3) and Chen (HPCA 2011).
    """

    name = "stripe"
    title = "Stripe width from parallel reads at fixed strides"
    span_bytes = 4 * GIB

    def ask(self, bench: Bench) -> Answer:
        """Measure reads at strides of 1, 3, 5 and 7 times 16 KiB, 32 KiB, 64 KiB and so on."""
        span = self.filled(bench)
        bench.latencies(STRIDED_BLOCK_BYTES, 1, span, 1, rest_s=STRIPE_REST_S)
        strides = [stride for stride in STRIPE_STRIDES if stride * 4 * STRIPE_DEPTH <= span]
        rates = {stride: _strided_iops(bench, stride, STRIPE_DEPTH, span) for stride in strides}
        for _ in range(STRIPE_AGAIN if rates else 0):
            slowest = min(rates, key=lambda stride: rates[stride])
            again = _strided_iops(bench, slowest, STRIPE_DEPTH, span)
            rates[slowest] = max(rates[slowest], again)
        table = tuple({"stride_bytes": s, "iops": round(rate, 1)} for s, rate in rates.items())
        found = stripe(rates)
        if found is None:
            return Answer("cannot tell: no stride is slower than the others", table=table)
        return Answer(f"stripe of {format_size(found)}", ProbeNumbers(stripe_bytes=found), table)


CHUNK_STRIDES = tuple(n * KIB for n in (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256))
# Most stripes divide these strides, so that all reads are on one die.
CHUNK_MEET = tuple(n * KIB for n in (640, 768, 896, 1024))
CHUNK_WRAPS = 4  # a stride is used if the span has this many


class ReadChunk(OnSpan):
    """Find the read chunk (the size of consecutive data on one die) by two parallel reads.

    Two parallel reads at a small stride wait for the same die. If the stride is half the chunk or
    more, the waits end: at most two reads in a row are on one die, so the second one runs together
    with the next read, which is on another die. Source of the method: reads across the boundary of
    a chunk, Chen (HPCA 2011) and Queenie (SYSTOR 2022, F1).
    """

    name = "read-chunk"
    title = "Read chunk from two reads side by side at small strides"
    span_bytes = 2 * GIB

    def ask(self, bench: Bench) -> Answer:
        """Measure single reads, and two parallel reads at strides of 8 KiB to 1 MiB."""
        span = self.filled(bench)
        alone = _strided_iops(bench, CHUNK_STRIDES[-1], 1, span)
        rates = {
            stride: _strided_iops(bench, stride, 2, span)
            for stride in CHUNK_STRIDES + CHUNK_MEET
            if stride * CHUNK_WRAPS <= span
        }
        table = tuple({"stride_bytes": s, "iops": round(rate, 1)} for s, rate in rates.items())
        found = read_chunk(rates, alone=alone)
        if found is None:
            return Answer("cannot tell: two parallel reads do not wait for one die", table=table)
        least = found <= 2 * min(rates)
        text = f"{format_size(found)} or less" if least else format_size(found)
        return Answer(
            f"read chunk of {text}", ProbeNumbers(chunk_bytes=found, at_most=least), table
        )


def _strided_iops(bench: Bench, stride_bytes: int, iodepth: int, span_bytes: int) -> float:
    done = bench.rate(
        Pattern.STRIDED, STRIDED_BLOCK_BYTES, 100, iodepth, span_bytes,
        STRIDED_IOS * STRIDED_BLOCK_BYTES, stride_bytes=stride_bytes,
    )  # fmt: skip
    return done.ios / max(done.runtime_s, 1e-9)


MAPPING_BLOCK_BYTES = 128 * KIB
MAPPING_DEPTH = 4
MAPPING_SPAN_BYTES = GIB
MAPPING_SAME = 0.9  # from this share of the ordered data's rate on, the order does not matter


class Mapping:
    """Compare sequential reads of sequentially written data and of randomly written data."""

    name = "mapping"
    title = "Sequential reads of ordered and of scattered data"
    least_share = 1.0

    def writes(self, size_bytes: int) -> int:
        """Return the bytes that the probe writes: a sequential fill and a random fill."""
        return 2 * part(size_bytes, MAPPING_SPAN_BYTES)

    def ask(self, bench: Bench) -> Answer:
        """Read sequentially after a sequential fill, and once more after a random fill."""
        span = part(bench.size_bytes, MAPPING_SPAN_BYTES)
        rates = []
        for pattern in (Pattern.SEQUENTIAL, Pattern.RANDOM):
            bench.fill(span, pattern=pattern)
            done = bench.rate(
                Pattern.SEQUENTIAL, MAPPING_BLOCK_BYTES, 100, MAPPING_DEPTH, span, span
            )
            rates.append(done.bytes / max(done.runtime_s, 1e-9))
        ordered, scattered = rates
        share = scattered / max(ordered, 1e-9)
        table: tuple[dict[str, Scalar], ...] = (
            {"data": "ordered", "mb_per_s": round(ordered / 1e6, 1)},
            {"data": "scattered", "mb_per_s": round(scattered / 1e6, 1)},
        )
        text = (
            "the order in which data were written does not matter to reads"
            if share >= MAPPING_SAME
            else f"scattered data are read at {100 * share:.0f} % of the rate of ordered data"
        )
        return Answer(text, ProbeNumbers(scattered_over_ordered=share), table)


RESTS_S = (0.1, 1.0, 10.0, 60.0)
RESTS_OF_EACH = 8
READS_AFTER = 16  # after a rest: the first wakes the drive, the last half is warm
NS_PER_US = 1000.0


@dataclass(frozen=True)
class Wake(OnSpan):
    """Find how much longer the first read after an idle time takes: the cost of waking.

    The host's own idle states are part of it, because its CPUs rest as long as the drive.
    """

    rests_s: tuple[float, ...] = RESTS_S
    name = "wake"
    title = "First reads after idle times"
    span_bytes = 256 * MIB

    @property
    def resting_s(self) -> float:
        """Return the seconds of all rests together."""
        return (RESTS_OF_EACH + 1) * sum(self.rests_s)

    def ask(self, bench: Bench) -> Answer:
        """Read after rests of each length, and compare with the reads that follow at once."""
        span = self.filled(bench)
        measured = {
            rest_s: bench.paused_reads(span, rest_s, groups=RESTS_OF_EACH, each=READS_AFTER)
            for rest_s in self.rests_s
        }
        warm_ns = np.concatenate(
            [groups[:, READS_AFTER // 2 :].ravel() for groups, _ in measured.values()]
        )
        firsts = {rest_s: groups[:, 0] for rest_s, (groups, _) in measured.items()}
        if min(map(len, firsts.values())) < RESTS_OF_EACH:
            return Answer("cannot tell: some reads were not logged")
        costs_ns = {rest_s: wake_cost_ns(first, warm_ns) for rest_s, first in firsts.items()}
        table = tuple(
            {
                "rest_s": rest_s,
                "first_read_us": round(float(np.median(first)) / 1000, 1),
                "slowest_first_read_us": round(float(first.max()) / 1000, 1),
                "wake_us": None if (cost := costs_ns[rest_s]) is None else round(cost / 1000, 1),
                "watts": None if (told := measured[rest_s][1]) is None else told.mean_watts,
            }
            for rest_s, first in firsts.items()
        )
        usual_ns = float(np.median(warm_ns))
        numbers: dict[str, float] = {"warm_us": usual_ns / 1000}
        seen = {rest_s: cost for rest_s, cost in costs_ns.items() if cost is not None}
        longest_s = max(self.rests_s)
        if seen:
            numbers |= {"wake_after_s": min(seen)}
            numbers |= {"wake_us": seen[longest_s] / 1000} if longest_s in seen else {}
        power = measured[longest_s][1]
        told_power = ""
        if power is not None:
            idle_watts, joules = waking_energy(
                power.watts, power.mean_watts, power.seconds, RESTS_OF_EACH + 1
            )
            numbers |= {"wake_idle_watts": idle_watts} | ({"wake_joules": joules} if joules else {})
            told_power = f"; idle power {idle_watts:.3g} W, energy of waking " + (
                f"{joules:.3g} J" if joules else "none seen"
            )
        found = _wake_sentence(costs_ns, warm_ns)
        return Answer(found + told_power, ProbeNumbers.model_validate(numbers), table)


def _wake_sentence(costs_ns: dict[float, float | None], warm_ns: Floats) -> str:
    usual = format_ns(float(np.median(warm_ns)))
    told = ", ".join(
        f"{format_ns(cost)} after {format_duration(rest_s)}"
        for rest_s, cost in costs_ns.items()
        if cost is not None
    )
    none = listed([format_duration(rest_s) for rest_s, cost in costs_ns.items() if cost is None])
    if not told:
        spread_ns = float(np.quantile(warm_ns, WARM_SHARE) - np.median(warm_ns))
        least = format_ns(max(spread_ns, NS_PER_US))
        return (
            f"none seen: a read after {none} of idle time is as fast as other reads (median "
            f"{usual}); a cost of more than about {least} would be seen"
        )
    rest = f", none seen after {none}" if none else ""
    return f"the first read after idle time takes longer (warm median {usual}): {told}{rest}"
