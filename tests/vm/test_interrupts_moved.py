"""An interrupt is moved, the kernel's counts show it, and it is put back after a kill."""

import json

import pytest

from tests.vm.conftest import REPOSITORY, Guest

pytestmark = pytest.mark.vm

SCRIPT = r"""
import json, os, signal, subprocess, sys, time
from pathlib import Path
from ssdbench.engine.hostsettings import planned_host
from ssdbench.model.profile import Host
from ssdbench.target.inspect import inspect
from ssdbench.tuning.setting import Backend
os.environ["SSDBENCH_SETTINGS"] = "/run/settings"
CHILD = '''
import os, sys, time
from ssdbench.engine.hostsettings import applied, planned_host
from ssdbench.model.profile import Host
from ssdbench.target.inspect import inspect
disk = inspect("/dev/sda")
with applied(planned_host(Host(irq_affinity="local", fio_cpus=(1,)), disk), "moved"):
    print("moved", flush=True)
    time.sleep(600)
'''
disk, nvme = inspect("/dev/sda"), inspect("/dev/nvme0n1")
moved = [s for s in planned_host(Host(irq_affinity="local", fio_cpus=(1,)), disk).settings
         if s.backend is Backend.IRQ]
irqs = [s.attribute.split("/")[3] for s in moved]
places = lambda: [Path(s.attribute).read_text().strip() for s in moved]
def counted():
    cpus = [0, 0]
    for line in Path("/proc/interrupts").read_text().splitlines():
        if (words := line.split())[0].rstrip(":") in irqs:
            cpus = [cpus[n] + int(words[1 + n]) for n in (0, 1)]
    return cpus
def of_64_reads():
    before = counted()
    subprocess.run(["dd", "if=/dev/sda", "of=/dev/null", "bs=4k", "count=64", "iflag=direct"],
                   check=True, stderr=subprocess.DEVNULL)
    return [b - a for a, b in zip(before, counted())]
said = {"irqs": len(irqs), "before": places()}
said["reads before"] = of_64_reads()
child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
said["moved"] = places()
said["reads moved"] = of_64_reads()
child.kill()
child.wait()
said["killed"] = places()
done = subprocess.run([sys.executable, "-m", "ssdbench", "restore"], capture_output=True, text=True)
said["restored"] = done.returncode, places()
said["reads after"] = of_64_reads()
plan = planned_host(Host(irq_affinity="local", fio_cpus=(1,)), nvme)
said["nvme"] = [len([s for s in plan.settings if s.backend is Backend.IRQ]), *plan.notes]
print(json.dumps(said))
"""


def test_an_interrupt_of_ahci_moves_and_comes_back_and_those_of_nvme_stay(guest: Guest) -> None:
    answer = guest(
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("ahci=null:64MiB", "nvme=null:64MiB"),
        modules=False,
        devices=("-smp", "2"),
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    count = said["irqs"]
    assert count >= 1
    assert said["reads moved"][0] <= count  # the next interrupt moves, and not this one
    assert said["reads moved"][1] >= 64
    assert said["moved"] == said["killed"] == ["1"] * count
    assert said["restored"] == [0, said["before"]]
    assert said["before"] != said["moved"]
    settings, note, *_ = said["nvme"]
    assert settings == 0
    assert "managed interrupts" in note
