"""Block preference against the same scheduler without it (Dunn 2009, chapter V).

The drive is the model of the Transcend TS16GSSD25 as it is shipped (fitted to the thesis's
write rate and period, before these schedulers existed), but for its capacity; without NCQ, as
drives of 2008, so that what waits, waits in the scheduler. Postmark is the program itself.
"""

from collections.abc import Sequence

from benchmarks.kernel.experiment import Claim, Model
from benchmarks.kernel.guestshell import TOOLS, assignments
from ssdbench.sim.spec import parse

SCHEDULERS = ("bpref-as", "bpref-cfq")
DRIVE = "sim:transcend-ts16gssd25,capacity=256MiB"
NOT_OF_THE_MODEL = ("capacity_bytes",)
WORKLOADS = ("postmark", "mixed", "oltp", "sequential")
LOADS = """
Q=/sys/block/ssd0/queue; I=$Q/iosched
own postmark sync
# Work per second: what was done is the same in every turn, or counted.
postmark_() { mkfs.ext4 -q -F /dev/ssd0; mkdir -p /mnt; mount /dev/ssd0 /mnt
  printf 'set location /mnt\\nset number 2000\\nset transactions 6000\\nset size 500 10000
set seed %d\\nrun\\nquit\\n' $SEED > /run/postmark
  a=$(us); mine postmark < /run/postmark > /run/said; mine sync -f /mnt; b=$(us); umount /mnt
  awk -v us=$((b - a)) 'BEGIN {print 6000e6 / us}'; }
fio_() { fio --filename=/dev/ssd0 --randseed=$SEED --norandommap --time_based --runtime=3s \\
  --thread --ioengine=psync --minimal "$@" | awk -F';' '{n += $7 + $48} END {print n / 4}'; }
mixed_() { fio_ --direct=0 --bs=4k --name=r --rw=randread --numjobs=2 --size=192m \\
  --group_reporting --new_group --name=w --rw=write --offset=192m --size=64m --new_group; }
oltp_() { fio_ --direct=1 --name=d --rw=randrw --rwmixread=70 --bs=16k --numjobs=8 --size=192m \\
  --group_reporting --new_group --name=l --rw=write --bs=4k --fdatasync=1 --offset=192m \\
  --size=64m --new_group; }
sequential_() { fio_ --direct=0 --name=s --rw=write --bs=128k --size=256m; }
echo 8388608 > /proc/sys/vm/dirty_bytes; echo 4194304 > /proc/sys/vm/dirty_background_bytes
"""


class Bpref:
    """Four workloads, two schedulers, preference on and off."""

    name = "bpref"
    about = "block preference on and off on the Transcend model: work per second"
    cpus = 1

    def freeze(self, series: str) -> Model:
        """The model as it is shipped."""
        params = {name: int(value) for name, value in parse(DRIVE).params.items()}
        return {**params, "completion": "timer", "depth": 1, "store": 1}

    def script(self, model: Model, seed: int) -> str:
        """Each turn on a fresh drive, so that no turn leaves the next one its blocks.

        Which of on and off comes first changes with the seed.
        """
        return "\n".join(
            [
                TOOLS + LOADS + f"SEED={seed}",
                f"for load in {' '.join(WORKLOADS)}; do for s in {' '.join(SCHEDULERS)}; do",
                f"for p in {'0 1' if seed % 2 else '1 0'}; do",
                f"mkdir $F; put $F {assignments(model)} power=1",
                "echo $s > $Q/scheduler; echo 128 > $Q/nr_requests",
                "echo $p > $I/block_preference",
                "row $load-$s-$p rate $(${load}_)",
                "for n in write_crossings wait_hits wait_misses; do",
                "row $load-$s-$p $n $(cat $I/$n); done",
                "row $load-$s-$p merges $(count $F merges); echo none > $Q/scheduler",
                "echo 0 > $F/power; rmdir $F; done; done; done",
            ]
        )

    def claims(self) -> Sequence[Claim]:
        """On over off."""
        wanted = {
            ("postmark", "bpref-as"): 1.25, ("postmark", "bpref-cfq"): 1.18,
            ("mixed", "bpref-as"): 1.15, ("mixed", "bpref-cfq"): 1.15,
            ("oltp", "bpref-as"): 0.97, ("oltp", "bpref-cfq"): 0.97,
            ("sequential", "bpref-as"): 0.99, ("sequential", "bpref-cfq"): 0.99,
        }  # fmt: skip
        return [
            Claim(f"{load}, {s}: on / off", f"{load}-{s}-1", least, (f"{load}-{s}-0",), "rate")
            for (load, s), least in wanted.items()
        ]
