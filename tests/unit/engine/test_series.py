"""Seconds that are counted again, in memory and in their file."""

from pathlib import Path

import pytest

from ssdbench.engine.series import Recorder, stored_seconds
from ssdbench.generator.base import Second


def second(t_s: float, reads: int, writes: int) -> Second:
    return Second(t_s, 1.0, reads, writes, 4096 * reads, 4096 * writes)


def test_seconds_counted_again_keep_their_shape_and_other_phases(tmp_path: Path) -> None:
    path = tmp_path / "seconds.csv"
    with Recorder(path, phase="settle") as series:
        series.add(second(1.0, 10, 100))
        series.phase = "measure"
        series.add(second(2.0, 0, 300))
        series.add(second(3.0, 0, 100))
        settle, measure = series.phases()
        series.recount(measure, read_ios=0, write_ios=200)
        assert series.column("write_ios")[settle].tolist() == [100]
        series.add(second(4.0, 7, 60))

    stored = stored_seconds(path)
    assert stored["write_ios"].tolist() == [100, 150, 50, 60]
    assert stored["read_ios"].tolist() == [10, 0, 0, 7]
    assert stored["write_bytes"].sum() == pytest.approx(4096 * 560)  # bytes are as they were
    assert [line.rsplit(",", 1)[1] for line in path.read_text().splitlines()] == [
        "phase",
        "settle",
        "measure",
        "measure",
        "measure",
    ]
