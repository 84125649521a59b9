import ast
import json
import re
import sys

import pytest

from tests.vm.conftest import EVERY_KERNEL, Guest

pytestmark = pytest.mark.vm

BOTH = ("bpref-as", "bpref-cfq")
# A scheduler that is chosen after this has reads alone in its first class.
READS_FIRST = "P=/sys/module/ssdb_bpref/parameters/sync_writes; echo 0 > $P\n"
SETUP = """
Q=/sys/block/nvme0n1/queue; I=$Q/iosched
get() { python3 -c "import json; t = open('/run/o').read()
jobs = {j['jobname']: j for j in json.loads(t[t.index('{'):])['jobs']}
print($1)"; }
"""
# The Transcend drive's times on a small device, inside the guest.
BLOCKLOG = """
F=/sys/kernel/config/ssdb_flash/ssd0
mkdir $F; for pair in capacity_bytes=268435456 ftl=blocklog erase_block_bytes=1048576 channels=1 \\
  dies_per_channel=1 program_unit_bytes=4096 read_unit_bytes=4096 log_blocks=4 t_read_ns=60000 \\
  t_prog_ns=130000 t_erase_ns=1500000 wbuf_bytes=0 store=0 completion=timer depth=2; do
  echo "${pair#*=}" > $F/${pair%%=*}; done; echo 1 > $F/power
Q=/sys/block/ssd0/queue; I=$Q/iosched
"""


def numbers(text: str) -> dict[str, float]:
    found = re.findall(r"^([a-z_0-9-]+) ([0-9.e+-]+)$", text, flags=re.MULTILINE)
    return {name: float(value) for name, value in found}


def switch_under_load(rounds: int) -> str:
    return (
        SETUP + "fio --name=l --filename=/dev/nvme0n1 --direct=1 --rw=randrw --bs=4k"
        " --ioengine=libaio --iodepth=16 --numjobs=2 --time_based --runtime=600 > /run/l &\n"
        f"sleep 1; for i in $(seq {rounds}); do for s in bpref-as bpref-cfq mq-deadline none; do\n"
        'echo $s > $Q/scheduler; grep -q "\\[$s\\]" $Q/scheduler || echo not $s; done; done\n'
        "echo bpref-cfq > $Q/scheduler; rmmod ssdb_bpref 2>/dev/null || echo busy\n"
        "kill -TERM $!; wait || true\n"
        "echo none > $Q/scheduler; rmmod ssdb_bpref && echo removed"
    )


@pytest.mark.soak
def test_schedulers_are_switched_under_load_and_stay_while_in_use(guest: Guest) -> None:
    assert guest(switch_under_load(10)).stdout.split() == ["busy", "removed"]


@pytest.mark.soak
@pytest.mark.parametrize("quarter", range(4))  # a guest each, as in test_stress
def test_a_hundred_switches_under_load_leave_no_trace(guest: Guest, quarter: int) -> None:
    assert guest(switch_under_load(25)).stdout.split() == ["busy", "removed"]


@EVERY_KERNEL
def test_what_was_written_comes_back_and_every_request_ends(guest: Guest) -> None:
    answer = guest(
        SETUP + "modprobe null_blk nr_devices=1 memory_backed=1 gb=1 irqmode=2"
        " completion_nsec=100000 submit_queues=2\n"
        "for s in bpref-as bpref-cfq; do for p in 0 1; do\n"
        "echo $s > /sys/block/nullb0/queue/scheduler\n"
        "echo $p > /sys/block/nullb0/queue/iosched/block_preference\n"
        "fio --name=v --filename=/dev/nullb0 --direct=1 --rw=randwrite --bsrange=512-64k"
        " --ioengine=libaio --iodepth=32 --numjobs=2 --offset_increment=64m --size=8m"
        " --verify=crc32c --do_verify=1 --fsync=64 --minimal > /run/v && echo $s $p verified\n"
        "awk '{print \"left\", $9}' /sys/block/nullb0/stat; done; done\n"
        "mkfs.ext4 -q /dev/nullb0; mount /dev/nullb0 /mnt; for i in 1 2 3 4; do\n"
        "dd if=/dev/zero of=/mnt/$i bs=4k count=500 status=none & done; wait; sync; umount /mnt\n"
        "fsck.ext4 -fn /dev/nullb0 > /dev/null 2>&1 && echo clean",
    )

    expected = [f"{s} {p} verified\nleft 0" for s in BOTH for p in (0, 1)]
    assert answer.stdout.strip() == "\n".join([*expected, "clean"])


