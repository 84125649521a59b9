"""Drives in zones: what null_blk answers to a script is what the simulated drive answers."""

import json
import re

import pytest

from ssdbench.lab.lab import Lab
from tests.vm.conftest import NEWEST_KERNEL, REPOSITORY, Guest
from tests.vm.test_flash import SETUP

pytestmark = pytest.mark.vm

# Two of the 16 zones of 4 MiB are conventional; of the others 3 MiB can be written.
ZONES = (
    "zoned=1 zone_size=4 zone_capacity=3 zone_nr_conv=2 zone_max_open=3 zone_max_active=4"
)  # fmt: skip
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
  put 2 2 1; put 0 7 1; put 1 3 2
  zone finish 3; put 3 0 1; zone open 3; zone finish 0; zone reset 1
  zone open 4; zone open 5; put 6 0 1; report; zone open 7
  zone close 6; zone open 2; zone open 6; put 6 1 1; zone close 4; zone close 4; put 8 0 1
  zone finish 9; report
  at 2 1; zone reset 2; at 2 1; put 2 0 1; zone close 2
  zone reset 5; zone reset 8; put 10 0 768; put 10 768 1; put 10 767 2; report
  echo reset: $(try blkzone reset $D); report
}
"""


EIO, TOO_MANY_ACTIVE = "Input/output error", "Value too large for defined data type"
ZEROS = "3018728591 4096"  # cksum of a block of them
TOO_MANY_OPEN = "cannot splice"  # the end of what ETOOMANYREFS is called
SAID = {
    "write 2 0 2": "ok", "write 2 0 1": EIO, "write 2 5 1": EIO, "write 2 2 1": "ok",
    "write 0 7 1": "ok", "write 3 0 1": EIO, "open 3": EIO,
    "write 6 0 1": "ok", "open 7": TOO_MANY_ACTIVE, "open 6": TOO_MANY_OPEN,
    "write 6 1 1": TOO_MANY_OPEN, "finish 9": TOO_MANY_ACTIVE,
    "write 10 0 768": "ok", "write 10 768 1": EIO, "write 10 767 2": EIO, "reset": "ok",
}  # fmt: skip


@NEWEST_KERNEL
def test_a_drive_in_zones_answers_as_null_blk_does(guest: Guest) -> None:
    answer = guest(
        BOTH + WALK + "D=$null; walk > /run/null; D=/dev/ssd0; walk > /run/flash\n"
        "diff /run/null /run/flash && echo same; cat /run/flash /run/data-ssd0\n"
        "grep zone_resets $F/counters\n"
        "for disk in ssd0 ${null#/dev/}; do cd /sys/block/$disk/queue\n"
        "echo queue: $(cat zoned chunk_sectors nr_zones max_open_zones max_active_zones)\n"
        "done; cd /; end"
    )

    told = re.findall(r"^([a-z]+(?: \d+)*): (.*)$", answer.stdout, re.M)
    said = dict(reversed(told))  # what was said first of what was done twice
    assert "same" in answer.stdout.splitlines()
    assert {what: said[what] for what in SAID} == SAID
    written, after = re.findall(r"^data (.*)$", answer.stdout, re.M)
    assert written != after == ZEROS
    assert "zone_resets 6" in answer.stdout
    assert answer.stdout.count("queue: host-managed 8192 16 3 4") == 2


FIO = r"""
zbd() { fio --name=z --filename=$D --direct=1 --zonemode=zbd --ioengine=libaio --bs=16k \
  --iodepth=8 --offset=8m --rw=randwrite --max_open_zones=3 --randrepeat=1 "$@" > /run/fio 2>&1 \
  && echo "$D: fio is content" || cat /run/fio; }
resets() { awk '$1 == "zone_resets" {print $2}' $F/counters; }
for D in $null /dev/ssd0; do
  zbd --io_size=24m --verify=crc32c --do_verify=1
done
before=$(resets); zbd --io_size=84m
echo resets: $(($(resets) - before)) $(grep -o '[0-9]* zone resets' /run/fio); grep zone /run/fio
"""
CONDITIONS = r"""
try() { "$@" 2> /run/o && echo ok || sed 's/.*: //' /run/o; }
put() { try dd if=/dev/zero of=$D bs=4k seek=$((8 * 1024)) count=1 oflag=direct conv=notrunc \
  status=none; }
