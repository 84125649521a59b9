"""The tables of xfstests in docs/kernel-experiments.md: file systems on our devices.

    python -m benchmarks.xfstests DIR [--write] [--minutes N] [TEST…]

DIR is a clone of xfstests (github.com/kdave/xfstests) in which you have run `make`; it is no part
of this repository. Its tests of groups `generic` and `quick` run on ext4 and on xfs, on null_blk,
the control, on ssdb_flash and on ssdb_tmerge, in kernels that are processes of this host
(tests/vm/user_mode.py), one for each device and file system. Tests that have not ended on all six
come first, and of them those that ask for nothing but two devices; after N minutes no others begin.
`--write` adds to it what each ended with; what a run had when it was cut short is kept.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.blktests import CACHE, Ended, Results, differences, show, table
from ssdbench.host import files
from tests.vm import user_mode

BEGIN, END = "<!-- xfstests: nox -s xfstests -- DIR --write -->", "<!-- /xfstests -->"
RECORD = Path(__file__).parents[1] / "reports" / "xfstests.json"
DEVICES = {"nullb": "null_blk", "ssd": "flash", "tm": "tmerge"}
KINDS = ("ext4", "xfs")
FAMILIES = tuple(
    {f"{device}-{kind}": f"{name}, {kind}" for device, name in DEVICES.items()} for kind in KINDS
)
COLUMNS = {column: name for family in FAMILIES for column, name in family.items()}
AT_ONCE = 8  # tests of one device and file system that share a kernel
TEST_LIMIT_S = 300  # for one on a device, by the clock
LIMIT_S = 1800  # for such a kernel
OPTIONS = (
    "seccomp=on",  # calls and page faults reach the kernel by signals, not by ptrace
    "loglevel=0",  # ext4 tells of lost data as an emergency, in the midst of a test's own line
    "mem=3G", "null_blk.nr_devices=3", "null_blk.gb=2", "null_blk.memory_backed=1",
    "null_blk.discard=1", "log_buf_len=8M",
)  # fmt: skip
STATUSES = ("passed", "failed", "cut short", "not run")
SILENT = Ended("not run", ("not tried",))
# Of the lines of a test that ask for something, those that every kernel and device here has.
PLAIN = re.compile(r"_require_(?:test|scratch|scratch_nocheck|test_program|xfs_io_command)\b")
_SECTION = re.compile(r"^SECTION\s+-- (\S+)$")
_ENDED = re.compile(r"^(?P<test>generic/\d+)\s+(?P<rest>.*)$")
_PASSED = re.compile(r"(\d+s \.\.\.\s+)?\d+s")  # how long before, and now
_CUT = re.compile(r"\[failed, exit status (?:124|137)\]")  # as `timeout` ends
# This host gave the kernel no process for one of its own, whose lists are then broken (mm_list).
_REFUSED = re.compile(r"\[ *[\d.]+\] start_userspace : \w+ failed")
_ASIDE = re.compile(r"^- |  *\((?:see /|\d+ KiB).*?\)|(?<= ) +")  # what says nothing of why
_DEVICE = re.compile(r"/dev/(?:nullb|ssd|tm)\d")
SCRIPT = r"""
C=/sys/kernel/config
insmod /run/modules/flash/ssdb_flash.ko; insmod /run/modules/tmerge/ssdb_tmerge.ko
drive() { F=$C/ssdb_flash/$1
  mkdir $F
  for pair in capacity_bytes=2147483648 erase_block_bytes=65536 op_ppm=200000 channels=2 \
    program_unit_bytes=4096 read_unit_bytes=4096 mode=mq power=1
  do echo "${pair#*=}" > $F/${pair%%=*}; done; }
for n in 0 1 2; do drive ssd$n; drive low$n
  mkdir $C/ssdb_tmerge/tm$n; echo /dev/low$n > $C/ssdb_tmerge/tm$n/device
  echo 1 > $C/ssdb_tmerge/tm$n/power; done
for name in fsgqa fsgqa2 123456-fsgqa; do
  useradd -m --badname $name 2>/dev/null || useradd -m --badnames $name; done 2>/dev/null
