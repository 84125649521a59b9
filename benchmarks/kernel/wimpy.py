"""What is left of the report on wimpy processors (2010): schedulers, entropy, and the layers."""

from benchmarks.kernel.experiment import Claim, Model
from benchmarks.kernel.guestshell import SCSI_DISK, TOOLS
from benchmarks.kernel.plain import Plain

ELEVATORS = ("none", "mq-deadline", "kyber", "bfq", "bpref-as", "bpref-cfq")
EACH = """
each() { load --filename=/dev/nullb0 --size=256m --rw=randread --bs=4k --ioengine=psync
  row $1-1 iops $(rate)
  load --filename=/dev/nullb0 --size=256m --rw=randread --bs=4k --ioengine=libaio --iodepth=32
  row $1-32 iops $(rate); }
"""


def _elevators(model: Model, seed: int) -> str:
    return "\n".join(
        [
            TOOLS + EACH + f"SEED={seed}; Q=/sys/block/nullb0/queue",
            f"modprobe null_blk nr_devices=1 gb=1 irqmode={model['irqmode']} submit_queues=1",
            "modprobe kyber-iosched; modprobe bfq; modprobe mq-deadline 2> /dev/null || true",
            f"for s in {' '.join(ELEVATORS)}; do echo $s > $Q/scheduler",
            '  grep -q "\\[$s\\]" $Q/scheduler; each $s; done',
            "echo none > $Q/scheduler",
            "for e in 0 1; do echo $e > $Q/add_random; each entropy-$e; done",
        ]
    )


SCHEDULERS = Plain(
    "elevators",
    "random 4 KiB reads with each scheduler, and with entropy credited, on a device without time",
    lambda series: {"irqmode": 1},
    _elevators,
    (
        *(
            Claim(
                f"section 4: none / {other}, {depth} at a time",
                f"none-{depth}", 1.1, (f"{other}-{depth}",),
            )
            for other in ("bpref-cfq", "bfq")
            for depth in (1, 32)
        ),
        *(
            Claim(
                f"section 3: entropy credited / not, {depth} at a time",
                f"entropy-1-{depth}", 1.0, (f"entropy-0-{depth}",),
            )
            for depth in (1, 32)
        ),
    ),
)  # fmt: skip

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


def _layers(model: Model, seed: int) -> str:
    return "\n".join(
        [
            TOOLS + SCSI_DISK + LAYERS + f"SEED={seed}",
            f"modprobe null_blk nr_devices=1 gb=1 bs=512 irqmode=0 submit_queues=1"
            f" hw_queue_depth={model['slots']}",
            "modprobe mq-deadline 2> /dev/null || true",
            f"scsi_disk {model['slots']}",
            "for s in none mq-deadline; do",
            "echo $s > /sys/block/$DISK/queue/scheduler",
            "echo $s > /sys/block/nullb0/queue/scheduler",
            "layers scsi-$s /dev/$DISK; layers block-$s /dev/nullb0; done",
        ]
    )


TIMING = Plain(
    "layers2010",
    "time of a 512-byte read between the block layer's tracepoints, and outside of it",
    lambda series: {"slots": 32, "fake_rw": 1, "delay": 0, "irqmode": 0},
    _layers,
    tuple(
        Claim(
            f"section 4: share of the time outside the block layer, {device}, {scheduler}",
            f"{device}-{scheduler}", 0.5, (), "outside_share",
        )
        for device in ("scsi", "block")
        for scheduler in ("none", "mq-deadline")
    ),
)  # fmt: skip
