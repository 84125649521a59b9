"""What went wrong once in the modules, each on the kernel where it did."""

import shutil
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.lab.session import Lab
from tests.vm.conftest import KERNEL_DIR, Guest
from tests.vm.test_flash import SETUP

pytestmark = pytest.mark.vm

TMERGE = """
T=/sys/kernel/config/ssdb_tmerge/tm0
merge() { mkdir $T; echo /dev/ssd0 > $T/device; echo $1 > $T/mode; echo 20000 > $T/window_ns
  echo 1 > $T/power; }
part() { echo 0 > $T/power; rmdir $T; }
on_merged() { sed 's/ssd0/tm0/' <<< "$(declare -f verify)" > /run/f; (. /run/f; verify "$1"); }
"""
SMALL = 'eval "$(declare -f verify | sed s/8m/1m/)"\n'  # the first second shows it
REALTIME = """
uname -v | grep -o PREEMPT_RT
for options in completion=timer "completion=coalesced mode=bio" "irq_cpu=1 return_to_origin=1"; do
  set_up $options; verify "$options"; tear_down; done
set_up lines=percpu queues=2
for mode in hybrid stm atm; do merge $mode; on_merged $mode; part; done
for scheduler in bpref-as bpref-cfq; do
  echo $scheduler > /sys/block/ssd0/queue/scheduler; verify $scheduler; done
echo none > /sys/block/ssd0/queue/scheduler
S=/sys/kernel/config/ssdb_slam/a; mkdir $S; echo /dev/ssd0 > $S/device; echo 300 > $S/runtime_ms
echo 1 > $S/running; while [ $(< $S/running) = 1 ]; do sleep 0.1; done
echo slam $(< $S/errors); rmdir $S; tear_down
"""


@pytest.mark.parametrize("lab", ["6.12-rt"], indirect=True)
def test_nothing_sleeps_in_an_interrupt_of_a_realtime_kernel(guest: Guest) -> None:
    """There a lock may sleep: "scheduling while atomic" within two seconds, before."""
    answer = guest(SETUP + TMERGE + SMALL + REALTIME, disks=())

    assert answer.stdout.splitlines() == [
        "PREEMPT_RT", "completion=timer verified", "completion=coalesced mode=bio verified",
        "irq_cpu=1 return_to_origin=1 verified", "hybrid verified", "stm verified",
        "atm verified", "bpref-as verified", "bpref-cfq verified", "slam 0",
    ]  # fmt: skip


NOWAIT = """
import errno, mmap, os
buffer = mmap.mmap(-1, 4096)
for disk in "/dev/ssd0", "/dev/ssd1":
    fd = os.open(disk, os.O_RDWR | os.O_DIRECT)
    print(disk, os.preadv(fd, [buffer], 0, os.RWF_NOWAIT), os.pwritev(fd, [buffer], 0))
"""


def test_a_drive_of_bios_is_as_good_a_disk_as_one_of_requests(guest: Guest) -> None:
    answer = guest(
        SETUP + TMERGE + "set_up mode=bio; F=${F%0}1; set_up mode=mq; F=${F%1}0\n"
        f"python3 -c '{NOWAIT}'\n"
        "for disk in ssd0 ssd1; do before=($(< /sys/block/$disk/stat))\n"
        "dd if=/dev/$disk of=/dev/null bs=4k count=50 iflag=direct status=none\n"
        "after=($(< /sys/block/$disk/stat))\n"
        "echo $disk $(< /sys/block/$disk/queue/iostats) $((after[0] - before[0])) \\\n"
        "  $((after[2] - before[2])); done\n"
        "merge hybrid; dd if=/dev/tm0 of=/dev/null bs=4k count=9 iflag=direct status=none\n"
        "stat=($(< /sys/block/tm0/stat)); echo tm0 $(< /sys/block/tm0/queue/iostats) ${stat[2]}\n"
        "echo $(ls /sys/block/tm0/slaves) $(ls /sys/block/ssd0/holders); part\n"
        "echo $(ls /sys/block/ssd0/holders) none\n"
        # A CPU that spins for the drive would be locked up: 3 s stand for the 45 of a watchdog.
        "tear_down; set_up mode=bio completion=spin ftl=direct t_read_ns=3000000000 store=0\n"
        "TIMEFORMAT=%S; time dd if=/dev/ssd0 of=/dev/null bs=4k count=1 iflag=direct status=none\n"
        "exec 2>&1; tear_down; F=${F%0}1; tear_down"
    )

    lines, told = answer.stdout.splitlines(), answer.stderr
    assert lines[:2] == ["/dev/ssd0 4096 4096", "/dev/ssd1 4096 4096"]
    assert lines[2:4] == ["ssd0 1 50 400", "ssd1 1 50 400"]
    assert lines[4].split()[:2] == ["tm0", "1"]
    assert int(lines[4].split()[2]) >= 9 * 8
    assert lines[5:] == ["ssd0 tm0", "none"]
    # s of a CPU; one that spun would have taken all 3
    assert float(told) < (1.5 if KERNEL_DIR else 0.5)


