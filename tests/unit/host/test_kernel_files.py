"""Attributes, counters and tables of the kernel, below a root of the test."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssdbench.errors import HostLacks
from ssdbench.host.counters import DiskStat, ProcessIo, catches, disk_counters
from ssdbench.host.procfs import Mount, Procfs, parse_mount, unescaped
from ssdbench.host.sysfs import Sysfs, chosen

STAT = "  100 2 1600 30 50 1 800 40 3 70 70 0 0 0 0 5 9\n"
MOUNT = "36 35 8:1 / /mnt/my\\040disk rw,noatime shared:1 - ext4 /dev/sda1 rw"


def a_sysfs(tmp_path: Path, **attributes: str) -> Sysfs:
    directory = tmp_path / "sys/block/sda/queue"
    directory.mkdir(parents=True)
    for name, value in attributes.items():
        (directory / name).write_text(value + "\n")
    return Sysfs(tmp_path)


def test_an_attribute_is_written_and_reads_back(tmp_path: Path) -> None:
    sysfs = a_sysfs(tmp_path, nomerges="0")

    sysfs.write("/sys/block/sda/queue/nomerges", "2")

    assert sysfs.read("/sys/block/sda/queue/nomerges") == "2"


def test_a_value_that_the_kernel_does_not_keep_is_an_error(tmp_path: Path) -> None:
    sysfs = a_sysfs(tmp_path)
    (tmp_path / "sys/block/sda/queue/rq_affinity").symlink_to("/dev/null")

    with pytest.raises(HostLacks, match="set to 5, but the kernel keeps"):
        sysfs.write("/sys/block/sda/queue/rq_affinity", "5")


def test_writing_never_makes_a_file(tmp_path: Path) -> None:
    sysfs = a_sysfs(tmp_path)

    with pytest.raises(HostLacks, match="No such file"):
        sysfs.write("/sys/block/sda/queue/scheduler", "none")

    assert sysfs.names("/sys/block/sda/queue") == []


def test_a_missing_attribute_is_none_and_a_missing_directory_empty(tmp_path: Path) -> None:
    sysfs = a_sysfs(tmp_path, nr_requests="64", model="x1")

    assert sysfs.find("/sys/block/sda/queue/depth") is None
    assert sysfs.names("/sys/block/sdb") == []
    assert sysfs.number("/sys/block/sda/queue/nr_requests") == 64
    assert sysfs.number("/sys/block/sda/queue/model") is None


@pytest.mark.parametrize(
    ("value", "in_force"), [("mq-deadline [none] kyber", "none"), ("[none]", "none"), ("2\n", "2")]
)
def test_the_value_in_force_is_the_marked_one(value: str, in_force: str) -> None:
    assert chosen(value) == in_force


def test_disk_counters_are_in_bytes(tmp_path: Path) -> None:
    directory = tmp_path / "sys/dev/block/8:0"
    directory.mkdir(parents=True)
    (directory / "stat").write_text(STAT)

    with disk_counters("8:0", tmp_path) as counters:
        found = counters.read()

    assert found == DiskStat(100, 1600 * 512, 50, 800 * 512, 3, merges=3, queue_ms=70)


@pytest.mark.parametrize("text", ["", "1 2 3", "a b c d e f g h i j k"])
def test_text_that_is_no_statistics_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="fields|invalid literal"):
        DiskStat.parse(text)


def test_process_counters_need_both_directions() -> None:
    assert ProcessIo.parse("rchar: 1\nread_bytes: 20\nwrite_bytes: 30\n") == ProcessIo(20, 30)
    with pytest.raises(ValueError, match="write_bytes"):
        ProcessIo.parse("read_bytes: 20\n")


def test_a_signal_that_a_process_has_a_handler_for_is_caught(tmp_path: Path) -> None:
    (tmp_path / "proc/42").mkdir(parents=True)
    (tmp_path / "proc/42/status").write_text("Name:\tfio\nSigCgt:\t0000000100004202\nThreads:\t1\n")

    caught = {number for number in range(1, 65) if catches(42, number, tmp_path)}

    assert caught == {2, 10, 15, 33}
    assert not catches(43, 2, tmp_path)


def test_a_mount_with_optional_fields_and_blanks_is_read() -> None:
    assert parse_mount(MOUNT) == Mount("8:1", "/mnt/my disk", "ext4", "/dev/sda1")


@given(st.text(alphabet=st.sampled_from("ab \t\n\\/é"), max_size=30))
def test_a_path_survives_the_kernels_escapes(path: str) -> None:
    escaped = "".join(f"\\{ord(c):03o}" if c in " \t\n\\" else c for c in path)

    assert unescaped(escaped) == path


@given(st.text(max_size=80))
def test_no_line_of_mountinfo_is_too_odd_to_read(line: str) -> None:
    parse_mount(line)


def test_a_kernel_without_swap_has_no_swap_areas(tmp_path: Path) -> None:
    assert Procfs(tmp_path).swap_areas() == []


def test_swap_areas_are_listed_without_their_header(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/swaps").write_text("Filename Type Size\n/my\\040swap file 1 0 -2\n")

    assert Procfs(tmp_path).swap_areas() == ["/my swap"]


class Going(Sysfs):
    """An attribute that says ENODEV so many times, and then what comes after that."""

    def __init__(self, times: int, then: str | OSError) -> None:
        super().__init__()
        self._times, self._then = times, then

    def read(self, attribute: str) -> str:
        self._times -= 1
        if self._times >= 0:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        if isinstance(self._then, OSError):
            raise self._then
        return self._then


def test_what_goes_while_it_is_read_is_gone_and_not_a_failure() -> None:
    assert Going(1, FileNotFoundError()).known("/sys/block/loop1/loop/backing_file") is None
    assert Going(1, "/srv/new").known("/sys/block/loop1/loop/backing_file") == "/srv/new"


@pytest.mark.parametrize("what", [Going(3, "never"), Going(0, OSError("not yours"))])
def test_what_cannot_be_read_is_never_taken_for_gone(what: Going) -> None:
    with pytest.raises(OSError, match="No such device|not yours"):
        what.known("/sys/block/sda/ro")
