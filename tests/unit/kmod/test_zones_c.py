"""The zones of ssdb_flash, built for user space with the sanitizers, do what null_blk does."""

import random
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[3] / "kmod" / "tests"
ANY = 0x7FFFFFFF  # sectors that an append may have
SHAPE = (64, 4, 3, 2, 3, 4)  # MiB of the drive, a zone and what it takes; conventional, limits
ZONE_BYTES = 4 << 20
# What null_blk answers, too (tests/vm/test_zones.py): zone, block of 4 KiB, number of blocks.
WALK = """
write 2 0 2 ok, write 2 0 1 EIO, write 2 5 1 EIO, write 2 2 1 ok, write 0 7 1 ok, write 1 3 2 ok,
finish 3 0 0 ok, where 3 0 0 14:1024, write 3 0 1 EIO,
open 3 0 0 EIO, finish 0 0 0 EIO, reset 1 0 0 EIO,
open 4 0 0 ok, open 5 0 0 ok, write 6 0 1 ok, open 7 0 0 EOVERFLOW,
close 6 0 0 ok, open 2 0 0 ok, open 6 0 0 ETOOMANYREFS, write 6 1 1 ETOOMANYREFS,
close 4 0 0 ok, close 4 0 0 EIO, write 8 0 1 ok, finish 9 0 0 EOVERFLOW,
reset 2 0 0 ok, write 2 0 1 ok, close 2 0 0 ok, reset 5 0 0 ok, reset 8 0 0 ok,
write 10 0 768 ok, finish 10 0 0 ok, where 10 0 0 14:768, write 10 768 1 EIO,
append 10 0 1 EIO, append 11 0 2 ok, write 11 2 1 ok,
append 11 0 1 ok, write 11 4 1 ok, append 0 0 1 EIO,
readonly 10 0 0 ok, write 10 0 1 EIO, read 10 0 1 ok, reset 10 0 0 EIO, append 10 0 1 EIO,
readonly 10 0 0 ok, write 10 0 1 ok, offline 10 0 0 ok, read 10 0 1 EIO, offline 0 0 0 EINVAL,
reset_all 0 0 0 ok, write 2 0 1 ok, read 10 0 1 EIO, offline 10 0 0 ok, read 10 0 1 ok
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("zones") / "zones_test"
    subprocess.run(
        [
            "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1",
            "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
            f"-I{TESTS / 'fake'}", str(TESTS / "zones_test.c"), "-o", str(into),
        ],
        check=True,
    )  # fmt: skip
    return into


def answers(
    program: Path, shape: tuple[int, ...], commands: str, full: int = 0, append: int = ANY
) -> list[str]:
    done = subprocess.run(
        [program, *map(str, (*shape, full, append))],
        input=commands,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_command_is_answered_as_null_blk_answers_it(program: Path) -> None:
    steps = [step.rsplit(maxsplit=1) for step in WALK.replace("\n", " ").split(",")]

    limits, *said = answers(program, SHAPE, "\n".join(step for step, _ in steps))

    assert limits == "8192 2048 3 4"
    assert [(step, is_) for (step, _), is_ in zip(steps, said, strict=False)] == [
        (step, expected) for step, expected in steps
    ]
    # Zones 2 and 8 by themselves, 2, 3, 6 and 11 with all; cleared beside them: 5, and 10 thrice.
    assert said[len(steps) :] == [
        "zone_resets 6", "zone_appends 2", f"trimmed {9 * ZONE_BYTES}"
    ]  # fmt: skip


def test_a_zone_however_large_is_unmapped_in_parts(program: Path) -> None:
    said = answers(program, (8192, 4096, 0, 0, 0, 0), "write 1 0 2\nreset 1 0 0\n")

    assert said[1:] == ["ok", "ok", "zone_resets 1", "zone_appends 0", f"trimmed {4 << 30}"]


def test_full_zones_take_nothing_before_they_are_reset(program: Path) -> None:
    steps = [
        ("where 2 0 0", "14:768"), ("where 1 0 0", "0:1024"), ("write 1 0 1", "ok"),
        ("write 2 0 1", "EIO"), ("append 2 0 1", "EIO"), ("finish 2 0 0", "ok"),
        ("reset 2 0 0", "ok"), ("where 2 0 0", "1:0"), ("write 2 0 1", "ok"),
    ]  # fmt: skip

    said = answers(program, SHAPE, "\n".join(step for step, _ in steps), full=1)

    assert list(zip((step for step, _ in steps), said[1:], strict=False)) == steps
    assert said[-3] == "zone_resets 1"


@pytest.mark.parametrize(
    ("asked", "granted"), [(0, 0), (7, 0), (8, 8), (100, 96), (4096, 2048), (ANY, 2048)]
)
def test_an_append_is_limited_by_what_is_asked_in_whole_blocks(
    asked: int, granted: int, program: Path
) -> None:
    assert answers(program, SHAPE, "", append=asked)[0] == f"8192 {granted} 3 4"


def test_a_write_that_is_done_in_part_moves_the_pointer_so_far(program: Path) -> None:
    steps = [
        ("torn 2 0 4", "EIO"), ("where 2 0 0", "2:1"), ("write 2 0 1", "EIO"),
        ("write 2 1 1", "ok"), ("torn_append 2 0 4", "EIO"), ("where 2 0 0", "2:3"),
        ("write 2 3 764", "ok"), ("torn 2 767 1", "EIO"), ("where 2 0 0", "14:768"),
    ]  # fmt: skip

    said = answers(program, SHAPE, "\n".join(step for step, _ in steps))

    assert list(zip((step for step, _ in steps), said[1:], strict=False)) == steps


@pytest.mark.parametrize("shape", [SHAPE, (62, 4, 0, 0, 2, 0), (64, 4, 4, 15, 1, 1)])
def test_counts_and_limits_hold_whatever_comes(program: Path, shape: tuple[int, ...]) -> None:
    chance = random.Random(7)
    verbs = ("write", "append", "append", "read", "reset", "open", "close", "finish", "readonly")
    commands = "".join(
        f"{chance.choice(verbs)} {chance.randrange(15)} 0 {chance.choice((1, 200, 600))}\n"
        for _ in range(20_000)
    )

    said = answers(program, shape, commands)

    assert {"ok", "EIO"} <= set(said)
    if shape == SHAPE:
        assert {"ETOOMANYREFS", "EOVERFLOW"} <= set(said)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((64, 3, 0, 0, 0, 0), "no power of two"),
        ((64, 128, 0, 0, 0, 0), "larger than the drive"),
        ((64, 4, 5, 0, 0, 0), "larger than zone_size"),
        ((66, 4, 3, 0, 0, 0), "exclude each other"),
    ],
)
def test_zones_that_cannot_be_are_refused(program: Path, shape: tuple[int, ...], why: str) -> None:
    (said,) = answers(program, shape, "")

    assert why in said


def test_limits_that_cannot_be_reached_are_none(program: Path) -> None:
    assert answers(program, (64, 4, 0, 99, 9, 9), "")[0] == "8192 2048 0 0"
    assert answers(program, (64, 4, 0, 0, 9, 5), "")[0] == "8192 2048 5 5"
