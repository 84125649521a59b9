"""Which counters of the kernel tell what a drive does."""

import errno
from pathlib import Path

import pytest

from ssdbench.host.counters import CounterFile, counted_disks, disk_counters
from ssdbench.host.sysfs import Sysfs

COUNTS = "0000000000000000 T nvme_mpath_start_request\t[nvme_core]\n"
OTHERS = "0000000000000000 T nvme_init_ctrl\t[nvme_core]\n"
HEAD = ["nvme0n1"]
PATHS = ["nvme0c0n1", "nvme0c1n1"]


def put(root: Path, ios: dict[str, int], names: str) -> None:
    """Disks that each read so many blocks of 4 KiB, below a kernel with such symbols."""
    for name, done in ios.items():
        (root / "sys/block" / name).mkdir(parents=True, exist_ok=True)
        stat = f"{done} 0 {8 * done} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        (root / "sys/block" / name / "stat").write_text(stat)
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/kallsyms").write_text(names)


@pytest.mark.parametrize(
    ("ios", "names", "counted"),
    [
        ({"nvme0n1": 0, "nvme0c0n1": 3, "nvme0c1n1": 0}, OTHERS, PATHS),  # Linux 6.1
        ({"nvme0n1": 0, "nvme0c0n1": 0}, OTHERS, PATHS[:1]),  # its paths found anew
        ({"nvme0n1": 0, "nvme0c0n1": 3}, OTHERS + COUNTS, HEAD),  # its iostats were off
        ({"nvme0n1": 3, "nvme0c0n1": 3}, OTHERS, HEAD),
        ({"nvme0n1": 0, "nvme0c0n1": 3}, "", HEAD),  # nothing is known
        ({"nvme0n1": 0}, OTHERS, HEAD),
    ],
)
def test_a_multipath_head_that_its_kernel_does_not_count_is_counted_on_its_paths(
    tmp_path: Path, ios: dict[str, int], names: str, counted: list[str]
) -> None:
    put(tmp_path, ios, names)

    assert counted_disks("nvme0n1", Sysfs(tmp_path)) == counted


def test_the_paths_of_a_head_are_counted_together_and_one_that_goes_stays_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"nvme0n1": 0, "nvme0c0n1": 3, "nvme0c1n1": 5, "nvme0c0n2": 99}, OTHERS)
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/259:1").symlink_to(tmp_path / "sys/block/nvme0n1")
    gone = set[int]()
    read = CounterFile.read

    def unless_gone(file: CounterFile) -> str:
        if id(file) in gone:
            raise OSError(errno.ENODEV, "No such device")
        return read(file)

    monkeypatch.setattr(CounterFile, "read", unless_gone)
    with disk_counters("259:1", tmp_path) as disk:
        first = disk.read()
        put(tmp_path, {"nvme0c1n1": 7}, OTHERS)
        gone.add(id(disk._files[0]))
        second = disk.read()
        gone.add(id(disk._files[1]))
        with pytest.raises(OSError, match="No such device"):
            disk.read()

    assert (first.read_ios, first.read_bytes) == (8, 8 * 4096)
    assert (second.read_ios, second.read_bytes) == (10, 10 * 4096)
