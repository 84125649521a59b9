"""Points by io_uring, polled, and past the block layer, on an NVMe drive with poll queues."""

import json
from typing import Any

import pytest

from tests.vm.conftest import REPOSITORY, Guest

# An endurance test: eight minutes of a busy machine, for two starts of fio of each point.
pytestmark = [pytest.mark.vm, pytest.mark.soak]

PROFILE = """\
content: zeros
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
repeats: 2
window: 1s
settle: {window: 1s, flat: 1s, spare: 1%}
measure:
  - sweep: {read: 100, engine: [io_uring, io_uring_polled, io_uring_cmd]}
  - sweep: {read: 0, engine: io_uring_cmd, repeats: 1}
"""
SCRIPT = r"""
import json, os, subprocess, sys, time
from pathlib import Path
from ssdbench.engine.preflight import engine_obstacles
from ssdbench.generator.fio.output import parse
from ssdbench.target.inspect import inspect

def claimed():
    try:
        os.close(os.open("/dev/nvme0n1", os.O_RDONLY | os.O_EXCL))
    except OSError:
        return True
    return False

def past_the_kernel(): # whether some fio works on the generic node now
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "comm").read_text() == "fio\n":
                return any(str(f.readlink()) == "/dev/ng0n1" for f in (place / "fd").iterdir())
        except OSError:
            pass
    return False

lacks, held, out = engine_obstacles(inspect("/dev/nvme0n1")), [], Path("/run/out")
run = subprocess.Popen(
    [sys.executable, "-m", "ssdbench", "run", "/run/p.yaml", "--target", "/dev/nvme0n1",
     "--output", str(out)], stdout=2, stderr=2)
while run.poll() is None:
    if past_the_kernel():
        held.append(claimed())
    time.sleep(2)
result = json.loads((out / "result.json").read_text())
starts = []
for stage in result["stages"]:
    for point in stage["found"].get("points", ()):
        for repeat in point["repeats"]:
            place = out / repeat["artifacts"]
            (group,) = parse((place / "fio/fio.json").read_text(), ["one"])
            rows = (place / "seconds.csv").read_text().splitlines()[1:]
            log = place / "past-kernel.json"
            starts.append({
                "engine": point["point"]["workload"]["engine"],
                "fio_ios": group.outcome.read.ios + group.outcome.write.ios,
                "counted_ios": sum(int(n) for row in rows for n in row.split(",")[2:4]),
                "foreign": ["foreign_ios" in f["numbers"] for f in repeat["findings"]],
                "log": json.loads(log.read_text()) if log.exists() else None,
            })
print(json.dumps({"status": run.returncode, "lacks": lacks, "held": held, "starts": starts,
                  "findings": [f for s in result["stages"] for f in s["findings"]]}))
"""


def in_guest(guest: Guest, script: str) -> dict[str, Any]:
    """What a script prints last, in a guest whose drive has poll queues."""
    answer = guest(
        f"export SSDBENCH_SETTINGS=/run/settings\nprintf '%s' '{PROFILE}' > /run/p.yaml\n"
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{script}\nEND\n)\"",
        disks=("nvme=null:128MiB",),
        modules=False,
        append="nvme.poll_queues=1",
    )
    assert answer.status == 0, answer.stderr[-3000:]
    said: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return said


def test_a_run_with_points_polled_and_past_the_block_layer(guest: Guest) -> None:
    said = in_guest(guest, SCRIPT)

    assert said["status"] == 1  # a virtual drive is not plannable
    assert set(said["lacks"].values()) == {""}
    assert said["held"]
    assert all(said["held"])  # the block node stays claimed while fio is past it
    passed = [start for start in said["starts"] if start["engine"] == "io_uring_cmd"]
    assert len(passed) == 3
    for start in said["starts"]:
        assert not any(start["foreign"])
        assert 0.5 * start["fio_ios"] < start["counted_ios"] <= start["fio_ios"]
    (log,) = [start["log"] for start in passed if start["log"]]
    assert log["fio_bytes"] > 0
    assert abs(log["fio_bytes"] - log["health_log_bytes"]) <= 2 * 512_000
    (cost,) = [finding for finding in said["findings"] if finding["code"] == "block-layer"]
    assert cost["numbers"]["through"] == "io_uring"
