"""A simulated drive that vanishes, fails or is asked to leave beneath what uses it.

Whoever waits gets an error, what is in use stays, and nothing is left; a complaint of the guest's
kernel (an oops, a WARNING, a hung task) fails each of these tests.
"""

import pytest

from tests.vm.conftest import Guest

pytestmark = [pytest.mark.vm, pytest.mark.soak]

FUNCTIONS = """
C=/sys/kernel/config; F=$C/ssdb_flash; T=$C/ssdb_tmerge; S=$C/ssdb_slam
flash() { mkdir $F/$1; for pair in capacity_bytes=67108864 erase_block_bytes=65536 op_ppm=200000 \\
    channels=2 program_unit_bytes=4096 read_unit_bytes=4096 completion=timer "${@:2}"
  do echo ${pair#*=} > $F/$1/${pair%%=*}; done; echo 1 > $F/$1/power; }
gone() { echo 0 > $F/$1/power; rmdir $F/$1; }
merge() { mkdir $T/tm0; echo /dev/ssd0 > $T/tm0/device; echo $1 > $T/tm0/mode
  echo 1 > $T/tm0/power; }
refused() { "${@:2}" 2> /run/said && echo "$1 done" || echo "$1 refused"; }
switch_on() { echo 1 > $1; }
"""
MODES = ("spatial-intr", "spatial-poll", "stm", "atm", "hybrid")


def test_a_drive_pulled_out_beneath_a_merging_one_ends_all_requests(guest: Guest) -> None:
    answer = guest(
        FUNCTIONS
        + """
load() { fio --name=l --filename=/dev/tm0 --direct=1 --rw=randrw --bs=4k --ioengine=$1 \\
  --iodepth=16 --numjobs=2 --time_based --runtime=600 --size=32m --minimal > /run/$1 2>&1; }
under_way() { until [ $(awk '/^(read|write)_ios/ {n += $2} END {print n}' $T/tm0/counters) \\
  -gt 200 ]; do sleep 0.1; done; }
"""
        + f"for mode in {' '.join(MODES)}; do for kind in mq bio; do\n"
        """flash ssd0 mode=$kind; merge $mode
load libaio & deep=$!; load psync & alone=$!; under_way
echo 0 > $F/ssd0/power
wait $deep && echo $mode $kind deep went on; wait $alone && echo $mode $kind alone went on
echo $mode $kind inside $(awk '$1 == "inside" {print $2}' $T/tm0/counters)
rmdir $T/tm0; rmdir $F/ssd0; done; done
for name in ssdb_slam ssdb_tmerge ssdb_flash; do rmmod $name; done; echo removed
"""
    )

    ended = [f"{mode} {kind} inside 0" for mode in MODES for kind in ("mq", "bio")]
    assert answer.stdout.splitlines() == [*ended, "removed"]


def test_a_mounted_drive_can_be_pulled_out_and_its_file_system_unmounted(guest: Guest) -> None:
    answer = guest(
        FUNCTIONS
        + """
mkdir -p /run/m
fill() { while dd if=/dev/zero of=/run/m/f bs=64k count=100 conv=fsync; do :; done \\
  2> /run/said; }
for on in ssd0 tm0; do for how in power rmdir; do
flash ssd0; [ $on = ssd0 ] || merge hybrid
mkfs.ext4 -q /dev/$on; mount /dev/$on /run/m; fill & pid=$!
until [ "$(stat -c %s /run/m/f 2> /run/gone)" -gt 0 ] 2> /run/gone; do sleep 0.1; done
rmmod ssdb_flash 2> /run/gone && echo removed a module in use
case $how$on in power*) echo 0 > $F/ssd0/power;; *ssd0) rmdir $F/ssd0;; *) rmdir $T/tm0;; esac
wait $pid; umount /run/m; echo $on $how unmounted
if [ -d $T/tm0 ]; then rmdir $T/tm0; fi; if [ -d $F/ssd0 ]; then rmdir $F/ssd0; fi
done; done
for name in ssdb_slam ssdb_tmerge ssdb_flash; do rmmod $name; done; echo removed
"""
    )

    pairs = [(on, how) for on in ("ssd0", "tm0") for how in ("power", "rmdir")]
    assert answer.stdout.splitlines() == [
        *(f"{on} {how} unmounted" for on, how in pairs), "removed",
    ]  # fmt: skip


def test_write_errors_beneath_a_file_system_are_its_users_errors(guest: Guest) -> None:
    answer = guest(
        FUNCTIONS
        + """
mkdir -p /run/m; write() { dd if=/dev/zero of=/run/m/f bs=64k count=700 conv=fsync; }
for on in ssd0 tm0; do
flash ssd0 error_ops=write error_offset_bytes=33554432 error_bytes=8388608
[ $on = ssd0 ] || merge hybrid
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0 -O ^has_journal /dev/$on  # one group
mount -o nodelalloc /dev/$on /run/m; refused write write; cat /run/said >&2
grep -o -m 1 'Input/output error\\|No data available' /run/said
umount /run/m; echo $on unmounted; [ $on = ssd0 ] || rmdir $T/tm0; gone ssd0; done
"""
    )

    lines = answer.stdout.splitlines()
    assert lines[::3] == ["write refused"] * 2
    # fsync reports EIO, or what the drive itself said of its medium: that is up to the kernel.
    assert set(lines[1::3]) <= {"Input/output error", "No data available"}
    assert lines[2::3] == ["ssd0 unmounted", "tm0 unmounted"]


def test_a_module_leaves_only_when_nothing_uses_it(guest: Guest) -> None:
    answer = guest(
        FUNCTIONS
        + """
flash ssd0; flash ssd1
mkdir $T/tm0; refused made rmmod ssdb_tmerge; rmdir $T/tm0
mkdir $S/a; refused slam rmmod ssdb_slam
echo /dev/ssd0 > $S/a/device; echo 0 > $S/a/read_percent
echo "$(< /sys/block/ssd1/dev) 67108864" > $S/a/armed
refused armed-for-another switch_on $S/a/running; rmdir $S/a
python3 -c 'import os, time
fd = os.open("/dev/ssd0", os.O_RDWR | os.O_EXCL); print("held", flush=True); time.sleep(600)' \\
  > /run/held & pid=$!
until grep -q held /run/held; do sleep 0.1; done
mkdir $T/tm0; echo /dev/ssd0 > $T/tm0/device; refused claimed switch_on $T/tm0/power
kill $pid; wait $pid || [ $? = 143 ]; rmdir $T/tm0
for name in bpref-as bpref-cfq; do echo $name > /sys/block/ssd1/queue/scheduler
refused $name rmmod ssdb_bpref; echo none > /sys/block/ssd1/queue/scheduler; done
echo bpref-as > /sys/block/ssd1/queue/scheduler; gone ssd1; rmmod ssdb_bpref
rmmod ssdb_tmerge ssdb_slam  # which would keep it by themselves
refused powered rmmod ssdb_flash; gone ssd0; rmmod ssdb_flash; echo removed
"""
    )

    refused = (
        "made", "slam", "armed-for-another", "claimed", "bpref-as", "bpref-cfq", "powered",
    )  # fmt: skip
    assert answer.stdout.splitlines() == [*(f"{what} refused" for what in refused), "removed"]
