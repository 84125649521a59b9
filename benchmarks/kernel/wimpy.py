"""Experiments of the report on wimpy processors (2010), and the cost of our own schedulers.

`slam` has the in-kernel slammer against fio on devices that need no time of their own, where the
rate is the host's software alone (the reason for `scsi_slammer` in section 4). fio is given every
help it knows: io_uring with fixed buffers and registered files, submission and completion in
batches, no timestamps. `cost` has what a request costs with each scheduler, as a share of
mq-deadline's cost: the device ends a request where it is sent, so the time of a request is fio, the
block layer, the scheduler and the driver, in instructions.
"""

from benchmarks.kernel.experiment import SCSI_DISK, Experiment, Model, assignments, claims

LEVELS = ("bio", "request")
TUNED = (
    "--ioengine=io_uring --iodepth=32 --iodepth_batch_submit=32 --iodepth_batch_complete_min=1"
    " --iodepth_batch_complete_max=32 --fixedbufs --registerfiles --gtod_reduce=1"
)
FIO = {
    "fio-psync": "--ioengine=psync",
    "fio-psync-no-clock": "--ioengine=psync --gtod_reduce=1",
    "fio-libaio-32": "--ioengine=libaio --iodepth=32",
    "fio-uring-32": "--ioengine=io_uring --iodepth=32",
    "fio-uring-32-tuned": TUNED,
}
SLAM = """
slam() { mkdir $S; put $S device=$1 level=$2 depth=32 seed=$SEED runtime_ms=300 running=1
  sleep 0.35
  while [ "$(cat $S/running)" = 1 ]; do sleep 0.1; done
  echo $(( $(cat $S/ios) * 1000000000 / $(cat $S/elapsed_ns) )); rmdir $S; }
"""


def _slam(model: Model, seed: int) -> list[str]:
    """Return the script: on both devices each level of slam, then each way of fio."""
    lines = [
        "modprobe null_blk nr_devices=1 gb=1 bs=4096 irqmode=0 submit_queues=1",
        f"drive {assignments(model)}",
        "for name in null_blk flash; do",
        "[ $name = flash ] && disk=ssd0 || disk=nullb0",
        "echo none > /sys/block/$disk/queue/scheduler",
    ]
    lines += [f"row $name-slam-{at} iops $(slam /dev/$disk {at})" for at in LEVELS]
    for case, options in FIO.items():
        lines.append(f"load --filename=/dev/$disk --rw=randread --size=256m {options}")
        lines.append(f"row $name-{case} iops $(rate)")
    return [*lines, "done"]


SLAMMER = Experiment(
    "slam",
    "the in-kernel slammer against fio, random 4 KiB reads at depth 32 on one CPU",
    lambda series: {
        "cmd_serial_ns": 0, "link_mbps": 1_000_000, "completion": "inline", "depth": 128,
    },
    SLAM,
    _slam,
    claims(
        {
            f"{device}: slam ({level}) / fio {told}": (
                f"{device}-slam-{level} >= {wanted} {device}-fio-{way}"
            )
            for device in ("null_blk", "flash")
            for level in reversed(LEVELS)
            for told, way, wanted in (
                ("psync", "psync", 2.9), ("io_uring tuned", "uring-32-tuned", 2.0),
            )
        }
    ),
)  # fmt: skip

BASE = "mq-deadline"
SCHEDULERS = ("bpref-as", "bpref-cfq")
DEPTHS = (1, 32)
LOADS = ("randwrite", "randread")


