"""Block devices: geometry, claim, and what the kernel counts."""

import os
from pathlib import Path

import pytest

from ssdbench.errors import DeviceLost, HostLacks
from ssdbench.host import blockdev, usage
from ssdbench.host.counters import disk_counters
from ssdbench.host.sysfs import Sysfs
from tests.support.devices import LoopDevice


def test_a_device_tells_its_size_and_blocks(loop_device: LoopDevice) -> None:
    with blockdev.opened(loop_device.node) as descriptor:
        found = blockdev.geometry_of(descriptor)

    assert found.size_bytes == loop_device.size_bytes
    assert found.logical_block_bytes == loop_device.block_bytes


def test_a_claimed_device_cannot_be_claimed_again(loop_device: LoopDevice) -> None:
    descriptor = blockdev.claim(loop_device.node)

    with pytest.raises(BlockingIOError):
        blockdev.claim(loop_device.node)
    assert usage.claimed(loop_device.node)

    os.close(descriptor)
    assert not usage.claimed(loop_device.node)


def test_a_file_in_the_place_of_a_device_is_not_taken_for_it(tmp_path: Path) -> None:
    impostor = tmp_path / "nvme0n1"
    impostor.write_bytes(bytes(4096))

    with pytest.raises(DeviceLost, match="not a block device"):
        blockdev.claim(impostor)
    assert impostor.read_bytes() == bytes(4096)


def test_the_kernel_counts_what_was_written(loop_device: LoopDevice) -> None:
    descriptor = blockdev.claim(loop_device.node)
    with disk_counters(blockdev.device_number(descriptor)) as counters:
        before = counters.read()
        os.pwrite(descriptor, bytes(1 << 20), 0)
        os.fsync(descriptor)
        after = counters.read()
    os.close(descriptor)

    assert after.write_bytes - before.write_bytes == 1 << 20


def test_a_discarded_range_reads_as_zeros(loop_device: LoopDevice) -> None:
    descriptor = blockdev.claim(loop_device.node)
    os.pwrite(descriptor, b"\1" * 65536, 0)
    os.fsync(descriptor)

    blockdev.discard(descriptor, offset_bytes=0, length_bytes=65536)

    assert os.pread(descriptor, 65536, 0) == bytes(65536)
    os.close(descriptor)


def test_a_value_that_the_kernel_coerces_is_noticed(loop_device: LoopDevice) -> None:
    """The kernel accepts rq_affinity=5 and then reads 2."""
    attribute = f"/sys/block/{loop_device.node.name}/queue/rq_affinity"

    with pytest.raises(HostLacks, match="set to 5, but the kernel keeps"):
        Sysfs().write(attribute, "5")


def test_a_node_that_leads_elsewhere_is_noticed(loop_device: LoopDevice, tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.symlink_to(loop_device.node)
    descriptor = blockdev.claim(node)
    blockdev.still(node, descriptor, size_bytes=loop_device.size_bytes)

    node.unlink()
    node.symlink_to("/dev/null")
    with pytest.raises(DeviceLost, match="not a block device any more"):
        blockdev.still(node, descriptor, size_bytes=loop_device.size_bytes)

    node.unlink()
    with pytest.raises(DeviceLost, match="is gone"):
        blockdev.still(node, descriptor, size_bytes=loop_device.size_bytes)
    os.close(descriptor)
