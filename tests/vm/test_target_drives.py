"""Drives as targets in the lab: namespaces, mappings, arrays, two paths, zones, and purges.

One guest serves all states, because a guest costs half a minute.
"""

import json

import pytest

from tests.vm.conftest import REPOSITORY, TWO_PATHS, Guest

pytestmark = pytest.mark.vm

FILL_BYTES = 64 << 20
PAST_BYTES = 32 << 20  # by the generic node, which no counter of the kernel shows
UNIT_BYTES = 512_000  # a health log counts in these, rounded up
SCRIPT = r"""
import json, os, subprocess, hashlib
from pathlib import Path
from ssdbench.engine.drivelogs import store_pages
from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.errors import SsdbenchError
from ssdbench.stages.precondition import fill_proof
from ssdbench.target.nvme import CONTROLLER, SMART, controller, data_written_bytes
from ssdbench.model.profile import Purge
from ssdbench.model.target import Consent
from ssdbench.target import guard, consent
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from ssdbench.target.purge import purge

def sh(text):
    subprocess.run(["sh", "-ec", text], check=True, stdout=2, stderr=2)

def stored_pages(directory):
    listed = json.loads((directory / "index.json").read_text())["pages"]
    return {page["name"]: (directory / page["file"]).read_bytes() for page in listed}

def digest(node):
    return hashlib.sha256(Path(node).read_bytes()[: 8 << 20]).hexdigest()

said = {}
def refused(state, node):
    before = digest(node)
    try:
        guard.check(inspect(node), Consent(overwrite=True))
        said[state] = ["PASSED"]
    except SsdbenchError as error:
        said[state] = list(getattr(error, "reasons", [error.message]))
    if digest(node) != before:
        said[state].append("BYTES CHANGED")

names = {}
for d in Path("/sys/block").iterdir():
    shown = [p for p in (d / "device/serial", d / "serial") if p.exists()]
    names[d.name] = shown[0].read_text().strip() if shown else ""
twins = sorted(n for n, s in names.items() if s == "TWIN")
# By 6.12 namespaces are scanned side by side, so that n1 need not be the first.
nsid = lambda n: Path("/sys/block", n, "nsid").read_text().strip()
zones = next(n for n, s in names.items() if s == "SSDBENCH-LAB-4")
first = next(n for n, s in names.items() if s == "SSDBENCH-LAB-0" and n.startswith("nvme"))
NVME = "/dev/" + first
vendors = {d.name: (d / "device/vendor").read_text().strip()
           for d in Path("/sys/block").glob("sd*")}
ATA, SCSI = ("/dev/" + next(n for n, v in vendors.items() if (v == "ATA") is ata)
             for ata in (True, False))
refused("two paths", "/dev/" + next(n for n in twins if nsid(n) == "1"))
refused("zoned", "/dev/" + zones)
said["zones"] = [inspect("/dev/" + zones).facts["zones"]]
put = "dd if=/dev/urandom of=/dev/%s bs=64k count=1 oflag=direct seek=%s conv=notrunc"
def writes(at):
    return not subprocess.run(put % (zones, at), shell=True, stderr=2).returncode
written, skipped, again = writes(0), writes(5), writes(0)
sh("blkzone reset -o 0 -c 1 /dev/" + zones)
with open("/dev/" + zones, "rb") as f:
    said["in zones"] = [written, skipped, again, any(f.read(65536)), writes(0)]
lab = inspect(NVME)
said["lab consent"] = [str(consent.implied(lab))]
said["twin consent"] = [str(consent.implied(inspect("/dev/" + twins[0])))]
said["ids"] = sorted(inspect("/dev/" + n).id for n in [*twins, ATA[5:], SCSI[5:], first])
with Claim(lab) as claim:
    session = ClaimedSession(lab, claim)
    store_pages(lab, Path("/run/before"))
    counted, told = session.counters(), session.health_written_bytes()
    sh(f"dd if=/dev/zero of={NVME} bs=1M count=64 oflag=direct")
    told = session.health_written_bytes() - told
    proven = fill_proof(64 << 20, 64 << 20, counted, session.counters(), told)
    said["health log"] = [told, *map(str, proven)]
    store_pages(lab, Path("/run/after"))
    counted, told = session.counters(), session.health_written_bytes()
    sh("fio --name=past --ioengine=io_uring_cmd --cmd_type=nvme --rw=write --bs=128k --size=32m "
       "--filename=" + NVME.replace("nvme", "ng"))
    said["past the kernel"] = [
        session.counters().written_bytes - counted.written_bytes,
        session.health_written_bytes() - told]
    kept = [stored_pages(Path("/run") / moment) for moment in ("before", "after")]
    said["pages"] = [
        *(controller(found[CONTROLLER]).serial for found in kept),
        data_written_bytes(kept[1][SMART]) - data_written_bytes(kept[0][SMART])]
    os.pwrite(claim.fd, b"x" * 4096, 0)
    done = purge(lab, Purge.FORMAT, claim.fd)
    said["format"] = [done.said, json.dumps(done.after)]
def purging(state, node, method):
    info = inspect(node)
    with Claim(info, Consent(overwrite=True, shared=True)) as claim:
        try:
            said[state] = [purge(info, method, claim.fd).said]
        except SsdbenchError as error:
            said[state] = list(getattr(error, "reasons", [error.message]))
purging("discard", ATA, Purge.DISCARD)
purging("no sanitize", NVME, Purge.SANITIZE)
purging("erase needs ATA security", ATA, Purge.ATA_ERASE)
purging("no ATA sanitize", ATA, Purge.SANITIZE)
purging("no SCSI sanitize", SCSI, Purge.SANITIZE)
purging("SCSI format", SCSI, Purge.FORMAT)
private = next(n for n in twins if nsid(n) == "2")
purging("format one of two", "/dev/" + private, Purge.FORMAT)
said["protection kept"] = [inspect("/dev/" + private).facts["LBA format"]]
sh("modprobe dm-mod; modprobe md-mod; modprobe raid1 || true")
sh("dmsetup create held --table '0 65536 linear " + NVME + " 0'")
refused("held by dm", NVME)
sh("dmsetup create upper --table '0 65536 linear /dev/dm-0 0'")
refused("held by dm twice", NVME)
refused("a mapping under a mapping", "/dev/dm-0")
sh("dmsetup remove upper; dmsetup remove held")
sh("mkfs.ext4 -q -F " + ATA + "; mkdir -p /run/m; modprobe ext4;"
   "mount -o ro,noload " + ATA + " /run/m")
refused("mounted", ATA)
sh("umount /run/m; mkswap /dev/vda >&2; swapon /dev/vda")
refused("swapped to", "/dev/vda")
sh("swapoff /dev/vda; blockdev --setro /dev/vda")
refused("read-only", "/dev/vda")
before = inspect(NVME)
with Claim(before, Consent(shared=True)) as claim:
    sh("echo 1 > /sys/block/" + first + "/device/device/remove")
    try:
        claim.check()
        said["pulled out"] = ["PASSED"]
    except SsdbenchError as error:
        said["pulled out"] = [type(error).__name__]
print(json.dumps(said))
"""

