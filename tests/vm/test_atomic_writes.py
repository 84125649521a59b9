"""Atomic writes of an NVMe drive that offers them: what the kernel takes, and what it refuses."""

import json

import pytest

from tests.vm.conftest import REPOSITORY, Guest

# Linux 6.11 is the first that takes such writes; QEMU 10.0 has a drive that offers them.
pytestmark = [pytest.mark.vm, pytest.mark.parametrize("lab", ["6.12"], indirect=True)]

# AWUN and AWUPF count blocks of 512 bytes from zero: 16 KiB, with and without a loss of power.
DRIVE = (
    "-blockdev", "null-co,node-name=a,size=67108864,read-zeroes=on",
    "-device", "nvme,serial=A,drive=a,atomic.dn=off,atomic.awun=31,atomic.awupf=31",
)  # fmt: skip
SCRIPT = r"""
import errno, json, mmap, os
from pathlib import Path
name = next(p.name for p in Path("/sys/block").glob("nvme*")
            if (p / "device/serial").read_text().strip() == "A")
queue = Path(f"/sys/block/{name}/queue")
said = {"unit": [int((queue / f"atomic_write_unit_{end}_bytes").read_text())
                 for end in ("min", "max")]}
file = os.open(f"/dev/{name}", os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, 1 << 16)
def written(offset_kib, kib):
    RWF_ATOMIC = 0x40
    try:
        return os.pwritev(file, [memoryview(memory)[:kib << 10]], offset_kib << 10, RWF_ATOMIC)
    except OSError as error:
        return errno.errorcode[error.errno]
said["16 KiB"] = written(16, 16)
said["4 KiB"] = written(4, 4)
said["16 KiB that is not aligned"] = written(8, 16)
said["12 KiB"] = written(0, 12)
said["32 KiB"] = written(32, 32)
print(json.dumps(said))
"""


def test_a_page_is_written_whole_and_what_could_be_torn_is_refused(guest: Guest) -> None:
    answer = guest(
        f"exec {REPOSITORY}/.venv/bin/python -c \"$(cat <<'END'\n{SCRIPT}\nEND\n)\"",
        disks=("nvme=null:64MiB",),
        modules=False,
        devices=DRIVE,
    )

    assert answer.status == 0, answer.stderr
    assert json.loads(answer.stdout) == {
        "unit": [512, 16384],
        "16 KiB": 16384,
        "4 KiB": 4096,
        "16 KiB that is not aligned": "EINVAL",
        "12 KiB": "EINVAL",
        "32 KiB": "EINVAL",
    }
