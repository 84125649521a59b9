"""A drive that is pulled out while its block size is looked for: said clearly, and nothing lost."""

import json
import socket
from pathlib import Path

import pytest

from ssdbench.lab.disks import parse_all
from ssdbench.lab.machine import Machine
from ssdbench.lab.session import Lab
from tests.vm.conftest import REPOSITORY

pytestmark = [pytest.mark.vm, pytest.mark.soak]

SCRIPT = r"""
import json, subprocess, sys, time
from pathlib import Path
from ssdbench.target.inspect import inspect

JOB, RUN = Path("/run/ssdbench-lab"), Path("/run/run")
options = ["--writes", "20000", "--stride", "20KiB", "--stride", "28KiB", "--stride", "44KiB"]
process = subprocess.Popen(
    [sys.executable, "-m", "ssdbench", "detect-blocksize", "/dev/nvme0n1", "--output", str(RUN),
     "--destroy", inspect("/dev/nvme0n1").consent_id, *options],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
)
started = RUN / "stages" / "01-blocksize" / "writes-1" / "fio" / "job.fio"
while not started.exists() and process.poll() is None:
    time.sleep(0.1)
(JOB / "pull").touch()
out, err = process.communicate(timeout=300)
print(json.dumps({
    "status": process.returncode, "out": out, "err": err,
    "result": (RUN / "result.json").exists(), "node": Path("/dev/nvme0n1").exists(),
}))
"""


class Puller:
    """Takes the drive out through QEMU's monitor once the guest asks for it."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, job: Path) -> None:
        if self.done or not (job / "pull").exists():
            return
        self.done = True
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(60)
            monitor.connect(str(job.parent.parent / "control.sock"))
            lines = monitor.makefile("rw")
            lines.readline()  # the greeting
            for command in (
                {"execute": "qmp_capabilities"},
                {"execute": "device_del", "arguments": {"id": "dev0"}},
            ):
                lines.write(json.dumps(command) + "\n")
                lines.flush()
            while "DEVICE_DELETED" not in lines.readline():
                pass


def test_a_drive_that_is_pulled_out_half_way_is_lost_and_the_search_says_so(lab: Lab) -> None:
    (disk,) = parse_all(["nvme,hotplug=null:64MiB"])
    machine = Machine(disks=(disk.disk,), kvm=lab.kvm_works())

    answer = lab.run(
        [f"{REPOSITORY}/.venv/bin/python", "-c", SCRIPT],
        machine=machine,
        cwd=REPOSITORY,
        timeout_s=500,
        while_running=Puller(),
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    assert said["status"] == 5, said
    assert "error: /dev/nvme0n1 is gone" in said["err"]
    assert "all measurements are kept" in said["err"]
    assert "Traceback" not in said["err"]
    assert said["result"] and not said["node"]
