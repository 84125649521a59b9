"""Experiments of Seppanen et al. 2010: no request queue, slots, interrupts, SCSI, files, the cache.

The paper's drive works on 128 commands at once and gives 1.09 M random reads of 512 bytes each
second on 16 CPUs: with all slots taken, the drive is as fast as the host. So `flash` measures the
time of one such read on a device that takes none (the software), and a read takes 128 times as
long, whichever others are under way.

The guest's CPUs take turns on one stream of instructions and have no caches. What one CPU's
interrupts cost the others shows in the rates; that several CPUs do them at the same time, or that
one finds its neighbour's data in a cache, cannot. So each case of figures 3 and 6 has its counters:
interrupts of each CPU, and calls from CPU to CPU, for each I/O.
"""

from collections.abc import Callable

from benchmarks.kernel.experiment import (
    FIO_IN_MEMORY,
    SCSI_DISK,
    Experiment,
    Model,
    assignments,
    claims,
    frozen,
    latency_ns,
)
from benchmarks.kernel.yu import TMERGE

SLOTS = 128
# A drive that works on any number of commands at once, each for as long as its time says.
SIDE_BY_SIDE: Model = {
    "cmd_serial_ns": 0,
    "channels": 256,
    "dies_per_channel": 256,
    "completion": "timer",
}
CPUS = 4
# Figure 5: with and without the block layer's queue, a quarter of the slots and all of them.
PATHS: dict[str, Model] = {
    f"path-{mode}-{slots}": {"mode": mode, "depth": slots, "lines": "one"}
    for mode in ("mq", "bio")
    for slots in (32, SLOTS)
}
# Figure 6: all on one CPU, half on another, each where it was submitted (by a call, or by a line
# of its own as today's drives have).
SPLITS: dict[str, Model] = {
    "split-one": {"lines": "one"},
    "split-two": {"lines": "two", "irq_cpu2": 1},
    "split-origin": {"lines": "one", "return_to_origin": 1},
    "split-line-each": {"lines": "percpu"},
}
# Figure 3: threads on CPUs 0 and 1, interrupts on one of them or on one that runs none of them.
ROUTES: dict[str, Model] = {
    "route-own": {"lines": "one", "irq_cpu": 0},
    "route-other": {"lines": "one", "irq_cpu": 3},
}

WORK = """
calls() { awk '$1 == "CAL:" {for (n = 2; n < NF && $n ~ /^[0-9]+$/; n++) s += $n; print s}' \
  /proc/interrupts; }
each() { local case=$1 cpus=$2; shift 2; drive $DEVICE "$@"
  # Without a request queue there is no scheduler to choose.
  case " $* " in *" mode=mq "*) echo none > /sys/block/ssd0/queue/scheduler;; esac
  before=$(calls)
  load --filename=/dev/ssd0 --ioengine=psync --rw=randread --bs=512 --size=256m --numjobs=128 \
    --cpus_allowed=$cpus
  after=$(calls); ios=$(count $F commands)
  row $case iops $(rate); row $case latency_us $(latency_us)
  row $case calls_per_io $(awk -v a=$before -v b=$after -v n=$ios 'BEGIN {print (b - a) / n}')
  for n in 0 1 2 3; do i=$(count $F interrupts_$n)
    row $case interrupts_per_io_$n $(awk -v a=${i:-0} -v n=$ios 'BEGIN {print a / n}'); done
  echo 0 > $F/power; rmdir $F; }
"""


def _measured(series: str) -> Model:
    """Return a drive whose reads take as long as the software of all slots."""
    cost_ns = latency_ns(
        series,
        "SEED=1\ndrive completion=inline cmd_serial_ns=0 link_mbps=1000000 depth=128"
        " map_unit_bytes=512",
        "echo none > /sys/block/ssd0/queue/scheduler",
        "load --filename=/dev/ssd0 --ioengine=psync --size=256m --rw=randread --bs=512",
    )
    return SIDE_BY_SIDE | {
        "software_ns": cost_ns,
        "t_read_ns": cost_ns * SLOTS,
        "link_mbps": 1_000_000,
        "map_unit_bytes": 512,
    }


