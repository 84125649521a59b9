"""Block preference on a used drive, as near to Dunn's own set-up as his text allows (2009).

`bpref` compares on drives that are new in every turn, with today's defaults. The thesis measured
on drives that its own tests had written over and over, with Linux 2.6.25. What its text fixes, or
what its kernel had by default, is taken over here, and nothing else was chosen:

- The drive has been written whole, and nothing trims it (2.6.25 could not): so a merge copies a
  block of data, where on a new drive it has next to nothing to copy.
- ext3, the file system of that year: no delayed allocation, ordered data, a journal without
  barriers. (ext3 is what today's ext4 does when it is told so.)
- Postmark with reads and writes alike, its own sizes, one process (chapter II); for the emulator's
  sake half of the 10,000 files with half of the memory, and a fifth of the 50,000 transactions with
  a fifth of the times after which data are written: a commit every 5 s, write-back every 5 s of
  what is 30 s old. (With the whole times a run would end at its first commit: files are then
  deleted unwritten, or not, and equal turns have 362 to 966 transactions a second.)
- Write-back from 5 % of memory and no more than 10 % (2.6.25), of half of 1 GiB: by figure 8 the
  thesis's machine had more than 512 MiB.
- No throttle of write-back (blk-wbt, Linux 4.10): on a drive of one command it lets one write of
  write-back at a time into the queue, so that a scheduler has nothing to choose from.
- "Reads occurred twice as often as the writes" (chapter V) is a matter of work, not of time: four
  sequential readers and two sequential writers (Iozone takes a process for one or the other; the
  thesis has up to eight), each through a file of 16 MiB that exists already, to its end. Memory
  stands to these files as 1 GiB to files of 512 MiB.
- 128 requests in the queue, up to 512 KiB each, one command at a time at the drive.
- The block is set to what the thesis found: 1 MiB, from the beginning of the drive.
"""

from collections.abc import Sequence

from benchmarks.kernel.bpref import SCHEDULERS
from benchmarks.kernel.experiment import Claim, Model
from benchmarks.kernel.guestshell import TOOLS, assignments
from ssdbench.sim.spec import parse

DRIVE = "sim:transcend-ts16gssd25,capacity=128MiB"
# What each workload should gain, in the order of SCHEDULERS.
WORKLOADS = {"postmark": (1.25, 1.18), "mixed": (1.15, 1.15)}
# Set by the thesis, and hashed with the model.
SETUP: Model = {
    "files": 5_000,
    "transactions": 10_000,
    "commit_s": 5 // 5,
    "writeback_centisecs": 500 // 5,
    "expire_centisecs": 3000 // 5,
    "background_bytes": (512 << 20) // 20,
    "dirty_bytes": (512 << 20) // 10,
    "mixed_file_bytes": 16 << 20,
    "mixed_background_bytes": (32 << 20) // 20,
    "mixed_dirty_bytes": (32 << 20) // 10,
    "wbt_lat_usec": 0,
    "requests": 128,
    "request_kib": 512,
    "preferred_bytes": 1 << 20,
    "preferred_phase_bytes": 0,
}
# The work, a name in the rows, the scheduler, and settings of it.
TURN = "{0} {1}-{2} {1} block_preference={2}"
NOOP = (
    "postmark noop bpref-as block_preference=0"
    " fifo_batch=0 read_expire_ms=0 write_expire_ms=0 antic_wait_us=0"
)
FROM_SCHEDULER = ("writes", "write_crossings", "write_expired", "wait_hits", "wait_misses")
FROM_DRIVE = ("merges", "partial_merges", "switch_merges", "gc_units")
LOADS = """
Q=/sys/block/ssd0/queue; I=$Q/iosched
own postmark sync dd fio
dirty() { echo $2 > /proc/sys/vm/dirty_bytes; echo $1 > /proc/sys/vm/dirty_background_bytes; }
used() { mkdir $F; put $F "$@" power=1; echo none > $Q/scheduler
  echo $request_kib > $Q/max_sectors_kb
  mine dd if=/dev/zero of=/dev/ssd0 bs=1M count=$((capacity_bytes >> 20)) oflag=direct 2> /dev/null
  mkfs.ext3 -q -F -E nodiscard -b 4096 -i 16384 -J size=16 /dev/ssd0
  mkdir -p /mnt; mount -t ext3 -o barrier=0,data=ordered,commit=$commit_s /dev/ssd0 /mnt
  echo $writeback_centisecs > /proc/sys/vm/dirty_writeback_centisecs
  echo $expire_centisecs > /proc/sys/vm/dirty_expire_centisecs; }
ready_postmark() { dirty $background_bytes $dirty_bytes; }
postmark_() { printf 'set location /mnt\\nset number %d\\nset transactions %d
set seed %d\\nrun\\nquit\\n' $files $transactions $SEED > /run/postmark
  local a=$(us); mine postmark < /run/postmark > /run/said; mine sync -f /mnt
  DONE=$transactions TOOK_US=$(($(us) - a)); }
# Which places of the drive are written to changes with the seed.
ready_mixed() { dirty $mixed_background_bytes $mixed_dirty_bytes; local n
  for n in 0 1 2 3 4 5; do mine dd if=/dev/zero of=/mnt/$(( (n + SEED) % 6 )) bs=1M \\
    count=$((mixed_file_bytes >> 20)) 2> /dev/null; done
  mine sync -f /mnt; echo 3 > /proc/sys/vm/drop_caches; }
mixed_() { local jobs= n; for n in 0 1 2 3 4 5; do case $n in 0|3) way=write;; *) way=read;; esac
    jobs+=" --name=j$n --filename=/mnt/$n --rw=$way"; done
  mine fio --direct=0 --bs=4k --size=$mixed_file_bytes --thread --ioengine=psync --invalidate=0 \\
    --end_fsync=1 --minimal $jobs > /run/said; DONE=$((6 * mixed_file_bytes / 4096))
  # The longest of the six, as fio has it: where it begins and ends it asks the host for files.
  TOOK_US=$(awk -F';' '{t = $9 > $50 ? $9 : $50; if (t > m) m = t} END {print m * 1000}' \\
    /run/said); }
# Requests waiting or at the drive, on average over the time in which there was any.
queue_of() { set -- $(cat /sys/block/ssd0/stat); T_QUEUE=${11} T_BUSY=${10}; }
turn() { local load=$1 name=$1-$2 s=$3 n q t; shift 3; used $MODEL; ready_$load
  echo $s > $Q/scheduler; echo $requests > $Q/nr_requests; echo $wbt_lat_usec > $Q/wbt_lat_usec
  put $I block_bytes=$preferred_bytes block_phase_bytes=$preferred_phase_bytes "$@"
  for n in $FROM_DRIVE; do eval "was_$n=$(count $F $n)"; done
  queue_of; q=$T_QUEUE t=$T_BUSY; ${load}_
  row $name rate $(awk -v n=$DONE -v us=$TOOK_US 'BEGIN {print n * 1e6 / us}')
  queue_of; row $name queue $(awk -v q=$((T_QUEUE - q)) -v t=$((T_BUSY - t)) \\
    'BEGIN {print t ? q / t : 0}')
  row $name busy $(awk -v t=$((T_BUSY - t)) -v us=$TOOK_US 'BEGIN {print t * 1e3 / us}')
  for n in $FROM_SCHEDULER; do row $name $n $(cat $I/$n); done
  for n in $FROM_DRIVE; do eval "row $name $n \\$(( \\$(count $F $n) - was_$n ))"; done
  umount /mnt; echo none > $Q/scheduler; echo 0 > $F/power; rmdir $F; }
"""


