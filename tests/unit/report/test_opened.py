from pathlib import Path

import pytest

import ssdbench
from ssdbench.errors import UsageError
from tests.support.builders import a_small_run


def test_an_opened_run_has_typed_results_and_tables(tmp_path: Path) -> None:
    stored = a_small_run(tmp_path)

    run = ssdbench.open_run(str(tmp_path))

    assert run.result == stored
    bounds = run.summary.pivot_table(index="block_bytes", columns="read_percent", values="iops")
    assert bounds.loc[4096, 0] == pytest.approx(6_000, rel=0.02)  # as planted
    assert set(run.results["metric"]) >= {"iops", "lat_p99_ns"}
    assert len(run.artifacts) >= 9


def test_a_directory_without_a_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no result\.json"):
        ssdbench.open_run(tmp_path)
