import re
from pathlib import Path

import pytest

from ssdbench.sim.core import Drive, Job
from ssdbench.sim.library import Params
from tests.vm.conftest import EVERY_KERNEL, Guest

pytestmark = pytest.mark.vm

README = Path(__file__).parents[2] / "kmod" / "README.md"

SETUP = """
F=/sys/kernel/config/ssdb_flash/ssd0
set_up() { mkdir $F; echo 67108864 > $F/capacity_bytes; echo 65536 > $F/erase_block_bytes
  echo 200000 > $F/op_ppm; echo 2 > $F/channels; echo 4096 > $F/program_unit_bytes
  echo 4096 > $F/read_unit_bytes
  for pair in "$@"; do echo "${pair#*=}" > $F/${pair%%=*}; done; echo 1 > $F/power; }
tear_down() { echo 0 > $F/power; rmdir $F; }
verify() { fio --name=v --filename=/dev/ssd0 --direct=1 --rw=randwrite --bs=4k --ioengine=libaio \
  --iodepth=16 --verify=crc32c --do_verify=1 --size=8m --randrepeat=0 --minimal > /run/v \
  && echo "$1 verified"; }
"""
ATTACHMENTS = (
    "completion=inline", "completion=softirq", "completion=spin", "completion=timer",
    "completion=coalesced", "completion=deferred", "completion=adaptive",
    "mode=bio completion=timer", "mode=bio completion=spin", "lines=two irq_cpu2=1",
    "lines=percpu queues=2", "mode=bio slot_lists=percpu depth=3",
    "irq_cpu=1 return_to_origin=1", "doubling=2", "queues=2 depth=1024",
)  # fmt: skip


# What SETUP and the comparison below set, for the same core in user space.
OUTSIDE = Params(
    {
        "capacity_bytes": 64 << 20, "erase_block_bytes": 65536, "op_ppm": 280_000, "channels": 2,
        "program_unit_bytes": 4096, "read_unit_bytes": 4096, "dies_per_channel": 1,
        "wbuf_bytes": 0,
    }
)  # fmt: skip


def counters(text: str) -> dict[str, int]:
    found = re.findall(r"^([a-z_0-9]+) (-?[0-9]+)$", text, flags=re.MULTILINE)
    return {name: int(value) for name, value in found}


@EVERY_KERNEL
@pytest.mark.parametrize("size", ["2m", pytest.param("8m", marks=pytest.mark.soak)])
def test_data_come_back_through_every_attachment(guest: Guest, size: str) -> None:
    sized = f'eval "$(declare -f verify | sed s/8m/{size}/)"\n'
    steps = "\n".join(f"set_up {options}; verify '{options}'; tear_down" for options in ATTACHMENTS)

    answer = guest(SETUP + sized + steps)

    assert answer.stdout.splitlines() == [f"{options} verified" for options in ATTACHMENTS]


def test_a_file_system_survives_unmount_and_check(guest: Guest) -> None:
    answer = guest(
        SETUP + "for mode in mq bio; do set_up mode=$mode wbuf_volatile=volatile\n"
        "mkfs.ext4 -q /dev/ssd0; mkdir -p /mnt; mount -o discard /dev/ssd0 /mnt\n"
        "dd if=/dev/urandom of=/mnt/f bs=64k count=100 status=none; sync\n"
        "md5sum < /mnt/f > /run/a\n"
        "umount /mnt; fsck.ext4 -fn /dev/ssd0 > /dev/null; mount /dev/ssd0 /mnt\n"
        "md5sum < /mnt/f | cmp - /run/a && echo $mode same; rm /mnt/f; fstrim /mnt; umount /mnt\n"
        "fsck.ext4 -fn /dev/ssd0 > /dev/null && echo $mode clean; tear_down; done"
    )

    assert answer.stdout.split("\n")[:4] == ["mq same", "mq clean", "bio same", "bio clean"]


def test_nothing_changes_while_it_is_on_and_nothing_leaves_while_it_is_used(guest: Guest) -> None:
    answer = guest(
        SETUP + "set_up\n"
        "for a in channels completion depth; do echo 4 > $F/$a 2>/dev/null || echo $a fixed; done\n"
        "sleep 60 < /dev/ssd0 &\n"
        "rmmod ssdb_flash 2>/dev/null || echo module busy\n"
        "kill %1; wait || true; tear_down; rmmod ssdb_tmerge; rmmod ssdb_flash && echo removed"
    )

    assert answer.stdout.splitlines() == [
        "channels fixed", "completion fixed", "depth fixed", "module busy", "removed",
    ]  # fmt: skip


