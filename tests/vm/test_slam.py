import csv
import json
import os
from pathlib import Path

import pytest

from tests.vm.conftest import EVERY_KERNEL, REPOSITORY, Guest

pytestmark = pytest.mark.vm

SETUP = """
S=/sys/kernel/config/ssdb_slam/a
mkdir $S
echo /dev/nvme0n1 > $S/device
echo 200 > $S/runtime_ms
run() { echo 1 > $S/running; while [ "$(cat $S/running)" = 1 ]; do sleep 0.05; done
  echo "$1 $(cat $S/ios) $(cat $S/errors) $(awk '{n += $3} END {print n + 0}' $S/histogram)"; }
"""


def test_writes_need_the_word_for_this_very_drive(guest: Guest) -> None:
    answer = guest(
        SETUP + "echo 0 > $S/read_percent\n"
        "echo 1 > $S/running || echo unarmed refused\n"
        'echo "259:0 4711" > $S/armed; echo 1 > $S/running || echo other refused\n'
        'echo "$(cat /sys/block/nvme0n1/dev) $(blockdev --getsize64 /dev/nvme0n1)" > $S/armed\n'
        "run armed; echo nvme > $S/level; echo 1 > $S/running || echo passthrough refused\n"
        "echo $(dmesg | grep -c 'ssdb_slam: a: .*: not armed for writes.* (-EPERM)') lines",
    )

    assert "unarmed refused" in answer.stdout
    assert "other refused" in answer.stdout
    assert "passthrough refused" in answer.stdout
    assert "3 lines" in answer.stdout
    armed = next(line for line in answer.stdout.splitlines() if line.startswith("armed"))
    assert int(armed.split()[1]) > 0


def test_the_device_is_held_while_it_runs_and_given_back(guest: Guest) -> None:
    answer = guest(
        SETUP + "echo 60000 > $S/runtime_ms; echo 1 > $S/running\n"
        "python3 -c 'import os; os.open(\"/dev/nvme0n1\", os.O_RDWR | os.O_EXCL)' 2>/dev/null"
        " || echo held\n"
        "rmmod ssdb_slam 2>/dev/null || echo busy\n"
        "echo 8 > $S/depth 2>/dev/null || echo fixed\n"
        "echo 0 > $S/running\n"
        "python3 -c 'import os; os.open(\"/dev/nvme0n1\", os.O_RDWR | os.O_EXCL)' && echo free\n"
        "rmdir $S; rmmod ssdb_slam && echo removed"
    )

    assert answer.stdout.split() == ["held", "busy", "fixed", "free", "removed"]


# Who asks for a drive of its own, until it gets it.
FREE = """
import os, time
for _ in range(150):
    try:
        os.open("/dev/nvme0n1", os.O_RDWR | os.O_EXCL)
        print("free")
        break
    except OSError:
        time.sleep(0.1)
else:
    print("held")
"""
LEND = """
import os, sys
def put(name, value):
    with open(f"/sys/kernel/config/ssdb_slam/a/{name}", "w") as file:
        file.write(str(value))
claim = os.open("/dev/nvme0n1", os.O_RDWR | os.O_EXCL)
put("claim", claim)
for value in sys.argv[1:]:
    try:
        put("running", value)
    except OSError as error:
        print(error.strerror, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_drive_is_free_when_a_run_has_ended_though_nobody_asks(guest: Guest) -> None:
    answer = guest(SETUP + f"echo 1 > $S/running; python3 -c '{FREE}'; cat $S/errors $S/running")

    assert answer.stdout.split() == ["free", "0", "0"]


def test_a_claim_that_no_run_has_taken_ends_with_its_process(guest: Guest) -> None:
    """It was killed before it started one, or the run was refused, or it is another one's."""
    answer = guest(
        SETUP
        + f"cat > /run/free.py <<'EOF'\n{FREE}\nEOF\ncat > /run/lend.py <<'EOF'\n{LEND}\nEOF\n"
        "python3 /run/lend.py || python3 /run/free.py\n"
        "(echo 1 > $S/running) 2> /dev/null || echo refused\n"
        "echo 536870912 > $S/offset_bytes; echo 1073741824 > $S/span_bytes\n"
        "python3 /run/lend.py 1 || python3 /run/free.py\n"
        "dmesg | grep -o 'nvme0n1: its claim is no drive that this process has open (-EPERM)'"
    )

    assert answer.stdout.splitlines() == [
        "free", "refused", "Numerical result out of range", "free",
        "nvme0n1: its claim is no drive that this process has open (-EPERM)",
    ]  # fmt: skip


