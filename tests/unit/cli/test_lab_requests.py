"""`lab run` with what it cannot do: a sentence and what to do, before anything boots."""

from pathlib import Path

import pytest

from ssdbench.cli.main import run


@pytest.mark.parametrize("asked", ["900TiB", "8000000TiB"])
def test_more_memory_than_the_host_has_is_refused(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(["lab", "run", "--memory", asked, "--", "true"])

    said = capsys.readouterr().err
    assert status == 2
    assert f"a guest cannot have {asked} of memory: this host has " in said
    assert "Give a smaller `--memory`" in said


def test_a_cache_that_cannot_be_made_names_the_variable_that_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a file"
    file.write_text("kept")
    monkeypatch.setenv("SSDBENCH_LAB_CACHE", str(file / "lab"))

    status = run(["lab", "run", "--", "true"])

    said = capsys.readouterr().err
    assert status == 4
    assert "the lab cannot keep its kernels and tools" in said
    assert "SSDBENCH_LAB_CACHE" in said
    assert file.read_text() == "kept"
