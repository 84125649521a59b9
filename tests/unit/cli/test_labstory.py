import logging
import os
import subprocess
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from ssdbench.cli import lab
from ssdbench.cli.lab import GuestOutput, Steps
from ssdbench.lab.session import KeptRun


def test_a_long_step_says_that_it_goes_on_until_the_command_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "LINE_EVERY_S", 0.02)
    shared = tmp_path / "share" / "job"
    (shared / "1").mkdir(parents=True)
    (tmp_path / "console").write_bytes(b"booted\n")
    out, kept = BytesIO(), BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out))

    with Steps("lab") as steps, KeptRun(tmp_path) as run:
        words = GuestOutput(steps, run, kept)
        logging.getLogger("ssdbench.lab.archive").info("downloading %s", "a kernel")
        said, deadline = "", time.monotonic() + 30
        while said.count("a kernel … ") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err
        words.look(shared)
        before = out.getvalue()
        for part in (b"first \xff", b"then\n"):
            with (shared / "1" / "stdout").open("ab") as file:
                file.write(part)
            words.look(shared)
        logging.getLogger("ssdbench.lab.archive").info("not while the command speaks")

    lines = said.splitlines()
    assert lines[:2] == ["lab: getting ready", "lab: downloading a kernel"]
    assert sum(line.startswith("lab: downloading a kernel … ") for line in lines) >= 2
    assert "not while" not in capsys.readouterr().err
    assert before == b""
    assert out.getvalue() == b"first \xffthen\n"
    assert kept.getvalue() == b"booted\n"


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_words_for_a_stream_that_is_closed_go_nowhere(
    closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `>&-`, or under a daemon that closes both."""
    out = {"stdout": BytesIO(), "stderr": BytesIO()}
    for name, taken in out.items():
        monkeypatch.setattr(sys, name, None if name == closed else TextIOWrapper(taken))
        (tmp_path / "share/job/1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "share/job/1" / name).write_bytes(b"said\n")

    with Steps("lab") as steps, KeptRun(tmp_path) as run:
        GuestOutput(steps, run, None).look(tmp_path / "share/job")

    (open_one,) = out.keys() - {closed}
    assert out[open_one].getvalue().endswith(b"said\n")
    assert out[closed].getvalue() == b""


def test_the_console_of_a_second_boot_follows_that_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, console, kept = tmp_path / "share" / "job", tmp_path / "console", BytesIO()
    with Steps("lab") as steps, KeptRun(tmp_path) as run:
        words = GuestOutput(steps, run, kept)
        for said in (b"a boot that failed\n", b"", b"the second\n"):
            console.write_bytes(said)
            words.look(shared)

    assert kept.getvalue() == b"a boot that failed\nthe second\n"


def test_the_first_line_is_said_before_what_does_the_work_is_imported(tmp_path: Path) -> None:
    """Which takes seconds on a busy host."""
    program = (
        "import sys\n"
        "from ssdbench.cli import lab\n"
        "from ssdbench.cli.main import run\n"
        "def tell(text):\n"
        "    print(text, 'ssdbench.lab.session' in sys.modules, 'numpy' in sys.modules)\n"
        "lab.tell = tell\n"
        "run(['lab', 'run', '--', 'true'])\n"
    )
    (tmp_path / "file").touch()

    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SSDBENCH_LAB_CACHE": f"{tmp_path}/file/lab"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert said.splitlines()[0] == "lab: getting ready False False"


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_pipe_or_link_in_place_of_the_output_is_told_and_hangs_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tmp_path / "share" / "job" / "1"
    said.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(said / "stdout")
    else:
        (said / "stdout").symlink_to("/etc/passwd")

    with Steps("lab") as steps, KeptRun(tmp_path) as run:
        words = GuestOutput(steps, run, None)
        for _ in range(2):
            words.look(said.parent)

    told = capsys.readouterr()
    assert told.err.count("the command's stdout can no longer be read") == 1
    assert told.out == ""


def test_output_without_end_is_cut_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "MOST_BYTES", 3 << 20)
    said = tmp_path / "share" / "job" / "1"
    said.mkdir(parents=True)
    with (said / "stdout").open("wb") as file:
        file.truncate(1 << 40)

    with Steps("lab") as steps, KeptRun(tmp_path) as run:
        words = GuestOutput(steps, run, None, shown=False)
        words.look(said.parent)
        words.look(said.parent)
        kept = run.path / "stdout"

    assert kept.stat().st_size == 3 << 20
    assert capsys.readouterr().err.count("stdout is cut after") == 1
