"""Where the time goes on a SCSI disk, and what blktrace and btt say beside our tracepoints."""

import json

import pytest

from tests.vm.conftest import REPOSITORY, Guest

# An endurance test until it has passed on both kernels.
pytestmark = [pytest.mark.vm, pytest.mark.soak]

SCRIPT = r"""
import json, os, subprocess
from pathlib import Path
from ssdbench.engine.hosting import kernel_name
from ssdbench.host.topology import topology
from ssdbench.stages.blocktrace import block_trace
from ssdbench.stages.interruptvariants import interrupt_variants
from ssdbench.target.inspect import inspect

said = {}
for place in sorted(Path("/sys/block").iterdir()):
    bus = next((b for p, b in (("nvme", "nvme"), ("sd", "scsi"), ("vd", "virtio"))
                if place.name.startswith(p)), None)
    bus = "ahci" if bus == "scsi" and "/ata" in str(place.resolve()) else bus
    if bus is None or bus in said:
        continue
    target = inspect(f"/dev/{place.name}")
    host = topology(place.name)
    btt = bus == "nvme" and "BTT" in os.environ
    trace = block_trace(target, kernel_name(target), host.interrupts, btt=btt)
    with trace.running("lab"):
        trace.start()
        subprocess.run(
            ["dd", f"if={target.node}", "of=/dev/null", "bs=4k", "count=64", "iflag=direct"],
            check=True, stdout=2, stderr=2,
        )
        trace.stop()
    placed = interrupt_variants(host, target.id)
    moved = [v for v in placed.variants if any("/proc/irq/" in s.attribute for s in v.settings)]
    said[bus] = {"layers": trace.figures(), "moved": len(moved), "notes": placed.notes}
print(json.dumps(said))
"""


def test_the_layers_of_scsi_and_what_blktrace_says_beside(guest: Guest) -> None:
    answer = guest(
        f"export BTT=1; exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("nvme=null:64MiB", "scsi=null:64MiB"),
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout.splitlines()[-1])
    scsi, nvme = said["scsi"]["layers"], said["nvme"]["layers"]
    assert scsi["requests"] == 64
    assert scsi["driver_ns"] > 0
    assert 0 < nvme["btt_d2c_mean_ns"] <= nvme["btt_q2c_mean_ns"]
