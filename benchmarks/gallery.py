"""Make the gallery: example reports as pages and pictures.

    nox -s gallery                      all
    nox -s gallery -- demo span         some; the rest stay as they are

Most are the runs that the tests of the page keep (`python -m benchmarks.page_runs` renews these);
the others are run anew. Every one is simulated but `host`, which needs root and uses a loop device
over a file; it is left out elsewhere. The pages lie in reports/gallery/NAME.html and are not
committed, because they are made again in minutes; the pictures, the index (reports/README.md), what
it says of each (NAME.json) and the demo's tables are. Pictures need a browser: without one nothing
is run, and the exit code is 4.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ssdbench.cli.background import unended_result
from ssdbench.errors import HostLacks
from ssdbench.host.command import run, which
from ssdbench.report.read import StoredRun
from ssdbench.report.view.headline import headword
from ssdbench.target.inspect import inspect
from tests.support.chromium import Box, Look, browser
from tests.support.devices import attached_loop
from tests.support.page_runs import a_page_run

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "reports" / "gallery"
INDEX = ROOT / "reports" / "README.md"
BROWSERS = ("chromium", "google-chrome", "chromium-browser")
NO_BROWSER = (
    "the gallery's pictures need chromium (on Debian: apt-get install chromium) or google-chrome; "
    "a browser from a snap, as on Ubuntu, does not see pages in /tmp"
)
WIDTH = 1200
LEAST_DESK = 600  # a narrower page is shown as on a phone
COLOURS = 64  # a palette of so many keeps a picture well below 300 kB
LOOP_BYTES = 256 << 20
RUN_LIMIT_S = 900.0
SEED = "1"
SHORT = "repeats: 3\nwindow: 30s\nsettle: {spare: 10%, window: 60s, flat: 30s, max_fills: 4}\n"
FILL = "precondition: [{pattern: sequential, block: 128KiB, fill: 2}]\n"


@dataclass(frozen=True, slots=True)
class Shot:
    """Describe a picture: the head of a page, or only the section whose id ends in `part`."""

    suffix: str = ""
    part: str = ""
    height: int = 1100
    width: int = WIDTH
    dark: bool = False
    says: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """Describe one report of the gallery and what it shows."""

    name: str
    says: str
    profile: str = ""  # YAML text, where there is no stored run
    shots: tuple[Shot, ...] = (Shot(),)
    drives: tuple[str, ...] = ()  # one run each, in place of the profile's target, compared
    loop: bool = False  # on a loop device, as root
    stored: str = ""  # no new run: one of `benchmarks.page_runs`, by which the page is tested


EXAMPLES = (
    Example(
        "demo",
        "A planner's question and its answer: how many drives carry 100 virtual machines?",
        shots=(
            Shot(says="its head"),
            Shot("-dark", dark=True, says="the same on a system in dark mode"),
            Shot("-plan", "plan", 900, says="its capacity plan"),
        ),
        stored="demo",
    ),
    Example(
        "span",
        "The span cliff: how much faster a full drive is if the rest was written once, in order.",
        "title: Growing spans of a simulated Intel X25-M G2\n"
        "target: sim:x25m-g2-160,capacity=1GiB\n" + FILL + SHORT + "measure:\n"
        "  - span: {spans: [10%, 50%, 75%, 100%], rest: ordered, "
        "settle: {spare: 200%, window: 60s, max_fills: 60}}\n",
        (Shot(part="-span", height=1000, says="the stage"),),
    ),
    Example(
        "blocksize",
        "The block of a Memoright GT, from the peaks of strided writes.",
        "title: Block size of a simulated Memoright GT\n"
        "target: sim:memoright-gt,capacity=1GiB\nprecondition: []\n"
        "measure: [{blocksize: {writes: 4000}}]\n",
        (Shot(height=1200, says="its head"),),
    ),
    Example(
        "pts",
        "Standard tests in the style of SNIA's PTS, their durations scaled down to a fortieth.",
        shots=(Shot(part="-throughput-1024k", height=1300, says="one stage"),),
        stored="standard",
    ),
    Example(
        "rate",
        "The highest offered rate that keeps p99 within 10 ms, and latency on the way there.",
        shots=(Shot(part="-rate", height=1100, says="the stage"),),
        stored="rate",
    ),
    Example(
        "compare",
        "A planner's question to two drives: which one, how many, and what else differs?",
        "title: 200 VMs on two drives\n"
        "target: sim:x25m-g2-160,capacity=1GiB\n" + FILL + "plan: {vms: 200, iops_each: 20, "
        "read: 80, block: 4KiB, p99: {read: 50ms}, outstanding: 16, endurance_tb: 150}\n",
        (
            Shot(width=1400, height=1300, says="the page of `ssdbench compare`"),
            Shot("-phone", width=390, height=1500, says="the same on a phone"),
        ),
        drives=("sim:x25m-g2-160,capacity=1GiB", "sim:memoright-gt,capacity=1GiB"),
    ),
    Example(
        "host",
        "Schedulers compared on a loop device: real fio, real kernel, no drive.",
        "title: I/O schedulers on a loop device\n"
        "precondition: [{pattern: sequential, block: 128KiB, fill: 1}]\nsteady: {max_time: 20s}\n"
        "measure: [{schedulers: {window: 1s, repeats: 3}}]\n",
        (Shot(part="-schedulers", height=1000, says="the stage"),),
        loop=True,
    ),
    Example(
        "stepping",
        "A drive that becomes slower after its warm-up: NOT VALIDATED, and why.",
        shots=(Shot(says="its head"),),
        stored="stepping",
    ),
    Example(
        "cut",
        "A run that was killed with `kill -9`: what it measured until then.",
        shots=(Shot(says="its head"),),
        stored="cut",
    ),
    Example(
        "thousand",
        "A thousand made-up points after a day of warming up: maps and filters.",
        shots=(Shot(part="-sweep", height=1500, says="the stage"),),
        stored="thousand",
    ),
)


Shown = dict[str, Any]  # what the index says of an example, as it is stored beside its pictures


@contextmanager
def target_of(example: Example, place: Path) -> Iterator[list[str]]:
    """Yield the options that name a loop device as target; remove the device at the end."""
    if not example.loop:
        yield []
        return
    with attached_loop(place / "loop.img", size_bytes=LOOP_BYTES) as loop:
        node = str(loop.node)
        yield ["--target", node, "--destroy", inspect(node).consent_id]


def ssdbench(*words: str) -> None:
    """Run ssdbench; accept a run that is not validated."""
    run([sys.executable, "-m", "ssdbench", *words], ok=(0, 1), timeout_s=RUN_LIMIT_S)


def measured(example: Example, place: Path) -> list[Path]:
    """Run an example; return its run directories."""
    if example.stored:
        directory = a_page_run(example.stored, place / example.name)
        ssdbench("report", str(directory))
        return [directory]
    profile = place / f"{example.name}.yaml"
    profile.write_text(example.profile)
    found = []
    for drive in example.drives or ("",):
        model = drive.removeprefix("sim:").split(",")[0]
        out = place / (model or example.name)
        with target_of(example, place) as target:
            words = ["--target", drive] if drive else target
            ssdbench("run", str(profile), "--output", str(out), "--seed", SEED, *words)
        found.append(out)
    return found


def page_of(example: Example, directories: Sequence[Path]) -> Path:
    """Put an example's page into the gallery."""
    page = GALLERY / f"{example.name}.html"
    if example.drives:
        ssdbench("compare", *map(str, directories), "--html", str(page))
    else:
        shutil.copyfile(directories[0] / "report.html", page)
    if example.name == "demo":
        for table in ("results.csv", "summary.csv"):
            shutil.copyfile(directories[0] / table, GALLERY / table)
    return page


