"""fio job files as workloads: what is read, what is refused with its line, and where it works."""

import random
import re

import pytest

from ssdbench.errors import UsageError
from ssdbench.generator.base import Job
from ssdbench.generator.fio.jobfile import jobfile
from ssdbench.generator.fio.userjobs import job_file
from ssdbench.generator.fio.useroptions import fio_bytes
from ssdbench.generator.fio.userworkloads import MeasuredJobs, Room, phases_of, uncapped
from ssdbench.model.workload import Content, Pattern, Stream
from ssdbench.units import GIB, MIB

ROOM = Room(length_bytes=GIB, block_bytes=512)


def measured(text: str, room: Room = ROOM) -> MeasuredJobs:
    return phases_of(job_file(text, path="jobs/db.fio"), path="jobs/db.fio", room=room)


def only(text: str, room: Room = ROOM) -> Stream:
    (stream,) = measured(text, room).phases[0].workload.streams
    return stream


def refusal(text: str, room: Room = ROOM) -> str:
    with pytest.raises(UsageError) as refused:
        measured(text, room)
    return str(refused.value)


REFUSED = {
    "exec_prerun=touch /tmp/x": "starts a program",
    "exec_postrun=true": "starts a program",
    "read_iolog=/tmp/log": "- replay:",
    "write_iolog=/tmp/log": "where output goes",
    "write_bw_log=x": "where output goes",
    "write_lat_log=x": "where output goes",
    "write_hist_log=x": "where output goes",
    "filename=/dev/sda": "the target of the run",
    "directory=/tmp": "the target of the run",
    "uri=nbd://elsewhere": "the target of the run",
    "include other.fio": "is not supported",
    "ioengine=external:/tmp/evil.so": "not an engine of fio",
    "ioengine=null": "not an engine of fio",
    "ioscheduler=none": "the profile sets the host",
    "buffer_pattern='/etc/passwd'": "may name a file",
    "fixedbufs=1": "compared in a sweep",
    "verify=crc32c": "takes time of the host",
    "latency_target=1ms": "depending on the measurement",
    "bs=": "bs has no value",
    "iodepth": "iodepth has no value",
    "trigger=5": "not on the list",
    "bs=${SIZE}": "variable",
    "bs=`id`": "variable",
    "size=2g": "fills only",
    "size=101%": "more than 100 %",
    "size=100": "not a multiple",
    "offset=1023m": "fills only",
    "bs=1000": "not a multiple",
    "bs=4kib": "not a multiple",
    "bs=huge": "is not a size",
    "bs=65m": "64 MiB",
    "bssplit=4k/60:8k/50:16k": "less than nothing",
    "unlink=1": "the target of the run",
    "nrfiles=2": "the target of the run",
    "max_latency=1ms": "depending on the measurement",
    "sync_file_range=write:8": "not on the list",
    "verify_only": "takes time of the host",
    "offset_align=100": "not a multiple",
    "bssplit=4k/x": "not a whole percentage",
    "rw=trim": "takes no discards",
    "rw=sideways": "not a direction",
    "iodepth=0": "not a whole number",
    "iodepth=many": "not a whole number",
    "numjobs=5000": "not a whole number",
    "rate_iops=fast": "is not a size",
    "bs=64m\nioengine=libaio\niodepth=4096": "4 GiB",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_not_allowed_is_refused_by_name_with_its_line(line: str) -> None:
    lines = "[global]\nrw=randwrite\n" if not line.startswith("rw") else "[global]\niodepth=1\n"
    told = refusal(f"{lines}[a]\nsize=512m\n{line}\n" if "=" in line else f"{lines}[a]\n{line}\n")

    assert told.startswith(("jobs/db.fio:5: ", "jobs/db.fio:4: "))
    assert line.partition("=")[0].split()[0] in told or REFUSED[line].startswith(("fills", "not a"))
    assert REFUSED[line] in told


TRIMS = Room(length_bytes=GIB, block_bytes=512, discards=True)


def test_trims_are_a_direction_of_their_own() -> None:
    text = "[a]\nrw=randrw\nrwmixread=50\n[b]\nrw=randtrim\nbs=4k,8k,64k\nrate_iops=5,6,7\n"
    workload = measured(text, TRIMS).phases[0].workload
    data, trims = workload.streams

    assert (data.trim_percent, trims.trim_percent, workload.trims) == (0, 100, True)
    assert (trims.block_sizes, trims.offered_iops, trims.written_bytes_per_s) == ((65536,), 7, 0)
    assert "64 KiB random, trims, 1 in flight, 7 IOPS offered" in trims.label()
    # What is planned on is what moves data: neither sizes, shares nor the pace of trims count.
    assert (workload.block_sizes, workload.read_percent, workload.paced) == ((4096,), 50, False)
    assert not workload.keeps_queue_full


def test_a_trim_before_each_write_comes_at_the_rate_of_the_writes() -> None:
    stream = only("[a]\nrw=randtrimwrite\nbs=16k\nrate_iops=3,50\n", TRIMS)

    assert (stream.trim_percent, stream.read_percent, stream.offered_iops) == (50, 0, 100)
    assert stream.written_bytes_per_s == 50 * 16384


@pytest.mark.parametrize(
    ("jobs", "parts"),
    [
        ("[a]\nrw=write\nrate=3k\nnumjobs=2\n[b]\nrw=randrw\nrate=1k\n", [375, 250]),
        ("[a]\nrw=write\nnumjobs=3\n[b]\nrw=write\nrate=1k\n", [250, 250]),
        ("[a]\nrw=write\n[b]\nrw=read\n[c]\nrw=trim\n", [1000, None, None]),
    ],
)
def test_what_may_still_be_written_is_shared_among_those_that_write(
    jobs: str, parts: list[int | None]
) -> None:
    workload = measured(jobs, TRIMS).phases[0].workload
    text = jobfile([Job("j", workload, seed=1, total_bytes=1000)], options={})

    found = [re.search(r"^io_size=(\d+)$", section, re.M) for section in text.split("\n[")[1:]]
    assert [None if one is None else int(one[1]) for one in found] == parts


def test_a_warm_up_leaves_trims_out() -> None:
    text = "[a]\nrw=trimwrite\nrate_iops=9\n[b]\nrw=trim\n"
    warm = uncapped(measured(text, TRIMS).phases[0].workload)

    assert [dict(stream.options)["rw"] for stream in warm.streams] == ["write"]
    assert not (warm.trims or warm.paced) and warm.writes and warm.iodepth == 1


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ("[a]\nrw=randtrim\n", "2: jobs that trim need another job that writes at the same time"),
        (
            "[a]\nrw=write\n[b]\nstonewall\nrw=trim\n[c]\nrw=read\n",
            "5: jobs that trim need another job",
        ),
        ("[a]\nrw=trimwrite\nbs=4k,8k,4k\n", "3: rw=trimwrite needs one block size"),
        ("[a]\nrw=trimwrite\nfsync=1\n", "3: rw=trimwrite cannot flush"),
        ("[a]\nrw=write\n[b]\nrw=randtrim\nbs=1000\n", "5: a block of 1000 bytes"),
        ("[a]\nrw=randreadwrite\n", "2: rw=randreadwrite is not a direction"),
    ],
)
def test_trims_that_cannot_be_measured_are_refused(jobs: str, told: str) -> None:
    assert f"jobs/db.fio:{told}" in refusal(jobs, TRIMS)


