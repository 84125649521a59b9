"""Drives that fail, go and are mistaken for each other while a run is at work.

One guest serves all, because a guest costs half a minute. QEMU's null device takes the writes of
every drive, the kernel counts them, and the run directories are in the guest's memory.
"""

import json
import socket
from pathlib import Path
from typing import Any, TextIO

import pytest

from ssdbench.lab.disks import parse_all
from ssdbench.lab.machine import Machine
from ssdbench.lab.session import Lab
from tests.vm.conftest import REPOSITORY

# Endurance tests, because eight runs of ssdbench in a guest take minutes.
pytestmark = [pytest.mark.vm, pytest.mark.soak]

NULL = "driver=null-co,size=67108864,read-zeroes=on"
DEVICES = (
    "-blockdev", f"{NULL},node-name=t1", "-device", "virtio-blk-pci,drive=t1,serial=TWIN",
    "-blockdev", f"{NULL},node-name=t2", "-device", "virtio-blk-pci,drive=t2,serial=TWIN",
    # Fails every write from the first zeroing on, which no run asks for.
    "-blockdev", f"{NULL},node-name=sound",
    "-blockdev", "driver=blkdebug,node-name=failing,image=sound,"
    "set-state.0.event=pwritev_zero,set-state.0.state=1,set-state.0.new_state=2,"
    "inject-error.0.event=pwritev,inject-error.0.state=2,inject-error.0.iotype=write,"
    "inject-error.0.errno=5,inject-error.0.once=off",
    "-blockdev", "driver=raw,file=failing,node-name=front",
    "-device", "nvme,drive=front,serial=FAILS",
    "-blockdev", f"{NULL},node-name=spare1", "-blockdev", f"{NULL},node-name=spare2",
)  # fmt: skip
PROFILE = """\
host: {read_ahead_kb: 4}
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 3s}
repeats: 1
window: 60s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {read: 0, block: 4KiB, iodepth: 4}}]
"""
SCRIPT = r"""
import json, os, subprocess, sys, time
from pathlib import Path
from ssdbench.target.inspect import inspect

JOB, place = Path("/run/ssdbench-lab"), Path("/run/w")
place.mkdir()
os.environ["SSDBENCH_SETTINGS"] = str(place / "settings")
(place / "p.yaml").write_text(os.environ["PROFILE"])
(place / "short.yaml").write_text(os.environ["PROFILE"].replace("window: 60s", "window: 1s"))
said = {}

def block(name):
    return Path("/sys/block", name)

def serial(name):
    for file in "serial", "device/serial":
        if (block(name) / file).exists():
            return (block(name) / file).read_text().strip()

def named(wanted):
    return sorted(d.name for d in Path("/sys/block").iterdir() if serial(d.name) == wanted)

def written(name):  # sectors written and discarded
    fields = (block(name) / "stat").read_text().split()
    return int(fields[6]) + int(fields[13])

def ahead(name):
    return (block(name) / "queue/read_ahead_kb").read_text().strip()

def begin(*arguments):
    return subprocess.Popen([sys.executable, "-m", "ssdbench", *arguments],
                            stdout=2, stderr=subprocess.PIPE, text=True)

def run(name, *more, output="refused", profile="short.yaml"):
    return begin("run", str(place / profile), "--target", "/dev/" + name,
                 "--output", str(place / output), *more)

def ended(process, output=None):
    err = process.communicate(timeout=300)[1]
    found = {"status": process.returncode, "err": err}
    if output:
        result = json.loads((place / output / "result.json").read_text())
        found["points"] = [p for s in result["stages"] for p in s["found"].get("points", ())]
        found["settings"] = [f.name for f in (place / "settings").glob("*.jsonl")]
    return found

def measuring(output):
    journal, until = place / output / "journal.jsonl", time.monotonic() + 200
    while time.monotonic() < until:
        lines = journal.read_text().splitlines() if journal.exists() else ()
        if any('"begun"' in line and '"03-sweep' in line for line in lines):
            return time.sleep(4)
        time.sleep(0.2)

def until(answer):
    deadline = time.monotonic() + 60
    while not answer() and time.monotonic() < deadline:
        time.sleep(0.2)

# Two drives of one serial number: it is no consent, and neither is the identity of the other one.
one, other = named("TWIN")
ids = [inspect("/dev/" + name).consent_id for name in (one, other)]
said["ids"] = ids
said["by serial"] = ended(run(one, "--destroy", "serial.unknown.TWIN"))
said["by the other's"] = ended(run(one, "--destroy", ids[1]))
said["untouched"] = [written(name) for name in (one, other)]
was = ahead(one)
said["by its own"] = ended(run(one, "--destroy", ids[0], output="twin"), "twin")
said["twins"] = [written(one) > 0, written(other), ahead(one) == was]

# Every write fails from some moment of the measured part on.
(fails,) = named("FAILS")
was = ahead(fails)
process = run(fails, "--destroy", inspect("/dev/" + fails).consent_id, output="fails",
              profile="p.yaml")
measuring("fails")
subprocess.run(["blkdiscard", "-f", "-z", "-o", "0", "-l", "4096", "/dev/" + fails], stderr=2)
said["write errors"] = ended(process, "fails")
said["put back"] = ahead(fails) == was

# Pulled out while it is measured, and another drive plugged in at once; later one has its name.
(pulled,) = [n for n in named("SSDBENCH-LAB-0") if n.startswith("nvme")]
process = run(pulled, output="pulled", profile="p.yaml")
measuring("pulled")
(JOB / "swap1").touch()
until(lambda: named("ANOTHER"))
said["pulled out"] = ended(process, "pulled")
(another,) = named("ANOTHER")
said["another"] = [another == pulled, written(another), ahead(another) == was]
(JOB / "swap2").touch()
until(lambda: named("THIRD"))
(third,) = named("THIRD")
said["third has the name"] = third == pulled
said["resumed"] = ended(begin("resume", str(place / "pulled")))
said["restored"] = ended(begin("restore"))
said["third"] = [written(third), ahead(third) == was]
print(json.dumps(said))
"""


