"""What is left of Dunn 2009: the surfaces of figures 6 to 9, applications on his other drives."""

from collections.abc import Sequence

from benchmarks.kernel.bpref2008 import (
    LOADS,
    NOOP,
    SETUP,
    TURN,
    Bpref2008,
    Bpref2008Noop,
    drive,
)
from benchmarks.kernel.experiment import Claim, Model
from benchmarks.kernel.guestshell import TOOLS, assignments
from benchmarks.kernel.plain import Plain

FILES_MIB, RECORDS = (4, 16, 64, 192), ("4k", "1m")
# Iozone's tests of a file, written again and read; it does not wait for what is still in memory.
SURFACE = """
fill() { mine dd if=/dev/zero of=/mnt/file bs=1M count=$1 2> /dev/null; }
cold() { mine sync -f /mnt; echo 3 > /proc/sys/vm/drop_caches; }
test_() { mine fio --name=t --filename=/mnt/file --direct=0 --bs=$2 --size=$1m --rw=$3 \\
    --ioengine=psync --thread --invalidate=0 --randseed=$SEED --minimal > /run/terse
  row $3-$1-$2 mb_per_s $(awk -F';' '{print ($7 + $48) * 1024 / 1e6}' /run/terse); }
"""


def _surface_model(series: str) -> Model:
    """The drive and settings of `bpref2008`; memory takes 32 MiB, where his took 512."""
    return {
        **drive(),
        **SETUP,
        "capacity_bytes": 256 << 20,
        "background_bytes": 16 << 20,
        "dirty_bytes": 32 << 20,
    }


def _surface(model: Model, seed: int) -> str:
    device = {name: value for name, value in model.items() if name in drive()}
    return "\n".join(
        [
            TOOLS + LOADS + SURFACE + f"SEED={seed}",
            assignments(model),
            f"used {assignments(device)}",
            "ready_postmark; echo bpref-cfq > $Q/scheduler",
            "echo 0 > $I/block_preference; echo $requests > $Q/nr_requests",
            f"for size in {' '.join(map(str, FILES_MIB))}; do fill $size",
            f"for record in {' '.join(RECORDS)}; do for rw in write read; do",
            "cold; test_ $size $record $rw; done; done; rm /mnt/file; done",
        ]
    )


def _wide(claim: str, over: str, wanted: float, under: str, *, at_most: bool = False) -> Claim:
    return Claim(claim, over, wanted, (under,), "mb_per_s", at_most)


SURFACES = Plain(
    "surface2008",
    "file sizes by record sizes on a used Transcend model, through ext3, as with Iozone",
    _surface_model,
    _surface,
    (
        _wide("figure 6: file of 192 MiB / 4 MiB, reads of 1 MiB", "read-192-1m", 0.9, "read-4-1m"),
        _wide(
            "figure 8: file of 192 MiB / 16 MiB, writes of 1 MiB",
            "write-192-1m", 0.5, "write-16-1m", at_most=True,
        ),
        _wide(
            "figure 8: file of 192 MiB / 16 MiB, writes of 4 KiB",
            "write-192-4k", 0.5, "write-16-4k", at_most=True,
        ),
        _wide("figure 9: 4 KiB / 1 MiB, writes", "write-192-4k", 0.9, "write-192-1m"),
    ),
)  # fmt: skip


# Half of the files, of the work, of memory and of the times (a commit is still every second).
HALF: Model = SETUP | {
    name: int(SETUP[name]) // 2
    for name in (
        "files", "transactions", "background_bytes", "dirty_bytes", "writeback_centisecs",
        "expire_centisecs",
    )
}  # fmt: skip


class OtherDrive(Bpref2008):
    """Postmark of `bpref2008` on another drive (figure 25)."""

    def __init__(self, model: str, short: str, wanted: float, setup: Model) -> None:
        """A shipped model, what the thesis says for the drive, and how much is done."""
        super().__init__("postmark")
        self.shipped = f"sim:{model},capacity=128MiB"
        self.name = f"bpref2008-{short}"
        self.about = f"block preference on and off on a used {model}, as in 2008: postmark"
        self.wanted = wanted
        self.setup = setup

    def freeze(self, series: str) -> Model:
        """The model as it is shipped, and the settings."""
        return {**drive(self.shipped), **self.setup}

    def claims(self) -> Sequence[Claim]:
        """On over off."""
        return [
            Claim(
                f"postmark, {which}: on / off",
                f"postmark-{which}-1", self.wanted, (f"postmark-{which}-0",), "rate",
            )
            for which in ("bpref-as", "bpref-cfq")
        ]  # fmt: skip


