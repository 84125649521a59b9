"""What a name leads to, and a sentence for everything that is no target."""

import os
from pathlib import Path

import pytest

from ssdbench.errors import SsdbenchError, TargetRefused, UsageError
from ssdbench.model.target import TargetKind
from ssdbench.target.evidence import Evidence
from ssdbench.target.inspect import inspect
from ssdbench.target.kind import kind_of


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("/dev/absent0", "there is no device /dev/absent0"),
        ("/absent/file", "there is no file /absent/file"),
        ("/proc/version/x", "there is no file"),
        ("/tmp", "is a directory"),
        ("/dev/null", "it is a character device"),
        ("sim:no-such-model", "no simulated drive 'no-such-model'"),
        ("x" * 5000, "there is no file"),
    ],
    ids=["device", "file", "below-a-file", "directory", "character", "model", "too-long"],
)
def test_what_is_no_target_is_a_sentence_with_a_way_out(name: str, sentence: str) -> None:
    with pytest.raises(SsdbenchError, match=sentence) as failure:
        inspect(name)

    assert isinstance(failure.value, UsageError | TargetRefused)
    assert failure.value.hint


def test_an_empty_file_is_told_how_to_get_a_size(tmp_path: Path) -> None:
    (tmp_path / "disk").touch()

    with pytest.raises(UsageError, match="is empty") as failure:
        inspect(str(tmp_path / "disk"))

    assert "truncate -s" in failure.value.hint


def test_a_pipe_is_no_target(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="neither a block device nor a regular file"):
        inspect(str(tmp_path / "pipe"))


def test_a_file_is_known_by_its_real_path_and_size(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, (1 << 20) + 100)
    (tmp_path / "link").symlink_to(disk)

    info = inspect(str(tmp_path / "link"))

    assert info.kind is TargetKind.FILE
    assert info.id == f"file:{disk}:{(1 << 20) + 100}"
    assert info.size_bytes == 1 << 20
    assert not info.kind.plannable


def test_the_remap_unit_of_a_simulated_drive_is_known() -> None:
    assert inspect("sim:bm1743").remap_unit_bytes == 16384
    assert inspect("sim:dram-ssd-2012").remap_unit_bytes == 0  # no flash, nothing to read first


def test_a_simulated_drive_is_labelled_and_complete() -> None:
    info = inspect("sim:x25m-g2-160,capacity=1GiB,seed=9")

    assert info.kind is TargetKind.SIMULATED
    assert info.simulated
    assert (info.size_bytes, info.sim_seed) == (1 << 30, 9)
    assert info.id.startswith("sim:x25m-g2-160")


@pytest.mark.parametrize(
    ("kernel_name", "model", "kind"),
    [
        ("loop7", "", TargetKind.LOOP),
        ("nvme0n1", "Samsung SSD 990 PRO 2TB", TargetKind.UNPROVEN),
        ("sda", "INTEL SSDSC2BB48", TargetKind.UNPROVEN),
        ("sdb", "QEMU HARDDISK", TargetKind.VIRTUAL),
        ("nvme1n1", "Amazon Elastic Block Store", TargetKind.VIRTUAL),
        ("sdc", "PERC H740P Mini", TargetKind.VIRTUAL),
        ("sdd", "MR9361-8i", TargetKind.VIRTUAL),
        ("sde", "LOGICAL VOLUME", TargetKind.VIRTUAL),
        ("sdf", "DELLBOSS VD", TargetKind.VIRTUAL),
        ("vda", "", TargetKind.VIRTUAL),
        ("nbd0", "", TargetKind.VIRTUAL),
        ("zram0", "", TargetKind.VIRTUAL),
        ("dm-0", "", TargetKind.MAPPED),
        ("md127", "", TargetKind.MAPPED),
        ("zd16", "", TargetKind.MAPPED),
    ],
)
def test_a_name_alone_makes_no_drive(kernel_name: str, model: str, kind: TargetKind) -> None:
    assert kind_of(kernel_name, {"device/model": model}) is kind
    shown = Evidence(shown=("its pages are a drive's",), missing=())
    proven = TargetKind.DRIVE if kind is TargetKind.UNPROVEN else kind
    assert kind_of(kernel_name, {"device/model": model}, shown) is proven
