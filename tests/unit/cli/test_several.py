"""`run` with several targets: checked together, measured one after another."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from ssdbench.cli import main, several
from ssdbench.cli.signals import Signals
from ssdbench.engine.stage import Limits, RateHint
from ssdbench.errors import Interrupted
from ssdbench.host import command
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.suite import interference
from ssdbench.suite.interference import SHARE_NOTHING, Tried, Turn
from ssdbench.suite.plan import RunPlan
from ssdbench.suite.request import RunRequest
from ssdbench.target.consent import Wear, objections
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting
from tests.support.builders import a_target
from tests.support.documents import checked

TINY = """
title: One of several
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
unit: 4KiB
steady: {rule: seppanen, max_time: 60s}
repeats: 1
window: 10s
settle: {window: 10s, flat: 10s, spare: 1%, max_time: 20s}
measure: [{sweep: {read: 100}}]
"""
DRIVES = [f"sim:x25m-g2-160,capacity=256MiB,t_prog_ns={ns}" for ns in (1_560_000, 1_570_000)]


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


def test_simulated_drives_go_side_by_side_without_a_trial_and_say_why(
    profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = [word for drive in DRIVES for word in ("--target", drive)]
    lot = tmp_path / "lot"

    assert main.run(["run", profile, *targets, "--output", str(lot), "--side-by-side"]) == 1
    assert "simulated drives share nothing" in capsys.readouterr().err

    results = [json.loads(path.read_text()) for path in sorted(lot.glob("0*/result.json"))]
    first, second = results
    assert max(first["started_at"], second["started_at"]) < min(
        first["finished_at"], second["finished_at"]
    )
    assert {one["host"]["other drives"] for one in results} == {SHARE_NOTHING}
    assert all(one["target"]["name"] in DRIVES for one in results)
    assert main.run(["merge", str(lot), "--json"]) == 1
    assert len(checked(capsys.readouterr().out, "merge")["drives"]) == 2
    assert SHARE_NOTHING in (lot / "01-sim-x25m-g2-160" / "report.html").read_text()


@pytest.mark.parametrize("runs_beside", [True, False])
def test_drives_that_do_not_share_their_time_are_measured_as_the_trial_says(
    profile: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    runs_beside: bool,
) -> None:
    begun: list[str] = []

    def one_of(one: RunRequest, directory: Path, *_: object, **__: object) -> several.OneOf:
        begun.append(one.beside)
        return several.OneOf(one.target, directory, 3, error="not here")

    def tried(*_: object) -> Tried:
        return Tried(side_by_side=runs_beside, says="as the trial says", turns=(Turn("r", 1, {}),))

    def at_once(each: list[RunRequest], output: Path, **_: object) -> list[several.OneOf]:
        return [one_of(one, output) for one in each]

    monkeypatch.setattr(several, "_tried", tried)
    monkeypatch.setattr(several, "_run", one_of)
    monkeypatch.setattr(several, "_at_once", at_once if runs_beside else None)
    targets = [word for drive in DRIVES for word in ("--target", drive)]
    asked = ["run", profile, *targets, "--output", str(tmp_path / "lot"), "--side-by-side"]

    assert main.run([*asked, "--json"]) == 3

    told = checked(capsys.readouterr().out, "run-several")
    assert told["trial"]["side_by_side"] is runs_beside
    assert told["trial"]["evidence"].endswith("lot/side-by-side/trial.json")
    assert begun == ["as the trial says"] * 2


def _planned(target: TargetInfo, *settings: Setting) -> RunPlan:
    return RunPlan(
        target, (), Limits(), RateHint(), seconds=(0, 0), bytes_written=(0, 0), fills=(0, 0),
        host=HostPlan(settings=settings),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "host", "why"),
    [
        ((TargetKind.DRIVE, TargetKind.SIMULATED), (), "takes CPU time from a real one"),
        ((TargetKind.DRIVE, TargetKind.DRIVE), ("governor",), "changes the host itself (governor)"),
        ((TargetKind.DRIVE, TargetKind.DRIVE), (), ""),
    ],
)
def test_what_a_trial_could_not_allow_is_not_tried(
    kinds: tuple[TargetKind, ...], host: tuple[str, ...], why: str
) -> None:
    settings = tuple(Setting(Backend.SYSFS, name, "1", "so") for name in host)
    own = Setting(Backend.BLOCK, "queue/scheduler", "none", "so", "eui.1")
    found = interference.objection([_planned(a_target(kind), own, *settings) for kind in kinds])
    assert why in found and bool(why) is bool(found)


def test_drives_in_zones_are_not_tried_for_they_may_hold_nothing_to_read() -> None:
    drives = [a_target(TargetKind.DRIVE, zone_bytes=zone_bytes) for zone_bytes in (0, 1 << 20)]
    found = interference.objection([_planned(drive) for drive in drives])
    assert "a zoned drive" in found


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", DRIVES[0], "--target", DRIVES[0]], "are the same drive"),
        (["--target", DRIVES[0], "--target", DRIVES[1], "--detach"], "take only one --target"),
        (["--target", DRIVES[0], "--side-by-side"], "--side-by-side needs several --target"),
        (["--target", DRIVES[0], "--beside", "x"], "for the processes of `run --side-by-side`"),
        (["--target", DRIVES[0], "--destroy", "a", "--destroy", "b"], "given 2 times for 1 target"),
        (  # a consent that is given again is one: what a refusal prints to be pasted may repeat it
            ["--target", DRIVES[0], "--target", DRIVES[1], *("--destroy", "nobody") * 3],
            "--destroy nobody is not the identity of any of these targets",
        ),
        (
            ["--target", DRIVES[0], "--target", DRIVES[1], "--destroy", "nobody"],
            "--destroy nobody is not the identity of any of these targets",
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
    def planned(asked: RunRequest) -> SimpleNamespace:
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


def test_runs_side_by_side_put_back_what_they_set_before_the_second_ctrl_c_ends_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel kills them when we end, and a killed run puts nothing back."""
    monkeypatch.setattr(several, "LOOK_EVERY_S", 0.02)
    script = (
        "trap 'asked=$((asked + 1)); touch asked-$asked' INT; asked=0; touch up\n"
        "until [ $asked = 2 ]; do sleep 0.02; done\nsleep 0.3; touch restored"
    )

    def interrupted_twice() -> None:
        """A shell on a busy host would take two signals for one."""
        os.kill(os.getpid(), signal.SIGINT)
        while not (tmp_path / "asked-1").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    # A shell cannot trap a signal that it was started to ignore, as in the background of another.
    argv = ["env", "--default-signal=INT", "sh", "-c", script]
    process = command.spawn(argv, stdout=None, stderr=None, cwd=tmp_path)
    try:
        while not (tmp_path / "up").exists():
            time.sleep(0.01)
        with pytest.raises(Interrupted), Signals() as signals:
            Thread(target=interrupted_twice, daemon=True).start()
            several._lead([process], signals)
    finally:
        process.kill()

    assert (tmp_path / "restored").exists()