@pytest.mark.soak
def test_a_read_of_45_s_locks_no_cpu_up(guest: Guest) -> None:
    """The kernel complains of a CPU that is not given up for 20 s; both kinds of drive wait."""
    answer = guest(
        SETUP + "long() { set_up completion=spin ftl=direct t_read_ns=45000000000 store=0 $1; }\n"
        "long mode=bio; F=${F%0}1; long mode=mq; TIMEFORMAT='%0R %S'\n"
        "read_one() { time dd if=/dev/$1 of=/dev/null bs=4k count=1 iflag=direct status=none; }\n"
        "read_one ssd0 & read_one ssd1; wait; tear_down; F=${F%1}0; tear_down\n"
        "echo $(< /proc/sys/kernel/watchdog) $(< /proc/sys/kernel/watchdog_thresh)"
    )

    took = [tuple(map(float, line.split())) for line in answer.stderr.splitlines()]
    assert answer.stdout.split() == ["1", "10"]
    assert len(took) == 2
    # One that spun would have had its CPU all the while, however slow the host is.
    assert all(real_s >= 45 and system_s < 0.2 * real_s for real_s, system_s in took)


@pytest.fixture
def probe(lab: Lab, tmp_path: Path) -> Path:
    """The module that makes faults, for the kernel of the lab."""
    shutil.copytree(Path(__file__).parent / "probe", tmp_path / "probe")
    run(
        ["make", "-s", "-C", str(lab.kernel.headers), f"M={tmp_path}/probe", "modules"],
        timeout_s=300,
    )
    return tmp_path / "probe" / "ssdb_probe.ko"


def test_a_drive_without_memory_waits_and_a_slammer_ends_after_its_last_completion(
    guest: Guest, probe: Path
) -> None:
    answer = guest(
        SETUP + TMERGE + SMALL + f"insmod {probe}; P=/sys/module/ssdb_probe/parameters\n"
        "for mode in mq bio; do set_up mode=$mode; echo 40 > $P/fail; verify $mode\n"
        "echo $(< $P/fail) left; tear_down; done\n"
        "for cuttable in 0 1; do set_up cuttable=$cuttable; merge atm; echo 40 > $P/fail\n"
        "on_merged vectors; echo $(< $P/fail) left; part; tear_down; done\n"
        # One read, whose end is late in waking the worker; the worker is stopped meanwhile.
        "set_up ftl=direct t_read_ns=200000000 irq_cpu=0 store=0\n"
        "S=/sys/kernel/config/ssdb_slam/a; mkdir $S; echo /dev/ssd0 > $S/device\n"
        "echo 1 > $S/depth; echo 1 > $S/ios_limit; echo 1 > $S/cpu; echo 900 > $P/delay_ms\n"
        "dmesg -c > /run/o; echo 1 > $S/running\n"
        "until dmesg | grep -q 'about to wake'; do taskset -c 1 sleep 0.05; done\n"
        "taskset -c 1 rmdir $S; echo '<6>ssdb_probe: gone' > /dev/kmsg\n"
        "dmesg | grep -o 'ssdb_probe: .*'; echo 0 > $P/delay_ms; tear_down; rmmod ssdb_probe"
    )

    assert answer.stdout.splitlines() == [
        "mq verified", "0 left", "bio verified", "0 left",
        "vectors verified", "0 left", "vectors verified", "0 left",
        "ssdb_probe: about to wake", "ssdb_probe: wakes", "ssdb_probe: gone",
    ]  # fmt: skip


def test_a_slammer_stops_though_the_drive_stays_busy(guest: Guest, probe: Path) -> None:
    answer = guest(
        SETUP + SMALL + f"insmod {probe}; P=/sys/module/ssdb_probe/parameters\n"
        "set_up; S=/sys/kernel/config/ssdb_slam/a; mkdir $S; echo /dev/ssd0 > $S/device\n"
        "echo request > $S/level; echo 0 > $S/read_percent; echo 60000 > $S/runtime_ms\n"
        'echo "$(< /sys/block/ssd0/dev) $(blockdev --getsize64 /dev/ssd0)" > $S/armed\n'
        "echo 1000000000 > $P/fail; echo 1 > $S/running; sleep 1\n"
        "(echo 0 > $S/running; echo stopped) &\n"
        "for wait in $(seq 100); do kill -0 $! 2> /dev/null || break; sleep 0.1; done\n"
        "echo $(( $(< $P/fail) > 0 )) busy, $(< $S/errors) errors; echo 0 > $P/fail; wait\n"
        "rmdir $S; tear_down; rmmod ssdb_probe"
    )

    assert answer.stdout.splitlines() == ["stopped", "1 busy, 0 errors"]


