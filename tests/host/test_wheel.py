"""The wheel, as a user gets it: it works without a compiler."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROFILE = """\
title: A tiny one
target: sim:x25m-g2-160,capacity=4GiB
precondition:
  - {pattern: sequential, block: 128KiB, fill: 1}
steady:
  rule: pss
  workload: {block: 128KiB, read: 0, iodepth: 8, numjobs: 1}
  max_fills: 1
repeats: 2
window: 2s
seed: 1
measure:
  - sweep: {block: [128KiB], read: [100], iodepth: 8, numjobs: 1}
"""


def call(*argv: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(word) for word in argv],
        capture_output=True, text=True, check=False, timeout=500,
        env={**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, **environment},
    )  # fmt: skip


@pytest.mark.soak
def test_an_installed_wheel_runs_fio_on_a_simulated_drive_without_a_compiler(
    tmp_path: Path,
) -> None:
    pip = (sys.executable, "-m", "pip", "-q")
    built = call(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT)
    assert built.returncode == 0, built.stderr
    installed = tmp_path / "installed"
    made = call(*pip, "install", "--no-deps", "--target", installed, next(tmp_path.glob("*.whl")))
    assert made.returncode == 0, made.stderr
    programs = tmp_path / "bin"  # fio and what starts it, no compiler and no make
    programs.mkdir()
    for name in ("fio", "env", "lsblk", "uname", "setpriv", "sh"):
        (programs / name).symlink_to(shutil.which(name) or "")
    (tmp_path / "tiny.yaml").write_text(PROFILE)

    said = call(
        sys.executable, "-m", "ssdbench", "run", tmp_path / "tiny.yaml",
        "--output", tmp_path / "out", PATH=str(programs), PYTHONPATH=str(installed),
    )  # fmt: skip

    assert "Traceback" not in said.stderr, said.stderr
    assert "simulated" in (tmp_path / "out" / "report.html").read_text().lower()


def test_a_wheel_has_the_same_bytes_wherever_it_was_built(tmp_path: Path) -> None:
    wheels = []
    for place, umask in (("one", "022"), ("another place", "077")):
        clone = tmp_path / place / "source"
        for name in call("git", "-C", ROOT, "ls-files", "-z").stdout.strip("\0").split("\0"):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
        made = call(
            "sh", "-c", f'umask {umask}; exec "$@"', "sh", sys.executable, "-m", "pip", "-q",
            "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path / place, clone,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        wheels.append(next((tmp_path / place).glob("*.whl")))
    one, another = wheels
    assert one.name == another.name
    assert one.read_bytes() == another.read_bytes()
    names = zipfile.ZipFile(one).namelist()
    for wanted in ("completions/ssdbench", "site-functions/_ssdbench", "ssdbench.fish"):
        assert any(name.endswith(wanted) for name in names), wanted
    assert "-manylinux_2_" in one.name
