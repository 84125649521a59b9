"""Experiments of Yu et al. 2012: temporal merge against spatial merge, files, and a merge's time.

The guest's CPU is slower than the paper's, so the device is slowed in proportion: the time of one
4 KiB read on a device that takes none is measured (the software), then the device is given 7/4 of
it for one 4 KiB request, as the paper's 7 us to 4 us, of which 5.85/7 is the transfer (4 KiB at
the paper's peak of 700 MB/s). There is one CPU: what the paper's eight do while a winner spins,
here the one does while the winner sleeps.

`tmerge8` slows the device once more. The paper's machine has eight CPUs ("two Xeon E5630 2.53 GHz
quad core CPUs (total 8 cores)"), and its threads submit and wake beside each other while the drive
works. A guest has one stream of instructions, on which the work of eight threads takes eight times
as long. So its device is eight times slower: all threads together then stand to the device as the
paper's eight CPUs stand to its. That is too slow a device for one thread alone, so what one thread
reaches is judged with the other model.
"""

from benchmarks.kernel.experiment import (
    FIO_IN_MEMORY,
    Experiment,
    Model,
    assignments,
    claims,
    frozen,
    latency_ns,
)

MODES = ("spatial-intr", "spatial-poll", "stm", "atm", "hybrid")
THREADS = (1, 8, 16)
CPUS = 8  # of the paper's machine
# ns per ns of software: a command's fixed part, and its 4 KiB on the link.
FIXED, TRANSFER = (7 - 5.85) / 4, 5.85 / 4

MERGE = """
peak() { load --filename=/dev/ssd0 --ioengine=libaio --iodepth=4 --size=256m --rw=$1 --bs=512k
  row rand$1-peak iops $(( $(rate) * 128 )); }
merged() { a=$(( $(count $T read_ios) + $(count $T write_ios) ))
  b=$(( $(count $T read_commands) + $(count $T write_commands) ))
  awk -v a=$a -v b=$b 'BEGIN {print b ? a / b : 0}'; }
# MODE PATTERN THREADS [more of fio's options]; NAME is the case's, if it is another.
each() { at=${NAME:-$2-$3}-$1; mkdir $T; put $T device=/dev/ssd0 mode=$1 power=1
  load --filename=/dev/tm0 --ioengine=psync --size=256m --rw=$2 --numjobs=$3 "${@:4}"
  row $at iops $(rate); row $at merge $(merged)
  for what in winners losers held no_slot read_sync write_sync; do
    row $at $what $(count $T $what); done
  for what in wait_ns device_ns total_ns; do row $at $what \
    $(( $(count $T $what) / ($(count $T read_ios) + $(count $T write_ios)) )); done
  echo 0 > $T/power; rmdir $T; }
deep() { NAME=$2-libaio32 each $1 $2 1 --ioengine=libaio --iodepth=32; }
"""
# Writers that dirty pages faster than the device takes them: what write-back sends in a second.
BUFFERED = """
echo 8388608 > /proc/sys/vm/dirty_bytes; echo 4194304 > /proc/sys/vm/dirty_background_bytes
# Read and timed by the shell itself: while a program comes from the host, the clock may leap.
snap() { while read -r name value; do case $name in write_ios) ios=$value;;
  write_commands) commands=$value;; esac; done < $T/counters; at=$(us); }
mkfifo /run/never; exec 9<> /run/never; pause() { read -rt $1 -u 9 || true; }
buffered() { mkdir $T; put $T device=/dev/ssd0 mode=$1 power=1
  load --filename=/dev/tm0 --ioengine=psync --size=256m --rw=randwrite --numjobs=$2 --direct=0 \
    --runtime=@RUN@ms & ios=0
  until [ $ios -gt 4000 ]; do snap; done
  pause @SETTLE@; snap; a=$ios; c=$commands; t=$at
  pause @WINDOW@; snap; b=$ios; d=$commands; u=$at; wait
  row buffered-$2-$1 iops $(( (b - a) * 1000000 / (u - t) ))
  row buffered-$2-$1 merge $(awk -v a=$((b - a)) -v b=$((d - c)) 'BEGIN {print b ? a / b : 0}')
  row buffered-$2-$1 window_us $(( u - t ))
  sync; echo 0 > $T/power; rmdir $T; }
"""


def buffered(*, run_ms: int = 1200, settle_s: float = 0.2, window_s: float = 0.5) -> str:
    """Return the shell's `buffered`: writers for `run_ms`, counted for `window_s`."""
    text = BUFFERED.replace("@RUN@", f"{run_ms}").replace("@SETTLE@", f"{settle_s:g}")
    return text.replace("@WINDOW@", f"{window_s:g}")


