"""`ssdbench detect-blocksize` through the command line: simulated drives, loop devices, trouble."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from ssdbench.host.command import run
from ssdbench.target.inspect import inspect
from tests.support.devices import LoopDevice, attached_loop
from tests.support.documents import checked

pytestmark = pytest.mark.host

BLOCKS = "sim:memoright-gt,capacity=192MiB,block=768KiB"
FEW = ["--writes", "1500", "--stride", "20KiB", "--stride", "28KiB", "--stride", "44KiB"]


def detect(directory: Path, target: str, *options: str) -> subprocess.CompletedProcess[str]:
    output = ["--output", str(directory / "run")]
    argv = [sys.executable, "-m", "ssdbench", "detect-blocksize", target, *output, *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture
def loop(memory: Path) -> Iterator[LoopDevice]:
    with attached_loop(memory / "disk.img") as device:
        yield device


def test_a_block_that_is_no_power_of_two_is_found_in_bytes(tmp_path: Path) -> None:
    said = detect(tmp_path, BLOCKS, *FEW, "--json")

    answer = checked(said.stdout, "detect-blocksize")
    assert said.returncode == 0
    assert answer["block_bytes"] == 768 * 1024
    assert answer["p_value"] <= 0.01
    assert answer["simulated"]
    assert (tmp_path / "run" / "results.csv").exists()


@pytest.mark.parametrize("phase", ["0", "84KiB"])
def test_a_buffer_that_hides_every_write_does_not_hide_blocks_from_reads(
    tmp_path: Path, phase: str
) -> None:
    hides = f"{BLOCKS},phase={phase},wbuf=64MiB,t_prog=5us,merge_page=500ns,t_erase=20us,link=2000"

    answer = json.loads(
        detect(tmp_path, hides.replace("phase", "block_phase"), *FEW, "--json").stdout
    )

    assert answer["block_bytes"] == 768 * 1024
    assert answer["evidence_from"] == "reads between the writes"


@pytest.mark.parametrize(
    ("model", "write_bytes", "answer"),
    [
        ("x25m-g2-160,capacity=2GiB", 16384, "mapping unit 16 KiB: write at least 16 KiB, aligned"),
        ("bm1743", 16384, "mapping unit 16 KiB: write at least 16 KiB, aligned"),
        ("p4500-4t", 4096, "none that matters to you: write at least 4 KiB, aligned"),
        ("660p-1t,map_unit=64KiB,program_unit=64KiB,read_unit=64KiB", 65536, "mapping unit 64 KiB"),
        ("p320h-700,capacity=4GiB,map_unit=8KiB", 8192, "mapping unit 8 KiB"),
    ],
)
def test_a_page_mapped_drive_is_given_its_mapping_unit_and_no_block(
    tmp_path: Path, model: str, write_bytes: int, answer: str
) -> None:
    said = detect(tmp_path, f"sim:{model}", *FEW, "--json")

    told = checked(said.stdout, "detect-blocksize")
    assert told["block_bytes"] is None
    assert told["write_bytes"] == write_bytes
    assert told["answer"].startswith(answer)
    parts = {part["part"]: part for part in told["parts"]}
    assert list(parts) == ["erase block", "stripe", "mapping unit", "the drive's own reports"]
    assert sum(part["bytes_written"] for part in parts.values()) == told["bytes_written"]
    assert all(parts[name]["minutes"] > 0 for name in ("erase block", "stripe", "mapping unit"))


def test_a_drive_without_flash_has_no_size_that_matters(tmp_path: Path) -> None:
    said = detect(tmp_path, "sim:dram-ssd-2012,capacity=1GiB", "--json")

    told = checked(said.stdout, "detect-blocksize")
    assert (told["block_bytes"], told["buffer_bytes"]) == (None, None)
    assert told["answer"] == "none that matters to you: write at least 4 KiB, aligned"
    assert told["parts"][0]["answer"] == "hidden by the buffer"


def test_a_limit_of_bytes_ends_the_search(tmp_path: Path) -> None:
    said = detect(tmp_path, "sim:p4500-4t", "--max-writes", "3GiB", "--json")

    assert json.loads(said.stdout)["bytes_written"] < 5e9  # else 15e9
    assert "--max-writes" in said.stderr


def test_reads_show_no_block_and_say_how_weak_they_are(tmp_path: Path) -> None:
    said = detect(tmp_path, BLOCKS, *FEW, "--read-only")

    assert said.returncode == 0
    assert "will write 0 B" in said.stderr
    assert "no boundary found" in said.stdout
    assert "shows its blocks in writes, but not in reads" in said.stderr


def test_a_loop_device_has_no_boundary_and_says_what_would_have_been_found(
    tmp_path: Path, loop: LoopDevice
) -> None:
    identity = inspect(str(loop.node)).id

    said = detect(tmp_path, str(loop.node), *FEW, "--destroy", identity)

    assert said.returncode == 0, said.stderr
    assert "no boundary found" in said.stdout
    assert "times as long" in said.stdout


def test_a_file_has_no_boundary(tmp_path: Path) -> None:
    file = tmp_path / "file.img"
    file.touch()
    with file.open("r+b") as grown:
        grown.truncate(64 << 20)

    few = ["400" if option == "1500" else option for option in FEW]  # this host's disk may be slow
    said = detect(tmp_path, str(file), *few, "--json")

    assert said.returncode == 0, said.stdout
    assert json.loads(said.stdout)["block_bytes"] is None


def test_an_interrupted_search_keeps_what_it_measured(tmp_path: Path) -> None:
    output = ["--output", str(tmp_path / "run")]
    slow = "sim:memoright-gt,t_erase=200ms"
    argv = [sys.executable, "-m", "ssdbench", "detect-blocksize", slow, *output]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started = tmp_path / "run" / "stages" / "01-blocksize" / "writes-1" / "seconds.csv"
    deadline = time.monotonic() + 120
    while not (started.exists() and started.stat().st_size > 2000):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(2)
    out, err = process.communicate(timeout=120)

    assert process.returncode == 130, err
    assert "block size 1 MiB" in out or "in what was measured" in out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["stages"][0]["bytes_written"] > 0
    assert list((tmp_path / "run" / "stages").glob("*/*/trace.npz"))


def test_a_drive_that_fails_half_way_keeps_what_it_said(tmp_path: Path) -> None:
    broken = f"{BLOCKS},error_ops=read,error_offset=150MiB,error_bytes=4MiB"

    said = detect(tmp_path, broken, *FEW, "--read-only")

    assert said.returncode == 5
    assert "no boundary found in what was measured" in said.stdout
    assert "failed with EIO" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_device_that_shrinks_half_way_ends_the_search_and_keeps_it(
    tmp_path: Path, loop: LoopDevice
) -> None:
    output = ["--output", str(tmp_path / "run"), "--destroy", inspect(str(loop.node)).id]
    strides = ["--stride", "8KiB", "--stride", "12KiB", "--stride", "20KiB", "--writes", "6000"]
    argv = [sys.executable, "-m", "ssdbench", "detect-blocksize", str(loop.node)]
    process = subprocess.Popen(
        argv + output + strides, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started = tmp_path / "run" / "stages" / "01-blocksize" / "writes-1" / "fio" / "job.fio"
    deadline = time.monotonic() + 120
    while not started.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    with loop.backing.open("r+b") as file:
        file.truncate(loop.size_bytes // 4)
    run(["losetup", "--set-capacity", str(loop.node)])
    out, err = process.communicate(timeout=120)

    assert process.returncode == 5, err
    assert "measured" in out
    assert "has 16777216 bytes now" in err
    assert "Traceback" not in err
    assert (tmp_path / "run" / "result.json").exists()


def test_a_drive_of_two_mebibytes_is_walked_and_ends(tmp_path: Path) -> None:
    said = detect(tmp_path, "sim:memoright-gt,block=128KiB,capacity=2MiB")

    assert said.returncode == 0, said.stderr
    assert "block size 128 KiB" in said.stdout or "no boundary found" in said.stdout


def test_reads_across_boundaries_leave_a_file_system_as_it_was(
    tmp_path: Path, loop: LoopDevice
) -> None:
    run(["mkfs.ext4", "-q", str(loop.node)])
    before = loop.backing.read_bytes()

    said = detect(tmp_path, str(loop.node), *FEW, "--read-only")

    assert said.returncode == 0, said.stderr
    assert "shows its blocks in writes, but not in reads" in said.stderr
    assert loop.backing.read_bytes() == before


def test_a_read_only_device_is_refused(tmp_path: Path, loop: LoopDevice) -> None:
    run(["blockdev", "--setro", str(loop.node)])

    said = detect(tmp_path, str(loop.node), *FEW)

    assert said.returncode != 0
    assert "read-only" in said.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("size", "options", "sentence"),
    [
        (1 << 20, (), "too small"),
        (64 << 20, ("--stride", "4MiB", "--stride", "8MiB", "--stride", "16MiB"), "too large"),
        (64 << 20, ("--stride", "64KiB"), "too few to tell a block from a buffer"),
    ],
)
def test_what_cannot_be_walked_is_refused_before_anything_is_written(
    tmp_path: Path, size: int, options: tuple[str, ...], sentence: str
) -> None:
    file = tmp_path / "file.img"
    file.write_bytes(b"")
    with file.open("r+b") as grown:
        grown.truncate(size)

    said = detect(tmp_path, str(file), *options)

    assert said.returncode == 2
    assert sentence in said.stderr
    assert not (tmp_path / "run").exists()


def test_looking_with_reads_alone_needs_no_consent_and_leaves_what_the_drive_holds(
    loop: LoopDevice, tmp_path: Path
) -> None:
    loop.backing.write_bytes(os.urandom(loop.size_bytes))
    run(["mkfs.ext4", "-q", "-F", str(loop.node)])
    written = Path(f"/sys/block/{loop.node.name}/stat")
    before = sha256(loop.backing.read_bytes()).digest(), written.read_text().split()[4:7]

    said = detect(tmp_path, str(loop.node), *FEW, "--read-only", "--json")

    assert said.returncode == 0, said.stderr
    answer = checked(said.stdout, "detect-blocksize")
    assert (answer["bytes_written"], answer["complete"]) == (0, True)
    assert (sha256(loop.backing.read_bytes()).digest(), written.read_text().split()[4:7]) == before
