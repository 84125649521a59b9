"""What fio is told of the device that it reaches."""

import os
from pathlib import Path

import pytest

from ssdbench.generator.fio.attachment import DeviceAttachment, attachment
from ssdbench.generator.fio.jobfile import jobfile
from ssdbench.host import blockdev
from ssdbench.host.blockdev import Geometry
from ssdbench.model.target import TargetKind
from tests.support.builders import a_target
from tests.unit.generator.jobs import a_sequential


@pytest.mark.parametrize(("zones", "zbd"), [(0, {}), (64, {"zonemode": "zbd", "size": 1 << 30})])
def test_fio_keeps_to_zones_where_there_are_any_and_has_all_of_them(
    zones: int, zbd: dict[str, str | int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockdev, "geometry_of", lambda _: Geometry(1 << 30, 4096))
    monkeypatch.setattr(blockdev, "device_number", lambda _: "259:0")
    monkeypatch.setattr(blockdev, "zones_of", lambda _: zones)

    way = DeviceAttachment(Path("/dev/x"), 7, root=tmp_path)
    assert {k: v for k, v in way.options().items() if k in ("zonemode", "size")} == zbd
    # Each holds three quarters of its length: the job writes so much, in all of the device.
    whole = a_sequential("fill", total_bytes=3 << 28, length_bytes=3 << 28)
    section = jobfile([whole], options=way.options()).partition("[00-fill]")[2].splitlines()
    assert f"size={zbd.get('size', 3 << 28)}" in section
    assert f"io_size={3 << 28}" in section


def test_a_device_ends_behind_what_its_zones_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    monkeypatch.setattr(blockdev, "still", lambda *_, size_bytes: ends.append(size_bytes))
    monkeypatch.setattr("ssdbench.generator.fio.attachment.DeviceAttachment", lambda *_: None)

    sizes = {"size_bytes": 3 << 28, "zone_bytes": 3 << 20, "zone_length_bytes": 4 << 20}
    for zones in (sizes, {"size_bytes": 3 << 28}):
        attachment(a_target(TargetKind.DRIVE, **zones), 7)

    assert ends == [1 << 30, 3 << 28]


def test_what_is_no_device_has_no_zones(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(4096))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        assert blockdev.zones_of(descriptor) == 0
    finally:
        os.close(descriptor)
