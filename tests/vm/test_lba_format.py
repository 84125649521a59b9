"""A run gives an emulated NVMe drive another LBA format, measures it so, and `retire` undoes it."""

import json

import pytest

from tests.vm.conftest import REPOSITORY, Guest

pytestmark = pytest.mark.vm

PROFILE = """\
purge: format
lba_format: 4KiB
precondition: [{block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 3s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {read: 0, block: 4KiB, iodepth: 4}}]
"""
SCRIPT = r"""
import json, os, sys
from pathlib import Path

from ssdbench.cli import conduct, drives  # once for all commands: it takes 15 s here
from ssdbench.cli.main import main

os.environ["SSDBENCH_SETTINGS"] = "/run/settings"
NODE, said = "/dev/nvme0n1", {}

def tool(*words):
    sys.stdout.flush()
    if not (child := os.fork()):
        for number in (1, 2):
            os.dup2(os.open(f"/run/said{number}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
        main(words)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, Path("/run/said1").read_text(), Path("/run/said2").read_text()

def blocks():
    queue = Path("/sys/block/nvme0n1/queue/logical_block_size").read_text()
    return int(queue), int(Path("/sys/block/nvme0n1/size").read_text()) * 512

profile = Path("/run/p.yaml")
profile.write_text(os.environ["PROFILE"].replace("4KiB\npre", "1KiB\npre"))
said["not offered"] = tool("plan", str(profile), "--target", NODE)
profile.write_text(os.environ["PROFILE"])
said["plan"] = tool("plan", str(profile), "--target", NODE)
said["at first"] = blocks()
said["run"] = tool("run", str(profile), "--target", NODE, "--output", "/run/out")
said["then"] = blocks()
if not Path("/run/out/result.json").exists():
    sys.exit(said["run"][2])
result = json.loads(Path("/run/out/result.json").read_text())
said["target"] = [result["target"][k] for k in ("size_bytes", "logical_block_bytes", "lba_format")]
said["settings"] = [s for s in result["settings"] if s["setting"] == "LBA format"]
said["stages"] = [s["found"]["kind"] for s in result["stages"]]
said["purge"] = [s["found"] for s in result["stages"] if s["found"]["kind"] == "purge"]
said["findings"] = [f["message"] for s in result["stages"] for f in s["findings"]]
said["restore"] = tool("restore")
said["again"] = tool("resume", "/run/out")
said["protected"] = tool("retire", NODE, "--method", "format", "--lba-format", "512+8",
                         "--protection", "1", "--overwrite-signatures")
said["with protection"] = blocks()
said["retire"] = tool("retire", NODE, "--method", "format", "--lba-format", "512+0")
said["at last"] = blocks()
said["settled"] = tool("restore")
print(json.dumps(said))
"""


@pytest.mark.timeout(1200)
def test_a_drive_is_measured_in_the_lba_format_that_the_profile_asks_for(guest: Guest) -> None:
    answer = guest(
        f"export PROFILE=\"$(cat <<'END'\n{PROFILE}\nEND\n)\";"
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("nvme=null:64MiB",),
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    said = json.loads(answer.stdout)
    status, _, words = said["not offered"]
    assert status == 2
    assert "has no LBA format 1024+0; it offers 512+0, 512+8" in words
    assert "LBA format: 512+0 becomes 4096+0" in said["plan"][1], said["plan"]
    assert said["at first"] == [512, 64 << 20]  # the plan changed nothing
    assert "error" not in said["run"][2], said["run"]  # no drive of a lab is VALIDATED
    assert said["then"] == [4096, 64 << 20]
    size_bytes, block_bytes, lba_format = said["target"]
    assert (size_bytes, block_bytes) == (64 << 20, 4096)
    assert lba_format == {"data_bytes": 4096, "metadata_bytes": 0, "protection": 0}
    (setting,) = said["settings"]
    assert (setting["was"], setting["value"]) == ("512+0", "4096+0")
    (purged,) = said["purge"]  # once, and no second format
    assert "512+0 changed to 4096+0" in purged["done"]
    assert purged["before"]["LBA format"] == "512+0"
    assert purged["after"]["LBA format"] == "4096+0"
    assert {"precondition", "steady", "sweep"} <= set(said["stages"])
    assert any("keeps its new LBA format 4096+0" in words for words in said["findings"])
    back = "ssdbench retire /dev/nvme0n1 --method format --lba-format 512+0"
    assert back in said["restore"][1]
    assert said["protected"][0] == 0, said["protected"]
    assert said["with protection"][0] == 512
    assert 0 < said["with protection"][1] < 64 << 20  # metadata take their room
    assert said["retire"][0] == 0, said["retire"]
    assert said["at last"] == [512, 64 << 20]
    assert said["settled"][1].startswith("nothing to restore")
