"""Foreign input in great numbers: short for every change, the whole count in `nox -s soak`."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from ssdbench.cli import background
from ssdbench.engine.journal import Journal, Kind
from ssdbench.host import processes
from ssdbench.model import records
from ssdbench.tuning.journal import CHANGING
from ssdbench.tuning.setting import Backend
from tests.fuzz import hunts
from tests.support.builders import a_full_run, a_small_run

SHORT = {"profiles": 1_500, "directories": 400, "rendered": 2, "answers": 3_000}
WHOLE = {"profiles": 1_000_000, "directories": 100_000, "rendered": 1_000, "answers": 1_000_000}
COUNTS = [
    pytest.param(SHORT, id="short"),
    pytest.param(WHOLE, id="whole", marks=(pytest.mark.soak, pytest.mark.timeout(0))),
]


def a_stored_run(base: Path) -> Path:
    """A small run with every file that commands read of one."""
    a_small_run(base)
    (base / background.PROCESS).write_text(json.dumps(asdict(processes.ours())))
    background.end(base, 1)
    (base / "events.jsonl").write_text('{"event": "RunStarted", "text": "started"}\n' * 3)
    (base / "progress.json").write_text('{"text": "fill", "fraction": 0.5, "left_s": 9.0}')
    journal = Journal.create(base / "journal.jsonl")
    for unit in ("a", "b"):
        journal.append(Kind.BEGUN, stage="01-fill", unit=unit, data={"bytes": 4096})
    journal.close()
    return base


@pytest.mark.parametrize("counts", COUNTS)
def test_no_profile_ends_in_a_traceback(counts: dict[str, int]) -> None:
    right = hunts.profiles(counts["profiles"])

    assert 0 < right < counts["profiles"]


@pytest.mark.parametrize("counts", COUNTS)
def test_no_damaged_run_directory_ends_in_a_traceback(
    tmp_path: Path, counts: dict[str, int]
) -> None:
    sound = hunts.directories(a_stored_run(tmp_path), counts["directories"])

    assert 0 < sound < counts["directories"]


@pytest.mark.parametrize("counts", COUNTS)
def test_every_result_that_is_read_is_rendered(tmp_path: Path, counts: dict[str, int]) -> None:
    half = counts["rendered"] // 2
    for make, seed in ((a_small_run, 1), (a_full_run, 2)):
        base = tmp_path / str(seed)
        make(base)

        assert hunts.rendered(base, half, seed) == half


@pytest.mark.parametrize("counts", COUNTS)
def test_no_answer_of_fio_ends_in_a_traceback(counts: dict[str, int]) -> None:
    believed = hunts.answers(counts["answers"])

    assert 0 < believed < counts["answers"]


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