WRONG = (
    "block_bytes -1", "block_bytes 1000", "block_bytes 99999999999", "block_bytes x",
    "block_phase_bytes 1048576", "block_phase_bytes 7", "block_preference 2", "quantum 0",
)  # fmt: skip


def test_wrong_values_are_refused_and_right_ones_read_back(guest: Guest) -> None:
    tries = "\n".join(
        f'set -- {wrong}; (echo "$2" > $I/$1) 2>/dev/null && echo "accepted {wrong}"'
        for wrong in WRONG
    )

    answer = guest(
        SETUP + f"for s in {' '.join(BOTH)}; do echo $s > $Q/scheduler\n{tries}\n"
        "(echo 1 > $I/reads) 2>/dev/null && echo wrote a counter\n"
        "echo 65536 > $I/block_bytes; echo 4096 > $I/block_phase_bytes\n"
        "(echo 4096 > $I/block_bytes) 2>/dev/null && echo block within phase\n"
        "echo $s $(cat $I/block_bytes $I/block_phase_bytes $I/block_preference); done"
    )

    assert answer.stdout.splitlines() == [f"{s} 65536 4096 1" for s in BOTH]


@EVERY_KERNEL
def test_write_back_is_not_throttled_before_it_reaches_the_scheduler(guest: Guest) -> None:
    """A queue that is kept at one write leaves nothing to choose from; the throttle comes back."""
    on, on_by_hand, off = "1", "2", "3"  # blk-wbt's own states: 6.1 tells them nowhere else
    answer = guest(
        SETUP + "mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug\n"
        "W=/sys/kernel/debug/block/nvme0n1/rqos/wbt/enabled; cat $W\n"
        "for s in bpref-as bpref-cfq none; do echo $s > $Q/scheduler; cat $W; done\n"
        "echo 4000 > $Q/wbt_lat_usec; echo bpref-cfq > $Q/scheduler; cat $W\n"
    )

    assert answer.stdout.split() == [on, off, off, on, on_by_hand]


def test_writes_take_three_quarters_of_the_tags_and_a_reader_finds_one(guest: Guest) -> None:
    """On a drive that is busy for 5 ms with each request, so that the tags run out."""
    answer = guest(
        SETUP + "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=5000000"
        " hw_queue_depth=1 submit_queues=1\nQ=/sys/block/nullb0/queue\n"
        "busy() { while IFS== read -r name value; do [ $name = busy ] && break; done"
        " < /sys/kernel/debug/block/nullb0/hctx0/sched_tags; }\n"
        "for case in bpref-as:64 bpref-cfq:256; do echo ${case%:*} > $Q/scheduler\n"
        "echo ${case#*:} > $Q/nr_requests; value=0; most=0\n"
        "fio --name=w --filename=/dev/nullb0 --direct=1 --rw=randwrite --bs=4k --ioengine=libaio"
        " --iodepth=300 --time_based --runtime=600 > /run/w &\n"
        "until [ $value -gt 0 ]; do busy; done\n"
        "for i in $(seq 500); do busy; [ $value -gt $most ] && most=$value; done\n"
        "dd if=/dev/nullb0 of=/dev/null bs=4k count=1 iflag=direct status=none\n"
        "echo $case $most; kill -TERM $!; wait || true; done"
    )

    assert answer.stdout.splitlines() == ["bpref-as:64 48", "bpref-cfq:256 192"]