WRONG = (
    "channels 0", "channels x", "capacity_bytes 1", "completion never", "depth 0", "depth 4096",
    "queues 1000", "irq_cpu 4711", "ftl magic", "mode tape", "op_ppm 99999999999", "power 2x",
    "defer_ns -1", "doubling 9", "lba_bytes 513",
)  # fmt: skip


def test_wrong_values_are_error_numbers_and_never_an_oops(guest: Guest) -> None:
    tries = "\n".join(
        f"mkdir $F; set -- {wrong}\n"
        '(echo "$2" > $F/$1 && echo 1 > $F/power) 2>/dev/null && echo "$1 accepted"'
        ' || echo "$1 refused"; rmdir $F'
        for wrong in WRONG
    )

    answer = guest(
        SETUP + tries + "\nC=/sys/kernel/config; mkdir $C/ssdb_flash/nvme0n1 $C/ssdb_flash/big\n"
        "(echo 1 > $C/ssdb_flash/nvme0n1/power) 2> /dev/null || echo name refused\n"
        "for pair in capacity_bytes=1099511627776 ftl=direct wbuf_bytes=0 map_unit_bytes=65536"
        " erase_block_bytes=16777216; do echo ${pair#*=} > $C/ssdb_flash/big/${pair%=*}; done\n"
        "(echo 1 > $C/ssdb_flash/big/power) 2> /dev/null || echo size refused\n"
        "rmdir $C/ssdb_flash/*; set_up; mkdir $C/ssdb_tmerge/ssd0\n"
        "echo /dev/ssd0 > $C/ssdb_tmerge/ssd0/device\n"
        "(echo 1 > $C/ssdb_tmerge/ssd0/power) 2> /dev/null || echo name refused\n"
        "rmdir $C/ssdb_tmerge/ssd0; tear_down; dmesg | grep -c 'is called so already'\n"
        "dmesg | grep -o 'big: no memory for a table'"
    )

    assert answer.stdout.splitlines() == [
        *[f"{wrong.split()[0]} refused" for wrong in WRONG],
        "name refused", "size refused", "name refused", "2", "big: no memory for a table",
    ]  # fmt: skip


def test_the_model_inside_the_kernel_is_the_model_outside(guest: Guest) -> None:
    writes = (
        "fio --name=w --filename=/dev/ssd0 --direct=1 --bs=4k --ioengine=libaio --iodepth=32"
        " --norandommap --randrepeat=1 --rw=randwrite --io_size=512m --size=64m --minimal >/run/w"
    )

    answer = guest(
        SETUP + "set_up op_ppm=280000 dies_per_channel=1 completion=inline store=0"
        f" wbuf_bytes=0\n{writes}\ncat $F/counters; tear_down"
    )

    found = counters(answer.stdout)
    outside = Drive.in_memory(OUTSIDE)
    outside.run(Job(stop_ios=512 * 256, iodepth=32))
    expected = outside.counters()
    amplification = expected["nand_write_units"] / expected["host_write_units"]
    assert found["nand_write_units"] / found["host_write_units"] == pytest.approx(
        amplification, rel=0.01
    )
    assert found["host_write_commands"] == 512 * 256
    assert found["in_flight"] == 0


@pytest.mark.stretched
def test_latency_is_the_drives_own_in_reproducible_time(guest: Guest) -> None:
    script = (
        SETUP + "set_up ftl=direct t_read_ns=50000 cmd_serial_ns=0 fw_read_ns=0 link_mbps=1000000"
        " channel_mbps=1000000 completion=timer store=0\n"
        "fio --name=r --filename=/dev/ssd0 --direct=1 --rw=randread --bs=4k --ioengine=psync"
        " --number_ios=2000 --randrepeat=1 --output-format=json > /run/r\n"
        "python3 -c \"import json; t = open('/run/r').read();"
        "print(json.loads(t[t.index('{'):])['jobs'][0]['read']['clat_ns']['mean'])\""
    )

    first = guest(script, reproducible=True)
    mean_ns = float(first.stdout)

    # KERNEL timers and the completion path add what the guest's CPU needs for them: 10 to 20 us
    # at 500 million instructions per second.
    assert 50_000 < mean_ns < 90_000


