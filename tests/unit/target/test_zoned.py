"""A drive in zones as it is looked at: it holds what its zones hold."""

import os
from pathlib import Path

import pytest

from ssdbench.errors import DeviceLost
from ssdbench.host import blockdev
from ssdbench.host.blockdev import Zone
from ssdbench.host.sysfs import Sysfs
from ssdbench.model.target import TargetKind
from ssdbench.target import claim
from ssdbench.target.claim import Claim
from ssdbench.target.inspect import _block_device
from tests.support.builders import a_target

MIB = 1 << 20


@pytest.mark.parametrize(
    ("capacity", "last", "shape"),
    [
        (4 * MIB, 4 * MIB, (64 * MIB, 4 * MIB, 64 * MIB)),
        (3 * MIB, 3 * MIB, (48 * MIB, 3 * MIB, 64 * MIB)),
        (4 * MIB, 3 * MIB, (64 * MIB, 0, 64 * MIB)),  # is refused
    ],
)
def test_a_drive_in_zones_is_as_large_as_what_they_hold(
    capacity: int,
    last: int,
    shape: tuple[int, int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = tmp_path / "sys/block/ssd0/queue"
    queue.mkdir(parents=True)
    (queue / "zoned").write_text("host-managed\n")
    (queue.parent / "size").write_text(f"{64 * MIB // 512}\n")
    numbers = tmp_path / "sys/dev/block"
    numbers.mkdir(parents=True)
    (numbers / "252:0").symlink_to(queue.parent)
    found = [Zone(n * 4 * MIB, 4 * MIB, capacity, False, "empty") for n in range(15)]
    found.append(Zone(60 * MIB, 4 * MIB, last, False, "empty"))
    monkeypatch.setattr(blockdev, "report_zones", lambda _: found)

    info = _block_device("/dev/ssd0", Path("/dev/ssd0"), os.makedev(252, 0), Sysfs(tmp_path))

    assert (info.size_bytes, info.zone_bytes, info.end_bytes) == shape
    assert info.facts["zones"].startswith("16 of 4 MiB")


def test_a_zone_that_goes_read_only_is_no_other_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    was = a_target(
        TargetKind.DRIVE, size_bytes=48 * MIB, zone_bytes=3 * MIB, zone_length_bytes=4 * MIB
    )
    unlike = was.model_copy(
        update={"size_bytes": 64 * MIB, "zone_bytes": 0, "zone_length_bytes": 0}
    )
    monkeypatch.setattr(claim, "inspect", lambda _: unlike)
    monkeypatch.setattr("ssdbench.target.claim.guard.check", lambda *_, held: None)

    Claim(was).check()

    monkeypatch.setattr(claim, "inspect", lambda _: a_target(TargetKind.DRIVE, size_bytes=1 << 30))
    with pytest.raises(DeviceLost, match="67108864 bytes and is now"):
        Claim(was).check()