# By seed 64 a read, two writes, a read; the first two are sent, and therefore made, at once. The
# drive never reports the first write, and nobody asks whether the run has ended.
MIXED = """
F=/sys/kernel/config/ssdb_flash/ssd0; S=/sys/kernel/config/ssdb_slam/a; mkdir $F $S
for pair in capacity_bytes=67108864 ftl=direct wbuf_bytes=0 store=0; do
  echo ${pair#*=} > $F/${pair%%=*}; done; echo 1 > $F/power
Q=/sys/block/ssd0/queue; echo bpref-cfq > $Q/scheduler; echo 60000 > $Q/iosched/slice_sync_ms
echo 2000 > $Q/io_timeout
for pair in device=/dev/ssd0 runtime_ms=0 ios_limit=4 depth=2 read_percent=50 seed=64 \\
  "armed=$(cat /sys/block/ssd0/dev) 67108864"; do echo ${pair#*=} > $S/${pair%%=*}; done
echo 2 > $F/timeout_inject/interval; echo 100 > $F/timeout_inject/probability
echo 1 > $S/running; until [ $(cat $S/ios) = 3 ]; do sleep 0.1; done
timeout -s KILL 60 dd if=/dev/ssd0 of=/dev/null bs=4k count=1 iflag=direct status=none || echo stuck
until [ $(cat $S/errors) = 1 ]; do sleep 0.1; done; echo 0 > $S/running; cat $S/ios
"""


def test_nobody_waits_for_one_whose_write_was_made_as_a_read(guest: Guest) -> None:
    """Since its end would be none of the wait, the drive would stand still for all others."""
    assert guest(MIXED).stdout.split() == ["3"]


@pytest.mark.stretched
@pytest.mark.soak
def test_a_reader_is_waited_for_and_two_readers_share(guest: Guest) -> None:
    """On a slow drive (null_blk, 1 ms, one request at a time) beside asynchronous writes."""
    writers = (
        "--name=w --rw=randwrite --bs=4k --ioengine=libaio --iodepth=16 --size=256m"
        " --time_based --runtime=4"
    )
    reader = (
        "--rw=randread --bs=4k --ioengine=psync --thinktime=300 --size=256m --time_based"
        " --runtime=4"
    )
    slow = (
        "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=1000000 hw_queue_depth=1"
        " submit_queues=1; Q=/sys/block/nullb0/queue; I=$Q/iosched\n"
        "fio2() { fio --filename=/dev/nullb0 --direct=1 --randrepeat=1 --output-format=json"
        ' "$@" > /run/o; }\n'
    )
    answer = guest(
        SETUP + slow + READS_FIRST + "echo bpref-as > $Q/scheduler; echo 64 > $Q/nr_requests\n"
        f"for w in 0 6666; do echo $w > $I/antic_wait_us; fio2 {writers} --name=r {reader}\n"
        "echo as_reads_$w $(get \"jobs['r']['read']['total_ios']\")\n"
        "echo as_writes_$w $(get \"jobs['w']['write']['total_ios']\")\n"
        "echo as_worst_$w $(get \"jobs['w']['write']['clat_ns']['max']\"); done\n"
        "echo as_hits $(cat $I/wait_hits); echo as_misses $(cat $I/wait_misses)\n"
        "echo bpref-cfq > $Q/scheduler; echo 64 > $Q/nr_requests\n"
        f"fio2 --name=a {reader} --name=b {reader} --offset=512m\n"
        "echo cfq_a $(get \"jobs['a']['read']['total_ios']\")\n"
        "echo cfq_b $(get \"jobs['b']['read']['total_ios']\")\n"
        f"fio2 --name=a {reader} --prioclass=2 --prio=0 --name=b {reader} --prioclass=2 --prio=7\n"
        "echo cfq_high $(get \"jobs['a']['read']['total_ios']\")\n"
        "echo cfq_low $(get \"jobs['b']['read']['total_ios']\")\n"
        "echo cfq_hits $(cat $I/wait_hits)",
        reproducible=True,
    )

    found = numbers(answer.stdout)
    print(json.dumps(found))
    assert found["as_hits"] > 10 * found["as_misses"]
    assert found["as_reads_6666"] > 2 * found["as_reads_0"]
    assert found["as_writes_6666"] > 100  # batches of writes still get their turn
    assert found["as_worst_6666"] < 2e9  # read batch 0.5 s, and what is queued before
    assert 0.8 < found["cfq_a"] / found["cfq_b"] < 1.25
    assert found["cfq_high"] > 2 * found["cfq_low"] > 100
    assert found["cfq_hits"] > 100