def test_a_file_without_a_job_is_none() -> None:
    assert "has no job" in refusal("[global]\nbs=4k\n")


def test_options_are_those_of_the_section_over_the_globals_before_it() -> None:
    text = "[global]\nbs=4k\nrw=randrw\nrwmixread=70\n[a]\n[b]\nbs=8k,16k\n[global]\niodepth=4\n"
    a, b, c = measured(text + "ioengine=libaio\n[c]\n").phases[0].workload.streams

    assert (a.block_sizes, a.read_percent, a.iodepth) == ((4096,), 70, 1)
    assert b.block_sizes == (8192, 16384)
    assert b.mean_bytes == pytest.approx(10649.6)
    assert (c.block_sizes, c.iodepth) == ((4096,), 4)
    assert dict(b.options)["bs"] == "8192,16384"


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("[global]\nrw=randrw\nrwmixread=70\nrwmixwrite=30\n[a]\nrwmixread=50\n", 50),
        ("[a]\nrw=randrw\nrwmixread=75\nrwmixwrite=40\n", 60),
        ("[a]\nrw=randrw\nrwmixwrite=40\nrwmixread=75\n", 75),
    ],
)
def test_the_last_of_both_shares_is_the_only_one_that_fio_is_given(text: str, percent: int) -> None:
    stream = only(text)
    (name,) = {"rwmixread", "rwmixwrite"} & dict(stream.options).keys()

    assert stream.read_percent == percent
    assert int(dict(stream.options)[name]) == (percent if name == "rwmixread" else 100 - percent)


