"""`ssdbench sim fio` and `sim exec`: the user's fio measures what is true of the drive."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ssdbench.sim import library
from ssdbench.sim.drive import SimDrive
from ssdbench.sim.spec import parse

pytestmark = pytest.mark.host

DRIVE = "sim:p4800x,capacity=1GiB"
RANDOM_READ = ["--name=a", "--rw=randread", "--bs=4k", "--time_based", "--runtime=5"]


def sim(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "ssdbench", "sim", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def iops(output: str) -> float:
    job = json.loads("{" + output.partition("{")[2])["jobs"][0]
    return float(job["read"]["iops"])


def truth(*options: str) -> float:
    said = sim("truth", DRIVE, "--read", "100", *options, "--json")
    return float(json.loads(said.stdout)["iops"])


def test_a_job_file_and_a_command_line_measure_the_drives_true_rate(tmp_path: Path) -> None:
    job = tmp_path / "job.fio"
    job.write_text(
        "[global]\nioengine=libaio\ndirect=1\n[a]\nfilename=/dev/nvme0n1\niodepth=8\n"
        "rw=randread\nbs=4k\ntime_based\nruntime=5\n"
    )
    state = tmp_path / "drive.ssdb"
    fill = ["--name=f", "--rw=write", "--bs=128k", "--output-format=json"]
    assert sim("fio", DRIVE, "--state", state, "--", *fill).returncode == 0

    by_file = sim("fio", state, job, "--", "--output-format=json")
    by_words = sim(
        "fio", state, "--", *RANDOM_READ, "--ioengine=io_uring", "--iodepth=8",
        "--output-format=json",
    )  # fmt: skip

    assert (by_file.returncode, by_words.returncode) == (0, 0)
    expected = truth("--iodepth", "8")
    assert iops(by_file.stdout) == pytest.approx(expected, rel=0.05)
    assert iops(by_words.stdout) == pytest.approx(expected, rel=0.05)
    assert f"{job}:5: filename=/dev/nvme0n1 has no meaning" in by_file.stderr
    assert "SIMULATED" in by_file.stderr
    with SimDrive.open(state) as drive:
        assert drive.counters()["host_write_bytes"] == drive.core.capacity_bytes


def test_a_verifying_job_finds_what_it_wrote() -> None:
    said = sim(
        "fio", DRIVE, "--", "--name=v", "--rw=randwrite", "--bs=4k", "--size=8m",
        "--verify=crc32c", "--verify_state_save=0", "--output-format=json",
    )  # fmt: skip

    job = json.loads("{" + said.stdout.partition("{")[2])["jobs"][0]
    assert (said.returncode, job["error"]) == (0, 0)
    assert job["read"]["total_ios"] == job["write"]["total_ios"] == 2048


def test_a_tool_that_starts_fio_is_on_the_drive_without_knowing(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\ntest -f "$1" && fio --filename="$1" --minimal ' +
                    " ".join(RANDOM_READ) + "\n")  # fmt: skip
    tool.chmod(0o700)

    said = sim("exec", DRIVE, "--", tool, "{}")

    fields = next(line for line in said.stdout.splitlines() if ";fio-" in line).split(";")
    assert said.returncode == 0
    assert fields[7].isdigit() and float(fields[7]) > 1000  # read IOPS, terse version 3
    assert f"the numbers of {tool} describe a model" in said.stderr


def test_the_exit_code_is_that_of_the_program() -> None:
    assert sim("exec", DRIVE, "--", "sh", "-c", "exit 7").returncode == 7
    assert sim("fio", DRIVE, "--", "--name=a", "--rw=nonsense").returncode == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((DRIVE, "absent.fio"), "the job file absent.fio cannot be read"),
        ((DRIVE, "--", "--name=a", "--hipri"), "has no polling"),
        (("sim:p4800x,capacity=banana", "--", "--name=a"), "capacity"),
        (("absent.ssdb", "--", "--name=a"), "absent"),
        ((DRIVE, "--fio", "no-such-fio", "--", "--name=a"), "no-such-fio is not installed"),
    ],
)
def test_a_bad_input_is_a_sentence_and_nothing_is_made(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = sim("fio", *words)

    assert refused.returncode in (2, 4)
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_another_drive_than_the_kept_one_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "drive.ssdb"
    assert sim("create", DRIVE, state).returncode == 0

    refused = sim("fio", "sim:p4800x,capacity=2GiB", "--state", state, "--", "--name=a")

    assert refused.returncode == 2
    assert f"{state} contains {DRIVE}" in refused.stderr


def test_a_stopped_fio_reports_and_leaves_a_whole_drive(tmp_path: Path) -> None:
    state = tmp_path / "drive.ssdb"
    argv = [sys.executable, "-m", "ssdbench", "sim", "fio", DRIVE, "--state", str(state), "--"]
    endless = ["--name=a", "--rw=randwrite", "--time_based", "--runtime=1000000", "--size=64m"]
    with subprocess.Popen([*argv, *endless], stdout=subprocess.PIPE, text=True) as process:
        while not state.exists() or process.poll() is not None:
            time.sleep(0.1)
        time.sleep(2)
        process.terminate()
        said, _ = process.communicate(timeout=60)

    assert "write: IOPS=" in said
    with SimDrive.open(state) as drive:
        assert drive.core.broken_invariant() == 0


def test_fio_finds_the_library_in_a_path_with_blanks_and_colons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(library.BIN, tmp_path / "my drives: all" / "bin")
    monkeypatch.setattr(library, "BIN", tmp_path / "my drives: all" / "bin")
    state = tmp_path / "drive.ssdb"
    SimDrive.create(parse(DRIVE), state).close()

    argv = ["env", f"LD_PRELOAD={library.preloadable('libssdb_virtualtime.so')}"]
    argv += [f"SSDB_VT_STATE={state}", "fio", "--name=a", "--ioengine=nbd", "--uri=sim:"]
    argv += ["--thread", "--rw=write", "--bs=128k", "--clocksource=clock_gettime"]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)

    with SimDrive.open(state) as drive:
        assert drive.counters()["host_write_bytes"] == drive.core.capacity_bytes
