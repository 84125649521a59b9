import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ssdbench.errors import UsageError
from ssdbench.report.read import StoredRun
from ssdbench.stats.histogram import Histogram
from tests.support.builders import a_small_run


def test_a_directory_without_a_result_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no result.json") as caught:
        StoredRun.open(tmp_path)

    assert "resume" in caught.value.hint
    with pytest.raises(UsageError, match="nowhere is not a directory"):
        StoredRun.open(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "{", '{"run_id": 1}', "[]"])
def test_a_damaged_result_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)

    with pytest.raises(UsageError, match="is not a result that this version of ssdbench can read"):
        StoredRun.open(tmp_path)


@pytest.mark.parametrize("said", ["", "soon", "9999-12-31T23:59:59-14:00", "2026-13-01"])
def test_a_time_that_is_none_is_no_result(tmp_path: Path, said: str) -> None:
    a_small_run(tmp_path)
    stored = json.loads((tmp_path / "result.json").read_text())

    for holder, name in [(stored, "started_at"), (stored["stages"][0], "started_at")]:
        kept, holder[name] = holder[name], said
        (tmp_path / "result.json").write_text(json.dumps(stored))
        with pytest.raises(UsageError, match="is not a time"):
            StoredRun.open(tmp_path)
        holder[name] = kept


@pytest.mark.parametrize("name", ["wall_s", "duration_s"])
@pytest.mark.parametrize("said", [1e300, -1e300, float("nan"), float("inf")])
def test_a_length_that_nobody_waited_for_is_no_result(
    tmp_path: Path, name: str, said: float
) -> None:
    a_small_run(tmp_path)
    stored = json.loads((tmp_path / "result.json").read_text())
    stored["stages"][0][name] = said
    (tmp_path / "result.json").write_text(json.dumps(stored))

    with pytest.raises(UsageError, match="its duration is too long"):
        StoredRun.open(tmp_path)


def test_nothing_outside_the_run_directory_is_read(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    a_small_run(tmp_path / "run")
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    (tmp_path / "run" / "link.csv").symlink_to(tmp_path / "secret.csv")
    run = StoredRun.open(tmp_path / "run")

    assert run.table("../secret.csv") is None
    assert run.table(str(tmp_path / "secret.csv")) is None
    assert run.table("link.csv") is None


def test_a_torn_last_line_costs_only_itself(tmp_path: Path) -> None:
    a_small_run(tmp_path)
    path = tmp_path / "stages/01-steady/seconds.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:101]) + "\n101,1,0,6")
    run = StoredRun.open(tmp_path)

    seconds = run.seconds("stages/01-steady/seconds.csv")

    assert seconds is not None
    assert len(seconds.t_s) == 100 and seconds.t_s[-1] == 100


def test_settling_seconds_are_told_from_counted_ones(tmp_path: Path) -> None:
    result = a_small_run(tmp_path)
    repeat = result.stages[1].points[0].repeats[0]

    seconds = StoredRun.open(tmp_path).seconds(f"{repeat.artifacts}/seconds.csv")

    assert seconds is not None
    assert (int((~seconds.measured).sum()), int(seconds.measured.sum())) == (20, 20)


def test_histograms_come_back_as_they_were_stored(tmp_path: Path) -> None:
    a_small_run(tmp_path)
    stored = Histogram.of(np.array([1000, 2000, 2000]))
    np.savez(tmp_path / "h.npz", read=stored.counts, other=np.zeros(3))

    found = StoredRun.open(tmp_path).histograms("h.npz")

    assert list(found) == ["read"] and found["read"].n == 3


def test_seconds_say_the_same_however_they_are_written(tmp_path: Path) -> None:
    a_small_run(tmp_path)
    path = tmp_path / "stages/01-steady/seconds.csv"
    head, *rows = path.read_text().splitlines()
    rows[3] = rows[3].replace("warmup", "measured")  # longer than "measure", and not the same
    rows[4] = rows[4].replace("warmup", "measure")
    rows[5] = rows[5].replace("5,1,", "5.25,0.5,", 1)

    def read(lines: list[str]) -> list[npt.NDArray[Any]]:
        path.write_text("\n".join([head, *lines]) + "\n")
        seconds = StoredRun.open(tmp_path).seconds("stages/01-steady/seconds.csv")
        assert seconds is not None
        return [seconds.t_s, seconds.duration_s, seconds.ios, seconds.write_bytes, seconds.measured]

    quotes = '"' + rows[0].replace(",", '", "') + '"'
    plain, quoted = read(rows), read([quotes, *rows[1:]])

    assert plain[4].sum() == 1 and len(plain[0]) == len(rows)
    for one, other in zip(plain, quoted, strict=True):
        np.testing.assert_array_equal(one, other)
