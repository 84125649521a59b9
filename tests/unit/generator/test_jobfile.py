"""Workloads as job files: golden texts, and every trap of fio closed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.arrivals import offered_iops
from ssdbench.generator.fio.jobfile import filename, jobfile
from ssdbench.generator.fio.layout import sections
from ssdbench.model.workload import Arrivals, Content, Pattern
from ssdbench.units import TIB
from tests.support.goldens import assert_golden
from tests.unit.generator.jobs import a_job, a_sequential

DEVICE: dict[str, str | int] = {
    "ioengine": "libaio", "direct": 1, "thread": 1, "filename": "/dev/loop0",
}  # fmt: skip

GOLDEN_JOBS = {
    "fill-then-cover": [
        a_sequential("fill", numjobs=2, total_bytes=2**31, length_bytes=2**30),
        a_job("cover", cover=True, total_bytes=2**30, iodepth=32),
    ],
    "steady-random-mix": [
        a_job("point 1", read_percent=70, iodepth=32, numjobs=4, histogram_log=True)
    ],
    "strided-with-log": [
        a_job(
            "stride", pattern=Pattern.STRIDED, stride_bytes=65536, latency_log=True, runtime_s=2.5
        )
    ],
    "paced-enterprise": [
        a_job(
            "jesd219",
            read_percent=40,
            block_split=((512, 4), (4096, 96)),
            zones=((50, 5), (30, 15), (20, 80)),
            rate_iops=10_000,
            numjobs=4,
            content=Content.ZEROS,
            runtime_s=60,
        )
    ],
}


def options_of(job: Job) -> dict[str, str]:
    text = jobfile([job], options=DEVICE)
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


@pytest.mark.parametrize("name", GOLDEN_JOBS)
def test_a_job_file_is_the_one_that_was_looked_at(name: str) -> None:
    text = jobfile(GOLDEN_JOBS[name], options=DEVICE)

    assert_golden(f"jobfiles/{name}.fio", text)


@given(
    block=st.sampled_from([512, 4096, 131072]),
    blocks=st.integers(1, 2**30),
    numjobs=st.integers(1, 8),
    total=st.one_of(st.none(), st.integers(1, 2**50)),
    read_percent=st.integers(0, 100),
    pattern=st.sampled_from([Pattern.RANDOM, Pattern.SEQUENTIAL]),
)
def test_sizes_are_integers_of_bytes(
    block: int,
    blocks: int,
    numjobs: int,
    total: int | None,
    read_percent: int,
    pattern: Pattern,
) -> None:
    """fio reads bs=4KiB as 4000 bytes (kb_base=1024 swaps the units)."""
    job = a_job(
        pattern=pattern,
        block_bytes=block,
        length_bytes=block * blocks,
        numjobs=numjobs,
        total_bytes=total,
        read_percent=read_percent,
    )

    for line in jobfile([job], options=DEVICE).splitlines():
        if line.startswith(("bs=", "size=", "offset=", "io_size=")):
            assert re.fullmatch(r"\w+=[0-9]+", line)


def test_no_file_is_made_for_a_mistyped_device() -> None:
    assert options_of(a_job())["allow_file_create"] == "0"


def test_each_repeat_has_offsets_of_its_own() -> None:
    first, second = options_of(a_job(seed=0)), options_of(a_job(seed=1))

    assert first["randrepeat"] == "0"
    assert (first["randseed"], second["randseed"]) == ("1", "2")


def test_steady_random_io_has_no_map_and_a_fill_has_one() -> None:
    assert options_of(a_job())["norandommap"] == "1"
    assert "norandommap" not in options_of(a_job(cover=True, total_bytes=2**30))


def test_a_fill_of_a_large_range_uses_an_lfsr() -> None:
    found = options_of(a_job(cover=True, total_bytes=TIB, length_bytes=TIB))

    assert found["random_generator"] == "lfsr"


def test_writes_do_not_compress_unless_zeros_are_asked_for() -> None:
    assert options_of(a_job())["refill_buffers"] == "1"
    assert "refill_buffers" not in options_of(a_job(content=Content.ZEROS))
    assert options_of(a_job(content=Content.ZEROS))["zero_buffers"] == "1"


def test_a_job_without_an_end_runs_until_it_is_stopped() -> None:
    found = options_of(a_job())

    assert found["time_based"] == "1"
    assert int(found["runtime"]) > 86400 * 365


def test_a_total_ends_a_job_without_a_clock() -> None:
    found = options_of(a_job(total_bytes=8192))

    assert found["io_size"] == "8192"
    assert "time_based" not in found


def test_random_arrivals_are_asked_of_fio() -> None:
    found = options_of(a_job(rate_iops=10_000, numjobs=4, arrivals=Arrivals.POISSON))

    assert found["rate_process"] == "poisson"
    assert "rate_process" not in options_of(a_job(rate_iops=10_000))


@pytest.mark.parametrize(("asked", "done"), [(500, 500), (15_000, 15_155), (40_000, 40_436)])
def test_what_fio_really_offers_is_known(asked: int, done: int) -> None:
    # `done`: fio 3.33, null engine, 3 s of Poisson arrivals on a shared machine
    workload = a_job(rate_iops=asked, read_percent=100, arrivals=Arrivals.POISSON).workload
    even = workload.model_copy(update={"arrivals": Arrivals.EVEN})

    assert offered_iops(workload) == pytest.approx(done, rel=0.02)
    assert offered_iops(even) == asked


def test_threads_differ_by_one_request_a_second_where_a_rate_is_no_multiple() -> None:
    job = a_job(rate_iops=1120, numjobs=256, read_percent=70, arrivals=Arrivals.POISSON)
    parts = sections(job)

    assert sum(part.numjobs for part in parts) == 256
    paces = [(part.numjobs, part.pace) for part in parts if part.pace]
    assert sum(threads * reads for threads, (reads, _) in paces) == 784
    assert sum(threads * writes for threads, (_, writes) in paces) == 336
    assert {pace for _, pace in paces} == {(4, 1), (3, 1), (3, 2)}
    assert offered_iops(job.workload) == pytest.approx(1120, rel=0.001)


def test_an_offered_rate_is_split_over_threads_and_directions() -> None:
    found = options_of(a_job(rate_iops=10_000, numjobs=4, read_percent=70))

    assert found["rate_iops"] == "1750,750"


def test_a_stride_is_a_skip_behind_each_block_and_no_zone_mode() -> None:
    found = options_of(a_job(pattern=Pattern.STRIDED, stride_bytes=65536))

    assert found["rw"] == "write:61440"
    assert "zonemode" not in found


def test_jobs_run_one_after_another_and_report_apart() -> None:
    text = jobfile([a_sequential("a", numjobs=3), a_sequential("b", numjobs=3)], options=DEVICE)

    assert text.count("stonewall=1") == 1
    assert text.index("[00-a.2]") < text.index("stonewall=1") < text.index("rw=", text.index("[01"))


def test_a_name_of_a_job_cannot_break_out_of_its_section() -> None:
    text = jobfile([a_job("x]\nfilename=/dev/sda\n[y")], options=DEVICE)

    assert "/dev/sda" not in text


def test_a_colon_in_a_path_is_no_second_file() -> None:
    assert filename("/dev/disk/by-path/pci-0000:01") == "/dev/disk/by-path/pci-0000\\:01"


@pytest.mark.parametrize(
    "path", ["/tmp/a\nb", "/tmp/${HOME}", "/tmp/a ", "/tmp/a;b", "/tmp/a#b", "/tmp/$ncpus'"]
)
def test_a_path_that_a_job_file_cannot_carry_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="fio.* cannot be given the name"):
        filename(path)


def test_shares_that_fio_would_cut_off_are_refused() -> None:
    with pytest.raises(UsageError, match="whole percentages"):
        options_of(a_job(zones=((50.5, 5), (49.5, 95))))


def test_pauses_between_bursts_carry_their_unit_because_fio_reads_one_of_them_as_seconds() -> None:
    text = jobfile([a_job(burst_us=5_000_000, thinktime_us=10_000_000)], options={})

    assert "thinktime=10000000\nthinktime_iotime=5000000us\n" in text