def test_a_drive_that_holds_more_than_memory_is_full_before_its_host_is(guest: Guest) -> None:
    answer = guest(
        SETUP + "dmesg -c > /run/said; for mode in mq bio; do\n"
        "set_up mode=$mode ftl=direct wbuf_bytes=0 t_prog_ns=0 capacity_bytes=4294967296\n"
        "dd if=/dev/zero of=/dev/ssd0 bs=1M count=4000 oflag=direct status=none 2> /run/why"
        " || grep -o 'No space left on device' /run/why; tear_down; done\n"
        "dmesg | grep -ciE 'out of memory|invoked oom' || true",
        memory_mib=1024,
        fresh=True,
    )

    assert answer.stdout.splitlines() == [*2 * ["No space left on device"], "0"]


def test_what_is_discarded_is_memory_again_and_nothing_beside_it(guest: Guest) -> None:
    answer = guest(
        SETUP + "set_up ftl=direct wbuf_bytes=0 t_prog_ns=0 capacity_bytes=4294967296\n"
        "put() { dd of=/dev/ssd0 iflag=fullblock oflag=direct status=none $*; }\n"
        "held() { dd if=/dev/ssd0 iflag=direct status=none $* | tr -d '\\0' | wc -c; }\n"
        # The guest has 1 GiB: one of these fits, two do not.
        "for at in 0 600; do put if=/dev/zero bs=1M count=600 seek=$at && echo filled\n"
        "blkdiscard /dev/ssd0; done; tr '\\0' x < /dev/zero | put bs=4k count=3\n"
        "blkdiscard -o 512 -l 8192 /dev/ssd0; held count=24; held count=16 skip=1; tear_down",
        memory_mib=1024,
        fresh=True,
    )

    assert answer.stdout.splitlines() == ["filled", "filled", "4096", "0"]


CONFIG = (KERNEL_DIR / ".config").read_text() if KERNEL_DIR else ""
# Every fourth bio ends with an error where it is handed in. Writes go on in vectors, which are no
# bios; discards are handed on by a bio each, so the fourth is one of those (a third would not be).
REFUSED = """
import errno, fcntl, mmap, os, struct, threading
fd = os.open("/dev/tm0", os.O_RDWR | os.O_DIRECT)
blocks, good, gone, kept, failed, other = 256, *(set() for _ in range(5))
def write(first):
    page = mmap.mmap(-1, 4096)
    for block in range(first, blocks, 4):
        page[:] = block.to_bytes(4, "little") * 1024
        try:
            os.pwritev(fd, [page], block * 4096)
            good.add(block)
        except OSError as error:
            (failed if error.errno == errno.EIO else other).add(block)
def discard(block):
    try:
        fcntl.ioctl(fd, 0x1277, struct.pack("QQ", block * 4096, 4096))
        gone.add(block)
    except OSError as error:
        (kept if error.errno == errno.EIO else other).add(block)
threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
[discard(block) for block in range(0, blocks, 2)]
open("/sys/kernel/debug/fail_make_request/probability", "w").write("0")
page, wrong = mmap.mmap(-1, 4096), []
for block in range(blocks):
    os.preadv(fd, [page], block * 4096)
    there, none = page[:] == block.to_bytes(4, "little") * 1024, page[:] == bytes(4096)
    if not (none if block in gone else there if block in good else there or none):
        wrong.append(block)
print(*(len(some) > 9 for some in (good, failed, gone, kept)), other or "no other errors",
      wrong or "nothing wrong")
"""


@pytest.mark.soak
@pytest.mark.skipif(
    "CONFIG_FAIL_MAKE_REQUEST=y\n" not in CONFIG, reason="only kernels of vm-debug refuse a bio"
)
def test_a_bio_that_is_refused_fails_its_request_and_nothing_else(guest: Guest) -> None:
    answer = guest(
        SETUP + TMERGE + "A=/sys/kernel/debug/fail_make_request\n"
        "for pair in interval=4 times=-1 verbose=0; do echo ${pair#*=} > $A/${pair%%=*}; done\n"
        "refuse() { local disk; for disk; do echo 1 > /sys/block/$disk/make-it-fail; done\n"
        "echo 100 > $A/probability; }\n"
        "for kind in mq bio; do for mode in spatial-intr spatial-poll stm atm hybrid; do\n"
        "set_up mode=$kind; merge $mode; refuse ssd0 tm0\n"
        f"echo $kind $mode $(python3 -c '{REFUSED}'); part; tear_down; done; done\n"
        "set_up; S=/sys/kernel/config/ssdb_slam/a; mkdir $S; echo /dev/ssd0 > $S/device\n"
        "echo 500 > $S/runtime_ms; refuse ssd0; echo 1 > $S/running\n"
        "while [ $(< $S/running) = 1 ]; do sleep 0.1; done; echo 0 > $A/probability\n"
        "echo slam $(( $(< $S/ios) > 9 )) $(( $(< $S/errors) > 9 )); rmdir $S; tear_down"
    )

    told = "True True True True no other errors nothing wrong"
    modes = ("spatial-intr", "spatial-poll", "stm", "atm", "hybrid")
    assert answer.stdout.splitlines() == [
        *(f"{kind} {mode} {told}" for kind in ("mq", "bio") for mode in modes),
        "slam 1 1",
    ], answer.stderr
