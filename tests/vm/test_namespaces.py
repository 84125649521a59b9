"""NVMe namespaces of two controllers, over TCP and write-protected; SCSI units that are reserved.

One guest serves all, because a guest costs half a minute. The kernel's own NVMe target gives what
QEMU's drives lack: a network and write protection; its SCSI target, reservations. No emulation has
a sanitize, or a format that changes all namespaces: those are refused and driven in
tests/unit/target with pages and a fake.
"""

import json
import os
from pathlib import Path

import pytest

from tests.vm.conftest import REPOSITORY, Guest

pytestmark = pytest.mark.vm

NAMESPACE_BYTES = 32 << 20
CONTROLLERS = (
    "-device", "nvme-subsys,id=sub0,nqn=ssdbench",
    "-device", "nvme,id=c0,serial=TWIN,subsys=sub0",
    "-device", "nvme,id=c1,serial=TWIN,subsys=sub0",
)  # fmt: skip
# The first is reached by both controllers, each of the others by one.
ATTACHED = ("bus=c0,nsid=1,shared=on", "bus=c0,nsid=2,shared=off", "bus=c1,nsid=3,shared=off")
SCRIPT = r"""
import fcntl, json, os, struct, subprocess, time
from pathlib import Path
from ssdbench.engine.hostsettings import applied
from ssdbench.engine.hostsettings import planned_host
from ssdbench.errors import SsdbenchError
from ssdbench.host import nvme as bus
from ssdbench.host import scsi
from ssdbench.host.counters import disk_counters
from ssdbench.host.sysfs import Sysfs, chosen
from ssdbench.model.profile import Host, Purge
from ssdbench.model.target import Consent
from ssdbench.target import guard
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import find, identities, inspect
from ssdbench.target.purge import purge

PATTERN, MIB = b"ssdbench" * (1 << 17), 1 << 20
REGISTER, RESERVE, RELEASE = 0x401870C8, 0x401070C9, 0x401070CA  # <linux/pr.h>
WRITE_EXCLUSIVE = 1
said = {}

def reasons(node, *, ours=False, **options):
    try:
        guard.check(inspect(node), Consent(overwrite=True, **options), held=0 if ours else None)
    except SsdbenchError as error:
        return list(getattr(error, "reasons", [error.message]))
    return ["PASSED"]

def head(nsid, serial="TWIN"):
    for d in Path("/sys/block").glob("nvme*"):
        if (d / "hidden").read_text().strip() == "0" and (d / "nsid").read_text().strip() == nsid:
            if (d / "device/serial").read_text().strip() == serial:
                return "/dev/" + d.name

def awaited(what, *given):
    for _ in range(150):
        if found := what(*given):
            return found
        time.sleep(0.2)

def filled(node):
    Path(node).write_bytes(PATTERN * 4)

def holds(node):
    with open(node, "rb") as disk:
        return disk.read(4 * MIB) == PATTERN * 4

shared, mine, others = (awaited(head, nsid) for nsid in "123")
for node in (shared, mine, others):
    filled(node)
name = Path(shared).name
with disk_counters(Path("/sys/block", name, "dev").read_text().strip()) as disk:
    before = disk.read()
    filled(shared)
    said["counted"] = disk.read().write_bytes - before.write_bytes
said["hidden"] = len([d for d in Path("/sys/block").glob("nvme*c*n*")])
said["two paths"] = reasons(shared)
said["two paths, chosen"] = reasons(shared, shared=True)
said["one path"] = reasons(mine)
info = inspect(shared)
said["found"] = [find(info.id) == Path(shared).name, identities()[info.id] == shared]
# The head has no queue of requests: what concerns that is set on both paths, and put back.
paths = sorted(Path("/sys/block").glob("nvme*c*n%s" % Path(shared).name.rpartition("n")[2]))
looked = [Path(shared).name + "/queue/read_ahead_kb"]
looked += ["%s/queue/%s" % (p.name, a) for p in paths
           for a in ("scheduler", "nr_requests", "nomerges")]
now = lambda: [chosen(Sysfs().read("/sys/block/" + name)) for name in looked]
was = now()
wishes = Host(scheduler="mq-deadline", nr_requests=32, nomerges=2, read_ahead_kb=4)
with applied(planned_host(wishes, info), "tried"):
    said["set"] = now()
said["put back"] = now() == was
said["path facts"] = info.facts.get("paths"), info.facts.get("path policy")
with Claim(info, Consent(overwrite=True, shared=True)) as claim:
    try:
        purge(info, Purge.SANITIZE, claim.fd)
        said["sanitize"] = ["PASSED"]
    except SsdbenchError as error:
        said["sanitize"] = list(error.reasons)
    said["kept"] = [holds(node) for node in (shared, mine, others)]
    said["format"] = [purge(info, Purge.FORMAT, claim.fd).said]
    said["kept after format"] = [holds(node) for node in (shared, mine, others)]
    # The second path goes: the drive is the same one, and no choice is left to make.
    Path("/sys/class/nvme/nvme1/device/remove").write_text("1")
    awaited(lambda: not Path("/sys/class/nvme/nvme1").exists())
    claim.check()
    said["one path left"] = reasons(shared, ours=True)

# A namespace that the kernel serves to itself over TCP, then write-protected.
target = Path("/sys/kernel/config/nvmet")
space = target / "subsystems/net/namespaces/1"
port = target / "ports/1"
for directory in (target / "subsystems/net", space, port):
    directory.mkdir()
(target / "subsystems/net/attr_allow_any_host").write_text("1")
(space / "device_path").write_text("/dev/vda")
(space / "enable").write_text("1")
for name, value in {"trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1",
                    "trsvcid": "4420"}.items():
    (port / ("addr_" + name)).write_text(value)
(port / "subsystems/net").symlink_to(target / "subsystems/net")
fabrics = open("/dev/nvme-fabrics", "r+b", buffering=0)
fabrics.write(b"transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=net")
served = (target / "subsystems/net/attr_serial").read_text().strip()
far = awaited(head, "1", served)
said["network"] = reasons(far)
with bus.opened(Path(far)) as drive:
    drive.set_feature(0x84, 1, nsid=1)
awaited(lambda: Sysfs().number("/sys/block/%s/ro" % Path(far).name))
said["write-protected"] = reasons(far)
said["served"] = reasons("/dev/vda")
with bus.opened(Path(far)) as drive:
    drive.set_feature(0x84, 0, nsid=1)

# A SCSI unit of two initiators, one of which is gone from here and holds a reservation.
lio = Path("/sys/kernel/config/target")
store = lio / "core/fileio_0/unit"
store.mkdir(parents=True)
Path("/run/unit").write_bytes(bytes(32 * MIB))
(store / "control").write_text("fd_dev_name=/run/unit,fd_dev_size=%d" % (32 * MIB))
(store / "enable").write_text("1")
(store / "wwn/vpd_unit_serial").write_text("5e1f1e55")

def attached(number):
    known = set(Path("/sys/block").glob("sd*"))
    group = lio / ("loopback/naa.600140500000000%d/tpgt_1" % number)
    (group / "lun/lun_0").mkdir(parents=True)
    (group / "nexus").write_text("naa.60014050000001%d0" % number)
    (group / "lun/lun_0/unit").symlink_to(store)
    (disk,) = awaited(lambda: set(Path("/sys/block").glob("sd*")) - known)
    return "/dev/" + disk.name

mine, theirs = attached(1), attached(2)
said["two initiators"] = reasons(mine)
said["not reserved"] = reasons(mine, shared=True)
sleeper = subprocess.Popen(["sleep", "600"], stdin=open(theirs, "rb"))
claim = os.open(theirs, os.O_RDONLY | os.O_EXCL)
said["used through the other"] = reasons(mine, shared=True)
os.close(claim)
sleeper.kill()
sleeper.wait()
# Two nodes of one name, as of an NVMe drive with `multipath=N`: the one that was named is set.
info = inspect(mine)
said["chosen"] = [find(info.id), find(info.here) == Path(mine).name]
ahead = lambda: [Sysfs().read("/sys/block/%s/queue/read_ahead_kb" % Path(node).name)
                 for node in (mine, theirs)]
was = ahead()
with applied(planned_host(Host(read_ahead_kb=4), info), "tried"):
    said["chosen"] += [ahead() == ["4", was[1]]]
said["chosen"] += [ahead() == was]
holder = os.open(theirs, os.O_RDWR)
fcntl.ioctl(holder, REGISTER, struct.pack("=QQII", 0, 7, 0, 0))
fcntl.ioctl(holder, RESERVE, struct.pack("=QII", 7, WRITE_EXCLUSIVE, 0))
said["reserved"] = reasons(mine, shared=True)
try:
    said["written"] = os.pwrite(os.open(mine, os.O_RDWR | os.O_DSYNC), bytes(4096), 0)
except OSError as error:
    said["written"] = 0
fcntl.ioctl(holder, RELEASE, struct.pack("=QII", 7, WRITE_EXCLUSIVE, 0))
fcntl.ioctl(holder, REGISTER, struct.pack("=QQII", 7, 0, 0, 0))
said["released"] = reasons(mine, shared=True)
with scsi.opened(Path(theirs), writes=True) as disk:
    disk.command(bytes([0x16, 0, 0, 0, 0, 0]))
    said["reserved as of old"] = reasons(mine, shared=True)
    disk.command(bytes([0x17, 0, 0, 0, 0, 0]))
said["released as of old"] = reasons(mine, shared=True)
print(json.dumps(said))
"""