class Swapper:
    """Exchanges the drive in the slot through QEMU's monitor, each time the guest asks for it."""

    def __init__(self) -> None:
        self.waiting = [("swap1", "dev0", "ANOTHER", "spare1"), ("swap2", "in1", "THIRD", "spare2")]

    def __call__(self, job: Path) -> None:
        if not self.waiting or not (job / self.waiting[0][0]).exists():
            return
        _, leaves, serial, node = self.waiting.pop(0)
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(60)
            monitor.connect(str(job.parent.parent / "control.sock"))
            lines = monitor.makefile("rw")
            lines.readline()  # the greeting
            self._say(lines, "qmp_capabilities")
            self._say(lines, "device_del", id=leaves)
            while "DEVICE_DELETED" not in lines.readline():
                pass
            name = "in1" if serial == "ANOTHER" else "in2"
            self._say(
                lines, "device_add", driver="nvme", id=name, bus="port0", drive=node, serial=serial
            )

    @staticmethod
    def _say(monitor: TextIO, command: str, **arguments: str) -> None:
        monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        monitor.flush()
        while "return" not in (answer := json.loads(monitor.readline())):
            assert "error" not in answer, answer


@pytest.fixture(scope="module")
def said(lab: Lab) -> dict[str, Any]:
    """What became of the runs."""
    (disk,) = parse_all(["nvme,hotplug=null:64MiB"])
    machine = Machine(disks=(disk.disk,), devices=DEVICES, kvm=lab.kvm_works())
    answer = lab.run(
        ["env", f"PROFILE={PROFILE}", f"{REPOSITORY}/.venv/bin/python", "-c", SCRIPT],
        machine=machine,
        cwd=REPOSITORY,
        timeout_s=560,
        while_running=Swapper(),
    )
    assert answer.status == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    assert all("Traceback" not in part["err"] for part in found.values() if isinstance(part, dict))
    return found


def test_of_two_drives_with_one_serial_only_the_one_that_is_meant_is_written(
    said: dict[str, Any],
) -> None:
    assert said["ids"][0] != said["ids"][1]
    assert (said["by serial"]["status"], said["by the other's"]["status"]) == (3, 3)
    assert said["untouched"] == [0, 0]
    assert said["by its own"]["status"] == 1, said["by its own"]["err"]
    assert said["twins"] == [True, 0, True]


def test_writes_that_fail_in_mid_run_are_a_device_error_without_a_number(
    said: dict[str, Any],
) -> None:
    assert said["write errors"]["status"] == 5, said["write errors"]["err"]
    assert "a write at byte" in said["write errors"]["err"]
    assert (said["write errors"]["points"], said["write errors"]["settings"]) == ([], [])
    assert said["put back"]


def test_a_drive_that_takes_the_place_or_the_name_of_a_lost_one_is_never_written(
    said: dict[str, Any],
) -> None:
    lost = said["pulled out"]
    assert lost["status"] == 5, lost["err"]
    assert lost["points"] == []
    assert said["another"][1:] == [0, True]
    assert said["third has the name"]
    assert said["resumed"]["status"] == 3, said["resumed"]["err"]
    assert "SSDBENCH-LAB-0" in said["resumed"]["err"]
    assert said["third"] == [0, True]
    if lost["settings"]:
        assert "ssdbench restore" in lost["err"]
        assert said["restored"]["status"] == 4
