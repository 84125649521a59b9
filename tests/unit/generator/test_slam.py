import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssdbench.engine.targets import require_generator
from ssdbench.errors import HostLacks, UsageError
from ssdbench.generator.base import Job, Running
from ssdbench.generator.slam import HISTOGRAMS, Slam, SlamOutcome, _limit, _part, objections
from ssdbench.host import slam
from ssdbench.host.blockdev import Geometry
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.profile import Applies
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.model.workload import ActiveRange, Pattern, Workload

BLOCK = 4096


def workload(pattern: Pattern = Pattern.RANDOM, **more: object) -> Workload:
    return Workload.model_validate(
        {
            "pattern": pattern,
            "block_bytes": BLOCK,
            "read_percent": 50,
            "range": ActiveRange(offset_bytes=10 * BLOCK, length_bytes=10 * BLOCK + 512),
            **more,
        }
    )


def target(kind: TargetKind, name: str) -> TargetInfo:
    return TargetInfo(
        id="x",
        name=name,
        node="/dev/x",
        kind=kind,
        size_bytes=1 << 30,
        simulated=kind is TargetKind.SIMULATED,
    )


class Fills:
    """The generator that fills are left to."""

    name = "fills"

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def start(self, jobs: Sequence[Job], *, artifacts: Path) -> Running:
        self.jobs += jobs
        raise AssertionError("not asked for")


def test_random_instances_share_the_range_and_sequential_ones_divide_it() -> None:
    assert [_part(workload(numjobs=3), n) for n in range(3)] == [(10 * BLOCK, 10 * BLOCK)] * 3

    parts = [_part(workload(Pattern.SEQUENTIAL, numjobs=3), n) for n in range(3)]

    assert parts == [(10 * BLOCK, 3 * BLOCK), (13 * BLOCK, 3 * BLOCK), (16 * BLOCK, 4 * BLOCK)]


def test_the_ios_of_a_bounded_job_are_divided_without_rest() -> None:
    job = Job("fill", workload(numjobs=3), seed=1, total_bytes=10 * BLOCK)

    assert sum(_limit(job, n) for n in range(3)) == 10
    assert _limit(Job("open", workload(), seed=1), 0) == 0


def test_what_the_module_cannot_do_is_named() -> None:
    assert objections(Job("plain", workload(), seed=1, histogram_log=True)) == []

    asked = workload(thinktime_us=5, rate_iops=10.0)
    job = Job("odd", asked, seed=1, flush_every=3, latency_log=True)

    assert objections(job) == ["an offered rate", "pauses", "flushes", "a log of each I/O"]


def test_a_start_refuses_such_a_job_by_name_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    size = Geometry(size_bytes=1 << 30, logical_block_bytes=512)
    monkeypatch.setattr("ssdbench.generator.slam.available", lambda: True)
    monkeypatch.setattr("ssdbench.generator.slam.blockdev.geometry_of", lambda _: size)
    fills = Fills()
    generator = Slam(Path("/dev/x"), 9, fills)
    plain = Job("plain", workload(), seed=1)
    paced = Job("paced", workload(thinktime_us=5), seed=1)

    with pytest.raises(UsageError, match="cannot do pauses, which paced asks for"):
        generator.start([plain, paced], artifacts=tmp_path / "artifacts")

    assert not (tmp_path / "artifacts").exists()
    assert fills.jobs == []


def test_latencies_belong_to_the_window_that_holds_their_middle(tmp_path: Path) -> None:
    rows = [
        {"from_s": n, "to_s": n + 1, "read": {str(100 + n): 10 + n}, "write": {"5": 1}}
        for n in range(4)
    ]
    (tmp_path / HISTOGRAMS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcome = SlamOutcome(jobs=(), seconds=(), directory=tmp_path)

    window = outcome.latency("read", from_s=1.0, to_s=3.0)

    assert (window.n, window.counts[101], window.counts[102]) == (23, 11, 12)
    assert {place: found.n for place, found in outcome.latencies(every_s=2.0).items()} == {
        0: 10 + 11 + 2,
        1: 12 + 13 + 2,
    }


def test_slam_needs_a_block_device_and_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssdbench.generator.slam.available", lambda: False)
    drive = target(TargetKind.DRIVE, "/dev/nvme0n1")

    require_generator(Applies.FIO, target(TargetKind.SIMULATED, "sim:x25m-g2-160"), ())
    require_generator(Applies.SLAM, drive, ("ssdb_slam",))  # the run itself loads it
    with pytest.raises(HostLacks, match="the kernel module ssdb_slam is not loaded"):
        require_generator(Applies.SLAM, drive, ())
    with pytest.raises(UsageError, match="needs a block device"):
        require_generator(Applies.SLAM, target(TargetKind.SIMULATED, "sim:x25m-g2-160"), ())


def test_a_table_of_the_module_is_read_with_the_empty_lines_that_fill_it(tmp_path: Path) -> None:
    here = tmp_path / slam.CONFIGFS.lstrip("/")
    here.mkdir(parents=True)
    instance = slam.Instance("0", Sysfs(tmp_path))
    for name, text in {
        "histogram": "read 7 3\nwrite 1855 2\n\n\n", "errors": "1\n", "elapsed_ns": "12\n",
        "running": "1\n",
    }.items():  # fmt: skip
        (here / "ssdbench-0" / name).write_text(text)

    found = instance.slammed()

    assert (found.read, found.write, found.errors, found.elapsed_ns) == ({7: 3}, {1855: 2}, 1, 12)
    assert instance.running
    with pytest.raises(HostLacks, match="ssdb_slam refuses depth 0"):
        instance.set({"depth": 0})
