"""Runs of an older schema, as an older ssdbench stored them: refused, with the version to use."""

import shutil
from pathlib import Path

import pytest

from ssdbench.cli.main import run

STORED = Path(__file__).parents[2] / "data" / "runs"


@pytest.mark.parametrize("name", ["host-schema-1", "pts-schema-1"])
@pytest.mark.parametrize("command", ["report", "capacity"])
def test_a_run_of_an_older_schema_is_refused_with_the_version_to_use(
    name: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = tmp_path / "run"
    shutil.copytree(STORED / name, stored)
    more = ["--iops", "1000"] if command == "capacity" else []

    assert run([command, str(stored), *more]) == 2

    told = " ".join(capsys.readouterr().err.split())
    assert f"{stored}/result.json: the run has schema 1" in told
    assert "Use ssdbench 1.0.0 for it" in told
    assert [path.name for path in stored.iterdir()] == ["result.json"]
