"""Modules that come and go, values at random, drives that vanish: no leak and no complaint.

A complaint of the guest's kernel (an oops, a WARNING, a hung task) fails each of these tests.
"""

import shlex

import pytest

from ssdbench.lab.session import Lab, built_modules
from tests.vm.conftest import Guest, cache

pytestmark = pytest.mark.vm

FUNCTIONS = """
F=/sys/kernel/config/ssdb_flash T=/sys/kernel/config/ssdb_tmerge
flash() { mkdir $F/$1; for pair in capacity_bytes=67108864 erase_block_bytes=65536 op_ppm=200000 \\
    channels=2 program_unit_bytes=4096 read_unit_bytes=4096 store=0 completion=timer "${@:2}"
  do echo ${pair#*=} > $F/$1/${pair%%=*}; done; echo 1 > $F/$1/power; }
gone() { echo 0 > $F/$1/power; rmdir $F/$1; }
load() { fio --name=l --filename=$1 --direct=1 --rw=randrw --bs=4k --ioengine=libaio --iodepth=16 \\
  --time_based --runtime=$2 --size=32m --minimal > /run/load 2> /run/load-errors; }
slam() { local S=/sys/kernel/config/ssdb_slam/$1; mkdir $S; echo /dev/$1 > $S/device
  echo "$(< /sys/block/$1/dev) 67108864" > $S/armed; echo 50 > $S/read_percent
  echo 200 > $S/runtime_ms; echo 1 > $S/running; while [ $(< $S/running) = 1 ]; do sleep 0.05; done
  [ $(< $S/errors) = 0 ]; [ $(< $S/ios) -gt 0 ]; rmdir $S; }
settle() { sync; echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory
  sleep 0.5; }
tables_kib() { awk '/^(SUnreclaim|VmallocUsed|Percpu)/ {n += $2} END {print n}' /proc/meminfo; }
# Pages that no account names: a drive's data, and what kmalloc does not take from a slab. Those
# that are kept free for a CPU (count) are free.
pages_kib() { awk '/^MemTotal/ {n += $2} /^ +count:/ {n -= 4 * $2} END {print n}
  /^(MemFree|Buffers|Cached|Slab|AnonPages|KernelStack|PageTables|VmallocUsed|Percpu)/ {n -= $2}' \
  /proc/meminfo /proc/zoneinfo; }
"""
# Of a guest that runs nothing else; one device's tables and data in each round are above it.
NOISE_KIB = 512
PAGES_NOISE_KIB = 4096


def _load_and_unload(guest: Guest, lab: Lab, rounds: int) -> None:
    files = " ".join(f"'{path}'" for path in built_modules(lab.kernel, cache()))
    answer = guest(
        FUNCTIONS
        + f"""
modprobe configfs
cycle() {{ for file in {files}; do insmod $file; done; flash ssd0 store=1; mkdir $T/tm0
  for name in bpref-as bpref-cfq; do echo $name > /sys/block/ssd0/queue/scheduler; slam ssd0; done
  echo /dev/ssd0 > $T/tm0/device; echo 1 > $T/tm0/power; slam tm0; rmdir $T/tm0; gone ssd0
  for name in ssdb_slam ssdb_bpref ssdb_tmerge ssdb_flash; do rmmod $name; done; }}
cycle; cycle; settle; tables=$(tables_kib); pages=$(pages_kib)
for round in $(seq {rounds}); do cycle; done; settle
echo grown $(( $(tables_kib) - tables )) $(( $(pages_kib) - pages ))
echo left $(grep -c ssdb /proc/modules /proc/slabinfo | tr '\\n' ' ')
""",
        modules=False,
        fresh=True,  # nothing else has taken memory, or freed any
    )
    words = answer.stdout.split()
    assert int(words[1]) < NOISE_KIB
    assert int(words[2]) < PAGES_NOISE_KIB
    assert words[4:] == ["/proc/modules:0", "/proc/slabinfo:0"]


@pytest.mark.stretched
def test_modules_come_and_go_without_a_trace(guest: Guest, lab: Lab) -> None:
    _load_and_unload(guest, lab, 3)


@pytest.mark.stretched
@pytest.mark.soak
@pytest.mark.parametrize("quarter", range(4))  # a guest each: an emulated CPU takes 2 to 3 min
def test_modules_come_and_go_a_hundred_times(guest: Guest, lab: Lab, quarter: int) -> None:
    _load_and_unload(guest, lab, 25)


def _switches(guest: Guest, count: int) -> None:
    answer = guest(
        FUNCTIONS
        + f"""
flash ssd0
load /dev/ssd0 600 &
S=/sys/block/ssd0/queue/scheduler
for round in $(seq {count}); do
  for name in bpref-as none bpref-cfq mq-deadline; do
    echo $name > $S; grep -q "\\[$name\\]" $S && echo switched; done; done | sort | uniq -c
kill %1; wait || true; echo none > $S; gone ssd0; echo removed
""",
    )
    assert answer.stdout.split() == [str(4 * count), "switched", "removed"]


def test_schedulers_are_switched_under_load(guest: Guest) -> None:
    _switches(guest, 2)


@pytest.mark.soak
def test_schedulers_are_switched_under_load_a_hundred_times(guest: Guest) -> None:
    _switches(guest, 25)


