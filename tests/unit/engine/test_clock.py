"""A wall clock may step; nothing that is measured comes from it."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "ssdbench"


def test_no_window_or_duration_comes_from_the_wall_clock() -> None:
    reading = re.compile(r"\btime\.time\b|\btime_ns\(|\.timestamp\(\)|CLOCK_REALTIME")

    found = {
        path.relative_to(SOURCE).as_posix()
        for part in ("engine", "stages", "generator", "stats", "tuning", "target")
        for path in (SOURCE / part).rglob("*.py")
        if reading.search(path.read_text())
    }

    # The lines of a power meter carry the wall clock's time. If it steps, the window has a gap.
    assert found == {"engine/power.py"}
