"""What is wrong with a simulated drive, the command line says in a sentence and an exit code."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse
from tests.unit.sim.test_drive import tear

TARGET = "sim:p4500-4t,capacity=4GiB,erase_block=32KiB"
TINY = "sim:p4500-4t,capacity=64MiB,erase_block=16KiB,channels=2,dies_per_channel=1,planes=1"

Said = Callable[..., str]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state.ssdb"
    SimDrive.create(parse(TARGET), path).close()
    return path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """What `ssdbench sim ...` says when it fails with a status."""

    def say(status: int, *arguments: object) -> str:
        assert run(["sim", *(str(argument) for argument in arguments)]) == status
        text = capsys.readouterr().err
        assert "Traceback" not in text
        return text

    return say


def test_a_state_of_another_version(state: Path, said: Said) -> None:
    with state.open("r+b") as file:
        file.seek(8)
        file.write((99).to_bytes(4, "little"))

    assert "from another version" in said(2, "inspect", state)


@pytest.mark.parametrize("left", [0, 4096, 1 << 20])
def test_a_truncated_state(state: Path, said: Said, left: int) -> None:
    with state.open("r+b") as file:
        file.truncate(left)

    assert "truncated" in said(2, "inspect", state)


def test_a_state_that_someone_else_uses(state: Path, tmp_path: Path, said: Said) -> None:
    with SimDrive.open(state):
        for arguments in (
            ("inspect", state),
            ("snapshot", state, tmp_path / "copy.ssdb"),
            ("serve", state, "--socket", tmp_path / "socket"),
        ):
            assert "is in use by another process" in said(2, *arguments)


def test_a_state_whose_user_was_killed(state: Path, said: Said) -> None:
    tear(state)

    assert "inspect --repair" in said(5, "inspect", state)
    assert said(0, "inspect", "--repair", state) == ""
    assert said(0, "inspect", state) == ""


def test_a_drive_without_spare(tmp_path: Path, said: Said) -> None:
    assert "no spare" in said(2, "create", f"{TARGET},op=0%", tmp_path / "none.ssdb")
    assert not list(tmp_path.iterdir())


def test_a_drive_that_is_worn_out(said: Said) -> None:
    text = said(5, "truth", "--simulate", f"{TINY},endurance_cycles=3")

    assert "has no spare block left" in text


@pytest.mark.parametrize(
    ("block", "sentence"),
    [("1000", "not a multiple of the logical block"), ("8GiB", "larger than the drive accepts"),
     ("128MiB", "larger than the drive accepts")],
)  # fmt: skip
def test_a_request_that_does_not_fit(said: Said, block: str, sentence: str) -> None:
    assert sentence in said(2, "truth", TARGET, "--block", block)
