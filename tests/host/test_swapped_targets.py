"""What lies at the target's path is exchanged in the moment in which fio starts.

The fio that is found first on PATH does that, and then becomes the real one.
"""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.devices import attached_loop
from tests.support.shell import Shell

PROFILE = """
title: Swapped
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
repeats: 1
window: 1s
settle: {window: 1s, flat: 1s, max_time: 1s}
measure: [{sweep: {block: 4KiB, read: [0]}}]
"""
PRECIOUS = b"precious" * (32 * MIB // 8)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    (tmp_path / "profile.yaml").write_text(PROFILE)
    return tmp_path / "profile.yaml"


def swapping(place: Path, script: str) -> Shell:
    """A command line whose fio first runs a script, once."""
    directory = place / "bin"
    directory.mkdir()
    done, real = shlex.quote(str(place / "swapped")), shlex.quote(shutil.which("fio") or "")
    fio = directory / "fio"
    fio.write_text(
        '#!/bin/sh\ncase "$*" in *job.fio) '
        f"[ -e {done} ] || {{ touch {done}; {script}; }} ;; esac\n"
        f'exec {real} "$@"\n'
    )
    fio.chmod(0o755)
    return Shell(place, path=str(directory))


def test_a_file_that_is_swapped_for_a_link_as_fio_starts_is_not_followed(
    profile: Path, tmp_path: Path
) -> None:
    target, precious = tmp_path / "disk.img", tmp_path / "precious"
    target.touch()
    os.truncate(target, len(PRECIOUS))
    precious.write_bytes(PRECIOUS)
    mine, theirs = shlex.quote(str(target)), shlex.quote(str(precious))
    ssdbench = swapping(tmp_path, f"mv {mine} {mine}.gone; ln -s {theirs} {mine}")

    done = ssdbench("run", str(profile), "--target", str(target), "--output", str(tmp_path / "run"))

    assert (tmp_path / "swapped").exists()
    assert precious.read_bytes() == PRECIOUS
    assert done.returncode == 5, done.stderr
    assert f"{target} was replaced by another file" in done.stderr


def test_a_node_that_is_swapped_for_another_one_as_fio_starts_is_not_followed(
    profile: Path, tmp_path: Path
) -> None:
    with (
        attached_loop(tmp_path / "disk.img", size_bytes=len(PRECIOUS)) as disk,
        attached_loop(tmp_path / "precious.img", size_bytes=len(PRECIOUS)) as precious,
    ):
        precious.node.write_bytes(PRECIOUS)
        node, other = tmp_path / "node", tmp_path / "other"
        os.mknod(node, 0o60600, disk.node.stat().st_rdev)
        os.mknod(other, 0o60600, precious.node.stat().st_rdev)
        ssdbench = swapping(tmp_path, f"mv {shlex.quote(str(other))} {shlex.quote(str(node))}")
        consent = ("--target", str(node), "--destroy", inspect(str(node)).id)

        done = ssdbench("run", str(profile), *consent, "--output", str(tmp_path / "run"))

        assert (tmp_path / "swapped").exists()
        assert precious.node.read_bytes() == PRECIOUS
        assert done.returncode == 5, done.stderr
        assert f"{node} now leads to device" in done.stderr
