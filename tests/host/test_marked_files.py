"""What was put into a file that ssdbench wrote: only its own content is overwritten unasked."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.shell import Shell

PROFILE = """
title: Again
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {block: 4KiB, read: [100]}}]
"""
SIZE = 32 * MIB
LIMIT = "65MiB"  # enough for the fill: a file that nothing was written to could not be told apart


def copied_over(disk: Path) -> None:
    precious = disk.with_name("precious")
    precious.write_bytes(b"precious" * (SIZE // 8))
    shutil.copyfile(precious, disk)


def formatted(disk: Path) -> None:
    run(["mkfs.ext4", "-q", "-F", str(disk)])


@pytest.mark.parametrize("replaced", [copied_over, formatted])
def test_what_was_put_into_a_file_of_ours_is_not_overwritten_without_consent(
    tmp_path: Path, replaced: Callable[[Path], None]
) -> None:
    ssdbench, disk, profile = Shell(tmp_path), tmp_path / "disk.img", tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    disk.touch()
    os.truncate(disk, SIZE)

    def done(output: str, *more: str) -> "tuple[int, str]":
        words = ("run", str(profile), "--target", str(disk), "--output", str(tmp_path / output))
        answer = ssdbench(*words, "--max-writes", LIMIT, *more)
        return answer.returncode, answer.stderr

    assert done("first")[0] == done("second")[0] == 1  # the limit ended both
    assert any(disk.read_bytes())
    replaced(disk)
    before = disk.read_bytes()

    code, said = done("third")

    assert code == 3, said
    assert "its content is not what ssdbench left in it" in said
    assert f"--destroy {inspect(str(disk)).id}" in said
    assert disk.read_bytes() == before

    code, said = done("fourth", "--destroy", inspect(str(disk)).id)

    assert code == 1, said  # the limit ended this one as well
    assert disk.read_bytes() != before
