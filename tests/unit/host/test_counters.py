"""Whether the kernel counts what a drive does."""

from pathlib import Path

import pytest

from ssdbench.host.counters import uncounted
from ssdbench.host.sysfs import Sysfs

COUNTS = "0000000000000000 T nvme_mpath_start_request\t[nvme_core]\n"
OTHERS = "0000000000000000 T nvme_init_ctrl\t[nvme_core]\n"


@pytest.mark.parametrize(
    ("ios", "names", "counts"),
    [
        ({"nvme0n1": 0, "nvme0c0n1": 3, "nvme0c1n1": 0}, OTHERS, False),  # Linux 6.1
        ({"nvme0n1": 0, "nvme0c0n1": 0}, OTHERS, False),  # its paths found anew
        ({"nvme0n1": 0, "nvme0c0n1": 3}, OTHERS + COUNTS, True),  # its iostats were off
        ({"nvme0n1": 3, "nvme0c0n1": 3}, OTHERS, True),
        ({"nvme0n1": 0, "nvme0c0n1": 3}, "", True),  # nothing is known
        ({"nvme0n1": 0}, OTHERS, True),
    ],
)
def test_a_multipath_head_that_its_kernel_does_not_count_is_told(
    tmp_path: Path, ios: dict[str, int], names: str, counts: bool
) -> None:
    for name, done in ios.items():
        (tmp_path / "sys/block" / name).mkdir(parents=True)
        stat = f"{done} 0 24 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
        (tmp_path / "sys/block" / name / "stat").write_text(stat)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/kallsyms").write_text(names)

    assert (uncounted("nvme0n1", Sysfs(tmp_path)) == "") is counts