# A directory for each kind of fault; `queues`, while the drive is on.
AT_FAULT = r"""
eval "$(declare -f verify | sed s/8m/2m/)"
mq() { ls /sys/block/ssd0/mq | wc -l; }
read_one() { dd if=/dev/ssd0 of=/dev/null bs=4k count=1 iflag=direct status=none 2>&1; }
(set_up init_hctx_fault_inject/probability=100) 2> /dev/null || echo no queue, no drive
echo 1 > $F/power; tear_down; set_up queues=2
echo 200 > /sys/block/ssd0/queue/io_timeout
for pair in interval=2 times=1 probability=100; do echo ${pair#*=} > $F/timeout_inject/${pair%=*}
done; read_one && read_one | grep -o 'timed out'; read_one
echo $(< $F/timeout_inject/times) left, $(grep in_flight $F/counters)
echo -1 > $F/requeue_inject/times; echo 10 > $F/requeue_inject/probability
for name in none bpref-as bpref-cfq; do echo $name > /sys/block/ssd0/queue/scheduler; verify $name
done; echo 0 > $F/requeue_inject/probability
for wrong in "probability 101" "interval -1" "times x"; do set -- $wrong
  (echo $2 > $F/timeout_inject/$1) 2> /dev/null || echo $1 refused; done
verify 'other queues' & while kill -0 $! 2> /dev/null; do
  for n in 1 2; do echo $n > $F/queues; [ $(mq) = $n ] || echo $(mq) queues; done; done
wait; echo 16 > /sys/block/ssd0/queue/nr_requests; verify 'fewer requests'; tear_down
set_up poll_queues=1 completion=polled; echo 2 > $F/poll_queues; echo $(mq) with 2 polled
(echo 0 > $F/poll_queues) 2> /dev/null || echo polled or not; tear_down
set_up mode=bio; (echo 2 > $F/queues) 2> /dev/null || echo bios have none; tear_down
"""


def test_the_way_to_a_drive_may_be_at_fault_and_its_queues_may_change(guest: Guest) -> None:
    answer = guest(SETUP + AT_FAULT)

    assert answer.stdout.splitlines() == [
        "no queue, no drive", "timed out", "0 left, in_flight 0",
        "none verified", "bpref-as verified", "bpref-cfq verified",
        "probability refused", "interval refused", "times refused",
        "other queues verified", "fewer requests verified",
        "3 with 2 polled", "polled or not", "bios have none",
    ]  # fmt: skip


# Block of 4 KiB, number of blocks.
BAD = r"""
try() { if said=$("$@" 2>&1); then echo ok; else echo "${said##*: }"; fi; }
put() { try dd if=/run/data of=$D bs=$((4096 * $2)) count=1 seek=$((4096 * $1)) conv=notrunc \
  oflag=direct,seek_bytes status=none; }
get() { try dd if=$D of=/dev/null bs=$((4096 * $2)) count=1 skip=$((4096 * $1)) \
  iflag=direct,skip_bytes status=none; }
letters() { dd if=$D bs=16k count=1 iflag=direct status=none | tr -d '\n' | tr '\0' - \
  | fold -w 2048 | cut -c 1 | tr -d '\n'; }
walk() {
  yes a | head -c 32k > /run/data; echo $(put 0 8), $(get 0 8)
  echo +8-15 > $A/badblocks; echo +40-40 > $A/badblocks; cat $A/badblocks
  echo reads: $(get 0 1), $(get 1 1), $(get 0 2), $(get 5 1), $(get 2 3)
  yes b | head -c 32k > /run/data; echo writes: $(put 1 1), $(put 0 2), $(put 6 2)
  echo discards: $(try blkdiscard -f -o 4096 -l 4096 $D), $(try blkdiscard -f -o 8192 -l 4096 $D)
  echo -8-15 > $A/badblocks; cat $A/badblocks; echo holds $(letters)
  echo good again: $(put 1 1), $(get 0 2), $(get 5 1)
  for wrong in 8-15 +15-8 +8 +x-9; do (echo $wrong > $A/badblocks) 2> /dev/null || echo no $wrong
  done; echo -0-1000 > $A/badblocks; cat $A/badblocks; echo $(get 5 1)
}
modprobe null_blk nr_devices=0; A=/sys/kernel/config/nullb/z; mkdir $A
for pair in size=64 blocksize=4096 memory_backed=1 discard=1 power=1
do echo ${pair#*=} > $A/${pair%=*}; done
for D in /dev/z /dev/nullb0; do [ ! -b $D ] || break; done; walk > /run/null; ls $A
ls /sys/module/null_blk/parameters /sys/kernel/config/nullb; echo 0 > $A/power; rmdir $A; A=$F
D=/dev/ssd0; for mode in mq bio; do set_up mode=$mode lba_bytes=4096; walk > /run/flash; tear_down
  diff /run/null /run/flash && echo $mode alike; done; cat /run/flash
set_up; T=/sys/kernel/config/ssdb_tmerge/t; mkdir $T; echo /dev/ssd0 > $T/device
echo atm > $T/mode; echo 1 > $T/power; D=/dev/t
echo +16-23 > $F/badblocks; echo vectors: $(get 1 1), $(get 2 1), $(put 2 1)
echo -16-23 > $F/badblocks; echo $(put 2 1), $(get 2 1); echo 0 > $T/power; rmdir $T; tear_down
"""
EIO = "Input/output error"


