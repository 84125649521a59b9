"""The user's fio jobs and mixes with real fio on a loop device, whose counters are the kernel's."""

import sys
from pathlib import Path

import pytest

from ssdbench.generator.fio.output import parse
from ssdbench.host.command import run
from ssdbench.model.finding import Code
from ssdbench.model.point import PointResult, StreamResult
from ssdbench.model.result import RunResult
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB, NS_PER_S
from tests.support.devices import LoopDevice

pytestmark = pytest.mark.host

PROFILE = """
title: Jobs on a loop device
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 3s}
repeats: 1
window: 4s
settle: {window: 2s, flat: 2s, max_time: 3s}
measure:
  - fio: |
      [data]
      ioengine=psync
      rw=randrw
      bs=4k
      numjobs=2
      rate_iops=100
      size=50%
      [log]
      rw=write
      bs=8k
      rate_iops=50
      fsync=1
      offset=50%
  - mix:
      name: pair
      streams: [{name: a, iodepth: 2}, {name: b, iodepth: 1, read: 100, block: 16KiB}]
"""


THREADS = """
title: More threads than slots
host: {scheduler: none, nr_requests: 4}
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 3s}
repeats: 1
window: 5s
settle: {window: 2s, flat: 2s, max_time: 3s}
measure:
  - sweep: {block: 4KiB, read: 100, iodepth: 1, numjobs: 32}
  - mix:
      window: 3s
      streams:
        - {name: a, read: 100, iodepth: 1, numjobs: 16}
        - {name: b, read: 100, iodepth: 1, numjobs: 16}
"""


def test_jobs_and_mixes_run_on_a_block_device(tmp_path: Path, memory: Path) -> None:
    jobs, pair = points_of(PROFILE, tmp_path, memory)

    rates = {
        stream.name: sum(e.value for e in stream.estimates if e.metric == "iops")
        for stream in jobs.streams
    }
    # fio makes up for what a busy host kept it from, so a short window may hold more than the rate.
    # The kernel counts a write for each of the log's flushes besides.
    total = jobs.estimate("iops")
    assert total is not None
    assert sum(rates.values()) == pytest.approx(total.value, rel=0.01)
    assert rates["data"] >= 0.9 * 400  # 100 a job and direction
    assert rates["log"] >= 0.9 * 50
    assert rates["data"] / rates["log"] == pytest.approx(8, rel=0.1)  # 4 with the flushes
    assert total.bound is None
    flushed = [e for e in jobs.estimates if (e.metric, e.direction) == ("lat_p50_ns", "flush")]
    # One for each write of the whole start, settling included: as long as the host let that take.
    (kept,) = (tmp_path / "out" / "stages").glob("03-fio/*/repeat-01/fio/fio.json")
    (whole,) = parse(kept.read_text(), ["both"], groups_of=[2])
    _, log = whole.outcome.streams
    assert log.write.ios >= 0.9 * 50 * 4
    assert [e.n for e in flushed] == [log.write.ios]
    by_stream = {
        stream.name: {e.direction for e in stream.estimates} - {"total"} for stream in jobs.streams
    }
    assert by_stream["data"] == {"read", "write"}
    assert by_stream["log"] == {"write", "flush"}
    assert {stream.name for stream in pair.streams} == {"a", "b"}


def test_latency_holds_the_wait_for_a_slot_of_the_drive(tmp_path: Path, memory: Path) -> None:
    """fio's log by time begins after io_submit, which sleeps while the drive's queue is full."""
    point, mix = points_of(THREADS, tmp_path, memory)

    for stream in mix.streams:
        rate, waited = (estimate_of(stream, metric) for metric in ("iops", "lat_mean_ns"))
        assert 2 * 2 < rate * waited / NS_PER_S <= 1.5 * 16, stream.name
    iops, mean = point.estimate("iops"), point.estimate("lat_mean_ns")
    assert iops is not None and mean is not None
    # On a busy host threads wait for a CPU with nothing on its way, so it may be less than 32.
    assert 2 * 4 < iops.value * mean.value / NS_PER_S <= 1.5 * 32  # without the wait 4, the slots
    codes = {finding.code for finding in point.findings}
    assert Code.QUEUE_FULL in codes and Code.LITTLE_MISMATCH not in codes


def estimate_of(stream: StreamResult, metric: str) -> float:
    return next(e.value for e in stream.estimates if (e.metric, e.direction) == (metric, "read"))


def points_of(text: str, tmp_path: Path, memory: Path) -> list[PointResult]:
    """The points of a run of this profile on a loop device in memory."""
    profile = tmp_path / "p.yaml"
    profile.write_text(text)
    with LoopDevice.several(memory) as make:
        info = inspect(str(make(size_bytes=64 * MIB).node))
        run(
            [
                *(sys.executable, "-m", "ssdbench", "run", str(profile), "--target", info.name),
                *("--destroy", info.id, "--output", str(tmp_path / "out")),
            ],
            ok=(0, 1),
        )
    result = RunResult.model_validate_json((tmp_path / "out" / "result.json").read_text())
    return [point for stage in result.stages for point in stage.points]