def test_rates_of_reads_and_writes_decide_on_the_mix_and_the_warm_up_takes_the_jobs_own() -> None:
    found = measured("[a]\nrw=randrw\nrwmixread=70\nrate_iops=300,100\nbs=4k,64k\n")
    workload = found.phases[0].workload
    (stream,) = workload.streams

    assert (stream.read_percent, stream.offered_iops, stream.mean_bytes) == (75, 400, 19 * 1024)
    assert stream.written_bytes_per_s == pytest.approx(100 * 65536)
    assert any("75 % reads" in change and "(70 %)" in change for change in found.changes)
    assert uncapped(workload).streams[0].read_percent == 70


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ("rate_iops=600\nbssplit=8k/50:64k/50", 600.42), ("rate_iops=600\nbsrange=8k-64k", 600.42),
        ("rate=4800k\nbssplit=8k/50:64k/50", 600.42), ("rate=19200k\nbs=32k", 600.42),
    ],
)  # fmt: skip
def test_arrivals_at_random_are_as_many_as_smallest_blocks_fit_into_the_rate(
    options: str, offered: float
) -> None:
    stream = only(f"[a]\nrw=randwrite\nrate_process=poisson\n{options}\n")

    assert stream.poisson
    assert stream.offered_iops == pytest.approx(offered, abs=0.01)


def test_a_phase_of_rated_jobs_reads_as_much_of_it_as_their_rates_say() -> None:
    jobs = "[a]\nrw=randread\nrate_iops=200\n[b]\nrw=randwrite\nrate_iops=50\n"

    assert measured(jobs).phases[0].workload.read_percent == 80
    assert uncapped(measured(jobs).phases[0].workload).read_percent == 50


def test_pauses_that_leave_less_than_the_rate_set_the_pace() -> None:
    found = measured("[a]\nrw=randread\nrate_iops=600\nthinktime=10ms\n")
    (stream,) = found.phases[0].workload.streams

    assert (stream.paced, stream.offered_iops) == (True, None)
    assert any("pauses allow at most 100" in change for change in found.changes)
    assert only("[a]\nrw=randread\nrate_iops=60\nthinktime=10ms\n").offered_iops == 60


OFF = [
    "verify=0",
    "verify=none",
    "do_verify=1",
    "do_verify=0",
    "verify_only=0",
    "experimental_verify=0",
    "verify_async=0",
    "verify_backlog=0",
    "verify_fatal=0",
    "verify_dump=0",
    "verify_state_save=1",
    "unlink=0",
    "unlink_each_loop=0",
    "nrfiles=1",
    "openfiles=1",
    "file_service_type=roundrobin",
    "unique_filename=1",
    "overwrite=0",
    "file_append=0",
    "pre_read=0",
    "create_only=0",
    "create_on_open=0",
    "create_serialize=1",
    "create_fsync=1",
    "fallocate=none",
    "fadvise_hint=1",
    "lockfile=none",
    "allow_file_create=1",
    "allow_mounted_write=0",
    "end_fsync=0",
    "fsync_on_close=0",
    "atomic=0",
    "fill_device=0",
    "fill_fs=0",
    "continue_on_error=none",
    "exitall_on_error=0",
    "rate_min=0",
    "rate_iops_min=0k",
    "latency_target=0us",
    "max_latency=0",
    "disable_lat=0",
    "disable_clat=0",
    "disable_slat=0",
    "disable_bw=0",
    "gtod_reduce=0",
    "bs_unaligned=0",
    "bs_is_seq_rand=0",
    "zonemode=none",
    "zonesize=0",
    "zoneskip=0",
    "hipri=0",
    "fixedbufs=0",
    "registerfiles=0",
    "sqthread_poll=0",
    "nonvectored=0",
    "nowait=0",
    "force_async=0",
    "trim_percentage=0",
    "io_submit_mode=inline",
    "mem=malloc",
    "iomem=malloc",
    "nice=0",
    "flow=0",
    "per_job_logs=1",
    "unified_rw_reporting=none",
    "kb_base=1024",
]


