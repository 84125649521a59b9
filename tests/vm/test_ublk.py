"""A simulated drive as /dev/ublkbN by the driver of Debian's kernel: used, refused, killed."""

import json
from pathlib import Path
from typing import Any

import pytest

from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from tests.vm.conftest import REPOSITORY, Guest

pytestmark = pytest.mark.vm

# One program, because each start of Python takes seconds on an emulated CPU.
SCRIPT = r"""
import json, os, re, signal, subprocess, sys, time
from pathlib import Path
from click.testing import CliRunner
from ssdbench.cli.sim import command
from ssdbench.sim.drive import SimDrive

os.mkdir("/run/u")
os.chdir("/run/u")
said = {}

def sim(*words):
    print("sim", *words, file=sys.stderr, flush=True)
    done = CliRunner().invoke(command, words, standalone_mode=False)
    if done.exception is not None:
        return done.exception.message
    return json.loads(done.stdout[done.stdout.index("{"):])

def run(line):
    print(line, file=sys.stderr, flush=True)
    return subprocess.run(["bash", "-c", line], stdout=2).returncode

drive = "sim:p4500-4t,capacity=1GiB,erase_block=64KiB,wbuf_volatile=volatile"
said["attached"] = sim("attach", drive, "--state", "d.ssdb", "--json")
node = said["attached"]["device"]
queue = Path("/sys/block") / Path(node).name / "queue"
said["cache"] = (queue / "write_cache").read_text().strip()
data = os.urandom(1 << 20)
Path("data").write_bytes(data)
said["written"] = run(f"dd if=data of={node} bs=256k oflag=direct conv=fsync status=none")
said["read"] = run(f"dd if={node} of=back bs=64k count=16 iflag=direct status=none; cmp data back")
said["discarded"] = run(f"blkdiscard -o 0 -l 65536 {node}; cmp -n 65536 {node} /dev/zero")
said["verified"] = run(
    f"fio --name=f --filename={node} --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite"
    " --bs=4k --offset=8M --size=1M --verify=crc32c"
)
server = subprocess.run(["pidof", "ssdb-ublk"], capture_output=True, check=True).stdout.decode()
memory = Path(f"/proc/{server.strip()}/smaps_rollup").read_text()
said["huge"] = re.search(r"AnonHugePages:\s+(\d+)", memory)[1]
said["mounted"] = run(f"mkfs.ext4 -q -O ^has_journal {node}; mkdir m; mount {node} m")
said["in use"] = sim("detach", node)
said["unmounted"] = run("umount m")
said["detached"] = sim("detach", node, "--json")
said["left"] = [str(p) for p in Path("/dev").glob("ublkc*")] + os.listdir("/run/ssdbench")
with SimDrive.open(Path("d.ssdb")) as kept:
    said["counters"] = kept.counters()
again = sim("attach", "d.ssdb", "--overhead-ns", "0", "--json")["device"]
said["kept"] = run(f"mount -o ro {again} m; umount m")
fio = subprocess.Popen(
    ["fio", "--name=k", f"--filename={again}", "--direct=1", "--rw=randwrite", "--bs=4k",
     "--offset=8M", "--size=8M", "--time_based", "--runtime=300"], stdout=2, stderr=2)
statistics = Path("/sys/block") / Path(again).name / "stat"
while fio.poll() is None and int(statistics.read_text().split()[4]) == 0:
    time.sleep(0.1)
server = int(subprocess.run(["pidof", "ssdb-ublk"], capture_output=True, check=True).stdout)
began = time.monotonic()
os.kill(server, signal.SIGKILL)
said["killed"] = [fio.wait() != 0, time.monotonic() - began]
said["freed"] = sim("detach", again, "--json")["device"] == again
said["gone"] = sim("detach", again)
with SimDrive.open(Path("d.ssdb"), repair=True) as repaired:
    said["sound"] = repaired.core.broken_invariant() == 0
print(json.dumps(said))
"""


@pytest.mark.parametrize("lab", ["6.12"], indirect=True)
def test_a_simulated_drive_is_a_block_device_until_it_is_detached_or_its_server_killed(
    guest: Guest,
) -> None:
    python = f"{REPOSITORY}/.venv/bin/python"
    answer = guest(
        f"modprobe ublk_drv; exec {python} -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        modules=False,
    )

    assert answer.status == 0, answer.stderr
    said: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    assert said["attached"]["simulated"] is True
    assert said["cache"] == "write back"
    for step in ("written", "read", "discarded", "verified", "mounted", "unmounted", "kept"):
        assert said[step] == 0, step
    assert said["huge"] == "0"  # clearing 2 MiB for a buffer makes answers late
    assert "the device is in use" in said["in use"]
    assert said["detached"]["answered"] > 300
    assert 0 < said["detached"]["late_median_ns"] <= said["detached"]["late_p99_ns"]
    assert said["left"] == []
    assert said["counters"]["host_write_units"] >= 512
    failed, took_s = said["killed"]
    assert failed
    assert took_s < 30
    assert said["freed"]
    assert "no such device" in said["gone"]
    assert said["sound"]


