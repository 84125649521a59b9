"""The wheels of this clone and of all that it needs, as a release has them."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from release import deb, machines

ROOT = Path(__file__).parents[2]


@cache
def wheel() -> Path:
    """Build the wheel of this clone."""
    place = machines.CACHE / "wheel"
    for old in place.glob("ssdbench-*.whl"):
        old.unlink()
    options = ("-q", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "-w", place, ROOT], check=True)
    (made,) = place.glob("ssdbench-*.whl")
    return made


def wheels(place: Path, version: str) -> Path:
    """Fill a directory with all wheels for a version of Python, and with pip; return it."""
    place.mkdir(exist_ok=True)
    fetched = deb.wheelhouse(version)
    if not list(fetched.glob("pip-*.whl")):
        words = ("-m", "pip", "download", "-q", "--no-deps", "-d", fetched, "pip")
        subprocess.run([sys.executable, *words], check=True)
    for one in (*fetched.glob("*.whl"), wheel()):
        shutil.copy(one, place)
    return place
