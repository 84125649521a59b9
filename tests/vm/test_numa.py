"""Two NUMA nodes: ssdbench and fio go where a profile sends them, and the kernel says so."""

import json

import pytest

from tests.vm.conftest import Drives

pytestmark = pytest.mark.vm

SCRIPT = r"""
import json, os
from pathlib import Path
from ssdbench.engine.hostsettings import applied
from ssdbench.engine.hostsettings import planned_host
from ssdbench.errors import SsdbenchError
from ssdbench.host import placement
from ssdbench.model.profile import Host
from ssdbench.target.inspect import inspect

os.environ["SSDBENCH_SETTINGS"] = "/run/settings"
(first,) = (disk.name for disk in Path("/sys/block").glob("nvme*")
            if (disk / "device/serial").read_text().strip() == "SSDBENCH-LAB-0")
target = inspect("/dev/" + first)
wishes = Host(fio_nodes="1", fio_memory="bind:1", own_nodes="0", own_memory="bind:0")
plan = planned_host(wishes, target)
with applied(plan, "numa") as kept:
    inside = placement.policy_of(), sorted(os.sched_getaffinity(0))
after = placement.policy_of(), sorted(os.sched_getaffinity(0))
try:
    planned_host(Host(fio_memory="interleave:0-2"), target)
    refused = ""
except SsdbenchError as error:
    refused = str(error)
print(json.dumps({"plan": plan.fio_options, "kept": kept, "in": inside, "out": after,
    "refused": refused}))
"""


def test_fio_and_ssdbench_are_on_their_nodes_with_their_memory(drives: Drives) -> None:
    answer = drives(SCRIPT)

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout.splitlines()[-1])
    assert said["plan"] == {"numa_cpu_nodes": "1", "numa_mem_policy": "bind:1"}
    evidence = {entry["setting"]: entry["reason"] for entry in said["kept"]}
    assert evidence["memory of fio"] == "read back from a job of fio: memory bind:1, CPUs 1"
    assert said["in"] == ["bind:0", [0]]
    assert said["out"] == ["default", [0, 1]]
    assert "there is no NUMA node 2" in said["refused"]