def _slowed(cost_ns: int, times: int = 1) -> Model:
    """Return the device that stands to this guest's software as the paper's stood to its own."""
    return {
        "software_ns": cost_ns,
        "cmd_serial_ns": round(cost_ns * times * FIXED),
        "link_mbps": max(1, round(4096 * 1000 / (cost_ns * times * TRANSFER))),
        "cmd_overlap": 0,
        "depth": 128,
    }


def _measured(series: str) -> Model:
    return _slowed(
        latency_ns(
            series,
            "SEED=1\ndrive completion=inline cmd_serial_ns=0 link_mbps=1000000 depth=128",
            "echo none > /sys/block/ssd0/queue/scheduler",
            "load --filename=/dev/ssd0 --ioengine=psync --size=256m --rw=randread",
        )
    )


def _eightfold(series: str) -> Model:
    """Return the device slowed by the paper's CPUs, by the cost that the first model measured."""
    return _slowed(int(frozen(TMERGE, series)["software_ns"]), CPUS) | {"cpus": CPUS}


def _modes(model: Model, seed: int) -> list[str]:
    """Return the script: the peak, then each mode, pattern and number of threads."""
    return [
        f"RUN=150ms\ndrive {assignments(model)}",
        "peak read; peak write",
        f"for mode in {' '.join(MODES)}; do for n in {' '.join(map(str, THREADS))}; do",
        "each $mode randread $n; each $mode randwrite $n; done",
        "buffered $mode 8; done",
        "for mode in stm atm hybrid; do deep $mode randread; deep $mode randwrite; done",
    ]


def _modes8(model: Model, seed: int) -> list[str]:
    """Return the script: the peak, then each mode with many threads; eight times as long."""
    return [
        f"RUN=1200ms\ndrive {assignments(model)}",
        "peak read; peak write",
        f"for mode in {' '.join(MODES)}; do",
        "each $mode randread 8; each $mode randread 16; each $mode randwrite 8",
        "buffered $mode 8; done",
    ]


STM = {
    "STM, 16 threads reading / peak": "randread-16-stm >= 0.87 randread-peak",
    "STM, 8 threads reading / peak": "randread-8-stm >= 0.87 randread-peak",
}
ALONE = {
    "STM / spatial (better of both), 1 thread reading": (
        "randread-1-stm >= 1.38 randread-1-spatial-intr randread-1-spatial-poll"
    )
}
ATM = {
    "ATM, 8 threads, buffered writes / peak": "buffered-8-atm >= 0.99 randwrite-peak",
    "ATM, 8 threads, direct writes / peak": "randwrite-8-atm >= 0.99 randwrite-peak",
}


def _hybrid(*points: str) -> dict[str, str]:
    return {
        f"hybrid / better of STM and ATM, {at}": f"{at}-hybrid >= 0.99 {at}-stm {at}-atm"
        for at in points
    }


TMERGE = Experiment(
    "tmerge",
    "random 4 KiB reads and writes through each mode of ssdb_tmerge, over threads",
    _measured,
    MERGE + buffered(),
    _modes,
    claims(
        STM
        | ALONE
        | ATM
        | _hybrid(*(f"rand{way}-{n}" for way in ("read", "write") for n in THREADS))
        | _hybrid("buffered-8", "randread-libaio32", "randwrite-libaio32")
    ),
)
TMERGE8 = Experiment(
    "tmerge8",
    "8 and 16 threads through ssdb_tmerge on a device slowed eightfold, one CPU for eight",
    _eightfold,
    MERGE + buffered(run_ms=4800, settle_s=0.8, window_s=2),
    _modes8,
    claims(STM | ATM | _hybrid("randread-8", "randread-16", "randwrite-8", "buffered-8")),
)

WAYS = ("spatial-poll", "stm", "atm")
FILES = """
echo 8388608 > /proc/sys/vm/dirty_bytes; echo 4194304 > /proc/sys/vm/dirty_background_bytes
mkdir -p /mnt
# As iozone does: a file for each thread, written first, then read and rewritten in random order;
# no page twice, as a page that is in memory by then would count as a read of the drive.
onfiles() { mkdir $T; put $T device=/dev/ssd0 mode=$1 power=1
  mkfs.ext4 -q -F -E nodiscard -b 4096 /dev/tm0; mount /dev/tm0 /mnt
  for n in 0 1 2 3 4 5 6 7; do mine dd if=/dev/zero of=/mnt/l.$n.0 bs=1M count=8 2> /dev/null; done
  sync -f /mnt; echo 3 > /proc/sys/vm/drop_caches
  load --directory=/mnt --direct=0 --ioengine=psync --size=8m --numjobs=8 --rw=randread \\
    --norandommap=0
  row randread-$1 iops $(rate)
  sync -f /mnt; echo 3 > /proc/sys/vm/drop_caches
  load --directory=/mnt --direct=0 --ioengine=psync --size=8m --numjobs=8 --rw=randwrite \\
    --norandommap=0 --end_fsync=1 --runtime=2s
  row randwrite-$1 iops $(rate)
  umount /mnt; echo 0 > $T/power; rmdir $T; }
"""