def _cost(model: Model, seed: int) -> list[str]:
    """Return the script: each depth and direction with one scheduler, then with the next."""
    return [
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


COST = Experiment(
    "cost",
    "time of a random 4 KiB request with each scheduler on a device that takes none",
    lambda series: {"irqmode": 0, "submit_queues": 1, "gb": 1, "requests": 50_000},
    "",
    _cost,
    claims(
        {
            f"{load}, depth {depth}: {which} / {BASE}": (
                f"{load}-{depth}-{which} <= 1.1 {load}-{depth}-{BASE}"
            )
            for load in LOADS
            for depth in DEPTHS
            for which in SCHEDULERS
        },
        "request_ns",
    ),
)

ELEVATORS = ("none", "mq-deadline", "kyber", "bfq", "bpref-as", "bpref-cfq")
EACH = """
each() { load --filename=/dev/nullb0 --size=256m --rw=randread --bs=4k --ioengine=psync
  row $1-1 iops $(rate)
  load --filename=/dev/nullb0 --size=256m --rw=randread --bs=4k --ioengine=libaio --iodepth=32
  row $1-32 iops $(rate); }
"""


BY_SCHEDULER = Experiment(
    "elevators",
    "random 4 KiB reads with each scheduler, and with entropy credited, on a device without time",
    lambda series: {"irqmode": 1},
    EACH,
    lambda model, seed: [
        "Q=/sys/block/nullb0/queue",
        f"modprobe null_blk nr_devices=1 gb=1 irqmode={model['irqmode']} submit_queues=1",
        "modprobe kyber-iosched; modprobe bfq; modprobe mq-deadline 2> /dev/null || true",
        f"for s in {' '.join(ELEVATORS)}; do echo $s > $Q/scheduler",
        '  grep -q "\\[$s\\]" $Q/scheduler; each $s; done',
        "echo none > $Q/scheduler",
        "for e in 0 1; do echo $e > $Q/add_random; each entropy-$e; done",
    ],
    claims(
        {
            f"section 4: none / {other}, {depth} at a time": f"none-{depth} >= 1.1 {other}-{depth}"
            for other in ("bpref-cfq", "bfq")
            for depth in (1, 32)
        }
        | {
            f"section 3: entropy credited / not, {depth} at a time": (
                f"entropy-1-{depth} >= 1.0 entropy-0-{depth}"
            )
            for depth in (1, 32)
        }
    ),
)

# Medians between the block layer's tracepoints, one request at a time, in ticks of the guest.
# "Outside" is the report's driver: from the call of the driver to the entry of the next request.
LAYERS = """
D=/sys/kernel/tracing; mountpoint -q $D || mount -t tracefs tracefs $D
layers() { echo 0 > $D/tracing_on; echo > $D/trace; echo x86-tsc > $D/trace_clock
  echo 32768 > $D/buffer_size_kb
  for e in bio_queue getrq rq_insert rq_issue rq_complete; do
    echo 1 > $D/events/block/block_$e/enable; done
  echo 1 > $D/tracing_on
  load --filename=$2 --size=64m --rw=randread --ioengine=psync --bs=512 --runtime=40ms
  echo 0 > $D/tracing_on; cat $D/trace > /run/trace
  CASE=$1 python3 -c '
import os, re, statistics
spans = {}
at = {}
for line in open("/run/trace"):
    found = re.search(r" (\\d+): block_(\\w+): ", line)
    if found is None:
        continue
    tick, event = int(found[1]), found[2]
    if event == "bio_queue":
        if {"getrq", "rq_issue", "rq_complete"} <= at.keys():
            ready = at.get("rq_insert", at["rq_issue"])
            for name, begin, end in (
                ("allocate", at["bio_queue"], at["getrq"]), ("prepare", at["getrq"], ready),
                ("dispatch", ready, at["rq_issue"]), ("driver", at["rq_issue"], at["rq_complete"]),
                ("after", at["rq_complete"], tick), ("outside", at["rq_issue"], tick),
                ("inside", at["bio_queue"], at["rq_issue"]),
            ):
                spans.setdefault(name, []).append(end - begin)
        at = {}
    at[event] = tick
for name, values in spans.items():
    print("row", os.environ["CASE"], name, statistics.median(values))
outside, inside = (statistics.median(spans[name]) for name in ("outside", "inside"))
print("row", os.environ["CASE"], "outside_share", outside / (outside + inside))
print("row", os.environ["CASE"], "requests", len(spans["outside"]))
'; }
"""


TIMING = Experiment(
    "layers2010",
    "time of a 512-byte read between the block layer's tracepoints, and outside of it",
    lambda series: {"slots": 32, "fake_rw": 1, "delay": 0, "irqmode": 0},
    SCSI_DISK + LAYERS,
    lambda model, seed: [
        f"modprobe null_blk nr_devices=1 gb=1 bs=512 irqmode=0 submit_queues=1"
        f" hw_queue_depth={model['slots']}",
        "modprobe mq-deadline 2> /dev/null || true",
        f"scsi_disk {model['slots']}",
        "for s in none mq-deadline; do",
        "echo $s > /sys/block/$DISK/queue/scheduler",
        "echo $s > /sys/block/nullb0/queue/scheduler",
        "layers scsi-$s /dev/$DISK; layers block-$s /dev/nullb0; done",
    ],
    claims(
        {
            f"section 4: share of the time outside the block layer, {device}, {which}": (
                f"{device}-{which} >= 0.5"
            )
            for device in ("scsi", "block")
            for which in ("none", "mq-deadline")
        },
        "outside_share",
    ),
)

EXPERIMENTS = (SLAMMER, COST, BY_SCHEDULER, TIMING)
