"""Experiments of Heger 2011: an aged file system over the whole drive, and the schedulers."""

from benchmarks.kernel.experiment import Experiment, Model, assignments, claims
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


def _schedulers(model: Model, seed: int) -> list[str]:
    names = ("none", *OTHERS)
    turned = names[seed % 4 :] + names[: seed % 4]
    return [
        f"RUN=2s\ncapacity_bytes={model['capacity_bytes']}",
        "modprobe mq-deadline 2> /dev/null || true",
        f"for s in {' '.join(turned)}; do drive {assignments(model)}; fill",
        "echo $s > $Q/scheduler; ! [ -e $Q/iosched/block_preference ] ||"
        " echo 0 > $Q/iosched/block_preference",
        f"for rw in {' '.join(WAYS)}; do each $s $rw; done",
        "echo none > $Q/scheduler; echo 0 > $F/power; rmdir $F; done",
    ]


SCHEDULERS = Experiment(
    "elevators2011",
    "four threads through each scheduler on the X25-M model, random and sequential",
    lambda series: _drive("192MiB"),
    LOADS,
    _schedulers,
    claims(
        {
            f"{way}: noop / {other}": f"{way}-none >= 1.0 {way}-{other}"
            for way in WAYS
            for other in OTHERS
        }
    ),
)

# A new file system with few files; then one that is nearly full, of which every other file of each
# directory was replaced by one of another size, as FFSB ages. Then 4 KiB writes at random
# places of the files by four threads.
AGED = """
own dd sync fio
mkdir -p /mnt
make_() { mine dd if=/dev/zero of=/mnt/$(($1 % 4))/$1 bs=64k \\
    count=$(( 1 + (7 * $1 + 4 * $2) % 15 )) 2> /dev/null; }
names() { (cd /mnt; ls -d $1/* | tr '\\n' ':' | sed 's/:$//'); }
writers() { local jobs= n; for n in 0 1 2 3; do
    jobs+=" --name=j$n --filename=$(names $n | sed 's,^,/mnt/,; s,:,:/mnt/,g')"; done
  mine fio --direct=1 --rw=randwrite --bs=4k --ioengine=psync --thread --group_reporting \\
    --randseed=$SEED --norandommap --file_service_type=random --openfiles=64 \\
    --ramp_time=$2 --time_based --runtime=$3 --minimal $jobs > /run/terse
  row $1 iops $(rate); }
told() { row $1 full $(df /mnt | awk 'END {print $3 / $2}')
  row $1 extents_per_file $(filefrag /mnt/*/* | awk '{n += $2} END {print n / NR}'); }
"""


def _aged(model: Model, seed: int) -> list[str]:
    device = {n: v for n, v in model.items() if n != "files"}
    files = int(model["files"])
    return [
        f"capacity_bytes={model['capacity_bytes']}",
        f"drive {assignments(device)}; echo none > /sys/block/ssd0/queue/scheduler",
        "mine dd if=/dev/zero of=/dev/ssd0 bs=1M count=$((capacity_bytes >> 20)) oflag=direct"
        " 2> /dev/null",
        "mkfs.xfs --unsupported -q -f -K -l size=8m /dev/ssd0  # allows less than 300 MiB",
        "mount -t xfs /dev/ssd0 /mnt; mkdir -p /mnt/{0,1,2,3}",
        f"for n in $(seq {files // 20}); do make_ $n $SEED; done; mine sync -f /mnt",
        "told young; writers young 6s 4s",
        f"for n in $(seq {files // 20 + 1} {files}); do make_ $n $SEED; done",
        f"again=$(for n in $(seq {files}); do echo $n $(( n / 4 % 2 )); done |"
        " awk '$2 {print $1}')",
        "for n in $again; do echo /mnt/$((n % 4))/$n; done | xargs rm",
        "for n in $again; do make_ $n $((SEED + 1)); done",
        "mine sync -f /mnt",
        "told aged; writers aged 110s 20s",
        "umount /mnt",
    ]


AGING = Experiment(
    "aged2011",
    "random writes to files of a new XFS on 5 % of the X25-M model, and of a full and aged one",
    lambda series: _drive("192MiB") | {"store": 1, "files": 270},
    AGED,
    _aged,
    claims({"whole and aged / 5 % and new": "aged <= 342/3182 young"}),
)

EXPERIMENTS = (SCHEDULERS, AGING)
