"""A whole run on an emulated NVMe drive, while somebody sets the wall clock: nothing is lost by it.

One guest serves all, because a guest costs half a minute. QEMU's null device takes the writes, and
the run directory is in the guest's memory.
"""

import json

import pytest

from tests.vm.conftest import REPOSITORY, Guest

# Endurance tests, because a run in a guest takes minutes.
pytestmark = [pytest.mark.vm, pytest.mark.soak]

DAY_S = 86_400
DRIVE_BYTES = 64 << 20
PROFILE = """\
host: {read_ahead_kb: 4}
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 30s}
repeats: 1
window: 3s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {read: 50, block: 4KiB, iodepth: 4}}]
"""
SCRIPT = r"""
import json, os, signal, subprocess, sys, time
from pathlib import Path
import numpy as np
from ssdbench.engine.hostsettings import boot_id, host_id, host_backends, restore
from ssdbench.host.sysfs import Sysfs
from ssdbench.target.inspect import inspect
from ssdbench.tuning.journal import SettingsJournal
from ssdbench.tuning.setting import Backend, Setting

place, DAY_S, node = Path("/run/w"), 86400, "/dev/nvme0n1"
place.mkdir()
os.environ["SSDBENCH_SETTINGS"] = str(place / "settings")
(place / "p.yaml").write_text(os.environ["PROFILE"])
ahead = Path("/sys/block/nvme0n1/queue/read_ahead_kb")
was, said = ahead.read_text(), {}

def step(days):
    time.clock_settime(time.CLOCK_REALTIME, time.time() + days * DAY_S)

def begun(stage, after=0):
    journal, until = place / "run/journal.jsonl", time.monotonic() + 150
    while time.monotonic() < until:
        if journal.exists() and stage in journal.read_text()[after:]:
            return
        time.sleep(0.2)

def started(*arguments):
    return subprocess.Popen([sys.executable, "-m", "ssdbench", *arguments], stdout=2)

run = started("run", str(place / "p.yaml"), "--target", node, "--output", str(place / "run"))
begun("02-steady")
time.sleep(2)
step(-400)  # fio is at work, with logs open
time.sleep(2)
run.send_signal(signal.SIGKILL)
run.wait()
said["changed"] = ahead.read_text() != was
step(800)
known = (place / "run/journal.jsonl").stat().st_size
run = started("resume", str(place / "run"))
begun("03-sweep", known)
time.sleep(4)
step(-1)  # back while the point is measured
said["status"] = run.wait()
said["put back"] = ahead.read_text() == was
result = json.loads((place / "run/result.json").read_text())
said["written"] = result["stages"][0]["bytes_written"]
said["findings"] = [f["code"] for s in [result, *result["stages"]] for f in s["findings"]]
point = next(p for s in result["stages"] for p in s["found"].get("points", ()))
said["findings"] += [f["code"] for f in point["findings"]]
said["lengths"] = [s[k] for s in result["stages"] for k in ("duration_s", "wall_s")]
said["window"] = [r["measure_to_s"] - r["measure_from_s"] for r in point["repeats"]]
said["latency"] = {e["metric"]: [e["value"], e["n"]] for e in point["estimates"]
                   if e["metric"].startswith("lat_")}
repeat = point["repeats"][0]
with np.load(place / "run" / repeat["artifacts"] / "histograms.npz") as kept:
    said["logged"] = int(sum(kept[d].sum() for d in ("read", "write")))
    said["counted"] = int(sum(kept[d].sum() for d in ("read_ios", "write_ios")))

# Two dead runs changed one setting, the later one at the earlier time.
sysfs, drive = Sysfs(), inspect(node).id
for name, value in (("a", "8"), ("b", "16")):
    dead = SettingsJournal(place / "settings" / (name + ".jsonl"), host_backends(sysfs),
                           boot_id=boot_id(sysfs), host_id=host_id(sysfs))
    dead.__enter__()
    dead.apply([Setting(Backend.BLOCK, "queue/read_ahead_kb", value, "test", drive)])
    dead._lock.__exit__()
    step(-30)
said["restored"] = [change.was for change in restore()]
said["put back in order"] = ahead.read_text() == was
print(json.dumps(said))
"""


def test_a_run_whose_wall_clock_is_set_loses_no_latency_no_second_and_no_order(
    guest: Guest,
) -> None:
    answer = guest(
        f"export PROFILE=\"$(cat <<'END'\n{PROFILE}\nEND\n)\";"
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("nvme=null:64MiB",),
        modules=False,
        fresh=True,  # its clock is no longer right
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    assert said["status"] == 1, answer.stderr  # one repeat validates nothing
    assert said["changed"]
    assert said["put back"]
    assert said["written"] >= DRIVE_BYTES
    assert not {"fill-unproven", "io-errors"} & set(said["findings"]), said
    assert "resumed" in said["findings"]
    assert all(0 <= length < DAY_S / 24 for length in said["lengths"]), said
    assert said["window"] == pytest.approx([3.0], rel=0.5)
    # A row of fio's log is a second: what was finished at both ends may fall to either side.
    assert said["logged"] == pytest.approx(said["counted"], rel=0.5)
    assert said["counted"] > 0
    assert said["latency"]
    assert said["restored"] == ["8", str(int(said["restored"][1]))]
    assert said["put back in order"]
