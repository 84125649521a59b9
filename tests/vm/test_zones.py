"""Drives in zones: what null_blk answers to a script is what the simulated drive answers."""

import json
import re

import pytest

from tests.vm.conftest import REPOSITORY, Guest
from tests.vm.test_flash import SETUP

pytestmark = pytest.mark.vm

ZONES = "zoned=1 zone_size=4"  # 16 of them
BOTH = (
    f'{SETUP}\nZONES="{ZONES}"\n'
    r"""
modprobe null_blk nr_devices=0; N=/sys/kernel/config/nullb/z
mkdir $N; echo 64 > $N/size; echo 4096 > $N/blocksize; echo 1 > $N/memory_backed
for pair in $ZONES; do echo ${pair#*=} > $N/${pair%%=*}; done; echo 1 > $N/power
set_up lba_bytes=4096 $ZONES
for null in /dev/z /dev/nullb0; do [ ! -b $null ] || break; done
end() { tear_down; echo 0 > $N/power; rmdir $N; }
"""
)
WALK = r"""
try() { if said=$("$@" 2>&1); then echo ok; else echo "${said##*: }"; fi; }
# Zone, block of 4 KiB, number of blocks.
put() { echo "write $*: $(try dd if=/run/data of=$D bs=4k seek=$(($1 * 1024 + $2)) count=$3 \
  oflag=direct conv=notrunc status=none)"; }
zone() { echo "$*: $(try blkzone $1 -o $(($2 * 8192)) -c 1 $D)"; }
report() { blkzone report $D | sed 's/^ *start: //; s/ reset:.*zcond:/ /; s/ *.type:.*//' | nl -v0
}
# What nobody wrote reads as ones in null_blk, so this is not compared.
at() { echo data $(dd if=$D bs=4k skip=$(($1 * 1024 + $2)) count=1 iflag=direct status=none \
  | cksum) >> /run/data-${D##*/}; }
yes ssdbench | head -c 4M > /run/data
walk() {
  report
  put 2 0 2; put 2 0 1; put 2 5 1
  report  # since Linux 6.10 a failed write bars its zone until the pointer has been asked for
  put 2 2 1; put 0 7 1; zone finish 3; put 3 0 1; zone finish 3; zone reset 1
  put 6 0 1; at 2 1; zone reset 2; at 2 1; put 2 0 1; report
  put 10 0 1024; put 10 1023 1; zone reset 10; put 10 0 1; put 10 1 1023; put 11 0 1024; report
  echo reset: $(try blkzone reset $D); report
}
"""


EIO = "Input/output error"
ZEROS = "3018728591 4096"  # cksum of a block of them
SAID = {
    "write 2 0 2": "ok", "write 2 0 1": EIO, "write 2 5 1": EIO, "write 2 2 1": "ok",
    "write 0 7 1": EIO, "finish 3": "ok", "write 3 0 1": EIO, "reset 1": "ok",
    "write 10 0 1024": "ok", "write 10 1023 1": EIO, "write 10 1 1023": "ok", "reset": "ok",
}  # fmt: skip


def test_a_drive_in_zones_answers_as_null_blk_does(guest: Guest) -> None:
    answer = guest(
        BOTH + WALK + "D=$null; walk > /run/null; D=/dev/ssd0; walk > /run/flash\n"
        "diff /run/null /run/flash && echo same; cat /run/flash /run/data-ssd0\n"
        "grep zone_resets $F/counters\n"
        "for disk in ssd0 ${null#/dev/}; do cd /sys/block/$disk/queue\n"
        "echo queue: $(cat zoned chunk_sectors nr_zones)\n"
        "done; cd /; end"
    )

    told = re.findall(r"^([a-z]+(?: \d+)*): (.*)$", answer.stdout, re.M)
    said = dict(reversed(told))  # what was said first of what was done twice
    assert "same" in answer.stdout.splitlines()
    assert {what: said[what] for what in SAID} == SAID
    written, after = re.findall(r"^data (.*)$", answer.stdout, re.M)
    assert written != after == ZEROS
    assert "zone_resets 7" in answer.stdout
    assert answer.stdout.count("queue: host-managed 8192 16") == 2


FIO = r"""
zbd() { fio --name=z --filename=$D --direct=1 --zonemode=zbd --ioengine=libaio --bs=16k \
  --iodepth=8 --rw=randwrite --max_open_zones=3 --randrepeat=1 "$@" > /run/fio 2>&1 \
  && echo "$D: fio is content" || cat /run/fio; }
resets() { awk '$1 == "zone_resets" {print $2}' $F/counters; }
for D in $null /dev/ssd0; do
  zbd --io_size=24m --verify=crc32c --do_verify=1
done
before=$(resets); zbd --io_size=84m
echo resets: $(($(resets) - before)) $(grep -o '[0-9]* zone resets' /run/fio); grep zone /run/fio
"""


def test_fio_finds_what_it_wrote_and_its_resets_are_those_of_the_drive(guest: Guest) -> None:
    answer = guest(BOTH + FIO + "end")

    assert answer.stdout.count("fio is content") == 3
    (counted,) = re.findall(r"^resets: (\d+) (\d+) zone resets$", answer.stdout, re.M)
    assert counted[0] == counted[1] != "0"


WRONG = {
    "mode=bio": "zones need hardware queues (mode mq)",
    "cuttable=1": "its power cannot be cut",
    "zone_size=3": "zone_size is no power of two",
    "zone_size=128": "zone_size is larger than the drive",
}


