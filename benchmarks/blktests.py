"""Make the table of blktests in docs/kernel-experiments.md: our devices beside null_blk.

    python -m benchmarks.blktests DIR [--write] [--kernel NAME | --kernel-dir K] [--seconds N]
        [TEST…]

DIR is a clone of blktests (github.com/linux-blktests/blktests), which is no part of this
repository. Its tests of group `block` that take a device (TEST_DEVS) run on null_blk, the control,
on ssdb_flash by request queue, by bio, and under each bundled scheduler, and on ssdb_tmerge. Its
programs are compiled on this host, in a copy. K is where a kernel was built, in place of the lab's.
N limits the longer tests (default 10); `--write` puts the table into the document, so it goes with
all tests on a kernel of the lab.
"""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.tables import markdown, put
from ssdbench.host import command
from ssdbench.lab.archive import Archive, cache_directory
from ssdbench.lab.kernels import OFFERS, SERIES, Kernel
from ssdbench.lab.machine import Machine
from ssdbench.lab.session import Lab, built_modules, load_script

PAGE = Path(__file__).parents[1] / "docs" / "kernel-experiments.md"
PROGRAMS = ("dio-offsets", "ioctl-lbmd-query")  # of those that such tests use
LIMIT_S = 3000
MEMORY_MIB = 4096  # what is written to the drives is kept there
CACHE = cache_directory()
_ENDED = re.compile(
    r"(?P<test>block/\d+)(?: => (?P<device>\S+))? .*\[(?P<status>passed|failed|not run)\]$"
)
_MEASURED = re.compile(r"\S.*\s\.\.\.(\s|$)")  # how long it took, and the like
BEFORE = r"""
set -e
C=/sys/kernel/config
drive() { F=$C/ssdb_flash/$1; mkdir $F; shift
  for pair in capacity_bytes=1073741824 erase_block_bytes=65536 op_ppm=200000 channels=2 \
    program_unit_bytes=4096 read_unit_bytes=4096 mode=mq "$@" power=1
  do echo "${pair#*=}" > $F/${pair%%=*}; done; }
modprobe null_blk nr_devices=1 gb=1 memory_backed=1 discard=1
for name in ssdmq ssdas ssdcfq ssdlow; do drive $name; done; drive ssdbio mode=bio
mkdir $C/ssdb_tmerge/tm0; echo /dev/ssdlow > $C/ssdb_tmerge/tm0/device
echo 1 > $C/ssdb_tmerge/tm0/power
echo bpref-as > /sys/block/ssdas/queue/scheduler
echo bpref-cfq > /sys/block/ssdcfq/queue/scheduler
"""
AFTER = r"""
cp "$6" /boot/config-$(uname -r)
cp -r "$1" /run/blktests; cd /run/blktests
PATH=$PATH:$5:/run/stubs; mkdir /run/stubs
# check would look for leaks after each test, for minutes; `nox -s vm-debug` does.
[ ! -e /sys/kernel/debug/kmemleak ] || echo off > /sys/kernel/debug/kmemleak
# There is no udevd in the guest, so there is nothing to wait for.
printf '#!/bin/sh\n' > /run/stubs/udevadm; chmod +x /run/stubs/udevadm
echo "TEST_DEVS=($(printf '/dev/%s ' $2))" > config
./check -d -q$3 $4 || true
"""


BEGIN = "<!-- blktests: nox -s blktests -- DIR --write -->"
END = "<!-- /blktests -->"
DEVICES = {  # what they are called; the first is the control
    "nullb0": "null_blk",
    "ssdmq": "flash, mq",
    "ssdas": "mq, bpref-as",
    "ssdcfq": "mq, bpref-cfq",
    "ssdbio": "flash, bio",
    "tm0": "tmerge",
}


def device_tests(clone: Path) -> Iterator[str]:
    """Yield the tests of the clone that take one device."""
    for test in sorted((clone / "tests" / "block").glob("[0-9][0-9][0-9]")):
        if "test_device() {" in test.read_text(errors="replace").splitlines():
            yield f"block/{test.name}"


@dataclass(frozen=True, slots=True)
class Ended:
    """Say how one test ended on one device."""

    status: str  # passed | failed | not run
    said: tuple[str, ...] = ()  # why it did not run, or what it says of its failure


Results = Mapping[str, Mapping[str, Ended]]  # by test and device
UNKNOWN = Ended("not run", ("blktests says nothing of it",))


