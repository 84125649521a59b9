"""The drive core's own tests, in C: built as a user would build them, and run."""

import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[3] / "kmod" / "ftl"


def make(target: str, out: Path) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", str(CORE), f"OUT={out}", target],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_the_core_needs_no_libc_no_floating_point_and_small_stack_frames(tmp_path: Path) -> None:
    make("freestanding", tmp_path)


@pytest.mark.parametrize(
    "target", ["test-sanitized", pytest.param("test-fast", marks=pytest.mark.soak)]
)
def test_the_cores_own_tests_pass(target: str, tmp_path: Path) -> None:
    output = make(target, tmp_path)

    assert ", 0 failed checks" in output


def test_random_drives_and_requests_keep_all_invariants(tmp_path: Path) -> None:
    output = make("fuzz-plain", tmp_path)

    assert "300 rounds" in output