NONSENSE = (
    "", "0", "-1", "1", "65536", "4294967296", "18446744073709551616", "x", "1x", "0x10",
    "none", "/dev/null", "/dev/ssd9", "a" * 200, "%s%n", "1 2", "stm", "timer", "two", "nan",
)  # fmt: skip


def _wrong_values(seed: int, tries: int) -> str:
    """Shell text that writes nonsense into every attribute of an instance of each module."""
    return f"""
RANDOM={seed}; modules=(ssdb_flash ssdb_tmerge ssdb_slam); texts=({shlex.join(NONSENSE)})
for try in $(seq {tries}); do
  poke ${{modules[RANDOM % 3]}}/fuzz $RANDOM "${{texts[RANDOM % {len(NONSENSE)}]}}"; done
"""


@pytest.mark.parametrize(
    ("seed", "tries"), [(1, 300), pytest.param(2, 20_000, marks=pytest.mark.soak)]
)
def test_any_value_is_taken_or_refused_and_nothing_else(
    guest: Guest, seed: int, tries: int
) -> None:
    answer = guest(
        FUNCTIONS
        + """
C=/sys/kernel/config
poke() { if ! [ -d $C/$1 ]; then mkdir $C/$1; fi
  names=($C/$1/*); at=$(( $2 * ${#names[@]} / 32768 ))  # no program starts: 20,000 times
  printf '%s' "$3" > ${names[$at]} && taken=$((taken + 1)) || refused=$((refused + 1))
  mapfile -t said < ${names[$at]} || true; } 2> /dev/null
taken=0; refused=0
"""
        + _wrong_values(seed, tries)
        + """
echo $(( taken + refused ))
for module in ssdb_tmerge ssdb_slam ssdb_flash; do
  for switch in running power; do echo 0 > $C/$module/fuzz/$switch 2> /dev/null || true; done
  rmdir $C/$module/fuzz 2> /dev/null || true; done
rmmod ssdb_slam; rmmod ssdb_tmerge; rmmod ssdb_flash; echo unloaded
""",
    )
    assert answer.stdout.split() == [str(tries), "unloaded"]


def test_a_drive_that_vanishes_under_the_slammer_ends_it_with_errors(guest: Guest) -> None:
    answer = guest(
        """
S=/sys/kernel/config/ssdb_slam/a; mkdir $S; echo /dev/nvme0n1 > $S/device
echo 60000 > $S/runtime_ms; echo 1 > $S/running; sleep 1
echo 1 > /sys/block/nvme0n1/device/device/remove
for wait in $(seq 100); do [ "$(cat $S/running)" = 1 ] || break; sleep 0.1; done
echo running $(cat $S/running) counted $(( $(cat $S/errors) > 0 ))
rmdir $S; rmmod ssdb_slam; ls /dev/nvme0n1 2>/dev/null || echo gone
"""
    )
    assert answer.stdout.split() == ["running", "0", "counted", "1", "gone"]


def test_a_planted_media_error_reaches_the_reader_and_hurts_nothing_else(guest: Guest) -> None:
    answer = guest(
        FUNCTIONS
        + """
flash ssd0 error_ops=read error_bytes=65536
dd if=/dev/zero of=/dev/ssd0 bs=4k count=64 oflag=direct status=none && echo written
dd if=/dev/ssd0 of=/dev/null bs=4k count=1 iflag=direct status=none 2> /run/said || echo failed
grep -o 'No data available' /run/said; gone ssd0; echo removed
"""
    )
    assert answer.stdout.split("\n")[:-1] == ["written", "failed", "No data available", "removed"]


def test_an_error_in_any_part_of_a_request_that_is_split_fails_all_of_it(guest: Guest) -> None:
    answer = guest(
        FUNCTIONS
        + """
try() { dd if=/dev/zero of=/run/mib bs=1M count=1 status=none
  for part in 0 7 15; do at=$((33554432 - part * 65536))
  dd if=/run/mib of=/dev/$1 bs=1M oflag=direct,seek_bytes conv=notrunc seek=$at status=none \
    2> /run/gone && echo $2 wrote part $part
  dd if=/dev/$1 of=/dev/null bs=1M count=1 iflag=direct,skip_bytes skip=$at status=none \
    2> /run/gone && echo $2 read part $part; done; echo $2 tried; }
for mode in mq bio; do flash ssd0 mode=$mode error_ops=both error_offset_bytes=33554432 \
  error_bytes=4096; echo 64 > /sys/block/ssd0/queue/max_sectors_kb; try ssd0 $mode; gone ssd0; done
flash ssd0 error_ops=both error_offset_bytes=33554432 error_bytes=4096
for mode in spatial-intr spatial-poll stm atm hybrid; do mkdir $T/tm0
  echo /dev/ssd0 > $T/tm0/device; echo $mode > $T/tm0/mode; echo 1 > $T/tm0/power
  echo 64 > /sys/block/tm0/queue/max_sectors_kb; try tm0 $mode; rmdir $T/tm0; done; gone ssd0
"""
    )
    ways = ("mq", "bio", "spatial-intr", "spatial-poll", "stm", "atm", "hybrid")
    assert answer.stdout.splitlines() == [f"{way} tried" for way in ways]