def shown(example: Example, place: Path, program: str) -> Shown:
    """Run an example; put its page, its pictures and what the index says into the gallery."""
    directories = measured(example, place)
    results = [unended_result(at) or StoredRun.open(at).result for at in directories]
    page = page_of(example, directories)
    for shot in example.shots:
        picture(program, page, shot, GALLERY / f"{example.name}{shot.suffix}.png")
    entry = {
        "name": example.name,
        "says": example.says,
        "targets": [
            f"SIMULATED: {r.target.name}" if r.target.simulated else f"a {r.target.kind} device"
            for r in results
        ],
        "seed": results[0].seed,
        "verdicts": [headword(r).word for r in results],
        "pictures": [[f"{example.name}{one.suffix}.png", one.says] for one in example.shots],
    }
    stored = json.dumps(entry, indent=1) + "\n"
    (GALLERY / f"{example.name}.json").write_text(stored, encoding="utf-8")
    return entry


def a_browser() -> str:
    """Return the first browser that works on pages in /tmp. Raises HostLacks without any."""
    for name in BROWSERS:
        path = which(name)
        if path and "snap" not in Path(path).resolve().parts and not _starts_a_snap(Path(path)):
            return path
    raise HostLacks(NO_BROWSER)


def _starts_a_snap(program: Path) -> bool:
    """Return whether a program is a script that starts a browser from a snap."""
    with program.open("rb") as file:
        head = file.read(4096)
    return head.startswith(b"#!") and b"/snap/" in head