def images(directory: Path) -> list[str]:
    made = []
    for number, where in enumerate(ATTACHED):
        path = directory / f"n{number}"
        path.touch()
        os.truncate(path, NAMESPACE_BYTES)
        made += ["-blockdev", f"driver=file,filename={path},node-name=n{number}"]
        made += ["-device", f"nvme-ns,drive=n{number},{where}"]
    return made


def test_a_drive_of_two_paths_is_one_drive_and_its_siblings_are_never_taken_along(
    guest: Guest, tmp_path: Path
) -> None:
    answer = guest(
        "modprobe -a nvmet nvmet-tcp nvme-tcp target_core_file tcm_loop;"
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("virtio=null:64MiB",),
        devices=(*CONTROLLERS, *images(tmp_path)),
        multipath=True,
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    attached = "its namespace may be attached to other controllers"
    assert said["hidden"] == 4  # paths
    assert said["counted"] == 4 << 20  # on Linux 6.1 by the paths
    assert set(said["two paths"]) == {"other live paths lead to it: nvme0, nvme1", attached}
    assert said["two paths, chosen"] == said["one path"] == ["PASSED"]
    assert said["found"] == [True, True]
    assert said["set"] == ["4", *(2 * ["mq-deadline", "32", "2"])]
    assert said["put back"]
    assert said["path facts"][0].count("nvme") == 2
    assert said["path facts"][1]
    assert "a sanitize erases all namespaces of the subsystem (1, 2, 3)" in said["sanitize"]
    assert said["kept"] == [True, True, True]
    assert "NVMe format" in said["format"][0]
    assert said["kept after format"] == [False, True, True]
    assert said["one path left"] == [attached]
    assert any("a network (NVMe over tcp)" in reason for reason in said["network"])
    assert not any("read-only" in reason for reason in said["network"])
    protected = {"it is read-only", "its namespace is write-protected"}
    assert protected <= set(said["write-protected"])
    assert any("NVMe target" in reason for reason in said["served"])
    assert said["two initiators"][0].startswith("other live paths lead to it: sd")
    assert said["chosen"] == [None, True, True, True]
    used = "; ".join(said["used through the other"])
    assert "(sleep) has it open" in used
    assert "has claimed it" in used
    assert said["not reserved"] == said["released"] == said["released as of old"] == ["PASSED"]
    assert said["reserved"] == ["a persistent reservation is held on it"]
    assert said["written"] == 0
    assert any("answers with a reservation conflict" in r for r in said["reserved as of old"])
