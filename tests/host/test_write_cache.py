"""The write cache as a judged fact of a run, on simulated drives whose cache is known."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.host

PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, workload: {block: 16KiB, iodepth: 8}}
repeats: 1
window: 5s
settle: {window: 5s, flat: 5s, max_fills: 1, unbroken: 10s}
measure:
  - probe: {of: [flush]}
  - sweep: {block: 16KiB, iodepth: 8}
"""


def a_run(directory: Path, drive: str) -> tuple[dict[str, Any], str]:
    profile, output = directory / "cache.yaml", directory / "run"
    profile.write_text(PROFILE)
    argv = [sys.executable, "-m", "ssdbench", "run", str(profile), "--output", str(output)]
    argv += ["--target", f"sim:x25m-g2-160,capacity=512MiB,{drive}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr  # the rule never validates
    result = json.loads((output / "result.json").read_text())
    return result, (output / "report.html").read_text()


@pytest.mark.parametrize(
    ("drive", "kind", "told"),
    [
        ("wbuf_volatile=yes,wbuf=32MiB", "volatile", {"volatile-cache"}),
        ("wbuf_volatile=no", "protected", set()),
        ("wbuf=0", "none", set()),
    ],
)
def test_a_run_tells_which_cache_its_writes_went_through(
    tmp_path: Path, drive: str, kind: str, told: set[str]
) -> None:
    result, report = a_run(tmp_path, drive)

    cache = result["write_cache"]
    points = [point for stage in result["stages"] for point in stage["found"].get("points", ())]
    codes = {f["code"] for f in result["findings"]} | {
        f["code"] for point in points for f in point["findings"]
    }
    assert cache["kind"] == kind
    assert (cache["flush_us_after_many"] > 10 * cache["flush_us_after_1"]) == (kind == "volatile")
    assert codes & {"volatile-cache", "hidden-by-buffer"} == told
    assert f"<dt>Write cache</dt><dd>{kind}" in report
