import pytest

from tests.vm.conftest import Guest

pytestmark = pytest.mark.vm

SETUP = """
S=/sys/kernel/config/ssdb_slam/a
mkdir $S
echo /dev/nvme0n1 > $S/device
echo 200 > $S/runtime_ms
run() { echo 1 > $S/running; while [ "$(cat $S/running)" = 1 ]; do sleep 0.05; done
  echo "$1 $(cat $S/ios) $(cat $S/errors) $(awk '{n += $3} END {print n + 0}' $S/histogram)"; }
"""


def test_every_level_counts_each_request_once(guest: Guest) -> None:
    answer = guest(
        SETUP + "echo 2000 > $S/ios_limit; echo 0 > $S/runtime_ms\n"
        "for level in bio request nvme; do echo $level > $S/level; run $level; done\n"
        "echo /dev/sda > $S/device; echo scsi > $S/level; run scsi",
        disks=("nvme=null:1GiB", "ahci=null:1GiB"),
    )

    lines = [line.split() for line in answer.stdout.splitlines()]
    assert [line[0] for line in lines] == ["bio", "request", "nvme", "scsi"]
    assert all(line[1:] == ["2000", "0", "2000"] for line in lines)


def test_writes_need_the_word_for_this_very_drive(guest: Guest) -> None:
    answer = guest(
        SETUP + "echo 0 > $S/read_percent\n"
        "echo 1 > $S/running || echo unarmed refused\n"
        'echo "259:0 4711" > $S/armed; echo 1 > $S/running || echo other refused\n'
        'echo "$(cat /sys/block/nvme0n1/dev) $(blockdev --getsize64 /dev/nvme0n1)" > $S/armed\n'
        "run armed; echo nvme > $S/level; echo 1 > $S/running || echo passthrough refused",
    )

    assert "unarmed refused" in answer.stdout
    assert "other refused" in answer.stdout
    assert "passthrough refused" in answer.stdout
    armed = next(line for line in answer.stdout.splitlines() if line.startswith("armed"))
    assert int(armed.split()[1]) > 100


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


WRONG = (
    "block_bytes 4000", "block_bytes 0", "depth 0", "depth 99999", "read_percent 101", "level warp",
    "pattern zigzag", "cpu 4096", "device /dev/none", "offset_bytes 9223372036854775807", "seed x",
    "span_bytes 1", "nsid 0", "runtime_ms -5",
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
