"""Real fio on real loop devices: every block as planned, every second from the kernel."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchmarks import overhead
from ssdbench.engine.claimedsession import ClaimedSession
from ssdbench.errors import DeviceError, DeviceLost, UsageError
from ssdbench.generator.base import Job, Second
from ssdbench.generator.fio.attachment import DeviceAttachment
from ssdbench.generator.fio.driver import Fio, FioOutcome
from ssdbench.generator.fio.layout import LFSR_FROM_BLOCKS
from ssdbench.host import blockdev
from ssdbench.host.command import run, spawn
from ssdbench.model.workload import ActiveRange, Content, Pattern, Workload
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import inspect
from ssdbench.units import MIB
from tests.support.devices import LoopDevice


@contextmanager
def fio_on(device: LoopDevice, **options: float) -> Iterator[Fio]:
    descriptor = blockdev.claim(device.node)
    try:
        yield Fio(DeviceAttachment(device.node, descriptor, **options))  # type: ignore[arg-type]
    finally:
        os.close(descriptor)


def carried_out(fio: Fio, jobs: list[Job], directory: Path) -> FioOutcome:
    with fio.start(jobs, artifacts=directory) as running:
        list(running)
    return running.outcome()


def a_job(device: LoopDevice, name: str = "job", **changes: object) -> Job:
    job_fields = {"seed", "runtime_s", "total_bytes", "histogram_log", "latency_log", "cover"}
    job = {"seed": 1, **{key: changes.pop(key) for key in job_fields & changes.keys()}}
    length = changes.pop("length_bytes", device.size_bytes)
    fields = {
        "pattern": Pattern.RANDOM,
        "block_bytes": 4096,
        "read_percent": 0,
        "range": ActiveRange(offset_bytes=0, length_bytes=length),  # type: ignore[arg-type]
        **changes,
    }
    return Job(name, Workload(**fields), **job)  # type: ignore[arg-type]


def test_a_sequential_fill_leaves_no_byte_of_an_odd_sized_device(
    make_loop: Callable[..., LoopDevice], tmp_path: Path
) -> None:
    device = make_loop(size_bytes=16 * MIB + 3 * 512)
    fill = a_job(
        device,
        pattern=Pattern.SEQUENTIAL,
        block_bytes=131072,
        numjobs=3,
        total_bytes=device.size_bytes,
    )

    with fio_on(device) as fio:
        outcome = carried_out(fio, [fill], tmp_path / "fill")

    sectors = np.fromfile(device.backing, dtype=np.uint8).reshape(-1, 512)
    assert outcome.jobs[0].write.bytes == device.size_bytes
    assert (sectors != 0).any(axis=1).all()


def test_a_random_fill_touches_each_block_once_a_pass(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    cover = a_job(
        loop_device, cover=True, total_bytes=2 * loop_device.size_bytes, iodepth=8,
        block_bytes=16384, latency_log=True,
    )  # fmt: skip

    with fio_on(loop_device) as fio:
        outcome = carried_out(fio, [cover], tmp_path / "cover")

    offsets = np.array(outcome.logged("job").offset_bytes)
    _, times = np.unique(offsets, return_counts=True)
    assert len(times) == loop_device.size_bytes // 16384
    assert set(times) == {2}
    assert not (np.diff(offsets) > 0).all()


def test_an_lfsr_covers_each_block_as_well(
    loop_device: LoopDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssdbench.generator.fio.layout.LFSR_FROM_BLOCKS", 16)
    assert LFSR_FROM_BLOCKS > 16
    cover = a_job(loop_device, cover=True, total_bytes=loop_device.size_bytes, latency_log=True)

    with fio_on(loop_device) as fio:
        outcome = carried_out(fio, [cover], tmp_path / "cover")

    assert "random_generator=lfsr" in (tmp_path / "cover/job.fio").read_text()
    assert len(set(outcome.logged("job").offset_bytes)) == loop_device.size_bytes // 4096


def test_repeats_and_threads_go_to_different_places(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    """With fio's default seed all repeats use the same offsets (TKperf: 2000 of 2000)."""
    jobs = [
        a_job(loop_device, name, seed=seed, total_bytes=2 * 4 * MIB, numjobs=2, latency_log=True)
        for name, seed in (("one", 1), ("two", 2), ("again", 1))
    ]

    with fio_on(loop_device) as fio:
        outcomes = [carried_out(fio, [job], tmp_path / job.name) for job in jobs]

    one, two, again = (
        sorted(outcome.logged(job.name).offset_bytes)
        for job, outcome in zip(jobs, outcomes, strict=True)
    )
    assert one == again
    assert len(set(one) & set(two)) < 0.3 * len(one)
    assert len(set(one)) > 0.9 * len(one)