def _flash(model: Model, seed: int) -> list[str]:
    """Return the script: each path, split and route on a fresh device."""
    whole: Model = {"mode": "bio", "depth": SLOTS}
    return [
        f"DEVICE='{assignments(model)}'",
        *(f"each {case} 0 {assignments(how)}" for case, how in PATHS.items()),
        *(f"each {case} 0-3 {assignments(whole | how)}" for case, how in SPLITS.items()),
        *(f"each {case} 0-1 {assignments(whole | how)}" for case, how in ROUTES.items()),
    ]


FLASH = Experiment(
    "flash",
    "ssdb_flash with and without a request queue, and its interrupt work on 1, 2 or all CPUs",
    _measured,
    WORK,
    _flash,
    claims(
        {
            "figure 5: no queue and 128 slots / queue and 32": "path-bio-128 >= 1.05 path-mq-32",
            "figure 5: no queue alone / queue and 32": "path-bio-32 <= 1.05 path-mq-32",
            "figure 5: 128 slots alone / queue and 32": "path-mq-128 <= 1.05 path-mq-32",
            "figure 5: both / 128 slots alone": "path-bio-128 >= 1.0 path-mq-128",
            "figure 6: two ways / one CPU": "split-two >= 1.48 split-one",
            "figure 6: all CPUs / two ways": "split-origin <= 0.83 split-two",
            "figure 3: a CPU of the threads / another": "route-own >= 1.0 route-other",
        }
    ),
    CPUS,
)

# Where interrupts can matter: one slow CPU that reads and ends reads, 32 slots as AHCI and SATA
# have, and a drive that is twice as fast as this CPU.
SLOW_CPU_SLOTS, DRIVE_OVER_CPU = 32, 2
# Section V.B: how many ended reads share an interrupt. None: as many as have ended by then.
COUNTS = (2, 4, 8, 16)
# The report of 2010, section 3: an interrupt this long after the end of a read.
DEFERRALS_US = (20, 100, 200)

WAITS = """
each() { local case=$1 jobs=$2; shift 2; drive $DEVICE "$@"
  load --filename=/dev/ssd0 --ioengine=psync --rw=randread --bs=512 --size=256m --numjobs=$jobs
  ios=$(count $F commands); more=$(count $F extra_commands)
  row $case iops $(rate); row $case latency_us $(latency_us)
  row $case drive_commands_per_s $(awk -v r=$(rate) -v n=$ios -v m=${more:-0} \\
    'BEGIN {print n ? r * (n + m) / n : 0}')
  row $case interrupts_per_io $(awk -v n=$ios '$1 ~ /^interrupts_/ {s += $2}
    END {print n ? s / n : 0}' $F/counters)
  echo 0 > $F/power; rmdir $F; }
"""


def _slow_cpu(series: str) -> Model:
    """Return a drive of 32 slots that reads twice as fast as the software of one CPU."""
    model = frozen(FLASH, series)
    read_ns = int(model["software_ns"]) * SLOW_CPU_SLOTS // DRIVE_OVER_CPU
    return model | {"t_read_ns": read_ns, "depth": SLOW_CPU_SLOTS, "mode": "bio", "lines": "one"}


def _waits(model: Model, seed: int) -> list[str]:
    """Return the script; which case comes first changes with the seed."""
    ways = {
        "at-once": "completion=timer",
        # A read is never held longer than it takes in the drive.
        **{
            f"together-{count}": f"completion=coalesced coalesce_count={count}"
            f" coalesce_ns={model['t_read_ns']}"
            for count in COUNTS
        },
        **{f"later-{us}us": f"completion=deferred defer_ns={us * 1000}" for us in DEFERRALS_US},
    }
    cases = [f"each {case} {SLOTS} {how}" for case, how in ways.items()]
    first = seed % len(cases)
    return [
        f"DEVICE='{assignments(model)}'",
        *cases[first:],
        *cases[:first],
        # Section 5 of the report: each command brings another; 8 threads leave slots unused.
        *(f"each doubled-{extra} 8 completion=timer doubling={extra}" for extra in (0, 1)),
    ]