def test_sectors_are_bad_as_those_of_null_blk_and_its_attributes_are_accounted_for(
    guest: Guest,
) -> None:
    answer = guest(SETUP + BAD)

    said = answer.stdout.splitlines()
    begin = said.index("mq alike")
    assert said[begin:] == [
        "mq alike", "bio alike",
        "ok, ok", "8 8", "40 1",
        f"reads: ok, {EIO}, {EIO}, {EIO}, ok",
        f"writes: {EIO}, {EIO}, ok",
        f"discards: {EIO}, ok",
        "40 1", "holds aa--a", f"good again: ok, ok, {EIO}",
        "no 8-15", "no +15-8", "no +8", "no +x-9", "ok",
        f"vectors: ok, {EIO}, {EIO}", "ok, ok",
    ]  # fmt: skip
    offered = {name for name in said[:begin] if re.fullmatch(r"\w+", name)} - {"z"}
    text = README.read_text().partition("<!-- attributes of null_blk -->")[2]
    table = re.findall(r"^\| (`.*?) \|", text.partition("<!-- /")[0], re.M)
    assert len(offered) > 25
    assert offered - set(re.findall(r"`(\w+)`", " ".join(table))) == set()


LIMITS = r"""
count() { awk -v n=$1 '$1 == n {print $2}' $F/counters; }
write() { before=$(count $1); dd if=/dev/zero of=/dev/ssd0 bs=4k count=10 oflag=direct,dsync \
  status=none; echo $(($(count $1) - before)); }
Q=/sys/block/ssd0/queue
for fua in 1 0; do set_up wbuf_volatile=volatile fua=$fua
  echo fua $(< $Q/fua): $(write flushes) flushes; tear_down; done
"""


def test_a_drive_without_fua_is_flushed_after_each_write(guest: Guest) -> None:
    answer = guest(SETUP + LIMITS)

    assert answer.stdout.splitlines() == ["fua 1: 10 flushes", "fua 0: 20 flushes"]


# Reads by CPU 0 or 1, and on which CPUs they ended: "case: reads on CPU 0, on CPU 1".
STEERING = """
T=/sys/kernel/tracing; [ -d $T/events ] || mount -t tracefs none $T
ends() { awk -v c=$1 '$0 ~ "[[]00" c "[]].*block_rq_complete" {n++} END {print n + 0}' $T/trace; }
each() { name=$1; cpu=$2; shift 2; set_up t_read_ns=100000 "$@"; echo > $T/trace
  echo 2 > /sys/block/ssd0/queue/nomerges
  echo 1 > $T/events/block/block_rq_complete/enable; read_by $cpu
  echo 0 > $T/events/block/block_rq_complete/enable
  echo $name: $(ends 0) $(ends 1), $(cat $F/counters | tr '\\n' ' '); tear_down; }
read_by() { taskset -c $1 dd if=/dev/ssd0 of=/dev/null bs=4k count=200 iflag=direct status=none; }
each own 0 lines=one irq_cpu=0
each other 0 lines=one irq_cpu=1
each returned 0 lines=one irq_cpu=1 return_to_origin=1
each percpu-0 0 lines=percpu
each percpu-1 1 lines=percpu
each doubled 0 lines=one irq_cpu=0 doubling=3
read_by() { taskset -c $1 fio --name=r --filename=/dev/ssd0 --direct=1 --rw=randread --bs=4k \\
  --ioengine=libaio --iodepth=32 --iodepth_batch_submit=32 --iodepth_batch_complete_min=32 \\
  --number_ios=960 --minimal > /run/r; }
each two 0 lines=two irq_cpu=0 irq_cpu2=1
each each-alone 0 lines=one irq_cpu=0
each together 0 lines=one irq_cpu=0 completion=coalesced coalesce_count=16 coalesce_ns=50000000
"""


