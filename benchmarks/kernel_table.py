"""Make the table of kernels in kmod/README.md: which modules compile, load and work on which.

    python -m benchmarks.kernel_table [--write] [NAME…] [NAME=DIR…]

A NAME is one of the lab's kernels (none: all of them). NAME=DIR is a kernel tree that was prepared
elsewhere: with `make bzImage modules` it is booted, too, with `make modules_prepare` the modules
are only compiled. `--write` puts each row into the table as soon as it is known, in the place of
the one with the same name.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.tables import markdown
from ssdbench.errors import SsdbenchError
from ssdbench.host import command
from ssdbench.host.kernel_source import header_version
from ssdbench.host.kmod import MODULES, build, source_directory
from ssdbench.lab.archive import Archive, cache_directory
from ssdbench.lab.guest import GuestTrouble
from ssdbench.lab.kernels import BUILT_IMAGE, OFFERS
from ssdbench.lab.session import Lab, built_modules

README = Path(__file__).parents[1] / "kmod" / "README.md"
BEGIN, END = "<!-- kernels: python -m benchmarks.kernel_table --write -->", "<!-- /kernels -->"
ZONES = "zones"  # the drive in zones, which the module has only where the kernel has what it needs
COLUMNS = (*(f"`{name}`" for name in MODULES), ZONES)
HEAD = ("kernel", "release", *COLUMNS)
OLDEST, LAST_OF_6 = 1, 19  # 6.1; 7.0 came after 6.19
TRY_S = 600
# Says "MODULE loads" and "MODULE tested" of each; data are verified wherever any are written.
SCRIPT = r"""
C=/sys/kernel/config F=$C/ssdb_flash/ssd0 T=$C/ssdb_tmerge/tm0 S=$C/ssdb_slam/a
modprobe configfs
for path in "$@"; do name=$(basename $path .ko); insmod $path && echo $name loads; done
on() { mkdir $F && for pair in capacity_bytes=67108864 erase_block_bytes=65536 op_ppm=200000 \
    channels=2 program_unit_bytes=4096 read_unit_bytes=4096 "$@"; do
  echo "${pair#*=}" > $F/${pair%%=*} || return 1; done; echo 1 > $F/power; }
off() { echo 0 > $F/power; rmdir $F; }
verified() { fio --name=v --filename=/dev/$1 --direct=1 --rw=randwrite --bs=4k --ioengine=libaio \
  --iodepth=16 --verify=crc32c --do_verify=1 --size=1m --randrepeat=0 --minimal "${@:2}" \
  > /dev/null; }
flash() { for options in completion=timer "irq_cpu=1 return_to_origin=1" mode=bio completion=spin \
    "lines=percpu queues=2"; do on $options && verified ssd0 && off || return 1; done; }
zoned() { on zoned=1 zone_size=1 && verified ssd0 --zonemode=zbd --max_open_zones=4 && off; }
merged() { for mode in hybrid stm atm spatial-intr spatial-poll; do
  mkdir $T && echo /dev/ssd0 > $T/device && echo $mode > $T/mode && echo 1 > $T/power &&
  verified tm0 && echo 0 > $T/power && rmdir $T || return 1; done; }
scheduled() { for name in bpref-as bpref-cfq none; do
  echo $name > /sys/block/ssd0/queue/scheduler && verified ssd0 || return 1; done; }
slammed() { mkdir $S; echo /dev/ssd0 > $S/device; echo 200 > $S/runtime_ms
  for level in bio request; do echo $level > $S/level && echo 1 > $S/running || return 1
    while [ $(cat $S/running) = 1 ]; do sleep 0.1; done
    [ $(cat $S/ios) -gt 0 ] && [ $(cat $S/errors) = 0 ] || return 1; done; rmdir $S; }