MITIGATION = Experiment(
    "mitigation",
    "interrupts for several reads at once or later, and doubled commands: one CPU, 32 slots",
    _slow_cpu,
    WAITS,
    _waits,
    (
        *claims(
            {
                "V.B: one for 4 reads / as they end": "together-4 >= 1.0 at-once",
                **{
                    f"V.B: one for 4 reads / one for {count}": (
                        f"together-4 >= 1.0 together-{count}"
                    )
                    for count in COUNTS
                    if count != 4
                },
                **{
                    f"deferral of {us} us / none": f"later-{us}us >= 1.0 at-once"
                    for us in DEFERRALS_US
                },
            }
        ),
        *claims(
            {"commands at the drive: doubled / plain": "doubled-1 >= 1.0 doubled-0"},
            "drive_commands_per_s",
        ),
        *claims({"reads of the host: doubled / plain": "doubled-1 >= 1.0 doubled-0"}),
    ),
    seeds_per_guest=5,
)

# The report of 2010, section 3: interrupts, later interrupts, none; and later ones only under load.
UNDER_LOAD = (4, 16)  # reads in the drive from which on interrupts come later
POLLING = {
    "at-once": "completion=timer",
    **{f"later-{us}us": f"completion=deferred defer_ns={us * 1000}" for us in DEFERRALS_US[:2]},
    **{
        f"adaptive-from-{count}": f"completion=adaptive adaptive_depth={count}"
        f" defer_ns={DEFERRALS_US[0] * 1000}"
        for count in UNDER_LOAD
    },
    "polled": "completion=polled poll_queues=1",
}
AT_ONCE_DEPTHS = (1, SLOW_CPU_SLOTS)
ADAPTIVE = """
each() { local case=$1 how=; shift; drive $DEVICE "$@"
  echo none > /sys/block/ssd0/queue/scheduler
  [ $case != polled ] || how=--hipri
  for depth in $DEPTHS; do before=$(interrupts); ios=$(count $F commands)
    load --filename=/dev/ssd0 --ioengine=io_uring --iodepth=$depth --rw=randread --bs=512 \\
      --size=256m --runtime=100ms $how
    row $case-$depth iops $(rate); row $case-$depth latency_us $(latency_us)
    row $case-$depth interrupts_per_io $(awk -v a=$before -v b=$(interrupts) -v m=$ios \\
      -v n=$(count $F commands) 'BEGIN {print (b - a) / (n - m)}'); done
  echo 0 > $F/power; rmdir $F; }
interrupts() { awk '$1 ~ /^interrupts_/ {s += $2} END {print s + 0}' $F/counters; }
"""


def _polls(model: Model, seed: int) -> list[str]:
    """Return the script; which case comes first changes with the seed."""
    cases = [f"each {case} {how}" for case, how in POLLING.items()]
    first = seed % len(cases)
    return [
        f"DEVICE='{assignments(model)}' DEPTHS='{' '.join(map(str, AT_ONCE_DEPTHS))}'",
        *cases[first:],
        *cases[:first],
    ]


POLLS = Experiment(
    "adaptive",
    "reads that end by an interrupt, by a later one, by a later one under load, and by polling",
    lambda series: _slow_cpu(series) | {"mode": "mq"},
    ADAPTIVE,
    _polls,
    claims(
        {
            **{
                f"{depth} at a time: {case} / at once": f"{case}-{depth} >= 1.0 at-once-{depth}"
                for depth in AT_ONCE_DEPTHS
                for case in POLLING
                if case != "at-once"
            },
            f"{SLOW_CPU_SLOTS} at a time: polled / later by 100 us": (
                f"polled-{SLOW_CPU_SLOTS} >= 1.0 later-100us-{SLOW_CPU_SLOTS}"
            ),
        }
    ),
    seeds_per_guest=10,
)

