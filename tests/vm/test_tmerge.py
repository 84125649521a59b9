import re

import pytest

from tests.vm.conftest import EVERY_KERNEL, Guest

pytestmark = pytest.mark.vm

SETUP = """
F=/sys/kernel/config/ssdb_flash/ssd0; T=/sys/kernel/config/ssdb_tmerge/tm0
put() { for pair in "${@:2}"; do echo "${pair#*=}" > $1/${pair%%=*}; done; }
drive() { mkdir $F; put $F capacity_bytes=67108864 ftl=direct wbuf_bytes=0 t_read_ns=0 \
  t_prog_ns=0 "$@" power=1; }
merge() { mkdir $T; put $T device=/dev/ssd0 "$@" power=1; }
apart() { echo 0 > $T/power; rmdir $T; }
tear_down() { apart; echo 0 > $F/power; rmdir $F; }
count() { awk -v n=$1 '$1 == n {print $2}' ${2:-$T}/counters; }
"""
MODES = ("spatial-intr", "spatial-poll", "stm", "atm", "hybrid")


def table(text: str) -> dict[str, int]:
    found = re.findall(r"^([a-z_0-9-]+) (-?[0-9]+)$", text, flags=re.MULTILINE)
    return {name: int(value) for name, value in found}


@EVERY_KERNEL
@pytest.mark.parametrize("size", ["512k", pytest.param("2m", marks=pytest.mark.soak)])
def test_data_come_back_in_every_mode(guest: Guest, size: str) -> None:
    verify = (
        "fio --name=v --filename=/dev/tm0 --direct=1 --rw=randwrite --bs=4k --ioengine=$2"
        f" --iodepth=8 --numjobs=$1 --offset_increment=2m --size={size} --verify=crc32c"
        " --do_verify=1"
        " --randrepeat=0 --group_reporting --thread --minimal > /run/v && echo $3 $1 $2 verified"
    )

    answer = guest(
        SETUP + f"verify() {{ {verify}; }}\ndrive mode=mq\n"
        f"for mode in {' '.join(MODES)}; do\n"
        "merge mode=$mode max_merge=64; verify 1 libaio $mode; verify 8 psync $mode\n"
        "[ $(count inside) = 0 ] || echo $mode left some; apart; done\n"
        "merge mode=atm window_ns=2000000; verify 8 psync window; tear_down\n"
        "drive mode=bio depth=1; for mode in stm atm spatial-intr; do\n"
        "merge mode=$mode; verify 8 psync $mode-1; count no_slot; apart; done",
    )

    lines = answer.stdout.splitlines()
    expected = [f"{m} {how} verified" for m in MODES for how in ("1 libaio", "8 psync")]
    assert lines[: len(expected) + 1] == [*expected, "window 8 psync verified"]
    assert [line for line in lines if line.endswith("verified")][-3:] == [
        f"{mode}-1 8 psync verified" for mode in ("stm", "atm", "spatial-intr")
    ]


def test_file_systems_learn_which_writes_need_no_read(guest: Guest) -> None:
    sizes = "logical_block_size physical_block_size minimum_io_size discard_granularity"

    answer = guest(
        SETUP + f"told() {{ cd /sys/block/$1/queue; echo $1 $(cat {sizes}); cd /; }}\n"
        "drive ftl=page map_unit_bytes=16384 read_unit_bytes=16384 program_unit_bytes=16384"
        " op_ppm=200000 channels=2 mode=mq\n"
        "merge; told ssd0; told tm0; tear_down; drive mode=bio lba_bytes=4096; told ssd0"
    )

    assert answer.stdout.splitlines() == [
        "ssd0 512 16384 16384 16384", "tm0 512 16384 16384 16384", "ssd0 4096 4096 4096 4096",
    ]  # fmt: skip


