"""Bad sectors of ssdb_flash, built for user space with the sanitizers, beside a set of sectors."""

import random
import subprocess
from pathlib import Path

import pytest

from tests.support.sanitized import of_kmod

INVALID, RANGE, FULL = "-22", "-34", "-28"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_kmod("bad_test", tmp_path_factory.mktemp("bad"))


def answers(program: Path, commands: list[str]) -> list[str]:
    done = subprocess.run(
        [program],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_whatever_is_set_and_cleared_exactly_that_is_bad(program: Path) -> None:
    chance = random.Random(11)
    bad: set[int] = set()
    commands, expected = [], []
    for _ in range(20_000):
        first = chance.randrange(400)
        last = first + chance.randrange(chance.choice((1, 8, 60)))
        match chance.choice("++-mm"):
            case "+":
                bad |= set(range(first, last + 1))
                commands.append(f"change +{first}-{last}")
                expected.append("0")
            case "-":
                bad -= set(range(first, last + 1))
                commands.append(f"change -{first}-{last}")
                expected.append("0")
            case _:
                met = bad & set(range(first, last + 1))
                commands.append(f"meet {first} {last + 1 - first}")
                expected.append("EIO" if met else "ok")

    said = answers(program, commands)

    assert set(expected) == {"0", "EIO", "ok"}
    assert said == expected


def test_ranges_are_shown_in_order_and_joined_where_they_touch(program: Path) -> None:
    said = answers(
        program, ["change +40-47", "change +8-15", "change +16-16", "change -42-43", "show"]
    )

    assert said == ["0", "0", "0", "0", "8 9", "40 2", "44 4", "."]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("8-15", INVALID), ("+8", INVALID), ("+8-", INVALID), ("+15-8", INVALID),
        ("*8-15", INVALID), ("+8-15x", INVALID), ("+-8-15", INVALID), ("", INVALID),
        ("+0-99999999999999999999", INVALID), ("+0-0x3ffffffffffffe", "0"),
        ("+0-0x3fffffffffffff", RANGE), ("+0x10-0x1f", "0"),
    ],
)  # fmt: skip
def test_only_a_sign_and_two_sectors_in_order_are_a_range(
    text: str, why: str, program: Path
) -> None:
    assert answers(program, [f"change {text}"]) == [why]


def test_the_hundred_and_first_range_is_refused_and_nothing_is_lost(program: Path) -> None:
    commands = [f"change +{10 * n}-{10 * n + 4}" for n in range(100)]

    said = answers(
        program, [*commands, "change +2000-2000", "change -2-2", "change +5-9", "meet 2 1", "show"]
    )

    assert said[100:104] == [FULL, FULL, "0", "EIO"]
    assert said[104:] == ["0 15", *(f"{10 * n} 5" for n in range(2, 100)), "."]