@pytest.mark.timed
def test_a_run_into_a_drive_that_stays_busy_ends_with_its_time(guest: Guest) -> None:
    """The drive takes one request at a time and has one, of another process, for 4 s."""
    answer = guest(
        SETUP + "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=4000000000"
        " hw_queue_depth=1 submit_queues=1\n"
        "echo bpref-cfq > /sys/block/nullb0/queue/scheduler; echo /dev/nullb0 > $S/device\n"
        "echo request > $S/level; dd if=/dev/nullb0 of=/run/o bs=4k count=1 iflag=direct 2>&1 &\n"
        "until [ $(awk '{print $9}' /sys/block/nullb0/stat) = 1 ]; do sleep 0.05; done\n"
        "run busy; kill -0 $! && echo beside it; wait"
    )

    assert answer.stdout.splitlines()[:2] == ["busy 0 0 0", "beside it"]


# A run that is stopped before its thread, kept off its CPU by another, has begun.
LENT = """
import os, time
def put(name, value):
    with open(f"/sys/kernel/config/ssdb_slam/a/{name}", "w") as file:
        file.write(str(value))
put("cpu", 1)
claim = os.open("/dev/nvme0n1", os.O_RDONLY | os.O_EXCL)
hog = os.fork()
os.sched_setaffinity(0, {0 if hog else 1})
if not hog:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
    end = time.monotonic() + 3
    while time.monotonic() < end:
        pass
    os._exit(0)
time.sleep(0.5)
put("claim", claim)
put("running", 1)
put("running", 0)
os.close(claim)
os.waitpid(hog, 0)
os.open("/dev/nvme0n1", os.O_RDONLY | os.O_EXCL)
print("given back")
"""


def test_a_run_that_is_stopped_before_it_began_gives_its_claim_back(guest: Guest) -> None:
    answer = guest(SETUP + f"cat > /run/lent.py <<'EOF'\n{LENT}\nEOF\npython3 /run/lent.py")

    assert answer.stdout.split() == ["given", "back"]


# Memory but for 256 MiB is taken by another, which says so and stays.
HOG = """
import time
kib = next(int(line.split()[1]) for line in open("/proc/meminfo") if "MemAvailable" in line)
taken = bytearray(b"x") * (kib * 1024 - (256 << 20))
print("taken", flush=True)
time.sleep(600)
"""


def test_a_run_that_finds_no_memory_is_refused_without_a_trace(guest: Guest) -> None:
    answer = guest(
        SETUP + f"cat > /run/hog.py <<'EOF'\n{HOG}\nEOF\n"
        "echo 524288 > $S/block_bytes; echo 1024 > $S/depth; dmesg -c > /run/said\n"
        "coproc python3 /run/hog.py; read -r said <&${COPROC[0]}; echo $said\n"
        "(echo 1 > $S/running) 2> /run/why || grep -o 'Cannot allocate memory' /run/why\n"
        "kill $COPROC_PID; dmesg | grep -c 'page allocation failure' || true"
    )

    assert answer.stdout.splitlines() == ["taken", "Cannot allocate memory", "0"]


def test_writes_stay_within_a_partition_and_out_of_what_another_holds(guest: Guest) -> None:
    answer = guest(
        SETUP + "echo 0 > $S/runtime_ms; P=/dev/ssd0p1\n"
        "F=/sys/kernel/config/ssdb_flash/ssd0; mkdir $F\n"
        "for pair in capacity_bytes=67108864 erase_block_bytes=65536 op_ppm=200000 channels=2"
        " ftl=direct wbuf_bytes=0; do echo ${pair#*=} > $F/${pair%%=*}; done; echo 1 > $F/power\n"
        "echo 'start=32768,size=32768' | sfdisk -q --no-reread --no-tell-kernel /dev/ssd0\n"
        "blockdev --rereadpt /dev/ssd0; until [ -b $P ]; do sleep 0.1; done\n"
        "cut() { dd if=/dev/ssd0 bs=1M status=none $*; }; beside() { (cut count=16; cut skip=32)"
        " | md5sum; }\n"
        "before=$(beside); echo 0 > $S/read_percent; echo $P > $S/device; echo 300 > $S/ios_limit\n"
        'arm() { echo "$(cat $1/dev) $(blockdev --getsize64 $2)" > $S/armed; }\n'
        "arm /sys/block/ssd0/ssd0p1 $P; for level in bio request; do echo $level > $S/level\n"
        "blank=$(md5sum < $P); run $level; blockdev --flushbufs /dev/ssd0\n"
        '[ "$(md5sum < $P)" != "$blank" ] && [ "$(beside)" = "$before" ] && echo within; done\n'
        # A descriptor without O_EXCL claims nothing; the file system does.
        "mkfs.ext4 -q $P; mkdir /run/m; mount $P /run/m; exec 7< $P; echo 7 > $S/claim\n"
        "echo 1 2> /run/said > $S/running || grep -o 'not permitted' /run/said; umount /run/m",
    )

    assert answer.stdout.split("\n")[:-1] == [
        "bio 300 0 300", "within", "request 300 0 300", "within", "not permitted",
    ]  # fmt: skip