@pytest.mark.soak
def test_a_file_system_survives_unmount_and_check(guest: Guest) -> None:
    answer = guest(
        SETUP + "drive wbuf_bytes=1048576 ftl=page capacity_bytes=67108864 wbuf_volatile=volatile"
        " erase_block_bytes=65536 op_ppm=200000 channels=2 program_unit_bytes=4096"
        " read_unit_bytes=4096\n"
        f"for mode in {' '.join(MODES)}; do merge mode=$mode\n"
        "mkfs.ext4 -q /dev/tm0; mkdir -p /mnt; mount -o discard /dev/tm0 /mnt\n"
        "dd if=/dev/urandom of=/mnt/f bs=64k count=60 conv=fsync status=none\n"
        "md5sum < /mnt/f > /run/a; rm -f /mnt/g; cp /mnt/f /mnt/g; sync; rm /mnt/g; fstrim /mnt\n"
        "umount /mnt; fsck.ext4 -fn /dev/tm0 > /dev/null; mount /dev/tm0 /mnt\n"
        "md5sum < /mnt/f | cmp - /run/a && echo $mode same; umount /mnt\n"
        "fsck.ext4 -fn /dev/tm0 > /dev/null && echo $mode clean\n"
        "[ $(count passed) -gt 3 ] && echo $mode passed; apart; done"
    )

    assert answer.stdout.splitlines() == [
        f"{mode} {what}" for mode in MODES for what in ("same", "clean", "passed")
    ]


FLUSH = """
import os, sys
fd = os.open("/dev/tm0", os.O_RDWR | os.O_DIRECT | getattr(os, "O_DSYNC", 0) * int(sys.argv[1]))
import mmap
page = mmap.mmap(-1, 4096)
for n in range(10):
    os.pwrite(fd, page, n * 4096)
if sys.argv[1] == "0":
    os.fsync(fd)
"""


def test_flushes_and_forced_writes_reach_the_drive(guest: Guest) -> None:
    answer = guest(
        SETUP + f"cat > /run/flush.py <<'EOF'\n{FLUSH}\nEOF\n"
        "drive mode=bio ftl=page wbuf_bytes=1048576 wbuf_volatile=volatile erase_block_bytes=65536"
        " op_ppm=200000 channels=2 program_unit_bytes=4096 read_unit_bytes=4096\n"
        "for mode in stm atm; do merge mode=$mode; for sync in 0 1; do\n"
        "a=$(count passed)\n"
        "python3 /run/flush.py $sync\n"
        "echo $mode $sync passed $(( $(count passed) - a )); done; apart; done"
    )

    # One flush after ten plain writes; ten forced writes, with flushes of their own or without.
    plain, forced = answer.stdout.splitlines()[:4:2], answer.stdout.splitlines()[1:4:2]
    assert plain == ["stm 0 passed 1", "atm 0 passed 1"]
    assert [line.split()[:2] for line in forced] == [["stm", "1"], ["atm", "1"]]
    assert all(int(line.split()[-1]) >= 10 for line in forced), forced


ORDER = """
import mmap, os, threading, time
fd = os.open("/dev/tm0", os.O_RDWR | os.O_DIRECT)
def inside():
    text = open("/sys/kernel/config/ssdb_tmerge/tm0/counters").read()
    return dict(line.split() for line in text.splitlines())["inside"]
bad = 0
for turn in range(10):
    write, read = mmap.mmap(-1, 16384), mmap.mmap(-1, 4096)
    write.write(bytes([turn + 1]) * 16384)
    writer = threading.Thread(target=os.pwrite, args=(fd, write, 65536))
    writer.start()
    while writer.is_alive() and inside() == "0":
        pass
    time.sleep(0.01)  # counted a moment before it has its place in the order
    os.preadv(fd, [read], 65536 + 4096 * (turn % 4))
    bad += read[:] != bytes([turn + 1]) * 4096
    writer.join()
    while inside() != "0":  # counted a moment longer than the caller waits
        pass
print("stale", bad)
"""


