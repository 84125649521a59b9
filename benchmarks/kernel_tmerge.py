"""Temporal merge against spatial merge (Yu et al. 2012, figure 3): `python -m
benchmarks.kernel_tmerge`.

In a guest whose time is counted in instructions. Its CPUs share one instruction stream and are
slower than the paper's, so the device is slowed in proportion: first the time of one 4 KiB read
on a device that takes none is measured (the software), then the device is given 7/4 of it for one
4 KiB request, as the paper's 7 us to 4 us, of which 5.85/7 is the transfer (the paper's peak of
700 MB/s). The model is fixed by that one number before anything is compared, and its digest is
printed with the table.
"""

import argparse
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from ssdbench.lab.session import GuestRequest, run_in_guest

CACHE = Path(os.environ.get("SSDBENCH_LAB_CACHE", "/var/cache/ssdbench/lab"))
MODES = ("none", "spatial-intr", "spatial-poll", "stm", "atm", "hybrid")
# ns per ns of software: a command's fixed part, and its 4 KiB on the link.
FIXED, TRANSFER = (7 - 5.85) / 4, 5.85 / 4

TOOLS = """
F=/sys/kernel/config/ssdb_flash/ssd0; T=/sys/kernel/config/ssdb_tmerge/tm0
put() { for pair in "${@:2}"; do echo "${pair#*=}" > $1/${pair%%=*}; done; }
drive() { mkdir $F; put $F capacity_bytes=268435456 ftl=direct wbuf_bytes=0 t_read_ns=0 \
  t_prog_ns=0 fw_read_ns=0 fw_write_ns=0 cmd_overlap=0 store=0 depth=128 "$@" power=1; }
load() { fio --name=l --filename=$1 --direct=1 --rw=$2 --numjobs=$3 --bs=$4 --ioengine=psync \
  --thread --group_reporting --randseed=$SEED --norandommap --time_based --runtime=$RUN \
  --size=256m --output-format=json > /tmp/out
  python3 -c "import json; t = open('/tmp/out').read(); j = json.loads(t[t.index('{'):])['jobs'][0]
print(*(sum(j[w][k] for w in ('read', 'write')) for k in ('bw_bytes', 'iops')), \
max(j[w]['clat_ns']['mean'] for w in ('read', 'write')))"; }
count() { awk -v n=$1 '$1 == n {print $2}' $T/counters; }
echo 1 > /proc/sys/kernel/printk
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: bytes per second, requests per command."""

    mode: str
    pattern: str
    threads: int
    rate: float
    merge: float


def guest(script: str, series: str) -> list[list[str]]:
    """The words of every line that a script printed in a reproducible guest."""
    request = GuestRequest(
        argv=("bash", "-euc", TOOLS + script),
        series=series,
        disks=(),
        cwd=Path(__file__).parents[1],
        reproducible=True,
        timeout_s=1800,
        # One CPU is the lab's default; a thread that spins needs others beside it: the paper's 8.
        devices=("-smp", "8"),
    )
    return [line.split() for line in run_in_guest(request, CACHE).stdout.splitlines()]


def software_ns(series: str) -> int:
    """What one 4 KiB read costs on a device that takes no time."""
    script = (
        "SEED=1; RUN=300ms; drive completion=inline cmd_serial_ns=0 link_mbps=1000000\n"
        "load /dev/ssd0 randread 1 4k"
    )
    return round(float(guest(script, series)[0][2]))


def model(cost_ns: int) -> dict[str, int]:
    """The device that stands to this software as the paper's stood to its."""
    return {
        "cmd_serial_ns": round(cost_ns * FIXED),
        "link_mbps": max(1, round(4096 * 1000 / (cost_ns * TRANSFER))),
    }


def cases(threads: tuple[int, ...]) -> list[tuple[str, str, int]]:
    """What is compared: every mode on random reads, and on random writes at the ends."""
    reads = [(mode, "randread", n) for mode in MODES for n in threads]
    return reads + [(mode, "randwrite", n) for mode in MODES for n in (1, 8)]


def measure(drive: dict[str, int], seed: int, series: str, threads: tuple[int, ...]) -> list[Row]:
    """All cases on one device, each on a fresh instance; the peak is large sequential requests."""
    options = " ".join(f"{name}={value}" for name, value in drive.items())
    lines = [f"SEED={seed}; RUN=200ms; drive {options}"]
    lines += [f"echo peak {way} 2 $(load /dev/ssd0 {way} 2 512k) 1" for way in ("read", "write")]
    for mode, pattern, n in cases(threads):
        if mode == "none":
            lines.append(f"echo none {pattern} {n} $(load /dev/ssd0 {pattern} {n} 4k) 1")
            continue
        lines.append(
            f"mkdir $T; put $T device=/dev/ssd0 mode={mode} power=1\n"
            f"echo {mode} {pattern} {n} $(load /dev/tm0 {pattern} {n} 4k)"
            " $(count read_ios) $(count write_ios) $(count read_commands) $(count write_commands)\n"
            "echo 0 > $T/power; rmdir $T"
        )
    lines.append(BUFFERED)
    return [_row(words) for words in guest("\n".join(lines), series)]


# Writers that dirty pages faster than the device takes them: what write-back sends in a second.
BUFFERED = """
echo 4194304 > /proc/sys/vm/dirty_bytes; echo 2097152 > /proc/sys/vm/dirty_background_bytes
for mode in spatial-intr atm; do mkdir $T; put $T device=/dev/ssd0 mode=$mode power=1
fio --name=b --filename=/dev/tm0 --direct=0 --rw=randwrite --bs=4k --numjobs=8 --thread \
  --size=256m --norandommap --randseed=$SEED --ioengine=psync --time_based --runtime=2 \
  --minimal > /dev/null &
sleep 0.8; a=$(count write_ios); c=$(count write_commands); t=$(date +%s%N); sleep 1
b=$(count write_ios); d=$(count write_commands); u=$(date +%s%N); wait
rate=$(( (b - a) * 4096000000000 / (u - t) ))
echo $mode buffered-randwrite 8 $rate 0 0 $((b - a)) 0 $((d - c)) 0
sync; echo 0 > $T/power; rmdir $T; done
"""


def _row(words: list[str]) -> Row:
    mode, pattern, threads, rate = words[0], words[1], int(words[2]), float(words[3])
    if len(words) < 10:
        return Row(mode, pattern, threads, rate, 1.0)
    ios, commands = int(words[6]) + int(words[7]), int(words[8]) + int(words[9])
    return Row(mode, pattern, threads, rate, ios / max(commands, 1))


def table(rows: list[Row]) -> str:
    """Rates as shares of the peak of their direction."""
    peak = {row.pattern: row.rate for row in rows if row.mode == "peak"}
    lines = [
        "| mode | load | threads | MB/s | of peak | requests/command |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        whole = peak["write" if "write" in row.pattern else "read"]
        lines.append(
            f"| {row.mode} | {row.pattern} | {row.threads} | {row.rate / 1e6:.2f}"
            f" | {row.rate / whole:.1%} | {row.merge:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Calibrate, freeze, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", default="6.12")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 16])
    options = parser.parse_args()
    cost_ns = software_ns(options.series)
    drive = model(cost_ns)
    digest = hashlib.sha256(json.dumps(drive, sort_keys=True).encode()).hexdigest()[:16]
    print(f"software {cost_ns} ns; device {drive}; digest {digest}", flush=True)
    for seed in range(1, options.seeds + 1):
        rows = measure(drive, seed, options.series, tuple(options.threads))
        print(f"\nseed {seed}\n{table(rows)}", flush=True)


if __name__ == "__main__":
    main()
