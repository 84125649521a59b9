"""Coccinelle's rules of the kernel (scripts/coccinelle, mode `report`) over our modules.

    python -m tests.vm.coccicheck [SERIES]

ends with 1 if a rule has something to say. A rule whose script is in OCaml needs its compiler; one
that could not run is told. The kernel's own scripts/coccicheck wants a configured tree and mixes
what rules find with what Coccinelle says of itself.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ssdbench.errors import HostLacks
from ssdbench.host import command
from ssdbench.lab.archive import Archive, cache_directory
from ssdbench.lab.kernels import SERIES
from tests.vm.linux_source import linux_source

MODULES = Path(__file__).parents[2] / "kmod"
RULE_S = 900
_FOUND = re.compile(r"\S+\.[ch]:\d+")
_LACKS = re.compile(r"No OCaml compiler|not supported|rror:")


def rules(source: Path) -> list[Path]:
    """The kernel's rules that can report, for this purpose or any."""
    every = sorted((source / "scripts" / "coccinelle").rglob("*.cocci"))
    return [rule for rule in every if re.search(r"^virtual .*report", rule.read_text(), re.M)]


def told(rule: Path) -> Iterator[tuple[bool, str]]:
    """What a rule finds in our modules (True), and why it could not run (False)."""
    options = re.findall(r"^/+ *Options: *(.*)$", rule.read_text(), re.M)
    ended = command.run(
        [
            "spatch", "-D", "report", "--very-quiet", "--no-show-diff", "--cocci-file", str(rule),
            *" ".join(options).split(), "--dir", str(MODULES), "-I", str(MODULES / "include"),
        ],
        ok=range(256),
        timeout_s=RULE_S,
        hint="apt-get install coccinelle",
    )  # fmt: skip
    lines = (ended.stdout + ended.stderr).splitlines()
    yield from ((True, line) for line in lines if _FOUND.match(line))
    if ended.status or any(map(_LACKS.search, lines)):
        yield False, next(filter(_LACKS.search, lines), f"spatch ended with {ended.status}")


def main(words: list[str]) -> None:
    """Run every rule. Ends with 1 where one finds something."""
    asked = argparse.ArgumentParser(prog="python -m tests.vm.coccicheck", description=__doc__)
    asked.add_argument("series", nargs="?", choices=SERIES, default=SERIES[-1])
    series = asked.parse_args(words).series
    if command.which("spatch") is None:
        raise HostLacks("coccicheck needs spatch", hint="apt-get install coccinelle")
    found = ran = 0
    for rule in rules(linux_source(Archive(cache_directory()), series)):
        said = list(told(rule))
        ran += all(of_ours for of_ours, _ in said)
        found += sum(of_ours for of_ours, _ in said)
        for of_ours, line in said:
            print(line if of_ours else f"{rule.name} did not run: {line}", flush=True)
    print(f"coccicheck: {ran} rules of Linux {series} ran, {found} found something")
    sys.exit(found > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
