"""What a report costs: CPU time, memory, bytes, first paint, and whether it is the same twice.

    python -m benchmarks.report_cost RUN…

Without a RUN it makes one of 1,000 points of three repeats with 24 h of seconds before them. Each
report is rendered by a program of its own, as a user does it: its modules were compiled by the
first, and its CPU time is that of the whole program. The least of four is printed, as other work on
the host only adds to it. The first paint is that of headless Chromium, a dash without one.
"""

import os
import sys
import time
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gallery import a_browser
from ssdbench.errors import HostLacks
from tests.support.builders import StoredRunBuilder
from tests.support.chromium import browser

STARTS = 4
BLOCKS = tuple(512 << n for n in range(10))
READS = tuple(range(0, 101, 10))
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DAY_S = 86_400


def large(directory: Path) -> Path:
    """A stored run of about a thousand points, with a day of seconds."""
    builder = StoredRunBuilder(directory, repeats=3, measure_s=5)
    builder.steady(seconds=DAY_S)
    builder.sweep(blocks=BLOCKS, reads=READS, depths=DEPTHS)
    builder.write()
    return directory


def rendered(run: Path, compiled: Path) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and MB of memory at the most; modules are kept in `compiled`."""
    began = time.monotonic()
    program = [sys.executable, "-m", "ssdbench", "report", str(run)]
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    kept = os.environ | {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(compiled)}
    child = os.posix_spawn(sys.executable, program, kept, file_actions=quiet)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"the report of {run} failed")
    return used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1000


def line(name: str, run: Path) -> str:
    """The row of one run."""
    page = run / "report.html"
    costs, pages = [], set()
    with TemporaryDirectory() as compiled:
        for _ in range(STARTS):
            costs.append(rendered(run, Path(compiled)))
            pages.add(sha256(page.read_bytes()).hexdigest())
    cpu, wall, memory = (min(one[place] for one in costs) for place in range(3))
    size, same = page.stat().st_size / 1e6, "yes" if len(pages) == 1 else "NO"
    return f"{name:<24} {cpu:8.2f} {wall:8.2f} {memory:8.0f} {size:8.2f} {painted(page):>8}  {same}"


def painted(page: Path) -> str:
    """Seconds until something of the page is seen."""
    try:
        program = a_browser()
    except HostLacks:
        return "-"
    asked = """new Promise(told => { const look = () => {
        const [paint] = performance.getEntriesByName('first-contentful-paint');
        paint ? told(paint.startTime) : setTimeout(look, 20); }; look(); })"""
    with browser(program) as window:
        window.open(page)  # once for its own start
        found = []
        for _ in range(STARTS):
            window.open(page)
            found.append(float(window.evaluate(asked)))
    return f"{min(found) / 1000:.2f}"


def main() -> None:
    """Print the table."""
    print(
        f"{'run':<24} {'CPU, s':>8} {'wall, s':>8} {'MB':>8} {'page, MB':>8} "
        f"{'paint, s':>8}  same twice"
    )
    for run in map(Path, sys.argv[1:]):
        print(line(run.name, run))
    if len(sys.argv) == 1:
        with TemporaryDirectory() as place:
            print(line("1,000 points, 24 h", large(Path(place) / "run")))


if __name__ == "__main__":
    main()
