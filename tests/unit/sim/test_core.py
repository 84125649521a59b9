"""The core from Python: requests, errors, its own loop, the same again from the same seed."""

import numpy as np
import pytest

from ssdbench.errors import DeviceError, UsageError
from ssdbench.sim.core import Drive, Job, Op, Order
from ssdbench.sim.library import CoreError, Params, parameters
from ssdbench.stats.histogram import bin_of
from ssdbench.units import MIB

BUFFER_HIT, UNMAPPED = 1 << 0, 1 << 1  # of enum ssdb_why
SMALL = {"capacity_bytes": 64 * MIB, "erase_block_bytes": 65536, "op_ppm": 300_000}


def a_drive(**values: int) -> Drive:
    return Drive.in_memory(Params({**SMALL, **values}))


def test_every_parameter_has_a_sentence_and_a_default_within_its_limits() -> None:
    for desc in parameters().values():
        assert desc.doc.endswith(".")
        assert desc.minimum <= desc.default <= desc.maximum
        assert not desc.choices or len(desc.choices) == desc.maximum + 1


def test_parameters_come_back_from_the_state_as_they_were_set() -> None:
    drive = a_drive(t_prog_ns=123_456, seed=99)

    found = drive.params()

    assert (found["t_prog_ns"], found["seed"]) == (123_456, 99)
    assert set(found) == set(parameters())


@pytest.mark.parametrize(
    ("offset", "size", "error"),
    [
        (64 * MIB, 4096, CoreError.RANGE),
        (64 * MIB - 512, 4096, CoreError.RANGE),
        (100, 4096, CoreError.ALIGN),
        (0, 100, CoreError.ALIGN),
        (0, 0, CoreError.ALIGN),
    ],
)
def test_a_wrong_request_is_answered_with_an_error(
    offset: int, size: int, error: CoreError
) -> None:
    assert a_drive().submit(Op.WRITE, offset, size).error is error


def test_time_does_not_go_back() -> None:
    drive = a_drive()
    drive.submit(Op.READ, 0, 4096, now_ns=1_000_000)

    assert drive.submit(Op.READ, 0, 4096, now_ns=999_999).error is CoreError.TIME


def test_only_the_first_command_after_a_quiet_time_wakes_the_drive() -> None:
    ready_ns, wake_ns, idle_ns = 10**9, 5 * 10**6, 10**8
    at_ns = [ready_ns, ready_ns + 10**7, ready_ns + idle_ns, ready_ns + 3 * idle_ns]
    took_ns = {}
    for name, t_wake_ns in (("sleeps", wake_ns), ("never", 0)):
        drive = a_drive(t_wake_ns=t_wake_ns, idle_delay_ns=idle_ns)
        done = [drive.submit(Op.READ, 0, 4096, now_ns=now) for now in at_ns]
        took_ns[name] = [one.done_ns - now for one, now in zip(done, at_ns, strict=True)]

    extra = [slow - fast for slow, fast in zip(took_ns["sleeps"], took_ns["never"], strict=True)]
    assert extra == [wake_ns, 0, 0, wake_ns]


def test_an_answer_says_why_it_took_its_time() -> None:
    drive = a_drive()

    unmapped = drive.submit(Op.READ, 0, 4096)
    drive.submit(Op.WRITE, 0, 4096)
    buffered = drive.submit(Op.READ, 0, 4096)

    assert unmapped.why & UNMAPPED
    assert buffered.why & BUFFER_HIT


def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    runs = [a_drive().run(Job(stop_ios=5000, seed=seed), per_io=5000) for seed in (1, 1, 2)]

    same, again, other = (run.per_io for run in runs)

    assert (same == again).all()
    assert not (same == other).all()


def test_the_histogram_has_the_bins_of_the_single_latencies() -> None:
    result = a_drive().run(Job(read_percent=50, stop_ios=5000), per_io=5000)

    for op in (0, 1):
        latencies = result.per_io["latency_ns"][result.per_io["op"] == op].astype(np.int64)
        expected = np.bincount(bin_of(latencies), minlength=len(result.histograms[op].counts))
        assert (result.histograms[op].counts == expected).all()


def test_the_seconds_add_up_to_the_whole() -> None:
    result = a_drive(t_prog_ns=50_000_000).run(Job(stop_s=5.0), seconds=60)

    assert result.seconds["ios"].sum() == sum(result.ios)
    assert result.seconds["bytes"].sum() == sum(result.bytes)
    assert 5 <= len(result.seconds) <= 10


def test_a_rate_is_kept() -> None:
    result = a_drive().run(Job(rate_iops=1000, stop_s=4.0))

    assert result.iops == pytest.approx(1000, rel=0.01)


def test_a_strided_stream_visits_its_strides() -> None:
    job = Job(order=Order.STRIDED, stride_bytes=65536, iodepth=1, stop_ios=10)

    offsets = a_drive().run(job, per_io=10).per_io["offset"]

    assert offsets.tolist() == [65536 * i for i in range(10)]


def test_a_sequential_stream_goes_on_where_it_stopped() -> None:
    drive = a_drive()
    first = drive.run(Job(order=Order.SEQUENTIAL, stop_ios=7), per_io=7)

    second = drive.run(Job(order=Order.SEQUENTIAL, stop_ios=1, position=first.position), per_io=1)

    assert second.per_io["offset"].tolist() == [7 * 4096]


def test_a_planted_media_error_is_counted_and_not_the_end() -> None:
    drive = a_drive(error_ops=1, error_offset_bytes=0, error_bytes=32 * MIB)

    result = drive.run(Job(read_percent=100, stop_ios=1000))

    assert 300 < result.errors < 700


@pytest.mark.parametrize(
    "job",
    [
        Job(),
        Job(iodepth=0, stop_ios=1),
        Job(span_bytes=65 * MIB, stop_ios=1),
        Job(block_bytes=100, stop_ios=1),
        Job(order=Order.STRIDED, stop_ios=1),
    ],
    ids=["endless", "no-depth", "beyond-the-end", "misaligned", "no-stride"],
)
def test_a_job_that_does_not_fit_is_refused(job: Job) -> None:
    with pytest.raises(UsageError):
        a_drive().run(job)


def test_trimmed_space_is_free_again() -> None:
    drive = a_drive()
    drive.run(Job(order=Order.SEQUENTIAL, block_bytes=MIB, stop_bytes=64 * MIB))

    drive.submit(Op.TRIM, 0, 32 * MIB)

    assert drive.counters()["mapped_units"] == 32 * MIB // 4096
    assert drive.broken_invariant() == 0


def test_an_impossible_drive_is_refused_with_the_cores_sentence() -> None:
    with pytest.raises(UsageError, match="no spare"):
        a_drive(op_ppm=0)


def test_memory_that_is_too_small_is_refused() -> None:
    import mmap

    drive = Drive(mmap.mmap(-1, 4096))

    with pytest.raises(DeviceError, match="truncated"):
        drive.initialise(Params(SMALL))


def test_a_job_on_a_worn_out_drive_ends_with_a_sentence() -> None:
    drive = a_drive(endurance_cycles=2)

    with pytest.raises(DeviceError, match="offset [0-9]+: the drive has no spare block left"):
        drive.run(Job(stop_ios=2_000_000))