def test_a_command_ends_on_the_cpu_that_it_was_sent_to_with_as_few_interrupts_as_asked(
    guest: Guest,
) -> None:
    answer = guest(SETUP + STEERING)

    ended, found = {}, {}
    for line in answer.stdout.splitlines():
        name, _, rest = line.partition(": ")
        where, _, pairs = rest.partition(", ")
        ended[name] = tuple(map(int, where.split()))
        words = pairs.split()
        found[name] = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert {name: ended[name] for name in ended if min(ended[name]) == 0} == {
        "own": (200, 0), "other": (0, 200), "returned": (200, 0),
        "percpu-0": (200, 0), "percpu-1": (0, 200), "doubled": (200, 0),
        "each-alone": (960, 0), "together": (960, 0),
    }  # fmt: skip
    assert sum(ended["two"]) == 960
    assert min(ended["two"]) > 300  # odd and even tags
    assert found["doubled"]["extra_commands"] == 3 * found["doubled"]["commands"]
    assert found["own"]["extra_commands"] == 0
    assert found["together"]["interrupts_0"] <= found["together"]["commands"] / 8


@pytest.mark.soak
def test_who_polls_needs_no_interrupt(guest: Guest) -> None:
    answer = guest(
        SETUP + "set_up poll_queues=1 completion=polled store=0 ftl=direct wbuf_bytes=0\n"
        "count() { awk -v n=$1 '$1 == n {print $2}' $F/counters; }; before=$(count interrupts_0)\n"
        "fio --name=p --filename=/dev/ssd0 --direct=1 --rw=randread --bs=4k --ioengine=io_uring"
        " --hipri=1 --iodepth=2 --number_ios=500 --size=64m --minimal > /run/p\n"
        "echo $(( $(count interrupts_0) - before )) $(count polls) $(count in_flight); tear_down"
    )

    interrupts, polls, in_flight = (int(word) for word in answer.stdout.split())
    assert interrupts < 50 and polls > 250 and in_flight == 0


def test_a_poller_that_has_stopped_does_not_keep_the_drive(guest: Guest) -> None:
    answer = guest(
        SETUP + "set_up poll_queues=1 completion=polled store=0 ftl=direct wbuf_bytes=0\n"
        "echo 5000 > /sys/block/ssd0/queue/io_timeout\n"  # ms; 30 s otherwise
        "fio --name=p --filename=/dev/ssd0 --direct=1 --rw=randread --bs=4k --ioengine=io_uring"
        " --hipri=1 --iodepth=8 --time_based --runtime=300 --size=64m --thread --minimal"
        " > /run/p 2>&1 & fio=$!\n"
        "until [ $(awk '$1 == \"commands\" {print $2}' $F/counters) -gt 100 ]; do sleep 0.1; done\n"
        "stuck() { awk '$1 == \"in_flight\" {print ($2 > 0)}' $F/counters; }\n"
        "until kill -STOP $fio; sleep 0.3; [ $(stuck) = 1 ]; do kill -CONT $fio; done; echo stuck\n"
        "echo 0 > $F/power & off=$!\n"
        "for wait in $(seq 300); do kill -0 $off 2> /run/o || break; sleep 0.1; done\n"
        "kill -0 $off 2> /run/o && echo kept || echo off; kill -CONT $fio; kill -KILL $fio\n"
        "wait || true; rmdir $F; rmmod ssdb_tmerge; rmmod ssdb_flash && echo removed"
    )

    assert answer.stdout.split() == ["stuck", "off", "removed"]
