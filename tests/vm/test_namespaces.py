"""NVMe namespaces behind multipath heads, of two controllers, over TCP and write-protected.

One guest serves all, because a guest costs half a minute. The kernel's own NVMe target gives what
QEMU's drives lack: a network and write protection. No emulation has a sanitize, or a format that
changes all namespaces: those are refused and driven in tests/unit/target with pages and a fake.
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
import json, time
from pathlib import Path
from ssdbench.engine.applied import applied
from ssdbench.errors import SsdbenchError
from ssdbench.host import nvme as bus
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.profile import Purge
from ssdbench.target import guard
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import find, identities, inspect
from ssdbench.target.purge import purge
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Medium, Setting

PATTERN, MIB = b"ssdbench" * (1 << 17), 1 << 20
said = {}

def reasons(node, **options):
    try:
        guard.check(inspect(node), overwrite_signatures=True, **options)
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
said["hidden"] = len([d for d in Path("/sys/block").glob("nvme*c*n*")])
said["two paths"] = reasons(shared)
said["two paths, chosen"] = reasons(shared, accept_shared=True)
said["one path"] = reasons(mine)
info = inspect(shared)
said["found"] = [find(info.id) == Path(shared).name, identities()[info.id] == shared]
queue = Path("/sys/block") / Path(shared).name / "queue/read_ahead_kb"
was = queue.read_text()
with applied(HostPlan(settings=(
        Setting(Medium.BLOCK, "queue/read_ahead_kb", "4", "test", info.id),)), "tried"):
    said["set"] = [queue.read_text().strip()]
said["set"].append(queue.read_text() == was)
with Claim(info, overwrite_signatures=True, accept_shared=True) as claim:
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
        "modprobe -a nvmet nvmet-tcp nvme-tcp;"
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
    assert set(said["two paths"]) == {"further live paths lead to it: nvme0, nvme1", attached}
    assert said["two paths, chosen"] == said["one path"] == ["PASSED"]
    assert said["found"] == [True, True]
    assert said["set"] == ["4", True]
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
