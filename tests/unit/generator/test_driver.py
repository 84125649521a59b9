"""The driver against a fake fio: what it leaves behind, and what it makes of trouble."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssdbench.errors import CommandFailed, DeviceError, DeviceLost, HostLacks, UsageError
from ssdbench.generator.base import Generator, Job, Outcome
from ssdbench.generator.fio.driver import Fio
from ssdbench.generator.fio.jobfile import Options
from ssdbench.generator.fio.sampling import KernelFeed, Reading
from ssdbench.host.command import Process
from tests.support.fakefio import FakeFio, a_job, a_report
from tests.unit.generator import jobs

JOBS = [jobs.a_job("job", runtime_s=1.0)]


class WorkMeter:
    """What the fake has written, by its file: the kernel counts no writes to memory."""

    def __init__(self, work: Path) -> None:
        self._work = work

    def read(self) -> Reading:
        """The sums now."""
        written = self._work.stat().st_size if self._work.exists() else 0
        return Reading(write_ios=written // 65536, write_bytes=written)

    def close(self) -> None:
        """Nothing is held."""


class FakeAttachment:
    """A target that is only there for a fake fio; fails its checks when told to."""

    name = "/dev/fake"
    engine = "libaio"
    exact = True

    def __init__(self, *, stall_s: float = 60.0) -> None:
        self.checks = 0
        self.lost_at = 0
        self.stall_s = stall_s

    def options(self) -> Options:
        return {"ioengine": "libaio", "filename": "/dev/fake"}

    def environment(self, directory: Path) -> dict[str, str]:
        self.work = directory / "work"
        return {"FAKE": str(directory)}

    def pass_fds(self) -> tuple[int, ...]:
        return ()

    def require(self, jobs: Sequence[Job]) -> None:
        if any(job.name == "too-large" for job in jobs):
            raise UsageError("too large")

    def check(self) -> None:
        self.checks += 1
        if self.checks == self.lost_at:
            raise DeviceLost("/dev/fake has another size now")

    def watch(self, process: Process, jobs: Sequence[Job]) -> KernelFeed:
        return KernelFeed(process, WorkMeter(self.work), stall_s=self.stall_s)


def test_everything_that_was_run_is_kept(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job(write_ios=10)), stderr="a note\n")
    directory = tmp_path / "start"

    with Fio(FakeAttachment()).start(JOBS, artifacts=directory) as running:
        list(running)
    outcome = running.outcome()

    kept = {path.name: path for path in outcome.artifacts}
    assert outcome.jobs[0].write.ios == 10
    assert kept["status"].read_text() == "0\n"
    assert kept["stderr"].read_text() == "a note\n"
    assert "filename=/dev/fake" in kept["job.fio"].read_text()
    assert kept["command"].read_text().startswith("env FAKE=")
    assert kept["versions"].read_text().startswith("fio 3.33\nkernel ")
    assert "--output-format=json+" in json.loads(kept["argv.json"].read_text())


def test_the_driver_is_a_generator_named_by_its_version(fake_fio: FakeFio) -> None:
    generator: Generator = Fio(FakeAttachment())
    fake_fio.will(version="fio-3.42-7-gabc")

    assert generator.name == "fio 3.42"


def test_an_old_fio_is_refused_with_what_to_do(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(version="fio-3.32")

    with pytest.raises(HostLacks, match=r"fio 3\.32 is too old") as failure:
        Fio(FakeAttachment()).start(JOBS, artifacts=tmp_path / "start")

    assert "apt-get install fio" in failure.value.hint
    assert not (tmp_path / "start").exists()


def test_a_missing_fio_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(HostLacks, match="fio is not installed"):
        Fio(FakeAttachment()).start(JOBS, artifacts=tmp_path / "start")


def test_a_fio_without_the_engine_is_refused(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(engines=["sync"])

    with pytest.raises(HostLacks, match="built without its libaio engine"):
        Fio(FakeAttachment()).start(JOBS, artifacts=tmp_path / "start")


def test_a_target_that_changed_before_the_start_starts_nothing(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    attachment = FakeAttachment()
    attachment.lost_at = 1

    with pytest.raises(DeviceLost):
        Fio(attachment).start(JOBS, artifacts=tmp_path / "start")

    assert not (tmp_path / "start/argv.json").exists()


def test_a_target_that_changed_its_size_during_the_run_is_lost(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    fake_fio.will(report=a_report(a_job(write_ios=10)))
    attachment = FakeAttachment()
    attachment.lost_at = 2

    with Fio(attachment).start(JOBS, artifacts=tmp_path / "start") as running:
        list(running)

    with pytest.raises(DeviceLost, match="another size"):
        running.outcome()


def test_a_job_that_the_target_cannot_serve_leaves_no_trace(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="too large"):
        Fio(FakeAttachment()).start([jobs.a_job("too-large")], artifacts=tmp_path / "start")

    assert not (tmp_path / "start").exists()


def test_a_stop_ends_fio_and_what_it_did_counts(fake_fio: FakeFio, tmp_path: Path) -> None:
    text = "\nfio: terminating on signal 2\n" + a_report(a_job(write_ios=10))
    fake_fio.will(runs_s=60, report=text)

    with Fio(FakeAttachment()).start([jobs.a_job("job")], artifacts=tmp_path / "start") as running:
        for second in running:
            assert second.write_bytes > 0
            running.stop()

    assert running.outcome().jobs[0].write.ios == 10
    assert (tmp_path / "start/status").read_text() == "128\n"


def test_a_fio_that_hangs_is_killed_and_the_drive_blamed(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(runs_s=3600, works=False)  # longer than a test may take

    with Fio(FakeAttachment(stall_s=0.5)).start(JOBS, artifacts=tmp_path / "start") as running:
        list(running)

    with pytest.raises(DeviceError, match="no I/O finished"):
        running.outcome()


@pytest.mark.parametrize(
    ("report", "status", "message"),
    [
        (a_report(a_job(write_ios=10))[:200], 0, "cannot be read"),
        ("", 0, "wrote no report"),
        (a_report(a_job(write_ios=10)), 1, "status 1"),
    ],
    ids=["cut", "empty", "wrong-status"],
)
def test_a_report_is_not_believed_alone(
    fake_fio: FakeFio, tmp_path: Path, report: str, status: int, message: str
) -> None:
    fake_fio.will(report=report, status=status)

    with Fio(FakeAttachment()).start(JOBS, artifacts=tmp_path / "start") as running:
        list(running)

    with pytest.raises(CommandFailed, match=message):
        running.outcome()


def test_no_fio_outlives_an_error_of_the_judge(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(runs_s=60)
    fio = Fio(FakeAttachment()).start(JOBS, artifacts=tmp_path / "start")

    with pytest.raises(ZeroDivisionError), fio as running:
        next(iter(running))
        raise ZeroDivisionError

    work = tmp_path / "start/work"
    size = work.stat().st_size
    time.sleep(0.1)
    assert work.stat().st_size == size


def test_asking_for_logs_that_were_not_kept_is_an_error(fake_fio: FakeFio, tmp_path: Path) -> None:
    fake_fio.will(report=a_report(a_job(write_ios=10)))
    with Fio(FakeAttachment()).start(JOBS, artifacts=tmp_path / "start") as running:
        list(running)
    outcome = running.outcome()

    with pytest.raises(ValueError, match="no job of this run of fio kept a histogram log"):
        outcome.latency("read", from_s=0, to_s=1)
    with pytest.raises(ValueError, match="no job named job kept a log"):
        outcome.logged("job")


def test_a_report_of_an_earlier_start_is_not_taken_for_this_ones(
    fake_fio: FakeFio, tmp_path: Path
) -> None:
    def outcome(report: str) -> Outcome:
        fake_fio.will(report=report)
        with Fio(FakeAttachment()).start(JOBS, artifacts=tmp_path / "start") as running:
            list(running)
        return running.outcome()

    assert outcome(a_report(a_job(write_ios=10))).jobs[0].write.ios == 10
    with pytest.raises(CommandFailed, match="wrote no report"):
        outcome("")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_logs_of_an_earlier_start_are_removed(
    fake_fio: FakeFio, tmp_path: Path, suffix: str
) -> None:
    stale = tmp_path / f"start/00-job_clat_hist.7.log{suffix}"
    stale.parent.mkdir()
    stale.write_text("1, 0, 4096, 5\n")
    fake_fio.will(report=a_report(a_job(write_ios=10)))

    with Fio(FakeAttachment()).start(JOBS, artifacts=stale.parent) as running:
        list(running)

    assert not stale.exists()