def picture(program: str, page: Path, shot: Shot, to: Path) -> None:
    """Take a picture. Raises BrowserFailed when the browser fails."""
    look = Look("", shot.width, dark=shot.dark, phone=shot.width < LEAST_DESK)
    with tempfile.TemporaryDirectory() as own, browser(program) as shown_by:
        shown_page = Path(own) / "page.html"
        shown_page.write_text(only(page.read_text(encoding="utf-8"), shot.part), encoding="utf-8")
        shown_by.open(shown_page, look)
        to.write_bytes(shown_by.picture(Box(0, 0, shot.width, shot.height)))
    with Image.open(to) as full:
        reduced = full.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    reduced.save(to, optimize=True)


def only(page: str, part: str) -> str:
    """Return a page with nothing but its banner and the section whose id ends in `part`."""
    if not part:
        return page
    found = re.search(rf'<section id="([^"]*{re.escape(part)})"', page)
    if found is None:
        raise SystemExit(f"no section of the page has an id that ends in {part!r}")
    rest = f'header, footer, main > :not([id="{found[1]}"]) {{ display: none !important }}'
    return page.replace("</head>", f"<style>{rest}</style></head>", 1)


def index(entries: Sequence[Shown]) -> str:
    """Return reports/README.md: what each example shows, its target, and its pictures."""
    parts = [
        "# Reports",
        "New runs go to `reports/<run>/`, which git ignores. Here are examples. `nox -s gallery` "
        "makes them again and leaves the\nwhole pages in `gallery/*.html`. They were measured on "
        "**simulated drives**, or on a loop device where this is stated.\nThe numbers describe "
        "models and show what a report looks like; none is a number of a real drive. All examples "
        "except\nthe demo are kept short on purpose, and say so: do not plan on them.",
        "The tables of the demo: [results.csv](gallery/results.csv) has one row per point, repeat "
        "and metric;\n[summary.csv](gallery/summary.csv) has one row per point "
        "([columns](../docs/run-directory.md)).",
    ]
    for entry in entries:
        ran = "; ".join(
            f"`{target}`: {verdict}"
            for target, verdict in zip(entry["targets"], entry["verdicts"], strict=True)
        )
        name = entry["name"]
        parts += [f"## {name}", entry["says"], f"{ran} (seed {entry['seed']})."]
        parts += [f"![{name}: {says}](gallery/{file})" for file, says in entry["pictures"]]
    return "\n\n".join(parts) + "\n"


def remembered() -> list[Shown]:
    """Return what the index says of all examples made so far, in the gallery's order."""
    paths = [GALLERY / f"{example.name}.json" for example in EXAMPLES]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def main(names: Sequence[str]) -> int:
    """Make the examples of these names, or all."""
    known = [example.name for example in EXAMPLES]
    if unknown := [name for name in names if name not in known]:
        print(f"no example {unknown[0]}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    wanted = [e for e in EXAMPLES if not names or e.name in names]
    if os.geteuid() != 0:
        wanted = [example for example in wanted if not example.loop]
    try:
        program = a_browser()
    except HostLacks as error:
        print(error.message, file=sys.stderr)
        return error.exit_code
    GALLERY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gallery-") as place:
        for example in wanted:
            print(f"{example.name} …", flush=True)
            entry = shown(example, Path(place), program)
            print(f"  {'; '.join(entry['verdicts'])}: {GALLERY / example.name}.html", flush=True)
    INDEX.write_text(index(remembered()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
