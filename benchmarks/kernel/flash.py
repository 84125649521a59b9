"""A driver without a request queue, its slots, and its interrupt work (Seppanen et al. 2010).

The paper's drive works on 128 commands at once and gives 1.09 M random reads of 512 bytes each
second on 16 CPUs: with all slots taken, the drive is as fast as the host. So here: the time of one
such read on a device that takes none is measured (the software), and a read takes 128 times as
long, whichever others are under way.

The guest's CPUs take turns on one stream of instructions and have no caches. What one CPU's
interrupts cost the others shows in the rates; that several CPUs do them at the same time, or that
one finds its neighbour's data in a cache, cannot. So each case of figures 3 and 6 has its counters:
interrupts of each CPU, and calls from CPU to CPU, for each I/O.
"""

from collections.abc import Sequence

from benchmarks.kernel.experiment import Claim, Model, in_guest
from benchmarks.kernel.guestshell import TOOLS, assignments

SLOTS = 128
CPUS = 4
# Figure 5: with and without the block layer's queue, a quarter of the slots and all of them.
PATHS: dict[str, dict[str, int | str]] = {
    f"path-{mode}-{slots}": {"mode": mode, "depth": slots, "lines": "one"}
    for mode in ("mq", "bio")
    for slots in (32, SLOTS)
}
# Figure 6: all on one CPU, half on another, each where it was submitted (by a call, or by a line
# of its own as today's drives have).
SPLITS: dict[str, dict[str, int | str]] = {
    "split-one": {"lines": "one"},
    "split-two": {"lines": "two", "irq_cpu2": 1},
    "split-origin": {"lines": "one", "return_to_origin": 1},
    "split-line-each": {"lines": "percpu"},
}
# Figure 3: threads on CPUs 0 and 1, interrupts on one of them or on one that runs none of them.
ROUTES: dict[str, dict[str, int | str]] = {
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


class Flash:
    """Random 512-byte reads by 128 threads."""

    name = "flash"
    about = (
        "ssdb_flash with and without a request queue, and its interrupt work on 1, 2 or all CPUs"
    )
    cpus = CPUS

    def freeze(self, series: str) -> Model:
        """A read takes as long as the software of all slots."""
        said = in_guest(
            TOOLS + "SEED=1\ndrive completion=inline cmd_serial_ns=0 link_mbps=1000000 depth=128"
            " map_unit_bytes=512\n"
            "echo none > /sys/block/ssd0/queue/scheduler\n"
            "load --filename=/dev/ssd0 --ioengine=psync --size=256m --rw=randread --bs=512\n"
            "latency_us",
            series,
        )
        cost_ns = round(float(said.split()[-1]) * 1000)
        return {
            "software_ns": cost_ns,
            "t_read_ns": cost_ns * SLOTS,
            "cmd_serial_ns": 0,
            "link_mbps": 1_000_000,
            "map_unit_bytes": 512,
            "channels": 256,
            "dies_per_channel": 256,
            "completion": "timer",
        }

    def script(self, model: Model, seed: int) -> str:
        """Each path, split and route on a fresh device."""
        device = {name: value for name, value in model.items() if name != "software_ns"}
        lines = [TOOLS + WORK + f"SEED={seed}\nDEVICE='{assignments(device)}'"]
        lines += [f"each {case} 0 {assignments(how)}" for case, how in PATHS.items()]
        whole: dict[str, int | str] = {"mode": "bio", "depth": SLOTS}
        lines += [f"each {case} 0-3 {assignments(whole | how)}" for case, how in SPLITS.items()]
        lines += [f"each {case} 0-1 {assignments(whole | how)}" for case, how in ROUTES.items()]
        return "\n".join(lines)

    def claims(self) -> Sequence[Claim]:
        """The order of figure 5; figure 6's 48 % and 17 %; figure 3 has no number in the text."""
        both, queue, slots = "path-bio-128", ("path-mq-32",), "path-mq-128"
        return [
            Claim("figure 5: no queue and 128 slots / queue and 32", both, 1.05, queue),
            Claim(
                "figure 5: no queue alone / queue and 32", "path-bio-32", 1.05, queue, "iops", True
            ),
            Claim("figure 5: 128 slots alone / queue and 32", slots, 1.05, queue, "iops", True),
            Claim("figure 5: both / 128 slots alone", both, 1.0, (slots,)),
            Claim("figure 6: two ways / one CPU", "split-two", 1.48, ("split-one",)),
            Claim(
                "figure 6: all CPUs / two ways", "split-origin", 0.83, ("split-two",), "iops", True
            ),
            Claim("figure 3: a CPU of the threads / another", "route-own", 1.0, ("route-other",)),
        ]
