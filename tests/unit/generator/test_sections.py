"""Sections of fio's own options: believed like every other start, and with the claim in hand."""

import json
import os
from pathlib import Path

import pytest

from ssdbench.errors import CommandFailed, DeviceError, DeviceLost
from ssdbench.generator.fio.attachment import DirectoryAttachment
from ssdbench.generator.fio.driver import Sections, run_fio_sections
from ssdbench.generator.fio.jobfile import Options
from ssdbench.host.command import Process
from tests.support.fakefio import FakeFio, a_job, a_report

TWO = Sections(({"rw": "read"}, {"rw": "randwrite"}), 60.0, {"bs": 4096}, runtime_s=10.0)


class Claimed:
    """A claimed target that is only there for a fake fio."""

    name = "/dev/fake"
    engine = "libaio"

    def __init__(self, claim: int | None = None) -> None:
        self.checks = 0
        self.lost_at = 0
        self._claim = claim

    def options(self) -> Options:
        return {"ioengine": "libaio", "filename": "/dev/fake", "bs": 512}

    def environment(self, directory: Path) -> dict[str, str]:
        return {}

    def pass_fds(self) -> tuple[int, ...]:
        return () if self._claim is None else (self._claim,)

    def check(self) -> None:
        self.checks += 1
        if self.checks == self.lost_at:
            raise DeviceLost("/dev/fake has another size now")


def test_sections_are_reported_as_one_and_all_of_the_start_is_kept(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    fake_fio.will(report=a_report(a_job(read_ios=7, write_ios=10)))
    way = Claimed()

    found = run_fio_sections(
        way, TWO, artifacts=tmp_path / "fio", placed={"numa_mem_policy": "local"}
    )

    assert (found.read.ios, found.write.ios) == (7, 10)
    assert way.checks == 2  # before and after
    shared, first, second = (tmp_path / "fio/job.fio").read_text().split("[part")
    assert "bs=4096\n" in shared  # overrides the target's
    assert "numa_mem_policy=local\n" in shared
    assert "allow_file_create=0\n" in shared
    assert (first, second) == ("0]\nrw=read\n\n", "1]\nrw=randwrite\n")
    kept = {path.name for path in (tmp_path / "fio").iterdir()}
    assert {"command", "stdout", "stderr", "status", "versions", "fio.json"} <= kept


def test_a_claim_is_open_in_fio_so_that_it_lasts_as_long_as_fio_writes(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    fake_fio.will(report=a_report(a_job(read_ios=7)))
    held = tmp_path / "claimed"
    held.touch()
    claim = os.open(held, os.O_RDONLY)

    run_fio_sections(Claimed(claim), TWO, artifacts=tmp_path / "fio", placed={})
    os.close(claim)

    assert str(held) in json.loads((tmp_path / "fio/held.json").read_text())


def test_no_request_at_all_is_an_error_and_no_rate_of_zero(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    fake_fio.will(report=a_report(a_job()))

    with pytest.raises(DeviceLost, match="did no I/O in"):
        run_fio_sections(Claimed(), TWO, artifacts=tmp_path / "fio", placed={})


def test_short_requests_are_an_error(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job(read_ios=10, short_ios=5)))

    with pytest.raises(DeviceLost, match="moved fewer bytes than asked"):
        run_fio_sections(Claimed(), TWO, artifacts=tmp_path / "fio", placed={})


def test_an_end_before_its_time_is_an_error(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job(read_ios=10)))  # in 10 s
    longer = Sections(TWO.sections, 60.0, runtime_s=30.0)

    with pytest.raises(DeviceLost, match=r"after 10\.0 of 30 s"):
        run_fio_sections(Claimed(), longer, artifacts=tmp_path / "fio", placed={})


def test_files_that_are_not_written_whole_are_an_error(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job(write_ios=10)))
    lay = Sections(({"rw": "write"},), 60.0, total_bytes=1 << 20)

    with pytest.raises(DeviceLost, match="after 40960 of 1048576 bytes"):
        run_fio_sections(Claimed(), lay, artifacts=tmp_path / "fio", placed={})


def test_a_status_speaks_against_a_good_report(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job(read_ios=10)), status=1)

    with pytest.raises(CommandFailed):
        run_fio_sections(Claimed(), TWO, artifacts=tmp_path / "fio", placed={})


def test_a_fio_that_does_not_end_is_killed_with_a_sentence(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    fake_fio.will(runs_s=60.0)
    short = Sections(TWO.sections, 0.5, runtime_s=10.0)

    with pytest.raises(DeviceError, match="had not ended after 0 s and was killed"):
        run_fio_sections(Claimed(), short, artifacts=tmp_path / "fio", placed={})


def test_a_target_that_changed_meanwhile_explains_it(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job()))
    way = Claimed()
    way.lost_at = 2

    with pytest.raises(DeviceLost, match="another size"):
        run_fio_sections(way, TWO, artifacts=tmp_path / "fio", placed={})


def test_who_looks_on_may_end_it(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(runs_s=60.0)
    seen: list[Process] = []

    def look(process: Process) -> None:
        seen.append(process)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        run_fio_sections(Claimed(), TWO, artifacts=tmp_path / "fio", placed={}, meanwhile=look)

    assert seen[0].poll() is not None


def test_in_a_directory_files_are_made_below_what_is_held(tmp_path: Path) -> None:
    place, aside, secret = tmp_path / "on:it", tmp_path / "aside", tmp_path / "secret"
    place.mkdir()
    secret.mkdir()
    with DirectoryAttachment(place) as way:
        assert way.options()["allow_file_create"] == 1
        way.check()
        place.rename(aside)
        place.symlink_to(secret)
        Path(str(way.options()["directory"]), "file").touch()
        with pytest.raises(DeviceLost, match="replaced"):
            way.check()
        place.unlink()
        with pytest.raises(DeviceLost, match="is gone"):
            way.check()

    assert (aside / "file").exists()
    assert not list(secret.iterdir())


def test_a_link_is_no_directory_to_work_in(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    with pytest.raises(DeviceLost, match="link is gone"):
        DirectoryAttachment(tmp_path / "link")
