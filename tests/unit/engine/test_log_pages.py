"""The raw pages of a drive, kept beside a run."""

import csv
import json
from pathlib import Path

import pytest

from ssdbench.engine import drivelogs
from ssdbench.engine.drivelogs import store_pages
from ssdbench.errors import DeviceError
from ssdbench.model.target import TargetInfo, TargetKind
from ssdbench.target import pages

DRIVE = TargetInfo(
    kind=TargetKind.DRIVE, name="/dev/x", node="/dev/x", id="eui.1", size_bytes=1, major_minor="1:1"
)
FOUND = {"nvme smart log": bytes(range(256)) * 2, "nvme feature power": b"\x01\0\0\0"}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivelogs, "kernel_name", lambda info: info.name.removeprefix("/dev/"))
    monkeypatch.setattr(pages, "read", lambda *_, **__: FOUND)


def test_every_page_is_kept_byte_by_byte(tmp_path: Path) -> None:
    store_pages(DRIVE, tmp_path / "drive-before")

    index = json.loads((tmp_path / "drive-before/index.json").read_text())
    kept = {p["name"]: (tmp_path / "drive-before" / p["file"]).read_bytes() for p in index["pages"]}
    assert kept == FOUND
    names = sorted(path.name for path in (tmp_path / "drive-before").iterdir())
    assert names == ["facts.csv", "index.json", "nvme-feature-power.bin", "nvme-smart-log.bin"]
    facts = dict(csv.reader((tmp_path / "drive-before/facts.csv").read_text().splitlines()))
    assert facts["fact"] == "said"
    assert facts["power state"] == "1"
    assert facts["critical warning"] == "0x00"


def test_a_drive_that_does_not_answer_any_more_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> pages.Pages:
        raise DeviceError("the drive refused")

    monkeypatch.setattr(pages, "read", gone)

    store_pages(DRIVE, tmp_path / "drive-after")

    assert json.loads((tmp_path / "drive-after" / "index.json").read_text())["fault"] == (
        "the drive refused"
    )


def test_what_has_no_pages_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "read", lambda *_, **__: {})

    store_pages(DRIVE, tmp_path / "drive-before")
    store_pages(DRIVE.model_copy(update={"simulated": True}), tmp_path / "drive-before")

    assert not (tmp_path / "drive-before").exists()