@pytest.mark.stretched
def test_a_read_behind_a_held_write_sees_what_that_wrote(guest: Guest) -> None:
    answer = guest(
        SETUP + f"cat > /run/order.py <<'EOF'\n{ORDER}\nEOF\n"
        "drive; for mode in atm hybrid; do merge mode=$mode window_ns=200000000\n"
        "echo $mode $(python3 /run/order.py) held $(count held); apart; done",
        reproducible=True,  # in time that no host's load stretches: the window is 200 ms
    )

    for line, mode in zip(answer.stdout.splitlines(), ("atm", "hybrid"), strict=True):
        words = line.split()
        assert words[:3] == [mode, "stale", "0"]
        assert int(words[4]) >= 8, "the read met the held write"


def test_concurrent_requests_go_together(guest: Guest) -> None:
    load = (
        "fio --name=l --filename=/dev/tm0 --direct=1 --bs=4k --ioengine=psync --numjobs=8 --thread"
        " --number_ios=300 --size=64m --group_reporting --minimal"
    )

    answer = guest(
        SETUP + "drive cmd_overlap=0 link_mbps=20 store=0\n"
        "for pair in stm:randread atm:randwrite hybrid:randread hybrid:randwrite"
        " spatial-intr:randread spatial-poll:randwrite; do\n"
        "merge mode=${pair%:*}; "
        f"{load} --rw=${{pair#*:}} > /dev/null\n"
        "echo $pair $(( $(count read_ios) + $(count write_ios) ))"
        " $(( $(count read_commands) + $(count write_commands) ))"
        " $(awk '{n += $2 * $3} END {print n}' $T/merges)"
        " $(awk '$1 == \"total\" {n += $3} END {print n}' $T/latency)"
        " $(( $(count device_ns) > 0 )); apart; done"
    )

    merged = {}
    for line in answer.stdout.splitlines():
        mode, ios, commands, in_merges, in_latency, device = line.split()
        assert ios == in_merges == in_latency == "2400"
        assert device == "1"
        merged[mode] = int(ios) / int(commands)
    assert all(n > 2 for mode, n in merged.items() if "spatial" not in mode), merged
    assert all(n < 1.5 for mode, n in merged.items() if "spatial" in mode), merged


def test_a_pile_of_as_many_requests_as_there_are_commands_stops_nobody(guest: Guest) -> None:
    answer = guest(
        SETUP + "drive completion=inline store=0; merge mode=spatial-intr\n"
        "fio --name=l --filename=/dev/tm0 --direct=1 --bs=4k --rw=randread --ioengine=libaio"
        " --iodepth=64 --iodepth_batch=64 --iodepth_batch_complete_min=64 --numjobs=4 --thread"
        " --number_ios=5000 --size=64m --group_reporting --minimal > /run/l &\n"
        "for wait in $(seq 600); do kill -0 $! 2> /dev/null || break; sleep 0.1; done\n"
        "if kill -0 $! 2> /dev/null; then echo $(count inside) stuck; exit; fi\n"
        "wait; echo $(( $(count read_ios) >= 20000 )) all read; tear_down"
    )

    assert answer.stdout.split() == ["1", "all", "read"]


def test_who_spins_for_an_inline_drive_waits_for_no_device_time(guest: Guest) -> None:
    answer = guest(
        SETUP + "drive completion=inline t_read_ns=5000000000; for mode in stm spatial-poll; do\n"
        "merge mode=$mode; dd if=/dev/tm0 of=/dev/null bs=4k count=1 iflag=direct status=none\n"
        "echo $mode $(( $(count device_ns) / $(count read_ios) < 2500000000 )); apart; done"
    )

    assert answer.stdout.splitlines() == ["stm 1", "spatial-poll 1"]


