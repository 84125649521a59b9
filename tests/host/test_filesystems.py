"""File systems on a loop device: made without a discard, measured fresh and aged, gone after."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from ssdbench.engine.journal import Kind, stored_records
from ssdbench.errors import HostLacks
from ssdbench.host.command import run
from ssdbench.host.filesystems import FILE_SYSTEMS
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.finding import Code
from ssdbench.model.found import Comparison, FileSystemComparison
from ssdbench.model.result import RunResult
from ssdbench.stages.files.mount import REACHABLE
from ssdbench.target.inspect import inspect, kernel_name
from ssdbench.tuning.mounting import DirectoryBackend, partition_name
from ssdbench.units import MIB
from tests.support.devices import attached_loop

pytestmark = pytest.mark.host

PROFILE = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
measure:
  - filesystems: {types: ext4, threads: 2, window: 1s, aging: 1}
"""

HOLDER = """
import sys, time
from ssdbench.engine.hostsettings import applied
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting
node, drive, place, directory = sys.argv[1:]
part = Setting(Backend.PARTITION, "1", "2048 40960", "test", drive)
mount = Setting(Backend.MOUNT, directory, f"ext2 {place}", "test")
from ssdbench.host.filesystems import FILE_SYSTEMS
with applied(HostPlan(settings=(part,)), "held-partition"):
    FILE_SYSTEMS["ext2"].make(place)
    with applied(HostPlan(settings=(mount,)), "held-mount"):
        print("mounted", flush=True)
        time.sleep(60)
"""


def discards(name: str) -> str:
    """Discarded sectors of a block device since it appeared."""
    return Path(f"/sys/block/{name}/stat").read_text().split()[13]


def mounts() -> str:
    return Path("/proc/self/mountinfo").read_text()


def test_a_file_system_is_measured_fresh_and_aged_and_nothing_of_it_stays_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    with attached_loop(tmp_path / "disk.img", size_bytes=32 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]

        before = discards(loop.node.name)  # of those who had the loop device before us

        run([*argv, "--output", str(tmp_path / "run")], ok=(0, 1), timeout_s=300)

        after = discards(loop.node.name)
        assert not Path(f"/sys/block/{loop.node.name}/{loop.node.name}p1").exists()
    assert str(loop.node) not in mounts()
    assert after == before  # neither mkfs nor the mount gave a block of the fill back
    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())
    found = result.stages[-1].found
    assert isinstance(found, FileSystemComparison)
    assert {(median.variant, median.direction) for median in found.medians} == {
        (state, way) for state in ("ext4", "ext4, aged") for way in ("read", "write")
    }
    assert all(median.iops > 0 for median in found.medians)


APPLICATIONS = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
measure:
  - applications:
      {programs: [postmark, sysbench, oltp], threads: 1, window: 1s, repeats: 1, files: 100,
       transactions: 500, data: 16MiB}
"""


def test_programs_run_on_a_file_system_with_fio_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(APPLICATIONS)
    with attached_loop(tmp_path / "disk.img", size_bytes=192 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]

        run([*argv, "--output", str(tmp_path / "run")], ok=(0, 1), timeout_s=300)

    assert str(loop.node) not in mounts()
    stage = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes()).stages[-1]
    assert isinstance(stage.found, Comparison)
    medians = stage.found.medians
    assert {median.workload for median in medians} == {
        name + more
        for name in ("postmark", "sysbench", "oltp")
        for more in ("", ", fio's equivalent")
    }
    assert all(median.iops > 0 and median.bw_bytes_per_s > 0 for median in medians)


RESUMED = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 1s}
measure:
  - filesystems: {types: ext4, threads: 2, window: 1s, aging: 1}
  - applications:
      {programs: postmark, threads: 1, window: 1s, repeats: 1, files: 100, transactions: 500,
       data: 8MiB}
"""


def finished(run_path: Path, stage: str) -> list[str]:
    """The units of a stage that the journal calls finished, in order."""
    found = stored_records(run_path / "journal.jsonl")
    return [r.unit for r in found if r.kind is Kind.FINISHED and r.stage == stage and r.unit]


def killed_in(argv: list[str], run_path: Path, stage: str, *, after: int) -> None:
    """Start a process and kill it once so many units of a stage are finished, within the next."""
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 120
        while len(finished(run_path, stage)) < after and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        process.kill()
        process.wait()
    assert len(finished(run_path, stage)) == after


