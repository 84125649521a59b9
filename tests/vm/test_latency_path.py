"""Where the time goes on drives with real drivers: NVMe, AHCI, virtio and SCSI in the lab."""

import json
from typing import Any

import pytest

from tests.vm.conftest import Drives

pytestmark = pytest.mark.vm

SCRIPT = r"""
import json, subprocess
from pathlib import Path
from ssdbench.target.inspect import kernel_name
from ssdbench.host.topology import topology
from ssdbench.stages.host.blocktrace import BlockTrace
from ssdbench.stages.host.variants import interrupt_variants
from ssdbench.target.inspect import inspect

said = {}
for place in sorted(Path("/sys/block").iterdir()):
    bus = next((b for p, b in (("nvme", "nvme"), ("sd", "scsi"), ("vd", "virtio"))
                if place.name.startswith(p)), None)
    bus = "ahci" if bus == "scsi" and "/ata" in str(place.resolve()) else bus
    serials = place / "device/serial"
    if bus == "nvme" and serials.read_text().strip() != "SSDBENCH-LAB-0":
        continue
    if bus is None or bus in said:
        continue
    target = inspect(f"/dev/{place.name}")
    host = topology(place.name)
    trace = BlockTrace(target, kernel_name(target), host.interrupts, btt=bus == "nvme")
    with trace.running("lab"):
        trace.start()
        subprocess.run(
            ["dd", f"if={target.node}", "of=/dev/null", "bs=4k", "count=64", "iflag=direct"],
            check=True, stdout=2, stderr=2,
        )
        trace.stop()
    variants, notes = interrupt_variants(host, target.id)
    moved = [v for v in variants if any("/proc/irq/" in s.attribute for s in v.settings)]
    said[bus] = {"layers": trace.figures, "moved": len(moved), "notes": notes}
print(json.dumps(said))
"""


def test_the_layers_and_interrupts_of_four_buses_and_what_blktrace_says(
    drives: Drives,
) -> None:
    answer = drives(SCRIPT)
    assert answer.status == 0, answer.stderr
    said: dict[str, dict[str, Any]] = json.loads(answer.stdout.splitlines()[-1])

    for bus in ("nvme", "ahci", "virtio", "scsi"):
        layers = said[bus]["layers"]
        assert layers["requests"] == 64
        assert 0 < layers["completion_ns"] < layers["whole_ns"], bus
    assert said["nvme"]["layers"]["driver_ns"] > 0
    for bus in ("ahci", "scsi"):
        assert said[bus]["layers"]["driver_ns"] > 0  # through SCSI's own tracepoint
    assert said["ahci"]["moved"] > 0  # one interrupt, which goes where it is told
    assert said["nvme"]["moved"] == 0
    assert any("managed interrupts" in note for note in said["nvme"]["notes"])
    nvme = said["nvme"]["layers"]
    assert 0 < nvme["btt_d2c_mean_ns"] <= nvme["btt_q2c_mean_ns"]
