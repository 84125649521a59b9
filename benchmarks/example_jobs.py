"""The job files of a directory, such as fio's own examples: which run, and what else is said.

    python -m benchmarks.example_jobs DIR [--limit 60]

Each is run with `sim fio` on a fresh simulated drive, and planned as a measurement (`- fio: FILE`)
of another. What is said is a row in Markdown; places of this machine are no part of it.
"""

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

from ssdbench.errors import CommandFailed
from ssdbench.host.command import Completed, run

DRIVE = "sim:x25m-g2-160,capacity=2GiB"
PROFILE = "target: {drive}\nmeasure:\n  - fio: {job}\n"


def main() -> None:
    """Print the table, a row when it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--limit", type=float, default=60.0)
    options = parser.parse_args()
    print("| job file | `sim fio` | as a measurement |\n|---|---|---|", flush=True)
    for job in sorted(options.directory.resolve().glob("*.fio")):
        with tempfile.TemporaryDirectory() as place:
            ran = _said(job, Path(place), options.limit, "sim", "fio", DRIVE, str(job))
            profile = Path(place, "profile.yaml")
            profile.write_text(PROFILE.format(drive=DRIVE, job=job.name))
            shutil.copy(job, place)
            planned = _said(job, Path(place), options.limit, "plan", str(profile))
        print(f"| {job.name} | {ran} | {planned} |", flush=True)


def _said(job: Path, place: Path, limit_s: float, *words: str) -> str:
    try:
        done = run(
            ["env", "-C", str(place), sys.executable, "-m", "ssdbench", *words],  # some write logs
            ok=range(256),
            env={"PYTHONWARNINGS": "ignore"},
            timeout_s=limit_s,
        )
    except CommandFailed:
        return f"after {limit_s:g} s still at work"
    return "yes" if done.status == 0 else _sentence(done, job, place)


def _sentence(done: Completed, job: Path, place: Path) -> str:
    """The first line that says what is wrong, without the place of the file."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(" ")]  # those are what is not as written
    ours = [line for line in told if job.name in line]
    fios = [line for line in told if line.startswith("fio: ")]
    wrong = (ours or fios or lines)[0]
    for name in (f"{job.parent}/", f"{place}/"):
        wrong = wrong.replace(name, "")
    return re.sub(r"^(error|fio): ", "", wrong).replace("|", "\\|")


if __name__ == "__main__":
    main()