SCSI = """
each() { row $1 iops $(rate); row $1 request_ns $(awk -v r=$(rate) 'BEGIN {print 1e9 / r}'); }
both() { load --filename=$2 --size=64m --bs=512 --rw=randread --ioengine=psync; each $1-1
  load --filename=$2 --size=64m --bs=512 --rw=randread --ioengine=libaio --iodepth=32
  each $1-32; }
"""


LAYER = Experiment(
    "scsi",
    "512-byte random reads through the SCSI layer and straight from the block layer, 32 slots",
    lambda series: {"slots": 32, "fake_rw": 1, "delay": 0, "irqmode": 0},
    SCSI_DISK + SCSI,
    lambda model, seed: [
        f"modprobe null_blk nr_devices=1 gb=1 bs=512 irqmode=0 submit_queues=1"
        f" hw_queue_depth={model['slots']}",
        f"scsi_disk {model['slots']}",
        "echo none > /sys/block/nullb0/queue/scheduler",
        "both block /dev/nullb0; both scsi /dev/$DISK",
    ],
    claims(
        {
            "figure 5: block driver / SCSI, one at a time": "block-1 >= 1.05 scsi-1",
            "figure 5: block driver / SCSI, 32 at a time": "block-32 >= 1.05 scsi-32",
        }
    ),
)

# Sections V.A and V.D: 4 KiB reads take 153 us, and the bus carries one in 3.04 us (1,349 MB/s).
READ_US, BUS_US, PAPERS_CPUS = 153.0, 3.04, 8
SYSTEMS = ("ext2", "ext3", "ext4", "xfs")
READERS, WRITERS = (1, 16, 64), (1, 64)
FILES = """
echo 8388608 > /proc/sys/vm/dirty_bytes; echo 4194304 > /proc/sys/vm/dirty_background_bytes
mkdir -p /mnt
each() { row $1 iops $(rate); row $1 latency_us $(latency_us); }
cold() { sync -f /mnt; echo 3 > /proc/sys/vm/drop_caches; }
system() { local way=; case $1 in xfs) way='-q -f';; *) way='-q -F -E nodiscard -b 4096';; esac
  mkfs.$1 $way /dev/ssd0; mount -t $1 /dev/ssd0 /mnt
  mine dd if=/dev/zero of=/mnt/file bs=1M count=64 2> /dev/null
  for n in $READERS; do cold; load --filename=/mnt/file --direct=0 --size=64m --rw=randread \\
    --ioengine=psync --numjobs=$n; each $1-read-$n; done
  for n in $WRITERS; do cold; load --filename=/mnt/file --direct=0 --size=64m --rw=randwrite \\
    --ioengine=psync --numjobs=$n --runtime=500ms; each $1-write-$n; done
  umount /mnt; }
"""


def _bus(series: str) -> Model:
    """Return a drive whose bus takes eight times this guest's software, with 50 reads under way."""
    link_ns = int(frozen(TMERGE, series)["software_ns"]) * PAPERS_CPUS
    return SIDE_BY_SIDE | {
        "capacity_bytes": 384 << 20,
        "t_read_ns": round(link_ns * READ_US / BUS_US),
        "link_mbps": max(1, round(4096 * 1000 / link_ns)),
        "depth": 128,
        "store": 1,
    }


