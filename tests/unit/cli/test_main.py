"""The one door: what is printed, where, and with which exit code."""

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ssdbench.cli import main
from ssdbench.cli.main import COMMANDS, ssdbench
from ssdbench.errors import (
    DeviceLost,
    Diagnostic,
    HostLacks,
    Interrupted,
    ProfileError,
    SsdbenchError,
    TargetRefused,
)

HEAVY = ("pydantic", "pandas", "numpy", "scipy", "matplotlib", "rich", "ruamel", "duckdb")


def fails_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `ssdbench schema` fail; what follows is the door's work alone."""

    def broken() -> None:
        raise error

    monkeypatch.setattr("ssdbench.model.loading.profile_schema", broken)


def test_help_lists_every_command_and_the_exit_codes() -> None:
    said = CliRunner().invoke(ssdbench, ["--help"])

    assert said.exit_code == 0
    assert all(f"\n  {name} " in said.output for name in COMMANDS)
    assert "3 target refused" in said.output


@pytest.mark.parametrize("name", [n for n in COMMANDS if n not in ("sim", "lab", "fleet", "store")])
def test_every_command_has_json_and_a_help(name: str) -> None:
    said = CliRunner().invoke(ssdbench, [name, "--help"])

    assert said.exit_code == 0
    assert "--json" in said.output


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_can_be_loaded(name: str) -> None:
    assert CliRunner().invoke(ssdbench, [name, "--help"]).exit_code == 0


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from ssdbench.cli.main import run\n"
        "code = run(['--help'])\n"
        "assert code == 0\n"
        f"sys.exit(','.join(m for m in {HEAVY!r} if m in sys.modules) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_command_gets_the_nearest_one(capfd: pytest.CaptureFixture[str]) -> None:
    code = main.run(["paln"])

    out, err = capfd.readouterr()
    assert code == 2
    assert out == ""
    assert "there is no command 'paln' (did you mean 'plan'?)" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HostLacks("fio is not installed", hint="install it"), 4),
        (TargetRefused("/dev/x", ["it is mounted", "it is swap"]), 3),
        (DeviceLost("/dev/x is gone"), 5),
        (ProfileError([Diagnostic("p.yaml", 3, 7, "unknown key 'a'")]), 2),
        (Interrupted(15), 143),
        (OSError(28, "No space left on device", "/x/y"), 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_becomes_a_sentence_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
) -> None:
    fails_with(monkeypatch, error)

    assert main.run(["schema"]) == code

    out, err = capfd.readouterr()
    assert out == ""
    assert err.strip()
    assert "Traceback" not in err