@pytest.mark.parametrize("given", OFF)
def test_an_option_that_is_off_is_left_out_and_told(given: str) -> None:
    found = measured(f"[a]\nrw=write\n{given}\n")

    assert found.changes == (f"jobs/db.fio:3: {given} is left out: at this value it does nothing",)
    without = measured("[a]\nrw=write\n")
    assert [p.workload for p in found.phases] == [p.workload for p in without.phases]


def test_a_priority_of_zero_is_none_on_a_simulated_drive() -> None:
    room = Room(GIB, 512, simulated=True)
    found = measured("[global]\nprio=3\n[a]\nprio=0\ncmdprio_percentage=0\n", room)

    assert (
        not {"prio", "cmdprio_percentage"}
        & dict(found.phases[0].workload.streams[0].options).keys()
    )
    assert "cannot be served" in refusal("[a]\nprio=3\n", room)


@pytest.mark.parametrize(
    ("split", "mean_bytes", "told"),
    [
        ("4k/50:8k/40", 0.6 * 4096 + 0.4 * 8192, "add up to 90 %"),
        ("4k/60:8k/60", 0.6 * 4096 + 0.4 * 8192, "add up to 120 %"),
        ("4k/90:8k/90:16k/90", 0.9 * 4096 + 0.1 * 8192, "add up to 270 %"),
        ("20k-28k/50:4k/50", (20480 + 4096) / 2, "of 20k-28k fio sends 20k only"),
    ],
)
def test_a_split_that_fio_reads_otherwise_is_taken_as_fio_takes_it_and_told(
    split: str, mean_bytes: float, told: str
) -> None:
    text = f"[a]\nrw=randread\nnorandommap\nbssplit={split}\n"

    assert only(text).mean_bytes == pytest.approx(mean_bytes)
    assert any(told in change for change in measured(text).changes)


def test_trims_may_be_larger_than_reads_and_writes() -> None:
    room = Room(8 * GIB, 512, discards=True)
    text = "[w]\nrw=write\n[t]\nrw=trim\nbs=2g\niodepth=8\nioengine=libaio\n"

    assert measured(text, room).phases[0].workload.streams[1].block_sizes == (2 * GIB,)
    assert "writes may have at most 64 MiB" in refusal("[w]\nrw=write\nbs=2g\n", room)
    simulated = Room(8 * GIB, 512, discards=True, simulated=True)
    assert measured(text, simulated).phases[0].workload.streams[1].block_sizes == (2 * GIB,)


def test_a_share_as_offset_is_rounded_up_to_offset_align() -> None:
    text = "[a]\nbs=4k\noffset=33%\noffset_align=1m\nsize=10%\n"

    assert dict(only(text).options)["offset"] == str(338 << 20)


def test_a_stonewall_begins_a_phase_and_new_group_a_group() -> None:
    text = "[a]\n[b]\nnew_group\n[c]\nstonewall\nrw=write\n[d]\n[e]\nstonewall=0\n"
    phases = [phase.workload for phase in measured(text).phases]

    assert [[(s.name, s.group) for s in phase.streams] for phase in phases] == [
        [("a", 0), ("b", 1)],
        [("c", 0), ("d", 0), ("e", 0)],
    ]
    assert [phase.title for phase in phases] == ["db.fio 1", "db.fio 2"]
    assert [phase.writes for phase in phases] == [False, True]


def test_a_synchronous_engine_has_one_request_in_flight_each() -> None:
    stream = only("[a]\niodepth=32\nnumjobs=3\n")  # without an engine fio takes psync

    assert (stream.iodepth, stream.in_flight) == (1, 3)
    assert any(
        "iodepth=32 is replaced by 1" in change for change in measured("[a]\niodepth=32").changes
    )


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("4k", 4096), ("4K", 4096), ("4kb", 4096), ("4ki", 4096), ("4KiB", 4000), ("1m", MIB),
     ("0x1000", 4096), ("512", 512), ("512b", 512), ("1.5g", None), ("-4k", None), ("", None)],
)  # fmt: skip
def test_sizes_are_read_with_the_units_of_fio(text: str, size_bytes: int | None) -> None:
    assert fio_bytes(text) == size_bytes


def test_the_place_is_that_of_all_jobs_in_what_the_run_fills() -> None:
    stream = only("[a]\noffset=25%\nsize=1m\noffset_increment=2m\nnumjobs=3\n")

    assert stream.range.offset_bytes == GIB // 4
    assert stream.range.length_bytes == 5 * MIB
    assert "fills only" in refusal("[a]\nsize=600m\noffset_increment=300m\nnumjobs=3\n")
    assert "without a size" in refusal("[a]\noffset_increment=1m\nnumjobs=2\n")


