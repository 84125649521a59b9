"""The gallery: example reports from new runs, as pages and pictures.

    nox -s gallery                      all
    nox -s gallery -- demo span         some

Every run is simulated but `host`, which needs root and uses a loop device over a file; it is left
out elsewhere. The pages lie in reports/gallery/NAME.html and are not committed, because they are
made again in minutes; the pictures, the index and one table are. Pictures need chromium.
"""

import html
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ssdbench.host.command import run, which
from ssdbench.report.read import StoredRun
from ssdbench.target.inspect import inspect

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "reports" / "gallery"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1200, 1500
LOOP_BYTES = 256 << 20
SHORT = "repeats: 3\nwindow: 30s\nsettle: {spare: 10%, window: 60s, flat: 30s, max_fills: 4}\n"


@dataclass(frozen=True, slots=True)
class Example:
    """One run of the gallery and what it shows."""

    name: str
    says: str
    profile: str  # YAML text
    loop: bool = False  # on a loop device, as root


EXAMPLES = (
    Example("demo", "The whole main job: fill, proof of steady state, points, spans, plan.", ""),
    Example(
        "span",
        "The span cliff: what the part of a drive that nobody writes to is worth.",
        "title: Growing spans of a simulated Intel X25-M G2\n"
        "target: sim:x25m-g2-160,capacity=1GiB\n"
        "precondition: [{pattern: sequential, block: 128KiB, fill: 2}]\n" + SHORT + "measure:\n"
        "  - span: {spans: [10%, 25%, 50%, 75%, 90%, 100%], rest: ordered, "
        "settle: {spare: 200%, window: 60s, max_fills: 60}}\n",
    ),
    Example(
        "blocksize",
        "The block of a Memoright GT, from the peaks of strided writes.",
        "title: Block size of a simulated Memoright GT\n"
        "target: sim:memoright-gt,capacity=2GiB\nprecondition: []\nmeasure: [{blocksize: {}}]\n",
    ),
    Example(
        "pts",
        "A standard test in the style of SNIA's PTS, its durations scaled down.",
        "title: PTS-style IOPS test, scaled down\n"
        "target: sim:dram-ssd-2012,capacity=1GiB\n"
        "precondition: [{pattern: sequential, block: 128KiB, fill: 2}]\n"
        "measure: [{pts: {tests: [iops], form: client, scale: 0.05}}]\n",
    ),
    Example(
        "host",
        "Schedulers compared on a loop device: real fio, real kernel, no drive.",
        "title: I/O schedulers on a loop device\n"
        "precondition: [{pattern: sequential, block: 128KiB, fill: 1}]\n"
        "measure: [{schedulers: {window: 1s, repeats: 3}}]\n",
        loop=True,
    ),
)


@contextmanager
def target_of(example: Example, place: Path) -> Iterator[list[str]]:
    """The words that name the target, for as long as it is there."""
    if not example.loop:
        yield []
        return
    backing = place / "loop.img"
    with backing.open("wb") as file:
        file.truncate(LOOP_BYTES)
    node = run(["losetup", "--find", "--show", "--direct-io=on", str(backing)]).stdout.strip()
    try:
        yield ["--target", node, "--destroy", inspect(node).id]
    finally:
        run(["losetup", "--detach", node])


def measured(example: Example, place: Path) -> Path:
    """Run an example; returns its run directory."""
    profile = ROOT / "profiles" / "demo.yaml"
    if example.profile:
        profile = place / f"{example.name}.yaml"
        profile.write_text(example.profile)
    out = place / example.name
    argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--output", str(out)]
    with target_of(example, place) as target:
        run([*argv, "--seed", "1", *target], ok=(0, 1))
    return out


def picture(page: Path, to: Path, *, dark: bool = False) -> bool:
    """A picture of the head of a page; False without a browser."""
    browser = next((name for name in BROWSERS if which(name)), None)
    if browser is None:
        return False
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    with tempfile.TemporaryDirectory() as own:
        argv = [
            browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--disable-background-networking", "--no-first-run", f"--user-data-dir={own}",
            f"--window-size={WIDTH},{HEIGHT}", *scheme, f"--screenshot={to}", page.as_uri(),
        ]  # fmt: skip
        run(argv, timeout_s=120)
    return to.exists()


@dataclass(frozen=True, slots=True)
class Shown:
    """An example as the index tells it."""

    example: Example
    target: str
    seed: int
    verdict: str
    pictures: tuple[str, ...]


def shown(example: Example, place: Path) -> Shown:
    """Run an example and put its page and pictures into the gallery."""
    directory = measured(example, place)
    result = StoredRun.open(directory).result
    page = GALLERY / f"{example.name}.html"
    shutil.copyfile(directory / "report.html", page)
    if example.name == "demo":
        shutil.copyfile(directory / "summary.csv", GALLERY / "demo-summary.csv")
    names = [(f"{example.name}.png", False)]
    if example.name == "demo":
        names.append((f"{example.name}-dark.png", True))
    made = tuple(name for name, dark in names if picture(page, GALLERY / name, dark=dark))
    kind = "SIMULATED: " if result.target.simulated else ""
    name = result.target.name if result.target.simulated else f"a {result.target.kind} device"
    return Shown(example, f"{kind}{name}", result.seed, result.verdict, made)


def index(entries: Sequence[Shown]) -> str:
    """The page that shows all examples."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>ssdbench: gallery</title>",
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;"
        "padding:0 1rem;color-scheme:light dark}img{width:100%;border:1px solid #8888}"
        "h2{margin-top:3rem}</style><h1>ssdbench: gallery</h1>",
        "<p>Each was measured on a <strong>simulated drive</strong>, or on a loop device where it "
        "says so: the numbers describe models and show what a report looks like. None is a number "
        "of a drive. <code>nox -s gallery</code> makes the pages and pictures again.</p>",
    ]
    for entry in entries:
        example = entry.example
        parts.append(
            f"<h2>{html.escape(example.name)}</h2><p>{html.escape(example.says)}</p>"
            f"<p>{html.escape(entry.target)}, seed {entry.seed}: "
            f"<strong>{html.escape(entry.verdict)}</strong></p>"
        )
        parts += [
            f'<p><img src="{name}" alt="the head of the report {html.escape(example.name)}"></p>'
            for name in entry.pictures
        ]
        if example.name == "demo":
            parts.append('<p>Its table: <a href="demo-summary.csv">demo-summary.csv</a></p>')
    return "\n".join([*parts, "</html>", ""])


def main(names: Sequence[str]) -> int:
    """Make the examples of these names, or all."""
    wanted = [e for e in EXAMPLES if not names or e.name in names]
    if os.geteuid() != 0:
        wanted = [example for example in wanted if not example.loop]
    GALLERY.mkdir(parents=True, exist_ok=True)
    entries = []
    with tempfile.TemporaryDirectory(prefix="gallery-") as place:
        for example in wanted:
            print(f"{example.name} …", flush=True)
            entries.append(shown(example, Path(place)))
            print(f"  {entries[-1].verdict}: {GALLERY / example.name}.html", flush=True)
    if len(entries) == len(EXAMPLES):
        (GALLERY / "index.html").write_text(index(entries))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