def drive(shipped: str = DRIVE) -> Model:
    """A model as it is shipped, one command at a time."""
    params = {name: int(value) for name, value in parse(shipped).params.items()}
    return {**params, "completion": "timer", "depth": 1, "store": 1}


class Bpref2008:
    """One workload on a used drive, two schedulers, preference on and off."""

    cpus = 1
    loads = LOADS

    def __init__(self, load: str) -> None:
        """One of WORKLOADS."""
        self.load = load
        self.name = f"bpref2008-{load}"
        self.about = f"block preference on and off on a used Transcend model, as in 2008: {load}"

    def freeze(self, series: str) -> Model:
        """The model as it is shipped, and the settings."""
        return {**drive(), **SETUP}

    def script(self, model: Model, seed: int) -> str:
        """Each turn on a drive of its own."""
        device = {name: value for name, value in model.items() if name in drive()}
        return "\n".join(
            [
                TOOLS + self.loads + f"SEED={seed}",
                assignments(model),
                f"MODEL='{assignments(device)}'",
                f"FROM_SCHEDULER='{' '.join(FROM_SCHEDULER)}' FROM_DRIVE='{' '.join(FROM_DRIVE)}'",
                *(f"turn {turn}" for turn in self.turns(seed)),
            ]
        )

    def turns(self, seed: int) -> list[str]:
        """Which of on and off is first changes with the seed."""
        order = (0, 1) if seed % 2 else (1, 0)
        return [TURN.format(self.load, which, on) for which in SCHEDULERS for on in order]

    def claims(self) -> Sequence[Claim]:
        """On over off."""
        return [
            Claim(
                f"{self.load}, {s}: on / off",
                f"{self.load}-{s}-1", least, (f"{self.load}-{s}-0",), "rate",
            )
            for s, least in zip(SCHEDULERS, WORKLOADS[self.load], strict=True)
        ]  # fmt: skip


class Bpref2008Noop(Bpref2008):
    """Postmark in order of arrival and with the base schedulers: what was there to be gained.

    By the thesis, noop, which sends in order of arrival, was the fastest with Postmark, and
    neither of the new schedulers as fast (chapter V, figures 5 and 24). So noop was more than 1.25
    times as fast as the base anticipatory scheduler, and more than 1.18 times as fast as CFQ.

    `none` of today is not that noop: it has no queue of its own, so 128 requests cannot wait in it
    and merge. So noop here is `bpref-as` with deadlines that have always passed: the oldest is
    next. Model and settings are those of `bpref2008-postmark`.
    """

    def __init__(self) -> None:
        """Postmark only: of the other work the thesis has no such figure."""
        super().__init__("postmark")
        self.name = "bpref2008-noop"
        self.about = "arrival's order against the base schedulers on a used Transcend: postmark"

    def turns(self, seed: int) -> list[str]:
        """Which is first changes with the seed."""
        turns = [NOOP, *(TURN.format(self.load, which, 0) for which in SCHEDULERS)]
        return turns[seed % 3 :] + turns[: seed % 3]

    def claims(self) -> Sequence[Claim]:
        """Noop over the bases."""
        return [
            Claim(
                f"{self.load}: noop / {which}, preference off",
                f"{self.load}-noop", least, (f"{self.load}-{which}-0",), "rate",
            )
            for which, least in zip(SCHEDULERS, WORKLOADS[self.load], strict=True)
        ]  # fmt: skip
