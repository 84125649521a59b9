"""The in-kernel slammer against fio, on devices that need no time of their own.

On such a device the rate is the host's software alone (the reason for `scsi_slammer` in the report
on wimpy processors, 2010, section 4). fio is given every help it knows: io_uring with fixed buffers
and registered files, submission and completion in batches, no timestamps.
"""

from collections.abc import Sequence

from benchmarks.kernel.experiment import Claim, Model
from benchmarks.kernel.guestshell import TOOLS, assignments

DEVICES = ("null_blk", "flash")
LEVELS = ("bio", "request")
TUNED = (
    "--ioengine=io_uring --iodepth=32 --iodepth_batch_submit=32 --iodepth_batch_complete_min=1"
    " --iodepth_batch_complete_max=32 --fixedbufs --registerfiles --gtod_reduce=1"
)
FIO = {
    "fio-psync": "--ioengine=psync",
    "fio-psync-no-clock": "--ioengine=psync --gtod_reduce=1",
    "fio-libaio-32": "--ioengine=libaio --iodepth=32",
    "fio-uring-32": "--ioengine=io_uring --iodepth=32",
    "fio-uring-32-tuned": TUNED,
}
SLAM = """
slam() { mkdir $S; put $S device=$1 level=$2 depth=32 seed=$SEED runtime_ms=300 running=1
  sleep 0.35
  while [ "$(cat $S/running)" = 1 ]; do sleep 0.1; done
  echo $(( $(cat $S/ios) * 1000000000 / $(cat $S/elapsed_ns) )); rmdir $S; }
"""


class Slam:
    """Random 4 KiB reads at depth 32, one CPU."""

    name = "slam"
    about = "the in-kernel slammer against fio, random 4 KiB reads at depth 32 on one CPU"
    cpus = 1

    def freeze(self, series: str) -> Model:
        """A device without time has nothing to measure first."""
        return {"cmd_serial_ns": 0, "link_mbps": 1_000_000, "completion": "inline", "depth": 128}

    def script(self, model: Model, seed: int) -> str:
        """Both devices, without a scheduler: every level of slam, then every way of fio."""
        lines = [
            TOOLS + SLAM + f"SEED={seed}",
            "modprobe null_blk nr_devices=1 gb=1 bs=4096 irqmode=0 submit_queues=1",
            f"drive {assignments(model)}",
            "for name in null_blk flash; do",
            "[ $name = flash ] && disk=ssd0 || disk=nullb0",
            "echo none > /sys/block/$disk/queue/scheduler",
        ]
        lines += [f"row $name-slam-{at} iops $(slam /dev/$disk {at})" for at in LEVELS]
        for case, options in FIO.items():
            lines.append(f"load --filename=/dev/$disk --rw=randread --size=256m {options}")
            lines.append(f"row $name-{case} iops $(rate)")
        return "\n".join([*lines, "done"])

    def claims(self) -> Sequence[Claim]:
        """At the faster level, and at each."""
        found = []
        for device in DEVICES:
            for level in reversed(LEVELS):
                slam = f"{device}-slam-{level}"
                psync, tuned = f"{device}-fio-psync", f"{device}-fio-uring-32-tuned"
                found.append(Claim(f"{device}: slam ({level}) / fio psync", slam, 2.9, (psync,)))
                found.append(
                    Claim(f"{device}: slam ({level}) / fio io_uring tuned", slam, 2.0, (tuned,))
                )
        return found
