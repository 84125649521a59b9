"""Questions that the papers leave open: files in pieces, idle write-back, preference of units."""

from benchmarks.kernel.experiment import FIO_IN_MEMORY, Experiment, Model, assignments, claims
from ssdbench.sim.spec import parse

# A file in one piece and one in the holes that every second of many small files has left, on the
# same full file system; four threads work on each.
PIECES = """
own filefrag
mkdir -p /mnt
laid() { mine dd if=/dev/zero of=/mnt/$1 bs=64k count=$(($2 * 16)) oflag=direct 2> /dev/null; }
each() { local name=$1 rw=$2 bs=4k; case $rw in read|write) bs=64k;; esac
  load --filename=/mnt/$name --ioengine=psync --numjobs=4 --size=4m --offset_increment=4m \\
    --rw=$rw --bs=$bs --runtime=2s
  row $rw-$name iops $(rate); }
told() { row $1 extents $(mine filefrag /mnt/$1 | awk '{print $(NF - 2)}'); }
"""
WAYS = ("read", "randread", "write", "randwrite")


def _pieces(model: Model, seed: int) -> list[str]:
    device = {n: v for n, v in model.items() if n != "files"}
    names = ("whole", "pieces") if seed % 2 else ("pieces", "whole")
    return [
        f"drive {assignments(device)}; echo none > /sys/block/ssd0/queue/scheduler",
        f"mine dd if=/dev/zero of=/dev/ssd0 bs=1M count={int(model['capacity_bytes']) >> 20}"
        " oflag=direct 2> /dev/null",
        "mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 -b 4096 -m 0 -J size=4 /dev/ssd0",
        "mount -t ext4 /dev/ssd0 /mnt; mkdir /mnt/small; laid whole 16; laid rest 96",
        # These files fill what is left, so fio may end with "no space left".
        "mine fio --name=s --directory=/mnt/small --rw=write --bs=16k --filesize=16k-112k"
        f" --nrfiles={model['files']} --create_on_open=1 --openfiles=1 --fallocate=none"
        " --file_service_type=sequential --ioengine=psync --randseed=$SEED --end_fsync=1"
        " --minimal > /run/terse || true",
        "rm /mnt/small/*[02468]; mine sync -f /mnt; laid pieces 16",
        "told whole; told pieces",
        "row pieces full $(df /mnt | awk 'END {print $3 / $2}')",
        *(f"each {name} {way}" for way in WAYS for name in names),
        "umount /mnt; echo 0 > $F/power; rmdir $F",
    ]


def _whole_drive(series: str) -> Model:
    params = parse("sim:x25m-g2-160,capacity=192MiB").params
    device: Model = {name: int(value) for name, value in params.items()}
    return device | {"completion": "timer", "store": 1, "files": 1000}


FRAGMENTS = Experiment(
    "fragments2011",
    "reads and writes of a file in one piece and of a file in many, on the X25-M model",
    _whole_drive,
    FIO_IN_MEMORY + PIECES,
    _pieces,
    claims({f"{way}: in pieces / in one": f"{way}-pieces >= 0.95 {way}-whole" for way in WAYS}),
)

# 4 MiB of a file are written again every ten seconds for two minutes. How much of it reaches the
# drive, and when the first of it does.
WRITE_BACK = """
own dd sync
mkdir -p /mnt
sectors() { awk '{print $7}' /sys/block/ssd0/stat; }
again() { mine dd if=/dev/zero of=/mnt/file bs=64k count=64 conv=notrunc 2> /dev/null; }
# The shell waits by itself: a program would come from the host.
exec 9<> <(:)
pause() { read -t $1 -u 9 || true; }
each() { local case=$1 expire=$2 every=$3 before first= began n
  echo $expire > /proc/sys/vm/dirty_expire_centisecs
  echo $every > /proc/sys/vm/dirty_writeback_centisecs
  mine sync -f /mnt; before=$(sectors); began=$(us)
  for n in {1..12}; do again
    for m in {1..40}; do pause 0.25
      if [ -z "$first" ] && [ $(( $(sectors) - before )) -gt 1024 ]; then
        first=$(( ($(us) - began) / 1000 )); fi; done; done
  row $case first_ms ${first:-120000}
  row $case share $(awk -v a=$before -v b=$(sectors) 'BEGIN {print (b - a) / 12 / 8192}')
  mine sync -f /mnt; }
"""
# Centiseconds: how old dirty pages may become, and how often the kernel looks.
EXPIRES = {"default": (3000, 500), "expire-3s": (300, 100), "laptop": (60_000, 60_000)}


