"""Percentiles within a repeat, from fio's histogram logs of which every I/O is known."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ssdbench.report.read import Seconds, StoredRun
from ssdbench.report.view import pointplots
from ssdbench.stats.histogram import BINS, bin_of
from tests.support.builders import StoredRunBuilder

REPEAT = "stages/02-sweep/point/repeat-01"
BEGAN_MS = 1_000_000  # of fio's clock when it was started
SETTLE_S, COUNTED_S = 4, 6
FAST_NS, SLOW_NS = 100_000, 9_000_000
PER_SECOND = 2000


def a_log(side: int, latency_of: "dict[int, int]", began_ms: int = BEGAN_MS) -> str:
    """A thread's log: so many I/Os a second, each of the latency of its second."""
    rows = []
    for second in range(1, SETTLE_S + COUNTED_S + 1):
        counts = np.zeros(BINS, dtype=np.int64)
        counts[bin_of([latency_of.get(second, FAST_NS)])] = PER_SECOND
        rows.append(f"{began_ms + 1000 * second}, {side}, 4096, {', '.join(map(str, counts))}\n")
    return "".join(rows)


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    builder = StoredRunBuilder(tmp_path, repeats=1, measure_s=5).steady()
    builder.write()
    (tmp_path / REPEAT / "fio").mkdir(parents=True)
    found = StoredRun.open(tmp_path)
    t = np.arange(1.0, SETTLE_S + COUNTED_S + 1)
    found._seconds[f"{REPEAT}/seconds.csv"] = Seconds(
        t_s=t, duration_s=np.ones_like(t), ios=t, bytes=t, write_bytes=t, measured=t > SETTLE_S
    )
    return found


def put(run: StoredRun, name: str, text: str) -> None:
    data = text.encode()
    path = run.directory / REPEAT / "fio" / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def test_a_slow_second_is_seen_in_its_part_and_settling_is_left_out(run: StoredRun) -> None:
    put(run, "00-measure_clat_hist.1.log.gz", a_log(1, {2: SLOW_NS, 7: SLOW_NS}))
    put(run, "00-measure_clat_hist.2.log", a_log(1, {}))

    parts = pointplots.latencies_within(run, REPEAT, "write", most=3)

    assert [ends for *ends, _ in parts] == [[0, 2], [2, 4], [4, 6]]
    assert [part.n for *_, part in parts] == [4 * PER_SECOND] * 3  # two threads
    slow = [part.percentile_ns(0.99) >= SLOW_NS for *_, part in parts]
    assert slow == [False, True, False]  # the third second that counts
    assert pointplots.latencies_within(run, REPEAT, "read", most=3) == []
    assert run.missing == []


def test_a_packed_log_beside_its_plain_one_is_not_counted_again(run: StoredRun) -> None:
    put(run, "00-measure_clat_hist.1.log", a_log(0, {}))
    put(run, "00-measure_clat_hist.1.log.gz", a_log(0, {}))

    parts = pointplots.latencies_within(run, REPEAT, "read", most=1)

    assert [part.n for *_, part in parts] == [COUNTED_S * PER_SECOND]


@pytest.mark.parametrize("damage", ["torn", "no gzip", "bins", "words"])
def test_a_damaged_log_gives_no_figure_of_half_of_the_threads(run: StoredRun, damage: str) -> None:
    put(run, "00-measure_clat_hist.1.log", a_log(1, {}))
    path = run.directory / REPEAT / "fio" / "00-measure_clat_hist.2.log.gz"
    whole = gzip.compress(a_log(1, {}).encode())
    path.write_bytes(
        {
            "torn": whole[: len(whole) // 2],
            "no gzip": b"of another kind",
            "bins": gzip.compress(b"1007000, 1, 4096, 1, 2, 3\n"),
            "words": gzip.compress(b"when, 1, 4096, 1\n"),
        }[damage]
    )

    assert pointplots.latencies_within(run, REPEAT, "write", most=3) == []
    assert run.missing == [f"{REPEAT}/fio (a histogram log is damaged or too long)"]


def test_what_unpacks_without_end_is_not_read(
    run: StoredRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pointplots, "MOST_BYTES", 1000)
    put(run, "00-measure_clat_hist.1.log.gz", "0" * 1001)

    assert pointplots.latencies_within(run, REPEAT, "write", most=3) == []


def test_the_counted_end_of_two_hours_is_read_of_a_log_of_80_mb(run: StoredRun) -> None:
    hours_s = 7200
    row = ", ".join(map(str, [PER_SECOND] + [0] * (BINS - 1)))
    old = (
        f"{BEGAN_MS + 1000 * s}, {way}, 4096, {row}\n"
        for s in range(1, hours_s + 1)
        for way in (0, 1)
    )
    new = a_log(1, {7: SLOW_NS}, BEGAN_MS + 1000 * hours_s)
    path = run.directory / REPEAT / "fio" / "00-measure_clat_hist.1.log.gz"
    with gzip.open(path, "wt", compresslevel=1) as log:
        log.writelines(old)
        log.write(new)
    seconds = run._seconds[f"{REPEAT}/seconds.csv"]
    assert seconds is not None
    run._seconds[f"{REPEAT}/seconds.csv"] = replace(seconds, t_s=seconds.t_s + hours_s)

    parts = pointplots.latencies_within(run, REPEAT, "write", most=3)

    assert [part.n for *_, part in parts] == [2 * PER_SECOND] * 3
    assert run.missing == []


def test_a_repeat_without_logs_has_no_parts(run: StoredRun) -> None:
    assert pointplots.latencies_within(run, REPEAT, "write", most=3) == []