JOINED = """
import mmap, os, time
def read(at, offset):
    if not os.fork():
        fd = os.open("/dev/nullb0", os.O_RDONLY | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        time.sleep(at)
        os._exit(os.preadv(fd, [page], offset) != 4096)
for n, offset in enumerate([1 << 20, 1 << 21, 4096, 0, 8192]):
    read(0.5 + n * 0.5, offset)
print([os.wait()[1] for n in range(5)])
"""


@pytest.mark.stretched
@pytest.mark.soak
def test_a_process_whose_only_request_joined_that_of_another_has_no_turn(guest: Guest) -> None:
    """The last read joins the two before it, while the drive has the others (one and the next)."""
    answer = guest(
        SETUP + f"cat > /run/joined.py <<'EOF'\n{JOINED}\nEOF\n"
        "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=4000000000"
        " hw_queue_depth=1 submit_queues=1; Q=/sys/block/nullb0/queue; I=$Q/iosched\n"
        "echo bpref-cfq > $Q/scheduler; echo 64 > $Q/nr_requests  # 2 of themselves\n"
        "python3 /run/joined.py; cat $I/merged",
        reproducible=True,
    )

    assert answer.stdout.splitlines() == ["[0, 0, 0, 0, 0]", "2"]


@pytest.mark.stretched
@pytest.mark.soak
def test_a_write_outside_the_block_waits_for_its_deadline_and_no_longer(guest: Guest) -> None:
    """Beside a queue that never lacks a write in the block of the last one (1 ms each)."""
    answer = guest(
        SETUP + "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=1000000"
        " hw_queue_depth=1 submit_queues=1; Q=/sys/block/nullb0/queue; I=$Q/iosched\n"
        + READS_FIRST
        + "echo bpref-as > $Q/scheduler; echo 64 > $Q/nr_requests  # 2 of themselves\n"
        "for e in 250 600000; do echo $e > $I/write_expire_ms\n"
        "fio --filename=/dev/nullb0 --direct=1 --bs=4k --output-format=json --thread"
        " --name=near --rw=randwrite --ioengine=libaio --iodepth=32 --size=1m --time_based"
        " --runtime=2 --name=far --rw=write --offset=512m --size=4k --startdelay=1 > /run/o\n"
        "echo far-$e $(get \"jobs['far']['write']['clat_ns']['max']\")\n"
        "echo expired-$e $(cat $I/write_expired); done",
        reproducible=True,
    )

    found = numbers(answer.stdout)
    # The deadlines are looked at once in their time: so up to twice, and what the drive has.
    assert 250e6 <= found["far-250"] < 520e6
    assert found["expired-250"] >= 1
    assert found["far-600000"] > 0.9e9  # when the others have ended
    assert found["expired-600000"] == found["expired-250"]


TRACED = r"block_rq_(issue|complete): \S+ ([A-Z]+) (?:\d+ )?\(.*?\) (\d+) \+"


