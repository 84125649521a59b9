"""Whether the model of Dunn's drive loses as much as his drive with several writers (Dunn 2009).

By chapter III (figure 11, the Transcend drive) sequential writes had 30 MB/s with one process and
about 16 MB/s with eight. This is the thesis's one figure that asks of the drive what block
preference lives on: what it costs to leave a block before it is full. The model was fitted to the
rate of one process and to the period of the peaks, never to this.

Set-up and drive are those of `bpref2008`; eight files of 12 MiB that exist already, or one of
their size, are written once, 4 KiB at a time. With eight, preference is tried too: of that the
thesis says nothing.
"""

from collections.abc import Sequence

from benchmarks.kernel.bpref import SCHEDULERS
from benchmarks.kernel.bpref2008 import LOADS, TURN, Bpref2008
from benchmarks.kernel.experiment import Claim, Model

# "About 16" of 30, rounded up.
WANTED = round(17 / 30, 3)
WRITING = """
ready_files() { dirty $mixed_background_bytes $mixed_dirty_bytes; local n
  for n in $(seq $1); do mine dd if=/dev/zero of=/mnt/$(( (n + SEED) % $1 )) bs=1M \\
    count=$((files_bytes / $1 >> 20)) 2> /dev/null; done
  mine sync -f /mnt; echo 3 > /proc/sys/vm/drop_caches; }
write_files() { local jobs= n; for n in $(seq $1); do
    jobs+=" --name=j$n --filename=/mnt/$((n - 1))"; done
  mine fio --rw=write --direct=0 --bs=4k --size=$((files_bytes / $1)) --thread --ioengine=psync \\
    --invalidate=0 --end_fsync=1 --minimal $jobs > /run/said; DONE=$((files_bytes / 4096))
  TOOK_US=$(awk -F';' '$50 > m {m = $50} END {print m * 1000}' /run/said); }
ready_processes1() { ready_files 1; }
processes1_() { write_files 1; }
ready_processes8() { ready_files 8; }
processes8_() { write_files 8; }
"""


class Processes2008(Bpref2008):
    """Sequential writes by one process and by eight."""

    loads = LOADS + WRITING

    def __init__(self) -> None:
        """Under a name of its own."""
        super().__init__("processes")
        self.name = "processes2008"
        self.about = "sequential writes by one and by eight processes on a used Transcend model"

    def freeze(self, series: str) -> Model:
        """The model and the settings of `bpref2008`, and how much is written."""
        return {**super().freeze(series), "files_bytes": 96 << 20}

    def turns(self, seed: int) -> list[str]:
        """Which is first changes with the seed."""
        whole = [
            TURN.format(f"processes{count}", which, on)
            for count, on in ((1, 0), (8, 0), (8, 1))
            for which in SCHEDULERS
        ]
        return whole[seed % 6 :] + whole[: seed % 6]

    def claims(self) -> Sequence[Claim]:
        """Eight over one."""
        return [
            Claim(
                f"{which}, preference off: eight processes / one",
                f"processes8-{which}-0", WANTED, (f"processes1-{which}-0",), "rate",
                at_most=True,
            )
            for which in SCHEDULERS
        ]  # fmt: skip