def test_after_a_kill_the_file_system_is_mounted_again_and_nothing_finished_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(RESUMED)
    output = tmp_path / "run"
    with attached_loop(tmp_path / "disk.img", size_bytes=96 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]
        resume = [sys.executable, "-m", "ssdbench", "resume", str(output)]

        killed_in([*argv, "--output", str(output)], output, "04-ext4", after=5)  # aged, measured
        killed_in(resume, output, "06-applications", after=1)
        run(resume, ok=(0, 1), timeout_s=300)

        assert str(loop.node) not in mounts()
    for stage, units in (("04-ext4", 6), ("06-applications", 2)):
        names = finished(output, stage)
        assert len(names) == len(set(names)) == units
    result = RunResult.model_validate_json((output / "result.json").read_bytes())
    assert all(stage.complete for stage in result.stages)
    assert not any(f.code is Code.RESUMED for stage in result.stages for f in stage.findings)


def test_when_the_drive_was_changed_after_a_kill_all_of_it_is_measured_again_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE)
    output = tmp_path / "run"
    with attached_loop(tmp_path / "disk.img", size_bytes=32 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]
        killed_in([*argv, "--output", str(output)], output, "04-ext4", after=2)
        run([sys.executable, "-m", "ssdbench", "restore"], timeout_s=60)
        run(["blkdiscard", "-f", str(loop.node)])

        resume = [sys.executable, "-m", "ssdbench", "resume", str(output)]
        said_why = run(resume, ok=(3,), timeout_s=60).stderr
        run([*resume, "--overwrite-data"], ok=(0, 1), timeout_s=300)

    assert "something else wrote to it since: blocks of the target were discarded" in said_why
    names = finished(output, "04-ext4")
    assert len(set(names)) == 6
    assert sorted(names[:2]) == sorted(name for name in set(names) if names.count(name) == 2)
    stage = RunResult.model_validate_json((output / "result.json").read_bytes()).stages[-1]
    said = [finding.message for finding in stage.findings if finding.code is Code.RESUMED]
    assert len(said) == 1
    assert "2 finished steps no longer count" in said[0]


ON_FILES = """
precondition: [{pattern: sequential, block: 128KiB, fill: 1}]
steady: {rule: seppanen, max_time: 2s}
measure:
  - surface: {type: ext2, files: 4MiB, records: 64KiB, window: 1s, buffered: false}
  - file_writers:
      {type: ext4, processes: [1, 2], delays: 200ms, delayed: 100%, file: 4MiB, window: 1s}
"""


def test_files_of_a_file_system_are_written_once_before_they_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    profile = tmp_path / "profile.yaml"
    profile.write_text(ON_FILES)
    with attached_loop(tmp_path / "disk.img", size_bytes=64 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "run", str(profile)]
        argv += ["--target", str(loop.node), "--destroy", inspect(str(loop.node)).id]

        run([*argv, "--output", str(tmp_path / "run")], ok=(0, 1), timeout_s=300)

        assert str(loop.node) not in mounts()
    result = RunResult.model_validate_json((tmp_path / "run/result.json").read_bytes())
    found = {
        (median.workload, median.variant): median.iops
        for _, compared in result.having(Comparison)
        for median in compared.medians
    }
    assert {variant for workload, variant in found if "4 MiB" in workload} == {"64 KiB"}
    # A writer that pauses 200 ms after each write makes 5 a second; two make 10.
    assert 0 < found["200 ms after 100 %", "1 process"] < 6
    assert 0 < found["200 ms after 100 %", "2 processes"] < 11
    laid = sorted((tmp_path / "run/stages").glob("*/lay-*/fio/fio.json"))
    assert len(laid) == 2


def test_a_program_that_is_not_installed_is_a_sentence_with_its_package(tmp_path: Path) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(APPLICATIONS)
    here = tmp_path / "bin"
    here.mkdir()
    for place in ("/usr/sbin", "/usr/bin"):
        for program in Path(place).iterdir():
            if program.name != "postmark" and not (here / program.name).exists():
                (here / program.name).symlink_to(program)
    with attached_loop(tmp_path / "disk.img", size_bytes=96 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "plan", str(profile)]

        said = run([*argv, "--target", str(loop.node)], ok=(4,), env={"PATH": str(here)}).stderr

    assert "postmark is not installed (package postmark)" in said
    assert "Traceback" not in said


