"""Whether the kernel counts what a drive does."""

from pathlib import Path

import pytest

from ssdbench.host.counters import uncounted
from ssdbench.host.sysfs import Sysfs


@pytest.mark.parametrize(
    ("ios", "counts"),
    [
        ({"nvme0n1": 0, "nvme0c0n1": 3, "nvme0c1n1": 0}, False),  # Linux 6.1
        ({"nvme0n1": 3, "nvme0c0n1": 3, "nvme0c1n1": 0}, True),
        ({"nvme0n1": 0, "nvme0c0n1": 0}, True),  # nothing is known
        ({"nvme0n1": 0}, True),
    ],
)
def test_a_multipath_head_that_counts_less_than_its_paths_is_told(
    tmp_path: Path, ios: dict[str, int], counts: bool
) -> None:
    for name, done in ios.items():
        (tmp_path / "sys/block" / name).mkdir(parents=True)
        stat = f"{done} 0 24 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        (tmp_path / "sys/block" / name / "stat").write_text(stat)

    assert (uncounted("nvme0n1", Sysfs(tmp_path)) == "") is counts
    assert uncounted("nvme1n1", Sysfs(tmp_path)) == ""