def test_a_refusal_shows_every_reason(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fails_with(monkeypatch, TargetRefused("/dev/x", ["it is mounted", "it is swap"], hint="stop"))

    main.run(["schema"])

    assert capfd.readouterr().err.splitlines() == [
        "refused: /dev/x: it is mounted",
        "refused: /dev/x: it is swap",
        "hint: stop",
    ]


def test_foreign_text_begins_no_line_of_an_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fails_with(monkeypatch, HostLacks("a\nerror: b.yaml is gone", hint="remove 'a\nhint: b'"))

    main.run(["schema"])

    assert capfd.readouterr().err.splitlines() == [
        "error: a\\nerror: b.yaml is gone",
        "hint: remove 'a",
        "  hint: b'",
    ]


def test_json_behind_two_dashes_is_of_the_program_that_is_run(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["lab", "run", "--kernel", "2.4", "--", "x", "--json"]) == 2

    out, err = capfd.readouterr()
    assert out == ""
    assert "the lab has no kernel 2.4" in err


def test_with_json_an_error_is_the_document_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fails_with(monkeypatch, ProfileError([Diagnostic("p.yaml", 3, 7, "unknown key 'a'")]))

    assert main.run(["schema", "--json"]) == 2

    error = json.loads(capfd.readouterr().out)["error"]
    assert error["exit_code"] == 2
    assert error["diagnostics"] == [
        {"file": "p.yaml", "line": 3, "column": 7, "message": "unknown key 'a'"}
    ]


def test_a_wrong_option_is_a_document_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.run(["plan", "demo", "--json", "--max-writes", "5GB"]) == 2

    out, err = capfd.readouterr()
    assert "ambiguous" in json.loads(out)["error"]["message"]
    assert "ambiguous" in err


def test_a_bug_is_one_sentence_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fails_with(monkeypatch, ZeroDivisionError("secret detail"))
    monkeypatch.setattr(main, "state_directory", lambda: tmp_path / "state")

    assert main.run(["schema"]) == 70

    err = capfd.readouterr().err
    kept = list((tmp_path / "state").iterdir())
    assert "this is a bug in ssdbench (ZeroDivisionError)" in err
    assert "Traceback" not in err
    assert len(kept) == 1
    assert "secret detail" in kept[0].read_text()
    assert str(kept[0]) in err


def test_a_bug_without_a_place_for_its_file_is_still_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    fails_with(monkeypatch, ZeroDivisionError())
    monkeypatch.setattr(main, "state_directory", lambda: tmp_path / "file" / "below")

    assert main.run(["schema"]) == 70
    assert "this is a bug in ssdbench" in capfd.readouterr().err


def test_ctrl_c_outside_a_run_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_with(monkeypatch, KeyboardInterrupt())

    assert main.run(["schema"]) == 130


def with_nobody_reading(
    arguments: list[str], *, stdout: bool = True, stderr: bool = False, unbuffered: str = ""
) -> "subprocess.CompletedProcess[str]":
    """A call whose reader is gone from the start; unlike with `| head`, no race is in it."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    try:
        return subprocess.run(
            [sys.executable, "-m", "ssdbench", *arguments],
            stdout=writer if stdout else subprocess.PIPE,
            stderr=writer if stderr else subprocess.PIPE,
            env=environment | ({"PYTHONUNBUFFERED": unbuffered} if unbuffered else {}),
            text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["schema", "--help", "--version", "drives --help", "drives"])
def test_an_answer_that_nobody_reads_is_141_and_not_a_verdict(words: str, unbuffered: str) -> None:
    done = with_nobody_reading(words.split(), unbuffered=unbuffered)

    assert (done.returncode, done.stderr) == (141, "")


def test_an_error_keeps_its_exit_code_when_nobody_reads_it() -> None:
    unread = with_nobody_reading(["plan", "no-such-profile", "--json"], stderr=True)
    told = with_nobody_reading(["plan", "no-such-profile"], stdout=False, stderr=True)

    assert (unread.returncode, told.returncode) == (2, 2)


def test_a_story_that_nobody_reads_changes_no_answer() -> None:
    done = with_nobody_reading(["schema"], stdout=False, stderr=True)

    assert done.returncode == 0
    assert "properties" in json.loads(done.stdout)


@pytest.mark.parametrize(
    ("closed", "code"), [(">&-", 141), ("2>&-", 0), ("<&-", 0), (">&- 2>&-", 141)]
)
def test_a_stream_that_is_closed_is_no_bug(closed: str, code: int) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m ssdbench schema {closed}"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, bool(done.stdout), done.stderr) == (code, code == 0, "")


def test_no_file_gets_the_number_of_a_stream_that_is_closed() -> None:
    """Else what a program says on stderr would be written to the drive that was opened next."""
    program = (
        "import os, sys\nfrom ssdbench.cli import main\n"
        "def shown(arguments):\n"
        "    with open(os.devnull) as file: os.write(9, str(file.fileno()).encode())\n"
        "    return 0\n"
        "main.run = shown\nmain.main([])\n"
    )
    words = shlex.join([sys.executable, "-c", program])

    done = subprocess.run(
        ["bash", "-c", f"{words} 9>&1 <&- >&- 2>&-"], capture_output=True, check=False, timeout=60
    )

    assert int(done.stdout) > 2


def test_a_pipe_that_broke_elsewhere_is_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fails_with(monkeypatch, BrokenPipeError(errno.EPIPE, "Broken pipe"))

    assert main.run(["schema"]) == 4
    assert "Broken pipe" in capfd.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    said = CliRunner().invoke(ssdbench, ["completion", shell])

    assert said.exit_code == 0
    assert f"_SSDBENCH_COMPLETE={shell}_complete" in said.output


def test_exit_codes_of_the_tree_are_those_of_the_manual() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "ssdbench.1.md").read_text()

    codes = {
        HostLacks.exit_code,
        TargetRefused.exit_code,
        DeviceLost.exit_code,
        SsdbenchError.exit_code,
    }
    assert all(f"**{code}**" in manual for code in codes | {0, 2, main.EXIT_BUG})


def test_an_option_that_takes_one_value_is_refused_when_it_is_given_twice(
    capfd: pytest.CaptureFixture[str],
) -> None:
    twice = ("--target", "sim:p4800x", "--target", "sim:x25m-g2-160")

    assert main.run(["plan", "demo", *twice]) == 2
    assert "--target is given 2 times, but takes only one value" in capfd.readouterr().err
    assert main.run(["probe", "sim:p4800x", "--only", "cliff", "--only", "nothing"]) == 2
    assert "given 2 times" not in capfd.readouterr().err


@pytest.mark.parametrize("words", [[], ["sim"], ["lab"]])
def test_a_call_without_a_command_shows_the_commands_and_is_no_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == 2

    told = capsys.readouterr().err
    assert told.startswith(f"Usage: {' '.join(['ssdbench', *words])} [OPTIONS] COMMAND")
    assert "error:" not in told and "hint:" not in told
