"""When a run of fio is believed: every sign of trouble speaks alone."""

import errno
import os
from dataclasses import replace
from typing import Any

import pytest

from ssdbench.errors import CommandFailed, DeviceError, DeviceLost, HostLacks
from ssdbench.generator.fio.output import Ending, checked_report
from tests.support.fakefio import a_job as reported
from tests.support.fakefio import a_report
from tests.unit.generator.jobs import a_job
from tests.unit.generator.test_output import recorded

JOBS = [a_job("job", runtime_s=10)]
EIO = "fio: io_u error on file /dev/x: Input/output error: write offset=8192, buflen=4096\n"


def an_ending(**changes: Any) -> Ending:
    good = Ending(
        argv=("fio", "job.fio"),
        status=0,
        output=a_report(reported(write_ios=1000)),
        stderr="",
        stopped=False,
        target="/dev/x",
    )
    return replace(good, **changes)


def test_a_run_without_a_sign_of_trouble_is_believed() -> None:
    assert checked_report(an_ending(), JOBS)[0].write.ios == 1000


def test_an_error_in_the_report_counts_though_the_status_is_0() -> None:
    output = a_report(reported(write_ios=1000, error=errno.EIO))

    with pytest.raises(DeviceError, match=r"EIO \(Input/output error\)"):
        checked_report(an_ending(output=output), JOBS)


def test_a_status_counts_though_the_report_names_no_error() -> None:
    """A missing device: allow_file_create=0 gives status 1 and error 0."""
    ending = an_ending(status=1, stderr=recorded("absent.stderr"), output=recorded("absent.json"))

    with pytest.raises(CommandFailed, match="file creation disallowed"):
        checked_report(ending, JOBS)


def test_an_io_error_names_direction_byte_and_errno() -> None:
    ending = an_ending(status=1, stderr=recorded("shrunk.stderr"), output=recorded("shrunk.json"))

    with pytest.raises(DeviceError, match="a read at byte 8388608 failed with EIO"):
        checked_report(ending, JOBS)


def test_a_read_only_device_is_an_error_of_the_device() -> None:
    ending = an_ending(
        status=1, stderr=recorded("readonly.stderr"), output=recorded("readonly.json")
    )

    with pytest.raises(DeviceError, match="a write at byte 0 failed with EPERM"):
        checked_report(ending, JOBS)


def test_a_device_that_is_gone_is_lost() -> None:
    output = a_report(reported(write_ios=1000, error=errno.ENODEV))

    with pytest.raises(DeviceLost, match="is gone"):
        checked_report(an_ending(output=output, status=1), JOBS)


def test_want_of_asynchronous_contexts_is_the_hosts_fault() -> None:
    output = a_report(reported(error=errno.EAGAIN))

    with pytest.raises(HostLacks, match="EAGAIN") as failure:
        checked_report(an_ending(output=output, status=1), JOBS)

    assert "fs.aio-max-nr" in failure.value.hint


@pytest.mark.parametrize(
    "job",
    [reported(write_ios=1000, short_ios=1), reported()],
    ids=["a-read-of-0-bytes", "no-io-at-all"],
)
def test_ios_that_moved_nothing_mean_a_lost_device(job: dict[str, Any]) -> None:
    with pytest.raises(DeviceLost):
        checked_report(an_ending(output=a_report(job)), JOBS)


def test_a_fill_that_ended_early_is_not_a_fill() -> None:
    jobs = [a_job("fill", total_bytes=4096 * 1001)]

    with pytest.raises(DeviceLost, match="after 4096000 of 4100096 bytes"):
        checked_report(an_ending(), jobs)


def test_a_timed_job_that_ended_early_is_not_a_measurement() -> None:
    with pytest.raises(DeviceLost, match=r"after 10\.0 of 60 s"):
        checked_report(an_ending(), [a_job("job", runtime_s=60)])


def test_128_is_believed_only_when_we_asked_for_the_end() -> None:
    output = recorded("stopped.json")

    assert checked_report(an_ending(status=128, stopped=True, output=output), JOBS)
    with pytest.raises(CommandFailed, match="status 128"):
        checked_report(an_ending(status=128, output=output), JOBS)


def test_our_stop_does_not_hide_an_error() -> None:
    output = a_report(reported(write_ios=10, error=errno.EIO))

    with pytest.raises(DeviceError, match="a write at byte 8192 failed with EIO"):
        checked_report(an_ending(status=128, stopped=True, output=output, stderr=EIO), JOBS)


def test_a_cut_report_is_no_report_even_with_status_0() -> None:
    with pytest.raises(CommandFailed, match="cannot be read"):
        checked_report(an_ending(output=a_report(reported(write_ios=5))[:-40]), JOBS)


def test_a_crash_names_its_signal() -> None:
    with pytest.raises(CommandFailed, match="killed by signal 11"):
        checked_report(an_ending(status=-11, output=""), JOBS)


def test_a_hung_drive_is_the_drives_error() -> None:
    with pytest.raises(DeviceError, match="no I/O finished for 120 s"):
        checked_report(an_ending(status=-9, output="", hung_s=120.4), JOBS)


def test_what_the_simulated_drive_says_is_not_taken_for_a_lost_device() -> None:
    ending = an_ending(
        status=97,
        output="",
        stderr="ssdbench: /run/clock: No such file or directory\nfio: failed\n",
    )

    with pytest.raises(HostLacks, match="/run/clock: No such file") as raised:
        checked_report(ending, JOBS)

    assert "ssdbench resume" in raised.value.hint


def test_a_full_disk_under_a_simulated_drive_is_the_hosts_and_says_what_to_free() -> None:
    said = "/run/state.ssdb has lost a page: its disk is full or fails, or the file was cut off"
    ending = an_ending(status=99, output="", stderr=f"ssdbench: {said}\n")

    with pytest.raises(HostLacks, match="has lost a page") as raised:
        checked_report(ending, JOBS)

    assert "free some space on the disk of that file" in raised.value.hint


def test_a_cut_report_of_a_fio_that_we_ended_is_named_as_such() -> None:
    ending = an_ending(output=a_report()[:-4], status=128, stopped=True)

    with pytest.raises(CommandFailed, match="report cannot be read"):
        checked_report(ending, JOBS)


@pytest.mark.parametrize("said", [errno.EOVERFLOW, errno.ETOOMANYREFS])
def test_more_zones_than_a_drive_allows_are_no_fault_of_the_drive(said: int) -> None:
    text = f"fio: io_u error on file /dev/x: {os.strerror(said)}: write offset=0, buflen=4096\n"
    output = a_report(reported(write_ios=10, error=said))

    with pytest.raises(DeviceError, match="a write at byte 0 failed with E") as caught:
        checked_report(an_ending(status=1, output=output, stderr=text), JOBS)

    assert "blkzone reset /dev/x" in caught.value.hint