def traced(what: str) -> str:
    """Shell text that runs something while the block layer's requests are traced, and prints them.

    The file system of traces lies where every test's own lies, so that it goes away like those.
    """
    return (
        "mount -t tracefs tracefs /mnt; echo 0 > /mnt/tracing_on; echo > /mnt/trace\n"
        "for e in issue complete; do echo 1 > /mnt/events/block/block_rq_$e/enable; done\n"
        f"echo 1 > /mnt/tracing_on\n{what}\necho 0 > /mnt/tracing_on; cat /mnt/trace\n"
        "echo 0 > /mnt/events/block/enable; umount /mnt\n"
    )


@pytest.mark.stretched
def test_no_write_is_sent_while_the_drive_has_a_read(guest: Guest) -> None:
    """Nor, by the anticipatory scheduler, a read while it has a write: it drains in between."""
    answer = guest(
        SETUP + "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=1000000"
        " hw_queue_depth=4 submit_queues=1; Q=/sys/block/nullb0/queue; I=$Q/iosched\n"
        + READS_FIRST
        + f"for s in {' '.join(BOTH)}; do echo $s > $Q/scheduler; echo 64 > $Q/nr_requests\n"
        + traced(
            "fio --filename=/dev/nullb0 --direct=1 --bs=4k --ioengine=libaio --iodepth=8 --thread"
            " --number_ios=800 --size=64m --norandommap --minimal --name=r --rw=randread --name=w"
            " --rw=randwrite > /run/o"
        )
        + "echo the next; done",
        reproducible=True,
    )

    anticipatory, cfq, rest = answer.stdout.split("the next\n")
    assert _meetings(anticipatory) == {"R": 0, "W": 0}
    assert _meetings(cfq)["W"] == 0
    assert rest == ""


def _meetings(trace: str) -> dict[str, int]:
    """How often a read or a write was sent while the drive had one of the others."""
    at_drive = {"R": 0, "W": 0}
    most = {"R": 0, "W": 0}
    meetings = {"R": 0, "W": 0}
    for event, kind, _ in re.findall(TRACED, trace):
        way = kind[0]
        at_drive[way] += 1 if event == "issue" else -1
        most[way] = max(most[way], at_drive[way])
        if event == "issue":
            meetings[way] += at_drive["W" if way == "R" else "R"] > 0
    assert most == {"R": 4, "W": 4}  # so there is something to drain
    return meetings


# A read of 4 KiB, after which its process thinks; meanwhile three writes by others, at these MiB.
PLANTED = """
import mmap, os, time
begin = time.monotonic()
def send(at, offset, read):
    if os.fork():
        return
    fd, page = os.open("/dev/nullb0", os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096)
    time.sleep(begin + 0.5 + at - time.monotonic())
    (os.preadv if read else os.pwritev)(fd, [page], offset)
    time.sleep(3)
    os._exit(0)
send(0, 0, True)
for n, mib in enumerate([20, 30, 10]):
    send(0.1 + n * 0.1, mib << 20, False)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


@pytest.mark.stretched
@pytest.mark.parametrize(
    ("scheduler", "settings", "expected"),
    [
        ("bpref-as", "antic_wait_us=1000000", [20, 30, 10]),
        ("bpref-cfq", "slice_idle_us=1000000 slice_sync_ms=60000", [20, 30, 10]),
        (
            "bpref-cfq",
            "slice_idle_us=1000000 slice_sync_ms=60000 async_expire_ms=600000",
            [10, 20, 30],
        ),
        ("bpref-noop", "", [20, 30, 10]),
    ],
    ids=["as", "cfq, late", "cfq, in time", "noop"],
)
@pytest.mark.soak
def test_a_batch_begins_with_its_oldest_request(
    guest: Guest, scheduler: str, settings: str, expected: list[int]
) -> None:
    """CFQ's slice only if that is late. By position they would go out as 10, 20, 30."""
    answer = guest(
        SETUP + f"cat > /run/planted.py <<'EOF'\n{PLANTED}\nEOF\n"
        "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=1000000 hw_queue_depth=1"
        " submit_queues=1; Q=/sys/block/nullb0/queue; I=$Q/iosched\n"
        + READS_FIRST
        + f"echo {scheduler} > $Q/scheduler; echo 64 > $Q/nr_requests\n"
        "[ ! -e $I/block_preference ] || echo 0 > $I/block_preference\n"
        f"for pair in {settings}; do echo ${{pair#*=}} > $I/${{pair%%=*}}; done\n"
        + traced("python3 /run/planted.py"),
        reproducible=True,
    )

    sent = [
        int(sector) * 512 >> 20
        for event, kind, sector in re.findall(TRACED, answer.stdout)
        if event == "issue" and kind[0] == "W"
    ]
    assert sent == expected