def test_a_strided_write_visits_each_stride_and_stays_in_its_range(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    stride = a_job(
        loop_device,
        pattern=Pattern.STRIDED,
        stride_bytes=65536,
        length_bytes=8 * MIB,
        total_bytes=2 * 128 * 4096,
        latency_log=True,
    )

    with fio_on(loop_device) as fio:
        outcome = carried_out(fio, [stride], tmp_path / "stride")

    expected = [number * 65536 for number in range(128)] * 2
    assert list(outcome.logged("job").offset_bytes) == expected


@pytest.mark.parametrize(
    ("content", "compressible"), [(Content.RANDOM, False), (Content.ZEROS, True)]
)
def test_content_is_what_was_asked_for(
    make_loop: Callable[..., LoopDevice], tmp_path: Path, content: Content, compressible: bool
) -> None:
    import zlib

    device = make_loop(size_bytes=4 * MIB)
    fill = a_job(device, cover=True, total_bytes=4 * MIB, content=content)

    with fio_on(device) as fio:
        carried_out(fio, [fill], tmp_path / "fill")

    share = len(zlib.compress(device.backing.read_bytes(), 1)) / (4 * MIB)
    assert (share < 0.1) if compressible else (share > 0.98)


def test_a_paced_mix_of_blocks_and_zones_does_what_it_says(
    make_loop: Callable[..., LoopDevice], tmp_path: Path
) -> None:
    device = make_loop()
    job = a_job(
        device,
        read_percent=40,
        block_split=((512, 20), (4096, 80)),
        zones=((50, 5), (30, 15), (20, 80)),
        rate_iops=2000,
        numjobs=4,
        runtime_s=3,
        latency_log=True,
    )

    with fio_on(device) as fio:
        outcome = carried_out(fio, [job], tmp_path / "run")

    done = outcome.jobs[0]
    offsets = np.array(outcome.logged("job").offset_bytes)
    assert 600 < done.read.ios + done.write.ios <= 6000 * 1.05  # a busy machine may be late
    assert done.read.ios / (done.read.ios + done.write.ios) == pytest.approx(0.4, abs=0.03)
    assert (offsets < 0.05 * device.size_bytes).mean() == pytest.approx(0.5, abs=0.05)
    assert sum(s.ios for s in outcome.seconds) == pytest.approx(
        done.read.ios + done.write.ios, rel=0.02
    )


def test_seconds_agree_with_fio_and_a_stop_ends_cleanly(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    job = a_job(loop_device, read_percent=50, iodepth=4, numjobs=2, histogram_log=True)
    seen: list[Second] = []

    with fio_on(loop_device) as fio, fio.start([job], artifacts=tmp_path / "run") as running:
        for second in running:
            seen.append(second)
            if len(seen) == 3:
                running.stop()
        outcome = running.outcome()

    total = outcome.jobs[0].read.ios + outcome.jobs[0].write.ios
    assert sum(second.ios for second in outcome.seconds) == pytest.approx(total, rel=0.001)
    assert all(second.foreign_ios == 0 for second in outcome.seconds)
    assert median(second.duration_s for second in seen[:3]) >= 0.7  # a busy host makes them longer
    assert (tmp_path / "run/status").read_text() == "128\n"


@pytest.mark.timed  # seconds of two clocks are compared
def test_a_window_of_the_histogram_log_holds_the_ios_of_its_seconds(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    job = a_job(loop_device, iodepth=4, numjobs=2, histogram_log=True, runtime_s=4, rate_iops=2000)

    with fio_on(loop_device) as fio:
        outcome = carried_out(fio, [job], tmp_path / "run")

    window = outcome.latency("write", from_s=1, to_s=3)
    at_s = [0.0, *(second.t_s for second in outcome.seconds)]  # late ones on a busy machine
    sums = np.cumsum([0, *(second.ios for second in outcome.seconds)])
    assert window.n == pytest.approx(np.interp(3, at_s, sums) - np.interp(1, at_s, sums), rel=0.1)
    assert outcome.latency("read", from_s=1, to_s=3).n == 0
    assert outcome.jobs[0].write.latency.n == outcome.jobs[0].write.ios


def test_someone_elses_reads_are_seen(loop_device: LoopDevice, tmp_path: Path) -> None:
    job = a_job(loop_device, runtime_s=3, rate_iops=200)
    with fio_on(loop_device) as fio, fio.start([job], artifacts=tmp_path / "run") as running:
        for second in running:
            if second.t_s < 2:
                run(["dd", f"if={loop_device.node}", "of=/dev/null", "bs=64k", "count=64",
                     "iflag=direct"])  # fmt: skip
        outcome = running.outcome()

    foreign = sum(second.foreign_ios for second in outcome.seconds)
    assert foreign == 64 * 65536 // 4096
    assert outcome.jobs[0].read.ios == 0


def test_a_job_beyond_the_end_is_refused_before_anything_runs(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    job = a_job(loop_device, length_bytes=2 * loop_device.size_bytes, total_bytes=4096)

    with fio_on(loop_device) as fio, pytest.raises(UsageError, match="ends at byte"):
        fio.start([job], artifacts=tmp_path / "run")


def test_a_device_that_fails_io_is_a_device_error(loop_device: LoopDevice, tmp_path: Path) -> None:
    os.truncate(loop_device.backing, loop_device.size_bytes // 2)
    read = a_job(
        loop_device,
        pattern=Pattern.SEQUENTIAL,
        read_percent=100,
        block_bytes=65536,
        total_bytes=loop_device.size_bytes,
    )

    with fio_on(loop_device) as fio, pytest.raises(DeviceError, match="a read at byte .* EIO"):
        carried_out(fio, [read], tmp_path / "run")


def test_a_device_that_changes_its_size_is_lost(loop_device: LoopDevice, tmp_path: Path) -> None:
    job = a_job(loop_device, length_bytes=4 * MIB, runtime_s=1.5)
    with fio_on(loop_device) as fio, fio.start([job], artifacts=tmp_path / "run") as running:
        for number, _ in enumerate(running):
            if number == 0:
                os.truncate(loop_device.backing, loop_device.size_bytes // 2)
                run(["losetup", "--set-capacity", str(loop_device.node)])

        with pytest.raises(DeviceLost, match="it had"):
            running.outcome()


def test_a_drive_that_shrank_between_two_starts_is_lost_and_no_mistake_of_the_user(
    loop_device: LoopDevice, tmp_path: Path
) -> None:
    info = inspect(str(loop_device.node))
    job = a_job(loop_device, total_bytes=MIB)
    with Claim(info) as claim:
        session = ClaimedSession(info, claim)
        with session.generator().start([job], artifacts=tmp_path / "first") as running:
            list(running)
        os.truncate(loop_device.backing, loop_device.size_bytes // 2)
        run(["losetup", "--set-capacity", str(loop_device.node)])

        with pytest.raises(DeviceLost, match="it had") as lost:
            session.generator().start([job], artifacts=tmp_path / "second")

    assert lost.value.exit_code == 5


def test_no_fio_writes_on_after_we_are_killed(loop_device: LoopDevice, tmp_path: Path) -> None:
    """Without this, kill -9 of ssdbench leaves fio writing and the device unclaimed."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from ssdbench.generator.base import Job\n"
        "from ssdbench.generator.fio.attachment import DeviceAttachment\n"
        "from ssdbench.generator.fio.driver import Fio\n"
        "from ssdbench.host import blockdev\n"
        "from ssdbench.model.workload import ActiveRange, Pattern, Workload\n"
        f"node, out = Path({str(loop_device.node)!r}), Path({str(tmp_path)!r})\n"
        "work = Workload(pattern=Pattern.RANDOM, block_bytes=4096, read_percent=0,\n"
        f"    range=ActiveRange(offset_bytes=0, length_bytes={loop_device.size_bytes}))\n"
        "fio = Fio(DeviceAttachment(node, blockdev.claim(node)))\n"
        "with fio.start([Job('endless', work, 1)], artifacts=out / 'run') as running:\n"
        "    for second in running:\n"
        "        (out / 'ready').touch()\n"
    )
    parent = spawn(
        [sys.executable, str(script)],
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    while not (tmp_path / "ready").exists():
        assert parent.poll() is None, (tmp_path / "err").read_text()
        time.sleep(0.02)

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()

    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            os.close(blockdev.claim(loop_device.node))
        except BlockingIOError:
            time.sleep(0.02)
        else:
            break
    before = _writes(loop_device)
    time.sleep(0.3)
    assert _writes(loop_device) == before


def _writes(device: LoopDevice) -> int:
    return int(Path(f"/sys/block/{device.node.name}/stat").read_text().split()[4])


def test_plain_fio_reads_the_claimed_device_that_a_cost_is_measured_on(tmp_path: Path) -> None:
    with overhead.memory_loop(16 * MIB) as node:
        descriptor = blockdev.claim(node)
        try:
            job = overhead.a_job(numjobs=2, iodepth=4, seconds=0.5, size_bytes=16 * MIB)
            start = overhead.run_plain(DeviceAttachment(node, descriptor), job, tmp_path)
        finally:
            os.close(descriptor)

    assert start.iops > 100
    assert start.dead_s > 0