def results(text: str) -> Results:
    """Parse what `check` prints; "not run" without a device counts for all devices."""
    found: dict[str, dict[str, Ended]] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        ended = _ENDED.match(line)
        if not ended:
            continue
        behind = (
            one.strip()
            for one in takewhile(lambda said: said.startswith("    "), lines[number + 1 :])
        )
        one = Ended(ended["status"], tuple(line for line in behind if not _MEASURED.match(line)))
        for device in [ended["device"]] if ended["device"] else DEVICES:
            found.setdefault(ended["test"], {})[device] = one
    return found


def table(found: Results, told: str) -> str:
    """Return what the document says: all tests, and why some did not run."""
    rows, reasons = [], dict[str, list[str]]()
    for test, by_device in sorted(found.items()):
        ends = {name: by_device.get(device, UNKNOWN) for device, name in DEVICES.items()}
        rows.append((test, *(one.status for one in ends.values())))
        for (name, one), device in zip(ends.items(), DEVICES, strict=True):
            if one.status == "not run":
                why = "; ".join(one.said).replace(f"/dev/{device}", "the device")
                reasons.setdefault(f"- {test} not run: {why}", []).append(name)
    lines = [markdown(("test", *DEVICES.values()), rows), "", told, ""]
    for why, names in reasons.items():
        lines.append(why + ("" if len(names) == len(DEVICES) else f" ({'; '.join(names)})"))
    return "\n".join(lines)


def differences(found: Results) -> list[tuple[str, str, Ended]]:
    """Return test, device and end of each test that ended otherwise than on null_blk."""
    control, *others = DEVICES
    return [
        (test, device, by_device.get(device, UNKNOWN))
        for test, by_device in sorted(found.items())
        for device in others
        if by_device.get(device, UNKNOWN).status != by_device.get(control, UNKNOWN).status
    ]


def ran(clone: Path, tests: Sequence[str], lab: Lab, seconds: int) -> str:
    """Run the tests in a guest; return what it printed. Raises SsdbenchError, GuestTrouble."""
    script = load_script(built_modules(lab.kernel, CACHE)) + BEFORE + AFTER
    with TemporaryDirectory(dir=Path.cwd(), prefix=".blktests-") as work:
        copy = Path(work) / "blktests"
        shutil.copytree(clone, copy, ignore=shutil.ignore_patterns(".git"), symlinks=True)
        command.run(["make", "-k", "-C", str(copy / "src"), *PROGRAMS], ok=range(3), timeout_s=300)
        words = [str(copy), " ".join(DEVICES), str(seconds), " ".join(tests)]
        answer = lab.run(
            ["bash", "-c", script, "bash", *words, os.environ["PATH"], _config(lab.kernel)],
            machine=Machine(memory_mib=MEMORY_MIB),
            cwd=Path.cwd(),
            timeout_s=LIMIT_S,
        )
    print(answer.stdout, answer.stderr, sep="", file=sys.stderr)
    return answer.stdout


def _config(kernel: Kernel) -> str:
    """Return the file with the kernel's configuration, which some tests read."""
    if kernel.tree is not None:
        return str(kernel.tree / ".config")
    return str(next(kernel.root.rglob("config-*")))


def main(words: Sequence[str]) -> None:
    """Run the tests, print the table and what differs; end with 1 where one failed on ours only."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("clone", type=Path)
    asked.add_argument("tests", nargs="*")
    asked.add_argument("--kernel", default=SERIES[-1], choices=OFFERS)
    asked.add_argument("--kernel-dir", type=Path)
    asked.add_argument("--seconds", type=int, default=10)
    asked.add_argument("--write", action="store_true")
    wishes = asked.parse_intermixed_args(words)
    if not (wishes.clone / "check").is_file():
        sys.exit(f"{wishes.clone} is no clone of blktests: it has no `check`")
    if wishes.write and (wishes.tests or wishes.kernel_dir):
        sys.exit("the document has all tests on a kernel of the lab: --write goes with no others")
    every = list(device_tests(wishes.clone))
    if unknown := sorted({*wishes.tests} - {*every}):
        asked.error(f"{wishes.clone} has no test {unknown[0]} for one drive")
    lab = Lab(Archive(CACHE), wishes.kernel, tree=wishes.kernel_dir)
    told = f"Linux {lab.kernel.series} of the lab, longer tests limited to {wishes.seconds} s each."
    found = results(ran(wishes.clone, wishes.tests or every, lab, wishes.seconds))
    if not found:
        sys.exit("blktests ran no test; what it said is above")
    text, apart = table(found, told), differences(found)
    print(text)
    for test, device, one in apart:
        print(f"differs from null_blk: {test} on {DEVICES[device]}: {one.status}", *one.said)
    if wishes.write:
        put(PAGE, BEGIN, END, text)
    sys.exit(any(one.status == "failed" for _, _, one in apart))


if __name__ == "__main__":
    main(sys.argv[1:])