def _files(model: Model, seed: int) -> list[str]:
    whole = {"capacity_bytes": model["capacity_bytes"]} | model
    return [
        f"READERS='{' '.join(map(str, READERS))}' WRITERS='{' '.join(map(str, WRITERS))}'",
        f"drive {assignments(whole)}",
        "echo none > /sys/block/ssd0/queue/scheduler",
        "load --filename=/dev/ssd0 --ioengine=libaio --iodepth=128 --rw=randread --size=256m",
        "each bus",
        *(f"system {name}" for name in SYSTEMS),
    ]


FILESYSTEMS = Experiment(
    "files2010",
    "random 4 KiB reads and writes of a file by threads, four file systems, bus as in the paper",
    _bus,
    FIO_IN_MEMORY + FILES,
    _files,
    claims(
        {
            **{
                f"figure 13: {name}, 64 readers / bus": f"{name}-read-64 >= 0.95 bus"
                for name in SYSTEMS
            },
            **{
                f"figure 14: {name}, 1 writer / 64": f"{name}-write-1 >= 1.0 {name}-write-64"
                for name in SYSTEMS
            },
            **{
                f"figure 14: {name} / ext2, 64 writers": f"{name}-write-64 <= 1.0 ext2-write-64"
                for name in SYSTEMS[1:]
            },
        }
    ),
)

# Figure 14 again: the cost of a journal that has new blocks to record, and time to do so. There is
# a commit each second, and the time until all is on the drive counts: about 9 commits. With the
# drive above, 9 s would be a hundred thousand writes, so its bus is slower here.
#
# Fio itself may wait for the host when it ends, and this time must not count. So a last write with
# fsync, in the same start of fio, shows when all is on the drive.
JOURNAL_MBPS, JOURNAL_WRITES, COMMIT_S = 2, 4096, 1
JOURNAL = """
echo 2097152 > /proc/sys/vm/dirty_bytes; echo 1048576 > /proc/sys/vm/dirty_background_bytes
mkdir -p /mnt
own truncate
sectors() { awk '{print $7}' /sys/block/ssd0/stat; }
busy_us() { awk 'NR == 1 {print ($2 + $3 + $4 + $7 + $8) * 10000}' /proc/stat; }
grow() { local way= how= written worked
  case $1 in xfs) way='-q -f -K';; *) way='-q -F -E nodiscard,lazy_itable_init=0 -b 4096';; esac
  case $1 in ext[34]) how="-o commit=$commit_s";; esac
  mkfs.$1 $way /dev/ssd0 > /dev/null; mount -t $1 $how /dev/ssd0 /mnt
  mine truncate -s 64m /mnt/file; mine sync -f /mnt
  written=$(sectors) worked=$(busy_us)
  load --filename=/mnt/file --direct=0 --rw=randwrite --ioengine=psync --fallocate=none \\
    --norandommap=0 --numjobs=$writers --size=$((64 / writers))m \\
    --offset_increment=$((64 / writers))m --io_size=$((writes * 4 / writers))k --time_based=0 \\
    --runtime=300s --name=synced --stonewall --new_group --filename=/mnt/file --direct=0 --bs=4k \\
    --rw=write --ioengine=psync --fallocate=none --thread --size=4k --end_fsync=1
  row $1 iops $(awk -F';' -v n=$writes '{t += $50} END {print n * 1e3 / t}' /run/terse)
  row $1 cpu_us $(awk -v a=$worked -v b=$(busy_us) -v n=$writes 'BEGIN {print (b - a) / n}')
  row $1 drive_writes $(awk -v a=$written -v b=$(sectors) -v n=$writes \\
    'BEGIN {print (b - a) / 8 / n}')
  umount /mnt; }
"""


def _grown(series: str) -> Model:
    """Return the drive of `files2010` with a slower bus, and what is written to it."""
    return frozen(FILESYSTEMS, series) | {
        "link_mbps": JOURNAL_MBPS,
        "writers": WRITERS[-1],
        "writes": JOURNAL_WRITES,
        "commit_s": COMMIT_S,
    }