flash && echo ssdb_flash tested
zoned && echo zones tested || off; on
merged && echo ssdb_tmerge tested; scheduled && echo ssdb_bpref tested
slammed && echo ssdb_slam tested; off
for name in ssdb_slam ssdb_bpref ssdb_tmerge ssdb_flash; do rmmod $name; done
"""


def try_in_lab(name: str, cache: Path, tree: Path | None = None) -> list[str]:
    """Return the row of a kernel of the lab, or of a kernel built in a directory."""
    lab = Lab(Archive(cache), name, tree=tree)
    built = built_modules(lab.kernel, cache)
    found = _compiled(built)
    complaint = ""
    try:
        answer = lab.run(
            ["bash", "-c", SCRIPT, "bash", *map(str, built)], cwd=Path("/"), timeout_s=TRY_S
        )
        print(answer.stdout, answer.stderr, sep="", file=sys.stderr)
        for line in answer.stdout.splitlines():
            what, _, state = line.partition(" ")
            found[what] = state
    except GuestTrouble as trouble:
        print(trouble.hint, file=sys.stderr)
        complaint = f": {trouble.message}"
    states = [found.get(what, "no") + complaint for what in (*MODULES, ZONES)]
    return [name, lab.kernel.release, *states]


def try_tree(name: str, tree: Path) -> list[str]:
    """Return the row of a tree for which the modules are only compiled."""
    with TemporaryDirectory() as work:
        block = tree if (tree / "block" / "elevator.h").exists() else None
        made = build(source_directory(), Path(work) / "kmod", headers=tree, block_source=block,
                     options=["KBUILD_MODPOST_WARN=1"])  # fmt: skip
        states = _compiled(made.files)
    states |= {
        module: f"no: {why.rpartition('error: ')[2]}" for module, why in made.lacking.items()
    }
    found = [states.get(what, "no") for what in (*MODULES, ZONES)]
    return [name, header_version(tree) or "?", *found]


def _compiled(files: Sequence[Path]) -> dict[str, str]:
    """Return which modules compiled, and `zones` where the kernel has what they need."""
    states = {path.stem: "compiles" for path in files}
    for path in files:
        if "blk_revalidate_disk_zones" in command.run(["nm", "-u", str(path)]).stdout:
            states[ZONES] = "compiles"
    return states


def with_rows(text: str, rows: Mapping[str, Sequence[str]]) -> str:
    """Return the README with these rows in its table, replacing rows of the same name."""
    before, _, rest = text.partition(BEGIN)
    old, _, after = rest.partition(END)
    table = {
        cells[0]: cells
        for line in old.splitlines()
        if line.startswith("| ")
        and "| release |" not in line
        and (cells := line.strip("| ").split(" | "))
    }
    table |= {name: [*row] for name, row in rows.items()}
    ordered = sorted(table.values(), key=lambda cells: _order(cells[0]))
    untried = [name for name in OFFERS if name not in table]
    untried += _not_tried([cells[1] for cells in table.values()])
    lines = f"{markdown(HEAD, ordered)}\n\nNot tried: {', '.join(untried)}."
    return f"{before}{BEGIN}\n{lines}\n{END}{after}"


def _not_tried(releases: Sequence[str]) -> Iterator[str]:
    """Yield the versions of Linux between the releases that were tried."""
    tried = {tuple(map(int, found)) for r in releases for found in re.findall(r"^(\d+)\.(\d+)", r)}
    newest = max((minor for major, minor in tried if major == 7), default=-1)
    yield "5.x"
    for major, first, last in ((6, OLDEST, LAST_OF_6), (7, 0, newest)):
        began = first
        for minor in range(first, last + 2):
            if minor > last or (major, minor) in tried:
                if began < minor:
                    to = f" to {major}.{minor - 1}" if began < minor - 1 else ""
                    yield f"{major}.{began}{to}"
                began = minor + 1


def _order(name: str) -> tuple[int, int, str]:
    major, _, rest = name.partition(".")
    minor = rest.partition("-")[0]
    return int(major), int(minor) if minor.isdigit() else 99, name


def wish(word: str) -> tuple[str, Path | None]:
    """Parse a kernel of the lab, or a name for the table and its tree."""
    name, found, directory = word.partition("=")
    if not found and name not in OFFERS:
        raise argparse.ArgumentTypeError(
            f"there is no kernel {name} in the lab; it has {', '.join(OFFERS)}, and NAME=DIR "
            "tries a tree of yours"
        )
    if found and not re.match(r"\d+\.", name):
        raise argparse.ArgumentTypeError(f"{word}: NAME begins with the series, such as 6.18")
    if found and not (Path(directory) / "Makefile").is_file():
        raise argparse.ArgumentTypeError(f"there is no kernel tree in {directory or word}")
    return name, Path(directory) if found else None


def main(words: Sequence[str]) -> None:
    """Try each kernel, print its row, and write it if asked."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--write", action="store_true")
    asked.add_argument("kernels", nargs="*", type=wish, metavar="NAME[=DIR]")
    wishes = asked.parse_intermixed_args(words)
    cache = cache_directory()
    for name, tree in wishes.kernels or [(name, None) for name in OFFERS]:
        try:
            if tree and not (tree / BUILT_IMAGE).exists():
                row = try_tree(name, tree)
            else:
                row = try_in_lab(name, cache, tree)
        except SsdbenchError as error:
            print(f"{name}: {error.message}", file=sys.stderr)
            continue
        print("| " + " | ".join(row) + " |", flush=True)
        if wishes.write:
            README.write_text(with_rows(README.read_text(), {name: row}))


if __name__ == "__main__":
    main(sys.argv[1:])