def _slow(series: str) -> Model:
    """Return the device of `tmerge8`, which keeps what is written."""
    return {**frozen(TMERGE8, series), "store": 1, "capacity_bytes": 256 << 20}


ONFILES = Experiment(
    "onfiles2012",
    "random reads and writes of eight files by eight threads through ssdb_tmerge, as with Iozone",
    _slow,
    FIO_IN_MEMORY + MERGE + FILES,
    lambda model, seed: [
        f"RUN=1500ms\ndrive {assignments(model)}",
        "peak read; peak write",
        f"for mode in {' '.join(WAYS)}; do onfiles $mode; done",
    ],
    claims(
        {
            "figure 3(c): STM, reads / peak": "randread-stm >= 0.92 randread-peak",
            "figure 3(c): STM, writes / peak": "randwrite-stm >= 0.93 randwrite-peak",
            "figure 3(c): ATM, reads / peak": "randread-atm >= 0.37 randread-peak",
            "figure 3(c): ATM, writes / peak": "randwrite-atm >= 0.97 randwrite-peak",
        }
    ),
)

# Figure 4(b): how many requests a command of ATM has, by the number of threads that write.
MERGES = """
spread() { local case=merges-$1; mkdir $T; put $T device=/dev/ssd0 mode=atm power=1
  load --filename=/dev/tm0 --ioengine=psync --size=256m --rw=randwrite --numjobs=$1 "${@:3}"
  sync; row $case-$2 merge $(merged)
  row $case-$2 share_32 $(awk '$1 == "write" {all += $3; if ($2 >= 32) n += $3}
    END {print all ? n / all : 0}' $T/merges)
  row $case-$2 share_requests_32 $(awk '$1 == "write" {all += $2 * $3; if ($2 >= 32) n += $2 * $3}
    END {print all ? n / all : 0}' $T/merges)
  echo 0 > $T/power; rmdir $T; }
# Figure 5: N requests in one command, one at the drive.
timed() { mkdir $T; put $T device=/dev/ssd0 mode=atm power=1
  load --filename=/dev/tm0 --ioengine=libaio --size=256m --rw=randread --iodepth=$1 \\
    --iodepth_batch_submit=$1 --iodepth_batch_complete_min=$1
  row together-$1 merge $(merged); row together-$1 iops $(rate)
  for what in wait_ns device_ns total_ns; do
    row together-$1 $what $(( $(count $T $what) / $(count $T read_ios) )); done
  echo 0 > $T/power; rmdir $T; }
"""


MERGECOUNTS = Experiment(
    "merges2012",
    "how many requests a command of ATM has, by the number of threads that write",
    lambda series: dict(frozen(TMERGE8, series)),
    MERGE + buffered() + MERGES,
    lambda model, seed: [
        f"RUN=1s\ndrive {assignments(model)}",
        "for n in 1 2 8 16; do spread $n buffered --direct=0 --end_fsync=1",
        "spread $n direct; done",
    ],
    (
        *claims(
            {
                "figure 4(b): one writer, share of commands of 32 and more": (
                    "merges-1-buffered >= 0.89"
                )
            },
            "share_32",
        ),
        *claims(
            {
                f"figure 4(b): {writers} writers / 1, requests in a command": (
                    f"merges-{writers}-buffered <= 1.0 merges-1-buffered"
                )
                for writers in (8, 16)
            },
            "merge",
        ),
    ),
)
BREAKDOWN = Experiment(
    "breakdown2012",
    "time at the drive of one, two and four requests that were merged into one command",
    lambda series: dict(frozen(TMERGE, series)),
    MERGE + MERGES,
    lambda model, seed: [
        f"RUN=150ms\ndrive {assignments(model)}",
        "for n in 1 2 4; do timed $n; done",
    ],
    (
        *claims(
            {
                "figure 5: two merged / one (16 / 11 us)": "together-2 <= 16/11 together-1",
                "figure 5: four merged / one (28 / 11 us)": "together-4 <= 28/11 together-1",
            },
            "device_ns",
        ),
        *claims(
            {"figure 5: four merged / one, with the software": "together-4 <= 28/11 together-1"},
            "total_ns",
        ),
    ),
)

EXPERIMENTS = (TMERGE, TMERGE8, ONFILES, MERGECOUNTS, BREAKDOWN)
