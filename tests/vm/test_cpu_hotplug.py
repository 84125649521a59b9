"""CPUs that leave and return while they have a drive's interrupts."""

import pytest

from tests.vm.conftest import SLOWER, Guest

pytestmark = pytest.mark.vm

CPUS = 3  # the first stays: it boots, and x86 kernels cannot take it away
CYCLE = """
F=/sys/kernel/config/ssdb_flash/ssd0
put() { for pair in "$@"; do echo "${pair#*=}" > $F/${pair%%=*}; done; }
counter() { awk -v n=$1 '$1 == n {print $2}' $F/counters; }
cpu() { echo $2 > /sys/devices/system/cpu/cpu$1/online; }
load() { fio --name=l --filename=/dev/ssd0 --direct=1 --rw=randrw --bs=4k --ioengine=libaio \\
  --iodepth=16 --numjobs=$1 --thread --time_based --runtime=$2 --size=16m --offset_increment=16m \\
  --verify=crc32c --verify_backlog=64 --minimal > /run/load 2>&1; }
cycle() { local times=0 left pid; mkdir $F
  put capacity_bytes=67108864 erase_block_bytes=65536 op_ppm=200000 channels=2 \\
    program_unit_bytes=4096 read_unit_bytes=4096 irq_cpu=1 irq_cpu2=2 "${@:2}" power=1
  load 3 $1 & pid=$!
  until [ $(counter commands) -gt 100 ]; do sleep 0.1; done
  while kill -0 $pid 2> /run/gone; do for left in 1 2; do cpu $left 0
    sleep 0.$((RANDOM % 5)); cpu $left 1; times=$((times + 1)); done; done
  wait $pid && echo verified $((times >= 5)) left $(counter in_flight) || cat /run/load
  put power=0; rmdir $F; }
"""
KINDS = (
    "completion=timer lines=one mode=mq queues=3",
    "completion=coalesced lines=percpu mode=mq return_to_origin=1",
    "completion=timer lines=one mode=bio return_to_origin=1",
    "completion=adaptive lines=two mode=mq return_to_origin=1",
    "completion=deferred defer_ns=500000 lines=two mode=bio",
)


@pytest.mark.soak
def test_a_drive_goes_on_while_the_cpus_of_its_interrupts_leave_and_return(guest: Guest) -> None:
    answer = guest(CYCLE + "".join(f"cycle {20 * SLOWER} {kind}\n" for kind in KINDS), cpus=CPUS)

    assert answer.stdout.splitlines() == ["verified 1 left 0"] * len(KINDS)


@pytest.mark.soak
def test_a_slammer_outlives_its_cpu_and_does_not_begin_without_it(guest: Guest) -> None:
    answer = guest(
        CYCLE
        + """
S=/sys/kernel/config/ssdb_slam/a; T=/sys/kernel/config/ssdb_tmerge/tm0; mkdir $F
put capacity_bytes=67108864 ftl=direct wbuf_bytes=0 irq_cpu=1 irq_cpu2=2 lines=two \
  completion=timer power=1
mkdir $T; echo /dev/ssd0 > $T/device; echo 1 > $T/power
mkdir $S; echo /dev/tm0 > $S/device; echo 2 > $S/cpu; echo 15000 > $S/runtime_ms
echo 1 > $S/running
while [ $(< $S/running) = 1 ]; do for left in 2 1; do
  cpu $left 0; sleep 0.$((RANDOM % 5)); cpu $left 1; done; done
echo ran $(( $(< $S/ios) > 100 )) errors $(< $S/errors)
cpu 2 0; (echo 1 > $S/running) 2> /run/said || grep -o 'No such device' /run/said; cpu 2 1
echo 100 > $S/runtime_ms; echo 1 > $S/running; while [ $(< $S/running) = 1 ]; do sleep 0.1; done
rmdir $S; rmdir $T; put power=0; rmdir $F; echo removed
""",
        cpus=CPUS,
    )

    assert answer.stdout.splitlines() == ["ran 1 errors 0", "No such device", "removed"]