# There is no udevd in the guest, so there is nothing to wait for.
mkdir /run/stubs /run/test /run/scratch; export PATH=/run/stubs:$PATH DM_DISABLE_UDEV=1
printf '#!/bin/sh\n' > /run/stubs/udevadm
# Nor is there one to make links of its names, by which tests find a device's directory in /sys.
cat > /run/stubs/dmsetup <<'END'
#!/bin/sh
/usr/sbin/dmsetup "$@"; ended=$?
for node in /dev/mapper/*; do
  [ -L $node ] || [ $node = /dev/mapper/control ] || ln -sf ../dm-$((0x$(stat -c %T $node))) $node
done 2>/dev/null
exit $ended
END
# By this name `check` starts a test.
cat > /run/stubs/bash <<'END'
#!/bin/bash
case "$2" in *"exec ./tests/"*) exec timeout --kill-after=10 $LIMIT_S /bin/bash "$@";; esac
exec -a bash /bin/bash "$@"
END
chmod +x /run/stubs/*
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /run/xfstests
# Of ext4, too, the journal is recovered before this one looks for errors, as it does with xfs:
# blocks that were written back while their transaction was committed are right only after that.
sed -i 's/if \[ $FSTYP = "xfs" \]/if true/' tests/generic/757
export TEST_DIR=/run/test SCRATCH_MNT=/run/scratch HOST_OPTIONS=/run/none
mkfs.$FSTYP -q /dev/${DEVICE}0
echo "SECTION       -- $DEVICE-$FSTYP"
export TEST_DEV=/dev/${DEVICE}0 SCRATCH_DEV=/dev/${DEVICE}1 LOGWRITES_DEV=/dev/${DEVICE}2
keyctl session - ./check $TESTS 2>&1  # tests of encryption put their keys there
cat results/generic/*.dmesg 2>/dev/null
dmesg | grep -m1 "start_userspace : .* failed"
umount /run/test /run/scratch 2>/dev/null
"""


def results(text: str) -> Results:
    """What `check` prints, one section for each device and file system.

    Of a kernel that this host left without a process nothing counts.
    """
    found: dict[str, dict[str, Ended]] = {}
    column = ""
    for line in text.splitlines():
        if section := _SECTION.match(line):
            column = section[1]
        elif _REFUSED.match(line):
            found = {test: {each: ends[each] for each in ends if each != column}
                     for test, ends in found.items()}  # fmt: skip
        elif column in COLUMNS and (ended := _ENDED.match(line)):
            found.setdefault(ended["test"], {})[column] = _ended(ended["rest"])
    return {test: ends for test, ends in found.items() if ends}


def _ended(rest: str) -> Ended:
    """The words behind the name of a test: what it took, before and now, or what it came to."""
    rest = _DEVICE.sub("the device", rest)
    if "[not run]" in rest:
        return Ended("not run", (rest.partition("[not run]")[2].strip(),))
    if _PASSED.fullmatch(rest.strip()):
        return Ended("passed")
    if _CUT.search(rest):
        return Ended("cut short", (f"after {TEST_LIMIT_S} s",))
    return Ended("failed", (rest.strip() or "it did not end",))


def quick(clone: Path) -> list[str]:
    """Tests of `generic` and `quick`; those first that ask for nothing but two devices."""
    found = []
    for test in sorted((clone / "tests" / "generic").glob("[0-9][0-9][0-9]")):
        text = test.read_text(errors="replace")
        groups = re.search(r"^_begin_fstest (.*)$", text, re.MULTILINE)
        asks = re.findall(r"^\s*(_require_\w+)", text, re.MULTILINE)
        if groups and "quick" in groups[1].split():
            found.append((not all(map(PLAIN.fullmatch, asks)), f"generic/{test.name}"))
    return [test for _, test in sorted(found)]


def ran(clone: Path, tests: Sequence[str], minutes: float) -> Iterator[Results]:
    """What tests ended with on all six, as it comes. Raises SsdbenchError."""
    kernel = user_mode.kernel(CACHE)
    given = {"xfstests": clone.absolute(), "modules": user_mode.modules(kernel)}
    until = time.monotonic() + 60 * minutes
    for first in range(0, len(tests), AT_ONCE):
        left = dict.fromkeys(COLUMNS, tests[first : first + AT_ONCE])
        while True:  # after a test in which a kernel came to its end, the next begins in another
            if time.monotonic() > until:
                return
            scripts = [_script(column, some) for column, some in left.items() if some]
            said = "\n".join(  # where one was cut short, its last line is not whole
                user_mode.run(kernel, scripts, given=given, options=OPTIONS, timeout_s=LIMIT_S)
            )
            print(said, file=sys.stderr, flush=True)
            found = results(said)
            yield found
            before = left
            left = {
                column: [test for test in some if column not in found.get(test, {})]
                for column, some in before.items()
            }
            if left == before or not any(left.values()):
                break


def _script(column: str, tests: Sequence[str]) -> str:
    """What a kernel does that runs tests on one device with one file system."""
    device, _, kind = column.partition("-")
    given = f"DEVICE={device} FSTYP={kind} LIMIT_S={TEST_LIMIT_S} TESTS='{' '.join(tests)}'"
    return f"export {given}\n{SCRIPT}"


def recorded() -> dict[str, Mapping[str, Ended]]:
    """What the document's tests ended with."""
    if not RECORD.exists():
        return {}
    rows = json.loads(RECORD.read_text())
    return {
        test: {column: Ended(status, tuple(said)) for column, (status, *said) in ends.items()}
        for test, ends in rows.items()
    }


def record(found: Results) -> None:
    """Keep it, a line for each test."""
    lines = (
        f"{json.dumps(test)}: "
        + json.dumps({column: [one.status, *one.said] for column, one in sorted(ends.items())})
        for test, ends in sorted(found.items())
    )
    files.write_atomic(RECORD, "{\n" + ",\n".join(lines) + "\n}\n")


def page(found: Results) -> Iterator[str]:
    """The lines of the document: tests that ended otherwise than on the control are in the table.

    All others are in one line for each way in which they ended.
    """
    alike: dict[str, list[str]] = {}
    apart: dict[str, Mapping[str, Ended]] = {}
    for test, by_column in sorted(found.items()):
        ends = [[by_column.get(column, SILENT) for column in family] for family in FAMILIES]
        if any(len({one.status for one in family}) > 1 for family in ends):
            apart[test] = by_column
        else:
            alike.setdefault(_how(ends), []).append(test)
    ends_of = Counter(
        (column, by_column.get(column, SILENT).status)
        for by_column in found.values()
        for column in COLUMNS
    )
    told = f"{len(found)} tests on Linux in user mode. " + "; ".join(
        f"{name}: " + ", ".join(f"{ends_of[column, status]} {status}" for status in STATUSES)
        for column, name in COLUMNS.items()
    )
    yield from table(apart, told + ".", COLUMNS, SILENT) if apart else (told + ".", "")
    for how, tests in sorted(alike.items(), key=lambda pair: -len(pair[1])):
        numbers = ", ".join(test.partition("/")[2] for test in tests)
        yield f"- {len(tests)} {how}: {numbers}"


def _how(ends: Sequence[Sequence[Ended]]) -> str:
    """How a test ended that did so alike on the three devices of each file system."""
    words = []
    for family in ends:
        why = "; ".join(sorted({_ASIDE.sub("", word) for one in family for word in one.said}))
        words.append(family[0].status + (f" ({why})" if why else ""))
    if len(set(words)) == 1:
        return f"{words[0]} on all six"
    return "; ".join(f"{said} on {kind}" for said, kind in zip(words, KINDS, strict=True))


def main(words: Sequence[str]) -> None:
    """Run the tests, print the table and what differs; end with 1 where one failed on ours only."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("clone", type=Path)
    asked.add_argument("tests", nargs="*")
    asked.add_argument("--minutes", type=float, default=24 * 60)
    asked.add_argument("--write", action="store_true")
    wishes = asked.parse_intermixed_args(words)
    if not (wishes.clone / "check").is_file() or not (wishes.clone / "ltp" / "fsstress").is_file():
        sys.exit(f"{wishes.clone}: no clone of xfstests in which `make` has been run")
    found: dict[str, Mapping[str, Ended]] = recorded() if wishes.write else {}
    tests = wishes.tests or sorted(
        quick(wishes.clone),
        key=lambda test: found.get(test, {}).keys() == COLUMNS.keys(),
    )
    ran_any = False
    try:
        for some in ran(wishes.clone, tests, wishes.minutes):
            found |= {test: {**found.get(test, {}), **ends} for test, ends in some.items()}
            ran_any |= bool(some)
            if wishes.write:
                record(found)
    finally:
        text = "\n".join(page(found))
        apart = differences(found, FAMILIES, SILENT)
        failed = show(text, apart, COLUMNS, (BEGIN, END) if wishes.write else None)
    if not ran_any:
        sys.exit("xfstests ran no test; what it said is above")
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
