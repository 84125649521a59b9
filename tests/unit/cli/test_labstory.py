import logging
import sys
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from ssdbench.cli import labstory
from ssdbench.cli.labstory import Steps, Words


def test_a_long_step_says_that_it_goes_on_until_the_command_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(labstory, "LINE_EVERY_S", 0.02)
    shared = tmp_path / "share" / "job"
    (shared / "1").mkdir(parents=True)
    (tmp_path / "console").write_bytes(b"booted\n")
    out, kept = BytesIO(), BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(out))

    with Steps() as steps:
        words = Words(steps, kept)
        logging.getLogger("ssdbench.lab.archive").info("downloading %s", "a kernel")
        time.sleep(0.2)
        words.look(shared)
        before = out.getvalue()
        for part in (b"first \xff", b"then\n"):
            with (shared / "1" / "stdout").open("ab") as file:
                file.write(part)
            words.look(shared)
        logging.getLogger("ssdbench.lab.archive").info("not while the command speaks")

    said = capsys.readouterr().err.splitlines()
    assert said[0] == "lab: downloading a kernel"
    assert said.count("lab: downloading a kernel … 0 s") >= 2
    assert "not while" not in str(said)
    assert before == b""
    assert out.getvalue() == b"first \xffthen\n"
    assert kept.getvalue() == b"booted\n"


def test_the_console_of_a_second_boot_follows_that_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, console, kept = tmp_path / "share" / "job", tmp_path / "console", BytesIO()
    with Steps() as steps:
        words = Words(steps, kept)
        for said in (b"a boot that failed\n", b"", b"the second\n"):
            console.write_bytes(said)
            words.look(shared)

    assert kept.getvalue() == b"a boot that failed\nthe second\n"
