"""`run` with several targets: checked together, measured one after another."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ssdbench.cli import main, several
from ssdbench.model.target import TargetKind
from ssdbench.suite.asked import Asked
from ssdbench.target.consent import objections
from ssdbench.target.wear import Wear
from tests.support.builders import a_target
from tests.support.documents import checked

TINY = """
title: One of several
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: pss-quick, max_fills: 1}
repeats: 1
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure: [{sweep: {read: 100}}]
"""
DRIVES = [f"sim:x25m-g2-160,capacity=256MiB,seed={seed}" for seed in (1, 2)]


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return str(path)


def test_each_target_gets_a_run_of_its_own_and_the_directory_is_a_lot(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [word for drive in DRIVES for word in ("--target", drive)]
    asked = ["run", profile, *targets, "--output", str(tmp_path / "lot"), "--json"]

    done = subprocess.run(
        [sys.executable, "-m", "ssdbench", *asked],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 1, done.stderr  # one repeat is never validated
    told = checked(done.stdout, "run-several")
    assert [one["target"] for one in told["runs"]] == DRIVES
    assert "drive 2 of 2" in done.stderr
    first, second = (one["ran"]["result"] for one in told["runs"])
    assert first["finished_at"] <= second["started_at"]  # never side by side
    assert main.run(["merge", str(tmp_path / "lot"), "--json"]) == 1
    merged = checked(capsys.readouterr().out, "merge")
    assert [drive["id"] for drive in merged["drives"]] == [
        first["target"]["id"],
        second["target"]["id"],
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", DRIVES[0], "--target", DRIVES[0]], "are one drive"),
        (["--target", DRIVES[0], "--target", DRIVES[1], "--detach"], "take one --target"),
        (["--target", DRIVES[0], "--destroy", "a", "--destroy", "b"], "given 2 times for 1 target"),
        (
            ["--target", DRIVES[0], "--target", DRIVES[1], "--destroy", "nobody"],
            "--destroy nobody names none of these targets",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_made(
    profile: str,
    options: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.run(["run", profile, *options, "--output", str(tmp_path / "lot")]) == 2

    assert sentence in capsys.readouterr().err and not (tmp_path / "lot").exists()


def test_consent_is_needed_for_each_drive_and_asked_for_all_at_once(
    profile: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def planned(asked: Asked) -> SimpleNamespace:
        info = a_target(TargetKind.DRIVE, id=f"eui.{asked.target[-1]}", name=asked.target)
        return SimpleNamespace(target=info, wear=Wear(0), destroys=True)

    monkeypatch.setattr(several, "plan", planned)
    monkeypatch.setattr(several, "lacking", lambda info, consent, **_: objections(info, consent))
    targets = [word for name in "abc" for word in ("--target", f"/dev/sd{name}")]

    asked = ["run", profile, *targets, "--destroy", "eui.b", "--output", str(tmp_path / "lot")]
    assert main.run([*asked, "--json"]) == 3
    told = capsys.readouterr()

    error = json.loads(told.out)["error"]
    assert [reason.split(":")[0] for reason in error["reasons"]] == ["/dev/sda", "/dev/sdc"]
    assert error["command"][-4:] == ["--destroy", "eui.a", "--destroy", "eui.c"]
    assert "--destroy eui.a --destroy eui.c" in shlex.join(error["command"])
    assert not (tmp_path / "lot").exists()