@pytest.mark.soak
def test_neighbours_are_one_command_in_every_mode(guest: Guest) -> None:
    answer = guest(
        SETUP + "drive store=0\n"
        "for mode in spatial-intr spatial-poll atm; do merge mode=$mode window_ns=10000000"
        " max_merge=16\n"
        "fio --name=s --filename=/dev/tm0 --direct=1 --bs=4k --rw=write --ioengine=libaio"
        " --iodepth=16 --iodepth_batch=16 --iodepth_batch_complete_min=16 --number_ios=320"
        " --size=64m --minimal > /dev/null\n"
        "echo $mode $(( $(count write_ios) / $(count write_commands) )); apart; done"
    )

    # 16 at a time, but for batches that a busy host lets straddle the window.
    counts = dict(line.split() for line in answer.stdout.splitlines())
    assert set(counts) == {"spatial-intr", "spatial-poll", "atm"}
    assert all(12 <= int(n) <= 16 for n in counts.values()), counts


CHOICE = """
import mmap, os, sys
direct, cached = (os.open(sys.argv[1], os.O_RDWR | flag) for flag in (os.O_DIRECT, 0))
page = mmap.mmap(-1, 4096)
def sync(way, before=0):
    text = open("/sys/kernel/config/ssdb_tmerge/tm0/counters").read()
    return int(dict(line.split() for line in text.splitlines())[way + "_sync"]) - before
def read_directly():
    for n in range(40):
        os.preadv(direct, [page], n * 8192)
def write_directly():
    for n in range(40):
        os.pwrite(direct, page, n * 8192)
def write_back():
    for n in range(64):
        os.pwrite(cached, page, 524288 + n * 8192)
    os.fdatasync(cached)
for work in read_directly, write_back, write_directly, write_back:
    way = "read" if work is read_directly else "write"
    before = sync(way)
    work()
    print(sync(way, before))
"""


def test_hybrid_waits_for_what_its_caller_waits_for_alone(guest: Guest) -> None:
    answer = guest(
        SETUP + f"cat > /run/choice.py <<'EOF'\n{CHOICE}\nEOF\n"
        "drive cmd_overlap=0 link_mbps=20\n"
        "merge mode=hybrid; echo $(python3 /run/choice.py /dev/tm0)\n"
        "mkfs.ext4 -q /dev/tm0; mkdir -p /mnt; mount /dev/tm0 /mnt\n"
        "dd if=/dev/zero of=/mnt/f bs=64k count=32 conv=fsync status=none\n"
        "echo $(python3 /run/choice.py /mnt/f); umount /mnt; apart\n"
        "merge mode=hybrid hybrid_sync=kind; echo $(python3 /run/choice.py /dev/tm0)",
    )

    alone, in_file, kind = (line.split() for line in answer.stdout.splitlines())
    for words in (alone, in_file):
        reads, after_reads, writes, after_writes = (int(word) for word in words)
        assert reads >= 30, "but for the first ones, by which the caller is known"
        assert after_reads <= 4, "many under one plug go together"
        assert writes >= 30
        assert after_writes <= 20, "seen after 16 at most by one whose writes were alone"
    assert kind == ["40", "0", "0", "0"]


@pytest.mark.timed
def test_hybrid_waits_for_no_request_of_a_deep_caller(guest: Guest) -> None:
    deep = (
        "fio --name=d --filename=/dev/tm0 --direct=1 --bs=4k --ioengine=libaio --iodepth=32"
        " --number_ios=1000 --size=32m --minimal"
    )

    answer = guest(
        SETUP + "drive cmd_overlap=0 link_mbps=20\n"
        f"merge mode=hybrid; {deep} --rw=randwrite > /run/out; {deep} --rw=randread > /run/out\n"
        "echo $(count write_sync) $(count read_sync)"
    )

    # None but for a start so slow that each request was done before the next one came.
    counts = [int(count) for count in answer.stdout.split()]
    assert len(counts) == 2
    assert all(count <= 300 for count in counts), counts