WRONG = (
    "block_bytes 4000", "block_bytes 0", "depth 0", "depth 99999", "read_percent 101", "level warp",
    "pattern zigzag", "cpu 4096", "device /dev/none", "offset_bytes 9223372036854775807", "seed x",
    "span_bytes 1", "runtime_ms -5", "claim x",
)  # fmt: skip


def test_wrong_values_are_error_numbers_and_never_an_oops(guest: Guest) -> None:
    tries = "\n".join(
        f"mkdir $S; echo /dev/nvme0n1 > $S/device; set -- {wrong}\n"
        '(echo "$2" > $S/$1 && echo 1 > $S/running) 2>/dev/null && echo "$1 accepted"'
        ' || echo "$1 refused"; rmdir $S'
        for wrong in WRONG
    )

    answer = guest(SETUP + "rmdir $S\n" + tries)

    assert answer.stdout.splitlines() == [f"{wrong.split()[0]} refused" for wrong in WRONG]


# From here on each machine is another one, which costs a guest.
NVME_AND_AHCI = ("nvme=null:1GiB", "ahci=null:1GiB")


@EVERY_KERNEL
def test_every_level_counts_each_request_once(guest: Guest) -> None:
    answer = guest(
        SETUP + "echo 2000 > $S/ios_limit; echo 0 > $S/runtime_ms\n"
        "for level in bio request nvme; do echo $level > $S/level; run $level; done\n"
        "echo /dev/sda > $S/device; echo scsi > $S/level; run scsi",
        disks=NVME_AND_AHCI,
    )

    lines = [line.split() for line in answer.stdout.splitlines()]
    assert [line[0] for line in lines] == ["bio", "request", "nvme", "scsi"]
    assert all(line[1:] == ["2000", "0", "2000"] for line in lines)


def test_blocks_larger_than_a_segment_of_the_drive_are_served_but_as_commands(guest: Guest) -> None:
    answer = guest(
        SETUP + "echo /dev/sda > $S/device; echo 131072 > $S/block_bytes; echo 300 > $S/ios_limit\n"
        "echo 0 > $S/runtime_ms; cat /sys/block/sda/queue/max_segment_size\n"
        "for level in bio request; do echo $level > $S/level; run $level; done\n"
        "echo scsi > $S/level; (echo 1 > $S/running) 2> /dev/null || echo scsi refused",
        disks=NVME_AND_AHCI,
    )

    assert answer.stdout.splitlines() == [
        "65536", "bio 300 0 300", "request 300 0 300", "scsi refused",
    ]  # fmt: skip


def test_what_a_drive_cannot_read_is_an_error_at_every_level(guest: Guest, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, 64 << 20)
    answer = guest(
        SETUP + "for pair in pattern=sequential offset_bytes=1044480 span_bytes=8192 ios_limit=200"
        " runtime_ms=0 depth=1; do echo ${pair#*=} > $S/${pair%%=*}; done\n"
        "for level in bio request nvme; do echo $level > $S/level; run $level; done",
        disks=(f"nvme,fail=2048={image}",),
    )

    assert answer.stdout.splitlines() == [
        f"{level} 100 100 100" for level in ("bio", "request", "nvme")
    ]


TWO_NAMESPACES = (
    "-device", "nvme,id=c0,serial=TWO",
    "-blockdev", "driver=null-co,node-name=n1,size=16777216,read-zeroes=on",
    "-blockdev", "driver=null-co,node-name=n2,size=1073741824,read-zeroes=on",
    "-device", "nvme-ns,drive=n1,bus=c0,nsid=1", "-device", "nvme-ns,drive=n2,bus=c0,nsid=2",
)  # fmt: skip


