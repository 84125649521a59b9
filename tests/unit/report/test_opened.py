import json
from pathlib import Path
from typing import Any

import pytest

import ssdbench
from ssdbench.errors import UsageError
from tests.support.builders import a_small_run

NOTEBOOK = Path(__file__).parents[3] / "docs" / "open-a-run.ipynb"


def test_an_opened_run_has_typed_results_and_tables(tmp_path: Path) -> None:
    stored = a_small_run(tmp_path)

    run = ssdbench.open_run(str(tmp_path))

    assert run.result == stored
    bounds = run.summary.pivot_table(index="block_bytes", columns="read_percent", values="iops")
    assert bounds.loc[4096, 0] == pytest.approx(6_000, rel=0.02)  # as planted
    assert set(run.results["metric"]) >= {"iops", "lat_p99_ns"}
    assert len(run.artifacts) >= 9


def test_a_directory_without_a_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no result\.json"):
        ssdbench.open_run(tmp_path)


def test_the_example_notebook_runs_from_its_first_cell_to_its_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_small_run(tmp_path)
    monkeypatch.setenv("SSDBENCH_RUN", str(tmp_path))
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}

    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)

    assert names["bounds"].loc[4096, 0] < 6_000 < 1.05 * names["bounds"].loc[4096, 0]  # as planted
    assert (names["spread"]["cv_percent"] > 0).all() and (names["spread"]["count"] == 3).all()
    assert capsys.readouterr().out.count("IOPS or more") == 3
