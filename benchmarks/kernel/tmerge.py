"""Temporal merge against spatial merge (Yu et al. 2012, figure 3).

The guest's CPU is slower than the paper's, so the device is slowed in proportion: the time of one
4 KiB read on a device that takes none is measured (the software), then the device is given 7/4 of
it for one 4 KiB request, as the paper's 7 us to 4 us, of which 5.85/7 is the transfer (4 KiB at
the paper's peak of 700 MB/s). There is one CPU: what the paper's eight do while a winner spins,
here the one does while the winner sleeps.
"""

from collections.abc import Sequence

from benchmarks.kernel.experiment import Claim, Model, in_guest
from benchmarks.kernel.guestshell import TOOLS, assignments

MODES = ("spatial-intr", "spatial-poll", "stm", "atm", "hybrid")
THREADS = (1, 8, 16)
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
    """The shell's `buffered`: writers for `run_ms`, counted for `window_s` once they have begun."""
    words = {"@RUN@": run_ms, "@SETTLE@": settle_s, "@WINDOW@": window_s}
    text = BUFFERED
    for word, value in words.items():
        text = text.replace(word, f"{value:g}")
    return text


class Tmerge:
    """Random 4 KiB reads and writes over threads, as shares of the drive's peak."""

    name = "tmerge"
    about = "random 4 KiB reads and writes through each mode of ssdb_tmerge, over threads"
    cpus = 1

    def freeze(self, series: str) -> Model:
        """The device that stands to this guest's software as the paper's stood to its."""
        said = in_guest(
            TOOLS + "SEED=1\ndrive completion=inline cmd_serial_ns=0 link_mbps=1000000 depth=128\n"
            "echo none > /sys/block/ssd0/queue/scheduler\n"
            "load --filename=/dev/ssd0 --ioengine=psync --size=256m --rw=randread\nlatency_us",
            series,
        )
        cost_ns = round(float(said.split()[-1]) * 1000)
        return {
            "software_ns": cost_ns,
            "cmd_serial_ns": round(cost_ns * FIXED),
            "link_mbps": max(1, round(4096 * 1000 / (cost_ns * TRANSFER))),
            "cmd_overlap": 0,
            "depth": 128,
        }

    def script(self, model: Model, seed: int) -> str:
        """The peak (large sequential requests), then each mode, pattern and number of threads."""
        device = {name: value for name, value in model.items() if name != "software_ns"}
        return "\n".join(
            [
                TOOLS + MERGE + buffered() + f"SEED={seed}; RUN=150ms\ndrive {assignments(device)}",
                "peak read; peak write",
                f"for mode in {' '.join(MODES)}; do for n in {' '.join(map(str, THREADS))}; do",
                "each $mode randread $n; each $mode randwrite $n; done",
                "buffered $mode 8; done",
                "for mode in stm atm hybrid; do deep $mode randread; deep $mode randwrite; done",
            ]
        )

    def claims(self) -> Sequence[Claim]:
        """The paper's, and the hybrid at every point."""
        read, write = "randread-peak", "randwrite-peak"
        found = [
            Claim("STM, 16 threads reading / peak", "randread-16-stm", 0.87, (read,)),
            Claim("STM, 8 threads reading / peak", "randread-8-stm", 0.87, (read,)),
            Claim(
                "STM / spatial (better of both), 1 thread reading",
                "randread-1-stm", 1.38, ("randread-1-spatial-intr", "randread-1-spatial-poll"),
            ),
            Claim("ATM, 8 threads, buffered writes / peak", "buffered-8-atm", 0.99, (write,)),
            Claim("ATM, 8 threads, direct writes / peak", "randwrite-8-atm", 0.99, (write,)),
        ]  # fmt: skip
        points = [f"rand{way}-{n}" for way in ("read", "write") for n in THREADS]
        points += ["buffered-8", "randread-libaio32", "randwrite-libaio32"]
        found += [
            Claim(f"hybrid / better of STM and ATM, {at}", f"{at}-hybrid", 0.99,
                  (f"{at}-stm", f"{at}-atm"))
            for at in points
        ]  # fmt: skip
        return found
