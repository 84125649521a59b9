"""Where the time goes on drives with real drivers: NVMe, AHCI and virtio in the lab."""

import json

import pytest

from tests.vm.conftest import REPOSITORY, Guest

pytestmark = pytest.mark.vm

SCRIPT = r"""
import json, subprocess
from pathlib import Path
from ssdbench.engine.hosting import kernel_name
from ssdbench.host.topology import topology
from ssdbench.stages.blocktrace import block_trace
from ssdbench.stages.interruptvariants import interrupt_variants
from ssdbench.target.inspect import inspect

said = {}
for place in sorted(Path("/sys/block").iterdir()):
    bus = {"nvm": "nvme", "sda": "ahci", "vda": "virtio"}.get(place.name[:3])
    if bus is None or bus in said:
        continue
    target = inspect(f"/dev/{place.name}")
    host = topology(place.name)
    trace = block_trace(target, kernel_name(target), host.interrupts)
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


def test_the_layers_and_the_interrupts_of_three_buses(guest: Guest) -> None:
    answer = guest(
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("nvme=null:64MiB", "ahci=null:64MiB", "virtio=null:64MiB"),
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout.splitlines()[-1])
    for bus in ("nvme", "ahci", "virtio"):
        layers = said[bus]["layers"]
        assert layers["requests"] == 64
        assert 0 < layers["completion_ns"] < layers["whole_ns"], bus
    assert said["nvme"]["layers"]["driver_ns"] > 0
    assert said["ahci"]["layers"]["driver_ns"] > 0  # through SCSI's own tracepoint
    assert said["ahci"]["moved"] > 0  # one interrupt, which goes where it is told
    assert said["nvme"]["moved"] == 0
    assert any("managed interrupts" in note for note in said["nvme"]["notes"])