# One thread reads and thinks; the other reads SECTORS behind the end of that, LATER seconds later.
CLOSE = """
import mmap, os, sys, threading, time
own, sectors, later = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
fd = os.open("/dev/nullb0", os.O_RDONLY | os.O_DIRECT)
pages = [mmap.mmap(-1, 4096) for _ in range(2)]
ready, go = os.pipe()
def other():
    os.read(ready, 1)
    if later:
        time.sleep(later)
    begin = time.monotonic()
    os.preadv(fd, [pages[1]], (own - 1 << 20) + 4096 + 512 * sectors)
    print(round((time.monotonic() - begin) * 1e6))
thread = threading.Thread(target=other)
thread.start()
time.sleep(0.2)
for n in range(own):
    os.preadv(fd, [pages[0]], n << 20)
os.write(go, b".")
thread.join()
"""


@pytest.mark.stretched
@pytest.mark.soak
def test_a_near_read_of_another_process_ends_the_waiting(guest: Guest) -> None:
    """What is near grows with the time that was waited; CFQ goes by how far the process seeks."""
    cases = (
        "bpref-as 1 8192 0", "bpref-as 1 8200 0", "bpref-as 1 8200 0.003",
        "bpref-as 1 262144 0.003", "bpref-cfq 12 1024 0", "bpref-cfq 12 131072 0",
    )  # fmt: skip
    answer = guest(
        SETUP + f"cat > /run/close.py <<'EOF'\n{CLOSE}\nEOF\n"
        "modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=1000000 hw_queue_depth=1"
        " submit_queues=1; Q=/sys/block/nullb0/queue; I=$Q/iosched\n"
        + "".join(
            f"set -- {case}; echo none > $Q/scheduler; echo $1 > $Q/scheduler\n"
            "for n in antic_wait_us slice_idle_us; do [ ! -e $I/$n ] || echo 18000 > $I/$n; done\n"
            "python3 /run/close.py $2 $3 $4\n"
            for case in cases
        ),
        reproducible=True,
    )

    took_ms = dict(zip(cases, (int(us) / 1000 for us in answer.stdout.split()), strict=True))
    print(took_ms)
    # The drive takes 1 ms, the wait 18.
    assert {case: took < 8 for case, took in took_ms.items()} == {
        "bpref-as 1 8192 0": True,
        "bpref-as 1 8200 0": False,
        "bpref-as 1 8200 0.003": True,
        "bpref-as 1 262144 0.003": False,
        "bpref-cfq 12 1024 0": True,
        "bpref-cfq 12 131072 0": False,
    }


@pytest.mark.stretched
@pytest.mark.soak
def test_preference_saves_boundary_crossings_and_time_on_a_block_mapped_drive(guest: Guest) -> None:
    load = (
        "fio --name=w --filename=/dev/ssd0 --direct=1 --rw=randwrite --bs=4k --ioengine=libaio"
        " --iodepth=64 --size=64m --number_ios=4000 --randrepeat=1 --norandommap"
        " --output-format=json > /run/o"
    )
    answer = guest(
        SETUP + BLOCKLOG + "for s in bpref-as bpref-cfq; do for p in 0 1; do\n"
        "echo none > $Q/scheduler; echo $s > $Q/scheduler  # new counters\n"
        "echo 256 > $Q/nr_requests; echo $p > $I/block_preference\n"
        f"{load}\necho $s-crossings-$p $(cat $I/write_crossings)\n"
        "echo $s-ms-$p $(get \"jobs['w']['write']['runtime']\"); done; done",
        reproducible=True,
    )

    found = numbers(answer.stdout)
    print(json.dumps(found))
    for scheduler in BOTH:
        assert found[f"{scheduler}-crossings-1"] < found[f"{scheduler}-crossings-0"]
        assert found[f"{scheduler}-ms-1"] < 1.01 * found[f"{scheduler}-ms-0"]