@pytest.mark.parametrize(
    ("options", "offered"),
    [("rw=randwrite\nrate_iops=500\nnumjobs=2", 1000), ("rw=write\nrate=4m\nbs=8k", 512),
     ("rw=randrw\nrate_iops=100,50", 150), ("rw=randread\nrate_iops=0", None),
     ("rw=randwrite\nrate_iops=,200", 200)],
)  # fmt: skip
def test_a_rate_is_what_all_its_jobs_ask_for(options: str, offered: float | None) -> None:
    workload = measured(f"[a]\n{options}\n").phases[0].workload

    assert workload.streams[0].offered_iops == offered
    assert workload.paced == (offered is not None)
    free = uncapped(workload)
    assert not free.paced
    assert not any(name.startswith("rate") for name, _ in free.streams[0].options)


def test_how_long_it_runs_and_which_offsets_it_takes_is_not_for_the_job_to_say() -> None:
    found = measured("[a]\nruntime=10\ntime_based\nloops=3\nrandseed=7\nramp_time=5\n")

    assert (
        not {"runtime", "time_based", "loops", "randseed", "ramp_time"}
        & dict(found.phases[0].workload.streams[0].options).keys()
    )
    assert [change.split(" is ")[0] for change in found.changes][:2] == [
        "jobs/db.fio:2: runtime=10",
        "jobs/db.fio:3: time_based",
    ]


def test_what_is_written_is_incompressible_unless_the_job_or_the_profile_says_otherwise() -> None:
    assert dict(only("[a]\nrw=write").options)["refill_buffers"] == "1"
    zeros = measured("[a]\nrw=write\nzero_buffers").phases[0].workload
    assert zeros.content is Content.ZEROS
    asked = Room(GIB, 512, content=Content.ZEROS)
    assert dict(only("[a]\nrw=write", asked).options)["zero_buffers"] == "1"


def test_priorities_are_for_drives_that_know_them() -> None:
    assert "no priorities" in refusal("[a]\nprio=3", Room(GIB, 512, simulated=True))
    assert dict(only("[a]\nprio=3").options)["prio"] == "3"


def test_a_phase_sums_up_its_jobs() -> None:
    workload = (
        measured(
            "[global]\nioengine=libaio\n[a]\nrw=randread\niodepth=3\nbs=8k\nsize=25%\n"
            "[a]\nrw=write\nsize=25%\noffset=50%\n"
        )
        .phases[0]
        .workload
    )

    assert (workload.pattern, workload.block_bytes, workload.read_percent) == (
        Pattern.RANDOM, 4096, 75,
    )  # fmt: skip
    assert (workload.iodepth, workload.numjobs) == (4, 1)
    assert (workload.range.offset_bytes, workload.range.length_bytes) == (0, GIB // 4 * 3)
    assert workload.label() == "db.fio: a + a (2), 4 in flight"


def test_no_text_gets_past_the_list() -> None:
    """Whatever lines come together: what is handed to fio is on the list, or nothing is."""
    chance = random.Random(20)
    words = ["[a]", "[global]", "[b]", "stonewall", "new_group=1", "rw=randrw", "bs=4k", "size=9%",
             "exec_prerun=id", " filename = /dev/sda", "ioengine=libaio", "numjobs=2", "bs=,,",
             "bssplit=4k/:8k/", "rate=1m,", "\x00", "[", "]", "=", "a=b=c", "offset=99%", "\ufeff",
             "write_bw_log", "thinktime=1s", "EXEC_PRERUN=id", "; x", "[a", "bsrange=1-",
             "size="]  # fmt: skip
    known = {"rw", "bs", "bssplit", "bsrange", "iodepth", "numjobs", "offset", "size", "rate",
             "thinktime", "refill_buffers"}  # fmt: skip
    read = 0
    for _ in range(3000):
        text = "\n".join(chance.choices(words, k=chance.randint(1, 6)))
        try:
            found = measured(text)
        except UsageError:
            continue
        read += 1
        for phase in found.phases:
            for stream in phase.workload.streams:
                assert dict(stream.options).keys() <= known
                assert stream.range.offset_bytes + stream.range.length_bytes <= GIB
                assert not any("\n" in value for _, value in stream.options)
    assert read > 50
