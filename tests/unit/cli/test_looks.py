"""Commands that only look: plan, drives, check, schema."""

import json
from pathlib import Path

import pytest

from ssdbench.cli.main import run
from ssdbench.model.target import TargetKind
from ssdbench.sim.spec import catalogue
from ssdbench.suite import plan
from ssdbench.target.inspect import inspect
from tests.support.builders import a_target


def test_a_plan_says_stages_time_bytes_and_fills(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "demo"]) == 0

    out, err = capfd.readouterr()
    assert err == ""
    for part in ("01-precondition", "02-steady", "drive fills", "host settings: kept", "simulated"):
        assert part in out


def test_a_plan_is_a_document_with_the_same_stages(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "demo", "--json", "--seed", "3"]) == 0

    plan = json.loads(capfd.readouterr().out)
    kinds = ["precondition", "steady", "sweep", "load"]
    assert [stage["kind"] for stage in plan["stages"]] == kinds
    assert plan["seed"] == 3
    assert plan["simulated"] is True
    assert plan["refusals"] == []
    assert plan["stages"][0]["bytes_written"] == [2560 * 1024**2] * 2


def test_every_simulated_model_is_listed_as_a_target(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["drives", "--json"]) == 0

    found = json.loads(capfd.readouterr().out)
    assert [model["target"] for model in found["models"]] == [
        f"sim:{card.name}" for card in catalogue()
    ]
    assert all("reasons" in device for device in found["devices"])


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["detect-blocksize", "/dev/zoned"], "the drive is zoned; only sweeps can measure"),
        (["probe", "/dev/zoned"], "the drive is zoned; only sweeps can measure"),
        (["detect-blocksize", "sim:x25m-g2-160", "--stride", "4096"], "a stride of 4 KiB must be"),
    ],
)
def test_what_cannot_be_looked_into_is_told_without_a_place_in_a_profile_of_ours(
    asked: list[str],
    sentence: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zoned = a_target(TargetKind.DRIVE, name="/dev/zoned", zone_bytes=1 << 20)
    monkeypatch.setattr(
        plan, "inspect", lambda name: zoned if name == "/dev/zoned" else inspect(name)
    )

    assert run(asked) == 2

    assert capfd.readouterr().err.startswith(f"error: {sentence}")


def test_a_check_grades_everything(capfd: pytest.CaptureFixture[str]) -> None:
    code = run(["check", "sim:x25m-g2-160", "--json"])

    found = json.loads(capfd.readouterr().out)
    grades = {requirement["name"]: requirement["grade"] for requirement in found["requirements"]}
    assert grades["fio"] == "fine"
    assert grades["simulated drive"] == "fine"
    assert code == (0 if found["ready"] else 4)


def test_a_check_without_fio_says_what_to_install(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert run(["check"]) == 4
    assert "fio is not installed" in capfd.readouterr().out


MIXED = """
measure:
  - sweep: {block: [8KiB, 64KiB], read: [0, 70], iodepth: [1, 64], numjobs: [1, 2]}
"""


def warm_up_of(profile: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    path, target = tmp_path / "profile.yaml", tmp_path / "target.img"
    path.write_text(profile)
    with target.open("wb") as file:
        file.truncate(1 << 30)
    assert run(["plan", str(path), "--target", str(target)]) == 0
    return capfd.readouterr().out.split("02-steady: ")[1].split("03-sweep: ")[0]


def test_the_warm_up_is_the_plans_heaviest_writer_and_then_what_moves_most_bytes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = warm_up_of(MIXED, tmp_path, capfd)

    assert "8 KiB random write, QD 64 x 2 until steady" in told
    assert (
        "the profile names no workload for the warm-up, so this is the heaviest writer of the plan"
        in told
    )
    assert "then 64 KiB random 70/30 read/write, QD 64 x 2, which moves more bytes" in told


def test_a_warm_up_that_the_profile_names_is_as_it_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    named = "steady: {workload: {block: 4KiB, iodepth: 8}}" + MIXED

    told = warm_up_of(named, tmp_path, capfd)

    assert "4 KiB random write, QD 8 until steady" in told
    assert "heaviest" not in told


def test_a_shallow_plan_is_warmed_up_at_the_usual_depth(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = warm_up_of("measure: [{sweep: {iodepth: 1}}]", tmp_path, capfd)

    assert "4 KiB random write, QD 32 until steady" in told