@pytest.mark.stretched
@pytest.mark.soak
def test_a_request_costs_little_more_than_with_mq_deadline(guest: Guest) -> None:
    """In instructions: reproducible time on a device that needs none of its own."""
    answer = guest(
        SETUP + "modprobe null_blk nr_devices=1 gb=1 irqmode=0 submit_queues=1\n"
        "Q=/sys/block/nullb0/queue; grep -qw mq-deadline $Q/scheduler || modprobe mq-deadline\n"
        "for s in mq-deadline bpref-as bpref-cfq; do echo $s > $Q/scheduler\n"
        'grep -q "\\[$s\\]" $Q/scheduler\n'
        "for d in 1 32; do fio --name=r --filename=/dev/nullb0 --direct=1 --rw=randwrite --bs=4k"
        " --ioengine=libaio --iodepth=$d --iodepth_batch_submit=$d --iodepth_batch_complete_min=$d"
        " --number_ios=20000 --randrepeat=1 --norandommap --size=1g --output-format=json > /run/o\n"
        "echo $s-$d $(get \"jobs['r']['write']['iops']\"); done; done",
        reproducible=True,
    )

    found = numbers(answer.stdout)
    ratios = {
        f"{scheduler} at depth {depth}": round(
            found[f"mq-deadline-{depth}"] / found[f"{scheduler}-{depth}"], 3
        )
        for depth in (1, 32)
        for scheduler in BOTH
    }
    print(ratios)  # of mq-deadline's time per request
    assert all(ratio < 1.1 for ratio in ratios.values()), ratios


# What a search found: a unit of a host page, which no scheduler need know, then one of 16 KiB.
SETTLED = """
from contextlib import ExitStack
from pathlib import Path
from ssdbench.engine.hostsettings import block_preference
from ssdbench.model.inside import BlockSizeFound
from ssdbench.model.profile import Host
from ssdbench.target.inspect import inspect
queue = Path('/sys/block/nvme0n1/queue')
with ExitStack() as held:
    wishes = Host(scheduler='ssdb_bpref', block='detect')
    preference = block_preference(wishes, inspect('/dev/nvme0n1'), 'run', held)
    for size in (4096, 16384):
        found = BlockSizeFound(answer='a unit', write_bytes=size, phase_bytes=0, confidence=0.99)
        told = preference.settle(found)
        print(size, (queue / 'scheduler').read_text().strip(), type(told).__name__)
    print((queue / 'iosched/block_bytes').read_text().strip())
    print([change['value'] for change in told])
print((queue / 'scheduler').read_text().strip())
"""


def test_a_unit_that_was_found_is_set_in_the_scheduler_for_the_run_and_taken_back(
    guest: Guest,
) -> None:
    """Without the search, which takes a quarter of an hour on an emulated CPU."""
    answer = guest(
        f'echo none > /sys/block/nvme0n1/queue/scheduler; {sys.executable} -c "{SETTLED}"'
    )

    page, unit, block, told, after = answer.stdout.splitlines()
    assert page.endswith("BlockNotSet")
    assert "[none]" in page
    assert "[bpref-cfq]" in unit
    assert block == "16384"
    assert {"bpref-cfq", "16384"} <= set(ast.literal_eval(told))
    assert "[none]" in after
