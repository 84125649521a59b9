"""What a request costs with each scheduler, as a share of mq-deadline's cost.

The device needs no time and ends a request where it is sent, so the time of a request is the host's
software alone, in instructions: fio, the block layer, the scheduler and the driver.
"""

from collections.abc import Sequence

from benchmarks.kernel.experiment import Claim, Model
from benchmarks.kernel.guestshell import TOOLS

BASE = "mq-deadline"
SCHEDULERS = ("bpref-as", "bpref-cfq")
DEPTHS = (1, 32)
LOADS = ("randwrite", "randread")
WANTED = 1.1


class Cost:
    """Random requests, one and 32 at a time, one CPU."""

    name = "cost"
    about = "time of a random 4 KiB request with each scheduler on a device that takes none"
    cpus = 1

    def freeze(self, series: str) -> Model:
        """A device without time has nothing to measure first."""
        return {"irqmode": 0, "submit_queues": 1, "gb": 1, "requests": 50_000}

    def script(self, model: Model, seed: int) -> str:
        """Every depth and direction with one scheduler, then with the next."""
        return "\n".join(
            [
                TOOLS + f"SEED={seed}",
                f"modprobe null_blk nr_devices=1 gb={model['gb']} irqmode={model['irqmode']}"
                f" submit_queues={model['submit_queues']}",
                # Built in, it is listed; else it is a module, which must be there.
                f"grep -qw {BASE} /sys/block/nullb0/queue/scheduler || modprobe {BASE}",
                f"for s in none {BASE} {' '.join(SCHEDULERS)}; do",
                "echo $s > /sys/block/nullb0/queue/scheduler",
                'grep -q "\\[$s\\]" /sys/block/nullb0/queue/scheduler',
                f"for rw in {' '.join(LOADS)}; do for d in {' '.join(map(str, DEPTHS))}; do",
                "fio --name=r --filename=/dev/nullb0 --direct=1 --rw=$rw --bs=4k --size=1g"
                " --ioengine=libaio --iodepth=$d --iodepth_batch_submit=$d"
                f" --iodepth_batch_complete_min=$d --number_ios={model['requests']}"
                " --randseed=$SEED --norandommap --minimal > /run/terse",
                "row $rw-$d-$s request_ns $(awk -v iops=$(rate) 'BEGIN {print 1e9 / iops}')",
                "done; done; done",
            ]
        )

    def claims(self) -> Sequence[Claim]:
        """Over mq-deadline."""
        return [
            Claim(
                f"{load}, depth {depth}: {scheduler} / {BASE}",
                f"{load}-{depth}-{scheduler}", WANTED, (f"{load}-{depth}-{BASE}",),
                "request_ns", at_most=True,
            )
            for load in LOADS
            for depth in DEPTHS
            for scheduler in SCHEDULERS
        ]  # fmt: skip
