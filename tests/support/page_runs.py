"""Six runs that the page is judged by, and the demo's, of which the example pictures are made.

All but the run of a thousand points were really run; `python -m benchmarks.page_runs` makes them
again.
"""

import tarfile
from pathlib import Path

from tests.support.builders import StoredRunBuilder

STORED = Path(__file__).parents[1] / "data" / "runs" / "pages"
THOUSAND = "thousand"
DEMO = "demo"
NAMES = ("points", THOUSAND, "standard", "rate", "stepping", "cut")
BLOCKS = tuple(512 << n for n in range(10))
READS = (0, 10, 20, 30, 40, 50, 60, 70, 90, 100)
DEPTHS = tuple(1 << n for n in range(10))
DAY_S = 86_400


def a_page_run(name: str, directory: Path) -> Path:
    """The run of that name, in a directory that is not there yet."""
    if name == THOUSAND:
        return a_thousand_points(directory)
    return unpacked(STORED / f"{name}.tar.xz", directory)


def unpacked(archive: Path, directory: Path) -> Path:
    """What is stored of a run."""
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    return directory


def a_thousand_points(directory: Path) -> Path:
    """10 block sizes x 10 mixes x 10 depths of three repeats, after a day of warming up."""
    directory.mkdir(parents=True)
    builder = StoredRunBuilder(directory, repeats=3, measure_s=5)
    builder.steady(seconds=DAY_S)
    builder.sweep(blocks=BLOCKS, reads=READS, depths=DEPTHS)
    builder.write()
    return directory
