"""The table of xfstests in docs/kernel-experiments.md: file systems on our devices, in the lab.

    python -m benchmarks.xfstests DIR [--write] [--kernel NAME] [--plain] [--minutes N] [TEST…]

DIR is a clone of xfstests (github.com/kdave/xfstests) in which you have run `make`; it is no part
of this repository. Its tests of groups `generic` and `quick` run on ext4 and on xfs, on null_blk,
the control, on ssdb_flash and on ssdb_tmerge. All of them take hours without KVM: `--plain` takes
those that ask for nothing but two devices, and after N minutes no others begin. `--write` puts the
table into the document.
"""

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.blktests import CACHE, Ended, Results, differences, show, table
from ssdbench.lab.archive import Archive
from ssdbench.lab.kernels import SERIES
from ssdbench.lab.lab import Lab
from ssdbench.lab.machine import Machine
from ssdbench.lab.modules import built_modules, load_script

BEGIN, END = "<!-- xfstests: nox -s xfstests -- DIR --write -->", "<!-- /xfstests -->"
DEVICES = {"nullb": "null_blk", "ssd": "flash", "tm": "tmerge"}
FAMILIES = tuple(
    {f"{device}-{kind}": f"{name}, {kind}" for device, name in DEVICES.items()}
    for kind in ("ext4", "xfs")
)
COLUMNS = {column: name for family in FAMILIES for column, name in family.items()}
LIMIT_S = 6 * 3600
MEMORY_MIB = 4096
SILENT = Ended("not run", ("xfstests says nothing of it",))
# Of the lines of a test that ask for something, those that every kernel and device here has.
PLAIN = re.compile(r"_require_(?:test|scratch|scratch_nocheck|test_program|xfs_io_command)\b")
_SECTION = re.compile(r"^SECTION\s+-- (\S+)$")
_ENDED = re.compile(r"^(?P<test>generic/\d+)\s+(?P<rest>.*)$")
SCRIPT = r"""
C=/sys/kernel/config
modprobe null_blk nr_devices=3 gb=1 memory_backed=1 discard=1; modprobe ext4; modprobe xfs
drive() { F=$C/ssdb_flash/$1
  mkdir $F
  for pair in capacity_bytes=1073741824 erase_block_bytes=65536 op_ppm=200000 channels=2 \
    program_unit_bytes=4096 read_unit_bytes=4096 mode=mq power=1
  do echo "${pair#*=}" > $F/${pair%%=*}; done; }
for n in 0 1 2; do drive ssd$n; drive low$n
  mkdir $C/ssdb_tmerge/tm$n; echo /dev/low$n > $C/ssdb_tmerge/tm$n/device
  echo 1 > $C/ssdb_tmerge/tm$n/power; done
for name in fsgqa fsgqa2 123456-fsgqa; do
  useradd --badname $name 2>/dev/null || useradd --badnames $name; done 2>/dev/null
PATH=$PATH:$2:/run/stubs; mkdir /run/stubs
# There is no udevd in the guest, so there is nothing to wait for.
printf '#!/bin/sh\n' > /run/stubs/udevadm; chmod +x /run/stubs/udevadm
cp -r "$1" /run/xfstests; cd /run/xfstests; mkdir -p /run/test /run/scratch
# On each: 0 and 1 stay ext4 and xfs (TEST_DEV), 2 is made anew by each test (SCRATCH_DEV).
for name in nullb ssd tm; do
  mkfs.ext4 -q -F /dev/${name}0; mkfs.xfs -q -f /dev/${name}1
  for pair in 0-ext4 1-xfs; do kind=${pair#*-}
    printf '[%s]\nTEST_DEV=/dev/%s\nTEST_DIR=/run/test\nSCRATCH_DEV=/dev/%s2\n' \
      $name-$kind $name${pair%-*} $name > /run/$name-$kind
    printf 'SCRATCH_MNT=/run/scratch\nFSTYP=%s\n' $kind >> /run/$name-$kind
  done; done
# A few at a time on each, so that what ran when the time ends has run on all.
set -- "$4" $3; minutes=$1; shift
while [ $# -gt 0 ]; do
  some=; for n in 1 2 3 4; do some="$some ${1-}"; shift || true; done
  for kind in ext4 xfs; do for name in nullb ssd tm; do
    HOST_OPTIONS=/run/$name-$kind ./check -s $name-$kind $some 2>&1 || true
    umount /run/test /run/scratch 2>/dev/null || true
  done; done
  [ $(cut -d. -f1 /proc/uptime) -lt $((60 * minutes)) ] || break
done
"""