IN_DRIVE = """
import mmap, os, threading, time
fd = os.open("/dev/tm0", os.O_RDWR | os.O_DIRECT)
done, over = [0] * 8, False
def work(thread):
    page = mmap.mmap(-1, 4096)
    while not over:
        place = (thread * 512 + done[thread] % 512) * 4096
        os.pwrite(fd, page, place) if thread % 4 == 0 else os.preadv(fd, [page], place)
        done[thread] += 1
def in_drive():
    text = open("/sys/kernel/config/ssdb_flash/ssd0/counters").read()
    return int(dict(line.split() for line in text.splitlines() if " " in line)["in_flight"])
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
time.sleep(1)
seen = []
while len(seen) < 200:
    seen.append(in_drive())
    time.sleep(0.01)
over = True
for thread in threads: thread.join()
print(max(seen), sum(n == 2 for n in seen), *done, flush=True)
"""


def test_hybrid_keeps_a_second_command_in_the_drive_and_forgets_no_thread(guest: Guest) -> None:
    answer = guest(
        SETUP + f"cat > /run/in_drive.py <<'EOF'\n{IN_DRIVE}\nEOF\n"
        "drive cmd_overlap=0 cmd_serial_ns=2000000 link_mbps=2\n"
        "for mode in stm hybrid; do merge mode=$mode; python3 /run/in_drive.py; apart; done"
    )

    alone, two = ([int(word) for word in line.split()] for line in answer.stdout.splitlines())
    assert alone[1] < 10, "a command that ends is counted twice for a moment"
    assert two[1] > 20, "of 200 looks at a drive whose commands take longer than threads to return"
    # Two directions, six threads against two, and a pile that may always win anew.
    assert all(min(done) * 4 > max(done) for done in (alone[2:], two[2:])), (alone, two)


# In memory whole: a guest that waits for a page of this program from the host is idle, and its
# clock leaps to the end of what the drive or a window is at.
IN_MEMORY = """
import ctypes, mmap, os, sys, threading, time
assert ctypes.CDLL(None).mlockall(3) == 0
threading.stack_size(1 << 18)
"""
WINDOW = (
    IN_MEMORY
    + """
fd = os.open("/dev/tm0", os.O_RDWR | os.O_DIRECT)
def write(blocks):
    threads = [threading.Thread(target=os.pwrite, args=(fd, page, n * 16384)) for n in blocks]
    for thread in threads: thread.start()
    return threads
page = mmap.mmap(-1, 4096)
begin = time.monotonic()
for thread in write(range(4)): thread.join()
full = time.monotonic() - begin
time.sleep(0.5)
first = write([10])
time.sleep(0.7)
for thread in first + write([11]): thread.join()
print("full", int(full < 0.8), "then", int(time.monotonic() - begin < 2.4))
"""
)


@pytest.mark.stretched
@pytest.mark.soak
def test_a_pile_that_went_full_leaves_its_window_to_no_other(guest: Guest) -> None:
    answer = guest(
        SETUP + f"cat > /run/window.py <<'EOF'\n{WINDOW}\nEOF\n"
        "drive; merge mode=atm window_ns=1000000000 max_merge=4\n"
        "python3 /run/window.py; grep -a '^write' $T/merges",
        reproducible=True,
    )

    assert answer.stdout.splitlines() == ["full 1 then 1", "write 2 1", "write 4 1"]