@contextmanager
def removed(directory: Path) -> Iterator[Path]:
    """A directory that is empty again at the end."""
    directory.mkdir(parents=True)
    try:
        yield directory
    finally:
        directory.rmdir()


SOCKET_HOLDER = """
import socket, sys, time
from ssdbench.engine.hostsettings import applied
from ssdbench.tuning.mounting import PRESENT
from ssdbench.tuning.plan import HostPlan
from ssdbench.tuning.setting import Backend, Setting

made = Setting(Backend.DIRECTORY, sys.argv[1], PRESENT, "a server's socket")
with applied(HostPlan(settings=(made,)), "held"):
    socket.socket(socket.AF_UNIX).bind(sys.argv[1] + "/.s.PGSQL.5432")
    print("there", flush=True)
    time.sleep(60)
"""


def test_after_a_kill_restore_unmounts_and_forgets_the_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    with (
        removed(REACHABLE / f"test-{os.getpid()}") as directory,
        attached_loop(tmp_path / "disk.img", size_bytes=32 * MIB) as loop,
    ):
        target = inspect(str(loop.node))
        name = partition_name(kernel_name(target), "1")
        argv = [sys.executable, "-c", HOLDER]
        argv += [target.node, target.id, f"/dev/{name}", str(directory)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"mounted\n"
            assert str(directory) in mounts()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

        run([sys.executable, "-m", "ssdbench", "restore"], timeout_s=120)

        assert str(directory) not in mounts()
        assert not Path(f"/sys/block/{loop.node.name}/{name}").exists()


def test_after_a_kill_restore_removes_the_directory_of_a_databases_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSDBENCH_SETTINGS", str(tmp_path / "settings"))
    sockets = Path(f"/run/ssdbench/socket-{os.getpid()}")
    with subprocess.Popen(
        [sys.executable, "-c", SOCKET_HOLDER, str(sockets)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        process.kill()
        process.wait()
    assert (sockets / ".s.PGSQL.5432").exists()

    run([sys.executable, "-m", "ssdbench", "restore"], timeout_s=120)

    assert not sockets.exists()


def test_a_directory_that_holds_anything_else_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").touch()

    with pytest.raises(HostLacks, match="cannot be removed: Directory not empty"):
        DirectoryBackend(Sysfs()).write(str(tmp_path), "", "")

    assert (tmp_path / "kept").exists()


def test_a_node_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    with attached_loop(tmp_path / "disk.img", size_bytes=32 * MIB) as loop:
        held = os.open(loop.node, os.O_RDONLY | os.O_EXCL)
        waiting = Timer(0.5, os.close, (held,))
        waiting.start()

        FILE_SYSTEMS["ext2"].make(str(loop.node))

        assert waiting.finished.is_set()


def test_a_file_system_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(HostLacks, match=r"^ext2 cannot be made on /dev/ssdbench-none: mkfs.ext2 "):
        FILE_SYSTEMS["ext2"].make("/dev/ssdbench-none")


def test_a_file_system_that_cannot_be_had_is_a_sentence_and_nothing_is_touched(
    tmp_path: Path,
) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(PROFILE.replace("ext4", "nilfs2"))
    with attached_loop(tmp_path / "disk.img", size_bytes=32 * MIB) as loop:
        argv = [sys.executable, "-m", "ssdbench", "plan", str(profile)]

        said = run([*argv, "--target", str(loop.node)], ok=(4,)).stderr

    assert said.count("nilfs2") >= 1
    assert "Traceback" not in said
    assert any(words in said for words in ("this kernel has no", "not installed", "needs at least"))


@pytest.mark.parametrize("name", FILE_SYSTEMS)
def test_no_file_system_is_made_with_a_discard(name: str) -> None:
    options = " ".join(FILE_SYSTEMS[name].options)

    assert any(word in options for word in ("nodiscard", "-K", "-t 0"))


@pytest.mark.parametrize("name", ["ext2", "ext3", "ext4"])
def test_blocks_are_those_of_a_large_drive_on_a_small_one(name: str, tmp_path: Path) -> None:
    with attached_loop(tmp_path / "disk.img", size_bytes=64 * MIB) as loop:
        FILE_SYSTEMS[name].make(str(loop.node))
        with loop.node.open("rb") as node:
            superblock = node.read(2048)[1024:]
    assert superblock[0x18:0x1C] == (2).to_bytes(4, "little")  # s_log_block_size: 1024 << 2
