"""fio's latency logs: same bins as ours, torn ends, and what is no log."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ssdbench.cli.traces import latencies as command
from ssdbench.errors import UsageError
from ssdbench.report.latencylog import latencies
from ssdbench.stats.histogram import LOWER_EDGES_NS, Histogram


def a_log(path: Path, rows: list[tuple[int, int]], *, end: str = "") -> Path:
    lines = [f"{n}, {latency}, {way}, 4096, {n}" for n, (latency, way) in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n" + end)
    return path


def test_every_edge_of_every_bin_falls_into_the_bin_of_the_histogram(tmp_path: Path) -> None:
    edges = LOWER_EDGES_NS[:-1]
    values = np.unique(np.concatenate([edges, edges[1:] - 1, [10**11]])).tolist()

    (found,) = latencies([a_log(tmp_path / "a.log", [(value, 0) for value in values])])

    assert (found.histogram.counts == Histogram.of(values).counts).all()
    assert found.max_ns == 10**11
    assert found.direction == "read"


def test_directions_are_apart_and_logs_are_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    reads, writes = (rng.lognormal(11, 1, 5000).astype(int).tolist() for _ in range(2))
    paths = [
        a_log(tmp_path / "it's 1.log", [(v, 0) for v in reads[:2500]] + [(v, 1) for v in writes]),
        a_log(tmp_path / "2.log", [(value, 0) for value in reads[2500:]]),
    ]

    read, write = latencies(paths)

    assert (read.histogram.n, write.histogram.n) == (5000, 5000)
    assert read.histogram.percentile_ns(0.99) == Histogram.of(reads).percentile_ns(0.99)
    assert write.histogram.percentile_ns(0.5) == pytest.approx(np.median(writes), rel=1 / 63)


@pytest.mark.parametrize("end", ["7", "7, 12", "7, 123456, "])
def test_a_line_that_was_torn_is_left_out(tmp_path: Path, end: str) -> None:
    (found,) = latencies([a_log(tmp_path / "a.log", [(100, 1)] * 50, end=end)])

    assert found.histogram.n == 50
    assert found.max_ns == 100


@pytest.mark.parametrize(
    "row",
    ["2, -100, 0, 4096, 0", "2, -100, 1, 4096, 0", "2, nan, 0, 4096, 0", "2, 100, 7, 4096, 0", "x"],
)
def test_a_damaged_row_is_refused_with_its_file_and_line(tmp_path: Path, row: str) -> None:
    sound = a_log(tmp_path / "sound.log", [(100, 1)] * 50, end="7, 12")
    path = tmp_path / "bad.log"
    path.write_text("1, 100, 0, 4096, 0\n" * 30 + row + "\n" + "1, 100, 0, 4096, 0\n" * 30)

    with pytest.raises(UsageError) as caught:
        latencies([sound, path])

    assert caught.value.message.startswith(f"{path}:31: '{row}' is not a row")


def test_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    values = list(range(1000, 21_000, 10))

    (rising,) = latencies([a_log(tmp_path / "a.log", [(v, 0) for v in values])])
    (falling,) = latencies([a_log(tmp_path / "b.log", [(v, 0) for v in reversed(values)])])

    assert (rising.histogram.counts == falling.histogram.counts).all()


def test_a_log_without_a_whole_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"1, {'9' * 30}, 0, 4096, 0")

    with pytest.raises(UsageError, match="no complete row"):
        latencies([tmp_path / "a.log"])


@pytest.mark.parametrize("text", ["", "# Not a log\n", "a, b, c, d, e\n"])
def test_what_is_no_log_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.txt").write_text(text)

    with pytest.raises(UsageError, match="not a latency log"):
        latencies([tmp_path / "x.txt"])
    with pytest.raises(UsageError, match="cannot be read"):
        latencies([tmp_path / "nowhere.log"])


def test_logs_of_different_versions_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "new.log").write_text("1, 2, 0, 4096, 5, 0\n")

    with pytest.raises(UsageError, match="different columns"):
        latencies([a_log(tmp_path / "a.log", [(1, 0)]), tmp_path / "new.log"])


def test_the_command_prints_what_a_person_reads(tmp_path: Path) -> None:
    path = a_log(tmp_path / "a.log", [(150_000, 0)] * 1000)

    found = CliRunner().invoke(command, [str(path)])

    assert found.exit_code == 0
    assert "1,000" in found.output
    assert "151" in found.output or "15" in found.output


def test_percentiles_beyond_which_too_few_ios_lie_are_left_out(tmp_path: Path) -> None:
    path = a_log(tmp_path / "a.log", [(150_000, 0)] * 6500)

    told = CliRunner().invoke(command, [str(path)])
    document = json.loads(CliRunner().invoke(command, [str(path), "--json"]).output)

    assert "read p99 uncertain" in told.output
    assert "read p99.9, p99.99, p99.999 left out" in told.output
    read = document["directions"]["read"]
    assert read["percentiles_ns"]["p99"] > 0
    assert read["percentiles_ns"]["p99.9"] is None
    assert read["status"]["p99.99"] == "suppressed"