def test_zones_that_cannot_be_are_refused_with_a_sentence(guest: Guest) -> None:
    tries = "\n".join(f"(set_up zoned=1 zone_size=4 {wrong}); rmdir $F" for wrong in WRONG)

    answer = guest(
        f"{SETUP}\nset +e\n{tries}\ndmesg | grep -o 'ssdb_flash: ssd0: .*' | tail -{len(WRONG)}"
    )

    for said, reason in zip(answer.stdout.splitlines(), WRONG.values(), strict=True):
        assert reason in said


def test_vectors_are_refused_by_a_drive_in_zones(guest: Guest) -> None:
    answer = guest(
        f"{SETUP}\nset_up zoned=1 zone_size=4; T=/sys/kernel/config/ssdb_tmerge/t; mkdir $T\n"
        "echo /dev/ssd0 > $T/device; (echo 1 > $T/power) 2> /run/o || echo no vectors\n"
        "rmdir $T; tear_down"
    )

    assert answer.stdout.splitlines() == ["no vectors"]


MEASURED = r"""
import json, subprocess, sys
from pathlib import Path
from ssdbench.target.inspect import inspect

Path("/run/p.yaml").write_text(PROFILE)
info = inspect(sys.argv[1])
ran = subprocess.run([sys.executable, "-m", "ssdbench", "run", "/run/p.yaml", "--target",
                      info.node, "--destroy", info.consent_id, "--accept-wear",
                      "--output", "/run/out"],
                     stdout=2, stderr=2)
stat = Path("/sys/class/block", Path(info.node).name, "stat").read_text().split()
result = json.loads(Path("/run/out/result.json").read_text())
points = [point for stage in result["stages"] for point in stage["found"].get("points", ())]
print(json.dumps({
    "status": ran.returncode,
    "size_bytes": info.size_bytes,
    "zone_bytes": info.zone_bytes,
    "written": int(stat[6]) * 512,
    "jobs": [(Path("/run/out") / repeat["artifacts"] / "fio/job.fio").read_text()
             for point in points for repeat in point["repeats"]],
    "codes": sorted({f["code"] for stage in result["stages"] for f in stage["findings"]}),
}))
"""
PROFILE = """\
precondition: [{pattern: sequential, block: 128KiB, fill: 2}]
steady: {rule: seppanen, max_time: 1s, workload: {pattern: sequential, block: 128KiB, iodepth: 4}}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, spare: 1%, unbroken: 1s}
measure:
  - sweep: {pattern: sequential, block: 64KiB, iodepth: 4}
  - sweep: {pattern: [random, sequential], block: 64KiB, read: 100, iodepth: 4}
"""
# Each makes a drive of 16 zones, sets where it is, and counts the resets that reach it.
DRIVES = {
    "flash": """
        set_up lba_bytes=4096 zoned=1 zone_size=4; D=/dev/ssd0
        resets() { awk '/^zone_resets / {print $2}' $F/counters; }; end() { tear_down; }""",
    "null_blk": """
        modprobe null_blk nr_devices=0; N=/sys/kernel/config/nullb/nullb0; mkdir $N
        for pair in size=64 blocksize=4096 memory_backed=1 zoned=1 zone_size=4 \
          zone_capacity=$HOLDS power=1; do echo ${pair#*=} > $N/${pair%%=*}; done; D=/dev/nullb0
        echo 1 > $T/events/nullb/nullb_zone_op/enable
        resets() { grep -c 'req=ZONE_RESET ' $T/trace; }
        end() { echo 0 > $N/power; rmdir $N; }""",
    "QEMU": """
        D=/dev/nvme0n1; echo 'opcode == 0x79' > $T/events/nvme/nvme_setup_cmd/filter
        echo 1 > $T/events/nvme/nvme_setup_cmd/enable
        resets() { grep -c nvme_setup_cmd: $T/trace; }; end() { :; }""",
}  # fmt: skip


@pytest.mark.soak  # more than a minute, for a fill, a warm-up and three points
@pytest.mark.parametrize(  # of the 4 MiB of a zone it holds so many
    ("drive", "holds"), [("flash", 4), ("null_blk", 4), ("null_blk", 3), ("QEMU", 4)]
)
def test_a_drive_in_zones_is_filled_and_measured_in_order(
    drive: str, holds: int, guest: Guest
) -> None:
    answer = guest(
        f"{SETUP}\nHOLDS={holds} T=/sys/kernel/tracing SSDBENCH_SETTINGS=/run/set\n"
        f"export SSDBENCH_SETTINGS{DRIVES[drive]}\n"
        f"{REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\nPROFILE = '''{PROFILE}'''\n"
        f'{MEASURED}\nEND\n)" $D; resets; end',
        disks=("nvme,zoned=4MiB=null:64MiB",) if drive == "QEMU" else (),
    )

    assert answer.stdout, answer.stderr
    *_, told, resets = answer.stdout.splitlines()
    said = json.loads(told)
    assert said["status"] == 1, answer.stderr  # not VALIDATED
    assert (said["size_bytes"], said["zone_bytes"]) == (16 * holds << 20, holds << 20)
    assert len(said["jobs"]) == 3
    assert all("zonemode=zbd" in job for job in said["jobs"])
    # Each zone that was written again was reset first, and no other: 16 of them are the first fill.
    begun = -(-said["written"] // said["zone_bytes"])
    assert begun - 16 <= int(resets) <= begun - 16 + 2 and int(resets) > 0
    assert "fill-unproven" not in said["codes"]
