"""The schedulers of Heger 2011 on a model of his drive."""

from benchmarks.kernel.experiment import Claim, Model
from benchmarks.kernel.guestshell import TOOLS, assignments
from benchmarks.kernel.plain import Plain
from ssdbench.sim.spec import parse

WAYS = ("randread", "randwrite", "read", "write")
OTHERS = ("mq-deadline", "bpref-as", "bpref-cfq")


def _drive(capacity: str) -> Model:
    params = parse(f"sim:x25m-g2-160,capacity={capacity}").params
    return {name: int(value) for name, value in params.items()} | {"completion": "timer"}


# Four threads, each in its own quarter, as FFSB's four (64 KiB requests where in order).
LOADS = """
Q=/sys/block/ssd0/queue
each() { local bs=4k; case $2 in read|write) bs=64k;; esac
  load --filename=/dev/ssd0 --ioengine=libaio --iodepth=8 --numjobs=4 --rw=$2 --bs=$bs --size=48m \\
    --offset_increment=48m
  row $2-$1 iops $(rate); }
fill() { dd if=/dev/zero of=/dev/ssd0 bs=1M count=$((capacity_bytes >> 20)) oflag=direct \\
  2> /dev/null; }
"""


def _schedulers(model: Model, seed: int) -> str:
    names = ("none", *OTHERS)
    turned = names[seed % 4 :] + names[: seed % 4]
    return "\n".join(
        [
            TOOLS + LOADS + f"SEED={seed}; RUN=2s\ncapacity_bytes={model['capacity_bytes']}",
            "modprobe mq-deadline 2> /dev/null || true",
            f"for s in {' '.join(turned)}; do drive {assignments(model)}; fill",
            "echo $s > $Q/scheduler; ! [ -e $Q/iosched/block_preference ] ||"
            " echo 0 > $Q/iosched/block_preference",
            f"for rw in {' '.join(WAYS)}; do each $s $rw; done",
            "echo none > $Q/scheduler; echo 0 > $F/power; rmdir $F; done",
        ]
    )


SCHEDULERS = Plain(
    "elevators2011",
    "four threads through each scheduler on the X25-M model, random and sequential",
    lambda series: _drive("192MiB"),
    _schedulers,
    tuple(
        Claim(f"{way}: noop / {other}", f"{way}-none", 1.0, (f"{way}-{other}",))
        for way in WAYS
        for other in OTHERS
    ),
)
