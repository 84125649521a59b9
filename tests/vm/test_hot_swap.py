"""A drive that is exchanged for another one while it is held: noticed, and nothing is written."""

import json
import socket
from pathlib import Path
from typing import TextIO

import pytest

from ssdbench.lab.disks import parse_all
from ssdbench.lab.machine import Machine
from ssdbench.lab.session import Lab
from tests.vm.conftest import REPOSITORY

pytestmark = pytest.mark.vm

SPARE = ("-blockdev", "driver=null-co,size=67108864,read-zeroes=on,node-name=spare")
READ_ONLY = (
    "-blockdev", "driver=null-co,size=67108864,read-zeroes=on,read-only=on,node-name=fixed",
    "-device", "virtio-blk-pci,drive=fixed,serial=FIXED",
)  # fmt: skip
SCRIPT = r"""
import json, subprocess, time
from pathlib import Path
from ssdbench.errors import SsdbenchError
from ssdbench.model.target import Consent
from ssdbench.target import guard
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect

JOB = Path("/run/ssdbench-lab")
said = {}

def reasons(node, **options):
    try:
        guard.check(inspect(node), **options)
    except SsdbenchError as error:
        return list(getattr(error, "reasons", [error.message]))
    return []

fixed = next(d.name for d in Path("/sys/block").glob("vd*")
             if (d / "serial").read_text().strip() == "FIXED")
said["read-only disk"] = reasons(f"/dev/{fixed}", consent=Consent(overwrite=True))
before = inspect("/dev/nvme0n1")
with Claim(before) as claim:
    (JOB / "swap").touch()
    while not (JOB / "swapped").exists():
        time.sleep(0.2)
    for _ in range(100):
        if Path("/dev/nvme0n1").exists() or Path("/dev/nvme1n1").exists():
            break
        time.sleep(0.2)
    time.sleep(1)
    try:
        claim.check()
        said["exchanged"] = ["PASSED"]
    except SsdbenchError as error:
        said["exchanged"] = [type(error).__name__, error.message]
said["ids"] = [before.id, *(inspect(f"/dev/{d.name}").id for d in Path("/sys/block").glob("nvme*"))]
print(json.dumps(said))
"""


class Swapper:
    """Exchanges the drive through QEMU's monitor once the guest asks for it."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, job: Path) -> None:
        if self.done or not (job / "swap").exists():
            return
        self.done = True
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(60)
            monitor.connect(str(job.parent.parent / "control.sock"))
            lines = monitor.makefile("rw")
            lines.readline()  # the greeting
            self._say(lines, "qmp_capabilities")
            self._say(lines, "device_del", id="dev0")
            while "DEVICE_DELETED" not in lines.readline():
                pass
            self._say(
                lines, "device_add", driver="nvme", id="other", bus="port0", drive="spare",
                serial="ANOTHER",
            )  # fmt: skip
        (job / "swapped").touch()

    @staticmethod
    def _say(monitor: TextIO, command: str, **arguments: str) -> None:
        monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        monitor.flush()
        while "return" not in (answer := json.loads(monitor.readline())):
            assert "error" not in answer, answer


def test_a_drive_that_was_exchanged_under_the_claim_is_never_taken_for_the_first(lab: Lab) -> None:
    (disk,) = parse_all(["nvme,hotplug=null:64MiB"])
    machine = Machine(disks=(disk.disk,), devices=(*SPARE, *READ_ONLY), kvm=lab.kvm_works())

    answer = lab.run(
        [f"{REPOSITORY}/.venv/bin/python", "-c", SCRIPT],
        machine=machine,
        cwd=REPOSITORY,
        timeout_s=400,
        while_running=Swapper(),
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    assert said["exchanged"][0] == "DeviceLost", said
    assert len(set(said["ids"])) == len(said["ids"]) == 2
    assert "it is read-only" in said["read-only disk"]