def _write_back(model: Model, seed: int) -> list[str]:
    cases = [f"each {case} {age} {every}" for case, (age, every) in EXPIRES.items()]
    first = seed % len(cases)
    return [
        f"drive {assignments(model)}; echo none > /sys/block/ssd0/queue/scheduler",
        "mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0 -b 4096 -J size=4 /dev/ssd0",
        "mount -t ext4 /dev/ssd0 /mnt; again",
        *cases[first:],
        *cases[:first],
        "umount /mnt; echo 0 > $F/power; rmdir $F",
    ]


IDLE = Experiment(
    "writeback",
    "how much of a file that is written again every ten seconds reaches the drive",
    lambda series: {
        "capacity_bytes": 64 << 20, "completion": "timer", "store": 1, "t_prog_ns": 200_000,
        "channels": 4, "dies_per_channel": 1, "link_mbps": 270,
    },
    FIO_IN_MEMORY + WRITE_BACK,
    _write_back,
    claims(
        {
            "written to the drive: by default / all": "default <= 0.5",
            "written to the drive: after 3 s / all": "expire-3s >= 0.9",
            "written to the drive: never by age / all": "laptop <= 0.1",
        },
        "share",
    ),
    seeds_per_guest=3,
)  # fmt: skip

# Block preference where the block is a mapping unit: 4 KiB writes at random, 64 of them waiting in
# the scheduler, in a span so small that several are of one unit, and in the whole drive.
UNITS_KIB, SPANS = (16, 64), {"near": "2m", "far": "48m"}
PREFERENCES = ("bpref-as", "bpref-cfq")
PREFERRED = """
Q=/sys/block/ssd0/queue; I=$Q/iosched
each() { local unit=$1 name=$2 on=$3 where=$4 span=$5 case; case=$where-${unit}k-$name-$on
  drive $DEVICE map_unit_bytes=$(($unit << 10)); echo $name > $Q/scheduler
  echo $(($unit << 10)) > $I/block_bytes; echo $on > $I/block_preference
  mine dd if=/dev/zero of=/dev/ssd0 bs=1M count=48 oflag=direct 2> /dev/null
  load --filename=/dev/ssd0 --ioengine=libaio --iodepth=64 --rw=randwrite --size=$span \\
    --runtime=1s
  row $case iops $(rate)
  row $case write_crossings $(awk -v n=$(cat $I/write_crossings) -v r=$(rate) 'BEGIN {print n / r}')
  echo none > $Q/scheduler; echo 0 > $F/power; rmdir $F; }
"""


def _preferred(model: Model, seed: int) -> list[str]:
    return [
        f"DEVICE='{assignments(model)}'",
        *(
            f"each {unit} {name} {on} {where} {span}"
            for unit in UNITS_KIB
            for where, span in SPANS.items()
            for name in PREFERENCES
            for on in ((0, 1) if seed % 2 else (1, 0))
        ),
    ]


UNITS = Experiment(
    "bpref-units",
    "random 4 KiB writes with and without block preference on drives that map 16 and 64 KiB",
    lambda series: {
        "capacity_bytes": 64 << 20, "ftl": "page", "completion": "timer", "depth": 8, "store": 0,
        "cmd_serial_ns": 2000, "channels": 4, "dies_per_channel": 1, "link_mbps": 500,
        "t_read_ns": 60_000, "t_prog_ns": 300_000, "op_ppm": 280_000,
        "erase_block_bytes": 131_072, "wbuf_bytes": 262_144,
        "program_unit_bytes": 16_384, "read_unit_bytes": 4096,
    },
    FIO_IN_MEMORY + PREFERRED,
    _preferred,
    claims(
        {
            f"{unit} KiB, {where}, {name}: on / off": (
                f"{where}-{unit}k-{name}-1 >= 1.0 {where}-{unit}k-{name}-0"
            )
            for unit in UNITS_KIB
            for where in SPANS
            for name in PREFERENCES
        }
    ),
    seeds_per_guest=3,
)  # fmt: skip

EXPERIMENTS = (FRAGMENTS, IDLE, UNITS)