def results(text: str) -> Results:
    """What `check` prints, one section for each device and file system."""
    found: dict[str, dict[str, Ended]] = {}
    column = ""
    for line in text.splitlines():
        if section := _SECTION.match(line):
            column = section[1]
        elif column in COLUMNS and (ended := _ENDED.match(line)):
            found.setdefault(ended["test"], {})[column] = _ended(ended["rest"])
    return found


def _ended(rest: str) -> Ended:
    """The words behind the name of a test: what it took before and now, or why not."""
    if "[not run]" in rest:
        return Ended("not run", (rest.partition("[not run]")[2].strip(),))
    if re.search(r"\[failed|mismatch|_check_|\[expunged", rest):
        return Ended("failed", (rest.strip(),))
    return Ended("passed")


def quick(clone: Path, *, only_plain: bool = False) -> Iterator[str]:
    """Tests of `generic` and `quick`, in order; plain ones ask for nothing but two devices."""
    for test in sorted((clone / "tests" / "generic").glob("[0-9][0-9][0-9]")):
        text = test.read_text(errors="replace")
        groups = re.search(r"^_begin_fstest (.*)$", text, re.MULTILINE)
        asks = re.findall(r"^\s*(_require_\w+)", text, re.MULTILINE)
        is_quick = groups and "quick" in groups[1].split()
        if is_quick and (not only_plain or all(map(PLAIN.fullmatch, asks))):
            yield f"generic/{test.name}"


def ran(clone: Path, kernel: str, tests: Sequence[str], minutes: int) -> str:
    """What the guest printed. Raises SsdbenchError, GuestTrouble where its kernel complained."""
    lab = Lab(Archive(CACHE), kernel)
    script = load_script(built_modules(lab.kernel, CACHE)) + "\n" + SCRIPT
    words = [str(clone.absolute()), os.environ["PATH"], " ".join(tests), str(minutes)]
    answer = lab.run(
        ["bash", "-c", script, "bash", *words],
        machine=replace(Machine.unbooted(), memory_mib=MEMORY_MIB),
        cwd=Path.cwd(),
        timeout_s=LIMIT_S,
    )
    print(answer.stdout, answer.stderr, sep="", file=sys.stderr)
    return answer.stdout


def main(words: Sequence[str]) -> None:
    """Run the tests, print the table and what differs; end with 1 where one failed on ours only."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("clone", type=Path)
    asked.add_argument("tests", nargs="*")
    asked.add_argument("--kernel", default=SERIES[-1])
    asked.add_argument("--plain", action="store_true")
    asked.add_argument("--minutes", type=int, default=LIMIT_S // 60)
    asked.add_argument("--write", action="store_true")
    wishes = asked.parse_intermixed_args(words)
    if not (wishes.clone / "check").is_file() or not (wishes.clone / "ltp" / "fsstress").is_file():
        sys.exit(f"{wishes.clone}: no clone of xfstests in which `make` has been run")
    tests = wishes.tests or list(quick(wishes.clone, only_plain=wishes.plain))
    found = results(ran(wishes.clone, wishes.kernel, tests, wishes.minutes))
    if not found:
        sys.exit("xfstests ran no test; what it said is above")
    ends = Counter(
        (column, by_column.get(column, SILENT).status)
        for by_column in found.values()
        for column in COLUMNS
    )
    told = f"Linux {wishes.kernel} of the lab. " + "; ".join(
        f"{name}: {ends[column, 'passed']} passed, {ends[column, 'failed']} failed"
        for column, name in COLUMNS.items()
    )
    text = "\n".join(table(found, told + ".", COLUMNS, SILENT))
    apart = differences(found, FAMILIES, SILENT)
    sys.exit(show(text, apart, COLUMNS, (BEGIN, END) if wishes.write else None))


if __name__ == "__main__":
    main(sys.argv[1:])
