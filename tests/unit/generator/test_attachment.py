"""What fio is told of the device that it reaches."""

import os
from pathlib import Path

import pytest

from ssdbench.generator.fio.attachment import DeviceAttachment
from ssdbench.host import blockdev
from ssdbench.host.blockdev import Geometry


@pytest.mark.parametrize(("zones", "mode"), [(0, None), (64, "zbd")])
def test_fio_keeps_to_zones_where_there_are_any(
    zones: int, mode: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockdev, "geometry_of", lambda _: Geometry(1 << 30, 4096, 4096, False))
    monkeypatch.setattr(blockdev, "device_number", lambda _: "259:0")
    monkeypatch.setattr(blockdev, "zones_of", lambda _: zones)

    assert DeviceAttachment(Path("/dev/x"), 7, root=tmp_path).options().get("zonemode") == mode


def test_what_is_no_device_has_no_zones(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(4096))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        assert blockdev.zones_of(descriptor) == 0
    finally:
        os.close(descriptor)