def _grows(names: tuple[str, ...]) -> Callable[[Model, int], list[str]]:
    def script(model: Model, seed: int) -> list[str]:
        """Return the script; which file system comes first changes with the seed."""
        ours = ("writers", "writes", "commit_s")
        first = seed % len(names)
        return [
            " ".join(f"{name}={model[name]}" for name in ours),
            f"drive {assignments({n: v for n, v in model.items() if n not in ours})}",
            "echo none > /sys/block/ssd0/queue/scheduler",
            *(f"grow {name}" for name in names[first:] + names[:first]),
            "echo 0 > $F/power; rmdir $F",
        ]

    return script


def _journal(name: str, systems: tuple[str, ...]) -> Experiment:
    return Experiment(
        name,
        f"64 threads write new blocks of a file until all is on the drive: {', '.join(systems)}",
        _grown,
        FIO_IN_MEMORY + JOURNAL,
        _grows(systems),
        claims(
            {
                f"figure 14: {system} / ext2, new blocks": f"{system} <= 1.0 ext2"
                for system in systems[1:]
            }
        )
        + claims(
            {
                f"software of a write: {system} / ext2": f"{system} >= 1.0 ext2"
                for system in systems[1:]
            },
            "cpu_us",
        ),
        seeds_per_guest=5,
    )


JOURNALS = (
    _journal("journal2010", ("ext2", "ext3")),
    _journal("journal2010-others", ("ext2", "ext4", "xfs")),
)

HIT_US = 7.0  # section V.D
CACHED = """
each() { row $1 iops $(rate); row $1 latency_us $(latency_us); }
cold() { sync; echo 3 > /proc/sys/vm/drop_caches; }
one() { load --ioengine=psync --rw=randread --size=64m "$@"; }
# Linux forgets a block device's pages when it is closed, so a hit is one of a file.
hit() { cat /mnt/file > /dev/null; one --filename=/mnt/file --direct=0 --invalidate=0; }
"""
ONE_FILE = """
mkdir -p /mnt; mkfs.ext2 -q -F -E nodiscard -b 4096 /dev/ssd0; mount -t ext2 /dev/ssd0 /mnt
mine dd if=/dev/zero of=/mnt/file bs=1M count=64 2> /dev/null
"""


def _hit(series: str) -> Model:
    """Measure a hit; return a drive as slow beside it as the paper's 153 us beside 7."""
    hit_ns = latency_ns(
        series,
        FIO_IN_MEMORY + CACHED + "SEED=1",
        "drive completion=inline store=1 depth=128 cmd_serial_ns=0 link_mbps=1000000",
        ONE_FILE + "hit",
    )
    return SIDE_BY_SIDE | {
        "hit_ns": hit_ns,
        "capacity_bytes": 256 << 20,
        "t_read_ns": round(hit_ns * (READ_US - HIT_US) / HIT_US),
        "link_mbps": 1_000_000,
        "depth": 128,
        "store": 1,
    }


PAGECACHE = Experiment(
    "pagecache",
    "latency of 4 KiB reads past the page cache, through it, through ext2, and of a hit",
    _hit,
    FIO_IN_MEMORY + CACHED,
    lambda model, seed: [
        f"drive {assignments(model)}",
        "echo none > /sys/block/ssd0/queue/scheduler",
        "one --filename=/dev/ssd0; each direct",
        "cold; one --filename=/dev/ssd0 --direct=0; each buffered",
        ONE_FILE,
        "cold; one --filename=/mnt/file --direct=0; each ext2",
        "hit; each hit",
    ],
    claims(
        {
            "V.D: buffered / O_DIRECT": "buffered <= 1.02 direct",
            "V.D: ext2 / O_DIRECT": "ext2 <= 1.02 direct",
            "V.D: O_DIRECT / a hit": "direct >= 153/7 hit",
        },
        "latency_us",
    ),
)

EXPERIMENTS = (FLASH, MITIGATION, POLLS, LAYER, FILESYSTEMS, *JOURNALS, PAGECACHE)
