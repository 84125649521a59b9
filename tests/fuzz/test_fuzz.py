"""Foreign input in great numbers: short for every change, the whole count in `nox -s soak`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ssdbench.model import records
from ssdbench.tuning.journal import CHANGING
from ssdbench.tuning.setting import Backend
from tests.fuzz import hunts
from tests.support.builders import a_full_run, a_small_run

WHOLE = {"profiles": 1_000_000, "directories": 100_000, "rendered": 1_000, "answers": 1_000_000}


def test_no_profile_ends_in_a_traceback() -> None:
    assert 0 < hunts.profiles(1_500) < 1_500


def test_no_damaged_run_directory_ends_in_a_traceback(tmp_path: Path) -> None:
    assert 0 < hunts.directories(hunts.a_stored_run(tmp_path), 800) < 800


@pytest.mark.parametrize("make", [a_small_run, a_full_run])
def test_every_result_that_is_read_is_rendered(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path)

    assert hunts.rendered(tmp_path, 1) == 1


def test_no_answer_of_fio_ends_in_a_traceback() -> None:
    assert 0 < hunts.answers(3_000) < 3_000


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("hunt", WHOLE)
def test_nothing_is_found_in_the_whole_count(tmp_path: Path, hunt: str) -> None:
    assert hunts.seeds(hunt, 1, WHOLE[hunt] // hunts.SHARES[hunt], tmp_path / "ledger") == 0


def test_a_hunt_that_was_stopped_goes_on_after_its_last_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def hunted(count: int, seed: int) -> int:
        asked.append(seed)
        assert seed != 3
        return count

    monkeypatch.setitem(hunts.HUNTS, "answers", hunted)

    assert [hunts.seeds("answers", 1, last, tmp_path / "ledger") for last in (2, 4, 4)] == [0, 1, 1]
    assert asked == [1, 2, 3, 4, 3]


def test_no_byte_of_a_settings_journal_can_be_cut_or_flipped_into_another_change() -> None:
    change = {
        "kind": CHANGING,
        "n": 1,
        "at": "2026-01-01T00:00:00.000+00:00",
        "backend": Backend.BLOCK,
        "attribute": "queue/scheduler",
        "drive": "eui.1",
        "was": "none",
        "wanted": "kyber",
        "reason": "r",
        "boot_id": "b",
        "host_id": "h",
    }
    other = {**change, "n": 2, "attribute": "queue/nr_requests", "was": "100"}
    settled = {"kind": "restored", "n": 2}
    text = "".join(records.line(record) + "\n" for record in (change, other, settled)).encode()

    assert hunts.settings(text) == 9 * len(text)
