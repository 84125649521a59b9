"""Commands that only look: plan, drives, check, schema."""

import json

import pytest

from ssdbench.cli.main import run
from ssdbench.sim.spec import catalogue


def test_a_plan_says_stages_time_bytes_and_fills(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "demo"]) == 0

    out, err = capfd.readouterr()
    assert err == ""
    for part in ("01-precondition", "02-steady", "drive fills", "host settings: kept", "simulated"):
        assert part in out


def test_a_plan_is_a_document_with_the_same_stages(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "demo", "--json", "--seed", "3"]) == 0

    plan = json.loads(capfd.readouterr().out)
    assert [stage["kind"] for stage in plan["stages"]] == [
        "precondition",
        "steady",
        "sweep",
        "precondition",
        "span",
        "blocksize",
    ]
    assert plan["seed"] == 3
    assert plan["simulated"] is True
    assert plan["refusals"] == []
    assert plan["stages"][0]["bytes_written"] == [3 * 4 * 1024**3] * 2


def test_every_simulated_model_is_listed_as_a_target(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["drives", "--json"]) == 0

    found = json.loads(capfd.readouterr().out)
    assert [model["target"] for model in found["models"]] == [
        f"sim:{card.name}" for card in catalogue()
    ]
    assert all("reasons" in device for device in found["devices"])


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