CUT = (
    IN_MEMORY
    + """
BLOCKS, COMMAND_S, CUTS = 32, 0.64, 8
flash = "/sys/kernel/config/ssdb_flash/ssd0/"
fd = os.open("/dev/tm0", os.O_RDWR | os.O_DIRECT)
drive = os.open("/dev/ssd0", os.O_RDONLY | os.O_DIRECT)
def write(block, value, failed):
    page = mmap.mmap(-1, 4096)
    page.write(bytes([value]) * 4096)
    try:
        os.pwrite(fd, page, block * 16384)
    except OSError:
        failed.append(block)
def write_all(value):
    failed = []
    threads = [threading.Thread(target=write, args=(n, value, failed)) for n in range(BLOCKS)]
    for thread in threads: thread.start()
    return threads, failed
def values():
    page = mmap.mmap(-1, 4096)
    for n in range(BLOCKS):
        os.preadv(drive, [page], n * 16384)
        yield page[0]
def cut(on):
    open(flash + "cut", "w").write(str(int(on)))
def vectors():
    text = open(flash + "counters").read()
    return int(dict(line.split() for line in text.splitlines())["vectors"])
generation = 0
for turn in range(CUTS):
    for _ in range(9):  # again, where the command was done before or sent as two, or the cut late
        old, new = generation + 1, generation + 2
        generation = (generation + 2) % 200
        threads, failed = write_all(old)
        for thread in threads: thread.join()
        assert not failed
        sent = vectors()
        threads, failed = write_all(new)
        while vectors() == sent: time.sleep(0.001)
        wanted = time.monotonic() + COMMAND_S * (turn + 0.5) / CUTS
        time.sleep(wanted - time.monotonic())
        cut(True)
        late = time.monotonic() - wanted
        for thread in threads: thread.join()
        cut(False)
        found = list(values())
        assert failed or found.count(new) == BLOCKS
        if len(failed) == BLOCKS and late < COMMAND_S / CUTS / 4: break
    print(len(failed), found.count(old), found.count(new))
"""
)


@pytest.mark.stretched
@pytest.mark.soak
def test_a_cut_of_power_leaves_atomic_writes_whole_or_not_at_all(guest: Guest) -> None:
    """Eight cuts, spread over a command of 32 writes, in time that no host's load disturbs."""
    # One die: the blocks of a command land one after the other, 20 ms each.
    answer = guest(
        SETUP + f"cat > /run/cut.py <<'EOF'\n{CUT}\nEOF\n"
        "drive cmd_overlap=0 link_mbps=1000 t_prog_ns=20000000 channels=1 dies_per_channel=1"
        " cuttable=1\n"
        "for atomic in 0 1; do merge mode=atm window_ns=900000000 max_merge=32"
        " atomic_writes=$atomic\n"
        "python3 /run/cut.py; grep '^write 32 ' $T/merges; apart; done\n"
        "awk '/torn|undone/ {print $1, $2}' $F/counters",
        reproducible=True,
    )
    lines = answer.stdout.splitlines()
    torn, merged, whole, merged_atomic, counts = (
        lines[:8], lines[8], lines[9:17], lines[17], lines[18:],
    )  # fmt: skip

    left = [tuple(int(n) for n in line.split()) for line in torn]
    assert all(failed == old + new == 32 for failed, old, new in left)
    assert [new for _, _, new in left] == sorted(new for _, _, new in left)
    assert len({new for _, _, new in left}) == 8, "without atomic_writes each cut leaves a part"
    assert whole == ["32 32 0"] * 8
    assert all(int(said.split()[2]) >= 16 for said in (merged, merged_atomic))
    assert [line.split()[0] for line in counts] == ["torn_vectors", "undone_vectors"]
    assert all(int(line.split()[1]) >= 8 for line in counts)


SECOND_CUT = """
cut() { echo 1 > $F/cut; echo 0 > $F/cut; }
fill() { tr '\\0' $1 < /dev/zero | dd of=/dev/$2 bs=4k count=1 iflag=fullblock oflag=direct \
  status=none 2> /run/why; }
sent() { before=$(count $1 $F); "${@:2}" & until [ $(count $1 $F) -gt $before ]; do :; done; }
drive cuttable=1 t_prog_ns=8000000000; merge mode=atm
sent vectors fill a tm0; merged=$!; cut
sent commands fill b ssd0; alone=$!; cut
wait $merged || echo the merged one failed; wait $alone && echo the other is written
dd if=/dev/ssd0 bs=4k count=1 iflag=direct status=none | tr -d '\\0' | head -c 1; echo
grep -E 'torn|undone' $F/counters
"""


