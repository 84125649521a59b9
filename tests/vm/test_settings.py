"""Settings inside drives, interrupts and modules: a killed run's are put back, on the right drive.

One guest serves all, because a guest costs half a minute.
"""

import json

import pytest

from tests.vm.conftest import REPOSITORY, Guest

# Endurance tests, because a run in a guest takes minutes.
pytestmark = [pytest.mark.vm, pytest.mark.soak]

PROFILE = """\
host: {write_cache: off, scheduler: none, nr_requests: 32, read_ahead_kb: 4,
  kernel_modules: [brd]}
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 60s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {read: 0, iodepth: 4}}]
"""
SCRIPT = r"""
import json, os, shutil, signal, subprocess, sys, time
from pathlib import Path
from ssdbench.engine.hostsettings import applied, restore
from ssdbench.engine.hostsettings import planned_host
from ssdbench.errors import SsdbenchError
from ssdbench.host import nvme
from ssdbench.host.sysfs import Sysfs, chosen
from ssdbench.model.profile import Host
from ssdbench.target.inspect import find, inspect
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting

sysfs, said, place = Sysfs(), {}, Path("/run/w")
place.mkdir()
os.environ["SSDBENCH_SETTINGS"] = str(place / "settings")

def cache(name):
    with nvme.opened(Path("/dev/" + name)) as drive:
        return drive.feature(6).result

def state(name):
    queue = "/sys/block/" + name + "/queue/"
    found = {a: chosen(sysfs.read(queue + a)) for a in sysfs.names(queue)
             if sysfs.find(queue + a) is not None}
    for irq in sysfs.names("/proc/irq"):
        found[irq] = sysfs.find(f"/proc/irq/{irq}/smp_affinity_list") or ""
    found["cache"] = str(cache(name))
    found["modules"] = str(sorted(l.split()[0] for l in sysfs.read("/proc/modules").splitlines()))
    found["mounts"] = sysfs.read("/proc/self/mountinfo")
    return found

def differs(one, two):
    return sorted(k for k in one | two if one.get(k) != two.get(k))

first, second = (inspect("/dev/nvme%dn1" % n) for n in (0, 1))
name = find(first.id)
before = state(name)
(place / "p.yaml").write_text(os.environ["PROFILE"])
run = subprocess.Popen([sys.executable, "-m", "ssdbench", "run", str(place / "p.yaml"),
    "--target", "/dev/" + name, "--output", str(place / "run")], stdout=2)
journal = place / "run/journal.jsonl"
until = time.monotonic() + 200
while run.poll() is None and time.monotonic() < until:
    if journal.exists() and "02-steady" in journal.read_text():
        break
    time.sleep(0.1)
run.send_signal(signal.SIGKILL)
run.wait()
if not (place / "settings").exists():
    sys.exit("the run never set anything: " + "".join(
        p.read_text() for p in Path("/var/lib/ssdbench").glob("traceback*")))
time.sleep(1)
said["changed"] = differs(before, state(name))
shutil.copytree(place / "settings", place / "kept")
done = subprocess.run([sys.executable, "-m", "ssdbench", "restore"], capture_output=True, text=True)
said["restore"] = done.returncode, done.stdout, done.stderr
said["left"] = differs(before, state(name))

# The drives change places; a journal of a dead run is found again for the drive, not the name.
pci = {n: sysfs.path("/sys/block/%s/device/device" % n).resolve().name for n in
       (find(first.id), find(second.id))}
was = sysfs.read("/sys/block/%s/queue/read_ahead_kb" % name)
for address in pci.values():
    Path("/sys/bus/pci/drivers/nvme/unbind").write_text(address)
for address in reversed(pci.values()):
    Path("/sys/bus/pci/drivers/nvme/bind").write_text(address)
    time.sleep(2)
now = find(first.id), find(second.id)
said["moved"] = name, *now
for one in now:
    sysfs.write("/sys/block/%s/queue/read_ahead_kb" % one, "4")
shutil.rmtree(place / "settings")
shutil.copytree(place / "kept", place / "settings")
restore()
said["read-ahead"] = [sysfs.read("/sys/block/%s/queue/read_ahead_kb" % one) for one in now]
said["read-ahead was"] = was

# Another boot: the queue is as the system made it, the drive's cache is not.
shutil.rmtree(place / "settings")
shutil.copytree(place / "kept", place / "settings")
for file in (place / "settings").glob("*.jsonl"):
    boot = sysfs.read("/proc/sys/kernel/random/boot_id").strip()
    file.write_text(file.read_text().replace(boot, "another"))
sysfs.write("/sys/block/%s/queue/read_ahead_kb" % now[0], "8")
with nvme.opened(Path("/dev/" + now[0])) as drive:
    drive.set_feature(6, 0)
said["after a boot"] = sorted(c.attribute for c in restore())
said["after a boot, there"] = (
    cache(now[0]), sysfs.read("/sys/block/%s/queue/read_ahead_kb" % now[0]))

# Media that no run above used.
def tried(setting, look):
    try:
        with applied(HostPlan(settings=(setting,)), "tried"):
            return look()
    except SsdbenchError as error:
        return error.message
disk = inspect("/dev/sda")
kind = lambda: sysfs.read("/sys/block/sda/device/scsi_disk/%s/cache_type" % sysfs.names(
    "/sys/block/sda/device/scsi_disk")[0])
said["disk cache"] = [kind(), tried(
    Setting(Backend.WRITE_CACHE, "cache_type", "write through", "test", disk.id), kind), kind()]
# The kernel keeps the vectors of NVMe queues to itself; those of AHCI can be moved.
moved = [s for s in planned_host(Host(irq_affinity="local", fio_cpus=(1,)), disk).settings
         if s.backend is Backend.IRQ]
handled = lambda: [sysfs.read(s.attribute).strip() for s in moved]
before = handled()
with applied(HostPlan(settings=tuple(moved)), "moved"):
    said["interrupts"] = [len(moved), handled()]
said["interrupts"].append(handled() == before)
said["refused"] = tried(
    Setting(Backend.NVME_FEATURE, "0x08", "261", "test", second.id), lambda: "taken")

# A drive that is pulled out while fio is at work on it.
text = os.environ["PROFILE"].replace("off", "keep").replace("[brd]", "[]")
(place / "p.yaml").write_text(text)
run = subprocess.Popen([sys.executable, "-m", "ssdbench", "run", str(place / "p.yaml"), "--target",
    "/dev/" + now[1], "--output", str(place / "gone")], stdout=2, stderr=subprocess.PIPE, text=True)
journal = place / "gone/journal.jsonl"
until = time.monotonic() + 120
while run.poll() is None and time.monotonic() < until:
    if journal.exists() and "02-steady" in journal.read_text():
        break
    time.sleep(0.1)
time.sleep(3)
Path("/sys/block/%s/device/device/remove" % now[1]).write_text("1")
errors = run.communicate(timeout=120)[1]
fios = subprocess.run(["pidof", "fio"], capture_output=True, text=True).stdout
said["pulled out"] = run.returncode, errors[-600:], fios
print(json.dumps(said))
"""