REFUSED = {
    "two paths": "other live paths lead to it",
    "held by dm": "in use by /dev/dm-0",
    "held by dm twice": "in use by /dev/dm-1",
    "a mapping under a mapping": "in use by /dev/dm-1",
    "mounted": "mounted on /run/m",
    "swapped to": "swaps to /dev/vda",
    "read-only": "it is read-only",
    "no sanitize": "block erase sanitize (NVMe)",
    "erase needs ATA security": "no ATA security",
    "no ATA sanitize": "block erase sanitize (ATA)",
    "no SCSI sanitize": "refused SCSI command 0x48",
    "pulled out": "DeviceLost",
}


def test_drives_of_the_lab_in_dangerous_states_are_refused_and_purges_are_told(
    guest: Guest,
) -> None:
    answer = guest(
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=(
            "nvme=null:64MiB",
            "ahci=sim:dram-ssd-2012,capacity=64MiB",
            "virtio=sim:dram-ssd-2012,capacity=64MiB",
            "scsi=null:64MiB",
            "nvme,zoned=1MiB,open=3=sim:dram-ssd-2012,capacity=64MiB",
        ),
        devices=TWO_PATHS,
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    for state, reason in REFUSED.items():
        assert any(reason in found for found in said[state]), (state, said[state])
        assert not {"PASSED", "BYTES CHANGED"} & set(said[state]), state
    assert said["zoned"] == ["PASSED"]
    assert said["in zones"] == [True, False, False, False, True]  # a reset empties sim: too
    assert said["zones"] == ["64 of 1 MiB, at most 3 open, 64 empty"]
    assert said["lab consent"] == ["True"]
    assert said["twin consent"] == ["False"]
    assert len(set(said["ids"])) == len(said["ids"])
    (told,) = said["health log"]  # no finding
    assert abs(told - FILL_BYTES) <= 2 * UNIT_BYTES
    assert said["pages"] == ["SSDBENCH-LAB-0", "SSDBENCH-LAB-0", told]
    kernel, log = said["past the kernel"]
    assert kernel == 0
    assert abs(log - PAST_BYTES) <= 2 * UNIT_BYTES
    assert "NVMe format" in said["format"][0]
    assert "fallback" in said["discard"][0]
    assert "SCSI format unit, block size and protection kept" in said["SCSI format"]
    assert "8 bytes of metadata" in said["protection kept"][0]
