"""What is left of Yu et al. 2012: files (3c), how much is merged (4b), the time of a merge (5)."""

from benchmarks.kernel.experiment import Claim, Model, frozen
from benchmarks.kernel.guestshell import FIO_IN_MEMORY, TOOLS, assignments
from benchmarks.kernel.plain import Plain
from benchmarks.kernel.tmerge import MERGE, Tmerge, buffered
from benchmarks.kernel.tmerge8 import Tmerge8

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
    """The device of `tmerge8`, which keeps what is written."""
    return {**frozen(Tmerge8(), series), "store": 1, "capacity_bytes": 256 << 20}


def _device(model: Model) -> str:
    return assignments({n: v for n, v in model.items() if n not in ("software_ns", "cpus")})


def _files(model: Model, seed: int) -> str:
    return "\n".join(
        [
            TOOLS
            + FIO_IN_MEMORY
            + MERGE
            + FILES
            + f"SEED={seed}; RUN=1500ms\ndrive {_device(model)}",
            "peak read; peak write",
            f"for mode in {' '.join(WAYS)}; do onfiles $mode; done",
        ]
    )


ONFILES = Plain(
    "onfiles2012",
    "random reads and writes of eight files by eight threads through ssdb_tmerge, as with Iozone",
    _slow,
    _files,
    tuple(
        Claim(
            f"figure 3(c): {way.upper()}, {what}s / peak",
            f"rand{what}-{way}", wanted, (f"rand{what}-peak",),
        )
        for way, what, wanted in (
            ("stm", "read", 0.92), ("stm", "write", 0.93),
            ("atm", "read", 0.37), ("atm", "write", 0.97),
        )
    ),
)  # fmt: skip

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


def _merges(model: Model, seed: int) -> str:
    return "\n".join(
        [
            TOOLS + MERGE + buffered() + MERGES + f"SEED={seed}; RUN=1s\ndrive {_device(model)}",
            "for n in 1 2 8 16; do spread $n buffered --direct=0 --end_fsync=1",
            "spread $n direct; done",
        ]
    )


MERGECOUNTS = Plain(
    "merges2012",
    "how many requests a command of ATM has, by the number of threads that write",
    lambda series: dict(frozen(Tmerge8(), series)),
    _merges,
    (
        Claim(
            "figure 4(b): one writer, share of commands of 32 and more",
            "merges-1-buffered", 0.89, (), "share_32",
        ),
        Claim(
            "figure 4(b): 8 writers / 1, requests in a command",
            "merges-8-buffered", 1.0, ("merges-1-buffered",), "merge", True,
        ),
        Claim(
            "figure 4(b): 16 writers / 1, requests in a command",
            "merges-16-buffered", 1.0, ("merges-1-buffered",), "merge", True,
        ),
    ),
)  # fmt: skip


def _timed(model: Model, seed: int) -> str:
    return "\n".join(
        [
            TOOLS + MERGE + MERGES + f"SEED={seed}; RUN=150ms\ndrive {_device(model)}",
            "for n in 1 2 4; do timed $n; done",
        ]
    )


BREAKDOWN = Plain(
    "breakdown2012",
    "time at the drive of one, two and four requests that were merged into one command",
    lambda series: dict(frozen(Tmerge(), series)),
    _timed,
    (
        Claim(
            "figure 5: two merged / one (16 / 11 us)",
            "together-2", 16 / 11, ("together-1",), "device_ns", True,
        ),
        Claim(
            "figure 5: four merged / one (28 / 11 us)",
            "together-4", 28 / 11, ("together-1",), "device_ns", True,
        ),
        Claim(
            "figure 5: four merged / one, with the software",
            "together-4", 28 / 11, ("together-1",), "total_ns", True,
        ),
    ),
)  # fmt: skip