def test_settings_of_a_killed_run_are_put_back_on_the_drive_that_they_belong_to(
    guest: Guest,
) -> None:
    answer = guest(
        f"export PROFILE=\"$(cat <<'END'\n{PROFILE}\nEND\n)\";"
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("nvme,queues=1=null:64MiB", "nvme,queues=1=null:64MiB", "ahci=null:64MiB"),
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    queue = {"scheduler", "nr_requests", "read_ahead_kb"}
    assert {"cache", "modules", *queue} <= set(said["changed"])
    assert said["restore"][0] == 0, said["restore"]
    assert "0x06: restored to 1 (was 0)" in said["restore"][1]
    assert said["left"] == []
    old, now, other = said["moved"]
    assert old == other != now
    assert said["read-ahead"] == [said["read-ahead was"], "4"]
    assert said["after a boot"] == ["0x06"]
    assert said["after a boot, there"] == [1, "8"]
    assert said["disk cache"] == ["write back", "write through", "write back"]
    count, there, back = said["interrupts"]
    assert (count, there, back) == (count, ["1"] * count, True)
    assert count >= 1
    assert "feature 0x08 cannot be set" in said["refused"]
    status, words, fios = said["pulled out"]
    assert status == 5, words
    assert "were not restored" not in words  # that the drive is gone says it all
    assert "Traceback" not in words
    assert fios == ""