get() { try dd if=$D of=/run/o2 bs=4k skip=$((8 * 1024)) count=1 iflag=direct status=none; }
for A in $N $F; do case $A in $N) D=$null;; *) D=/dev/ssd0;; esac
  [ -e $A/zone_offline ] || continue
  for condition in zone_readonly zone_readonly zone_offline zone_offline; do
    echo 65536 > $A/$condition; echo ${D##*/} $condition: $(get), $(put), $(blkzone report -o \
      65536 -c 1 $D | sed 's/.*zcond: *//; s/ .*//')
  done
done
mkdir /sys/kernel/config/ssdb_tmerge/t; echo /dev/ssd0 > /sys/kernel/config/ssdb_tmerge/t/device
(echo 1 > /sys/kernel/config/ssdb_tmerge/t/power) 2> /run/o || echo no vectors
rmdir /sys/kernel/config/ssdb_tmerge/t
"""


@NEWEST_KERNEL
def test_fio_finds_what_it_wrote_and_its_resets_are_those_of_the_drive(guest: Guest) -> None:
    answer = guest(BOTH + FIO + "end")

    assert answer.stdout.count("fio is content") == 3
    (counted,) = re.findall(r"^resets: (\d+) (\d+) zone resets$", answer.stdout, re.M)
    assert counted[0] == counted[1] != "0"


@pytest.mark.soak
def test_a_zone_can_be_read_only_or_offline_and_vectors_are_refused(guest: Guest) -> None:
    answer = guest(BOTH + CONDITIONS + "end")

    assert re.findall(r"^ssd0 (.*)$", answer.stdout, re.M) == [
        f"zone_readonly: ok, {EIO}, 13(ro)", "zone_readonly: ok, ok, 2(oi)",
        f"zone_offline: {EIO}, {EIO}, 15(of)", "zone_offline: ok, ok, 2(oi)",
    ]  # fmt: skip
    null = re.findall(r"^(?:z|nullb0) (.*)$", answer.stdout, re.M)  # since Linux 6.2
    assert null in ([], re.findall(r"^ssd0 (.*)$", answer.stdout, re.M))
    assert "no vectors" in answer.stdout


ATTRIBUTES = r"""
report() { blkzone report $1 | sed 's/^ *start: //; s/ reset:.*zcond:/ /; s/ *.type:.*//'; }
each() { for limit in 0 7 100 4294967295; do
  mkdir $A; for pair in "$@" zoned=1 zone_size=16 zone_capacity=12 zone_nr_conv=1 zone_full=1 \
    zone_append_max_sectors=$limit power=1; do echo ${pair#*=} > $A/${pair%=*}; done
  for D in $DISKS; do [ ! -b $D ] || break; done
  echo $limit: $(< $A/zone_append_max_sectors); report $D
  echo $(cat /sys/block/${D#/dev/}/queue/zone_append_max_bytes) >> /run/bytes-${D#/dev/}
  blkzone reset -o 32768 -c 1 $D; blkzone report -o 32768 -c 1 $D | grep -o ' 1(em)'
  echo 0 > $A/power; rmdir $A; done; }
modprobe null_blk nr_devices=0; A=/sys/kernel/config/nullb/z; mkdir $A
known=un; [ ! -e $A/zone_full ] || known=well-; rmdir $A
A=$F DISKS=/dev/ssd0; each capacity_bytes=67108864 lba_bytes=4096 op_ppm=200000 \
  erase_block_bytes=65536 channels=2 program_unit_bytes=4096 read_unit_bytes=4096 > /run/flash
[ $known = un ] || { A=/sys/kernel/config/nullb/z DISKS="/dev/z /dev/nullb0"
  each size=64 blocksize=4096 memory_backed=1 > /run/null; diff /run/null /run/flash; }
cat /run/flash; echo ${known}known to null_blk, bytes: $(cat /run/bytes-ssd0)
D=/dev/ssd0
set_up lba_bytes=4096 zoned=1 zone_size=4 badblocks_partial_io=1; echo +16-23 > $F/badblocks
dd if=/dev/zero of=$D bs=16k count=1 oflag=direct conv=notrunc status=none 2>&1 | grep -o '[^:]*$'
report $D | head -1; echo -16-23 > $F/badblocks
dd if=/dev/zero of=$D bs=4k count=1 seek=2 oflag=direct conv=notrunc status=none
report $D | head -1; tear_down
"""


@NEWEST_KERNEL
def test_zones_may_be_full_appends_limited_and_writes_torn(guest: Guest) -> None:
    answer = guest(f"{SETUP}\n{ATTRIBUTES}")

    *said, limits, error, torn, after = answer.stdout.splitlines()
    full = ["0x000000000, len 0x008000, cap 0x008000, wptr 0x000000  0(nw)"] + [
        f"{start}, len 0x008000, cap 0x006000, wptr 0x006000 14(fu)"
        for start in ("0x000008000", "0x000010000", "0x000018000")
    ]
    assert said == [
        line
        for asked, granted in ((0, 0), (7, 0), (100, 96), (4294967295, 24576))
        for line in (f"{asked}: {granted}", *full, " 1(em)")
    ]
    # Without appends of the drive's own the block layer's are writes, but not on Linux 6.1.
    assert limits in (
        "unknown to null_blk, bytes: 0 0 49152 1048576",
        "well-known to null_blk, bytes: 1048576 1048576 49152 1048576",
    )
    assert error.strip() == EIO
    assert torn.startswith("0x000000000, len 0x002000, cap 0x002000, wptr 0x000010  2(oi)")
    assert after.startswith("0x000000000, len 0x002000, cap 0x002000, wptr 0x000018  2(oi)")


WRONG = {
    "mode=bio": "zones need hardware queues (mode mq)",
    "cuttable=1": "its power cannot be cut",
    "zone_size=3": "zone_size is no power of two",
    "zone_size=128": "zone_size is larger than the drive",
    "zone_capacity=5": "zone_capacity is larger than zone_size",
    "zone_capacity=3 capacity_bytes=69206016": "exclude each other",
}


@NEWEST_KERNEL
def test_zones_that_cannot_be_are_refused_with_a_sentence(guest: Guest) -> None:
    tries = "\n".join(f"(set_up zoned=1 zone_size=4 {wrong}); rmdir $F" for wrong in WRONG)

    answer = guest(
        f"{SETUP}\nset +e\n{tries}\ndmesg | grep -o 'ssdb_flash: ssd0: .*' | tail -{len(WRONG)}"
    )

    for said, reason in zip(answer.stdout.splitlines(), WRONG.values(), strict=True):
        assert reason in said


BTRFS = r"""
modprobe btrfs; set_up capacity_bytes=268435456 lba_bytes=4096 zoned=1 zone_size=4 ${OPTIONS-}
{ mkfs.btrfs -q -O zoned -m single -d single /dev/ssd0 && mkdir -p /mnt && mount /dev/ssd0 /mnt
} > /run/o 2>&1 || { echo $(< /run/o); tear_down; exit; }
yes ssdbench | head -c 6M > /mnt/f; sync; cksum < /mnt/f; umount /mnt; mount /dev/ssd0 /mnt
cksum < /mnt/f; umount /mnt; awk '$1 == "zone_appends" {print ($2 > 10)}' $F/counters; tear_down
"""


@pytest.mark.soak
def test_btrfs_appends_to_zones(guest: Guest) -> None:
    answer = guest(SETUP + BTRFS)

    written, found, appended = answer.stdout.splitlines()
    assert (written, appended) == (found, "1")


@pytest.mark.soak
def test_where_the_drive_has_no_append_the_kernel_writes_in_its_place(
    guest: Guest, lab: Lab
) -> None:
    answer = guest(f"{SETUP}\nOPTIONS=zone_append_max_sectors=0\n{BTRFS}")

    said = answer.stdout.splitlines()
    if lab.kernel.release.startswith("6.1."):  # it does so since 6.10
        assert said == ["ERROR: zoned: device /dev/ssd0 does not support ZONE_APPEND command"]
    else:
        written, found, appended = said
        assert (written, appended) == (found, "0")


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
settle: {window: 1s, flat: 1s, spare: 1%}
measure:
  - sweep: {pattern: sequential, block: 64KiB, iodepth: 4}
  - sweep: {pattern: [random, sequential], block: 64KiB, read: 100, iodepth: 4}
"""
# Each makes a drive of 16 zones, sets where it is, and counts the resets that reach it.
DRIVES = {
    "flash": """
        set_up lba_bytes=4096 zoned=1 zone_size=4 zone_capacity=$HOLDS; D=/dev/ssd0
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
    ("drive", "holds"), [("flash", 4), ("flash", 3), ("null_blk", 4), ("null_blk", 3), ("QEMU", 4)]
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