class DiskLike(Bpref2008Noop):
    """Postmark with four schedulers on a drive that pays for a change of place (figure 4).

    There is no model of a rotating disk. This one has what makes a disk slow: to leave a place
    costs as much as a mean seek of a disk of 2008 and half a turn, 8 and 4 ms (less by what was
    written there); a place is 512 KiB, as a track. The distance costs nothing, nor does a read, but
    Postmark reads from memory here. Deadline is the anticipatory scheduler that does not wait.
    """

    PLACES = "block_bytes=512KiB,log_blocks=1,merge_page=94us"  # 128 pages: 12 ms

    def __init__(self) -> None:
        """As on the flash drive."""
        super().__init__()
        self.name = "disk2008"
        self.about = "four schedulers on a drive that pays 12 ms for a change of place: postmark"

    def freeze(self, series: str) -> Model:
        """The flash model's links and clocks with other places, and the settings."""
        return {**drive(f"sim:transcend-ts16gssd25,capacity=128MiB,{self.PLACES}"), **HALF}

    def turns(self, seed: int) -> list[str]:
        """Which is first changes with the seed."""
        bases = [TURN.format(self.load, which, 0) for which in ("bpref-as", "bpref-cfq")]
        turns = [
            NOOP,
            "postmark deadline bpref-as block_preference=0 antic_wait_us=0",
            *bases,
        ]
        return turns[seed % 4 :] + turns[: seed % 4]

    def claims(self) -> Sequence[Claim]:
        """CFQ is the best, noop the worst."""
        others = ("postmark-deadline", "postmark-bpref-as-0", "postmark-bpref-cfq-0")
        return [
            Claim("figure 4: CFQ / noop", others[2], 1.0, ("postmark-noop",), "rate"),
            Claim("figure 4: CFQ / the others", others[2], 1.0, others[:2], "rate"),
            *(
                Claim(f"figure 4: noop / {name}", "postmark-noop", 1.0, (case,), "rate", True)
                for name, case in zip(("deadline", "anticipatory"), others[:2], strict=True)
            ),
        ]  # fmt: skip


# Figures 26 and 28: dbench with its own load, on the Memoright drive and on NILFS2. The seed moves
# the files against the drive's blocks. No cleaner runs on NILFS2 (mount -i): there is room enough.
DBENCH = """
own dbench
dbench_() { cp /usr/share/dbench/client.txt /run/client.txt
  mine dbench -c /run/client.txt -D /mnt -t $seconds $clients > /run/said
  awk '/^Throughput/ {print $2}' /run/said; }
turn2_() { local name=$1 s=$2; shift 2; mkdir $F; put $F $MODEL power=1; echo none > $Q/scheduler
  mine dd if=/dev/zero of=/dev/ssd0 bs=1M count=$((capacity_bytes >> 20)) oflag=direct 2> /dev/null
  mkdir -p /mnt
  case $name in nilfs2*) mkfs.nilfs2 -q -f -K /dev/ssd0; mount -i -t nilfs2 /dev/ssd0 /mnt;;
    *) mkfs.ext3 -q -F -E nodiscard -b 4096 -J size=16 /dev/ssd0
      mount -t ext3 -o barrier=0,data=ordered,commit=$commit_s /dev/ssd0 /mnt;; esac
  echo $writeback_centisecs > /proc/sys/vm/dirty_writeback_centisecs
  echo $expire_centisecs > /proc/sys/vm/dirty_expire_centisecs
  ready_postmark; echo $s > $Q/scheduler; echo $requests > $Q/nr_requests
  echo $wbt_lat_usec > $Q/wbt_lat_usec
  put $I block_bytes=$preferred_bytes block_phase_bytes=$preferred_phase_bytes "$@"
  mine dd if=/dev/zero of=/mnt/first bs=64k count=$((5 * SEED)) 2> /dev/null
  row $name mb_per_s $(dbench_); row $name writes $(cat $I/writes)
  row $name write_crossings $(cat $I/write_crossings)
  umount /mnt; echo none > $Q/scheduler; echo 0 > $F/power; rmdir $F; }
"""
ARRIVAL = "fifo_batch=0 read_expire_ms=0 write_expire_ms=0"


def _dbench_model(series: str) -> Model:
    return {
        **drive("sim:memoright-gt,capacity=256MiB"),
        **SETUP,
        "seconds": 2,
        "clients": 4,
        "background_bytes": 8 << 20,
        "dirty_bytes": 16 << 20,
    }


def _dbench(model: Model, seed: int) -> str:
    device = {name: value for name, value in model.items() if name in drive()}
    first, second = (0, 1) if seed % 2 else (1, 0)
    turns = [
        f"turn2_ {system}{which}-{on} {which} block_preference={on}"
        for system in ("", "nilfs2-")
        for which in ("bpref-as", "bpref-cfq")
        for on in (first, second)
    ]
    return "\n".join(
        [
            TOOLS + LOADS + DBENCH + f"SEED={seed}",
            assignments(model),
            f"MODEL='{assignments(device)}'",
            f"turn2_ noop bpref-as block_preference=0 {ARRIVAL} antic_wait_us=0",
            *turns,
        ]
    )


def _faster(text: str, over: str, wanted: float, under: str) -> Claim:
    return Claim(text, over, wanted, (under,), "mb_per_s")


DBENCHES = Plain(
    "dbench2008",
    "dbench on a used Memoright model, block preference on and off, ext3 and NILFS2",
    _dbench_model,
    _dbench,
    (
        _faster("figure 26: CFQ, on / off", "bpref-cfq-1", 1.07, "bpref-cfq-0"),
        _faster("figure 26: anticipatory, on / off", "bpref-as-1", 1.17, "bpref-as-0"),
        _faster("figure 26: anticipatory, on / noop", "bpref-as-1", 1.25, "noop"),
        _faster("figure 28: CFQ, on / off", "nilfs2-bpref-cfq-1", 1.02, "nilfs2-bpref-cfq-0"),
        _faster(
            "figure 28: anticipatory, on / off", "nilfs2-bpref-as-1", 1.02, "nilfs2-bpref-as-0"
        ),
    ),
)