UNPRIVILEGED = r"""
modprobe ublk_drv
mkdir /run/u; cd /run/u
cp SERVER ssdb-ublk; cp STATE/d.* .; chown -R nobody .
as_nobody() { setpriv --reuid nobody --regid nogroup --clear-groups "$@"; }
as_nobody ./ssdb-ublk --state d.ssdb --log d.log 2>&1 && exit 1
chown nobody /dev/ublk-control
while :; do chown nobody /dev/ublk[bc]? || :; sleep 0.05; done 2> /dev/null > /dev/null &
udev=$!
for round in 1 2; do
  as_nobody ./ssdb-ublk --state d.ssdb --log d.log
  until as_nobody test -r /dev/ublkb0 -a -w /dev/ublkb0; do sleep 0.1; done
  as_nobody dd if=/dev/zero of=/dev/ublkb0 bs=4k count=64 oflag=direct status=none
  as_nobody dd if=/dev/ublkb0 of=/dev/null bs=4k count=64 iflag=direct status=none
  as_nobody ./ssdb-ublk --detach 0
  while [ -e /dev/ublkb0 ]; do sleep 0.1; done
done
kill $udev
echo left /dev/ublk[bc]*
"""


@pytest.mark.parametrize("lab", ["6.12"], indirect=True)
def test_a_user_who_owns_the_nodes_attaches_a_drive_and_leaves_none(
    guest: Guest, tmp_path: Path
) -> None:
    """A loop plays udev. A device that was only measured with must go, too."""
    SimDrive.create(parse("sim:p4800x,capacity=64MiB"), tmp_path / "d.ssdb").close()
    server = REPOSITORY / "ssdbench/sim/bin/ssdb-ublk"
    script = UNPRIVILEGED.replace("SERVER", str(server)).replace("STATE", str(tmp_path))

    answer = guest(script, modules=False)

    assert answer.status == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "ssdb-ublk: /dev/ublk-control: Permission denied",
        "/dev/ublkb0",
        "/dev/ublkb0",
        "left /dev/ublk[bc]*",
    ]


MEASURED = r"""
import json, os, sys
from pathlib import Path
from click.testing import CliRunner
from ssdbench.cli.main import run
from ssdbench.cli.sim import command
from ssdbench.target.inspect import inspect

os.mkdir("/run/u")
os.chdir("/run/u")

def sim(*words):
    done = CliRunner().invoke(command, (*words, "--json"), standalone_mode=False)
    return json.loads(done.stdout[done.stdout.index("{"):])

node = sim("attach", "MODEL", "--state", "d.ssdb")["device"]
consent = ["--destroy", inspect(node).consent_id]
status = run([*"WORDS".replace("NODE", node).split(), *consent, "--output", "r"])
late = sim("detach", node)
result = json.loads(Path("r/result.json").read_text())
label = "SIMULATED: /dev/ublkb0, by ssdbench sim attach"
print(json.dumps({
    "status": status,
    "late": late,
    "by": result["target"]["simulated_by"],
    "verdict": result["verdict"],
    "codes": [one["code"] for one in result["findings"]],
    "labels": Path("r/report.html").read_text().count(label),
    "row": Path("r/results.csv").read_text().splitlines()[1],
}))
"""


def measured(guest: Guest, words: str, *, model: str) -> tuple[list[str], dict[str, Any]]:
    """Run a command on an attached drive: what it printed, and what its run directory says.

    In reproducible time, so that no load of the host makes an answer late.
    """
    script = MEASURED.replace("MODEL", model).replace("WORDS", words)
    python = f"{REPOSITORY}/.venv/bin/python"
    answer = guest(
        f"modprobe ublk_drv; exec {python} -c \"$(cat <<'END'\n{script}\nEND\n)\"",
        modules=False,
        reproducible=True,
    )
    assert answer.status == 0, answer.stderr
    *printed, last = answer.stdout.splitlines()
    said: dict[str, Any] = json.loads(last)
    assert said["by"] == "`ssdbench sim attach`"
    assert {"simulated", "not-plannable"} <= set(said["codes"])
    assert said["labels"] > 5  # in each section
    assert "SIMULATED: /dev/ublkb0" in said["row"]
    return printed, said


@pytest.mark.soak
@pytest.mark.parametrize("lab", ["6.12"], indirect=True)
def test_the_block_size_of_an_attached_drive_is_found_and_marked(guest: Guest) -> None:
    printed, said = measured(
        guest,
        "detect-blocksize NODE --writes 1500 --stride 20KiB --stride 28KiB --stride 44KiB",
        model="sim:memoright-gt,capacity=192MiB",
    )

    assert said["status"] == 0
    assert printed[0] == "block size 1 MiB (simulated drive)"
    assert 0 < said["late"]["late_p99_ns"] < 8_000_000  # the merge of a block takes 9 ms