def test_nvme_commands_go_to_the_namespace_that_is_held(guest: Guest) -> None:
    """The other one is smaller, so that reads beyond its end would fail."""
    answer = guest(
        SETUP + "for disk in /sys/block/nvme*; do [ $(cat $disk/nsid) = 1 ] || break; done\n"
        "echo /dev/${disk##*/} > $S/device; echo nvme > $S/level; echo 500 > $S/ios_limit\n"
        "echo 0 > $S/runtime_ms; run nvme",
        disks=(),
        devices=TWO_NAMESPACES,
    )

    assert answer.stdout.split() == ["nvme", "500", "0", "500"]


def test_a_multipath_head_has_no_queue_and_every_refusal_a_line(guest: Guest) -> None:
    answer = guest(
        SETUP + "for level in bio request nvme scsi; do echo $level > $S/level\n"
        "if (echo 1 > $S/running) 2>/dev/null\n"
        "then until [ $(cat $S/running) = 0 ]; do sleep 0.05; done; echo $level $(cat $S/ios)\n"
        "else echo $level refused; fi; done\n"
        "A=/sys/block/nvme0n1/queue/scheduler; (echo bpref-cfq > $A) 2>/dev/null || true\n"
        "grep -q bpref $A || echo no scheduler\n"  # 6.1 takes the word and does nothing
        "dmesg | grep -o 'ssdb_slam: a: /dev/nvme0n1: .*'",
        multipath=True,
    )

    bio, *rest = answer.stdout.splitlines()
    refused = "ssdb_slam: a: /dev/nvme0n1: nothing of this level's kind, or no queue for it"
    assert bio.startswith("bio ") and int(bio.split()[1]) > 0
    assert rest == [
        "request refused", "nvme refused", "scsi refused", "no scheduler",
        *[f"{refused} (-EOPNOTSUPP)"] * 3,
    ]  # fmt: skip


# Two generators, one job, one drive of 1 ms reads and 2 ms writes on two dies.
GENERATORS = """
import json, os
from pathlib import Path
from ssdbench.generator.base import Job
from ssdbench.generator.fio.attachment import DeviceAttachment
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.slam import Slam
from ssdbench.model.workload import ActiveRange, Pattern, Workload

node = Path("/dev/ssd0")
fd = os.open(node, os.O_RDWR | os.O_EXCL)
fio = Fio(DeviceAttachment(node, fd))
whole = ActiveRange(offset_bytes=0, length_bytes=64 << 20)
jobs = [
    Job(f"depth {depth}", Workload(pattern=Pattern.RANDOM, block_bytes=4096, read_percent=70,
        iodepth=depth, range=whole), seed=1, runtime_s=2, histogram_log=True)
    for depth in (1, 4)]
for generator in (fio, Slam(node, fd, fio)):
    directory = Path("/run") / generator.name.split()[0]
    with generator.start(jobs, artifacts=directory) as running:
        ios = sum(second.ios for second in running)
        outcome = running.outcome()
    logged = sum(outcome.latency(way, from_s=0, to_s=60).n for way in ("read", "write"))
    ways = [way for job in outcome.jobs for way in (job.read, job.write)]
    print(json.dumps({
        "ios": ios, "logged": logged, "counted": [way.ios for way in ways],
        "rate": [way.ios / way.runtime_s for way in ways],
        "mean": [way.lat_mean_ns for way in ways],
        "p50": [way.latency.percentile_ns(0.5) for way in ways[:2]],
        "p99": [way.latency.percentile_ns(0.99) for way in ways]}))
open("/run/own-claim", "w").write(str(len(os.listdir("/sys/kernel/config/ssdb_slam"))))
"""
KILLED = """
import os, time
from pathlib import Path
from ssdbench.generator.base import Job
from ssdbench.generator.slam import Slam
from ssdbench.model.workload import ActiveRange, Pattern, Workload

node = Path("/dev/ssd0")
fd = os.open(node, os.O_RDWR | os.O_EXCL)
whole = ActiveRange(offset_bytes=0, length_bytes=64 << 20)
work = Workload(pattern=Pattern.RANDOM, block_bytes=4096, read_percent=0, iodepth=4, range=whole)
running = Slam(node, fd, None).start([Job("w", work, seed=1)], artifacts=Path("/run/killed"))
next(iter(running))
os.kill(os.getpid(), 9)
"""
DRIVE = """
F=/sys/kernel/config/ssdb_flash/ssd0; mkdir $F
for pair in capacity_bytes=67108864 ftl=direct wbuf_bytes=0 t_read_ns=1000000 t_prog_ns=2000000 \
  channels=1 dies_per_channel=2 store=0 completion=timer; do
  echo "${pair#*=}" > $F/${pair%%=*}; done; echo 1 > $F/power
echo none > /sys/block/ssd0/queue/scheduler
"""


