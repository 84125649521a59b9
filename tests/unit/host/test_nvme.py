"""The generic node of a namespace, past which nothing knows of a claim."""

from pathlib import Path

from ssdbench.host.nvme import generic_node
from ssdbench.host.sysfs import Sysfs


def test_a_generic_node_is_one_that_the_kernel_made_and_that_is_in_dev(tmp_path: Path) -> None:
    for place in ("sys/class/nvme-generic/ng0n1", "sys/block/nvme0n1"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "device").symlink_to(tmp_path)
    host = Sysfs(tmp_path)

    assert generic_node("nvme0n1", host) is None  # a container that got the block node only
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/ng0n1").touch()
    assert generic_node("nvme0n1", host) == Path("/dev/ng0n1")
    assert generic_node("sda", host) is None
