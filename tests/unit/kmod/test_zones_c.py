"""The zones of ssdb_flash, built for user space with the sanitizers, do as null_blk's."""

import random
import subprocess
from pathlib import Path

import pytest

from tests.support.sanitized import of_kmod

ZONE_BYTES = 4 << 20
SHAPE = (64, 4)  # MiB of the drive and of a zone
# What null_blk answers, too (tests/vm/test_zones.py): zone, block of 4 KiB, number of blocks.
WALK = """
write 2 0 2 ok, write 2 0 1 EIO, write 2 5 1 EIO, write 2 2 1 ok, where 2 0 0 2:3, read 2 9 1 ok,
finish 3 0 0 ok, where 3 0 0 14:1024, write 3 0 1 EIO, finish 3 0 0 ok, reset 1 0 0 ok,
bad 4 0 2 EIO, where 4 0 0 1:0, write 4 0 1 ok, open 5 0 0 EOPNOTSUPP,
reset 2 0 0 ok, where 2 0 0 1:0, write 2 0 1 ok,
write 10 0 1024 ok, where 10 0 0 14:1024, write 10 1023 1 EIO, write 11 0 1025 EIO,
reset_all 0 0 0 ok, where 10 0 0 1:0, write 2 0 1 ok
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_kmod("zones_test", tmp_path_factory.mktemp("zones"))


def answers(program: Path, shape: tuple[int, int], commands: str) -> list[str]:
    done = subprocess.run(
        [program, *map(str, shape)], input=commands, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_command_is_answered_as_null_blk_answers_it(program: Path) -> None:
    steps = [step.rsplit(maxsplit=1) for step in WALK.replace("\n", " ").split(",")]

    said = answers(program, SHAPE, "\n".join(step for step, _ in steps))

    assert [(step, is_) for (step, _), is_ in zip(steps, said, strict=False)] == [
        (step, expected) for step, expected in steps
    ]
    # Zone 2 by itself; 2, 3, 4 and 10 with all.
    assert said[len(steps) :] == ["zone_resets 5", f"trimmed {5 * ZONE_BYTES}"]


def test_a_zone_however_large_is_unmapped_in_parts(program: Path) -> None:
    said = answers(program, (8192, 4096), "write 1 0 2\nreset 1 0 0\n")

    assert said == ["ok", "ok", "zone_resets 1", f"trimmed {4 << 30}"]


@pytest.mark.parametrize("shape", [SHAPE, (62, 4)])
def test_pointers_fit_the_conditions_whatever_comes(program: Path, shape: tuple[int, int]) -> None:
    chance = random.Random(7)
    verbs = ("write", "write", "bad", "read", "reset", "finish")
    commands = "".join(
        f"{chance.choice(verbs)} {chance.randrange(15)} {chance.choice((0, 0, 200))}"
        f" {chance.choice((1, 200, 1024))}\n"
        for _ in range(20_000)
    )

    said = answers(program, shape, commands)

    assert {"ok", "EIO"} <= set(said)


@pytest.mark.parametrize(
    ("shape", "why"), [((64, 3), "no power of two"), ((64, 128), "larger than the drive")]
)
def test_zones_that_cannot_be_are_refused(program: Path, shape: tuple[int, int], why: str) -> None:
    (said,) = answers(program, shape, "")

    assert why in said