@pytest.mark.stretched
@pytest.mark.soak
def test_slam_and_fio_measure_the_same_drive_alike(guest: Guest) -> None:
    """In reproducible time, so that what differs are the generators and not the host."""
    answer = guest(
        DRIVE + f"cat > /run/both.py <<'EOF'\n{GENERATORS}\nEOF\n"
        f"cat > /run/killed.py <<'EOF'\n{KILLED}\nEOF\n"
        "export PYTHONPATH=$PWD; P=$PWD/.venv/bin/python\n"
        "$P /run/both.py; echo instances $(cat /run/own-claim)\n"
        "$P /run/killed.py || echo killed $?\n"
        "until [ $(cat /sys/kernel/config/ssdb_slam/*/running) = 0 ]; do sleep 0.1; done\n"
        "python3 -c 'import os; os.open(\"/dev/ssd0\", os.O_RDWR | os.O_EXCL)' && echo free\n"
        "$P -c 'from ssdbench.host.slam import sweep; sweep()'; rmmod ssdb_slam && echo gone",
        reproducible=True,
        disks=(),
    )

    fio, slam, *rest = answer.stdout.splitlines()
    theirs, ours = json.loads(fio), json.loads(slam)
    print(theirs, ours)
    for what in ("rate", "mean", "p50", "p99"):
        assert ours[what] == pytest.approx(theirs[what], rel=0.1), what
    assert ours["counted"][0] / sum(ours["counted"][:2]) == pytest.approx(0.7, abs=0.03)
    assert ours["ios"] == ours["logged"] == sum(ours["counted"])
    assert rest == ["instances 0", "killed 137", "free", "gone"]


# Small enough to end in a guest without KVM: what a run is, not what the drive is.
PROFILE = """\
generator: slam
content: random
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, workload: {block: 4KiB, read: 0, iodepth: 8}, max_time: 2s}
settle: {window: 1s, flat: 1s, max_time: 2s}
repeats: 1
window: 2s
seed: 1
measure:
  - sweep: {block: 4KiB, read: [70], iodepth: 8, numjobs: 1}
"""


@pytest.mark.soak
def test_a_run_whose_generator_is_slam_measures_with_it_and_says_so(guest: Guest) -> None:
    answer = guest(
        f"printf '%s' '{PROFILE}' > /run/p.yaml; export SSDBENCH_SETTINGS=/run/settings\n"
        f'run="{REPOSITORY}/.venv/bin/python -m ssdbench run /run/p.yaml --target /dev/nvme0n1"\n'
        "$run --output /run/out > /run/said 2>&1 || [ $? = 1 ] || { cat /run/said >&2; exit 1; }\n"
        "cd /run/out; ln -s stages/03-*/*/repeat-01 03; cat result.json; echo ---\n"
        "cat 03/seconds.csv; echo ---\n"
        "cat 03/fio/slam-histograms.jsonl; echo ---; find . -name job.fio\n"
        "echo ---; grep -o 'ssdb_slam, random fills by fio [0-9.]*' report.html | head -1\n"
        "ls /sys/kernel/config/ssdb_slam",
        disks=("nvme=null:64MiB",),
    )

    assert answer.status == 0, answer.stderr[-2000:]
    text, seconds, rows, fio_jobs, named = answer.stdout.split("---\n")
    result = json.loads(text)
    by_second = list(csv.DictReader(seconds.splitlines()))
    logged = [json.loads(row) for row in rows.splitlines()]
    (point,) = result["stages"][-1]["found"]["points"]

    assert result["host"]["generator"].startswith("ssdb_slam, random fills by fio 3.")
    assert named.split() == result["host"]["generator"].split()  # and no instance is left
    assert fio_jobs == ""
    for way in ("read", "write"):
        ios = [int(row[f"{way}_ios"]) for row in by_second]
        # What was in flight when the window had ended is logged, and belongs to no second.
        assert sum(n for row in logged for n in row[way].values()) >= sum(ios) > 100
        (median,) = (
            e for e in point["estimates"] if (e["metric"], e["direction"]) == ("lat_p50_ns", way)
        )
        measured = zip(by_second, ios, strict=True)
        assert median["n"] == sum(n for row, n in measured if row["phase"] == "measure")
        assert median["ci_low"] <= median["value"] <= median["ci_high"]
