"""Logs as evidence: packed, and read as if they were not."""

from pathlib import Path

import pytest

from ssdbench.host import regular

TEXT = "1, 0, 4096" + ", 0" * 1856 + "\n"


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """Logs of three threads."""
    paths = [tmp_path / f"00-job_clat_hist.{thread}.log" for thread in (1, 2, 3)]
    for path in paths:
        path.write_text(f"{path.name}\n" + TEXT * 300)
    return paths


def read(directory: Path) -> list[str]:
    texts = []
    for path in regular.find_logs(directory, "00-job_clat_hist.*.log"):
        with regular.open_log(path) as lines:
            texts.append(lines.read())
    return texts


def test_packed_logs_are_small_and_read_the_same(logs: list[Path], tmp_path: Path) -> None:
    before, size = read(tmp_path), sum(path.stat().st_size for path in logs)

    regular.pack_logs(logs)

    left = list(tmp_path.iterdir())
    assert {path.suffix for path in left} == {".gz"}
    assert sum(path.stat().st_size for path in left) < size / 30
    assert read(tmp_path) == before


def test_one_packed_by_half_is_read_from_the_whole_one(logs: list[Path], tmp_path: Path) -> None:
    before = read(tmp_path)
    (tmp_path / f"{logs[1].name}.gz").write_bytes(b"\x1f\x8b torn")

    assert read(tmp_path) == before


def test_the_same_log_packs_to_the_same_bytes(logs: list[Path]) -> None:
    for path in logs[1:]:
        path.write_bytes(logs[0].read_bytes())

    regular.pack_logs(logs)

    assert len({path.with_name(f"{path.name}.gz").read_bytes() for path in logs}) == 1


def test_a_log_that_cannot_be_packed_stays(tmp_path: Path) -> None:
    (tmp_path / "a.log").mkdir()

    regular.pack_logs([tmp_path / "a.log", tmp_path / "none.log"])

    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]
