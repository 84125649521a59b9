"""Drives in another LBA format than they had: kept on disk until they have the old one again."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ssdbench.engine import lbaformats
from ssdbench.errors import HostLacks
from ssdbench.model.target import LbaFormat

FIRST, SECOND, THIRD = LbaFormat(data=512), LbaFormat(data=4096), LbaFormat(data=512, metadata=8)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> dict[str, LbaFormat]:
    """The drives that are here, by identity, and their formats."""
    here: dict[str, LbaFormat] = {}
    monkeypatch.setattr(lbaformats, "identities", lambda: {drive: drive for drive in here})
    monkeypatch.setattr(lbaformats, "inspect", lambda node: SimpleNamespace(lba_format=here[node]))
    return here


def test_what_a_drive_had_first_is_what_it_had(tmp_path: Path, now: dict[str, LbaFormat]) -> None:
    lbaformats.remember_format("d", FIRST, directory=tmp_path)
    lbaformats.remember_format("d", SECOND, directory=tmp_path)
    now["d"] = THIRD

    (changed,) = lbaformats.changed_formats(directory=tmp_path)

    assert (changed.was, changed.now) == (FIRST, THIRD)
    assert "LBA format 512+8 now (it was 512+0)" in changed.sentence
    assert "ssdbench retire d --method format --lba-format 512+0" in changed.sentence


def test_a_drive_that_has_its_old_format_again_is_forgotten(
    tmp_path: Path, now: dict[str, LbaFormat]
) -> None:
    lbaformats.remember_format("d", FIRST, directory=tmp_path)
    now["d"] = FIRST

    assert lbaformats.changed_formats(directory=tmp_path) == []
    now["d"] = SECOND  # by somebody else, later
    assert lbaformats.changed_formats(directory=tmp_path) == []


def test_a_drive_that_is_away_is_kept_for_later(tmp_path: Path, now: dict[str, LbaFormat]) -> None:
    lbaformats.remember_format("d", FIRST, directory=tmp_path)

    assert lbaformats.changed_formats(directory=tmp_path) == []
    now["d"] = SECOND
    assert [changed.drive for changed in lbaformats.changed_formats(directory=tmp_path)] == ["d"]


@pytest.mark.timeout(60)
def test_a_pipe_in_its_place_hangs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / lbaformats.NAME)

    with pytest.raises(HostLacks, match="which LBA formats were changed is not known"):
        lbaformats.changed_formats(directory=tmp_path)


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / lbaformats.NAME).write_text("[")

    with pytest.raises(HostLacks, match="which LBA formats were changed is not known"):
        lbaformats.changed_formats(directory=tmp_path)


def test_every_flipped_bit_is_a_sentence(tmp_path: Path, now: dict[str, LbaFormat]) -> None:
    lbaformats.remember_format("d", SECOND, directory=tmp_path)
    now["d"] = FIRST
    path = tmp_path / lbaformats.NAME
    data = path.read_bytes()

    for place in range(len(data)):
        for bit in range(8):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])

            with pytest.raises(HostLacks, match="which LBA formats were changed is not known"):
                lbaformats.changed_formats(directory=tmp_path)


def test_a_file_of_an_older_version_names_the_version_that_reads_it(tmp_path: Path) -> None:
    old = {"d": SECOND.model_dump(mode="json", by_alias=True)}
    (tmp_path / lbaformats.NAME).write_text(json.dumps(old, indent=1) + "\n")

    with pytest.raises(HostLacks, match="which LBA formats were changed is not known") as refused:
        lbaformats.changed_formats(directory=tmp_path)

    assert "ssdbench 1.0.0 reads the files of older versions" in refused.value.hint