def test_a_second_cut_takes_back_nothing_that_was_written_since_the_first(guest: Guest) -> None:
    answer = guest(SETUP + SECOND_CUT)

    assert answer.stdout.splitlines() == [
        "the merged one failed", "the other is written", "b", "torn_vectors 0", "undone_vectors 1",
    ]  # fmt: skip


def test_nothing_changes_while_it_is_on_and_nothing_leaves_while_it_is_used(guest: Guest) -> None:
    answer = guest(
        SETUP + "drive; merge mode=stm\n"
        "for a in mode=atm hybrid_sync=kind window_ns=5 device=/dev/x max_merge=5"
        " atomic_writes=1; do\n"
        "put $T $a 2>/dev/null || echo ${a%=*} fixed; done\n"
        "python3 -c 'import os; os.open(\"/dev/ssd0\", os.O_RDWR | os.O_EXCL)' 2>/dev/null"
        " || echo drive held\n"
        "sleep 60 < /dev/tm0 & sleep 0.2\n"
        "rmmod ssdb_tmerge 2>/dev/null || echo module busy\n"
        "rmmod ssdb_flash 2>/dev/null || echo flash busy\n"
        "echo 0 > $T/power 2>/dev/null || echo open\n"
        "kill %1; wait\n"
        "echo 0 > $F/power; dd if=/dev/tm0 of=/dev/null bs=4k count=1 status=none iflag=direct"
        " 2>/dev/null || echo drive gone\n"
        "rmdir $F; dd if=/dev/tm0 of=/dev/null bs=4k count=1 status=none iflag=direct"
        " 2>/dev/null || echo still gone\n"
        "apart; rmmod ssdb_tmerge && rmmod ssdb_flash && echo removed"
    )

    assert answer.stdout.splitlines() == [
        "mode fixed", "hybrid_sync fixed", "window_ns fixed", "device fixed", "max_merge fixed",
        "atomic_writes fixed", "drive held", "module busy", "flash busy", "open",
        "drive gone", "still gone", "removed",
    ]  # fmt: skip


WRONG = (
    "mode magic", "hybrid_sync magic", "max_merge 0", "max_merge 1025", "window_ns -1",
    "window_ns 9999999999", "atomic_writes 2", "device /dev/nvme0n1", "device /dev/none",
    "device /etc/passwd", "device", "power 2x",
)  # fmt: skip


@pytest.mark.soak
def test_wrong_values_are_error_numbers_and_never_an_oops(guest: Guest) -> None:
    tries = "\n".join(
        f"mkdir $T; echo /dev/ssd0 > $T/device; set -- {wrong}\n"
        '(echo "$2" > $T/$1 && echo 1 > $T/power) 2>/dev/null && echo "$1 accepted"'
        ' || echo "$1 refused"; rmdir $T'
        for wrong in WRONG
    )

    answer = guest(
        SETUP + "drive\n" + tries + "\nmkdir $T; echo /dev/ssd0 > $T/device; exec 9<>/dev/ssd0\n"
        'python3 -c \'import os, time; os.open("/dev/ssd0", os.O_RDWR | os.O_EXCL);'
        'print("claimed", flush=True); time.sleep(60)\' > /run/claimed & pid=$!\n'
        "until grep -q claimed /run/claimed; do sleep 0.1; done\n"
        "echo 1 > $T/power 2>/dev/null || echo in use; kill $pid; wait\n"
        "exec 9>&-; echo 1 > $T/power && echo free; apart; mkdir $T\n"
        "echo 1 > $T/power 2>/dev/null || dmesg | grep -o 'tm0: .*' | tail -1"
    )

    assert answer.stdout.splitlines() == [
        *(f"{wrong.split()[0]} refused" for wrong in WRONG), "in use", "free",
        "tm0: device is not set",
    ]  # fmt: skip
