"""The command line that a refusal asks for, ready to be pasted."""

import shlex
import sys

import pytest

from ssdbench.cli.main import as_run, document, with_options
from ssdbench.errors import TargetRefused

OPTIONS = ("--destroy", "loop:/srv/my disk.img:4096")


@pytest.fixture(autouse=True)
def called_as_ssdbench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["ssdbench"])


def test_the_users_own_words_come_back_with_what_was_missing() -> None:
    words = with_options(["run", "quick", "--target", "/dev/my disk"], OPTIONS)

    assert shlex.join(words).endswith(
        "run quick --target '/dev/my disk' --destroy 'loop:/srv/my disk.img:4096'"
    )
    assert shlex.split(shlex.join(words)) == words


def test_options_go_before_the_end_of_options() -> None:
    words = with_options(["retire", "--method", "discard", "--", "-odd-"], OPTIONS)

    assert words[-4:] == [*OPTIONS, "--", "-odd-"]


def test_a_plan_becomes_the_run_that_checks_it() -> None:
    words = as_run(["plan", "quick", "--output", "p.json", "--json"], OPTIONS)

    assert words[1:] == ["run", "quick", "--plan", "p.json", *OPTIONS]
    assert as_run(["plan", "quick", "--output=p.json"], ())[1:] == ["run", "quick", "--plan=p.json"]


def test_a_module_that_was_called_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/x/ssdbench/__main__.py"])

    assert with_options(["drives"], ())[:3] == [sys.executable, "-m", "ssdbench"]


def test_the_json_of_a_refusal_holds_the_command() -> None:
    refusal = TargetRefused("/dev/sda", ["x"], options=OPTIONS)

    error = document(refusal, command=["ssdbench", "run"])["error"]

    assert isinstance(error, dict)
    assert error["command"] == ["ssdbench", "run"]
